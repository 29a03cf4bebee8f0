"""Convolutions read the parts of a concatenated image where they lie, and nothing is copied.

    conv2d_packed(cat([a, b], 1), ...)   ->   conv2d_parts_packed([a, b], ...)

Needs:  convolutions over packed weights, with their activations; images channels-last.
Keeps:  outputs up to rounding.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch._ops import OpOverload
from torch.fx import Graph, Node

from penlight.passes.base import Leave, replace_call, tensor_of
from penlight.passes.contiguous import is_channels_last

aten = torch.ops.aten

# Channels that are multiplied at once, at least.
_SHORTEST = 32
# Runs of channels in a window: with more of them, blocks of the product become smaller.
_MOST_RUNS = 36
# With fewer, a sum is made of vectors of channels, which are to be of one image.
_FEWEST_OUTPUTS = 16


def convolve_parts(convolution: OpOverload, of_parts: OpOverload) -> Callable[[Graph, Leave], int]:
    """The pass that has `of_parts` do what `convolution` did after cat."""

    def convolve_parts(graph: Graph, leave: Leave) -> int:
        changed = 0
        for cat in list(graph.find_nodes(op="call_function", target=aten.cat.default)):
            readers = [user for user in cat.users if user.target is convolution and user.args[0] is cat]
            if not readers:
                continue
            reason = _obstacle(cat, readers)
            if reason is not None:
                leave(readers[0], reason)
                continue
            for node in readers:
                weight_to_dilation, epilogue = node.args[1:7], node.args[8:]
                replace_call(graph, node, of_parts, (cat.args[0], *weight_to_dilation, *epilogue))
                changed += 1
            graph.erase_node(cat)
        return changed

    return convolve_parts


def _obstacle(cat: Node, readers: list[Node]) -> str | None:
    """Why the image is concatenated first."""
    images: Any = cat.args[0]
    values = [tensor_of(image) for image in images]
    if len(cat.args) < 2 or cat.args[1] not in (1, -3):
        return "what is concatenated is not channels"
    if len(cat.users) != len(readers) or any(node.args[2] is cat for node in readers):
        return "something else reads the concatenated image as well"
    channels = [None if value is None or value.dim() != 4 else value.shape[1] for value in values]
    if not all(isinstance(count, int) for count in channels) or not all(map(_is_image, values)):
        return "not all that is concatenated is channels-last"
    run = math.gcd(*channels)  # type: ignore[arg-type]
    if run < _SHORTEST:
        return "what is concatenated has few channels in common"
    for node in readers:
        window, groups = list(node.args[3]), node.args[7]  # type: ignore[arg-type]
        if groups != 1:
            return "the convolution has groups"
        if window[0] < _FEWEST_OUTPUTS:
            return "the convolution has few outputs"
        if sum(channels) // run * math.prod(window[1:]) > _MOST_RUNS:  # type: ignore[arg-type]
            return "the window has too many parts"
    return None


def _is_image(value: Any) -> bool:
    return value.dtype is torch.float32 and is_channels_last(value)
