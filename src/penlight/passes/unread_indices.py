"""Leave out the search for places that nothing reads.

    max(x, dim)[0]                   ->   amax(x, [dim])
    adaptive_max_pool2d(x, 1)[0]     ->   amax(x, [-2, -1], True)

Needs:  edge dialect.
Keeps:  every output's shape, dtype and value.
"""

from __future__ import annotations

from typing import Any

import torch
from torch._ops import OpOverload
from torch.fx import Graph, Node

aten = torch.ops.aten

_VALUES = {aten.max.dim: aten.amax.default, aten.min.dim: aten.amin.default}
# And over how many dimensions they go.
_ADAPTIVE = {aten.adaptive_max_pool2d.default: 2, aten.adaptive_max_pool3d.default: 3}


def drop_unread_indices(graph: Graph) -> int:
    """Rewrite `graph` in place; return how many operators look for values alone now."""
    dropped = 0
    for node in list(graph.nodes):
        found = _values_of(node)
        if found is None or any(user.args[1] != 0 for user in node.users):
            continue
        values, arguments = found
        for user in list(node.users):
            with graph.inserting_before(user):
                new = graph.call_function(values, arguments, dict(node.kwargs))
            new.meta = dict(user.meta)
            user.replace_all_uses_with(new)
        dropped += 1
    return dropped


def _values_of(node: Node) -> tuple[OpOverload, tuple[Any, ...]] | None:
    """What gives the values that `node` finds, with its arguments."""
    target: Any = node.target
    if target in _VALUES:
        x, dim, *keepdim = node.args
        return _VALUES[target], (x, [dim], *keepdim)
    dims = _ADAPTIVE.get(target, 0)
    if dims and node.args[1] == [1] * dims:
        return aten.amax.default, (node.args[0], list(range(-dims, 0)), True)
    return None
