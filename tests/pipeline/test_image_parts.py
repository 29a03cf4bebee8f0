"""Parts of images, their borders and their channels in another order: nothing is converted for them."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from fused import check, operators
from torch import Tensor, nn
from torch.export import Dim
from torch.nn import functional

import penlight

Between = Callable[[Tensor], tuple[Tensor, ...]]


class Layers(nn.Module):
    """A convolution to 12 channels, what is between, and a convolution of each part."""

    def __init__(self, between: Between, channels: list[int]) -> None:
        super().__init__()
        self.first, self.between = nn.Conv2d(5, 12, 3, padding=1), between
        self.last = nn.ModuleList(nn.Conv2d(count, 4, 1) for count in channels)

    def forward(self, x: Tensor) -> tuple[Tensor, ...]:
        return tuple(layer(y) for layer, y in zip(self.last, self.between(self.first(x)), strict=True))


def conversions(found: list[str]) -> int:
    return found.count("clone")


def shuffled(x: Tensor, *parts: int) -> Tensor:
    """Channels as so many parts, the order of which is turned around."""
    n, c, h, w = x.shape
    count = len(parts)
    y = x.view(n, *parts, h, w).permute(0, *range(count, 0, -1), count + 1, count + 2)
    return y.reshape(n, c, h, w)


PARTS: dict[str, tuple[Between, list[int]]] = {
    "halves of the channels": (lambda x: x.chunk(2, 1), [6, 6]),
    "uneven channels": (lambda x: x.split([2, 7, 3], -3), [2, 7, 3]),
    "only the second part": (lambda x: (x.split(5, 1)[1],), [5]),
    "one part twice": (lambda x: (x.chunk(3, 1)[2], x.chunk(3, 1)[2].relu()), [4, 4]),
    "images": (lambda x: x.chunk(2, 0), [12, 12]),
    "rows": (lambda x: x.split(4, 2), [12, 12, 12]),
    "columns": (lambda x: x.chunk(2, 3), [12, 12]),
    "some channels": (lambda x: (x[:, 3:7], x[:, ::5]), [4, 3]),
    "every second pixel": (lambda x: (x[:, :, ::2, 1::2],), [12]),
    "a border": (lambda x: (functional.pad(x, [1, 2, 3, 0], "reflect"),), [12]),
    "an edge": (lambda x: (functional.pad(x, [1, 2, 0, 3], "replicate"),), [12]),
    "channels shuffled": (lambda x: (shuffled(x, 2, 6),), [12]),
    "channels shuffled and halved": (lambda x: shuffled(x, 3, 4).chunk(2, 1), [6, 6]),
    "three parts of channels": (lambda x: (shuffled(x, 2, 3, 2),), [12]),
    "torch's shuffle": (lambda x: (functional.channel_shuffle(x, 4),), [12]),
    "channels as pixels": (lambda x: (functional.pixel_shuffle(x, 2),), [3]),
    "pixels as channels": (lambda x: (functional.pixel_unshuffle(x[..., 1:, 1:], 2),), [48]),
    "a part and what it is part of": (lambda x: (x[:, :6] * 2.0, x.sigmoid()), [6, 12]),
}


@pytest.mark.parametrize("name", PARTS)
def test_parts(name: str) -> None:
    between, channels = PARTS[name]
    model, x = Layers(between, channels), torch.randn(2, 5, 11, 9)
    assert conversions(operators(model, x)) == len(channels), "one for each result"
    check(model, x)


@pytest.mark.parametrize("name", PARTS)
def test_parts_that_are_results(name: str) -> None:
    """What leaves the model is row-major, and has the same numbers."""

    class Result(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first = nn.Conv2d(5, 12, 3, padding=1)

        def forward(self, x: Tensor) -> tuple[Tensor, ...]:
            y = self.first(x)
            return *PARTS[name][0](y), y + 1.0

    check(Result(), torch.randn(2, 5, 11, 9))


def test_what_moves_more_than_channels_is_no_shuffle() -> None:
    """Rows change places with groups of channels."""

    def between(x: Tensor) -> tuple[Tensor, ...]:
        n, c, h, w = x.shape
        return (x.view(n, 2, 6, h, w).permute(0, 2, 3, 1, 4).reshape(n, c, h, w),)

    check(Layers(between, [12]), torch.randn(2, 5, 12, 9))


@pytest.mark.parametrize("size", [0, 1, 3])
def test_dynamic_batches(size: int) -> None:
    model = Layers(lambda x: (*x.chunk(2, 1), x[:, 2:5]), [6, 6, 3]).eval()
    shapes = {"x": {0: Dim("batch", min=0, max=4)}}
    program = penlight.compile(model, (torch.randn(2, 5, 11, 9),), dynamic_shapes=shapes)
    x = torch.randn(size, 5, 11, 9)
    with torch.no_grad():
        torch.testing.assert_close(penlight.load(program.to_bytes())(x), model(x), rtol=1e-5, atol=1e-5)


def test_left_out() -> None:
    between, channels = PARTS["channels shuffled and halved"]
    model, x = Layers(between, channels), torch.randn(1, 5, 8, 8)
    check(model, x, without=["keep_channels_last"])
