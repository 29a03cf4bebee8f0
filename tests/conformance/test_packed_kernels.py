"""The operators over packed weights against float64, with every instruction set of this machine."""

from __future__ import annotations

import math

import pytest
import torch
from run_op import one_op_program, overload_of, run_op
from torch.nn import functional

import penlight
from penlight.dialects.packed_ops import packed_ops
from penlight.dialects.penlight_ops import twins
from penlight.errors import PenlightError
from penlight.ir.tensors import Derived
from penlight.kernels.table import default_table
from penlight.passes.channels_last import FEW_CHANNELS
from penlight.passes.packing import pack_depthwise, pack_panels

# Makes the operators known to torch.
LIBRARIES = ("optimized", "portable")
assert packed_ops(default_table(), LIBRARIES) and twins(default_table(), LIBRARIES)

KERNELS = (
    *("penlight::linear_packed.out", "penlight::conv2d_packed.out", "penlight::max_pool2d.out"),
    *("penlight::expand_depthwise_packed.out", "penlight::conv2d_direct_packed.out"),
    *("penlight::embedding_packed.out", "penlight::conv2d_parts_packed.out"),
    "penlight::conv2d_depthwise_packed.out",
)

ACTIVATIONS = [
    lambda x: x,
    torch.relu,
    lambda x: x.clamp(-0.5, 0.75),
    torch.sigmoid,
    torch.tanh,
    functional.silu,
    lambda x: functional.gelu(x.double()).to(x.dtype),  # ATen's AVX-512 kernel makes NaN of infinity
    lambda x: functional.gelu(x, approximate="tanh"),
    functional.hardsigmoid,
    functional.hardswish,
    lambda x: functional.leaky_relu(x, -0.5),
]


def close(got: torch.Tensor, want: torch.Tensor, depth: int) -> None:
    """Within the rounding of a sum of `depth` products, whatever its order."""
    torch.testing.assert_close(got.double(), want, rtol=1e-5, atol=2e-7 * max(depth, 8), equal_nan=True)


@pytest.mark.parametrize("activation", range(len(ACTIVATIONS)))
@pytest.mark.parametrize(
    "rows, depth, outputs",
    [
        ((1,), 1, 1),
        ((5,), 7, 17),
        ((2, 3), 33, 16),
        ((13,), 500, 50),
        ((1,), 900, 70),
        ((100,), 64, 40),
        ((4,), 0, 20),
        ((5, 30), 37, 1),
        ((26,), 37, 24),
        ((31,), 900, 40),
        ((2,), 6, 5),
        ((145,), 11, 72),
        ((70,), 64, 3),
        ((101,), 16, 8),
    ],
)
def test_linear(isa: str, rows: tuple[int, ...], depth: int, outputs: int, activation: int) -> None:
    x, weight, bias = torch.randn(*rows, depth), torch.randn(outputs, depth), torch.randn(outputs)
    residual = torch.randn(*rows, outputs)
    op = overload_of("penlight::linear_packed")
    for has_bias in (True, False):
        for added in (None, residual):
            packed = pack_panels(Derived.of(weight), bias if has_bias else None).tensor()
            want = functional.linear(x.double(), weight.double(), bias.double() if has_bias else None)
            want = ACTIVATIONS[activation](want if added is None else want + added)
            args = [x, packed, added, outputs, activation, -0.5, 0.75]
            close(run_op(op, args, {}, want.float(), "optimized")[0], want, depth)


# Every number of rows that a tile of any instruction set may be left with, and columns: up to half of
# the last panel, and more.
@pytest.mark.parametrize("outputs", [51, 56, 57])
@pytest.mark.parametrize("rows", range(1, 26))
def test_rows_of_tiles(isa: str, rows: int, outputs: int) -> None:
    depth = 800  # more than one block of k
    x, weight, bias = torch.randn(rows, depth), torch.randn(outputs, depth), torch.randn(outputs)
    want = functional.linear(x.double(), weight.double(), bias.double())
    packed = pack_panels(Derived.of(weight), bias).tensor()
    op = overload_of("penlight::linear_packed")
    close(run_op(op, [x, packed, None, outputs, 0, 0.0, 0.0], {}, want.float(), "optimized")[0], want, depth)


# Rows of whole pages; a block of them in one piece, and a part of k at a time.
@pytest.mark.parametrize(
    ("rows", "depth"), [(12, 1024), (11, 1024), (31, 2048), (250, 1024), (250, 3072), (50, 10240)]
)
def test_rows_of_pages(isa: str, rows: int, depth: int) -> None:
    outputs = 150
    x, weight, bias = torch.randn(rows, depth), torch.randn(outputs, depth), torch.randn(outputs)
    want = functional.linear(x.double(), weight.double(), bias.double())
    op = overload_of("penlight::linear_packed")
    for dtype in (torch.float32, torch.bfloat16):
        packed = pack_panels(Derived.of(weight), bias).tensor().to(dtype)
        if dtype == torch.bfloat16:
            want = functional.linear(x.double(), weight.to(dtype).double(), bias.to(dtype).double())
        args = [x, packed, None, outputs, 0, 0.0, 0.0]
        close(run_op(op, args, {}, want.float(), "optimized")[0], want, depth)


def image(*sizes: int) -> torch.Tensor:
    return torch.randn(*sizes).contiguous(memory_format=torch.channels_last)


