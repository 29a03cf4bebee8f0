"""Measure on this machine which way each convolution is faster, and keep that one.

A convolution by 3x3 windows, by one row or column of three taps and more or several rows of more, all of 8
channels and more and of 5 outputs, of 16 of a group, or of few channels by 7x7, may be computed through
transformed tiles or directly. Without tuning its kernel decides when it runs, by a model of the cost; with
it, the program says so where direct was measured to be faster.

Needs:  convolutions over packed weights, with their epilogues; known sizes.
Keeps:  outputs up to rounding.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch._ops import OpOverload
from torch.fx import Graph, Node

from penlight.passes.base import Leave, tensor_of

# Seconds that the kernel of an operator takes with these arguments, results last.
Measure = Callable[[str, list[Any]], float]

# As much faster it has to be: measurements are not exact.
_MARGIN = 0.97


def tune_convolutions(
    convolution: OpOverload, direct: OpOverload, measure: Measure
) -> Callable[[Graph, Leave], int]:
    """The pass that puts `direct` in place of `convolution` where `measure` finds it faster."""
    known: dict[Any, bool] = {}  # networks repeat their layers

    def tune_convolutions(graph: Graph, leave: Leave) -> int:
        changed = 0
        for node in graph.find_nodes(op="call_function", target=convolution):
            reason = _obstacle(node)
            if reason is not None:
                leave(node, reason)
                continue
            key = _key(node)
            if key not in known:
                arguments = _arguments(node)
                taken, other = (measure(_kernel(op), arguments) for op in (convolution, direct))
                known[key] = other < _MARGIN * taken
            if known[key]:
                node.target = direct
                changed += 1
            else:
                leave(node, "what the cost model chooses was measured to be as fast")
        return changed

    return tune_convolutions


def _kernel(op: OpOverload) -> str:
    return f"{op._schema.name}.out"


def _obstacle(node: Node) -> str | None:
    image, _, _, window, stride, _, dilation, groups, *_ = list[Any](node.args)
    channels, taps = image.meta["val"].shape[1], list(window[1:])
    fewest, outputs = (8, 5) if groups == 1 else (16 * groups, 16 * groups)
    many = isinstance(channels, int) and channels >= fewest and window[0] >= outputs
    tiles = many and _has_tiles(taps, list(stride), list(dilation))
    few = groups == 1 and channels in (3, 4)
    first = few and taps == [7, 7] and list(stride) == [2, 2] and list(dilation) == [1, 1]
    if not (tiles or first):
        return "there is one way to compute it"
    tensors = [tensor_of(part) for part in (*node.args[:3], node)]
    if not all(isinstance(size, int) for value in tensors if value is not None for size in value.shape):
        return "its sizes are dynamic"
    return None


def _has_tiles(taps: list[int], stride: list[int], dilation: list[int]) -> bool:
    """Are there transformed tiles for such windows of many channels? All down and across."""
    if taps == [3, 3]:
        return stride == [1, 1] or (stride == [2, 2] and dilation == [1, 1])
    if taps[1] == 1:
        taps, stride, dilation = taps[::-1], stride[::-1], dilation[::-1]
    if taps[0] == 1:
        strided = taps[1] == 3 and stride[1] == 2 and dilation[1] == 1
        return taps[1] >= 3 and (stride[1] == 1 or strided)
    return taps[1] > 3 and stride == [1, 1] and dilation == [1, 1]


def _key(node: Node) -> Any:
    tensors = [tensor_of(part) for part in node.args[:3]]
    shapes = tuple(None if value is None else tuple(value.shape) for value in tensors)
    return shapes, str(node.args[3:])


def _arguments(node: Node) -> list[Any]:
    """As the node's, with random numbers in its tensors, and room for the result."""

    def array(part: Any) -> Any:
        value = tensor_of(part)
        if value is None:
            return None
        random = torch.rand(tuple(value.shape))
        last = value.dim() == 4 and value.is_contiguous(memory_format=torch.channels_last)
        return (random.contiguous(memory_format=torch.channels_last) if last else random).numpy()

    return [*(array(part) for part in node.args[:3]), *node.args[3:], array(node)]
