"""Singular values and eigenvalues, by what their factors have to be: their signs are free."""

from __future__ import annotations

import pytest
import torch
from run_op import run_op

import penlight
from penlight.errors import PenlightError

aten = torch.ops.aten
DTYPES = (torch.float32, torch.float64)
SHAPES = ((4, 4), (6, 3), (3, 6), (2, 5, 4), (1, 1), (1, 5), (0, 3, 2), (3, 0), (2, 0, 0), (40, 25))


def matrix(shape: tuple[int, ...], dtype: torch.dtype, rank: int | None = None) -> torch.Tensor:
    generator = torch.Generator().manual_seed(sum(shape))
    if rank is None:
        return torch.randn(shape, dtype=dtype, generator=generator)
    left = torch.randn((*shape[:-1], rank), dtype=dtype, generator=generator)
    return left @ torch.randn((*shape[:-2], rank, shape[-1]), dtype=dtype, generator=generator)


def assert_orthonormal(columns: torch.Tensor) -> None:
    unit = torch.eye(columns.shape[-1], dtype=columns.dtype).expand(*columns.shape[:-2], -1, -1)
    torch.testing.assert_close(columns.mT @ columns, unit)


def check_svd(a: torch.Tensor, full: bool) -> None:
    want = aten._linalg_svd.default(a, full)
    u, sizes, v = run_op(aten._linalg_svd.default, [a, full], {}, want)
    torch.testing.assert_close(
        sizes, want[1], atol=1e-5 * float(a.abs().max() if a.numel() else 1), rtol=1e-5
    )
    assert u.shape == want[0].shape and v.shape == want[2].shape
    assert_orthonormal(u)
    assert_orthonormal(v.mT)
    kept = sizes.shape[-1]
    torch.testing.assert_close(
        (u[..., :kept] * sizes.unsqueeze(-2)) @ v[..., :kept, :], a, atol=2e-5, rtol=1e-4
    )


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("full", [False, True])
@pytest.mark.parametrize("shape", SHAPES)
def test_singular_values(shape: tuple[int, ...], full: bool, dtype: torch.dtype) -> None:
    check_svd(matrix(shape, dtype), full)


@pytest.mark.parametrize("full", [False, True])
@pytest.mark.parametrize("rank", [0, 1, 2])
def test_singular_values_of_low_rank(rank: int, full: bool) -> None:
    for shape in ((5, 5), (2, 6, 4), (3, 7)):
        check_svd(matrix(shape, torch.float64, rank), full)


def test_singular_values_of_extreme_size() -> None:
    a = matrix((5, 4), torch.float64)
    for scale in (1e-200, 1e200):
        want = torch.linalg.svdvals(a) * scale
        found = run_op(
            aten._linalg_svd.default, [a * scale, False, False], {}, aten._linalg_svd.default(a, False, False)
        )
        torch.testing.assert_close(found[1], want, atol=0, rtol=1e-12)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("upper", [False, True])
@pytest.mark.parametrize("size", [(4, 4), (1, 1), (2, 3, 6, 6), (0, 0), (0, 3, 3), (30, 30)])
def test_eigenvalues(size: tuple[int, ...], upper: bool, dtype: torch.dtype) -> None:
    a = matrix(size, dtype)  # not symmetric: the other triangle must not count
    half = a.triu() if upper else a.tril()
    symmetric = half + (half.triu(1) if upper else half.tril(-1)).mT
    args = [a, "U" if upper else "L", True]
    want = aten._linalg_eigh.default(*args)
    values, vectors = run_op(aten._linalg_eigh.default, args, {}, want)
    torch.testing.assert_close(values, want[0], atol=2e-5, rtol=1e-5)
    assert_orthonormal(vectors)
    torch.testing.assert_close(vectors * values.unsqueeze(-2) @ vectors.mT, symmetric, atol=3e-5, rtol=1e-4)


def test_equal_eigenvalues() -> None:
    for a in (torch.eye(4), torch.zeros(3, 3), torch.ones(5, 5), torch.diag(torch.tensor([3.0, 1.0, 3.0]))):
        values, vectors = run_op(aten._linalg_eigh.default, [a], {}, aten._linalg_eigh.default(a))
        torch.testing.assert_close(values, torch.linalg.eigvalsh(a), atol=1e-5, rtol=1e-5)
        assert_orthonormal(vectors)


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_what_is_not_finite_is_refused(bad: float) -> None:
    a = torch.eye(3)
    a[1, 0] = bad
    for op in (aten._linalg_svd.default, aten._linalg_eigh.default):
        with pytest.raises(PenlightError, match="not finite"):
            run_op(op, [a], {}, op(torch.eye(3)))


class Inverse(torch.nn.Module):
    def forward(self, a: torch.Tensor, b: torch.Tensor) -> tuple[torch.Tensor, ...]:
        lu, pivots = torch.linalg.lu_factor(b)
        return (
            torch.linalg.pinv(a),
            torch.linalg.pinv(b @ b.mT, hermitian=True),
            torch.linalg.lu_solve(lu, pivots, b),
            torch.linalg.lu_solve(lu, pivots, b, left=False, adjoint=True),
            torch.linalg.cond(b),
            torch.linalg.matrix_rank(a),
            torch.linalg.matrix_norm(a, "nuc"),
        )


def test_what_is_made_of_them_compiles() -> None:
    args = (matrix((5, 3), torch.float64, 2), matrix((4, 4), torch.float64))
    found = penlight.load(penlight.compile(Inverse(), args).to_bytes())(*args)
    for got, want in zip(found, Inverse()(*args), strict=True):
        torch.testing.assert_close(got, want)
