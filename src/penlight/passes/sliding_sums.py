"""Averages over windows along the depth alone, as sums of parts that are shifted.

    avg_pool3d(x, [k, 1, 1], [1, 1, 1])   ->   (x[:, :, :d] + x[:, :, 1:d + 1] + ... ) * (1 / k)

as local response norms have them, whose depth is an image's channels. The sums become one chain.

Needs:  edge dialect.
Keeps:  every output's shape and dtype, and its value up to rounding.
"""

from __future__ import annotations

from typing import Any

import torch
from torch.fx import Graph, Node

from penlight.passes.base import add_node, tensor_of

aten = torch.ops.aten

_MOST = 9  # parts: each is read once more


def sum_sliding_windows(graph: Graph) -> int:
    """Rewrite `graph` in place; return how many pools became sums."""
    changed = 0
    for node in graph.find_nodes(op="call_function", target=aten.avg_pool3d.default):
        length = _window(node)
        if length is None:
            continue
        x: Any = node.args[0]
        sizes = tensor_of(node).shape  # type: ignore[union-attr]
        dim, depth = len(sizes) - 3, sizes[-3]
        with graph.inserting_before(node):
            total: Any = None
            for first in range(length):
                part = add_node(graph, aten.slice_copy.Tensor, (x, dim, first, first + depth), sizes, node)
                total = (
                    part if total is None else add_node(graph, aten.add.Tensor, (total, part), sizes, node)
                )
            mean = add_node(graph, aten.mul.Scalar, (total, 1 / length), sizes, node)
        node.replace_all_uses_with(mean)
        graph.erase_node(node)
        changed += 1
    return changed


def _window(node: Node) -> int | None:
    """How long the windows are; None where they are no sums that slide along the depth."""
    value, args = tensor_of(node), node.args
    if (
        value is None
        or value.dtype is not torch.float32
        or node.kwargs
        or not isinstance(value.shape[-3], int)
    ):
        return None
    defaults: list[Any] = [[], [0], False, True, None]
    given: list[Any] = [*args[1:], *defaults[len(args) - 2 :]]
    window, stride, padding, ceil_mode, _, divisor = given
    fits = list(window[1:]) == [1, 1] and set(stride) == {1} and set(padding) == {0}
    return window[0] if fits and not ceil_mode and divisor is None and 1 < window[0] <= _MOST else None
