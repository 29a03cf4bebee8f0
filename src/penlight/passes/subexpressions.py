"""Compute equal things once: nodes with the same operator and arguments become one.

Needs:  functional operators.
Keeps:  every output. Random operators differ from call to call and stay, and so
        do control flow and operators of the user's that may have effects.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

import torch
from torch._ops import HigherOrderOperator, OpOverload
from torch.fx import Graph, Node

from penlight.ir.edge import IMAGE


def merge_subexpressions(graph: Graph) -> int:
    """Rewrite `graph` in place; return how many nodes were merged into an earlier one."""
    seen: dict[Hashable, Node] = {}
    merged = 0
    results = set(graph.output_node().all_input_nodes)
    for node in graph.nodes:
        if node.op != "call_function" or not _is_pure(node.target):
            continue
        key = _key(node)
        if key is None:
            continue
        first = seen.setdefault(key, node)
        # Two results of a method are two tensors, even when they are equal.
        if first is not node and not (node in results and first in results):
            node.replace_all_uses_with(first)
            merged += 1
            if node in results:
                results.add(first)
    return merged


def _is_pure(target: Any) -> bool:
    if isinstance(target, HigherOrderOperator):
        return False
    if isinstance(target, OpOverload):
        if torch.Tag.nondeterministic_seeded in target.tags or target._schema.is_mutable:
            return False
        return target.namespace in ("aten", "prims", "penlight")
    return True


def _key(node: Node) -> Hashable | None:
    try:
        key = (node.target, _frozen(node.args), _frozen(node.kwargs), IMAGE in node.meta)
        hash(key)
    except TypeError:
        return None
    return key


def _frozen(value: Any) -> Hashable:
    """Hashable, with 1, 1.0 and True told apart, and 0.0 from -0.0."""
    if isinstance(value, Node):
        return value
    if isinstance(value, list | tuple):
        return ("list", *map(_frozen, value))
    if isinstance(value, dict):
        return tuple(sorted((name, _frozen(item)) for name, item in value.items()))
    if isinstance(value, slice):
        return ("slice", _frozen(value.start), _frozen(value.stop), _frozen(value.step))
    return type(value), repr(value) if isinstance(value, float) else value
