"""Find activations written out, and make each the operator that layers apply themselves.

    0.5 * x * (1 + erf(x / sqrt(2)))                                   ->   gelu(x)
    0.5 * x * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 * x ** 3)))       ->   gelu(x, approximate="tanh")
    x * sigmoid(x)                                                     ->   silu(x)
    x * clamp(x + 3, 0, 6) / 6                                         ->   hardswish(x)
    prelu(x, weight) with one slope for all channels                   ->   leaky_relu(x, slope)

in any order of the factors, with squares and cubes as powers or products.

Needs:  edge dialect, float32.
Keeps:  outputs up to rounding.
Runs:   before layers take what is behind them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.fx import Graph, Node

from penlight.passes.base import tensor_of
from penlight.passes.bounds import bounds_of
from penlight.passes.constants import Constants
from penlight.passes.layouts import same_sizes, sizes_of

aten = torch.ops.aten


@dataclass
class Product:
    """A number times tensors."""

    number: float = 1.0
    factors: list[Node] = field(default_factory=list)


def fuse_written_activations(graph: Graph, constants: Constants) -> int:
    """Rewrite `graph` in place; return how many were found."""
    found = 0
    for node in reversed(list(graph.nodes)):
        if node.target is aten._prelu_kernel.default:
            match = _one_slope(node, constants)
        elif node.target in (aten.mul.Tensor, aten.mul.Scalar, aten.div.Scalar) and not node.kwargs:
            match = _match(node)
        else:
            continue
        if match is None:
            continue
        with graph.inserting_before(node):
            new = graph.call_function(*match)
        new.meta = dict(node.meta)
        node.replace_all_uses_with(new)
        found += 1
    return found


Call = tuple[Any, tuple[Any, ...], dict[str, Any]]


def _one_slope(node: Node, constants: Constants) -> Call | None:
    x, weight = node.args
    like = constants.like(weight)
    if not isinstance(x, Node) or like is None or like.numel() != 1 or like.dtype is not torch.float32:
        return None
    slope = constants.get(weight).item()  # type: ignore[union-attr]
    return (aten.leaky_relu.default, (x, slope), {}) if math.isfinite(slope) else None


def _match(node: Node) -> Call | None:
    product, value = _product(node, root=True), tensor_of(node)
    if len(product.factors) != 2 or value is None or value.dtype is not torch.float32:
        return None
    for x, other in (product.factors, product.factors[::-1]):
        before = tensor_of(x)
        if before is None or before.dtype is not torch.float32:
            continue
        if not same_sizes(sizes_of(before), sizes_of(value)):
            continue
        if product.number == 1 and other.target is aten.sigmoid.default and other.args[0] is x:
            return aten.silu.default, (x,), {}
        if _near(product.number, 1 / 6) and _is_ramp(other, x):
            return aten.hardswish.default, (x,), {}
        inner = _plus_one(other) if _near(product.number, 0.5) else None
        if inner is not None and inner.target is aten.erf.default and _is(inner.args[0], math.sqrt(0.5), x):
            return aten.gelu.default, (x,), {}
        if inner is not None and inner.target is aten.tanh.default and _is_bent(inner.args[0], x):
            return aten.gelu.default, (x,), {"approximate": "tanh"}
    return None


def _near(number: float, wanted: float) -> bool:
    return math.isclose(number, wanted, rel_tol=1e-6)


def _product(node: Any, *, root: bool = False) -> Product:
    """What `node` is a product of. A factor that is read in several places is not taken apart."""
    if not isinstance(node, Node):
        return Product(math.nan if isinstance(node, complex) else float(node))  # NaN: near no number
    args: Any = node.args
    if node.kwargs or not (root or len(node.users) == 1):
        return Product(1.0, [node])
    if node.target in (aten.mul.Tensor, aten.mul.Scalar):
        a, b = (_product(arg) for arg in args[:2])
        return Product(a.number * b.number, a.factors + b.factors)
    if node.target is aten.div.Scalar and isinstance(args[1], int | float) and args[1] != 0:
        a = _product(args[0])
        return Product(a.number / args[1], a.factors)
    if node.target is aten.pow.Tensor_Scalar and args[1] in (2, 3):
        return Product(1.0, [args[0]] * int(args[1]))
    if node.target is aten.square.default:
        return Product(1.0, [args[0]] * 2)
    return Product(1.0, [node])


def _is(node: Any, number: float, *factors: Node) -> bool:
    product = _product(node)
    return _near(product.number, number) and tuple(product.factors) == factors


def _plus_one(node: Node) -> Node | None:
    """What 1 is added to."""
    if node.target is not aten.add.Scalar or node.kwargs or node.args[1] != 1:
        return None
    return node.args[0] if isinstance(node.args[0], Node) else None


def _is_bent(node: Any, x: Node) -> bool:
    """sqrt(2 / pi) * (x + 0.044715 * x ** 3), or with x before the bracket."""
    product = _product(node)
    if not _near(product.number, math.sqrt(2 / math.pi)) or not product.factors:
        return False
    (*before, last) = sorted(product.factors, key=lambda factor: factor is not x)
    if before == [x]:
        inner = _plus_one(last)
        return inner is not None and _is(inner, 0.044715, x, x)
    if before or last.target is not aten.add.Tensor or last.kwargs:
        return False
    a, b = last.args
    return (a is x and _is(b, 0.044715, x, x, x)) or (b is x and _is(a, 0.044715, x, x, x))


def _is_ramp(node: Node, x: Node) -> bool:
    """clamp(x + 3, 0, 6)"""
    if bounds_of(node) != (0, 6):
        return False
    raised = node.args[0]
    is_sum = isinstance(raised, Node) and raised.target is aten.add.Scalar and not raised.kwargs
    return is_sum and tuple(raised.args) == (x, 3)  # type: ignore[union-attr]
