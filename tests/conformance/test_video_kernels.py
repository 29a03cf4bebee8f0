"""Convolutions over time of packed weights against float64, with every instruction set of this machine."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence

import pytest
import torch
from run_op import overload_of, run_op
from test_packed_kernels import ACTIVATIONS, close, image
from torch import Tensor
from torch.nn import functional

from penlight.errors import PenlightError
from penlight.ir.tensors import Derived
from penlight.passes.packing import pack_depthwise, pack_panels

KERNELS = ("penlight::conv3d_packed.out",)


def convolved(
    x: Tensor,
    frames: int,
    weight: Tensor,
    bias: Tensor | None,
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
) -> Tensor:
    """ATen's answer as frames; a padding of six numbers is of the sides before, then of those behind."""
    before, behind = padding[:3], padding[-3:]
    video = x.unflatten(0, (-1, frames)).transpose(1, 2)
    sides = [side for pair in zip(reversed(before), reversed(behind), strict=True) for side in pair]
    groups = x.shape[1] // weight.shape[1]
    y = functional.conv3d(functional.pad(video, sides), weight, bias, stride, 0, dilation, groups)
    return y.transpose(1, 2).flatten(0, 1)


def packed_of(weight: Tensor, bias: Tensor | None, channels: int) -> Tensor:
    groups = channels // weight.shape[1]
    if groups > 1 and weight.shape[1] == 1:
        return pack_depthwise(Derived.of(weight), bias).tensor()
    return pack_panels(Derived.of(weight), bias, groups).tensor()


