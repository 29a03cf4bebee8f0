"""Convolutions and pools over time are computed on frames, as images are.

A video [N, C, T, H, W] is kept as an image of N * T frames, [N * T, C, H, W]. Then a
convolution over kt frames is one of images, whose channels are those of the kt frames
that each output needs, one behind the other:

    conv3d(x, w [O, C, kt, kh, kw])  =  conv2d(kt frames side by side, w [O, kt * C, kh, kw])

Depthwise ones, and those whose window has one pixel of each frame, have an operator over frames;
with other groups it is a sum of kt convolutions, one for each place in the window. So 3-D
networks have what there is for images: packed weights, fused activations and residuals,
channels-last order. Elementwise operators between two convolutions move to the frames, and group
norms to an image of all frames of a video, one below the other.

Needs:  edge dialect, float32, sizes that are known.
Keeps:  outputs up to rounding.
Runs:   before weights are packed.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch._ops import OpOverload
from torch.fx import Graph, Node

from penlight.passes.base import Leave, add_node, add_permute, add_view, is_static, tensor_of
from penlight.passes.constants import Constants
from penlight.passes.fold_padding import TRANSPOSED, zeros_around
from penlight.passes.image_copies import channels_last_of, from_channels_last, to_channels_last
from penlight.passes.image_order import is_elementwise
from penlight.passes.layouts import sizes_of
from penlight.passes.pack_weights import is_depthwise, packed_once

aten = torch.ops.aten
_max_pool3d = aten.max_pool3d_with_indices.default
_max_pool2d = aten.max_pool2d_with_indices.default
_group_norm = aten.native_group_norm.default

_SWAPPED = (0, 2, 1, 3, 4)  # channels and time
_READ_OTHERWISE = "something else reads the weight as it is"


def convolve_frames(
    over_time: OpOverload, kept: Collection[str] = ()
) -> Callable[[Graph, Constants, Leave], int]:
    """The pass that rewrites convolutions of videos, but for weights named `kept`.

    `over_time` is the operator over frames and packed weights for those that it can do.
    """

    def convolve_frames(graph: Graph, constants: Constants, leave: Leave) -> int:
        videos = _Videos(graph)
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
            elif is_elementwise(node.target) or node.target is aten.cat.default:
                changed += _move_to_frames(videos, node)
            elif node.target is _max_pool3d:
                changed += _pool(videos, node)
            elif node.target is _group_norm:
                changed += _normalise(videos, node)
            elif node.target is aten.constant_pad_nd.default:
                changed += _pad(videos, node)
        return changed

    return convolve_frames


class _Videos:
    """Which nodes are videos of which frames, and weights as convolutions of frames read them."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.frames: dict[Node, Node] = {}
        self._weights: dict[tuple[Node, Hashable], Node] = {}

    def weight(self, of: Node, how: Hashable, make: Callable[[], Node]) -> Node:
        """What `make` makes of a weight, `how` saying what that is: once for all that read it."""
        if (of, how) not in self._weights:
            self._weights[of, how] = make()
        return self._weights[of, how]

    def frames_of(self, video: Node) -> Node:
        """The frames [N * T, C, H, W] of a video [N, C, T, H, W]."""
        if video not in self.frames:
            n, c, t, h, w = _sizes(video)
            turned = add_permute(self.graph, video, _SWAPPED)
            self.frames[video] = add_view(self.graph, turned, (n * t, c, h, w))
        return self.frames[video]

    def replace(self, nodes: Sequence[Node], frames: Node, before: Node) -> None:
        """Use the video of `frames`, made `before`, for `nodes`, which are all the same."""
        n, c, t, h, w = _sizes(nodes[0])
        with self.graph.inserting_before(before):
            several = add_view(self.graph, frames, (n, t, c, h, w))
            video = add_permute(self.graph, several, _SWAPPED)
        video.meta = {**nodes[0].meta, "val": video.meta["val"]}
        for node in nodes:
            node.replace_all_uses_with(video)
        self.frames[video] = frames


def _sizes(video: Node) -> Any:
    value: Any = tensor_of(video)
    return tuple(value.shape)


def _triple(given: Any) -> tuple[Any, ...]:
    numbers = tuple(given)
    return numbers * 3 if len(numbers) == 1 else numbers


