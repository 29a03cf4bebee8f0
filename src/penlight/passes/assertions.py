"""Remove checks that torch.export records: the runtime checks inputs by its own bounds.

Needs:  any dialect.
Keeps:  every output; sizes keep the ranges that export proved.
"""

from __future__ import annotations

import torch
from torch.fx import Graph

aten = torch.ops.aten

_CHECKS = frozenset(
    {
        aten._assert_tensor_metadata.default,
        aten._assert_async.default,
        aten._assert_async.msg,
        aten._assert_scalar.default,
        aten.sym_constrain_range.default,
        aten.sym_constrain_range_for_size.default,
        aten._functional_assert_async.msg,
        aten._functional_assert_scalar.default,
        torch._check,
    }
)


def remove_assertions(graph: Graph) -> int:
    """Erase the checks; what only they used dies with them."""
    found = [node for node in graph.nodes if node.op == "call_function" and node.target in _CHECKS]
    for node in reversed(found):
        graph.erase_node(node)
    return len(found)
