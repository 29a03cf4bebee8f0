"""Multiply the matrices of a batch with one that they share at once.

    bmm(a, expand(b))   ->   mm(a as one matrix, b)      with b of [1, k, p]

A product that broadcasts, as of `matmul(a, b.unsqueeze(1))`, is exported with the shared
factor written out for each matrix, and reads all of that.

Needs:  edge dialect, known sizes; attention that is written out was found before.
Keeps:  outputs up to rounding.
"""

from __future__ import annotations

from typing import Any, cast

import torch
from torch.fx import Graph, Node

from penlight.passes.base import add_node, add_view, is_static

aten = torch.ops.aten


def share_factors(graph: Graph) -> int:
    """Rewrite `graph` in place; return how many products changed."""
    changed = 0
    for node in graph.find_nodes(op="call_function", target=aten.bmm.default):
        first, second = cast(tuple[Node, Node], node.args)
        if not is_static(first, second) or 0 in node.meta["val"].shape:
            continue
        shared = _shared(second)
        if shared is None:
            continue
        count, rows, depth = first.meta["val"].shape
        columns = second.meta["val"].shape[-1]
        with graph.inserting_before(node):
            factors = add_view(graph, first, (count * rows, depth)), add_view(graph, shared, (depth, columns))
            product = add_node(graph, aten.mm.default, factors, (count * rows, columns), node)
            result = add_view(graph, product, (count, rows, columns))
        node.replace_all_uses_with(result)
        graph.erase_node(node)
        changed += 1
    return changed


def _shared(batch: Node) -> Node | None:
    """The one matrix of which `batch` has all, if it is repeated at all."""
    count, *matrix = batch.meta["val"].shape
    node: Any = batch
    while node.target is aten.view_copy.default and list(node.args[0].meta["val"].shape[-2:]) == matrix:
        node = node.args[0]
    if node.target is not aten.expand_copy.default or not is_static(node.args[0]):
        return None
    one: Node = node.args[0]
    sizes = list(one.meta["val"].shape)
    alone = sizes[-2:] == matrix and all(size == 1 for size in sizes[:-2])
    return one if alone and count > 1 else None
