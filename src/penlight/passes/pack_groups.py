"""Put the operator over packed weights in place of products by group, which experts of mixtures are.

    grouped_linear(x, weight, ends)   ->   grouped_linear_packed(x, packed, ends, outputs)

The panels of a linear layer, of one group after the other, are made when the program is.

A weight that something else reads too stays as it is: packed, it would be in the file twice.

Needs:  edge dialect, float32, a constant weight.
Keeps:  outputs up to rounding.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

from torch._ops import OpOverload
from torch.fx import Graph, Node

from penlight.ir.tensors import Derived
from penlight.passes.base import Leave, replace_call
from penlight.passes.constants import Constants
from penlight.passes.pack_weights import shortened
from penlight.passes.packing import pack_groups as as_panels

_GROUPED = "penlight::grouped_linear"


def is_for_groups(user: Node, weight: Node) -> bool:
    """Does `user` read it as the matrices of groups?"""
    is_grouped = isinstance(user.target, OpOverload) and user.target._schema.name == _GROUPED
    return is_grouped and user.args[1] is weight


def pack_groups(packed: OpOverload, kept: Collection[str] = ()) -> Callable[[Graph, Constants, Leave], int]:
    """The pass that rewrites to `packed`. Constants of `kept` stay as they are."""

    def pack_groups(graph: Graph, constants: Constants, leave: Leave) -> int:
        changed = 0
        for node in list(graph.nodes):
            weight: Any = node.args[1] if len(node.args) > 1 else None
            if not isinstance(weight, Node) or not is_for_groups(node, weight):
                continue
            reason = _obstacle(node, weight, constants, kept)
            if reason is not None:
                leave(node, reason)
                continue
            name = constants.add(f"{constants.names[weight]}.packed", _panels(constants.derived(weight)))
            outputs = node.meta["val"].shape[1]
            replace_call(graph, node, packed, (node.args[0], name, node.args[2], outputs))
            changed += 1
        return changed

    return pack_groups


def _panels(weight: Derived) -> Derived:
    return as_panels(shortened(weight, None))


def _obstacle(node: Node, weight: Node, constants: Constants, kept: Collection[str]) -> str | None:
    like = constants.like(weight)
    if like is None or not constants.can_add():
        return "its weight is not a constant"
    if str(like.dtype) != "torch.float32" or node.meta["val"].dtype != like.dtype:
        return "it is not of float32"
    if 0 in like.shape:
        return "its weight is empty"
    if constants.names[weight] in kept or not all(is_for_groups(user, weight) for user in weight.users):
        return "something else reads the weight as it is"
    return None
