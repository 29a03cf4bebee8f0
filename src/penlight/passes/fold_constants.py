"""Compute at compile time what depends on constants alone.

The file must not grow for it: a result is folded if it is small, or not larger
than the constants it replaces (which then die). So a transposed weight is
folded, and an expanded mask or a large `full` is not.

Needs:  edge dialect; Keeps: every output.
"""

from __future__ import annotations

import operator
from typing import Any

import torch
from torch._ops import OpOverload
from torch.fx import Graph, Node
from torch.fx.node import map_arg
from torch.utils._python_dispatch import _disable_current_modes

from penlight.passes.base import tensor_of
from penlight.passes.constants import Constants

# Bytes. Position tables and masks of a few thousand elements are worth their place in the file.
_SMALL = 16 * 1024


def fold_constants(graph: Graph, constants: Constants) -> int:
    """Replace nodes by constants; return how many."""
    if not constants.can_add():
        return 0
    values: dict[Node, Any] = {}  # nodes that depend on constants alone
    worth: list[Node] = []
    for node in graph.nodes:
        if node.op == "placeholder":
            tensor = constants.get(node)
            if tensor is not None:
                values[node] = tensor
        elif _can_fold(node) and all(n in values for n in node.all_input_nodes):
            values[node] = _Later(node)
    for node in values:
        # Only what something else uses needs a value: the frontier.
        if node.op != "placeholder" and any(user not in values for user in node.users):
            worth.append(node)
    folded = 0
    for node in worth:
        value = tensor_of(node)
        if value is None or not all(isinstance(size, int) for size in value.shape):
            continue
        if not _is_worth(node, values):
            continue
        result = _compute(node, values)
        if not isinstance(result, torch.Tensor):
            continue
        new = constants.add(f"folded.{node.name}", result.detach())
        node.replace_all_uses_with(new, delete_user_cb=lambda user: user not in values)
        folded += 1
    return folded


class _Later:
    """A value not computed yet."""

    def __init__(self, node: Node) -> None:
        self.node = node


def _can_fold(node: Node) -> bool:
    if node.op != "call_function":
        return False
    if node.target is operator.getitem:
        return True
    if not isinstance(node.target, OpOverload) or node.target.namespace not in ("aten", "prims"):
        return False
    return (
        torch.Tag.nondeterministic_seeded not in node.target.tags
        and not node.target._schema.is_mutable
        and "empty" not in node.target._schema.name
    )


def _is_worth(node: Node, values: dict[Node, Any]) -> bool:
    value = tensor_of(node)
    assert value is not None
    if value.numel() * value.element_size() <= _SMALL:
        return True
    replaced = 0
    seen, todo = set(), [node]
    while todo:
        for source in todo.pop().all_input_nodes:
            if source in seen:
                continue
            seen.add(source)
            if source.op != "placeholder":
                todo.append(source)
            elif all(user in seen or user is node for user in source.users):
                tensor = values[source]
                replaced += tensor.numel() * tensor.element_size()
    return value.numel() * value.element_size() <= replaced


def _compute(node: Node, values: dict[Node, Any]) -> Any:
    """The value of `node`; computes what it needs first, without recursion."""
    order: list[Node] = []
    todo = [node]
    while todo:
        current = todo[-1]
        waiting = [n for n in current.all_input_nodes if isinstance(values[n], _Later) and n is not current]
        if waiting:
            todo.extend(waiting)
            continue
        todo.pop()
        if isinstance(values[current], _Later):
            args, kwargs = map_arg((current.args, current.kwargs), lambda n: values[n])
            with torch.no_grad(), _disable_current_modes():
                values[current] = current.target(*args, **kwargs)  # type: ignore[operator]
            order.append(current)
    return values[node]
