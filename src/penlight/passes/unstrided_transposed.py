"""Transposed convolutions without a stride, as convolutions.

    convolution(x, w, stride=1, padding=p, dilation=d, transposed=True)
        ->   convolution(x, w turned, stride=1, padding=d * (k - 1) - p, dilation=d)

Both multiply each element with each place of the window; the transposed one adds to where the other reads
from, which is the window the other way round. Convolutions have Winograd's algorithm, dilation and groups.

Needs:  edge dialect; not more padding than the window reaches.
Keeps:  every output's shape, dtype and value but for rounding.
"""

from __future__ import annotations

from typing import Any

import torch
from torch.fx import Graph, Node

from penlight.passes.base import add_node, add_permute, add_view, is_static, tensor_of

aten = torch.ops.aten


def turn_transposed(graph: Graph) -> int:
    """Rewrite `graph` in place; return how many transposed convolutions became convolutions.

    A weight that others read as it is would be in the file twice: it stays.
    """
    can = {node: around for node in graph.nodes if (around := _padding(node)) is not None}
    alone = [node for node in can if can.keys() >= node.args[1].users.keys()]
    kernels: dict[tuple[Node, int], Node] = {}
    for node in alone:
        args: Any = node.args
        x, weight, bias, stride, _, dilation, _, more, groups = args
        if (weight, groups) not in kernels:
            with graph.inserting_before(node):
                kernels[weight, groups] = _turned(graph, weight, groups)
        node.args = (x, kernels[weight, groups], bias, stride, can[node], dilation, False, more, groups)
    return len(alone)


def _padding(node: Node) -> list[int] | None:
    """Of the convolution that `node` can be; None where it can be none."""
    if node.target is not aten.convolution.default:
        return None
    args: Any = node.args
    _, weight, _, stride, padding, dilation, transposed, more, _ = args
    if not transposed or any(step != 1 for step in stride) or any(more) or not is_static(weight):
        return None
    window = tensor_of(weight).shape[2:]  # type: ignore[union-attr]
    each = zip(window, _each(dilation, window), _each(padding, window), strict=True)
    around = [d * (k - 1) - p for k, d, p in each]
    return around if min(around) >= 0 else None


def _turned(graph: Graph, weight: Any, groups: int) -> Node:
    """[inputs, outputs of a group, ...] -> [outputs, inputs of a group, ...], with its window turned."""
    inputs, outputs, *window = tensor_of(weight).shape  # type: ignore[union-attr]
    places = list(range(2, 2 + len(window)))
    node = add_node(graph, aten.flip.default, (weight, places), (inputs, outputs, *window), weight)
    node = add_view(graph, node, (groups, inputs // groups, outputs, *window))
    node = add_permute(graph, node, (0, 2, 1, *(place + 1 for place in places)))
    return add_view(graph, node, (groups * outputs, inputs // groups, *window))


def _each(numbers: Any, window: Any) -> list[int]:
    return list(numbers) * (len(window) if len(numbers) == 1 else 1)
