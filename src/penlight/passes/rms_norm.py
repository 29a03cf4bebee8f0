"""Find RMS norm written out, and make it one operator.

    x * rsqrt(mean(x^2, -1) + eps) [* weight]

as models of the Llama family have it, with casts to float32 around it or not,
and the square as pow(x, 2), x * x or square.

Needs:  edge dialect; a kernel of penlight::rms_norm for the target.
Keeps:  outputs up to rounding.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch._ops import OpOverload
from torch.fx import Graph, Node

from penlight.passes.base import Leave, tensor_of
from penlight.passes.layouts import equal, sizes_of

aten = torch.ops.aten


def fuse_rms_norm(rms_norm: OpOverload) -> Callable[[Graph, Leave], int]:
    """The pass that puts `rms_norm`, with the schema of aten::rms_norm, in place of its parts."""

    def fuse_rms_norm(graph: Graph, leave: Leave) -> int:
        found = 0
        for node in graph.find_nodes(op="call_function", target=aten.mul.Tensor):
            match = _match(node)
            if match is None:
                scales = [s for s in node.args if isinstance(s, Node) and s.target is aten.rsqrt.default]
                if scales:
                    leave(node, "the reciprocal root is not of a mean of squares over the last dimension")
                continue
            x, eps = match
            last, weight = _weighted(node)
            with graph.inserting_before(last):
                size: Any = tensor_of(x).shape[-1]  # type: ignore[union-attr]
                fused = graph.call_function(rms_norm, (x, [size], weight, eps))
            fused.meta = dict(last.meta)
            last.replace_all_uses_with(fused)
            found += 1
        return found

    return fuse_rms_norm


def _match(node: Node) -> tuple[Node, float] | None:
    """x and eps, if `node` is x * rsqrt(mean(x^2, -1, keepdim) + eps)."""
    for x, scale in (node.args, reversed(node.args)):
        if not isinstance(x, Node) or not isinstance(scale, Node) or scale.target is not aten.rsqrt.default:
            continue
        total: Any = scale.args[0]
        if total.target is not aten.add.Scalar or total.kwargs or not isinstance(total.args[1], float):
            continue
        mean: Any = total.args[0]
        value = tensor_of(x)
        if mean.target is not aten.mean.dim or mean.kwargs or value is None or value.dim() < 1:
            continue
        dims, keep = mean.args[1], mean.args[2] if len(mean.args) > 2 else False
        if not keep or [dim % value.dim() for dim in dims] != [value.dim() - 1]:
            continue
        kept = tensor_of(scale)
        static = isinstance(value.shape[-1], int) and value.is_floating_point()
        if static and _is_square(mean.args[0], x) and kept is not None and kept.dtype == value.dtype:
            return x, total.args[1]
    return None


def _is_square(node: Any, x: Node) -> bool:
    if node.target is aten.pow.Tensor_Scalar:
        return node.args[0] is x and node.args[1] == 2
    if node.target is aten.square.default:
        return node.args[0] is x
    return node.target is aten.mul.Tensor and tuple(node.args) == (x, x)


def _weighted(norm: Node) -> tuple[Node, Node | None]:
    """The product with the weight, if that is all the normalised value is used for."""
    value = tensor_of(norm)
    if len(norm.users) == 1 and value is not None:
        (user,) = norm.users
        if user.target is aten.mul.Tensor:
            other: Any = user.args[1] if user.args[0] is norm else user.args[0]
            weight = tensor_of(other)
            if (
                weight is not None
                and weight.dim() == 1
                and equal(sizes_of(weight)[0], sizes_of(value)[-1])
                and weight.dtype == value.dtype
            ):
                return user, other
    return norm, None
