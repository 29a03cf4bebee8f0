"""Singular values and eigenvalues, by what their factors have to be: their signs are free."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from factors import FACTORS
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


def check(op: Any, *args: Any) -> None:
    want = op(*args)
    assert FACTORS[op._schema.name](args, run_op(op, list(args), {}, want), list(want)) == ""


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("full", [False, True])
@pytest.mark.parametrize("shape", SHAPES)
def test_singular_values(shape: tuple[int, ...], full: bool, dtype: torch.dtype) -> None:
    check(aten._linalg_svd.default, matrix(shape, dtype), full)


@pytest.mark.parametrize("full", [False, True])
@pytest.mark.parametrize("rank", [0, 1, 2])
def test_singular_values_of_low_rank(rank: int, full: bool) -> None:
    for shape in ((5, 5), (2, 6, 4), (3, 7)):
        check(aten._linalg_svd.default, matrix(shape, torch.float64, rank), full)


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
    check(aten._linalg_eigh.default, a, "U" if upper else "L", True)


def test_equal_eigenvalues() -> None:
    for a in (torch.eye(4), torch.zeros(3, 3), torch.ones(5, 5), torch.diag(torch.tensor([3.0, 1.0, 3.0]))):
        check(aten._linalg_eigh.default, a)
        check(aten.linalg_eig.default, a)


@pytest.mark.parametrize("dtype", (*DTYPES, torch.complex64, torch.complex128))
@pytest.mark.parametrize("size", [(4, 4), (1, 1), (2, 3, 6, 6), (0, 0), (0, 3, 3), (30, 30)])
def test_eigenvalues_of_any_matrix(size: tuple[int, ...], dtype: torch.dtype) -> None:
    check(aten.linalg_eig.default, matrix(size, dtype))
    check(aten.linalg_eig.default, matrix(size, dtype).triu())


@pytest.mark.parametrize(
    "rows",
    [
        [[0.0, 1.0, 0.0], [0.0, 0.0, 1.0], [1.0, 0.0, 0.0]],  # turns in circles: unshifted QR never ends
        [[0.0, 1.0], [-1.0, 0.0]],
        [[0.0, 1.0, 0.0], [0.0, 0.0, 1.0], [0.0, 0.0, 0.0]],  # one vector for three values
        [[2.0, 1.0], [0.0, 2.0]],
        [[1.0, 1e3], [1e-3, 1.0]],
        [[0.0, 1e90], [1e90, 1e90]],
    ],
)
def test_difficult_eigenvalues(rows: list[list[float]]) -> None:
    check(aten.linalg_eig.default, torch.tensor(rows, dtype=torch.float64))


def test_real_eigenvalues_of_real_matrices_are_real() -> None:
    a = matrix((6, 6), torch.float64)
    values, _ = run_op(aten.linalg_eig.default, [a @ a.mT], {}, aten.linalg_eig.default(a))
    assert not values.imag.any()
    torch.testing.assert_close(values.real.sort()[0], torch.linalg.eigvalsh(a @ a.mT))


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_what_is_not_finite_is_refused(bad: float) -> None:
    a = torch.eye(3)
    a[1, 0] = bad
    for op in (aten._linalg_svd.default, aten._linalg_eigh.default, aten.linalg_eig.default):
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
