"""Shuffles of pixels at the ends of a network take one copy, whichever order is wanted there."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from tests.pipeline.fused import check
from torch import Tensor, nn
from torch.export import Dim

import penlight

COPIES = ("clone", "copy", "pixel_shuffle", "pixel_unshuffle")


class Around(nn.Module):
    """`function` of a convolution and an image of 4 channels."""

    def __init__(self, function: Callable[..., Tensor], inputs: int = 4, outputs: int = 36) -> None:
        super().__init__()
        self.layer, self.last = nn.Conv2d(inputs, outputs, 3, padding=1), nn.Conv2d(outputs // 4, 5, 1)
        self.function = function

    def forward(self, x: Tensor) -> Tensor:
        return self.function(self, x)


ONE_COPY: dict[str, Around] = {
    "last": Around(lambda m, x: F.pixel_shuffle(m.layer(x), 2)),
    "last, by 3": Around(lambda m, x: F.pixel_shuffle(m.layer(x), 3)),
    "last, activation": Around(lambda m, x: F.pixel_shuffle(m.layer(x).relu(), 2)),
    "first": Around(lambda m, x: m.layer(F.pixel_unshuffle(x, 2)).mean((2, 3)), 16),
}


@pytest.mark.parametrize("name", ONE_COPY)
@pytest.mark.parametrize("sizes", [(1, 4, 6, 10), (3, 4, 8, 2)], ids=str)
def test_one_copy(name: str, sizes: tuple[int, ...]) -> None:
    model, x = ONE_COPY[name], torch.randn(sizes)
    names = penlight.load(penlight.compile(model.eval(), (x,)))["forward"].instruction_names()
    assert sum(any(copy in name for copy in COPIES) for name in names) == 1, names
    check(model, x)


OTHERS: dict[str, Around] = {
    "in the middle": Around(lambda m, x: m.last(F.pixel_shuffle(m.layer(x), 2))),
    "then activation": Around(lambda m, x: F.leaky_relu(F.pixel_shuffle(m.layer(x), 2), 0.2)),
    "residual": Around(
        lambda m, x: F.pixel_shuffle(m.layer(x), 3) + F.interpolate(x, scale_factor=3, mode="bicubic")
    ),
    "several readers": Around(lambda m, x: (y := F.pixel_shuffle(m.layer(x), 2)) + m.last(y)[:, :1]),
    "no convolution": Around(lambda m, x: F.pixel_shuffle(x.tanh(), 2)),
    "there and back": Around(lambda m, x: F.pixel_unshuffle(F.pixel_shuffle(m.layer(x), 2), 2)),
    "without a batch": Around(lambda m, x: F.pixel_shuffle(m.layer(x)[0], 2)),
}


@pytest.mark.parametrize("name", OTHERS)
def test_elsewhere(name: str) -> None:
    model = OTHERS[name]
    if name == "residual":
        model.layer = nn.Conv2d(4, 36, 3, padding=1)
    check(model, torch.randn(2, 4, 6, 8))


@pytest.mark.parametrize("name", ["last", "first"])
def test_dynamic_sizes(name: str) -> None:
    model, x = ONE_COPY[name], torch.randn(2, 4, 8, 12)
    check(model, x, dynamic_shapes=({0: Dim("n", max=4)},))
    height = 2 * Dim("h", min=1, max=8)
    check(model, x, dynamic_shapes=({2: height},))