def _obstacle(constants: Constants, node: Node, kept: Collection[str]) -> str | None:
    """Why a convolution of videos stays one."""
    x, weight, bias, stride, padding, dilation, transposed, output_padding, groups = node.args
    like, value = constants.like(weight), tensor_of(x)
    if like is None or value is None or not constants.can_add():
        return "its weight is not a constant"
    if like.dtype != torch.float32 or value.dtype != torch.float32:
        return "it is not of float32"
    if bias is not None and constants.like(bias) is None:
        return "its bias is not a constant"
    if transposed:
        around = (*_triple(padding)[:1], *_triple(output_padding)[:1])
        apart = like.shape[2] == _triple(stride)[0] and around == (0, 0)
        if not apart or groups != 1 or any(step != 1 for step in _triple(dilation)):
            return "it is a transposed convolution with groups, dilation, or frames that overlap in time"
    if constants.names[weight] in kept:  # type: ignore[index]
        return _READ_OTHERWISE
    if not is_static(x) or not isinstance(groups, int):  # type: ignore[arg-type]
        return "its sizes are dynamic"
    sizes = *like.shape, *sizes_of(value), *sizes_of(node.meta["val"])
    return "it is empty" if 0 in sizes else None


def _is_read_otherwise(node: Node, obstacles: Mapping[Node, str | None]) -> bool:
    """Does anything but convolutions without an obstacle read the weight of the convolution `node`?"""
    weight: Any = node.args[1]
    return any(obstacles.get(user, "") is not None or user.args[0] is weight for user in weight.users)


def _convolved(videos: _Videos, constants: Constants, node: Node, op: OpOverload) -> Node:
    """The frames of the result of a convolution."""
    if node.args[TRANSPOSED]:
        return _transposed(videos, node)
    window = _Window.of(node)
    if window.is_for_operator(node):
        return _over_time(videos, constants, node, window, op)
    return _convolution(videos, node, window)


def _is_depthwise(node: Node) -> bool:
    weight: Any = tensor_of(node.args[1])
    return is_depthwise(weight, node.args[-1])


def _convolution(videos: _Videos, node: Node, window: _Window) -> Node:
    """By convolutions of images: one of all frames in the window, or one for each of them."""
    graph = videos.graph
    given: Any = node.args
    x, weight, bias, *_, groups = given
    times, lists = window.times, [list(pair) for pair in (window.stride, window.padding, window.dilation)]
    outputs, channels, taps, *pixels = _sizes(weight)
    n, _, length, *image = _sizes(node)
    sizes = (n * length, outputs, *image)

    def convolved(frames: Node, kernel: Node, bias: Any) -> Node:
        args = (frames, kernel, bias, *lists, False, [0, 0], groups)
        return add_node(graph, aten.convolution.default, args, sizes, node)

    frames = videos.frames_of(x)
    if taps == 1:
        kernel = videos.weight(weight, 1, lambda: add_view(graph, weight, (outputs, channels, *pixels)))
        return convolved(_side_by_side(graph, frames, n, times), kernel, bias)
    if groups == 1:
        rows = (outputs, taps * channels, *pixels)
        kernel = videos.weight(
            weight, taps, lambda: add_view(graph, add_permute(graph, weight, _SWAPPED), rows)
        )
        return convolved(_side_by_side(graph, frames, n, times), kernel, bias)
    result = None
    for tap, part in enumerate(_apart(graph, frames, n, times, 0.0)):
        place = (weight, 2, tap)
        size = (outputs, channels, *pixels)
        select = partial(add_node, graph, aten.select_copy.int, place, size, weight)
        kernel = videos.weight(weight, place[1:], select)
        one = convolved(part, kernel, bias if tap == 0 else None)
        result = one if result is None else add_node(graph, aten.add.Tensor, (result, one), sizes, node)
    assert result is not None
    return result


def _over_time(videos: _Videos, constants: Constants, node: Node, window: _Window, op: OpOverload) -> Node:
    """By `op` over packed weights, which takes over zeros that are put around the videos."""
    graph, times = videos.graph, window.times
    source, around = _unpadded(node)
    own = (times.padding, *window.padding)
    pads = [own[d] + around[d][side] for side in (0, 1) for d in range(3)]
    (n, _, t, *_), (_, outputs, length, *image) = _sizes(source), _sizes(node)
    shape = [outputs, times.taps, *window.pixels]
    lists = shape, [times.stride, *window.stride], pads, [times.dilation, *window.dilation]
    x = to_channels_last(graph, videos.frames_of(source))
    args = (x, packed_once(constants, node), None, t, *lists, node.args[-1], 0, 0.0, 0.0)
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
    around, window = zeros_around(node), _Window.of(node)
    if isinstance(around, str) or not window.is_for_operator(node):
        return False
    return _is_depthwise(node) or not any(map(any, around[1:]))


