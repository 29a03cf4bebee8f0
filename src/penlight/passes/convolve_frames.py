"""Convolutions and pools over time are computed on frames, as images are.

A video [N, C, T, H, W] is kept as an image of N * T frames, [N * T, C, H, W]. A convolution over
one frame is one of images then, and one over several has an operator over frames. But where groups
are narrow it is the sum of convolutions over one:

    conv3d(x, w [O, C, kt, kh, kw])  =  sum over k of conv2d(frames at place k, w[:, :, k])

So 3-D networks have what there is for images: packed weights, fused activations and residuals,
channels-last order. Elementwise operators between two convolutions move to the frames, and group
norms to an image of all frames of a video, one below the other.

Needs:  edge dialect, float32.
Keeps:  outputs up to rounding.
Runs:   before weights are packed.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch._ops import OpOverload
from torch.fx import Graph, Node

from penlight.passes.base import Leave, add_node, tensor_of
from penlight.passes.constants import Constants
from penlight.passes.fold_padding import TRANSPOSED, zeros_around
from penlight.passes.frame_operators import compute_on_frames
from penlight.passes.image_copies import channels_last_of, from_channels_last, to_channels_last
from penlight.passes.layouts import sizes_of
from penlight.passes.pack_weights import packed_once
from penlight.passes.transposed_frames import convolve_transposed
from penlight.passes.video_frames import Times, Videos, apart, shape_of, triple

aten = torch.ops.aten

# Most channels of a group of images that the kernels have vectors of several groups for.
_NARROW = 8
_READ_OTHERWISE = "something else reads the weight as it is"


def convolve_frames(
    over_time: OpOverload, kept: Collection[str] = ()
) -> Callable[[Graph, Constants, Leave], int]:
    """The pass that rewrites convolutions of videos, but for weights named `kept`.

    `over_time` is the operator over frames and packed weights for those that it can do.
    """

    def convolve_frames(graph: Graph, constants: Constants, leave: Leave) -> int:
        videos = Videos(graph)
        changed = 0
        obstacles = {
            node: _obstacle(constants, node, kept)
            for node in graph.find_nodes(op="call_function", target=aten.convolution.default)
            if (result := tensor_of(node)) is not None and result.dim() == 5
        }
        # All that read a weight become convolutions of frames, or none does: else the file has it twice.
        for node in [node for node in obstacles if _is_read_otherwise(node, obstacles)]:
            obstacles[node] = obstacles[node] or _READ_OTHERWISE
        for node in list(graph.nodes):
            if node in obstacles:
                reason = obstacles[node]
                if reason is None:
                    with graph.inserting_before(node):
                        frames = _convolved(videos, constants, node, over_time)
                    videos.replace([node], frames, node)
                    changed += 1
                else:
                    leave(node, reason)
            elif not _is_padding_taken(node):
                changed += compute_on_frames(videos, node)
            videos.see(node)
        return changed

    return convolve_frames


def _obstacle(constants: Constants, node: Node, kept: Collection[str]) -> str | None:
    """Why a convolution of videos stays one."""
    x, weight, bias, stride, _, dilation, transposed, _, groups = node.args
    like, value = constants.like(weight), tensor_of(x)
    if like is None or value is None or not constants.can_add():
        return "its weight is not a constant"
    if like.dtype != torch.float32 or value.dtype != torch.float32:
        return "it is not of float32"
    if bias is not None and constants.like(bias) is None:
        return "its bias is not a constant"
    if transposed:
        if groups != 1 or any(step != 1 for step in triple(dilation)):
            return "it is a transposed convolution with groups or dilation"
        if like.shape[2] < triple(stride)[0]:
            return "it is a transposed convolution whose stride in time leaves frames out"
    if constants.names[weight] in kept:  # type: ignore[index]
        return _READ_OTHERWISE
    sizes = *like.shape, *sizes_of(value), *sizes_of(node.meta["val"])
    return "it is empty" if 0 in sizes else None


def _is_read_otherwise(node: Node, obstacles: Mapping[Node, str | None]) -> bool:
    """Does anything but convolutions without an obstacle read the weight of the convolution `node`?"""
    weight: Any = node.args[1]
    return any(obstacles.get(user, "") is not None or user.args[0] is weight for user in weight.users)


def _convolved(videos: Videos, constants: Constants, node: Node, op: OpOverload) -> Node:
    """The frames of the result of a convolution."""
    if node.args[TRANSPOSED]:
        return convolve_transposed(videos, node)
    window = _Window.of(node)
    if window.is_for_operator(node):
        return _over_time(videos, constants, node, window, op)
    return _convolution(videos, node, window)


def _convolution(videos: Videos, node: Node, window: _Window) -> Node:
    """By the sum of a convolution of images for each frame of the window, of which there mostly is one."""
    graph, times = videos.graph, window.times
    given: Any = node.args
    x, weight, bias, *_, groups = given
    outputs, channels, _, *pixels = shape_of(weight)
    (n, _, t, *_), (_, _, length, *image) = shape_of(x), shape_of(node)
    sizes, result = (n * length, outputs, *image), None
    lists = [list(pair) for pair in (window.stride, window.padding, window.dilation)]
    for tap, frames in enumerate(apart(videos, videos.frames_of(x), (n, t), times)):
        size = (outputs, channels, *pixels)
        select = partial(add_node, graph, aten.select_copy.int, (weight, 2, tap), size, weight)
        kernel = videos.weight(weight, tap, select)
        args = (frames, kernel, bias if tap == 0 else None, *lists, False, [0, 0], groups)
        one = add_node(graph, aten.convolution.default, args, sizes, node)
        result = one if result is None else add_node(graph, aten.add.Tensor, (result, one), sizes, node)
    assert result is not None
    return result


def _over_time(videos: Videos, constants: Constants, node: Node, window: _Window, op: OpOverload) -> Node:
    """By `op` over packed weights, which takes over zeros that are put around the videos."""
    graph, times = videos.graph, window.times
    source, around = _unpadded(node)
    own = (times.before, *window.padding)
    pads = [own[d] + around[d][side] for side in (0, 1) for d in range(3)]
    (n, _, t, *_), (_, outputs, length, *image) = shape_of(source), shape_of(node)
    shape = [outputs, times.taps, *window.pixels]
    lists = shape, [times.stride, *window.stride], pads, [times.dilation, *window.dilation]
    x = to_channels_last(graph, videos.frames_of(source))
    args = (x, packed_once(constants, node), None, *videos.numbers([t]), *lists, node.args[-1], 0, 0.0, 0.0)
    new = graph.call_function(op, args)
    new.meta = {**node.meta, "val": channels_last_of(node, (n * length, outputs, *image))}
    return from_channels_last(graph, new, new)


def _unpadded(node: Node) -> tuple[Node, list[tuple[int, int]]]:
    """What a convolution reads without the zeros around it that it can put there itself, and those."""
    x: Any = node.args[0]
    around = zeros_around(node)
    return (x.args[0], around) if _takes_zeros(node) else (x, [(0, 0)] * 3)  # type: ignore[return-value]


def _takes_zeros(node: Node) -> bool:
    """Can the convolution `node` put the zeros around its videos itself?"""
    value = tensor_of(node)
    if node.target is not aten.convolution.default or value is None or value.dim() != 5:
        return False
    return not isinstance(zeros_around(node), str) and _Window.of(node).is_for_operator(node)


def _is_padding_taken(node: Node) -> bool:
    """Is it zeros around a video that all who read it put there themselves?"""
    return node.target is aten.constant_pad_nd.default and all(map(_takes_zeros, node.users))


@dataclass(frozen=True)
class _Window:
    """A convolution's window: over time, and height and width of the others."""

    times: Times
    pixels: tuple[int, ...]
    stride: tuple[int, ...]
    padding: tuple[int, ...]
    dilation: tuple[int, ...]

    @classmethod
    def of(cls, node: Node) -> _Window:
        """That of a convolution of videos."""
        _, weight, _, *numbers = node.args[:6]
        taps, *pixels = shape_of(weight)[2:]  # type: ignore[arg-type]
        strides, pads, steps = map(triple, numbers)
        times = Times(taps, strides[0], pads[0], pads[0], steps[0], shape_of(node)[2])
        return cls(times, tuple(pixels), strides[1:], pads[1:], steps[1:])

    def is_for_operator(self, node: Node) -> bool:
        """Does it reach over several frames, and over one pixel of each if its groups are narrow?"""
        groups: Any = node.args[-1]
        outputs, channels = shape_of(node.args[1])[:2]  # type: ignore[arg-type]
        is_narrow = 1 < channels == outputs // groups <= _NARROW and groups > 1
        one_pixel = (*self.pixels, *self.stride, *self.padding) == (1, 1, 1, 1, 0, 0)
        return self.times.taps > 1 and (one_pixel or not is_narrow)
