"""What computes between convolutions of videos does so on frames too: convolve_frames.py.

Elementwise operators and concatenation, pools, borders, and group norms, if what they read is a
video whose frames are known.
"""

from __future__ import annotations

import math
import operator
from typing import Any

import torch
from torch.fx import Node

from penlight.passes.base import add_node, tensor_of
from penlight.passes.image_order import is_elementwise
from penlight.passes.layouts import expressions, same_sizes, sizes_of
from penlight.passes.video_frames import Times, Videos, apart, shape_of, triple

aten = torch.ops.aten
_max_pool3d = aten.max_pool3d_with_indices.default
_max_pool2d = aten.max_pool2d_with_indices.default
_avg_pool3d, _avg_pool2d = aten.avg_pool3d.default, aten.avg_pool2d.default
_group_norm = aten.native_group_norm.default


def compute_on_frames(videos: Videos, node: Node) -> int:
    """Have `node` compute on the frames of the videos that it reads; return how many did."""
    if is_elementwise(node.target) or node.target is aten.cat.default:
        return _move(videos, node)
    rewrite = _REWRITES.get(node.target)
    return rewrite(videos, node) if rewrite else 0


def _move(videos: Videos, node: Node) -> int:
    """op(video, ...) becomes the video of op(frames, ...)."""
    value = tensor_of(node)
    if value is None or value.dim() != 5:
        return 0
    sources = node.all_input_nodes
    if not any(source in videos.frames for source in sources):
        return 0
    joins = node.target is aten.cat.default
    if joins and (len(node.args) < 2 or node.args[1] not in (1, -4)):
        return 0
    replaced: dict[Node, Node] = {}
    with videos.graph.inserting_before(node):
        for source in sources:
            frames = _as_frames(videos, source, value, joins)
            if frames is None:
                return 0
            replaced[source] = frames
        args: Any = torch.fx.map_arg(node.args, lambda arg: replaced[arg])
        args = (args[0], 1) if joins else args
        kwargs = torch.fx.map_arg(node.kwargs, lambda arg: replaced[arg])
        n, c, t, h, w = value.shape
        new = add_node(videos.graph, node.target, args, (n * t, c, h, w), node, kwargs=kwargs)  # type: ignore[arg-type]
    videos.replace([node], new, node)
    return 1


def _as_frames(videos: Videos, source: Node, result: torch.Tensor, joins: bool) -> Node | None:
    """What stands for `source` beside frames: its own, a number, or one frame for all."""
    value: Any = tensor_of(source)
    if value is None or value.dim() == 0:
        return source
    if source in videos.frames and (joins or same_sizes(sizes_of(value)[:3:2], sizes_of(result)[:3:2])):
        return videos.frames[source]
    n, c, t, h, w = (1,) * (5 - value.dim()) + tuple(value.shape)
    if joins or not same_sizes(expressions((n, t)), (1, 1)):
        return None
    return videos.view(source, (1, c, h, w))


def _pad(videos: Videos, node: Node) -> int:
    """Borders of videos, before or behind the first and the last frame too, become those of pixels."""
    given: tuple[Any, ...] = node.args
    x, (*borders,) = given[0], given[1]
    if x not in videos.frames or len(borders) > 6:
        return 0
    graph, (n, c, t, h, w), (_, _, length, height, width) = (
        videos.graph,
        shape_of(x),
        shape_of(node),
    )
    with graph.inserting_before(node):
        pixels = videos.view(videos.pixels_of(videos.frames[x]), (n, t, h, w, c))
        args, sizes = (pixels, [0, 0, *borders], *given[2:]), (n, length, height, width, c)
        padded = add_node(graph, aten.constant_pad_nd.default, args, sizes, node, kwargs=dict(node.kwargs))
        frames = videos.image_of(videos.view(padded, (n * length, height, width, c)))
    videos.replace([node], frames, node)
    return 1


