"""Videos as images of frames, and the windows over time that read them.

A video [N, C, T, H, W] is kept as an image of N * T frames, [N * T, C, H, W]. What a window over
time reads for each result lies side by side as channels then, or apart as frames of their own.
Sizes may be dynamic: those of views and copies are nodes of the graph.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.fx import Graph, Node

from penlight.passes.base import add_node, add_permute, add_view, tensor_of
from penlight.passes.symbols import SymbolNodes

aten = torch.ops.aten

SWAPPED = (0, 2, 1, 3, 4)  # channels and time
_TO_IMAGE = [0, 3, 1, 2]


class Videos:
    """Which nodes are videos of which frames, and weights as convolutions of frames read them.

    Every node has to be shown to `see` in graph order.
    """

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.frames: dict[Node, Node] = {}
        self._weights: dict[tuple[Node, Hashable], Node] = {}
        self._symbols = SymbolNodes(graph)

    def see(self, node: Node) -> None:
        """Remember which sizes `node` has: others are made of them."""
        self._symbols.see(node)

    def numbers(self, sizes: Sequence[Any]) -> list[Any]:
        """Sizes as an operator takes them."""
        return [self._symbols.node(size) if isinstance(size, torch.SymInt) else size for size in sizes]

    def view(self, x: Node, sizes: Sequence[Any]) -> Node:
        """`x` under other sizes."""
        if sum(not isinstance(size, int) for size in sizes) < 2:
            return add_view(self.graph, x, sizes)
        return add_node(self.graph, aten.view_copy.default, (x, self.numbers(sizes)), sizes, x)

    def pixels_of(self, image: Node) -> Node:
        """An image [N, C, H, W] as [N, H, W, C]: what it was made of, if it was."""
        args: Any = image.args
        if image.target is aten.permute_copy.default and list(args[1]) == _TO_IMAGE:
            return args[0]  # type: ignore[no-any-return]
        return add_permute(self.graph, image, (0, 2, 3, 1))

    def image_of(self, pixels: Node) -> Node:
        """[N, H, W, C] as an image."""
        return add_permute(self.graph, pixels, _TO_IMAGE)

    def weight(self, of: Node, how: Hashable, make: Callable[[], Node]) -> Node:
        """What `make` makes of a weight, `how` saying what that is: once for all that read it."""
        if (of, how) not in self._weights:
            self._weights[of, how] = make()
        return self._weights[of, how]

    def frames_of(self, video: Node) -> Node:
        """The frames [N * T, C, H, W] of a video [N, C, T, H, W]."""
        if video not in self.frames:
            n, c, t, h, w = shape_of(video)
            pixels = self.view(add_permute(self.graph, video, (0, 2, 3, 4, 1)), (n * t, h, w, c))
            self.frames[video] = self.image_of(pixels)
        return self.frames[video]

    def replace(self, nodes: Sequence[Node], frames: Node, before: Node) -> None:
        """Use the video of `frames`, made `before`, for `nodes`, which are all the same."""
        n, c, t, h, w = shape_of(nodes[0])
        with self.graph.inserting_before(before):
            video = add_permute(self.graph, self.view(frames, (n, t, c, h, w)), SWAPPED)
        video.meta = {**nodes[0].meta, "val": video.meta["val"]}
        for node in nodes:
            node.replace_all_uses_with(video)
        self.frames[video] = frames


def shape_of(video: Node) -> Any:
    """Of other tensors too; a number each, or a symbol."""
    value: Any = tensor_of(video)
    return tuple(value.shape)


def triple(given: Any) -> tuple[Any, ...]:
    """A number each for time, height and width."""
    numbers = tuple(given)
    return numbers * 3 if len(numbers) == 1 else numbers


@dataclass(frozen=True)
class Times:
    """A window over time: its places, frames of a border on both sides, and how many results there are."""

    taps: int
    stride: int
    before: int  # below zero: frames that it does not read
    after: int
    dilation: int
    length: Any

    def is_one_frame(self) -> bool:
        """Is each result of the frame at its own place?"""
        return (self.taps, self.stride, self.before, self.after) == (1, 1, 0, 0)


class Pixels:
    """The frames of a video as [N, T, H, W, C] with borders in time, which a window is read from.

    That is where channels-last frames lie: reading them so copies nothing.
    """

    def __init__(self, videos: Videos, frames: Node, count: Any, times: Times, border: float = 0.0) -> None:
        """`count`: how many videos have these frames, and frames each."""
        graph = videos.graph
        (self.count, length), (_, c, h, w) = count, shape_of(frames)
        self.videos, self.times, self.image = videos, times, (h, w, c)
        self.length, around = length + times.before + times.after, (times.before, times.after)
        self.node = videos.view(videos.pixels_of(frames), (self.count, length, h, w, c))
        if around != (0, 0):
            args = (self.node, [0, 0, 0, 0, 0, 0, *around], border)
            sizes = (self.count, self.length, h, w, c)
            self.node = add_node(graph, aten.constant_pad_nd.default, args, sizes, frames)

    def at(self, first: int, taps: int) -> Node:
        """The frames at so many places of the window, from place `first` on, side by side."""
        graph, times, (h, w, c) = self.videos.graph, self.times, self.image
        frame = h * w * c
        sizes = (self.count, times.length, h, w, taps, c)
        strides = (self.length * frame, times.stride * frame, w * c, c, times.dilation * frame, 1)
        numbers = self.videos.numbers
        args = (self.node, numbers(sizes), numbers(strides), *numbers([first * times.dilation * frame]))
        read = add_node(graph, aten.as_strided_copy.default, args, sizes, self.node)
        return self.videos.image_of(self.videos.view(read, (self.count * times.length, h, w, taps * c)))


def side_by_side(videos: Videos, frames: Node, count: Any, times: Times) -> Node:
    """For each result, the channels of all frames in its window, one behind the other."""
    if times.is_one_frame():
        return frames
    return Pixels(videos, frames, count, times).at(0, times.taps)


def apart(videos: Videos, frames: Node, count: Any, times: Times, border: float = 0.0) -> list[Node]:
    """For each place of the window, the frames there, as many as there are results."""
    if times.is_one_frame():
        return [frames]
    pixels = Pixels(videos, frames, count, times, border)
    return [pixels.at(tap, 1) for tap in range(times.taps)]
