"""Move whole rows where one index stands for all elements of each.

    gather(x, 1, i.view(1, -1, 1).expand(1, -1, 64))        ->   index_select(x, 1, i.view(-1))
    scatter_add(x, 0, i.view(-1, 1).expand(-1, 64), y)      ->   index_add(x, 0, i.view(-1), y)
    scatter_reduce(x, 0, i.view(-1, 1).expand(-1, 64), y, "amax")
                                                            ->   index_reduce(x, 0, i.view(-1), y, "amax")

as networks over graphs and points have it, which take features of neighbours and add up
messages (Fey and Lenssen, "PyTorch Geometric", 2019). The index is as small as it was before
it was stretched, and a row is one copy.

Needs:  edge dialect.
Keeps:  every output's shape, dtype and value.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch.fx import Graph, Node

from penlight.passes.base import add_node, tensor_of
from penlight.passes.layouts import equal, sizes_of

aten = torch.ops.aten

_ZEROS = (aten.zeros.default, aten.zeros_like.default, aten.new_zeros.default)


def take_whole_rows(graph: Graph) -> int:
    """Rewrite `graph` in place; return how many gathers and scatters move rows now."""
    changed = 0
    for node in list(graph.nodes):
        if node.op != "call_function" or not _is_wanted(node):
            continue
        x, dim, index, *more = node.args
        found = _one_for_each_row(x, dim, index)
        source = more[0] if more and isinstance(more[0], Node) else None
        if found is None or (
            source is not None and sizes_of(source.meta["val"]) != sizes_of(index.meta["val"])
        ):
            continue
        count = tensor_of(index).shape[dim]  # type: ignore[union-attr]
        with graph.inserting_before(node):
            rows = add_node(graph, aten.view_copy.default, (found, [-1]), [count], found)
            new = _of_rows(graph, node, rows)
        new.meta = dict(node.meta)
        node.replace_all_uses_with(new)
        graph.erase_node(node)
        changed += 1
    return changed


def _is_wanted(node: Node) -> bool:
    """Is it a gather, or a scatter that adds or reduces as rows would?"""
    if node.target is aten.scatter_reduce.two:
        value = tensor_of(node)
        # 16-bit floats are rounded once by a scatter, and at each row by index_reduce.
        exact = value is not None and value.dtype not in (torch.float16, torch.bfloat16, torch.bool)
        return node.args[4] in ("sum", "amax", "amin") or exact
    return node.target in (aten.gather.default, aten.scatter_add.default) and not node.kwargs


def _of_rows(graph: Graph, node: Node, rows: Node) -> Node:
    """The call that does to whole rows what `node` does to their elements."""
    x, dim = node.args[:2]
    if node.target is aten.gather.default:
        return graph.call_function(aten.index_select.default, (x, dim, rows))
    source = node.args[3]
    reduction = node.args[4] if node.target is aten.scatter_reduce.two else "sum"
    starts_anew = not node.kwargs.get("include_self", True)
    if reduction != "sum":
        kwargs: dict[str, Any] = {"include_self": not starts_anew}
        return graph.call_function(aten.index_reduce.default, (x, dim, rows, source, reduction), kwargs)
    if starts_anew and not _is_zeros(x):
        zeroed = graph.call_function(aten.index_fill.int_Scalar, (x, dim, rows, 0))
        zeroed.meta = dict(node.meta)
        x = zeroed
    return graph.call_function(aten.index_add.default, (x, dim, rows, source))


def _is_zeros(node: Any) -> bool:
    return node.target in _ZEROS or (
        node.target is aten.full.default and node.args[1] == 0 and math.copysign(1, node.args[1]) > 0
    )


def _one_for_each_row(x: Any, dim: Any, index: Any) -> Node | None:
    """What `index` stretches, if that is a number for each place along `dim`, and rows are whole."""
    value, places = tensor_of(x), tensor_of(index)
    if value is None or places is None or value.dim() == 0 or places.dim() != value.dim():
        return None
    source: Node = index.args[0] if index.target is aten.expand_copy.default else index
    own: Any = tensor_of(source)
    missing = value.dim() - own.dim()
    for d, (size, wanted) in enumerate(zip(sizes_of(value), sizes_of(places), strict=True)):
        is_stretched = d < missing or equal(sizes_of(own)[d - missing], 1)
        if d == dim % value.dim():
            if d < missing or not equal(sizes_of(own)[d - missing], wanted):
                return None
        elif not is_stretched or not equal(size, wanted):
            return None
    return source
