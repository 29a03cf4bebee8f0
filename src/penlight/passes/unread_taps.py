"""Drop the rows and columns of convolutions' windows that never meet their images.

    convolution(x, w[256, 960, 3, 3], padding=[24, 24], dilation=[24, 24])   with x of [1, 960, 14, 14]
        ->   convolution(x, w[:, :, 1:2, 1:2], padding=[0, 0])

as pyramids of dilated windows have them over small images (Chen et al., "DeepLab", 2017), and
detectors over their last image, of one pixel. The weights need not be in the file.

Needs:  edge dialect; weights that are constants, images of static sizes.
Keeps:  every output's shape and dtype; its value, unless a weight that is dropped is not finite.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch.fx import Graph, Node

from penlight.ir.tensors import Derived, recipe
from penlight.passes.base import tensor_of
from penlight.passes.constants import Constants

aten = torch.ops.aten

_STRIDE, _PADDING, _DILATION, _TRANSPOSED = 3, 4, 5, 6


def drop_unread_taps(graph: Graph, constants: Constants) -> int:
    """Rewrite `graph` in place; return how many convolutions have smaller windows."""
    changed = 0
    for node in graph.find_nodes(op="call_function", target=aten.convolution.default):
        weight: Any = node.args[1]
        like = constants.like(weight)
        if like is None or node.args[_TRANSPOSED] or not constants.is_read_once(weight):
            continue
        margins = _margins(node, like.shape[2:])
        if not any(margins):
            continue
        stem = constants.names[weight].removesuffix(".weight")
        args: list[Any] = list(node.args)
        args[1] = constants.add(f"{stem}.cropped.weight", _cropped(constants.derived(weight), margins))
        dilation, padding = (_of_each(args[place], len(margins)) for place in (_DILATION, _PADDING))
        args[_PADDING] = [p - m * d for p, m, d in zip(padding, margins, dilation, strict=True)]
        node.args = tuple(args)
        changed += 1
    return changed


def _margins(node: Node, window: torch.Size) -> list[int]:
    """How many taps on both sides of a window no place of it reads, for each dimension of the image."""
    image, result = tensor_of(node.args[0]), tensor_of(node)
    if image is None or result is None:
        return []
    found = []
    numbers = [_of_each(node.args[place], len(window)) for place in (_STRIDE, _PADDING, _DILATION)]
    for taps, size, places, stride, pad, dilation in zip(
        window, image.shape[2:], result.shape[2:], *numbers, strict=True
    ):
        margin = 0
        if isinstance(size, int) and isinstance(places, int):
            reads = [_reads(tap * dilation - pad, stride, places, size) for tap in range(taps)]
            while 2 * (margin + 1) < taps and pad >= (margin + 1) * dilation:
                if reads[margin] or reads[taps - 1 - margin]:
                    break
                margin += 1
        found.append(margin)
    return found


def _reads(first: int, stride: int, places: int, size: int) -> bool:
    """Does a tap that begins at pixel `first` meet one of `size` pixels?"""
    place = max(0, -(first // stride))
    return place < places and first + place * stride < size


def _of_each(numbers: Any, dims: int) -> list[int]:
    return list(numbers) * (dims if len(numbers) == 1 else 1)


def _cropped(weight: Derived, margins: list[int]) -> Derived:
    like = weight.like
    inner = (
        slice(None),
        slice(None),
        *(slice(m, size - m) for m, size in zip(margins, like.shape[2:], strict=True)),
    )

    def pieces() -> Iterator[torch.Tensor]:
        for piece in weight.pieces():
            yield piece[inner].contiguous()

    return Derived(like[inner].contiguous(), pieces, recipe("cropped", weight, tuple(margins)))
