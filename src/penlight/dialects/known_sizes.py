"""Sizes that torch.export takes for computed though they depend on constants alone.

`torch.arange(n).max() + 1`, or the lengths in a buffer that nothing writes, are numbers that a traced program
does not have. They are computed here, so that what has such a size is bounded by it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import sympy
import torch
from torch._ops import OpOverload
from torch.fx import Node
from torch.fx.node import map_arg
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import _disable_current_modes

from penlight.ir.edge import EdgeMethod, InputKind

_LARGEST = 1 << 20  # elements of a tensor that is worth computing


def bound_by_constants(method: EdgeMethod, tensors: Mapping[str, torch.Tensor]) -> None:
    """Give symbols that stand for numbers known now those as both of their bounds."""
    values: dict[Node, Any] = {
        node: tensors[spec.target]
        for spec, node in method.placeholders()
        if spec.kind is InputKind.CONSTANT and spec.target is not None
    }
    known = set(values)
    for node in method.graph.nodes:
        if node.op != "placeholder" and _is_pure(node) and known.issuperset(node.all_input_nodes):
            known.add(node)
            bindings = node.meta.get("unbacked_bindings") or {}
            for symbol, number in _numbers(node, bindings, values).items():
                method.bounds[symbol] = (number, number)


def _is_pure(node: Node) -> bool:
    if node.op != "call_function":
        return False
    target = node.target
    if isinstance(target, OpOverload):
        if target._schema.is_mutable or torch.Tag.nondeterministic_seeded in target.tags:
            return False
    elif getattr(target, "__module__", None) not in ("_operator", "math"):
        return False
    value = node.meta.get("val")
    sizes = [
        size for item in pytree.tree_leaves(value) if isinstance(item, torch.Tensor) for size in item.shape
    ]
    product = 1
    for size in sizes:
        product *= size if isinstance(size, int) else 1
    return product <= _LARGEST


def _numbers(node: Node, bindings: Mapping[Any, Any], values: dict[Node, Any]) -> dict[sympy.Symbol, int]:
    """The symbols that `node` brings, and what they are."""
    if not bindings:
        return {}
    try:
        with torch.no_grad(), _disable_current_modes():
            value = _value(node, values)
        found = {symbol: pytree.key_get(value, path) for symbol, path in bindings.items()}
    except Exception:  # the program will say at run time what is wrong with it
        return {}
    return {
        symbol: int(number)
        for symbol, number in found.items()
        if isinstance(number, int) and 0 <= number < 2**31
    }


def _value(node: Node, values: dict[Node, Any]) -> Any:
    """What it gives; what it depends on is computed first, in the order of the graph."""
    waiting, needed = [node], set()
    while waiting:
        one = waiting.pop()
        if one not in values and one not in needed:
            needed.add(one)
            waiting += one.all_input_nodes
    for one in sorted(needed):
        args, kwargs = map_arg((one.args, one.kwargs), lambda n: values[n])
        values[one] = one.target(*args, **kwargs)  # type: ignore[operator]
    return values[node]
