"""Leave out the search for places that nothing reads.

    max(x, dim)[0]   ->   amax(x, [dim])

Needs:  edge dialect.
Keeps:  every output's shape, dtype and value.
"""

from __future__ import annotations

import torch
from torch.fx import Graph

aten = torch.ops.aten

_VALUES = {aten.max.dim: aten.amax.default, aten.min.dim: aten.amin.default}


def drop_unread_indices(graph: Graph) -> int:
    """Rewrite `graph` in place; return how many operators look for values alone now."""
    dropped = 0
    for node in list(graph.nodes):
        values = _VALUES.get(node.target)
        if values is None or any(user.args[1] != 0 for user in node.users):
            continue
        x, dim, *keepdim = node.args
        for user in list(node.users):
            with graph.inserting_before(user):
                new = graph.call_function(values, (x, [dim], *keepdim), dict(node.kwargs))
            new.meta = dict(user.meta)
            user.replace_all_uses_with(new)
        dropped += 1
    return dropped
