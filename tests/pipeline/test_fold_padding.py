"""Zeros around an image become the padding of the convolution that reads it."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from fused import check, operators
from torch import Tensor, nn
from torch.export import Dim
from torch.nn import functional

import penlight
from penlight.pipeline import Report, export, to_edge

IMAGE = torch.randn(2, 6, 11, 9)


class Padded(nn.Module):
    def __init__(self, amounts: list[int], layer: nn.Module, value: float = 0.0) -> None:
        super().__init__()
        self.amounts, self.layer, self.value = amounts, layer, value

    def forward(self, x: Tensor) -> Tensor:
        return self.layer(functional.pad(x, self.amounts, value=self.value))


@pytest.mark.parametrize("target", ["cpu", "portable"])
@pytest.mark.parametrize(
    "amounts, layer, shape",
    [
        ([1, 1, 1, 1], lambda: nn.Conv2d(6, 8, 3), (2, 6, 11, 9)),
        ([2, 2, 1, 1], lambda: nn.Conv2d(6, 8, (3, 5), stride=2), (2, 6, 11, 9)),
        ([0, 0, 3, 3], lambda: nn.Conv2d(6, 6, 3, padding=(1, 2), groups=6), (1, 6, 4, 5)),
        ([4, 4], lambda: nn.Conv2d(6, 4, 3, dilation=2), (1, 6, 5, 7)),
        ([5, 5], lambda: nn.Conv1d(6, 7, 4), (3, 6, 10)),
        ([1, 1, 2, 2, 0, 0], lambda: nn.Conv3d(2, 3, 3), (1, 2, 4, 3, 5)),
        ([1, 1, 1, 1, 0, 0, 0, 0], lambda: nn.Conv2d(6, 8, 3, padding=1), (0, 6, 4, 4)),
    ],
)
def test_it_becomes_the_convolutions(
    amounts: list[int], layer: Callable[[], nn.Module], shape: tuple[int, ...], target: str
) -> None:
    model, x = Padded(amounts, layer()), torch.randn(shape)
    assert "constant_pad_nd" not in operators(model, x, target=target)
    check(model, x, target=target)


@pytest.mark.parametrize(
    "amounts, layer, shape",
    [
        ([0, 1, 0, 1], lambda: nn.Conv2d(6, 8, 3, stride=2), (2, 6, 12, 10)),
        ([0, 1, 0, 1], lambda: nn.Conv2d(3, 8, 3, stride=2), (1, 3, 16, 16)),
        ([1, 2, 1, 2], lambda: nn.Conv2d(6, 6, 5, stride=2, groups=6), (1, 6, 12, 9)),
        ([0, 1, 2, 2], lambda: nn.Conv2d(6, 8, 1, padding=1), (1, 6, 4, 5)),
        ([3, 0], lambda: nn.Conv1d(6, 7, 4), (3, 6, 10)),
        ([6, 0], lambda: nn.Conv1d(6, 6, 3, dilation=3, groups=6, padding=1), (1, 6, 10)),
    ],
)
def test_sides_that_differ_are_for_packed_weights(
    amounts: list[int], layer: Callable[[], nn.Module], shape: tuple[int, ...]
) -> None:
    """ATen's operator has one number for both sides, so a portable program keeps the padding."""
    model, x = Padded(amounts, layer()), torch.randn(shape)
    assert "constant_pad_nd" not in operators(model, x)
    check(model, x)
    assert "constant_pad_nd" in operators(model, x, target="portable")
    check(model, x, target="portable")


def test_sides_that_differ_around_a_bottleneck() -> None:
    """Its expanded image never exists as a whole, padded or not."""
    expand, shrink = nn.Conv2d(8, 48, 1), nn.Conv2d(48, 48, 3, stride=2, groups=48)
    model = nn.Sequential(expand, nn.ReLU6(), Padded([0, 1, 0, 1], shrink), nn.ReLU6())
    x = torch.randn(1, 8, 70, 64)
    assert "expand_depthwise_packed" in operators(model, x)
    assert "constant_pad_nd" not in operators(model, x)
    check(model, x)


def test_one_number_for_all_directions() -> None:
    class One(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.Parameter(torch.randn(8, 6, 3, 3))

        def forward(self, x: Tensor) -> Tensor:
            y: Tensor = torch.ops.aten.convolution(x, self.weight, None, [2], [1], [2], False, [0], 1)
            return y

    check(One(), IMAGE)
    check(One(), IMAGE, target="portable")


def test_float16_and_values_that_are_not_finite() -> None:
    model = Padded([1, 1, 1, 1], nn.Conv2d(6, 8, 3))
    x = IMAGE.clone()
    x[0, 0, 0, 0], x[1, 2, 5, 4] = torch.nan, torch.inf
    check(model, x)
    assert "constant_pad_nd" not in operators(model.half(), IMAGE.half())
    check(model.half(), IMAGE.half(), tolerance=1e-2)


def test_sizes_may_be_dynamic() -> None:
    model = Padded([1, 1, 1, 1], nn.Conv2d(6, 8, 3))
    shapes = {"x": {2: Dim("height", min=3, max=40)}}
    program = penlight.load(penlight.compile(model, (IMAGE,), dynamic_shapes=shapes).to_bytes())
    for height in (3, 17, 40):
        x = torch.randn(2, 6, height, 9)
        torch.testing.assert_close(program(x), model(x).detach(), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    "amounts, value, reason",
    [
        ([0, 1, 0, 1], 0.0, "more zeros on one side than on the other"),
        ([1, 1, 1, 1], 0.5, "does not pad with zeros"),
        ([-1, -1, 2, 2], 0.0, "takes elements away"),
        ([1, 1, 1, 1, 1, 1], 0.0, "pads channels or batches"),
    ],
)
def test_what_stays_says_why(amounts: list[int], value: float, reason: str) -> None:
    channels = 8 if len(amounts) > 4 else 6
    model, report = Padded(amounts, nn.Conv2d(channels, 8, 3), value), Report()
    to_edge(export(model.eval(), (IMAGE,)), target="portable", report=report)
    assert "constant_pad_nd" in operators(model, IMAGE, target="portable") and reason in report.explain_left()
    check(model, IMAGE)


def test_transposed_convolutions_keep_it() -> None:
    model = Padded([1, 1, 1, 1], nn.ConvTranspose2d(6, 8, 3, 2))
    assert "constant_pad_nd" in operators(model, IMAGE)
    check(model, IMAGE)


def test_padding_that_something_else_reads_stays_for_it() -> None:
    class Both(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Conv2d(6, 8, 3)

        def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
            padded = functional.pad(x, [1, 1, 1, 1])
            return self.layer(padded), padded

    model = Both().eval()
    program = penlight.load(penlight.compile(model, (IMAGE,)).to_bytes())
    for got, want in zip(program(IMAGE), model(IMAGE), strict=True):
        torch.testing.assert_close(got, want.detach(), rtol=1e-5, atol=1e-5)
    left_out = operators(Padded([1, 1, 1, 1], nn.Conv2d(6, 8, 3)), IMAGE, without=["fold_padding"])
    assert "constant_pad_nd" in left_out
