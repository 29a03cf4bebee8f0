"""Remove operators that give back what they were given.

Needs:  edge dialect.
Keeps:  every output's shape, dtype and value. A result that is an input or a
        constant as it came stays a copy, so that outputs own their memory.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.fx import Graph, Node

from penlight.passes.base import tensor_of

aten = torch.ops.aten

# Equal shape and dtype are enough for these to change nothing.
_COPIES = frozenset(
    {
        aten.clone.default,
        aten.alias_copy.default,
        aten.lift_fresh_copy.default,
        aten.detach_copy.default,
        aten._to_copy.default,
        aten.view_copy.default,
        aten.expand_copy.default,
        aten.slice_copy.Tensor,
        aten.squeeze_copy.dim,
        aten.squeeze_copy.dims,
        aten.squeeze_copy.default,
        aten.unsqueeze_copy.default,
        aten.repeat.default,
    }
)


def remove_no_ops(graph: Graph) -> int:
    """Bypass them; return how many."""
    removed = 0
    for node in graph.nodes:
        if node.op != "call_function" or not node.args or not isinstance(node.args[0], Node):
            continue
        source = node.args[0]
        if _does_nothing(node, source) and not (_is_result(node) and source.op == "placeholder"):
            node.replace_all_uses_with(source)
            removed += 1
    return removed


def _does_nothing(node: Node, source: Node) -> bool:
    value, before = tensor_of(node), tensor_of(source)
    if value is None or before is None or not same_type(value, before):
        return False
    if node.target in _COPIES:
        # A clone that asks for a layout converts one.
        return "memory_format" not in node.kwargs and value.stride() == before.stride()
    if node.target is aten.permute_copy.default:
        return list(node.args[1]) == list(range(value.dim()))  # type: ignore[arg-type]
    if node.target is aten.constant_pad_nd.default:
        return all(amount == 0 for amount in node.args[1] if isinstance(amount, int)) and all(  # type: ignore[union-attr]
            isinstance(amount, int)
            for amount in node.args[1]  # type: ignore[union-attr]
        )
    if node.target in (aten.cat.default,):
        return False
    check = _NEUTRAL.get(node.target)
    return check is not None and check(node.args, node.kwargs)


def _is(position: int, number: float) -> Callable[[Any, Any], bool]:
    def check(args: Any, kwargs: Any) -> bool:
        if len(args) <= position or kwargs.get("alpha", 1) != 1 or len(args) > position + 1:
            return False
        return (
            isinstance(args[position], int | float)
            and not isinstance(args[position], bool)
            and args[position] == number
        )

    return check


# x - 0 is x for every x, signed zeros and NaN included; x + 0 turns -0 into 0, which compares equal.
_NEUTRAL: dict[Any, Callable[[Any, Any], bool]] = {
    aten.add.Scalar: _is(1, 0),
    aten.sub.Scalar: _is(1, 0),
    aten.mul.Scalar: _is(1, 1),
    aten.div.Scalar: _is(1, 1),
    aten.pow.Tensor_Scalar: _is(1, 1),
}


def same_type(a: torch.Tensor, b: torch.Tensor) -> bool:
    """Equal dtype and sizes, without adding a guard on symbolic ones."""
    return a.dtype == b.dtype and a.dim() == b.dim() and all(map(same_size, a.shape, b.shape))


def same_size(a: Any, b: Any) -> bool:
    """Are two sizes equal for sure?"""
    if isinstance(a, int) and isinstance(b, int):
        return a == b
    return str(a) == str(b)


def _is_result(node: Node) -> bool:
    return any(user.op == "output" for user in node.users)
