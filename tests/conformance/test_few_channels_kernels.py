"""Convolutions of images with few channels, with every instruction set of this machine."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from run_op import one_op_program, overload_of, run_op
from torch import Tensor
from torch.nn import functional

import penlight
from penlight.dialects.packed_ops import packed_ops
from penlight.ir.tensors import Derived
from penlight.kernels.table import default_table
from penlight.passes.packing import pack_panels

assert packed_ops(default_table(), ("optimized", "portable"))  # makes the operators known to torch

# Sizes of the input, outputs, padding above, left, below and right.
FIRST = [
    ((1, 3, 64, 64), 64, (3, 3, 3, 3)),
    ((1, 3, 224, 50), 96, (3, 3, 3, 3)),
    ((1, 4, 61, 66), 17, (0, 0, 0, 0)),
    ((2, 3, 45, 83), 48, (2, 3, 2, 3)),
    ((3, 3, 64, 33), 130, (0, 5, 2, 1)),
    ((1, 4, 7, 400), 64, (6, 6, 6, 6)),
    ((70, 3, 7, 7), 32, (0, 0, 0, 0)),
    # Few tiles, and fewer channels: computed directly.
    ((1, 3, 20, 20), 24, (3, 3, 3, 3)),
    ((1, 2, 64, 64), 24, (3, 3, 3, 3)),
    # Lines of one tile and two, of a block, of one tile more or fewer than two blocks.
    *(((40, 3, 7, 5 + 2 * width), 80, (3, 0, 3, 0)) for width in (1, 2, 3, 4, 36, 37, 69, 70, 72, 73)),
]

# Sizes of the input, outputs, the window and its strides; padding above, left, below and right if any.
PATCHES = [
    ((1, 3, 224, 224), 192, (16, 16), (16, 16)),
    ((2, 3, 100, 75), 17, (14, 14), (14, 14)),  # pixels below and right that no window reads
    ((1, 3, 64, 70), 33, (11, 13), (12, 15)),  # and between them
    ((1, 1, 128, 100), 40, (32, 20), (32, 20)),
    ((3, 4, 32, 64), 16, (8, 16), (8, 16)),
    ((1, 31, 12, 10), 70, (4, 5), (4, 5)),
    ((1, 3, 512, 640), 20, (16, 16), (16, 16)),  # several blocks of patches
    ((1, 5, 99, 12), 24, (9, 12), (9, 12)),
    # Not side by side, a part of them beyond the image, too few terms, or one window.
    ((1, 3, 60, 60), 24, (16, 16), (15, 16)),
    ((1, 3, 32, 32), 24, (16, 16), (16, 16), (16, 0, 0, 0)),
    ((1, 3, 32, 32), 24, (16, 16), (16, 16), (0, 0, 5, 16)),
    ((1, 3, 32, 32), 24, (11, 11), (11, 11)),
    ((1, 3, 20, 20), 24, (16, 16), (16, 16)),
]

# Channels enough for tiles of Winograd's method; sizes, outputs, padding, the window and its strides.
TILES = [
    ((1, 16, 20, 20), 16, (1, 1, 1, 1), (3, 3), (1, 1)),
    ((2, 24, 13, 31), 40, (0, 2, 1, 1), (3, 3), (1, 1)),
    ((3, 31, 40, 9), 17, (1, 1, 1, 1), (3, 3), (1, 1)),
    ((1, 20, 16, 18), 130, (2, 2, 2, 2), (3, 3), (1, 1)),
    ((40, 16, 4, 4), 24, (1, 1, 1, 1), (3, 3), (1, 1)),
    ((1, 28, 24, 24), 28, (2, 2, 2, 2), (5, 5), (1, 1)),
    ((1, 16, 17, 30), 33, (3, 0, 3, 6), (7, 7), (1, 1)),
    ((1, 24, 80, 80), 48, (1, 1, 1, 1), (3, 3), (2, 2)),
    # Too few pixels, channels or outputs, or one row of taps: computed directly.
    ((1, 16, 11, 11), 16, (1, 1, 1, 1), (3, 3), (1, 1)),
    ((1, 15, 20, 20), 16, (1, 1, 1, 1), (3, 3), (1, 1)),
    ((1, 16, 20, 20), 15, (1, 1, 1, 1), (3, 3), (1, 1)),
    ((1, 16, 20, 20), 16, (0, 3, 0, 3), (1, 7), (1, 1)),
]

# Lines with tiles whose windows lie inside the image, of each kind of tiles, and others beside them.
LINES = [
    ((1, 3, 30, 130), 16, (1, 1, 1, 1), (3, 3), (2, 2)),
    ((2, 3, 21, 97), 72, (1, 1, 1, 1), (3, 3), (1, 1)),
    ((1, 4, 19, 61), 40, (0, 3, 2, 1), (5, 4), (1, 1)),
    ((1, 1, 40, 200), 24, (2, 2, 2, 2), (5, 5), (3, 3)),
    ((1, 6, 15, 90), 100, (1, 0, 1, 9), (2, 7), (1, 2)),
    ((3, 3, 26, 83), 8, (0, 0, 0, 0), (3, 3), (2, 2)),
    ((1, 2, 33, 58), 145, (0, 40, 3, 0), (4, 4), (1, 1)),
    ((1, 3, 50, 90), 48, (4, 4, 4, 4), (3, 3), (2, 1), (4, 4)),
    ((2, 5, 31, 64), 31, (2, 6, 2, 6), (3, 3), (1, 2), (2, 6)),
    # Windows of three columns that share them, of both heights of tiles, and what has too few of them.
    ((1, 3, 30, 129), 33, (1, 1, 1, 1), (3, 3), (2, 2)),
    ((1, 3, 12, 224), 80, (1, 1, 1, 1), (3, 3), (2, 2)),
    ((2, 1, 40, 75), 24, (1, 1, 1, 1), (3, 3), (1, 1)),
    ((1, 1, 33, 90), 16, (1, 2, 0, 1), (3, 3), (2, 2)),
    ((1, 3, 25, 61), 64, (0, 1, 2, 1), (5, 3), (1, 1)),
    ((1, 3, 41, 33), 16, (2, 1, 2, 1), (3, 3), (1, 2), (2, 1)),
    ((1, 1, 20, 90), 32, (1, 1, 1, 1), (2, 3), (1, 2)),
    ((1, 3, 20, 16), 40, (0, 0, 0, 0), (3, 3), (1, 1)),
    # One column beside the image left of a line, right of it, or on both sides; in one tile or more.
    ((1, 3, 20, 112), 16, (1, 1, 1, 1), (3, 3), (1, 1)),
    ((2, 3, 9, 28), 24, (0, 1, 1, 1), (3, 3), (1, 1)),
    ((1, 1, 18, 16), 8, (1, 1, 0, 1), (3, 3), (1, 1)),
    ((1, 3, 21, 111), 16, (1, 1, 1, 1), (3, 3), (2, 2)),
    ((2, 3, 16, 65), 40, (1, 0, 1, 1), (3, 3), (2, 2)),
]

# A few lines, of which threads share the columns where they are more.
SIGNALS = [
    ((1, 8, 1, 2600), 8, (0, 3, 0, 3), (1, 7), (1, 1)),
    ((1, 16, 1, 1501), 20, (0, 15, 0, 15), (1, 11), (1, 1), (1, 3)),
    ((1, 1, 1, 16000), 64, (0, 0, 0, 0), (1, 10), (1, 5)),
    ((1, 5, 1, 4001), 33, (0, 900, 0, 700), (1, 4), (1, 3)),
    ((1, 3, 2, 3000), 12, (0, 1, 1, 1), (2, 3), (2, 1)),
    ((2, 9, 1, 1300), 40, (0, 2, 0, 2), (1, 5), (1, 2)),
    ((1, 30, 3, 200), 48, (0, 60, 0, 60), (3, 5), (1, 1), (1, 30)),
]

# So few outputs that vectors are of channels; more of them, too few pixels.
OUTPUTS = [
    ((1, 8, 1, 5000), 1, (0, 3, 0, 3), (1, 7), (1, 1)),
    ((2, 11, 40, 50), 2, (1, 1, 1, 1), (3, 3), (1, 1)),
    ((1, 16, 60, 75), 1, (2, 1, 1, 2), (3, 3), (1, 1)),
    ((1, 24, 21, 130), 2, (1, 4, 1, 4), (3, 5), (1, 2), (1, 2)),
    ((1, 29, 40, 31), 3, (1, 1, 1, 1), (3, 3), (1, 1)),
    ((1, 16, 90, 13), 4, (1, 1, 1, 1), (3, 3), (1, 1)),
    ((1, 16, 20, 20), 1, (1, 1, 1, 1), (3, 3), (1, 1)),
    ((2, 31, 12, 17), 2, (0, 2, 1, 1), (3, 3), (1, 1)),
    ((1, 24, 33, 30), 3, (2, 2, 2, 2), (5, 5), (2, 2)),
    ((1, 20, 9, 40), 4, (0, 1, 0, 1), (1, 3), (1, 1)),
    ((3, 28, 16, 16), 7, (1, 1, 1, 1), (3, 3), (1, 1)),
    ((1, 17, 40, 8), 8, (1, 0, 1, 0), (3, 1), (1, 1)),
    ((1, 16, 20, 20), 9, (1, 1, 1, 1), (3, 3), (1, 1)),
    ((1, 16, 7, 9), 2, (1, 1, 1, 1), (3, 3), (1, 1)),
]


class Layer:
    def __init__(
        self,
        sizes: tuple[int, ...],
        outputs: int,
        padding: tuple[int, ...] = (0, 0, 0, 0),
        taps: tuple[int, int] = (7, 7),
        stride: tuple[int, int] = (2, 2),
        dilation: tuple[int, int] = (1, 1),
    ) -> None:
        self.op = overload_of("penlight::conv2d_packed")
        self.x = torch.randn(*sizes)
        self.weight, self.bias = torch.randn(outputs, sizes[1], *taps), torch.randn(outputs)
        self.packed = pack_panels(Derived.of(self.weight), self.bias).tensor()
        self.padding, self.stride, self.dilation = padding, stride, dilation

    @classmethod
    def of_patches(cls, case: Any) -> Layer:
        sizes, outputs, taps, stride, *padding = case
        return cls(sizes, outputs, *padding, taps=taps, stride=stride)

    def exact(self, x: Tensor) -> Tensor:
        above, left, below, right = self.padding
        padded = functional.pad(x.double(), [left, right, above, below])
        exact = functional.conv2d(
            padded, self.weight.double(), self.bias.double(), self.stride, 0, self.dilation
        )
        return exact.contiguous(memory_format=torch.channels_last)

    def args(self, x: Tensor, residual: Tensor | None, activation: int) -> list[Any]:
        window = [self.weight.shape[0], *self.weight.shape[2:]]
        steps = [list(self.stride), list(self.padding), list(self.dilation)]
        numbers = [window, *steps, 1, activation, -5.0, 7.5]
        return [x, self.packed, residual, *numbers]


@pytest.mark.parametrize("planar", [True, False], ids=["planar", "channels last"])
@pytest.mark.parametrize("case", FIRST + LINES + SIGNALS, ids=str)
def test_first_convolution(isa: str, case: Any, planar: bool) -> None:
    check(Layer(*case), planar)


@pytest.mark.parametrize("planar", [True, False], ids=["planar", "channels last"])
@pytest.mark.parametrize("case", PATCHES, ids=str)
def test_patches(isa: str, case: Any, planar: bool) -> None:
    check(Layer.of_patches(case), planar)


@pytest.mark.parametrize("planar", [True, False], ids=["planar", "channels last"])
@pytest.mark.parametrize("case", TILES + OUTPUTS, ids=str)
def test_many_channels(isa: str, case: Any, planar: bool) -> None:
    check(Layer(*case), planar)


def check(layer: Layer, planar: bool) -> None:
    """With each kind of activation, with something added and without."""
    x = layer.x if planar else layer.x.contiguous(memory_format=torch.channels_last)
    exact = layer.exact(x)
    residual = torch.randn(exact.shape).contiguous(memory_format=torch.channels_last)
    bound = 1e-5 * (exact.max() - exact.min())
    for activation, function in (
        (0, None),
        (1, torch.relu),
        (2, lambda y: y.clamp(-5.0, 7.5)),
        (5, functional.silu),
    ):
        for added in (None, residual):
            want = exact if added is None else exact + added
            want = (function(want) if function else want).contiguous(memory_format=torch.channels_last)
            (got,) = run_op(layer.op, layer.args(x, added, activation), {}, want.float(), "optimized")
            assert (got.double() - want).abs().max() < bound


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, 3e38, -3e38])
@pytest.mark.parametrize("place", [(0, 0), (31, 40), (63, 63)], ids=str)
@pytest.mark.parametrize("channels", [3, 16])
def test_what_is_not_finite(isa: str, channels: int, value: float, place: tuple[int, int]) -> None:
    """Reaches the outputs that it reaches in eager, and no others of their tiles."""
    if channels == 3:
        layer = Layer((1, channels, 64, 64), 32, (3, 3, 3, 3))
    else:
        layer = Layer((1, channels, 64, 64), 32, (1, 1, 1, 1), (3, 3), (1, 1))
        layer.x = layer.x.contiguous(memory_format=torch.channels_last)
    layer.x[0, 1, place[0], place[1]] = value
    want = layer.op(*layer.args(layer.x, None, 0))
    (got,) = run_op(layer.op, layer.args(layer.x, None, 0), {}, want, "optimized")
    torch.testing.assert_close(got, want, rtol=1e-4, atol=1e-3, equal_nan=True)


@pytest.mark.parametrize(
    "case", FIRST[:5] + LINES + SIGNALS + PATCHES[:7] + TILES[:8] + OUTPUTS[:12], ids=str
)
def test_threads_change_nothing(isa: str, case: Any) -> None:
    layer = Layer.of_patches(case) if case in PATCHES else Layer(*case)
    if case in TILES + OUTPUTS:
        layer.x = layer.x.contiguous(memory_format=torch.channels_last)
    want = layer.exact(layer.x).float()
    file = one_op_program(layer.op, layer.args(layer.x, None, 0), {}, want)
    alone, *others = (
        penlight.load(file, libraries="optimized", threads=n)(layer.x, layer.packed)[0].clone()
        for n in (1, 2, 3, 5, 8)
    )
    assert all(torch.equal(other, alone) for other in others)
    assert not alone.isnan().any()


def test_directly_where_the_program_says_so(isa: str) -> None:
    layer = Layer(*FIRST[0])
    want = layer.exact(layer.x)
    op = overload_of("penlight::conv2d_direct_packed")
    (got,) = run_op(op, layer.args(layer.x, None, 0), {}, want.float(), "optimized")
    torch.testing.assert_close(got.double(), want, rtol=1e-5, atol=2e-7 * 147)


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_what_is_not_finite_in_a_patch(isa: str, value: float) -> None:
    layer = Layer.of_patches(PATCHES[1])
    layer.x[1, 2, 30, 20] = value
    want = layer.exact(layer.x)
    (got,) = run_op(layer.op, layer.args(layer.x, None, 0), {}, want.float(), "optimized")
    torch.testing.assert_close(got.double(), want, rtol=1e-4, atol=1e-3, equal_nan=True)