def _transposed(videos: _Videos, node: Node) -> Node:
    """The frames of the result of a transposed convolution: of each frame, the kt that it alone gives."""
    graph = videos.graph
    given: Any = node.args
    x, weight, bias, stride, padding, _, _, output_padding, _ = given
    channels, outputs, taps, *window = _sizes(weight)
    lists = [list(_triple(numbers)[1:]) for numbers in (stride, padding, output_padding)]
    n, _, length, h, w = _sizes(node)
    count = n * length // taps
    columns = (channels, taps * outputs, *window)
    kernel = videos.weight(
        weight, "transposed", lambda: add_view(graph, add_permute(graph, weight, _SWAPPED), columns)
    )
    if bias is not None:
        repeat = partial(add_node, graph, aten.repeat.default, (bias, [taps]), (taps * outputs,), bias)
        bias = videos.weight(bias, taps, repeat)
    args = (videos.frames_of(x), kernel, bias, lists[0], lists[1], [1, 1], True, lists[2], 1)
    several = add_node(graph, aten.convolution.default, args, (count, taps * outputs, h, w), node)
    pixels = add_permute(graph, several, (0, 2, 3, 1))
    placed = add_permute(graph, add_view(graph, pixels, (count, h, w, taps, outputs)), (0, 3, 1, 2, 4))
    return add_permute(graph, add_view(graph, placed, (n * length, h, w, outputs)), (0, 3, 1, 2))


@dataclass(frozen=True)
class _Times:
    """A window over time: its places, and how many results there are."""

    taps: int
    stride: int
    padding: int
    dilation: int
    length: int

    def is_one_frame(self) -> bool:
        """Is each result of the frame at its own place?"""
        return (self.taps, self.stride, self.padding) == (1, 1, 0)


@dataclass(frozen=True)
class _Window:
    """A convolution's window: over time, and height and width of the others."""

    times: _Times
    pixels: tuple[int, ...]
    stride: tuple[int, ...]
    padding: tuple[int, ...]
    dilation: tuple[int, ...]

    @classmethod
    def of(cls, node: Node) -> _Window:
        """That of a convolution of videos."""
        _, weight, _, *numbers = node.args[:6]
        taps, *pixels = _sizes(weight)[2:]  # type: ignore[arg-type]
        strides, pads, steps = map(_triple, numbers)
        times = _Times(taps, strides[0], pads[0], steps[0], _sizes(node)[2])
        return cls(times, tuple(pixels), strides[1:], pads[1:], steps[1:])

    def is_for_operator(self, node: Node) -> bool:
        """Does it reach over several frames, and has one pixel of each, or one channel?"""
        one_pixel = (*self.pixels, *self.stride, *self.padding) == (1, 1, 1, 1, 0, 0)
        return self.times.taps > 1 and (one_pixel or _is_depthwise(node))


def _side_by_side(graph: Graph, frames: Node, videos: int, times: _Times) -> Node:
    """For each result, the channels of all frames in its window, one behind the other."""
    return frames if times.is_one_frame() else _Pixels(graph, frames, videos, times, 0.0).at(0, times.taps)


def _apart(graph: Graph, frames: Node, videos: int, times: _Times, border: float) -> list[Node]:
    """For each place of the window, the frames there, as many as there are results."""
    if times.is_one_frame():
        return [frames]
    pixels = _Pixels(graph, frames, videos, times, border)
    return [pixels.at(tap, 1) for tap in range(times.taps)]


class _Pixels:
    """The frames of so many videos as [N, T, H, W, C] with borders in time, which a window is read from.

    That is where channels-last frames lie: reading them so copies nothing.
    """

    def __init__(self, graph: Graph, frames: Node, videos: int, times: _Times, border: float) -> None:
        count, c, h, w = _sizes(frames)
        self.graph, self.times, self.videos, self.image = graph, times, videos, (h, w, c)
        self.length, around = count // videos, times.padding
        self.node = add_view(graph, add_permute(graph, frames, (0, 2, 3, 1)), (videos, self.length, h, w, c))
        if around:
            self.length += 2 * around
            args = (self.node, [0, 0, 0, 0, 0, 0, around, around], border)
            sizes = (videos, self.length, h, w, c)
            self.node = add_node(graph, aten.constant_pad_nd.default, args, sizes, frames)

    def at(self, first: int, taps: int) -> Node:
        """The frames at so many places of the window, from place `first` on."""
        graph, times, (h, w, c) = self.graph, self.times, self.image
        frame = h * w * c
        sizes = (self.videos, times.length, h, w, taps, c)
        strides = [self.length * frame, times.stride * frame, w * c, c, times.dilation * frame, 1]
        args = (self.node, list(sizes), strides, first * times.dilation * frame)
        read = add_node(graph, aten.as_strided_copy.default, args, sizes, self.node)
        return add_permute(
            graph, add_view(graph, read, (self.videos * times.length, h, w, taps * c)), (0, 3, 1, 2)
        )


