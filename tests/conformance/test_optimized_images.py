"""Resampling, group norms and pooling of the optimized library, with every instruction set."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from run_op import one_op_program, overload_of, run_op

import penlight

pytestmark = pytest.mark.usefixtures("isa")

ORDERS = {"planar": torch.contiguous_format, "channels last": torch.channels_last}
# Odd sizes, one pixel, one channel, and more channels and columns than a block or a vector has.
SIZES = (
    (1, 3, 5, 7),
    (2, 1, 4, 9),
    (1, 16, 1, 1),
    (2, 37, 6, 3),
    (1, 70, 9, 33),
    (1, 2, 3, 700),
    (1, 2100, 2, 2),
)


def image(sizes: tuple[int, ...], order: str, wild: bool = False) -> torch.Tensor:
    x = torch.randn(sizes)
    if wild and x.numel():
        flat = x.reshape(-1)
        flat[::17], flat[5::29], flat[7::31] = math.nan, math.inf, -math.inf
    return x.contiguous(memory_format=ORDERS[order])


def run(name: str, args: list[Any], order: str, library: str | None = "optimized") -> list[torch.Tensor]:
    """What the kernel gives, in the order of its first argument; of no library: where it may decline."""
    op = overload_of(name)
    want = op(*args)
    like = want
    if isinstance(want, torch.Tensor):
        like = want.contiguous(memory_format=ORDERS[order])
    elif want[0].dim() == 4:
        like = (want[0].contiguous(memory_format=ORDERS[order]), *want[1:])
    return run_op(op, args, {}, like, library)


def exact(name: str, args: list[Any]) -> Any:
    return overload_of(name)(*(arg.double() if isinstance(arg, torch.Tensor) else arg for arg in args))


def close(got: torch.Tensor, want: torch.Tensor, rtol: float = 2e-6, atol: float = 2e-6) -> None:
    torch.testing.assert_close(got.double(), want.double(), rtol=rtol, atol=atol, equal_nan=True)


# --- resampling -----------------------------------------------------------------------------------

OUT = ((1, 1), (10, 14), (9, 5), (3, 20), (2, 1400))


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("align_corners", [False, True])
@pytest.mark.parametrize("sizes", SIZES, ids=str)
def test_bilinear(sizes: tuple[int, ...], align_corners: bool, order: str) -> None:
    x = image(sizes, order)
    for size in OUT if sizes[1] < 100 else OUT[:2]:
        args = [x, list(size), align_corners]
        # Positions are rounded to float32 on both sides of the pixel that they are in.
        (got,) = run("aten::upsample_bilinear2d", args, order)
        close(got, exact("aten::upsample_bilinear2d", args), atol=2e-4)
        close(got, overload_of("aten::upsample_bilinear2d")(*args), atol=2e-5)


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("scales", [(2.0, 2.0), (1.7, 0.6), (0.25, 3.0), (1.0, 1.0)], ids=str)
def test_scales(scales: tuple[float, float], order: str) -> None:
    x = image((2, 19, 8, 13), order)
    for args in ([x, None, False, list(scales)], [x, None, True, list(scales)]):
        (got,) = run("aten::upsample_bilinear2d.vec", args, order)
        close(got, overload_of("aten::upsample_bilinear2d.vec")(*args), atol=2e-5)
    (got,) = run("aten::upsample_nearest2d.vec", [x, None, list(scales)], order)
    assert torch.equal(got, overload_of("aten::upsample_nearest2d.vec")(x, None, list(scales)))
    size = [int(8 * scales[0]), int(13 * scales[1])]
    for args in ([x, size, False, *scales], [x, size, False, None, scales[1]]):
        (got,) = run("aten::upsample_bilinear2d", args, order)
        close(got, overload_of("aten::upsample_bilinear2d")(*args), atol=2e-5)


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("sizes", SIZES, ids=str)
def test_nearest_moves_every_bit(sizes: tuple[int, ...], order: str) -> None:
    x = image(sizes, order, wild=True)
    for size in OUT if sizes[1] < 100 else OUT[:2]:
        (got,) = run("aten::upsample_nearest2d", [x, list(size)], order)
        want = torch.ops.aten.upsample_nearest2d(x, list(size))
        assert torch.equal(got.view(torch.int32), want.contiguous().view(torch.int32))


@pytest.mark.parametrize("order", ORDERS)
def test_bilinear_of_what_is_not_finite(order: str) -> None:
    """As the portable kernel has it: what a pixel takes part in with weight 0 is no number either."""
    x = image((1, 20, 6, 7), order, wild=True)
    for size in ([12, 14], [5, 4], [6, 7]):
        want = run_op(
            overload_of("aten::upsample_bilinear2d"),
            [x, size, False],
            {},
            torch.ops.aten.upsample_bilinear2d(x, size, False).contiguous(memory_format=ORDERS[order]),
            "portable",
        )[0]
        close(run("aten::upsample_bilinear2d", [x, size, False], order)[0], want)


@pytest.mark.parametrize("name", ["aten::upsample_bilinear2d", "aten::upsample_nearest2d"])
def test_resampling_of_nothing(name: str) -> None:
    args = [torch.empty(0, 3, 4, 4), [8, 8], *([False] if "bilinear" in name else [])]
    assert run(name, args, "planar", None)[0].shape == (0, 3, 8, 8)


# --- group norm -----------------------------------------------------------------------------------


@pytest.mark.parametrize("shift", [0.0, 300.0])
@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("sizes", [*SIZES, (2, 64, 40, 41), (3, 320, 2, 5)], ids=str)
def test_group_norm(sizes: tuple[int, ...], order: str, shift: float) -> None:
    x, (n, c, h, w) = (image(sizes, order) + shift).contiguous(memory_format=ORDERS[order]), sizes
    for groups in {g for g in (1, 2, c // 2, c) if g and c % g == 0}:
        weight, bias = torch.randn(c), torch.randn(c)
        for parameters in ([None, None], [weight, None], [weight, bias], [None, bias]):
            args = [x, *parameters, n, c, h * w, groups, 1e-5]
            for got, want in zip(
                run("aten::native_group_norm", args, order),
                exact("aten::native_group_norm", args),
                strict=True,
            ):
                # Of one element, or close ones, what is left of the mean is rounding times 1 / sqrt(eps).
                few = c // groups * h * w < 4
                close(got, want, rtol=1e-4 if shift else 2e-5, atol=2e-2 if shift or few else 2e-5)


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize(
    ("sizes", "groups"),
    [
        ((2, 6, 70, 90), (1, 3, 6)),
        ((1, 8, 97, 101), (1, 8)),
        ((3, 40, 33, 35), (1, 5)),
        ((1, 600, 9, 13), (1, 30)),
    ],
    ids=str,
)
def test_group_norm_of_many_parts_and_threads(
    sizes: tuple[int, ...], groups: tuple[int, ...], order: str
) -> None:
    """So many elements that their moments are taken in parts, the last of which is smaller."""
    op, (n, c, h, w) = overload_of("aten::native_group_norm"), sizes
    for count in groups:
        x = image(sizes, order) * torch.linspace(0.5, 2.0, h).reshape(-1, 1) + 3
        x[-1, -1, -1, -1] = 40.0
        args = [x, torch.randn(c), torch.randn(c), n, c, h * w, count, 1e-5]
        want = op(*args)
        image_too = want[0].contiguous(memory_format=ORDERS[order])
        file = one_op_program(op, args, {}, (image_too, *want[1:]))
        alone, *others = (
            [part.clone() for part in penlight.load(file, libraries="optimized", threads=threads)(*args[:3])]
            for threads in (1, 2, 3, 8)
        )
        for got, true in zip(alone, exact("aten::native_group_norm", args), strict=True):
            close(got, true, rtol=2e-6, atol=1e-5)
        for other in others:
            assert all(torch.equal(a, b) for a, b in zip(other, alone, strict=True))


@pytest.mark.parametrize("order", ORDERS)
def test_group_norm_of_many_parts_with_what_is_not_finite(order: str) -> None:
    x = torch.randn(4, 6, 90, 110)
    x[0, 0, -1, -1], x[1, 3, 0, 0], x[2, 4:] = math.nan, math.inf, 3e38
    x = x.contiguous(memory_format=ORDERS[order])
    args = [x, None, None, 4, 6, 9900, 3, 1e-5]
    got, want = run("aten::native_group_norm", args, order), exact("aten::native_group_norm", args)
    assert got[0][0, :2].isnan().all() and got[0][1, 2:4].isnan().all()
    assert got[1][2, 2].item() == pytest.approx(3e38, rel=1e-6)
    for place in ((0, slice(2, 6)), (1, slice(0, 2)), (1, slice(4, 6)), (2, slice(0, 4)), (3, slice(0, 6))):
        close(got[0][place], want[0][place], rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("number", [37.3, -100000.3])
def test_group_norm_of_equal_numbers_is_zero(number: float, order: str) -> None:
    x = torch.full((2, 6, 5, 7), number).contiguous(memory_format=ORDERS[order])
    got = run("aten::native_group_norm", [x, None, None, 2, 6, 35, 3, 1e-5], order)
    assert not got[0].any() and bool((got[1] == x[0, 0, 0, 0]).all())


def test_group_norm_of_other_ranks(isa: str) -> None:
    for sizes in ((3, 6), (2, 99), (4, 192), (2, 6, 33), (2, 6, 3, 4, 5)):
        n, c, *pixels = sizes
        weight, bias = (torch.randn(c) if sizes != (2, 99) else None for _ in range(2))
        args = [torch.randn(sizes), weight, bias, n, c, math.prod(pixels), 3, 1e-3]
        for got, want in zip(
            run("aten::native_group_norm", args, "planar"),
            exact("aten::native_group_norm", args),
            strict=True,
        ):
            close(got, want, rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize("order", ORDERS)
def test_group_norm_of_what_is_large_or_not_a_number(order: str) -> None:
    x = torch.randn(4, 6, 9, 11)
    x[0, 0, 0, 0], x[1, 3, 8, 10], x[2, 4:] = math.nan, math.inf, 3e38
    x = x.contiguous(memory_format=ORDERS[order])
    args = [x, None, None, 4, 6, 99, 3, 1e-5]
    got, want = run("aten::native_group_norm", args, order), exact("aten::native_group_norm", args)
    assert got[0][0, :2].isnan().all() and got[0][1, 2:4].isnan().all()
    assert got[1][2, 2].item() == pytest.approx(3e38, rel=1e-6)
    fine = [(0, slice(2, 6)), (1, slice(0, 2)), (1, slice(4, 6)), (2, slice(0, 4)), (3, slice(0, 6))]
    for place in fine:
        close(got[0][place], want[0][place], rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("order", ORDERS)
def test_sums_over_many_pixels_keep_their_digits(order: str) -> None:
    x = image((1, 4, 300, 700), order) * 0.01 + 10
    args = [x.contiguous(memory_format=ORDERS[order]), None, None, 1, 4, 210000, 2, 0.0]
    got, want = run("aten::native_group_norm", args, order), exact("aten::native_group_norm", args)
    close(got[1], want[1], rtol=2e-7, atol=0)
    close(got[2], want[2], rtol=1e-5, atol=0)


@pytest.mark.parametrize("sizes", [(1, 5, 3, 7), (1, 24, 2, 9), (1, 3, 1100), (1, 7, 1, 2)], ids=str)
def test_instance_norm(sizes: tuple[int, ...]) -> None:
    name, c = "aten::_native_batch_norm_legit.no_stats", sizes[1]
    for weight, bias in ((None, None), (torch.randn(c), torch.randn(c))):
        args = [torch.randn(sizes) * 3 + 1, weight, bias, True, 0.1, 1e-3]
        for got, want in zip(run(name, args, "planar"), exact(name, args), strict=True):
            close(got, want, rtol=1e-5, atol=1e-4)


def test_batch_statistics_over_several_images_are_portable() -> None:
    args = [torch.randn(3, 5, 4, 4), None, None, True, 0.1, 1e-3]
    name = "aten::_native_batch_norm_legit.no_stats"
    for got, want in zip(run(name, args, "planar", None), exact(name, args), strict=True):
        close(got, want, rtol=1e-5, atol=1e-5)


# --- pooling --------------------------------------------------------------------------------------

WINDOWS = (
    ([3, 3], [1, 1], [1, 1], False, True, None),
    ([3, 3], [2, 2], [1, 1], True, False, None),
    ([2], [], [0], False, True, None),
    ([2, 5], [3, 2], [1, 2], True, True, None),
    ([1, 4], [1, 3], [0, 2], True, False, 3),
    ([4, 1], [5, 2], [2, 0], True, True, -2),
    ([1, 1], [1, 1], [0, 0], False, False, None),
)


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("window", WINDOWS, ids=str)
@pytest.mark.parametrize("sizes", [*SIZES, (0, 4, 8, 8)], ids=str)
def test_average_pool(sizes: tuple[int, ...], window: tuple[Any, ...], order: str) -> None:
    for wild in (False, True):
        args = [image(sizes, order, wild), *window]
        try:
            want = exact("aten::avg_pool2d", args)
        except RuntimeError:
            pytest.skip("ATen refuses: no output")
        close(run("aten::avg_pool2d", args, order, "optimized" if want.numel() else None)[0], want)


SIGNAL_WINDOWS = (
    ([3], [1], [1], False, True),
    ([25], [1], [0], False, True),
    ([4], [], [2], True, False),
    ([5], [3], [2], True, True),
    ([2], [7], [1], False, False),
)


@pytest.mark.parametrize("window", SIGNAL_WINDOWS, ids=str)
@pytest.mark.parametrize("sizes", [(2, 3, 40), (1, 1, 130), (5, 27), (3, 7, 1), (0, 4, 9)], ids=str)
def test_average_pool_of_signals(sizes: tuple[int, ...], window: tuple[Any, ...]) -> None:
    for wild in (False, True):
        x = torch.randn(sizes)
        if wild and x.numel():
            x.view(-1)[:: max(x.numel() // 3, 1)] = torch.nan
        args = [x, *window]
        try:
            want = exact("aten::avg_pool1d", args)
        except RuntimeError:
            pytest.skip("ATen refuses: no output")
        close(run("aten::avg_pool1d", args, "planar", "optimized" if want.numel() else None)[0], want)


VOLUMES = ((1, 3, 5, 6, 7), (2, 1, 4, 9, 33), (3, 7, 1, 20), (1, 2, 3, 3, 70), (0, 2, 4, 4, 4))
VOLUME_WINDOWS = (
    ([2], [], [0], False, True, None),
    ([3], [1], [1], False, True, None),
    ([3], [2], [1], True, False, None),
    ([1, 2, 5], [2, 1, 3], [0, 1, 2], True, True, None),
    ([2, 1, 1], [1, 2, 1], [1, 0, 0], False, True, -3),
)


def volume(sizes: tuple[int, ...], wild: bool) -> torch.Tensor:
    x = torch.randn(sizes)
    if wild and x.numel():
        flat = x.view(-1)
        flat[::17], flat[5::29], flat[7::31] = math.nan, math.inf, -math.inf
    return x


@pytest.mark.parametrize("window", VOLUME_WINDOWS, ids=str)
@pytest.mark.parametrize("sizes", VOLUMES, ids=str)
def test_average_pool_of_volumes(sizes: tuple[int, ...], window: tuple[Any, ...]) -> None:
    for wild in (False, True):
        args = [volume(sizes, wild), *window]
        try:
            want = exact("aten::avg_pool3d", args)
        except RuntimeError:
            pytest.skip("ATen refuses: no output")
        close(run("aten::avg_pool3d", args, "planar", "optimized" if want.numel() else None)[0], want)


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("sizes", [*SIZES, (1, 2, 40, 50)], ids=str)
def test_average_to_a_size(sizes: tuple[int, ...], order: str) -> None:
    for size in ((1, 1), (2, 3), (5, 7), (4, 40), (1, 35), (13, 2)):
        for wild in (False, True):
            args = [image(sizes, order, wild), list(size)]
            close(
                run("aten::_adaptive_avg_pool2d", args, order)[0], exact("aten::_adaptive_avg_pool2d", args)
            )


def test_average_to_a_size_of_signals_and_volumes() -> None:
    for wild in (False, True):
        for name, sizes, size in (
            ("aten::adaptive_avg_pool1d", (2, 3, 41), [7]),
            ("aten::adaptive_avg_pool1d", (3, 5), [33]),
            ("aten::_adaptive_avg_pool3d", (2, 3, 5, 6, 7), [2, 9, 3]),
            ("aten::_adaptive_avg_pool3d", (3, 4, 4, 50), [4, 1, 20]),
        ):
            args = [volume(sizes, wild), size]
            close(run(name, args, "planar")[0], exact(name, args))


def maxima(name: str, x: torch.Tensor, window: tuple[Any, ...], order: str) -> None:
    """As ATen has them: of equal ones the first, of several NaN the last."""
    op = overload_of(name)
    values, places = op(x, *window)
    if order != "planar":
        values, places = (t.contiguous(memory_format=ORDERS[order]) for t in (values, places))
    got = run_op(op, [x, *window], {}, (values, places), "optimized")
    assert torch.equal(got[0].nan_to_num(nan=123.0), values.nan_to_num(nan=123.0))
    assert torch.equal(got[1], places)


MAX_WINDOWS = (
    ([2], [], [0], [1], False),
    ([3], [2], [1], [1], False),
    ([3], [1], [1], [2], True),
    ([2], [3], [0], [1], True),
    ([4], [2], [2], [1], True),
)


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("window", MAX_WINDOWS, ids=str)
@pytest.mark.parametrize("sizes", SIZES, ids=str)
def test_places_of_maxima(sizes: tuple[int, ...], window: tuple[Any, ...], order: str) -> None:
    for x in (
        image(sizes, order),
        image(sizes, order, wild=True),
        image(sizes, order).round(),  # many equal ones
        torch.full_like(image(sizes, order), -math.inf),
    ):
        try:
            overload_of("aten::max_pool2d_with_indices")(x, *window)
        except RuntimeError:
            pytest.skip("ATen refuses: no output")
        maxima("aten::max_pool2d_with_indices", x, window, order)


@pytest.mark.parametrize(
    "window", [*MAX_WINDOWS, ([1, 2, 3], [2, 1, 2], [0, 1, 1], [1, 2, 1], True)], ids=str
)
@pytest.mark.parametrize("sizes", VOLUMES[:-1], ids=str)
def test_places_of_maxima_of_volumes(sizes: tuple[int, ...], window: tuple[Any, ...]) -> None:
    for wild in (False, True):
        x = volume(sizes, wild).round()
        try:
            overload_of("aten::max_pool3d_with_indices")(x, *window)
        except RuntimeError:
            pytest.skip("ATen refuses: no output")
        maxima("aten::max_pool3d_with_indices", x, window, "planar")


# --- grid sampling --------------------------------------------------------------------------------


def positions(*sizes: int) -> torch.Tensor:
    """Inside and outside of the image, at its corners, far away, and such that are no numbers."""
    grid = torch.randn(*sizes, 2)
    flat = grid.view(-1)
    if flat.numel() >= 40:
        flat[::7] = torch.tensor([-1.0, 1.0]).repeat(flat.numel())[: flat[::7].numel()]
        flat[3], flat[8], flat[13], flat[20] = torch.nan, torch.inf, -torch.inf, 3e38
    return grid


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize(
    "mode", [(0, 0, False), (0, 0, True), (0, 1, False), (1, 0, True), (1, 1, False)], ids=str
)
@pytest.mark.parametrize(
    "sizes, grid",
    [
        ((2, 3, 9, 11), (5, 13)),
        ((1, 32, 20, 20), (100, 4)),
        ((3, 17, 6, 5), (9, 8)),
        ((1, 40, 30, 31), (1, 3)),  # fewer positions than are worth turning the image
        ((2, 8, 1, 1), (4, 5)),
        ((1, 1, 70, 3), (64, 2)),
    ],
    ids=str,
)
def test_grid_sample(
    sizes: tuple[int, ...], grid: tuple[int, int], mode: tuple[Any, ...], order: str
) -> None:
    where = positions(sizes[0], *grid)
    for wild in (False, True):
        args = [image(sizes, order, wild), where, *mode]
        want = torch.ops.aten.grid_sampler_2d(*args)
        close(run("aten::grid_sampler_2d", args, order)[0], want, 2e-5, 2e-5)  # a position's rounding


@pytest.mark.parametrize("mode", [(2, 0, False), (0, 2, True), (1, 2, False)], ids=str)
def test_other_grid_samples_are_portable(mode: tuple[Any, ...]) -> None:
    args = [torch.randn(2, 3, 6, 7), torch.randn(2, 4, 5, 2), *mode]
    close(
        run("aten::grid_sampler_2d", args, "planar", None)[0],
        torch.ops.aten.grid_sampler_2d(*args),
        2e-5,
        2e-5,
    )


def test_grids_may_lie_in_any_order() -> None:
    grid = torch.randn(2, 2, 5, 6).permute(0, 2, 3, 1)
    args = [torch.randn(2, 9, 6, 7), grid, 0, 0, False]
    close(run("aten::grid_sampler_2d", args, "planar")[0], torch.ops.aten.grid_sampler_2d(*args), 2e-5, 2e-5)