def padded_conv2d(
    x: torch.Tensor,
    weight: torch.Tensor,
    bias: torch.Tensor,
    stride: tuple[int, ...],
    padding: tuple[int, ...],
    dilation: tuple[int, ...],
    groups: int,
) -> torch.Tensor:
    """functional.conv2d, but with a padding above, left, below and right if that is 4 numbers."""
    above, left, below, right = padding if len(padding) == 4 else padding * 2
    return functional.conv2d(
        functional.pad(x, [left, right, above, below]), weight, bias, stride, 0, dilation, groups
    )


# Sizes of the input, outputs, window, stride, padding, dilation, groups.
CONVOLUTIONS = [
    # Lines of few channels of every width that tiles of any height may be left with.
    *(((1, 3, 3, width), 40, (3, 3), (1, 1), (1, 1), (1, 1), 1) for width in range(1, 27)),
    *(((1, 3, 3, width), 70, (3, 3), (1, 1), (1, 1), (1, 1), 1) for width in range(1, 14)),
    # And of tall ones, of neighbours one element apart, two, three and six, or in another distance.
    *(
        ((2, channels, 4, width * stride), outputs, (3, 3), (1, stride), (1, 1), (1, 1), 1)
        for channels, stride, outputs in ((1, 1, 16), (1, 2, 24), (3, 1, 5), (3, 2, 49), (2, 2, 24))
        for width in (16, 17, 27, 28, 29, 33, 45, 57)
    ),
    ((2, 3, 6, 40), 16, (5, 3), (2, 1), (2, 1), (1, 3), 1),
    ((1, 3, 11, 13), 8, (3, 3), (1, 1), (1, 1), (1, 1), 1),
    ((2, 3, 15, 17), 20, (7, 7), (2, 2), (3, 3), (1, 1), 1),
    ((1, 1, 1, 700), 19, (1, 64), (1, 16), (0, 24), (1, 1), 1),
    ((1, 40, 9, 8), 33, (3, 3), (1, 2), (1, 0), (1, 1), 1),
    ((2, 5, 9, 8), 16, (3, 2), (1, 1), (2, 1), (1, 2), 1),
    ((1, 16, 7, 7), 96, (1, 1), (1, 1), (0, 0), (1, 1), 1),
    # Groups of which a vector has several.
    ((2, 24, 9, 11), 24, (3, 3), (2, 1), (1, 1), (1, 1), 6),
    ((1, 40, 8, 7), 40, (3, 3), (1, 1), (1, 1), (1, 1), 5),
    ((1, 34, 6, 30), 34, (3, 2), (1, 2), (2, 0), (1, 1), 17),
    ((1, 128, 5, 6), 128, (5, 5), (1, 1), (4, 4), (2, 2), 16),
    ((1, 64, 4, 4), 64, (1, 1), (1, 1), (0, 0), (1, 1), 16),
    ((1, 16, 3, 3), 16, (3, 3), (1, 1), (3, 3), (3, 3), 4),
    ((1, 1024, 7, 9), 130, (1, 1), (2, 2), (0, 0), (1, 1), 1),
    ((2, 1024, 5, 7), 130, (1, 1), (1, 1), (1, 0), (1, 1), 1),
    ((2, 512, 6, 15), 130, (3, 3), (2, 2), (1, 1), (1, 1), 1),
    ((1, 1024, 13, 13), 130, (3, 3), (1, 1), (12, 12), (12, 12), 1),
    ((1, 1024, 9, 14), 130, (3, 3), (2, 1), (1, 1), (1, 1), 1),
    ((3, 48, 5, 6), 24, (1, 1), (2, 2), (0, 0), (1, 1), 1),
    ((1, 500, 3, 3), 32, (3, 3), (1, 1), (1, 1), (1, 1), 1),
    ((1, 24, 6, 7), 40, (3, 3), (1, 1), (1, 1), (1, 1), 4),
    ((1, 4, 2, 2), 6, (5, 5), (1, 1), (4, 4), (1, 1), 1),
    ((2, 19, 9, 9), 19, (3, 3), (1, 1), (1, 1), (1, 1), 19),
    ((1, 32, 12, 11), 32, (3, 3), (2, 2), (1, 1), (1, 1), 32),
    ((1, 20, 9, 14), 20, (5, 5), (1, 1), (2, 2), (1, 1), 20),
    ((1, 16, 9, 14), 16, (5, 5), (2, 2), (2, 2), (1, 1), 16),
    ((1, 5, 9, 9), 5, (3, 3), (1, 1), (2, 2), (2, 2), 5),
    ((1, 17, 4, 4), 17, (7, 7), (1, 1), (3, 3), (1, 1), 17),
    ((1, 3, 2, 3), 3, (3, 3), (1, 1), (4, 4), (1, 1), 3),
    ((0, 3, 8, 8), 8, (3, 3), (1, 1), (1, 1), (1, 1), 1),
    ((2, 35, 11, 13), 35, (3, 3), (1, 1), (1, 1), (1, 1), 35),
    ((2, 21, 15, 17), 21, (3, 3), (2, 2), (1, 0), (1, 1), 21),
    ((1, 40, 17, 16), 40, (5, 5), (1, 1), (2, 1), (1, 1), 40),
    ((2, 24, 19, 22), 24, (5, 5), (2, 2), (1, 2), (1, 1), 24),
    ((1, 16, 12, 12), 16, (3, 3), (2, 1), (0, 0), (1, 1), 16),
    ((1, 18, 12, 12), 18, (5, 3), (1, 1), (2, 1), (1, 1), 18),
    ((2, 3, 33, 45), 17, (4, 4), (4, 4), (0, 0), (1, 1), 1),
    ((1, 31, 6, 9), 70, (3, 3), (1, 1), (1, 1), (1, 1), 1),
    ((2, 2, 9, 40), 33, (2, 3), (3, 2), (3, 4), (3, 2), 1),
    ((3, 3, 5, 1), 16, (5, 1), (1, 1), (2, 0), (1, 1), 1),
    # Depthwise over images too wide for tiles, and of more rows than one tile.
    ((1, 20, 7, 130), 20, (3, 3), (1, 1), (1, 1), (1, 1), 20),
    ((2, 9, 9, 131), 9, (3, 3), (2, 2), (1, 1), (1, 1), 9),
    ((1, 17, 12, 90), 17, (5, 5), (1, 1), (2, 2), (1, 1), 17),
    ((1, 24, 13, 95), 24, (5, 5), (2, 2), (2, 2), (1, 1), 24),
    ((2, 33, 61, 14), 33, (3, 3), (1, 1), (1, 1), (1, 1), 33),
    ((1, 16, 70, 18), 16, (5, 5), (2, 2), (2, 2), (1, 1), 16),
    # Depthwise with other windows, in whole lines and in segments, wider and higher than the image.
    ((1, 35, 14, 14), 35, (7, 7), (1, 1), (3, 3), (1, 1), 35),
    ((2, 16, 9, 61), 16, (7, 7), (1, 1), (3, 3), (1, 1), 16),
    ((1, 20, 21, 20), 20, (7, 7), (2, 2), (3, 3), (1, 1), 20),
    ((1, 17, 4, 3), 17, (7, 7), (1, 1), (6, 8), (1, 1), 17),
    ((2, 24, 11, 13), 24, (9, 9), (1, 1), (4, 4), (1, 1), 24),
    ((1, 18, 5, 19), 18, (1, 7), (1, 1), (0, 3), (1, 1), 18),
    ((1, 18, 19, 5), 18, (7, 1), (1, 1), (3, 0), (1, 1), 18),
    ((1, 16, 9, 10), 16, (31, 31), (1, 1), (15, 15), (1, 1), 16),
    ((1, 33, 1, 100), 33, (1, 31), (1, 1), (0, 15), (1, 1), 33),
    ((1, 16, 12, 17), 16, (3, 5), (2, 1), (1, 2), (1, 1), 16),
    ((2, 20, 13, 18), 20, (3, 3), (1, 1), (2, 2), (2, 2), 20),
    ((1, 16, 40, 41), 16, (3, 3), (1, 1), (18, 18), (18, 18), 16),
    ((1, 16, 15, 16), 16, (5, 5), (1, 1), (6, 0), (3, 2), 16),
    ((1, 20, 16, 18), 20, (3, 3), (3, 3), (1, 1), (1, 1), 20),
    ((1, 20, 17, 33), 20, (7, 5), (4, 3), (0, 4), (1, 1), 20),
    ((1, 16, 90, 9), 16, (7, 3), (20, 1), (3, 1), (1, 1), 16),
    *(((1, 9, 3, width), 9, (7, 7), (1, 1), (3, 3), (1, 1), 9) for width in range(1, 21)),
    # Several outputs for each channel.
    ((1, 24, 16, 17), 48, (7, 7), (2, 2), (3, 3), (1, 1), 24),
    ((2, 9, 14, 13), 27, (3, 3), (1, 1), (1, 1), (1, 1), 9),
    ((1, 17, 12, 15), 34, (5, 5), (2, 2), (2, 2), (1, 1), 17),
    ((1, 5, 6, 3), 85, (3, 3), (1, 1), (1, 1), (1, 1), 5),
    ((1, 3, 9, 130), 6, (3, 3), (1, 1), (2, 2), (2, 2), 3),
    # Groups of few outputs.
    ((1, 32, 14, 13), 32, (3, 3), (1, 1), (1, 1), (1, 1), 8),
    ((2, 9, 8, 7), 18, (3, 3), (2, 2), (1, 1), (1, 1), 9),
    ((2, 24, 7, 7), 12, (1, 1), (1, 1), (0, 0), (1, 1), 4),
    ((1, 60, 20, 9), 75, (5, 1), (1, 1), (2, 0), (1, 1), 15),
    # Groups of few channels under windows that slide along lines: of every width that is left, in the last
    # vector too, over more lines than are read at once, and beside the image with most of a window.
    *(((1, 24, 5, width), 24, (3, 3), (1, 1), (1, 1), (1, 1), 3) for width in range(1, 17)),
    *(((2, 20, 7, width), 20, (3, 3), (2, 2), (1, 1), (1, 1), 5) for width in range(1, 31, 3)),
    ((1, 64, 41, 60), 64, (3, 3), (1, 1), (1, 1), (1, 1), 16),
    ((2, 48, 45, 58), 48, (3, 3), (2, 2), (1, 1), (1, 1), 6),
    ((1, 36, 9, 40), 36, (5, 3), (2, 1), (3, 1), (2, 1), 18),
    ((1, 40, 6, 16), 40, (3, 3), (1, 2), (5, 4), (1, 1), 5),
    ((2, 12, 8, 9), 12, (2, 3), (3, 1), (0, 2, 1, 0), (1, 1), 3),
    # Windows that reach out of the image with most of their taps, or all.
    ((1, 40, 14, 14), 33, (3, 3), (1, 1), (12, 12), (12, 12), 1),
    ((2, 33, 14, 13), 20, (3, 3), (1, 1), (24, 24), (24, 24), 1),
    ((1, 800, 6, 5), 17, (3, 3), (1, 1), (5, 4), (5, 4), 1),
    ((1, 32, 5, 70), 70, (3, 5), (1, 1), (4, 60), (4, 30), 1),
    ((2, 48, 15, 16), 24, (3, 3), (2, 2), (12, 13), (12, 13), 4),
    ((1, 32, 2, 2), 16, (2, 2), (1, 1), (9, 9), (9, 9), 1),
    ((1, 3, 9, 9), 20, (3, 3), (1, 1), (8, 8), (8, 8), 1),
    # So many rows of them that they are sorted in several blocks, of deep windows too.
    ((3, 20, 19, 14), 40, (3, 3), (1, 1), (10, 11), (10, 11), 1),
    ((1, 420, 23, 15), 20, (3, 3), (1, 1), (9, 12), (9, 12), 1),
    ((2, 24, 31, 9), 36, (5, 5), (1, 2), (6, 6), (3, 3), 2),
    # Few outputs of many pixels, of channels that fill vectors and that do not.
    *(((2, 35, 9, 10), outputs, (3, 3), (1, 1), (1, 1), (1, 1), 1) for outputs in range(1, 10)),
    *(((1, 16, 25, 7), outputs, (1, 1), (1, 1), (0, 0), (1, 1), 1) for outputs in (1, 3, 6)),
    ((1, 70, 21, 23), 3, (9, 9), (2, 1), (4, 4), (1, 1), 1),
    ((1, 40, 14, 14), 2, (3, 3), (1, 1), (12, 12), (12, 12), 1),
    ((1, 48, 1, 100), 1, (1, 5), (1, 1), (0, 0), (1, 1), 1),
    *(((1, 64, 1, 500), outputs, (1, 7), (1, 1), (0, 3), (1, 1), 1) for outputs in (1, 2)),
    ((2, 32, 9, 40), 1, (3, 3), (1, 2), (1, 1), (1, 1), 1),
    # More zeros on one side than on the other.
    ((1, 3, 16, 14), 20, (3, 3), (2, 2), (0, 0, 1, 1), (1, 1), 1),
    ((2, 3, 9, 10), 17, (5, 3), (2, 1), (4, 0, 1, 2), (1, 1), 1),
    ((2, 40, 8, 10), 33, (3, 3), (1, 2), (0, 2, 1, 0), (1, 1), 1),
    ((1, 40, 14, 12), 40, (3, 4), (1, 1), (0, 1, 2, 1), (1, 1), 1),
    ((2, 48, 5, 6), 24, (1, 1), (1, 1), (0, 0, 2, 1), (1, 1), 1),
    ((1, 33, 5, 6), 24, (1, 1), (1, 1), (3, 0, 0, 1), (1, 1), 1),
    ((1, 24, 6, 7), 40, (3, 3), (2, 2), (0, 0, 1, 1), (1, 1), 4),
    ((1, 24, 16, 16), 24, (3, 3), (2, 2), (0, 0, 1, 1), (1, 1), 24),
    ((2, 35, 15, 17), 35, (5, 5), (2, 2), (1, 1, 2, 2), (1, 1), 35),
    ((2, 9, 9, 131), 9, (3, 3), (2, 2), (0, 0, 1, 1), (1, 1), 9),
    ((1, 16, 9, 9), 16, (3, 3), (1, 1), (0, 7, 5, 0), (1, 1), 16),
    ((1, 3, 2, 3), 3, (3, 3), (2, 2), (0, 0, 4, 9), (2, 1), 3),
    # The usual depthwise windows over images as narrow and low as they can be, and around most of them.
    *(
        ((2, channels, size, width), channels, (taps, taps), (stride, stride), padding, (1, 1), channels)
        for taps, stride in ((3, 1), (3, 2), (5, 1), (5, 2))
        for size, width, channels, padding in (
            *((width % 6 + 1, width, 19, (taps // 2, taps // 2)) for width in range(1, 14)),
            *((taps + width % 2, taps + width, 33, (width % 2, 0)) for width in range(7)),
            *((2, width, 16, (taps - 1, taps + width)) for width in range(1, 6)),
        )
    ),
    # And over those that the second cache has no room for.
    *(
        ((1, 37, 89, 86), 37, (taps, taps), (stride, stride), (taps // 2, taps // 2), (1, 1), 37)
        for taps, stride in ((3, 1), (5, 1))
    ),
    ((2, 72, 90, 83), 72, (3, 3), (2, 2), (0, 1), (1, 1), 72),
    ((1, 5, 300, 301), 10, (3, 3), (1, 1), (1, 1), (1, 1), 5),
    # Groups of several channels and one output each.
    ((2, 12, 9, 33), 4, (3, 3), (1, 1), (1, 1), (1, 1), 4),
    ((1, 64, 20, 21), 32, (3, 3), (1, 2), (1, 0), (1, 1), 32),
    ((3, 40, 8, 70), 2, (5, 1), (2, 1), (0, 0), (1, 3), 2),
    ((1, 96, 5, 9), 3, (1, 1), (1, 1), (0, 0), (1, 1), 3),
    ((1, 170, 7, 7), 17, (7, 7), (1, 1), (3, 3), (1, 1), 17),
]


@pytest.mark.parametrize("case", CONVOLUTIONS, ids=str)
def test_convolution(isa: str, case: tuple[object, ...]) -> None:
    sizes, outputs, window, stride, padding, dilation, groups = case
    op = overload_of("penlight::conv2d_packed")
    x, weight, bias = image(*sizes), torch.randn(outputs, sizes[1] // groups, *window), torch.randn(outputs)
    depthwise = groups > 1 and groups == sizes[1]
    exact = padded_conv2d(x.double(), weight.double(), bias.double(), stride, padding, dilation, groups)
    residual = image(*exact.shape)
    for activation in range(len(ACTIVATIONS)) if depthwise else (0, 2, 9, 10):
        for added in (None, residual):
            source = Derived.of(weight)
            packed = pack_depthwise(source, bias) if depthwise else pack_panels(source, bias, groups)
            want = ACTIVATIONS[activation](exact if added is None else exact + added)
            want = want.contiguous(memory_format=torch.channels_last)
            numbers = [list(part) for part in ((outputs, *window), stride, padding, dilation)]
            args = [x, packed.tensor(), added, *numbers, groups, activation, -0.5, 0.75]
            close(run_op(op, args, {}, want.float(), "optimized")[0], want, math.prod(weight.shape[1:]))
            if groups == 1 and sizes[1] < FEW_CHANNELS and math.prod(window) > 1:
                args[0] = x.contiguous()
                close(run_op(op, args, {}, want.float(), "optimized")[0], want, math.prod(weight.shape[1:]))


PARTS = [
    ((1, 9, 10), (32, 32), 40, (1, 1), (1, 1), (0, 0), (1, 1)),
    ((2, 7, 5), (64, 32, 96, 32), 17, (1, 1), (1, 1), (0, 0), (1, 1)),
    ((1, 17, 19), (3, 5), 33, (1, 1), (1, 1), (0, 0), (1, 1)),
    ((1, 4, 4), (768, 256), 50, (1, 1), (1, 1), (0, 0), (1, 1)),
    ((3, 8, 9), (7, 21, 14), 8, (1, 1), (2, 2), (0, 0), (1, 1)),
    ((1, 1, 1), (32, 64), 64, (1, 1), (1, 1), (0, 0), (1, 1)),
    ((2, 12, 11), (16,) * 12, 24, (1, 1), (1, 1), (1, 0), (1, 1)),
    ((1, 33, 30), (32, 64), 48, (3, 3), (1, 1), (1, 1), (1, 1)),
    ((1, 14, 14), (128, 128), 64, (3, 3), (1, 1), (1, 1), (1, 1)),
    ((2, 13, 12), (20, 10), 35, (3, 3), (1, 1), (1, 1), (1, 1)),
    ((1, 15, 9), (48, 32), 20, (3, 3), (2, 2), (0, 0, 1, 1), (1, 1)),
    ((1, 57, 50), (96, 48), 64, (3, 3), (2, 2), (1, 1), (1, 1)),
    ((2, 6, 7), (40, 40), 33, (3, 5), (1, 2), (4, 3), (3, 2)),
    ((1, 9, 9), (8, 24), 300, (5, 5), (1, 1), (2, 2), (1, 1)),
    ((1, 6, 6), (32,), 16, (1, 1), (1, 1), (0, 0), (1, 1)),
    ((0, 6, 6), (32, 32), 16, (1, 1), (1, 1), (0, 0), (1, 1)),
]


@pytest.mark.parametrize("case", PARTS, ids=str)
def test_convolution_of_parts(isa: str, case: tuple[object, ...]) -> None:
    (count, *size), channels, outputs, window, stride, padding, dilation = case
    op = overload_of("penlight::conv2d_parts_packed")
    images = [image(count, channel, *size) for channel in channels]
    whole = torch.cat(images, 1)
    weight, bias = torch.randn(outputs, sum(channels), *window), torch.randn(outputs)
    if count:
        images[-1][0, 1, size[0] // 2, size[1] // 2] = whole[
            0, 1 - channels[-1], size[0] // 2, size[1] // 2
        ] = math.nan
    exact = padded_conv2d(whole.double(), weight.double(), bias.double(), stride, padding, dilation, 1)
    residual = image(*exact.shape)
    numbers = [list(part) for part in ((outputs, *window), stride, padding, dilation)]
    packed = pack_panels(Derived.of(weight), bias).tensor()
    for activation, added in ((0, None), (2, residual), (9, residual)):
        want = ACTIVATIONS[activation](exact if added is None else exact + added)
        want = want.contiguous(memory_format=torch.channels_last)
        args = [images, packed, added, *numbers, activation, -0.5, 0.75]
        close(run_op(op, args, {}, want.float(), "optimized")[0], want, math.prod(weight.shape[1:]))


def test_parts_that_do_not_fit(isa: str) -> None:
    op = overload_of("penlight::conv2d_parts_packed")
    packed = pack_panels(Derived.of(torch.randn(16, 64, 1, 1)), None).tensor()
    numbers = [[16, 1, 1], [1, 1], [0, 0], [1, 1], 0, 0.0, 0.0]
    want = image(1, 16, 4, 5)
    for images, fault in (
        ([image(1, 32, 4, 5), image(1, 32, 5, 4)], "of one size"),
        ([image(1, 32, 4, 5), image(2, 32, 4, 5)], "of one size"),
        ([image(1, 32, 4, 5), image(1, 32, 4, 5).contiguous()], "channels-last"),
        ([image(1, 32, 4, 5), image(1, 16, 4, 5)], "weight"),
    ):
        with pytest.raises(PenlightError, match=fault):
            run_op(op, [images, packed, None, *numbers], {}, want, "optimized")


def test_groups_do_not_meet(isa: str) -> None:
    """A NaN or infinity of one group stays in it, at its window."""
    op = overload_of("penlight::conv2d_packed")
    x, weight = image(1, 12, 7, 8), torch.randn(12, 4, 3, 3)
    x[0, 5, 3, 3], x[0, 9, 1, 6] = math.nan, math.inf
    want = functional.conv2d(x, weight, None, padding=1, groups=3)
    assert not want[0, :4].isnan().any() and want[0, 4:].isnan().any()
    packed = pack_panels(Derived.of(weight), None, 3).tensor()
    args = [x, packed, None, [12, 3, 3], [1, 1], [1, 1], [1, 1], 3, 0, 0.0, 0.0]
    (got,) = run_op(op, args, {}, want.contiguous(memory_format=torch.channels_last), "optimized")
    torch.testing.assert_close(got, want, rtol=1e-4, atol=1e-4, equal_nan=True)


@pytest.mark.parametrize("outputs, size, stride", [(40, 3, 1), (40, 7, 1), (80, 3, 2), (120, 5, 1)])
def test_infinite_weight_of_depthwise(isa: str, outputs: int, size: int, stride: int) -> None:
    """No product with what lies outside of the image: that would be no number."""
    op = overload_of("penlight::conv2d_packed")
    x, weight, bias = image(1, 40, 9, 9), torch.randn(outputs, 1, size, size), torch.randn(outputs)
    weight[3, 0, 0, 0] = weight[20, 0, 2, 1] = math.inf
    tap = weight.isinf().double()
    finite = weight.masked_fill(weight.isinf(), 0.0).double()
    numbers = [[stride] * 2, [size // 2] * 2, [1, 1]]
    convolve = lambda x, w, b=None: functional.conv2d(x, w, b, *numbers, 40)  # noqa: E731
    exact = convolve(x.double(), finite, bias.double())
    reached = convolve(torch.ones_like(x).double(), tap) > 0
    want = torch.where(reached, exact + math.inf * convolve(x.double(), tap), exact)
    want = want.contiguous(memory_format=torch.channels_last)
    packed = pack_depthwise(Derived.of(weight), bias).tensor()
    args = [x, packed, None, [outputs, size, size], *numbers, 40, 0, 0.0, 0.0]
    close(run_op(op, args, {}, want.float(), "optimized")[0], want, size * size)


# Every width of vectors that have several steps, whole and not, of a depth that is in registers, that leaves
# some of the steps, and that is walked in blocks.
@pytest.mark.parametrize("outputs", [3, 8, 9, 12, 16, 19, 24, 37, 52, 72, 85, 120])
@pytest.mark.parametrize("depth", [16, 24, 31, 32, 47, 130, 1538])
def test_few_columns(isa: str, depth: int, outputs: int) -> None:
    rows = 101
    x, weight, bias = torch.randn(rows, depth), torch.randn(outputs, depth), torch.randn(outputs)
    x[7, -1], x[11, 0], x[64, depth // 2] = math.inf, math.nan, -math.inf
    weight[outputs - 1, depth - 1] = math.inf
    residual = torch.randn(rows, outputs)
    op = overload_of("penlight::linear_packed")
    for dtype in (torch.float32, torch.bfloat16):
        packed = pack_panels(Derived.of(weight), bias).tensor().to(dtype)
        exact = functional.linear(x.double(), weight.to(dtype).double(), bias.to(dtype).double())
        for activation, added in ((0, None), (2, None), (2, residual), (9, residual)):
            want = ACTIVATIONS[activation](exact if added is None else exact + added)
            args = [x, packed, added, outputs, activation, -0.5, 0.75]
            file = one_op_program(op, args, {}, want.float())
            given = [one for one in args if isinstance(one, torch.Tensor)]
            alone, *others = (
                torch.as_tensor(penlight.load(file, libraries="optimized", threads=n)(*given)[0].clone())
                for n in (1, 2, 3, 8)
            )
            close(alone, want, depth)
            assert all(torch.equal(one.view(torch.int32), alone.view(torch.int32)) for one in others)


# Tiles of every width, of which the last is whole or not, and as many rows as tiles of any height, and blocks
# of them, may be left with.
@pytest.mark.parametrize("outputs", [3, 8, 12, 17, 24, 31, 33, 40, 45, 48, 63, 64, 65, 77, 93, 100])
@pytest.mark.parametrize("depth", [1, 6, 17, 100])
def test_adjacent_rows(isa: str, depth: int, outputs: int) -> None:
    weight, bias = torch.randn(outputs, depth), torch.randn(outputs)
    weight[outputs - 1, depth - 1] = math.inf
    packed = pack_panels(Derived.of(weight), bias).tensor()
    for rows in (13, 38, 59, 81, 227, 300):
        x, residual = torch.randn(rows, depth), torch.randn(rows, outputs)
        x[rows - 1, 0], x[3, depth // 2] = math.nan, -math.inf
        want = functional.linear(x.double(), weight.double(), bias.double()) + residual
        want = ACTIVATIONS[2](want).float()
        args = [x, packed, residual, outputs, 2, -0.5, 0.75]
        file = one_op_program(overload_of("penlight::linear_packed"), args, {}, want)
        alone, *others = (
            torch.as_tensor(
                penlight.load(file, libraries="optimized", threads=n)(x, packed, residual)[0].clone()
            )
            for n in (1, 2, 3, 8)
        )
        close(alone, want.double(), depth)
        assert all(torch.equal(one.view(torch.int32), alone.view(torch.int32)) for one in others)


@pytest.mark.parametrize("outputs", [5, 24, 40, 72, 90, 160, 190])
@pytest.mark.parametrize("rows", [13, 25, 49])
def test_halves_of_vectors_and_threads(isa: str, rows: int, outputs: int) -> None:
    """A part may have one row alone, which others have in a tile, or other tiles: it gives the same bits."""
    x, packed = torch.randn(rows, 2000), pack_panels(Derived.of(torch.randn(outputs, 2000)), None).tensor()
    args = [x, packed, None, outputs, 0, 0.0, 0.0]
    file = one_op_program(overload_of("penlight::linear_packed"), args, {}, torch.empty(rows, outputs))
    alone, *others = (
        penlight.load(file, libraries="optimized", threads=n)(x, packed)[0].clone() for n in (1, 2, 3, 4, 5)
    )
    assert all(torch.equal(other, alone) for other in others)


@pytest.mark.parametrize(
    "sizes",
    [(1, 64, 12, 12), (2, 3, 5, 7), (1, 19, 1, 9), (0, 4, 8, 8), (2, 3, 9, 77), (1, 2, 1, 300)],
    ids=str,
)
@pytest.mark.parametrize(
    "window",
    [
        ([3, 3], [2, 2], [1, 1], [1, 1], False),
        ([1, 2], [], [0, 1], [1, 1], True),
        ([1, 3], [2, 3], [0, 0], [1, 2], True),
        ([2, 5], [1, 1], [1, 2], [3, 1], True),
        ([1], [1], [0], [1], False),
    ],
    ids=str,
)
@pytest.mark.parametrize("planar", [False, True])
def test_max_pool(isa: str, sizes: tuple[int, ...], window: tuple[object, ...], planar: bool) -> None:
    x = image(*sizes)
    if x.numel():
        flat = x.permute(0, 2, 3, 1).reshape(-1)
        flat[::7], flat[::11] = math.nan, -math.inf
        x = flat.reshape(sizes[0], *sizes[2:], sizes[1]).permute(0, 3, 1, 2)
    if planar:
        x = x.contiguous()
    op = overload_of("penlight::max_pool2d")
    try:
        want = op(x, *window)
    except RuntimeError:
        pytest.skip("ATen refuses: no output")
    (got,) = run_op(op, [x, *window], {}, want, "optimized")
    torch.testing.assert_close(got, want, rtol=0, atol=0, equal_nan=True)


@pytest.mark.parametrize("planar", [False, True])
@pytest.mark.parametrize("channel, line, column", [(3, 60, 9), (0, 15, 71), (63, 16, 0)])
def test_max_pool_of_several_blocks(isa: str, channel: int, line: int, column: int, planar: bool) -> None:
    """A NaN in one block of rows, in lines that two read, and in none that others do."""
    x = image(2, 64, 70, 72)
    x[1, channel, line, column] = math.nan
    if planar:
        x = x.contiguous()
    op = overload_of("penlight::max_pool2d")
    for window in (([3, 3], [2, 2], [1, 1], [1, 1], False), ([5, 5], [1, 1], [2, 2], [1, 1], False)):
        want = op(x, *window)
        (got,) = run_op(op, [x, *window], {}, want, "optimized")
        assert bool(want.isnan().any())
        torch.testing.assert_close(got, want, rtol=0, atol=0, equal_nan=True)


def test_special_values_come_through(isa: str) -> None:
    """NaN and infinity as eager has them, in every lane and after every activation."""
    op, x = overload_of("penlight::linear_packed"), torch.eye(20)
    special = torch.tensor([math.nan, math.inf, -math.inf, 0.0, -0.0, 1e38, -1e38, 1e-42, 88.8, -104.0])
    weight = torch.zeros(20, 20)
    bias = special.repeat(2)
    packed = pack_panels(Derived.of(weight), bias).tensor()
    for activation, function in enumerate(ACTIVATIONS):
        want = function(functional.linear(x, weight, bias))  # in float32: what overflows there does here
        (got,) = run_op(op, [x, packed, None, 20, activation, -0.5, 0.75], {}, want, "optimized")
        torch.testing.assert_close(got, want, rtol=1e-5, atol=1e-6, equal_nan=True)


def test_elementary_functions_are_accurate(isa: str) -> None:
    """Errors over the whole range of arguments, in units of the last place or beside 1."""
    op = overload_of("penlight::linear_packed")
    values = torch.cat(
        [torch.linspace(-30, 30, 4001), torch.logspace(-30, 1, 500), -torch.logspace(-30, 1, 500)]
    )
    packed = pack_panels(Derived.of(torch.ones(1, 1)), None).tensor()
    for activation in (3, 4, 5, 6, 7):
        want = ACTIVATIONS[activation](values.double())[:, None]
        args = [values[:, None], packed, None, 1, activation, 0.0, 0.0]
        got = run_op(op, args, {}, want.float(), "optimized")[0].double()
        scale = values.double().abs()[:, None].clamp(min=1) if activation >= 5 else 1.0
        assert ((got - want).abs() / scale).max() < 4e-7


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("rows", [1, 2, 3, 4, 30, 50])
@pytest.mark.parametrize(
    "depth, outputs", [(1, 1), (7, 5), (8, 16), (3, 170), (64, 16), (33, 300), (900, 130), (1024, 140)]
)
def test_products_with_matrices_that_are_not_packed(
    isa: str, rows: int, depth: int, outputs: int, bias: bool
) -> None:
    x, weight, added = torch.randn(2, rows, depth), torch.randn(outputs, depth), torch.randn(outputs)
    want = functional.linear(x.double(), weight.double(), added.double() if bias else None)
    args = [x, weight, added if bias else None]
    close(run_op(overload_of("aten::linear"), args, {}, want.float(), "optimized")[0], want, depth)
    if not bias:
        plain = weight.T.contiguous()
        (got,) = run_op(overload_of("aten::mm"), [x[0], plain], {}, want[0].float(), "optimized")
        close(got, want[0], depth)
        several = torch.stack([plain, 2 * plain])
        doubled = torch.stack([want[0], 2 * want[1]])
        close(
            run_op(overload_of("aten::bmm"), [x, several], {}, doubled.float(), "optimized")[0],
            doubled,
            depth,
        )


@pytest.mark.parametrize("rows", [1, 2, 3, 4, 5])
@pytest.mark.parametrize("depth, outputs", [(1037, 2061), (6, 4500), (70000, 33)])
def test_few_rows_by_a_large_matrix(isa: str, rows: int, depth: int, outputs: int) -> None:
    """Read line after line or by columns: every element is the same with any number of threads."""
    x, matrix = torch.randn(rows, depth), torch.randn(depth, outputs)
    x[-1, depth // 2], matrix[0, -1] = math.inf, math.nan
    want = x.double() @ matrix.double()
    file = one_op_program(overload_of("aten::mm"), [x, matrix], {}, want.float())
    alone, *others = (
        penlight.load(file, threads=threads, libraries="optimized")(x, matrix)[0] for threads in (1, 2, 3)
    )
    close(alone, want, depth)
    for other in others:
        assert torch.equal(alone.view(torch.int32), other.view(torch.int32))


@pytest.mark.parametrize("padding", [1, 2])
@pytest.mark.parametrize("sizes", [(1, 66, 8, 7, 80), (1, 72, 10, 7, 64), (2, 30, 9, 11, 41)], ids=str)
def test_padded_rows_and_threads(isa: str, sizes: tuple[int, ...], padding: int) -> None:
    """Rows are sorted by the padding that they read: which of them a part has last depends on the parts."""
    *of_image, outputs = sizes
    x, weight = image(*of_image), torch.randn(outputs, of_image[1], 3, 3)
    want = functional.conv2d(x, weight, None, padding=padding).contiguous(memory_format=torch.channels_last)
    packed = pack_panels(Derived.of(weight), None).tensor()
    args = [x, packed, None, [outputs, 3, 3], [1, 1], [padding] * 2, [1, 1], 1, 0, 0.0, 0.0]
    file = one_op_program(overload_of("penlight::conv2d_direct_packed"), args, {}, want)
    alone, *others = (
        penlight.load(file, libraries="optimized", threads=n)(x, packed)[0].clone() for n in (1, 2, 3, 4, 8)
    )
    assert alone.shape == want.shape
    assert all(torch.equal(other.view(torch.int32), alone.view(torch.int32)) for other in others)


def test_negative_zeros_as_biases(isa: str) -> None:
    """Padding is left out or multiplied by the place of a row: both give the same zero."""
    x, weight = image(1, 64, 5, 5), torch.randn(64, 64, 3, 3)
    packed = pack_panels(Derived.of(weight), torch.full((64,), -0.0)).tensor()
    args = [x, packed, None, [64, 3, 3], [1, 1], [4, 4], [1, 1], 1, 0, 0.0, 0.0]
    want = functional.conv2d(x, weight, padding=4).contiguous(memory_format=torch.channels_last)
    (got,) = run_op(overload_of("penlight::conv2d_direct_packed"), args, {}, want, "optimized")
    assert (got == 0).sum() >= 64 * (11 * 11 - 7 * 7) and not (got.signbit() & (got == 0)).any()