# Videos, frames, channels, height, width; outputs, window, stride, padding, dilation.
DEPTHWISE = [
    ((1, 5, 16, 9, 10), 16, (3, 3, 3), (1, 1, 1), (1, 1, 1), (1, 1, 1)),
    ((2, 4, 19, 7, 7), 19, (3, 3, 3), (2, 2, 2), (1, 1, 1), (1, 1, 1)),
    ((1, 6, 33, 12, 13), 33, (5, 3, 3), (1, 1, 1), (4, 1, 1, 0, 1, 1), (1, 1, 1)),
    ((1, 7, 20, 11, 9), 20, (3, 5, 5), (1, 1, 1), (1, 2, 2), (1, 1, 1)),
    ((2, 5, 17, 12, 12), 17, (3, 5, 5), (1, 2, 2), (0, 2, 2), (1, 1, 1)),
    ((1, 9, 8, 6, 5), 8, (3, 3, 2), (2, 1, 2), (3, 1, 0), (2, 1, 2)),
    ((1, 9, 8, 6, 5), 8, (2, 2, 3), (1, 1, 1), (4, 2, 1), (3, 2, 1)),
    ((1, 3, 16, 4, 3), 16, (3, 3, 3), (1, 1, 1), (1, 1, 1), (1, 1, 1)),
    ((1, 3, 16, 1, 1), 16, (3, 3, 3), (1, 1, 1), (1, 1, 1), (1, 1, 1)),
    ((3, 1, 18, 5, 6), 18, (3, 3, 3), (1, 1, 1), (1, 1, 1), (1, 1, 1)),
    ((1, 4, 16, 3, 20), 16, (2, 1, 3), (3, 1, 1), (0, 0, 1), (1, 1, 1)),
    ((1, 12, 16, 5, 6), 16, (7, 3, 3), (4, 1, 1), (2, 1, 1), (1, 1, 1)),
    ((1, 2, 16, 8, 8), 16, (4, 3, 3), (1, 1, 1), (5, 1, 1), (1, 1, 1)),
    ((1, 3, 16, 8, 9), 16, (3, 2, 2), (1, 1, 1), (1, 3, 0, 0, 0, 4), (1, 1, 1)),
    ((0, 3, 16, 8, 9), 16, (3, 3, 3), (1, 1, 1), (1, 1, 1), (1, 1, 1)),
    # Bands of lines, segments of columns, and windows larger than the tile.
    ((1, 5, 16, 70, 40), 16, (3, 3, 3), (1, 1, 1), (1, 1, 1), (1, 1, 1)),
    ((1, 4, 18, 67, 37), 18, (3, 3, 3), (1, 2, 2), (1, 1, 1), (1, 1, 1)),
    ((1, 3, 16, 4, 500), 16, (3, 3, 3), (1, 1, 1), (1, 1, 1), (1, 1, 1)),
    ((1, 9, 16, 5, 301), 16, (9, 3, 5), (1, 1, 1), (4, 1, 2), (1, 1, 1)),
    ((1, 20, 5, 9, 10), 5, (5, 3, 3), (1, 1, 1), (8, 20, 30), (4, 20, 30)),
    # Several outputs for each channel.
    ((1, 5, 9, 8, 9), 27, (3, 3, 3), (1, 1, 1), (1, 1, 1), (1, 1, 1)),
    ((2, 4, 17, 7, 5), 34, (2, 3, 5), (1, 2, 1), (1, 1, 2), (1, 1, 1)),
]
# Windows of one pixel of each frame.
ONE_PIXEL = [
    ((1, 6, 40, 7, 9), 24, (3, 1, 1), (1, 1, 1), (1, 0, 0), (1, 1, 1), 1),
    ((2, 5, 33, 4, 4), 17, (3, 1, 1), (2, 1, 1), (2, 0, 0, 0, 0, 0), (2, 1, 1), 1),
    ((1, 8, 6, 5, 7), 20, (5, 1, 1), (1, 1, 1), (2, 0, 0), (1, 1, 1), 1),
    ((2, 8, 24, 5, 7), 36, (3, 1, 1), (1, 1, 1), (1, 0, 0), (1, 1, 1), 4),
    ((2, 8, 24, 5, 7), 24, (5, 1, 1), (1, 1, 1), (4, 0, 0, 0, 0, 0), (1, 1, 1), 24),
    ((1, 9, 20, 3, 5), 40, (3, 1, 1), (2, 1, 1), (1, 0, 0), (1, 1, 1), 20),
    ((1, 4, 32, 1, 1), 48, (1, 1, 1), (1, 1, 1), (0, 0, 0), (1, 1, 1), 1),
    ((0, 4, 32, 2, 2), 48, (3, 1, 1), (1, 1, 1), (1, 0, 0), (1, 1, 1), 1),
]
# Windows of several pixels of several frames.
SIDE_BY_SIDE = [
    ((1, 6, 16, 9, 10), 24, (3, 3, 3), (1, 1, 1), (1, 1, 1), (1, 1, 1), 1),
    ((2, 5, 1, 12, 11), 16, (3, 3, 3), (2, 2, 2), (1, 1, 1), (1, 1, 1), 1),
    ((2, 4, 3, 9, 7), 8, (2, 3, 5), (1, 1, 2), (1, 1, 2), (1, 1, 1), 1),
    ((3, 3, 5, 8, 8), 7, (3, 2, 2), (1, 1, 1), (0, 1, 0, 4, 0, 1), (1, 2, 1), 1),
    ((1, 9, 8, 6, 6), 4, (4, 3, 3), (3, 1, 1), (5, 1, 1), (2, 1, 1), 1),
    ((1, 4, 40, 6, 5), 20, (3, 1, 1), (1, 2, 2), (1, 0, 0), (1, 1, 1), 1),
    ((1, 4, 12, 6, 5), 18, (3, 1, 1), (1, 1, 1), (2, 0, 1, 0, 1, 0), (1, 1, 1), 1),
    ((2, 4, 12, 7, 6), 18, (3, 3, 3), (1, 1, 1), (1, 1, 1), (1, 1, 1), 3),
    ((1, 5, 8, 7, 6), 8, (2, 3, 3), (1, 1, 1), (1, 1, 1), (1, 1, 1), 2),
    ((1, 3, 64, 1, 1), 32, (3, 3, 3), (1, 1, 1), (1, 1, 1), (1, 1, 1), 1),
    ((0, 3, 16, 4, 4), 8, (3, 3, 3), (1, 1, 1), (1, 1, 1), (1, 1, 1), 1),
    # Results in several turns: of large frames one each, of two videos.
    ((2, 3, 64, 40, 42), 24, (3, 3, 3), (1, 1, 1), (1, 1, 1), (1, 1, 1), 1),
    ((1, 11, 8, 50, 52), 8, (3, 3, 3), (1, 1, 1), (1, 1, 1), (1, 1, 1), 1),
    ((2, 7, 8, 60, 56), 2, (3, 3, 3), (1, 1, 1), (2, 1, 1, 0, 1, 1), (1, 1, 1), 1),
]
CASES = [*((*case, case[0][2]) for case in DEPTHWISE), *ONE_PIXEL]