def _move_to_frames(videos: _Videos, node: Node) -> int:
    """op(video, ...) becomes the video of op(frames, ...)."""
    value = tensor_of(node)
    if value is None or value.dim() != 5 or not is_static(node):
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


def _as_frames(videos: _Videos, source: Node, result: torch.Tensor, joins: bool) -> Node | None:
    """What stands for `source` beside frames: its own, a number, or one frame for all."""
    value: Any = tensor_of(source)
    if value is None or value.dim() == 0:
        return source
    if source in videos.frames and (
        joins or (value.shape[0], value.shape[2]) == (result.shape[0], result.shape[2])
    ):
        return videos.frames[source]
    if joins or not is_static(source):
        return None
    n, c, t, h, w = (1,) * (5 - value.dim()) + tuple(value.shape)
    return add_view(videos.graph, source, (1, c, h, w)) if n == t == 1 else None


def _pad(videos: _Videos, node: Node) -> int:
    """Borders of videos, before or behind the first and the last frame too, become those of pixels."""
    given: tuple[Any, ...] = node.args
    x, (*borders,) = given[0], given[1]
    if x not in videos.frames or not is_static(x, node) or len(borders) > 6:
        return 0
    if all(_takes_zeros(user) for user in node.users):
        return 0
    graph, (n, c, t, h, w), (_, _, length, height, width) = videos.graph, _sizes(x), _sizes(node)
    with graph.inserting_before(node):
        pixels = add_permute(graph, videos.frames[x], (0, 2, 3, 1))
        pixels = add_view(graph, pixels, (n, t, h, w, c))
        args, sizes = (pixels, [0, 0, *borders], *given[2:]), (n, length, height, width, c)
        padded = add_node(graph, aten.constant_pad_nd.default, args, sizes, node, kwargs=dict(node.kwargs))
        rows = add_view(graph, padded, (n * length, height, width, c))
        frames = add_permute(graph, rows, (0, 3, 1, 2))
    videos.replace([node], frames, node)
    return 1


def _normalise(videos: _Videos, node: Node) -> int:
    """A group norm of videos, whose frames are one high image, if nobody wants its means."""
    args: tuple[Any, ...] = node.args
    users = list(node.users)
    if args[0] not in videos.frames or not is_static(args[0]):
        return 0
    if not users or any(user.args[1] != 0 for user in users):
        return 0
    graph, results, (n, c, t, h, w) = videos.graph, node.meta["val"], _sizes(args[0])
    to_rows, to_image = (0, 2, 3, 1), (0, 3, 1, 2)
    with graph.inserting_before(node):
        rows = add_view(graph, add_permute(graph, videos.frames[args[0]], to_rows), (n, t * h, w, c))
        image = add_permute(graph, rows, to_image)
        normalised = graph.call_function(_group_norm, (image, *args[1:]), dict(node.kwargs))
        normalised.meta = {**node.meta, "val": type(results)((image.meta["val"], *results[1:]))}
        first = graph.call_function(operator.getitem, (normalised, 0))
        first.meta = {**users[0].meta, "val": image.meta["val"]}
        rows = add_view(graph, add_permute(graph, first, to_rows), (n * t, h, w, c))
        frames = add_permute(graph, rows, to_image)
    videos.replace(users, frames, users[0])
    return 1


def _pool(videos: _Videos, node: Node) -> int:
    """A maximum over images, and of those over time, if nobody wants the indices."""
    given: tuple[Any, ...] = node.args
    x, window, *rest = given
    users, before = list(node.users), tensor_of(x)
    wanted = [user for user in users if user.target is not operator.getitem or user.args[1] != 0]
    defaults: tuple[Any, ...] = ([], [0], [1], False)
    stride, padding, dilation, ceil_mode = (*rest, *defaults[len(rest) :])
    if x not in videos.frames or before is None or not is_static(x) or wanted or not users:
        return 0
    if ceil_mode or not before.is_floating_point():
        return 0
    taps, strides = _triple(window), _triple(stride or window)
    pads, steps = _triple(padding), _triple(dilation)
    n, c, t, _, _ = _sizes(x)
    _, _, length, *image = _sizes(users[0])
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
        times = _Times(taps[0], strides[0], pads[0], steps[0], length)
        first, *others = _apart(graph, frames, n, times, -float("inf"))
        for other in others:
            first = add_node(graph, aten.maximum.default, (first, other), _sizes(first), x)
    videos.replace(users, first, node)
    return 1
