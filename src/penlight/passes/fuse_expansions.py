"""Compute what a depthwise layer reads inside of it, a few of its rows at a time.

    conv2d_packed(conv2d_packed(x, 1x1 ...), depthwise ...)        ->   expand_depthwise_packed(x, ...)
    conv2d_packed(conv2d_packed(few channels ...), depthwise ...)  ->   conv2d_depthwise_packed(x, ...)

The 1x1 convolution to more channels in an inverted bottleneck, and the first one of a network, make
the largest images of mobile networks, which the depthwise convolution reads once. Done together,
they never exist as a whole: of the usual windows the few rows do that a row of them reads. Others
gain where an expanded image would not fit a cache.

Needs:  convolutions over packed weights, with their activations; images of known size for unusual windows.
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
from penlight.passes.channels_last import FEW_CHANNELS

# Elements of an image that second caches do not hold beside what else a layer needs.
LARGE = 128 * 1024
# Windows that the kernel computes a few channels at a time, and the narrowest result (vector/expansion.cpp).
# Of a dynamic width some results may be narrower, and are computed in bands.
_TAPS, _STRIDES, _COLUMNS = (3, 5), (1, 2), 4


def fuse_expansions(
    convolution: OpOverload, expand_depthwise: OpOverload, stem: OpOverload
) -> Callable[[Graph, Leave], int]:
    """The pass that has `expand_depthwise`, or `stem`, do what two calls of `convolution` did."""

    def fuse_expansions(graph: Graph, leave: Leave) -> int:
        fused = 0
        for node in list(graph.nodes):
            if node.target is not convolution:
                continue
            before = node.args[0]
            if not (isinstance(before, Node) and before.target is convolution and _is_depthwise(node)):
                continue
            is_stem = _has_few_channels(before)
            reason = _obstacle(node, before) or (
                _obstacle_of_stem(node) if is_stem else _obstacle_of_expansion(node, before)
            )
            if reason is not None:
                leave(node, reason)
                continue
            x, first, _, *own, _, activation, low, high = before.args
            _, weight, _, *numbers, _, after, least, most = node.args
            given = (*own, activation, low, high, *numbers) if is_stem else (*numbers, activation, low, high)
            args = (x, first, weight, *given, after, least, most)
            replace_call(graph, node, stem if is_stem else expand_depthwise, args)
            graph.erase_node(before)
            fused += 1
        return fused

    return fuse_expansions


def _obstacle(node: Node, before: Node) -> str | None:
    """Why the depthwise `node` and what is `before` it stay two."""
    weight = tensor_of(before.args[1])
    if _numbers(before)[-1] != 1:
        return "what is before it has groups"
    if weight is not None and weight.dtype != torch.float32:
        return "the weights of the expansion have 16 bits"
    if len(before.users) != 1:
        return "something else reads the expansion as well"
    if before.args[2] is not None or node.args[2] is not None:
        return "one of the layers adds a residual"
    return None


def _obstacle_of_expansion(node: Node, before: Node) -> str | None:
    window, stride, padding, *_ = _numbers(before)
    result, image = (tensor_of(one) for one in (before, before.args[0]))
    if window[1:] != [1, 1] or stride != [1, 1] or any(padding):
        return "what is before it is not a 1x1 convolution with stride 1"
    if result is None or image is None or result.shape[1] <= image.shape[1]:
        return "the 1x1 convolution does not expand"
    if _has_usual_windows(node):
        return None
    if not all(isinstance(size, int) for size in result.shape[1:]):
        return "sizes of the image are dynamic"
    return "the expanded image fits a cache" if math.prod(result.shape[1:]) <= LARGE else None


def _obstacle_of_stem(node: Node) -> str | None:
    if _has_usual_windows(node):
        return None
    return f"its windows are not of 3x3 or 5x5 pixels, one or two apart, {_COLUMNS} or more in a row"


def _has_few_channels(node: Node) -> bool:
    """Is it a convolution whose kernel reads its image line by line?"""
    window, *_ = _numbers(node)
    image = tensor_of(node.args[0])
    few = image is not None and isinstance(image.shape[1], int) and image.shape[1] < FEW_CHANNELS
    return few and window[1:] != [1, 1]


def _has_usual_windows(node: Node) -> bool:
    (_, *taps), stride, padding, dilation, _ = _numbers(node)
    result = tensor_of(node)
    is_square = taps[0] == taps[1] and stride[0] == stride[1] and dilation == [1, 1]
    columns = result.shape[3] if result is not None else 0
    is_wide = not isinstance(columns, int) or columns >= _COLUMNS
    is_inside = padding[1] < taps[1]  # to the left: above and left come first
    return is_square and is_wide and is_inside and taps[0] in _TAPS and stride[0] in _STRIDES


def _is_depthwise(node: Node) -> bool:
    window, *_, groups = _numbers(node)
    image = tensor_of(node.args[0])
    return image is not None and bool(groups > 1 and groups == window[0] == image.shape[1])


def _numbers(node: Node) -> tuple[Any, ...]:
    """Window, stride, padding and dilation as lists, and the number of groups."""
    *lists, groups = node.args[3:8]
    return (*(list(numbers) for numbers in lists), groups)  # type: ignore[arg-type]