def compared(
    case: tuple[object, ...], activations: Sequence[int], check: Callable[[Tensor, Tensor, int], None]
) -> list[object]:
    """Calls `check` with what the kernel and its meaning give, what is right, and the terms of a sum.

    Returns:
        The arguments without a residual or an activation.
    """
    sizes, outputs, window, stride, padding, dilation, groups = case
    videos, frames, channels, *pixels = sizes
    op = overload_of("penlight::conv3d_packed")
    x = image(videos * frames, channels, *pixels)
    weight, bias = torch.randn(outputs, channels // groups, *window), torch.randn(outputs)
    exact = convolved(x.double(), frames, weight.double(), bias.double(), stride, padding, dilation)
    residual = image(*exact.shape)
    numbers = [list(part) for part in ((outputs, *window), stride, padding, dilation)]
    packed, depth = packed_of(weight, bias, channels), math.prod(weight.shape[1:])
    for activation in activations:
        for added in (None, residual):
            want = ACTIVATIONS[activation](exact if added is None else exact + added)
            want = want.contiguous(memory_format=torch.channels_last)
            args = [x, packed, added, frames, *numbers, groups, activation, -0.5, 0.75]
            for got in (run_op(op, args, {}, want.float(), "optimized")[0], op(*args)):
                check(got, want, depth)
    return [x, packed, None, frames, *numbers, groups, 0, 0.0, 0.0]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_convolution_over_time(isa: str, case: tuple[object, ...]) -> None:
    compared(case, (0, 1, 5, 9, 10), close)


def close_to_range(got: Tensor, want: Tensor, depth: int) -> None:
    """Within what tiles of transformed products give."""
    assert got.shape == want.shape
    if want.numel():
        assert (got.double() - want).abs().max() < 3e-5 * (want.max() - want.min())


@pytest.mark.parametrize("case", SIDE_BY_SIDE, ids=str)
def test_windows_of_several_pixels(isa: str, case: tuple[object, ...]) -> None:
    x, *rest = compared(case, (0, 1, 6), close_to_range)
    op = overload_of("penlight::conv3d_packed")
    for value in (math.nan, math.inf) if x.numel() else ():
        wild = x.clone(memory_format=torch.channels_last)
        wild[-1, -1, 0, 0] = value
        want = op(wild, *rest)
        (got,) = run_op(op, [wild, *rest], {}, want, "optimized")
        torch.testing.assert_close(got, want, rtol=1e-4, atol=2e-3, equal_nan=True)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("channels, groups", [(24, 1), (64, 1), (64, 2)])
def test_weights_of_16_bits(isa: str, channels: int, groups: int, dtype: torch.dtype) -> None:
    """The same bits as of float32 that holds the same numbers."""
    x, weight = image(6, channels, 9, 8), torch.randn(20, channels // groups, 3, 3, 3).to(dtype).float()
    packed = packed_of(weight, None, channels)
    numbers = [3, [20, 3, 3, 3], [1] * 3, [1] * 3, [1] * 3, groups, 1, 0.0, 0.0]
    like = image(6, 20, 9, 8)
    op = overload_of("penlight::conv3d_packed")
    got, want = (
        run_op(op, [x, part, None, *numbers], {}, like, "optimized")[0] for part in (packed.to(dtype), packed)
    )
    assert want.abs().max() > 1 and torch.equal(got, want)


def test_random_windows(isa: str) -> None:
    """Whatever fits: sizes, strides, paddings of six sides, dilations."""
    draw = random.Random(torch.initial_seed())
    op, tried = overload_of("penlight::conv3d_packed"), 0
    while tried < 60:
        frames, *pixels = (draw.randint(1, 12) for _ in range(3))
        channels = draw.choice([3, 16, 21])
        window, stride, dilation = ([draw.randint(1, most) for _ in range(3)] for most in (5, 3, 3))
        padding = [draw.randint(0, 4) for _ in range(6)]
        room = [
            size + padding[d] + padding[3 + d] - dilation[d] * (window[d] - 1)
            for d, size in enumerate((frames, *pixels))
        ]
        if min(room) < 1:
            continue
        tried += 1
        videos = draw.randint(1, 2)
        x, weight = image(videos * frames, channels, *pixels), torch.randn(channels, 1, *window)
        want = convolved(x.double(), frames, weight.double(), None, stride, padding, dilation)
        want = want.contiguous(memory_format=torch.channels_last)
        packed = packed_of(weight, None, channels)
        args = [
            x,
            packed,
            None,
            frames,
            [channels, *window],
            stride,
            padding,
            dilation,
            channels,
            0,
            0.0,
            0.0,
        ]
        close(run_op(op, args, {}, want.float(), "optimized")[0], want, math.prod(window))


@pytest.mark.parametrize("outputs", [40, 80])
@pytest.mark.parametrize("window, stride", [((3, 3, 3), 1), ((2, 5, 5), 2), ((3, 1, 4), 1)])
def test_infinite_weight(isa: str, outputs: int, window: tuple[int, ...], stride: int) -> None:
    """No product with what lies outside of the videos: that would be no number."""
    op = overload_of("penlight::conv3d_packed")
    x, weight, bias = image(8, 40, 7, 8), torch.randn(outputs, 1, *window), torch.randn(outputs)
    weight[3, 0, 0, 0, 0] = weight[20, 0, 1, 0, 1 % window[2]] = math.inf
    tap, finite = weight.isinf().double(), weight.masked_fill(weight.isinf(), 0.0).double()
    numbers = [[stride] * 3, [1, window[1] // 2, 2], [1, 1, 1]]
    exact = convolved(x.double(), 4, finite, bias.double(), *numbers)
    reached = convolved(torch.ones_like(x).double(), 4, tap, None, *numbers) > 0
    want = torch.where(reached, exact + math.inf * convolved(x.double(), 4, tap, None, *numbers), exact)
    want = want.contiguous(memory_format=torch.channels_last)
    packed = packed_of(weight, bias, 40)
    args = [x, packed, None, 4, [outputs, *window], *numbers, 40, 0, 0.0, 0.0]
    close(run_op(op, args, {}, want.float(), "optimized")[0], want, math.prod(window))


def test_special_values_stay_in_their_windows(isa: str) -> None:
    op = overload_of("penlight::conv3d_packed")
    x, weight = image(6, 20, 8, 9), torch.randn(20, 1, 3, 3, 3)
    x[1, 4, 3, 3], x[4, 19, 0, 8] = math.nan, math.inf
    want = convolved(x, 6, weight, None, [1] * 3, [1] * 3, [1] * 3)
    assert not want[3:, 4].isnan().any() and want[:3, 4].isnan().any() and not want[:, :4].isnan().any()
    want = want.contiguous(memory_format=torch.channels_last)
    args = [
        x,
        packed_of(weight, None, 20),
        None,
        6,
        [20, 3, 3, 3],
        [1] * 3,
        [1] * 3,
        [1] * 3,
        20,
        0,
        0.0,
        0.0,
    ]
    (got,) = run_op(op, args, {}, want, "optimized")
    torch.testing.assert_close(got, want, rtol=1e-4, atol=1e-4, equal_nan=True)


# Frames, window, stride, padding, dilation, groups, activation; and what is said.
REFUSED = {
    "frames": ((4, [8, 3, 3, 3], [1] * 3, [1] * 3, [1] * 3, 8, 0), "does not fit videos of 4 frames, of 6"),
    "no frames": ((0, [8, 3, 3, 3], [1] * 3, [1] * 3, [1] * 3, 8, 0), "does not fit videos of 0 frames"),
    "long": ((3, [8, 6, 3, 3], [1] * 3, [1] * 3, [1] * 3, 8, 0), "does not fit videos of 3 frames"),
    "high": ((3, [8, 3, 9, 3], [1] * 3, [1] * 3, [1] * 3, 8, 0), "do not fit 8 channels of 5 by 6"),
    "numbers": ((3, [8, 3, 3], [1] * 3, [1] * 3, [1] * 3, 8, 0), "windows over time, height and width"),
    "stride": ((3, [8, 3, 3, 3], [0, 1, 1], [1] * 3, [1] * 3, 8, 0), "does not fit videos of 3 frames"),
    "groups": ((3, [8, 3, 3, 3], [1] * 3, [1] * 3, [1] * 3, 3, 0), "do not fit 8 channels of 5 by 6"),
    "weights of groups": (
        (3, [8, 3, 3, 3], [1] * 3, [1] * 3, [1] * 3, 4, 0),
        "448 elements, the other arguments need 3520",
    ),
    "weights of all": (
        (3, [8, 3, 3, 3], [1] * 3, [1] * 3, [1] * 3, 1, 0),
        "448 elements, the other arguments need 3472",
    ),
    "weights": (
        (3, [8, 3, 3, 5], [1] * 3, [1, 1, 2], [1] * 3, 8, 0),
        "448 elements, the other arguments need 736",
    ),
    "activation": ((3, [8, 3, 3, 3], [1] * 3, [1] * 3, [1] * 3, 8, 99), "there is no activation 99"),
    "huge": (
        (3, [8, 3, 3, 3], [1] * 3, [1 << 24] * 3, [1 << 23, 1, 1], 8, 0),
        "the output has a fixed shape",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_does_not_fit_is_refused(name: str) -> None:
    numbers, said = REFUSED[name]
    x, packed = image(6, 8, 5, 6), packed_of(torch.randn(8, 1, 3, 3, 3), None, 8)
    with pytest.raises(PenlightError, match=said):
        run_op(
            overload_of("penlight::conv3d_packed"),
            [x, packed, None, *numbers, 0.0, 0.0],
            {},
            image(6, 8, 5, 6),
            "optimized",
        )
