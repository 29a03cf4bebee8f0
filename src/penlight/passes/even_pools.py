"""Adaptive pools whose windows are all alike become pools with a stride.

    adaptive_avg_pool2d(x, [6, 3])   ->   avg_pool2d(x, [10, 20], [10, 20])   of 60 x 60 pixels
    adaptive_avg_pool2d(x, [7, 7])   ->   x                                   of 7 x 7

Pools to one element stay: there is vector code for these.

Needs:  edge dialect.
Keeps:  shapes, dtypes, places of maxima, and averages up to the order of sums.
"""

from __future__ import annotations

from typing import Any

import torch
from torch._ops import OpOverload
from torch.fx import Graph, Node

from penlight.passes.base import tensor_of

aten = torch.ops.aten

_AVERAGES: dict[Any, OpOverload] = {
    aten.adaptive_avg_pool1d.default: aten.avg_pool1d.default,
    aten.adaptive_avg_pool2d.default: aten.avg_pool2d.default,
    aten._adaptive_avg_pool2d.default: aten.avg_pool2d.default,
    aten.adaptive_avg_pool3d.default: aten.avg_pool3d.default,
    aten._adaptive_avg_pool3d.default: aten.avg_pool3d.default,
}
_MAXIMA: dict[Any, OpOverload] = {
    aten.adaptive_max_pool2d.default: aten.max_pool2d_with_indices.default,
    aten.adaptive_max_pool3d.default: aten.max_pool3d_with_indices.default,
}


def pool_evenly(graph: Graph) -> int:
    """Rewrite `graph` in place; return how many pools changed."""
    changed = 0
    for node in list(graph.nodes):
        averages = node.target in _AVERAGES
        if not averages and node.target not in _MAXIMA:
            continue
        window = _window_of(node)
        if window is None:
            continue
        source: Any = node.args[0]
        if averages and all(size == 1 for size in window) and source.op != "placeholder":
            node.replace_all_uses_with(source)
        else:
            node.target = (_AVERAGES if averages else _MAXIMA)[node.target]
            node.args = (source, window, window)
        changed += 1
    return changed


def _window_of(node: Node) -> list[int] | None:
    """The sizes of each window; None where they differ or are not known."""
    value = tensor_of(node.args[0])
    wanted: Any = node.args[1]
    if value is None or all(size == 1 for size in wanted):
        return None
    given = value.shape[-len(wanted) :]
    if not all(isinstance(size, int) for size in (*given, *wanted)):
        return None
    if any(to < 1 or size < to or size % to for size, to in zip(given, wanted, strict=True)):
        return None
    return [size // to for size, to in zip(given, wanted, strict=True)]
