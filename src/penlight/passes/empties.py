"""Results without elements need no computing: `full` of their size takes the place of what made them.

Kernels differ in what they say to empty arguments (a `cat` of nothing), and nothing
depends on their answer. Empty parts of a `cat` go for the same reason.

Needs:  edge dialect, dtypes of a cat's parts equal.
Keeps:  every output's shape, dtype and value.
"""

from __future__ import annotations

import operator
from typing import Any

import torch
from torch._ops import OpOverload
from torch.fx import Graph, Node

from penlight.passes.base import has_effect, tensor_of

aten = torch.ops.aten
_MAKERS = (aten.full.default, aten.empty.memory_format)


def replace_empty_results(graph: Graph) -> int:
    """Rewrite `graph` in place; return how many nodes changed."""
    changed = 0
    for node in graph.nodes:
        if node.op != "call_function" or node.target in _MAKERS or has_effect(node):
            continue
        value = tensor_of(node)
        if value is not None and _is_empty(value):
            if isinstance(node.target, OpOverload) or node.target is operator.getitem:
                _replace(graph, node, value)
                changed += 1
        elif node.target is aten.cat.default:
            changed += _drop_empty_parts(node)
    return changed


def _is_empty(value: torch.Tensor) -> bool:
    """Statically so: every size known and one of them 0."""
    return all(isinstance(size, int) for size in value.shape) and 0 in value.shape


def _has_no_elements(value: torch.Tensor) -> bool:
    """Whatever its sizes are that are not known."""
    return any(isinstance(size, int) and size == 0 for size in value.shape)


def _replace(graph: Graph, node: Node, value: torch.Tensor) -> None:
    with graph.inserting_before(node):
        zero: Any = 0.0 if value.is_floating_point() else value.dtype is not torch.bool and 0
        new = graph.call_function(aten.full.default, (list(value.shape), zero), {"dtype": value.dtype})
    new.meta = dict(node.meta)
    node.replace_all_uses_with(new)


def _drop_empty_parts(node: Node) -> int:
    parts: Any = node.args[0]
    kept = [part for part in parts if not _has_no_elements(part.meta["val"])]
    if not kept or len(kept) == len(parts):
        return 0
    if len(kept) == 1:
        node.target, node.args, node.kwargs = aten.clone.default, (kept[0],), {}
    else:
        node.args = (kept, *node.args[1:])
    return 1
