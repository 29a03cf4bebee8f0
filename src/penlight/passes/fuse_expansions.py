"""Compute an inverted bottleneck's expansion inside the depthwise layer, a few of its rows at a time.

The 1x1 convolution to more channels makes the largest image of such a network, which
the depthwise convolution reads once. Done together, it never exists as a whole: of the usual
windows a few channels of a few rows do. Others gain where it would not fit a cache.

Needs:  convolutions over packed weights, with their activations.
Keeps:  outputs up to rounding.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch._ops import OpOverload
from torch.fx import Graph, Node

from penlight.passes.base import Leave, tensor_of

# Elements of an image that second caches do not hold beside what else a layer needs.
LARGE = 128 * 1024
# Windows that the kernel computes a few channels at a time, and the narrowest result (vector/expansion.cpp).
_TAPS, _STRIDES, _COLUMNS = (3, 5), (1, 2), 4


def fuse_expansions(convolution: OpOverload, expand_depthwise: OpOverload) -> Callable[[Graph, Leave], int]:
    """The pass that has `expand_depthwise` do what two calls of `convolution` did."""

    def fuse_expansions(graph: Graph, leave: Leave) -> int:
        fused = 0
        for node in list(graph.nodes):
            if node.target is not convolution:
                continue
            before = node.args[0]
            if not (isinstance(before, Node) and before.target is convolution and _is_depthwise(node)):
                continue
            reason = _obstacle(node, before)
            if reason is not None:
                leave(node, reason)
                continue
            x, expansion, _, *_, activation, low, high = before.args
            _, weight, _, window, stride, padding, dilation, _, *epilogue = node.args
            args = (x, expansion, weight, window, stride, padding, dilation, activation, low, high, *epilogue)
            with graph.inserting_before(node):
                new = graph.call_function(expand_depthwise, args)
            new.meta = dict(node.meta)
            node.replace_all_uses_with(new)
            graph.erase_node(node)
            graph.erase_node(before)
            fused += 1
        return fused

    return fuse_expansions


def _obstacle(node: Node, before: Node) -> str | None:
    """Why the depthwise `node` and what is `before` it stay two."""
    window, stride, padding, _, groups = _numbers(before)
    result, image, weight = (tensor_of(one) for one in (before, *before.args[:2]))
    if groups != 1 or window[1:] != [1, 1] or stride != [1, 1] or padding != [0, 0]:
        return "what is before it is not a 1x1 convolution with stride 1"
    if weight is not None and weight.dtype != torch.float32:
        return "the weights of the expansion have 16 bits"
    if len(before.users) != 1:
        return "something else reads the expansion as well"
    if before.args[2] is not None or node.args[2] is not None:
        return "one of the layers adds a residual"
    if result is None or image is None or not all(isinstance(size, int) for size in result.shape[1:]):
        return "sizes of the image are dynamic"
    _, channels, height, width = result.shape
    if channels <= image.shape[1]:
        return "the 1x1 convolution does not expand"
    if channels * height * width <= LARGE and not _has_usual_windows(node):
        return "the expanded image fits a cache"
    return None


def _has_usual_windows(node: Node) -> bool:
    (_, *taps), stride, _, dilation, _ = _numbers(node)
    result = tensor_of(node)
    is_square = taps[0] == taps[1] and stride[0] == stride[1] and dilation == [1, 1]
    is_wide = result is not None and result.shape[3] >= _COLUMNS
    return is_square and is_wide and taps[0] in _TAPS and stride[0] in _STRIDES


def _is_depthwise(node: Node) -> bool:
    window, *_, groups = _numbers(node)
    image = tensor_of(node.args[0])
    return image is not None and bool(groups > 1 and groups == window[0] == image.shape[1])


def _numbers(node: Node) -> tuple[Any, ...]:
    """Window, stride, padding and dilation as lists, and the number of groups."""
    *lists, groups = node.args[3:8]
    return (*(list(numbers) for numbers in lists), groups)  # type: ignore[arg-type]
