"""Make a plain view of what gives back the elements in the order they lie in.

    permute(x, [1, 0, 2])  with x of [197, 1, 192]                  ->   view(x, [1, 197, 192])
    view(permute(permute(view(x, [2, 4, 3, 8]), ...), ...), ...)    ->   view(x, ...)

What only moves dimensions of size 1, or undoes what another did, moves nothing. As a
view it costs nothing either way, but no pass need look through it to see what is
before it.

Needs:  edge dialect.
Keeps:  every output's shape, dtype and value.
Runs:   before views are merged.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch.fx import Graph, Node

from penlight.passes.base import tensor_of
from penlight.passes.layouts import equal, layout_of, sizes_of, step_of
from penlight.passes.merge_views import RESHAPES

aten = torch.ops.aten


def simplify_views(graph: Graph) -> int:
    """Rewrite `graph` in place; return how many nodes became plain views."""
    changed = 0
    for node in list(graph.nodes):
        if step_of(node) is None or _is_plain(node):
            continue
        found = layout_of(node)
        if found is None or found[0] is node:
            continue
        base, layout = found
        sizes = view_sizes(node)
        count, whole = (math.prod(sizes_of(tensor_of(n)), start=1) for n in (node, base))  # type: ignore[arg-type]
        if sizes is None or not layout.is_dense() or not equal(layout.offset, 0) or not equal(count, whole):
            continue
        with graph.inserting_before(node):
            view = graph.call_function(aten.view_copy.default, (base, sizes))
        view.meta = dict(node.meta)
        node.replace_all_uses_with(view)
        graph.erase_node(node)
        changed += 1
    return changed


def _is_plain(node: Node) -> bool:
    """A view of something that is no view of another kind."""
    source: Any = node.args[0]
    return node.target in RESHAPES and (step_of(source) is None or source.target in RESHAPES)


def view_sizes(node: Node) -> list[Any] | None:
    """The sizes of `node` as an argument of a view: as it was given them, or numbers and one -1."""
    if node.target is aten.view_copy.default:
        return list(node.args[1])  # type: ignore[arg-type]
    value: Any = tensor_of(node)
    sizes = [size if isinstance(size, int) else -1 for size in value.shape]
    return sizes if sizes.count(-1) < 2 and 0 not in sizes else None
