"""Operators on complex tensors that have kernels for real ones alone."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from tests.pipeline.fused import Calls
from tests.pipeline.running import check
from torch import Tensor
from torch.nn import functional

import penlight


def numbers(*sizes: int) -> Tensor:
    return torch.randn(sizes, dtype=torch.complex64)


ELEMENTWISE: dict[str, Callable[[Tensor], Tensor]] = {
    **{f.__name__: f for f in (torch.acos, torch.acosh, torch.asin, torch.asinh, torch.atan, torch.atanh)},
    **{f.__name__: f for f in (torch.exp2, torch.expm1, torch.log1p, torch.sigmoid, functional.silu)},
}


@pytest.mark.parametrize("name", ELEMENTWISE)
def test_functions_of_one_number(name: str) -> None:
    """In each quadrant, near zero, near the branch points and away from them; beside numbers of 128 bits."""
    function = ELEMENTWISE[name]
    z = torch.cat([numbers(400), numbers(100) * 1e-3, numbers(100) * 20, numbers(100) * 1e-2 + 1])
    if name in ("exp2", "expm1"):
        z = z / 4
    want = function(z.to(torch.complex128)).to(torch.complex64)
    for target in ("cpu", "portable"):
        got = penlight.load(penlight.compile(Calls(function), (z,), target=target))(z)
        torch.testing.assert_close(got, want, rtol=2e-4, atol=2e-6)


REDUCTIONS: dict[str, Callable[[Tensor], Any]] = {
    "norms": lambda z: (z.norm(), torch.linalg.vector_norm(z, 1, 1), z.norm(float("inf"), dim=0), z.norm(3)),
    "normalised": lambda z: functional.normalize(z, dim=0),
    "rms norm": lambda z: functional.rms_norm(z, (z.shape[-1],)),
    "spread": lambda z: (z.var(), z.std(1), torch.var_mean(z, 0), torch.std_mean(z, (0, 1), keepdim=True)),
    "unbiased": lambda z: (z.var(0, unbiased=False), z.std(unbiased=False), z.var(correction=2)),
    "logsumexp": lambda z: (z.logsumexp(1), z.logsumexp((0, 1), keepdim=True)),
    "counts": lambda z: ((z * (z.real > 0)).count_nonzero(), (z * (z.real > 0)).count_nonzero(1)),
    "finite": lambda z: (torch.isfinite(z / 0), torch.isinf(z / 0), torch.isfinite(z)),
    "matrix norms": lambda z: (
        torch.linalg.matrix_norm(z, "nuc"),
        torch.linalg.cond(z),
        torch.linalg.svdvals(z),
    ),
    "matrix functions": lambda z: (torch.linalg.pinv(z), torch.linalg.matrix_exp(z[:4, :4])),
}


@pytest.mark.parametrize("name", REDUCTIONS)
def test_reductions(name: str) -> None:
    check(Calls(REDUCTIONS[name]), (numbers(6, 5),))


def test_hermitian_matrices() -> None:
    """Of which the part above the diagonal is not read, nor the imaginary part of the diagonal."""
    check(Calls(lambda z: torch.linalg.pinv(z, hermitian=True)), (numbers(2, 4, 4),))
    factor = numbers(3, 4, 4).tril() + 3 * torch.eye(4)
    solve = Calls(lambda a, b: (torch.cholesky_solve(b, a), torch.linalg.solve_triangular(a, b, upper=False)))
    check(solve, (factor, numbers(3, 4, 2)))


def test_places() -> None:
    index = torch.tensor([2, 0, 2])

    def places(z: Tensor, source: Tensor) -> Any:
        rows = z.index_add(0, index, source, alpha=2)
        both = z.scatter_add(1, index.expand(3, 3), source[:, :3])
        filled = z.index_fill(1, index[:2], 1 + 2j), z.index_fill(0, index[:1], source[0, 0])
        masked = z.masked_fill(z.real > 0, source[0, 1]), z.masked_fill(z.imag > 0, 3 - 1j)
        put = z.put(index, source[0, :3], accumulate=True)
        return rows, both, filled, masked, put, (z * (z.real > 0)).nonzero_static(size=30)

    check(Calls(places), (numbers(4, 5), numbers(3, 5)))
    single = Calls(lambda z, i, s: (z.index_add(0, i, s), z.scatter_add(0, i, s), z.index_fill(0, i, 2j)))
    check(single, (numbers(), torch.tensor(0), numbers()))


def test_what_is_not_zero() -> None:
    z = numbers(4, 5) * (torch.rand(4, 5) > 0.5)
    check(Calls(torch.nonzero), (z,))


@pytest.mark.parametrize("width", [1, 2, 3, 7, 16, 300, 1025])
def test_one_number_for_many(width: int) -> None:
    """Numbers of a column, of a batch, and of all, beside whole rows."""

    def combined(x: Tensor, column: Tensor, batch: Tensor) -> Any:
        return x * column, column + x, x - batch, batch * column * x[:, :1, :1], x[:, :, 1:] * column

    check(Calls(combined), (numbers(3, 5, width), numbers(5, 1), numbers(3, 1, 1)))


def test_complex_factors() -> None:
    def products(x: Tensor, a: Tensor, b: Tensor) -> Any:
        some = torch.addmm(x, a, b, beta=2 + 3j, alpha=1 - 2j), torch.addmm(x, a, b, beta=0, alpha=2j)
        batch = torch.baddbmm(x[None], a[None], b[None], alpha=1j), torch.addbmm(x, a[None], b[None], beta=1j)
        vectors = torch.addmv(x[0], b.mT, a[0], beta=1j), torch.addr(x, a[:, 0], b[0], alpha=2 - 1j)
        between = torch.lerp(x, x * 2, 0.5 + 1j), torch.lerp(x, x * 2, x)
        return some, batch, vectors, between, torch.constant_pad_nd(x, (1, 2), 1 + 2j)

    check(Calls(products), (numbers(4, 5), numbers(4, 3), numbers(3, 5)))


def test_numbers_that_are_drawn() -> None:
    def drawn(z: Tensor) -> Any:
        return torch.randn(4000, dtype=torch.complex64) + z[0], torch.randn_like(z)

    z = torch.zeros(4000, dtype=torch.complex64)
    for target in ("cpu", "portable"):
        for found in penlight.load(penlight.compile(Calls(drawn), (z,), target=target))(z):
            assert found.dtype == torch.complex64
            assert abs(float(found.abs().square().mean()) - 1) < 0.1
            assert abs(float(found.real.square().mean()) - 0.5) < 0.06


def test_spectra() -> None:
    """What models do with transforms: phases unwrapped, sizes, gates, and back."""

    def enhance(x: Tensor) -> Any:
        window = torch.hann_window(16)
        z = torch.stft(x, 16, 4, window=window, return_complex=True)
        gate = torch.sigmoid(z) * torch.linalg.vector_norm(z, dim=1, keepdim=True)
        return torch.istft(gate, 16, 4, window=window), z.std(-1), torch.isfinite(z).all()

    check(Calls(enhance), (torch.randn(2, 64),))