def _normalise(videos: Videos, node: Node) -> int:
    """A group norm of videos, whose frames are one high image, if nobody wants its means."""
    args: tuple[Any, ...] = node.args
    users = list(node.users)
    if args[0] not in videos.frames:
        return 0
    if not users or any(user.args[1] != 0 for user in users):
        return 0
    graph, results, (n, c, t, h, w) = videos.graph, node.meta["val"], shape_of(args[0])
    with graph.inserting_before(node):
        image = videos.image_of(videos.view(videos.pixels_of(videos.frames[args[0]]), (n, t * h, w, c)))
        normalised = graph.call_function(_group_norm, (image, *args[1:]), dict(node.kwargs))
        normalised.meta = {**node.meta, "val": type(results)((image.meta["val"], *results[1:]))}
        first = graph.call_function(operator.getitem, (normalised, 0))
        first.meta = {**users[0].meta, "val": image.meta["val"]}
        frames = videos.image_of(videos.view(videos.pixels_of(first), (n * t, h, w, c)))
    videos.replace(users, frames, users[0])
    return 1


def _pool(videos: Videos, node: Node) -> int:
    """A maximum over images, and of those over time, if nobody wants the indices."""
    given: tuple[Any, ...] = node.args
    x, window, *rest = given
    users, before = list(node.users), tensor_of(x)
    wanted = [user for user in users if user.target is not operator.getitem or user.args[1] != 0]
    defaults: tuple[Any, ...] = ([], [0], [1], False)
    stride, padding, dilation, ceil_mode = (*rest, *defaults[len(rest) :])
    if x not in videos.frames or before is None or wanted or not users:
        return 0
    if ceil_mode or not before.is_floating_point():
        return 0
    taps, strides = triple(window), triple(stride or window)
    pads, steps = triple(padding), triple(dilation)
    n, c, t, _, _ = shape_of(x)
    _, _, length, *image = shape_of(users[0])
    graph = videos.graph
    with graph.inserting_before(node):
        frames = videos.frames[x]
        if (*taps[1:], *strides[1:], *pads[1:]) != (1, 1, 1, 1, 0, 0):
            spatial = [list(numbers[1:]) for numbers in (taps, strides, pads, steps)]
            both = graph.call_function(_max_pool2d, (frames, *spatial))
            frames = add_node(graph, operator.getitem, (both, 0), (n * t, c, *image), x)
            with before.fake_mode:  # type: ignore[attr-defined]
                indices = torch.empty((n * t, c, *image), dtype=torch.int64)
            both.meta = {**users[0].meta, "val": (frames.meta["val"], indices)}
        times = Times(taps[0], strides[0], pads[0], pads[0], steps[0], length)
        first, *others = apart(videos, frames, (n, t), times, -float("inf"))
        for other in others:
            first = add_node(graph, aten.maximum.default, (first, other), shape_of(first), x)
    videos.replace(users, first, node)
    return 1


def _average(videos: Videos, node: Node) -> int:
    """Means over images, of sums over time, where no window reaches over a border."""
    given: tuple[Any, ...] = node.args
    x, window, *rest = given
    defaults: tuple[Any, ...] = ([], [0], False, True, None)
    stride, padding, ceil_mode, _, divisor = (*rest, *defaults[len(rest) :])
    if x not in videos.frames or any(padding) or ceil_mode:
        return 0
    graph, (taps, *pixels), (step, *steps) = videos.graph, triple(window), triple(stride or window)
    (n, c, t, _, _), (_, _, length, *image) = shape_of(x), shape_of(node)
    divisor = divisor or math.prod((taps, *pixels))
    with graph.inserting_before(node):
        args = (videos.frames[x], pixels, steps, [0, 0], False, True, divisor)
        frames = add_node(graph, _avg_pool2d, args, (n * t, c, *image), x)
        first, *others = apart(videos, frames, (n, t), Times(taps, step, 0, 0, 1, length))
        for other in others:
            first = add_node(graph, aten.add.Tensor, (first, other), shape_of(first), x)
    videos.replace([node], first, node)
    return 1


_REWRITES: dict[Any, Any] = {
    _max_pool3d: _pool,
    _avg_pool3d: _average,
    _group_norm: _normalise,
    aten.constant_pad_nd.default: _pad,
}
