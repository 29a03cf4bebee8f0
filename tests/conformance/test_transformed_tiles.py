"""Convolutions through transformed tiles (Winograd): of every shape of window that has them, and directly."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from run_op import one_op_program, overload_of, run_op
from test_packed_kernels import ACTIVATIONS, close, image, padded_conv2d
from torch.nn import functional

import penlight
from penlight.ir.tensors import Derived
from penlight.passes.packing import pack_panels

# Layers large enough for tiles of transformed products: input, outputs, padding, stride, dilation.
LARGE = [
    ((1, 32, 33, 30), 32, 1, 1, 1),
    ((2, 24, 40, 21), 40, 0, 1, 1),
    ((1, 17, 62, 50), 19, 2, 1, 1),
    ((1, 32, 33, 30), 32, (0, 2, 1, 0), 1, 1),
    ((1, 64, 12, 11), 72, (1, 0, 0, 2), 1, 1),
    ((1, 64, 65, 58), 64, 1, 2, 1),
    ((2, 48, 41, 50), 72, 0, 2, 1),
    ((3, 50, 70, 90), 35, 2, 2, 1),
    ((1, 64, 56, 56), 40, (0, 0, 1, 1), 2, 1),
    ((1, 96, 29, 28), 80, (1, 0, 0, 2), 2, 1),
    ((2, 160, 13, 12), 128, 1, 2, 1),
    ((1, 64, 28, 28), 64, 2, 1, 2),
    ((2, 40, 37, 30), 48, (3, 4), 1, (3, 4)),
    ((1, 33, 25, 50), 24, (0, 1, 5, 8), 1, (1, 5)),
    ((3, 32, 41, 22), 32, 0, 1, (6, 2)),
    ((1, 128, 33, 33), 96, 4, 1, 4),
    # More transformed weights than are made at once, with either stride.
    ((1, 640, 37, 34), 544, 1, 1, 1),
    ((1, 640, 69, 66), 544, 1, 2, 1),
    # Few outputs: all of them in each of several blocks of tiles.
    ((1, 128, 28, 28), 32, 1, 1, 1),
    ((2, 128, 14, 11), 27, 1, 1, 1),
    ((1, 96, 27, 28), 96, 1, 1, 1),
    ((1, 64, 55, 50), 48, 1, 2, 1),
    # Outputs, or channels, that are fewer than the columns of a tile.
    ((1, 24, 33, 30), 8, 1, 1, 1),
    ((2, 32, 21, 23), 5, 0, 1, 1),
    ((1, 8, 41, 33), 16, 1, 1, 1),
    ((2, 12, 33, 38), 41, (0, 2, 1, 0), 1, 1),
    ((1, 64, 57, 50), 7, 1, 2, 1),
    ((1, 70, 28, 28), 12, 2, 1, 2),
    # Few tiles, up to eight: one image or several, partly outside, dilated.
    ((1, 256, 7, 7), 130, 1, 1, 1),
    ((1, 100, 8, 6), 72, (0, 1, 2, 1), 1, 1),
    ((2, 70, 7, 8), 96, 1, 1, 1),
    ((1, 64, 9, 18), 81, 0, 1, 1),
    ((1, 96, 13, 14), 64, 2, 1, 2),
    ((8, 64, 4, 4), 64, 1, 1, 1),
]
# The same with windows of one row, over signals and over images; before it, their taps.
LARGE_ROWS = [
    (3, (1, 40, 1, 200), 48, (0, 1), 1, 1),
    (3, (3, 64, 1, 77), 33, (0, 0, 2, 0), 1, 1),
    (3, (1, 64, 1, 350), 64, (0, 1), 2, 1),
    (3, (2, 32, 1, 150), 40, (0, 9), 1, (1, 9)),
    (3, (2, 33, 9, 40), 24, (0, 1), 1, 1),
    (3, (1, 48, 21, 34), 32, (2, 0), 1, (3, 2)),
    (3, (1, 64, 13, 40), 64, (1, 1), 2, 1),
    (4, (1, 80, 1, 300), 96, (0, 1, 0, 2), 1, 1),
    (5, (1, 64, 1, 201), 64, (0, 2), 1, 1),
    (5, (3, 33, 1, 77), 40, 0, 1, 1),
    (5, (2, 48, 11, 40), 32, (0, 4), 1, (1, 2)),
    (6, (1, 96, 1, 150), 85, (0, 3, 0, 2), 1, 1),
    (7, (1, 64, 1, 350), 64, (0, 3), 1, 1),
    (7, (2, 67, 1, 333), 70, (0, 27), 1, (1, 9)),
    (7, (1, 96, 9, 45), 64, (2, 3), 1, 1),
    (8, (1, 128, 1, 500), 90, (0, 3, 0, 4), 1, 1),
    (9, (1, 96, 1, 120), 64, (0, 4), 1, 1),
    (11, (1, 64, 1, 260), 64, (0, 25), 1, (1, 5)),
    (11, (5, 48, 3, 30), 48, (0, 5), 1, 1),
    (15, (1, 90, 1, 400), 72, (0, 14, 0, 0), 1, 1),
    (31, (2, 32, 1, 190), 32, (0, 15), 1, 1),
    (3, (1, 20, 1, 400), 8, (0, 1), 1, 1),
    (7, (2, 40, 1, 150), 6, (0, 3), 1, 1),
    # Lines of one tile, each of which has the input of several.
    (11, (60, 96, 1, 14), 96, 0, 1, 1),
    # More transformed weights than are made at once.
    (7, (1, 640, 1, 400), 1100, (0, 3), 1, 1),
    (11, (1, 512, 1, 300), 512, (0, 5), 1, 1),
]

# Windows of several rows, of as many filters or twice.
LARGE_WINDOWS = [
    ((5, 5), (1, 64, 27, 27), 64, 2, 1, 1),
    ((5, 5), (3, 40, 13, 14), 48, 0, 1, 1),
    ((2, 4), (2, 96, 20, 31), 96, (1, 1, 0, 2), 1, 1),
    ((3, 6), (4, 96, 9, 21), 90, (1, 3), 1, 1),
    ((7, 7), (1, 64, 30, 33), 48, 3, 1, 1),
    ((4, 11), (2, 64, 6, 50), 64, (0, 5), 1, 1),
    ((9, 9), (1, 32, 40, 25), 40, 4, 1, 1),
    ((5, 5), (1, 48, 15, 150), 40, 2, 1, 1),
    ((5, 5), (1, 384, 14, 14), 512, 2, 1, 1),
    ((5, 5), (2, 32, 30, 33), 8, 2, 1, 1),
]

# Groups, each with tiles of its own: of one block and of several, of whole panels and not.
LARGE_GROUPS = [
    (2, (3, 3), (1, 64, 28, 27), 64, 1, 1, 1),
    (3, (3, 3), (2, 72, 40, 38), 72, (0, 2, 1, 0), 1, 1),
    (5, (3, 3), (1, 240, 14, 14), 240, 1, 1, 1),
    (2, (3, 3), (1, 128, 28, 28), 384, 2, 1, 2),
    (4, (3, 3), (3, 256, 57, 50), 160, 1, 2, 1),
    (2, (3, 3), (1, 160, 14, 13), 256, 1, 2, 1),
    (7, (1, 3), (2, 224, 1, 130), 238, (0, 1), 1, 1),
    (3, (1, 5), (1, 144, 3, 70), 192, (0, 2), 1, 1),
    (2, (9, 1), (1, 96, 150, 2), 128, (4, 0), 1, 1),
    (4, (5, 5), (1, 128, 30, 33), 128, 2, 1, 1),
    # More transformed weights than are made at once.
    (2, (3, 3), (1, 1280, 20, 20), 1088, 1, 1, 1),
]


def upright(taps: int, sizes: tuple[int, ...], outputs: int, *numbers: Any) -> tuple[Any, ...]:
    """The same with a window of one column, of an image with rows for columns."""
    padding, stride, dilation = ((*n[1::-1], *n[:1:-1]) if isinstance(n, tuple) else n for n in numbers)
    return (taps, 1), (*sizes[:2], *sizes[:1:-1]), outputs, padding, stride, dilation


@pytest.mark.parametrize(
    "groups, window, sizes, outputs, padding, stride, dilation",
    [
        *((1, (3, 3), *case) for case in LARGE),
        *((1, (1, taps), *case) for taps, *case in LARGE_ROWS),
        *((1, *upright(*case)) for case in LARGE_ROWS),
        *((1, *case) for case in LARGE_WINDOWS),
        *LARGE_GROUPS,
    ],
)
def test_large_convolution(
    isa: str,
    groups: int,
    window: tuple[int, int],
    sizes: tuple[int, ...],
    outputs: int,
    padding: int | tuple[int, ...],
    stride: int,
    dilation: int | tuple[int, int],
) -> None:
    op = overload_of("penlight::conv2d_packed")
    x, weight, bias = image(*sizes), torch.randn(outputs, sizes[1] // groups, *window), torch.randn(outputs)
    packed = pack_panels(Derived.of(weight), bias, groups).tensor()
    around = (padding, padding) if isinstance(padding, int) else padding
    apart = (dilation, dilation) if isinstance(dilation, int) else dilation
    numbers = [[outputs, *window], [stride, stride], list(around), list(apart)]
    exact = padded_conv2d(x.double(), weight.double(), bias.double(), (stride, stride), around, apart, groups)
    residual = image(*exact.shape)
    for activation in (0, 1, 6):
        for added in (None, residual):
            want = ACTIVATIONS[activation](exact if added is None else exact + added)
            want = want.contiguous(memory_format=torch.channels_last)
            (got,) = run_op(
                op, [x, packed, added, *numbers, groups, activation, 0.0, 0.0], {}, want.float(), "optimized"
            )
            assert (got.double() - want).abs().max() < 3e-5 * (want.max() - want.min())
    for value in (math.nan, math.inf, 3e38):
        wild = x.clone(memory_format=torch.channels_last)
        wild[0, 3, min(7, sizes[2] - 1), min(9, sizes[3] - 1)] = value
        args = [wild, packed, None, *numbers, groups, 1, 0.0, 0.0]
        want = op(*args)
        (got,) = run_op(op, args, {}, want, "optimized")
        torch.testing.assert_close(got, want, rtol=1e-4, atol=1e-3, equal_nan=True)


@pytest.mark.parametrize("sizes", [(1, 40, 30, 31), (2, 24, 17, 5), (0, 16, 9, 9)], ids=str)
def test_direct_convolution(isa: str, sizes: tuple[int, ...]) -> None:
    """Where tiles would be transformed, but are not: the bound is that of a sum."""
    x, weight, bias = image(*sizes), torch.randn(33, sizes[1], 3, 3), torch.randn(33)
    want = functional.conv2d(x.double(), weight.double(), bias.double(), padding=1).relu()
    want = want.contiguous(memory_format=torch.channels_last)
    packed = pack_panels(Derived.of(weight), bias).tensor()
    args = [x, packed, None, [33, 3, 3], [1, 1], [1, 1], [1, 1], 1, 1, 0.0, 0.0]
    (got,) = run_op(overload_of("penlight::conv2d_direct_packed"), args, {}, want.float(), "optimized")
    close(got, want, 9 * sizes[1])


@pytest.mark.parametrize(
    "sizes",
    [
        (1, 128, 28, 28, 32),
        (2, 64, 14, 13, 70),
        (1, 96, 27, 28, 100),
        (1, 48, 41, 39, 40),
        (1, 32, 43, 37, 128),
        (1, 96, 14, 14, 160),
        (2, 45, 31, 37, 6),
        (1, 128, 29, 28, 130),
        (1, 96, 8, 9, 100),
        (1, 90, 7, 12, 64),
        (1, 64, 5, 16, 70),
    ],
    ids=str,
)
@pytest.mark.parametrize(
    "window, stride",
    [((3, 3), 1), ((3, 3), 2), ((1, 5), 1), ((1, 7), 1), ((1, 11), 1), ((3, 1), 2), ((7, 1), 1), ((5, 5), 1)],
    ids=str,
)
@pytest.mark.parametrize("groups", [1, 3])
def test_blocks_of_tiles_and_threads(
    isa: str, sizes: tuple[int, ...], window: tuple[int, int], stride: int, groups: int
) -> None:
    batch, channels, height, width, outputs = sizes
    x, weight = (
        image(batch, groups * channels, height, width),
        torch.randn(groups * outputs, channels, *window),
    )
    want = functional.conv2d(x, weight, None, stride, 1, 1, groups).contiguous(
        memory_format=torch.channels_last
    )
    packed = pack_panels(Derived.of(weight), None, groups).tensor()
    args = [x, packed, None, [len(weight), *window], [stride] * 2, [1, 1], [1, 1], groups, 0, 0.0, 0.0]
    file = one_op_program(overload_of("penlight::conv2d_packed"), args, {}, want)
    alone, *others = (
        penlight.load(file, libraries="optimized", threads=n)(x, packed)[0].clone() for n in (1, 2, 3, 4, 8)
    )
    torch.testing.assert_close(alone, want, rtol=1e-3, atol=1e-3)
    assert all(torch.equal(other, alone) for other in others)


@pytest.mark.parametrize("groups", [1, 2])
@pytest.mark.parametrize("window", [(3, 3), (1, 3), (3, 1), (1, 5), (7, 1), (1, 11), (5, 5), (7, 7)], ids=str)
def test_large_layers_are_transformed(isa: str, window: tuple[int, int], groups: int) -> None:
    """So large that tiles are far ahead on every machine: the sums are not those of the direct way."""
    x, weight = image(1, 128 * groups, 64, 64), torch.randn(128 * groups, 128, *window)
    padding = [taps // 2 for taps in window]
    want = functional.conv2d(x, weight, None, 1, padding, 1, groups)
    want = want.contiguous(memory_format=torch.channels_last)
    packed = pack_panels(Derived.of(weight), None, groups).tensor()
    args = [x, packed, None, [len(weight), *window], [1, 1], padding, [1, 1], groups, 0, 0.0, 0.0]
    (taken,), (direct,) = (
        run_op(overload_of(f"penlight::{name}"), args, {}, want, "optimized")
        for name in ("conv2d_packed", "conv2d_direct_packed")
    )
    assert not torch.equal(taken, direct)
    assert (taken - direct).abs().max() < 3e-5 * (want.max() - want.min())
