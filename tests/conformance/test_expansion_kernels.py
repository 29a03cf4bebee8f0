"""Layers that depthwise windows are computed with: expansions, and first layers of networks."""

from __future__ import annotations

import math
from itertools import product
from typing import Any

import pytest
import torch
from run_op import one_op_program, overload_of, run_op
from test_packed_kernels import ACTIVATIONS, close, image, padded_conv2d
from torch.nn import functional

import penlight
from penlight.ir.tensors import Derived
from penlight.passes.packing import pack_depthwise, pack_panels

# Input, channels between, window, stride, padding, dilation. The last ones have several bands of rows.
EXPANSIONS = [
    ((1, 3, 5, 6), 18, (3, 3), (1, 1), (1, 1), (1, 1)),
    ((2, 8, 9, 7), 40, (5, 5), (2, 2), (2, 2), (1, 1)),
    ((3, 5, 4, 11), 17, (3, 5), (2, 1), (0, 2), (1, 1)),
    ((2, 4, 12, 12), 16, (3, 3), (1, 2), (3, 4), (2, 3)),
    ((1, 1, 1, 1), 2, (1, 1), (1, 1), (0, 0), (1, 1)),
    ((2, 6, 3, 9), 20, (2, 2), (1, 1), (5, 0), (1, 1)),
    ((0, 6, 8, 8), 20, (3, 3), (1, 1), (1, 1), (1, 1)),
    ((2, 4, 31, 80), 96, (3, 3), (2, 2), (1, 1), (1, 1)),
    ((1, 4, 40, 64), 144, (5, 5), (1, 1), (2, 2), (1, 1)),
    ((1, 2, 6, 70), 1200, (3, 3), (1, 1), (1, 1), (1, 1)),
    ((2, 4, 30, 80), 96, (3, 3), (2, 2), (0, 0, 1, 1), (1, 1)),
    ((1, 4, 40, 64), 144, (5, 5), (2, 2), (1, 1, 2, 2), (1, 1)),
    ((2, 6, 5, 9), 20, (3, 3), (1, 1), (0, 4, 3, 0), (1, 1)),
    # Panel by panel: depths with code of their own and others, lines that tiles of every size are left with.
    *(
        ((2, depth, 7, width), 40, (3, 3), (1, 1), (1, 1), (1, 1))
        for depth, width in (
            *((16, 14), (24, 9), (32, 15), (33, 7), (40, 4)),
            *((64, 10), (7, 12), (50, 13), (19, 5)),
            *((16, 16), (17, 17), (8, 8), (1, 23), (30, 11), (36, 29), (45, 41)),
        )
    ),
    ((3, 16, 11, 3), 24, (3, 3), (1, 1), (1, 2), (1, 1)),
    ((2, 24, 8, 16), 33, (5, 5), (1, 1), (2, 2), (1, 1)),
    ((1, 70, 9, 20), 48, (5, 5), (2, 2), (1, 3), (1, 1)),
    ((5, 48, 40, 40), 49, (3, 3), (2, 2), (1, 1), (1, 1)),
    ((2, 8, 5, 30), 64, (3, 3), (2, 2), (4, 2), (1, 1)),
    # As many windows along a row at once as its width is cut into best, and with some of them once more.
    *(
        ((1, 6, 9, width * stride), 40, (taps, taps), (stride, stride), (taps // 2, taps // 2), (1, 1))
        for taps, stride, width in product((3, 5), (1, 2), (10, 12, 14, 16, 19, 24, 37))
    ),
    # Image by image where that is quicker, by the matrix unit or not: usual windows, and others.
    ((2, 96, 14, 14), 576, (3, 3), (1, 1), (1, 1), (1, 1)),
    ((1, 160, 7, 7), 950, (5, 5), (2, 2), (2, 2), (1, 1)),
    ((3, 64, 9, 8), 100, (7, 7), (1, 1), (3, 3), (1, 1)),
    ((2, 48, 12, 11), 72, (3, 5), (2, 1), (2, 3), (1, 2)),
    ((1, 56, 3, 2), 40, (3, 3), (1, 1), (1, 1), (1, 1)),
    ((2, 80, 6, 2), 33, (5, 5), (1, 1), (4, 3), (1, 1)),
    # A few channels of the image in a turn.
    ((2, 40, 14, 14), 240, (5, 5), (1, 1), (2, 2), (1, 1)),
    ((1, 24, 28, 28), 120, (5, 5), (1, 1), (2, 2), (1, 1)),
    ((1, 9, 17, 13), 200, (5, 5), (1, 1), (1, 3), (1, 1)),
]


@pytest.mark.parametrize("case", EXPANSIONS, ids=str)
def test_expansion(isa: str, case: tuple[object, ...]) -> None:
    sizes, channels, window, stride, padding, dilation = case
    op = overload_of("penlight::expand_depthwise_packed")
    x = image(*sizes)
    first, last = torch.randn(channels, sizes[1], 1, 1), torch.randn(channels, 1, *window)
    biases = torch.randn(2, channels)
    packed = (
        pack_panels(Derived.of(first), biases[0]).tensor(),
        pack_depthwise(Derived.of(last), biases[1]).tensor(),
    )
    numbers = [list(part) for part in ((channels, *window), stride, padding, dilation)]
    for before, after in ((0, 0), (2, 9), (9, 2)):
        between = ACTIVATIONS[before](functional.conv2d(x.double(), first.double(), biases[0].double()))
        want = padded_conv2d(between, last.double(), biases[1].double(), stride, padding, dilation, channels)
        want = ACTIVATIONS[after](want).contiguous(memory_format=torch.channels_last)
        args = [x, *packed, *numbers, before, -0.5, 0.75, after, -0.5, 0.75]
        (got,) = run_op(op, args, {}, want.float(), "optimized")
        close(got, want, sizes[1] * math.prod(window))
        torch.testing.assert_close(op(*args), got, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    "sizes",
    [(2, 96, 14, 14, 576), (1, 160, 7, 7, 960), (2, 64, 5, 9, 70), (1, 96, 7, 7, 192), (1, 50, 15, 7, 150)],
    ids=str,
)
@pytest.mark.parametrize("window", [3, 5, 7])
def test_expansion_and_threads(isa: str, sizes: tuple[int, ...], window: int) -> None:
    *of_image, channels = sizes
    x, last = image(*of_image), torch.randn(channels, 1, window, window)
    packed = (
        pack_panels(Derived.of(torch.randn(channels, of_image[1], 1, 1)), None).tensor(),
        pack_depthwise(Derived.of(last), None).tensor(),
    )
    numbers = [channels, window, window], [1, 1], [window // 2] * 2, [1, 1]
    args = [x, *packed, *numbers, 9, 0.0, 0.0, 1, 0.0, 0.0]
    op, want = overload_of("penlight::expand_depthwise_packed"), image(of_image[0], channels, *of_image[2:])
    file = one_op_program(op, args, {}, want)
    alone, *others = (
        penlight.load(file, libraries="optimized", threads=n)(x, *packed)[0].clone() for n in (1, 2, 3, 8)
    )
    assert alone.shape == want.shape and alone.count_nonzero() > 0
    assert all(torch.equal(other, alone) for other in others)


# Sizes of the input, channels; window, stride, padding, dilation of the first convolution and of the other.
STEMS = [
    ((1, 3, 32, 32), 32, ((3, 3), (2, 2), (1, 1), (1, 1)), ((3, 3), (1, 1), (1, 1), (1, 1))),
    ((2, 3, 33, 31), 16, ((3, 3), (2, 2), (0, 0, 1, 1), (1, 1)), ((3, 3), (2, 2), (1, 1), (1, 1))),
    ((2, 1, 12, 40), 40, ((1, 7), (1, 2), (0, 3), (1, 1)), ((5, 5), (1, 1), (2, 2), (1, 1))),
    ((3, 4, 20, 9), 17, ((5, 2), (1, 1), (4, 1), (2, 1)), ((5, 5), (2, 2), (0, 4), (1, 1))),
    ((1, 2, 300, 8), 24, ((3, 3), (1, 1), (1, 1), (1, 1)), ((3, 3), (1, 1), (1, 1), (1, 1))),
    ((0, 3, 16, 16), 24, ((3, 3), (2, 2), (1, 1), (1, 1)), ((3, 3), (1, 1), (1, 1), (1, 1))),
    # Lines of tiles that share columns, by three taps, and of tall ones, of neighbours that lie one element
    # apart, two, three and six.
    *(
        ((2, channels, 9, width * stride), 24, ((3, taps), (1, stride), (1, taps // 2), (1, 1)), last)
        for taps, (channels, stride) in product((3, 5), ((1, 1), (1, 2), (3, 1), (3, 2)))
        for width, last in (
            (16, ((3, 3), (1, 1), (1, 1), (1, 1))),
            (27, ((3, 3), (2, 2), (1, 1), (1, 1))),
            (28, ((5, 5), (1, 1), (2, 2), (1, 1))),
            (45, ((5, 5), (2, 2), (2, 2), (1, 1))),
        )
    ),
    # Windows without code of their own, and images too narrow for it.
    ((2, 3, 18, 20), 20, ((3, 3), (2, 2), (1, 1), (1, 1)), ((3, 3), (1, 1), (2, 2), (2, 2))),
    ((1, 3, 18, 20), 20, ((3, 3), (2, 2), (1, 1), (1, 1)), ((7, 7), (1, 1), (3, 3), (1, 1))),
    ((2, 3, 9, 6), 20, ((3, 3), (2, 2), (1, 1), (1, 1)), ((3, 3), (1, 1), (1, 1), (1, 1))),
]


@pytest.mark.parametrize("case", STEMS, ids=str)
def test_stem(isa: str, case: tuple[Any, ...]) -> None:
    sizes, channels, start, end = case
    op, x = overload_of("penlight::conv2d_depthwise_packed"), image(*sizes)
    first, last = torch.randn(channels, sizes[1], *start[0]), torch.randn(channels, 1, *end[0])
    biases = torch.randn(2, channels)
    packed = (
        pack_panels(Derived.of(first), biases[0]).tensor(),
        pack_depthwise(Derived.of(last), biases[1]).tensor(),
    )
    numbers = [[list(part) for part in ((channels, *one[0]), *one[1:])] for one in (start, end)]
    for before, after in ((0, 0), (2, 9), (9, 2), (5, 1)):
        between = padded_conv2d(x.double(), first.double(), biases[0].double(), *start[1:], 1)
        between = ACTIVATIONS[before](between)
        want = padded_conv2d(between, last.double(), biases[1].double(), *end[1:], channels)
        want = ACTIVATIONS[after](want)
        want = want.contiguous(memory_format=torch.channels_last)
        args = [x, *packed, *numbers[0], before, -0.5, 0.75, *numbers[1], after, -0.5, 0.75]
        for args[0] in (x, x.contiguous()):
            (got,) = run_op(op, args, {}, want.float(), "optimized")
            close(got, want, first[0].numel() * last[0].numel())
        torch.testing.assert_close(op(*args), got, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(("window", "padding"), [(3, [1, 2, 1, 9]), (7, [3, 9, 3, 9])])
def test_expansion_of_an_image_without_columns(isa: str, window: int, padding: list[int]) -> None:
    """ATen refuses it; a program file may say it. All that windows see are zeros."""
    biases, columns = torch.randn(24), padding[1] + padding[3] - window + 1
    packed = (
        pack_panels(Derived.of(torch.randn(24, 16, 1, 1)), None).tensor(),
        pack_depthwise(Derived.of(torch.randn(24, 1, window, window)), biases).tensor(),
    )
    numbers = [24, window, window], [1, 1], padding, [1, 1]
    want = biases.view(1, 24, 1, 1).expand(1, 24, 8, columns).contiguous(memory_format=torch.channels_last)
    args = [image(1, 16, 8, 0), *packed, *numbers, 0, 0.0, 0.0, 0, 0.0, 0.0]
    (got,) = run_op(overload_of("penlight::expand_depthwise_packed"), args, {}, want, "optimized")
    torch.testing.assert_close(got, want, rtol=0, atol=0)


@pytest.mark.parametrize("special", [math.nan, math.inf])
def test_expansion_by_windows_that_are_not_finite(isa: str, special: float) -> None:
    """They may not be multiplied by zeros around the image."""
    x, first, last = image(1, 16, 9, 8), torch.randn(40, 16, 1, 1), torch.randn(40, 1, 3, 3)
    last[17, 0, 0, 1], x[0, 3, 4, 4], x[0, 5, 0, 0] = special, math.inf, math.nan
    packed = pack_panels(Derived.of(first), None).tensor(), pack_depthwise(Derived.of(last), None).tensor()
    between = functional.conv2d(x.double(), first.double()).relu()
    want = functional.conv2d(between, last.double(), padding=1, groups=40)
    above = functional.conv2d(between[:, 17:18, :2], last[17:18, :, 1:].double(), padding=(0, 1))
    want[0, 17, 0] = above[0, 0, 0]
    want = want.contiguous(memory_format=torch.channels_last)
    args = [x, *packed, [40, 3, 3], [1, 1], [1, 1], [1, 1], 1, 0.0, 0.0, 0, 0.0, 0.0]
    (got,) = run_op(overload_of("penlight::expand_depthwise_packed"), args, {}, want.float(), "optimized")
    close(got, want, 16 * 9)
