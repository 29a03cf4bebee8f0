"""Transposed convolutions with few outputs, as convolutions that give several pixels of each.

    conv_transpose(x, stride=s)   ->   conv(x) with s * s times the outputs, whose pixels are then set apart

Where windows are whole strides, all pixels between two strides see the same pixels of the image, by
numbers of their own ("Is the deconvolution layer the same as a convolutional layer?", Shi et al., 2016).
Together their outputs fill vectors that one of them leaves empty: decoders end in one channel, or three.
A function of each element that follows is applied before pixels are set apart, and so by the convolution.

Needs:  edge dialect, float32; a constant weight that nothing else reads; sizes of images that are known.
Keeps:  every output's shape and dtype; values up to rounding.
Runs:   before weights are packed.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from typing import Any

import torch
from torch._ops import OpOverload
from torch.fx import Graph, Node

from penlight.passes.base import add_node, add_permute, add_view, is_static, tensor_of
from penlight.passes.constants import Constants

aten = torch.ops.aten

_LANES = 16  # outputs that a convolution computes at once
_GAIN = 0.6  # of the products, from which on it is quicker


def split_into_pixels(graph: Graph, constants: Constants) -> int:
    """Rewrite `graph` in place; return how many convolutions are no longer transposed."""
    changed = 0
    for node in graph.find_nodes(op="call_function", target=aten.convolution.default):
        windows = _windows(constants, node)
        if windows is None:
            continue
        after = _function_after(node)
        with graph.inserting_before(node):
            new = _split(graph, constants, node, windows, after)
        (after or node).replace_all_uses_with(new)
        for old in (after, node):
            if old is not None:
                graph.erase_node(old)
        changed += 1
    return changed


def _function_after(node: Node) -> Node | None:
    """What alone reads `node`, element by element, as an activation does; the convolution can apply it."""
    user = next(iter(node.users))
    value, target = tensor_of(user), user.target
    if len(node.users) != 1 or user.all_input_nodes != [node] or user.args[:1] != (node,) or value is None:
        return None
    is_function = isinstance(target, OpOverload) and torch.Tag.pointwise in target.tags
    return (
        user if is_function and value.dtype is torch.float32 and "memory_format" not in user.kwargs else None
    )


@dataclass(frozen=True)
class Window:
    """Of one direction: pixels that those between two strides see, and how many of them are beyond the image.

    Pixel m * stride + r - skipped of the result sees pixel m - before + i of the image, for i below `size`,
    by number r + (size - 1 - i) * stride of the weight.
    """

    size: int
    stride: int
    before: int
    behind: int
    skipped: int

    @staticmethod
    def of(count: int, stride: int, padding: int, more: int) -> Window | None:
        """None if some pixels see others than the rest, or all see none."""
        if count % stride or padding >= count:
            return None
        size, skipped = count // stride, padding % stride
        before = size - padding // stride - 1
        return Window(size, stride, before, before - (-(more - skipped) // stride), skipped)

    def number(self, place: int, at: int) -> int:
        return place + (self.size - 1 - at) * self.stride


def _windows(constants: Constants, node: Node) -> list[Window] | None:
    """How to see `node` as a convolution, one for each direction; None if it cannot be, or is no quicker."""
    args: tuple[Any, ...] = node.args
    x, weight, bias, stride, padding, dilation, transposed, more, groups = args
    like, value, result = constants.like(weight), tensor_of(x), tensor_of(node)
    if not transposed or groups != 1 or like is None or value is None or result is None:
        return None
    if {like.dtype, value.dtype} != {torch.float32} or not constants.can_add():
        return None
    if like.dim() not in (3, 4) or value.dim() != like.dim() or any(step != 1 for step in dilation):
        return None
    if not len(stride) == len(padding) == len(more) == like.dim() - 2:
        return None  # one number for all directions
    if not is_static(node, x) or 0 in (*like.shape, *result.shape) or not constants.is_read_once(weight):
        return None
    if bias is not None and constants.like(bias) is None:
        return None
    found = [Window.of(*numbers) for numbers in zip(like.shape[2:], stride, padding, more, strict=True)]
    windows = [window for window in found if window is not None]
    places = math.prod(window.stride for window in windows)
    if len(windows) < len(found) or places == 1:
        return None
    # Products for a pixel of the image, in vectors of outputs.
    apart = places * _filled(like.shape[1])
    return windows if _filled(places * like.shape[1]) <= _GAIN * apart else None


def _filled(outputs: int) -> int:
    return -(-outputs // _LANES) * _LANES


def _split(graph: Graph, constants: Constants, node: Node, windows: list[Window], after: Node | None) -> Node:
    args: tuple[Any, ...] = node.args
    x, weight, bias = args[:3]
    old: Any = constants.get(weight)
    steps, outputs, dims = [window.stride for window in windows], old.shape[1], len(windows)
    places = math.prod(steps)
    names = [constants.add(f"{constants.names[weight]}.pixels", _weight(old, windows)), None]
    if bias is not None:
        repeated: Any = constants.get(bias)
        names[1] = constants.add(f"{constants.names[bias]}.pixels", repeated.repeat(places))
    value: Any = tensor_of(x)
    batch, channels, *sizes = value.shape
    wide = [size + window.before + window.behind for size, window in zip(sizes, windows, strict=True)]
    counts = [size - window.size + 1 for size, window in zip(wide, windows, strict=True)]
    padded = [window.before for window in windows]
    if any(window.before != window.behind for window in windows):
        around = [number for window in reversed(windows) for number in (window.before, window.behind)]
        x = add_node(graph, aten.constant_pad_nd.default, (x, around, 0.0), (batch, channels, *wide), node)
        padded = [0] * dims
    call = (x, *names, [1] * dims, padded, [1] * dims, False, [0] * dims, 1)
    sizes = [batch, places * outputs, *counts]
    found = add_node(graph, aten.convolution.default, call, sizes, node)
    if after is not None:
        found = add_node(graph, after.target, (found, *after.args[1:]), sizes, after)  # type: ignore[arg-type]
    return _set_apart(graph, node, found, windows, outputs, counts)


def _weight(old: torch.Tensor, windows: list[Window]) -> torch.Tensor:
    """[inputs, outputs, *window] as [places * outputs, inputs, *window], for places between two strides."""
    inputs, outputs = old.shape[:2]
    steps, sizes = [window.stride for window in windows], [window.size for window in windows]
    made = old.new_empty((*steps, outputs, inputs, *sizes))
    for place in itertools.product(*map(range, steps)):
        for tap in itertools.product(*map(range, sizes)):
            numbers = [window.number(r, at) for window, r, at in zip(windows, place, tap, strict=True)]
            # Outputs and inputs, of one number of the weight.
            to: Any = (*place, ..., *tap)
            number: Any = (..., *numbers)
            made[to] = old[number].T
    return made.reshape(-1, inputs, *sizes)


def _set_apart(
    graph: Graph, node: Node, found: Node, windows: list[Window], outputs: int, counts: list[int]
) -> Node:
    """The pixels of `found` where they belong, and of these what `node` has."""
    value: Any = tensor_of(node)
    batch, dims, steps = value.shape[0], len(windows), [window.stride for window in windows]
    parts = add_view(graph, found, (batch, *steps, outputs, *counts), node)
    order = [0, dims + 1]
    for d in range(dims):
        order += [dims + 2 + d, 1 + d]
    whole = [count * step for count, step in zip(counts, steps, strict=True)]
    result = add_view(graph, add_permute(graph, parts, order, node), (batch, outputs, *whole), node)
    for d, (size, wanted) in enumerate(zip(whole, value.shape[2:], strict=True)):
        if size != wanted:
            sizes, first = [*value.shape[: 2 + d], wanted, *whole[d + 1 :]], windows[d].skipped
            args = (result, 2 + d, first, first + wanted)
            result = add_node(graph, aten.slice_copy.Tensor, args, sizes, node)
    return result
