"""Fourier transforms of the optimized library, with every instruction set."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from run_op import overload_of, run_op

import penlight
from penlight.errors import NoKernel

pytestmark = pytest.mark.usefixtures("isa")

LENGTHS = (
    *range(1, 41),
    48,
    60,
    64,
    97,
    100,
    101,
    127,
    128,
    131,
    210,
    256,
    262,
    400,
    512,
    1000,
    1009,
    1024,
    2**14,
)
BATCHES = (1, 3, 16, 17, 40)


def close(got: torch.Tensor, want: torch.Tensor, points: int) -> None:
    """The error of float32 is relative to all of a transform, and grows with the passes over it."""
    assert got.shape == want.shape and got.dtype in (torch.float32, torch.complex64)
    difference, size = (got.to(want.dtype) - want).abs(), want.abs().square().mean().sqrt()
    assert difference.square().mean().sqrt() <= 1e-7 * (1 + math.log2(points)) * size
    assert difference.max() <= 1e-6 * (1 + math.log2(points)) * size


def exact(x: torch.Tensor) -> torch.Tensor:
    return x.to(torch.complex128 if x.is_complex() else torch.float64)


def aten(name: str, x: torch.Tensor, dims: list[int], *args: Any) -> torch.Tensor:
    """ATen's operator itself takes no dimension from the end, and no element that it does not read."""
    dims = [dim % x.dim() for dim in dims]
    if name == "_fft_c2r":
        x = x.narrow(dims[-1], 0, args[1] // 2 + 1)
    result: torch.Tensor = overload_of(f"aten::{name}")(x, dims, *args)
    return result.contiguous()


def run(name: str, x: torch.Tensor, dims: list[int], *args: Any) -> torch.Tensor:
    (got,) = run_op(
        overload_of(f"aten::{name}"), [x, dims, *args], {}, aten(name, x, dims, *args), "optimized"
    )
    return got


def check(name: str, x: torch.Tensor, dims: list[int], *args: Any) -> None:
    want = aten(name, exact(x), dims, *args)
    points = math.prod(max(x.shape[dim], want.shape[dim]) for dim in dims)
    close(run(name, x, dims, *args), want, points)


def check_all(sizes: tuple[int, ...], dims: list[int], normalization: int) -> None:
    last = dims[-1]
    spectrum = list(sizes)
    spectrum[last] = sizes[last] // 2 + 1
    for flag in (False, True):
        check("_fft_c2c", torch.randn(sizes, dtype=torch.complex64), dims, normalization, flag)
        check("_fft_r2c", torch.randn(sizes), dims, normalization, flag)
    check("_fft_c2r", torch.randn(spectrum, dtype=torch.complex64), dims, normalization, sizes[last])


@pytest.mark.parametrize("length", LENGTHS)
def test_lines(length: int) -> None:
    for batch in BATCHES if length < 2000 else (1, 3):
        check_all((batch, length), [1], batch % 3)


@pytest.mark.parametrize("length", LENGTHS)
def test_columns(length: int) -> None:
    for batch in BATCHES if length < 2000 else (1, 3):
        check_all((length, batch), [0], batch % 3)


@pytest.mark.parametrize("sizes", [(2, 12, 5), (9, 15, 3), (17, 8, 2), (3, 30, 16), (2, 7, 33), (40, 300, 1)])
def test_middle_dimensions(sizes: tuple[int, ...]) -> None:
    check_all(sizes, [1], 0)
    check_all(sizes, [-2], 1)


@pytest.mark.parametrize("dims", [[0, 1], [1, 0], [2, 3], [3, 2], [-1, 1], [3, 0], [0, 1, 2, 3], [2, 0, 1]])
@pytest.mark.parametrize("normalization", [0, 1, 2])
def test_several_dimensions(dims: list[int], normalization: int) -> None:
    check_all((5, 12, 6, 9), dims, normalization)
    check_all((3, 1, 20, 32), dims, normalization)


@pytest.mark.parametrize("order", [(0, 2, 3, 1), (3, 1, 0, 2)])
def test_any_order_of_dimensions(order: tuple[int, ...]) -> None:
    back = [order.index(dim) for dim in range(4)]
    x = torch.randn([(2, 5, 6, 17)[dim] for dim in order], dtype=torch.complex64).permute(back)
    for dims in ([3], [1, 2], [0, 3]):
        op = torch.ops.aten._fft_c2c.default
        (got,) = run_op(op, [x, dims, 0, True], {}, torch.empty_like(x), "optimized")
        close(got, op(exact(x), dims, 0, True), x.numel())


@pytest.mark.parametrize(
    "length", [2**12 + 2**10, 15625, 2 * 15625, 6561, 2**16, 100000, 3001, 2 * 3001, 20011]
)
def test_long_lines(length: int) -> None:
    for batch in (1, 3):
        check_all((batch, length), [1], 2)
    for forward in (True, False):
        check("_fft_c2c", torch.randn(length, 3, dtype=torch.complex64), [0], 0, forward)


@pytest.mark.parametrize("size", [1, 5, 8, 64])
def test_spectra_of_other_lengths(size: int) -> None:
    """Neither elements past the half are read nor parts that are zero in the spectrum of a real signal."""
    for count in (size // 2 + 1, size // 2 + 4):
        x = torch.randn(7, count, dtype=torch.complex64)
        got = run("_fft_c2r", x, [1], 0, size)
        close(got, aten("_fft_c2r", exact(x), [1], 0, size), size)
        x[:, 0] = x[:, 0].real + 1j * 1e30
        if size % 2 == 0:
            x[:, size // 2] = x[:, size // 2].real + 1j * 1e30
        torch.testing.assert_close(run("_fft_c2r", x, [1], 0, size), got, rtol=0, atol=0)


@pytest.mark.parametrize(
    "sizes, dim", [((19, 24), 1), ((19, 45), 1), ((24, 19), 0), ((5, 512), 1), ((20, 131), 1)]
)
@pytest.mark.parametrize("wild", [math.nan, math.inf, -math.inf])
def test_what_is_not_finite_stays_in_its_line(wild: float, sizes: tuple[int, int], dim: int) -> None:
    lines = sizes[1 - dim]
    for name, x, args in (
        ("_fft_c2c", torch.randn(sizes, dtype=torch.complex64), (0, True)),
        ("_fft_r2c", torch.randn(sizes), (0, True)),
        ("_fft_c2r", torch.randn(sizes, dtype=torch.complex64), (0, 2 * sizes[dim] - 2)),
    ):
        plain = run(name, x, [dim], *args)
        x.select(1 - dim, lines // 2)[3] = wild
        got = run(name, x, [dim], *args)
        assert not got.select(1 - dim, lines // 2).isfinite().any()
        others = [line for line in range(lines) if line != lines // 2]
        index = torch.tensor(others)
        torch.testing.assert_close(
            got.index_select(1 - dim, index), plain.index_select(1 - dim, index), rtol=0, atol=0
        )


@pytest.mark.parametrize("sizes, dim", [((300, 400), 1), ((512, 100), 0), ((2, 50000), 1), ((64, 262), 1)])
def test_any_number_of_threads(sizes: tuple[int, int], dim: int) -> None:
    model = Transforms(dim)
    x = torch.randn(sizes)
    program = penlight.compile(model, (x,)).to_bytes()
    one, three = (penlight.load(program, threads=threads)(x) for threads in (1, 3))
    for mine, other in zip(one, three, strict=True):
        torch.testing.assert_close(mine, other, rtol=0, atol=0)


class Transforms(torch.nn.Module):
    def __init__(self, dim: int) -> None:
        super().__init__()
        self.dim = dim

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        spectrum = torch.fft.rfft(x, dim=self.dim)
        return spectrum, torch.fft.irfft(spectrum, x.shape[self.dim], dim=self.dim)


@pytest.mark.parametrize(
    "x, dims",
    [
        (torch.zeros(3, 4, dtype=torch.complex128), [1]),
        (torch.zeros(3, 0, 4, dtype=torch.complex64), [2]),
        (torch.zeros(2, 40000, 9, dtype=torch.complex64), [1]),
    ],
    ids=["float64", "empty", "more than lanes hold"],
)
def test_left_to_the_portable_kernels(x: torch.Tensor, dims: list[int]) -> None:
    op = torch.ops.aten._fft_c2c.default
    with pytest.raises(NoKernel):
        run_op(op, [x, dims, 0, True], {}, x, "optimized")
    (got,) = run_op(op, [x, dims, 0, True], {}, x)
    torch.testing.assert_close(got, x)
