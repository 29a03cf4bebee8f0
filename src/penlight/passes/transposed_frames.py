"""Transposed convolutions of videos, computed on frames.

Where each frame of the result is of one frame, one transposed convolution of images gives all
frames that each frame gives, as channels. Where frames overlap, there is one for each phase of the
stride in time: results of a phase read the same places of the window, from frames that lie side
by side. Nothing is multiplied by the zeros that a stride puts between frames.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import torch
from torch.fx import Node

from penlight.passes.base import add_node, add_permute, add_view
from penlight.passes.video_frames import SWAPPED, Times, Videos, shape_of, side_by_side, triple

aten = torch.ops.aten


def convolve_transposed(videos: Videos, node: Node) -> Node:
    """The frames of the result of a transposed convolution."""
    given: Any = node.args
    taps, stride, padding, border = (
        triple(numbers)[0] for numbers in (shape_of(given[1])[2:], *given[3:5], given[7])
    )
    if (taps, padding, border) == (stride, 0, 0):
        return _of_one_frame(videos, node)
    return _of_several_frames(videos, node, taps, stride, padding, taps + border - 2 * padding)


def _of_one_frame(videos: Videos, node: Node) -> Node:
    """Where each frame of the result is of one frame: of each, the kt that it alone gives."""
    graph = videos.graph
    given: Any = node.args
    x, weight, bias = given[:3]
    channels, outputs, taps, *window = shape_of(weight)
    (n, _, t, *_), (_, _, length, h, w) = shape_of(x), shape_of(node)
    columns = (channels, taps * outputs, *window)
    kernel = videos.weight(
        weight, "transposed", lambda: add_view(graph, add_permute(graph, weight, SWAPPED), columns)
    )
    if bias is not None:
        repeat = partial(add_node, graph, aten.repeat.default, (bias, [taps]), (taps * outputs,), bias)
        bias = videos.weight(bias, taps, repeat)
    several = _transposed_images(videos, node, videos.frames_of(x), kernel, bias)
    pixels = videos.view(videos.pixels_of(several), (n * t, h, w, taps, outputs))
    placed = add_permute(graph, pixels, (0, 3, 1, 2, 4))
    return videos.image_of(videos.view(placed, (n * length, h, w, outputs)))


def _of_several_frames(videos: Videos, node: Node, taps: int, stride: int, padding: int, reach: int) -> Node:
    """Where frames overlap, a convolution for each of `stride` phases, whose results take turns.

    Place k of the window takes frame i to frame i * stride + k - padding: what has one rest when
    divided by `stride` is read by every `stride`th place. `reach` is how much longer the result is
    than (t - 1) * stride.
    """
    graph = videos.graph
    given: Any = node.args
    x, weight, bias = given[:3]
    channels, outputs, _, *window = shape_of(weight)
    (n, _, t, *_), (_, _, length, h, w) = shape_of(x), shape_of(node)
    more = -(-reach // stride) - 1  # results of a phase, beyond one for each frame
    phases = []
    for phase in range(stride):
        rest, first = (phase + padding) % stride, (phase + padding) // stride
        each = len(range(rest, taps, stride))

        def kernel_of(rest: int = rest, each: int = each) -> Node:
            """The places of a phase, the last one first, as the frames that they read lie."""
            sizes = (channels, outputs, each, *window)
            part = add_node(graph, aten.slice_copy.Tensor, (weight, 2, rest, taps, stride), sizes, weight)
            turned = add_node(graph, aten.flip.default, (part, [2]), sizes, weight)
            return add_view(
                graph, add_permute(graph, turned, (2, 0, 1, 3, 4)), (each * channels, outputs, *window)
            )

        kernel = videos.weight(weight, ("phase", rest, stride), kernel_of)
        times = Times(each, 1, each - 1 - first, first + more, 1, t + more)
        frames = side_by_side(videos, videos.frames_of(x), (n, t), times)
        image = _transposed_images(videos, node, frames, kernel, bias)
        phases.append(videos.view(videos.pixels_of(image), (n, t + more, 1, h, w, outputs)))
    pixels, several = phases[0], (n, (t + more) * stride, h, w, outputs)
    if stride > 1:
        sizes = (n, t + more, stride, h, w, outputs)
        pixels = add_node(graph, aten.cat.default, (phases, 2), sizes, node)
    pixels = videos.view(pixels, several)
    too_many = (more + 1) * stride - reach
    if too_many:
        args = (pixels, 1, 0, -too_many)
        pixels = add_node(graph, aten.slice_copy.Tensor, args, (n, length, h, w, outputs), node)
    return videos.image_of(videos.view(pixels, (n * length, h, w, outputs)))


def _transposed_images(videos: Videos, node: Node, frames: Node, kernel: Node, bias: Any) -> Node:
    """A transposed convolution of images, with the stride and padding that `node` has for images."""
    stride, padding, border = (list(triple(node.args[place])[1:]) for place in (3, 4, 7))
    args = (frames, kernel, bias, stride, padding, [1, 1], True, border, 1)
    sizes = (shape_of(frames)[0], shape_of(kernel)[1], *shape_of(node)[3:])
    return add_node(videos.graph, aten.convolution.default, args, sizes, node)
