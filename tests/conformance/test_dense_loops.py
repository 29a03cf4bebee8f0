"""Linear algebra of matrices larger than a block or a vector, with every instruction set, against float64."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from factors import FACTORS
from instruction_sets import AVAILABLE, computing_with
from run_op import run_op
from torch import Tensor

aten = torch.ops.aten
DTYPES = (torch.float32, torch.float64)
# All that this processor has: other instruction sets have the loops of one of these.
LOOPS = ("portable", *(name for name in ("base", "avx2", "avx512") if name in AVAILABLE))
# Around a vector, a block of columns and a tile of a product; several of each.
SIZES = (2, 7, 8, 9, 15, 16, 17, 31, 33, 50, 67)


@pytest.fixture(params=LOOPS)
def library(request: pytest.FixtureRequest) -> Iterator[str]:
    """Portable or optimized, and its instruction set."""
    if request.param == "portable":
        yield "portable"
        return
    with computing_with(request.param):
        yield "optimized"


def matrix(*shape: int, dtype: torch.dtype = torch.float64) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(sum(shape)), dtype=torch.float64).to(
        dtype
    )


def well_posed(n: int, dtype: torch.dtype) -> Tensor:
    """Rows have to change places, and no digits are lost by them."""
    return (matrix(n, n) + 2 * math.sqrt(n) * torch.eye(n, dtype=torch.float64)).flip(0).to(dtype)


def run(op: Any, *args: Any, library: str) -> list[Tensor]:
    return run_op(op, list(args), {}, op(*args), library)


def close(got: Tensor, want: Tensor, n: int) -> None:
    rounding = 20 * math.sqrt(n) * torch.finfo(got.dtype).eps
    scale = float(want.abs().max())
    torch.testing.assert_close(got.double() / scale, want.double() / scale, rtol=0, atol=rounding)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("n", SIZES)
def test_what_is_solved(n: int, dtype: torch.dtype, library: str) -> None:
    a, b = well_posed(n, dtype), matrix(n, 5, dtype=dtype)
    exact = torch.linalg.inv(a.double())
    close(run(aten.linalg_inv_ex.default, a, library=library)[0], exact, n)
    close(run(aten._linalg_solve_ex.default, a, b, library=library)[0], exact @ b.double(), n)
    sign, log, *_ = run(aten._linalg_slogdet.default, a, library=library)
    want = torch.linalg.slogdet(a.double())
    assert sign == want[0]
    close(log, want[1], n)
    (right,) = run_op(
        aten._linalg_solve_ex.default,
        [a, b.mT.contiguous()],
        {"left": False},
        aten._linalg_solve_ex.default(a, b.mT, left=False),
        library,
    )[:1]
    close(right, b.mT.double() @ exact, n)
    for columns in (1, n, 2 * n + 3):
        wide = matrix(n, columns, dtype=dtype)
        for upper in (False, True):
            half = (a.flip(0).triu() if upper else a.flip(0).tril()).contiguous()
            (got,) = run_op(
                aten.linalg_solve_triangular.default, [a.flip(0), wide], {"upper": upper}, wide, library
            )
            close(got, torch.linalg.inv(half.double()) @ wide.double(), n)


@pytest.mark.parametrize("shape", [(n, n + more) for n in SIZES for more in (-1, 0, 20)])
def test_factors_give_the_matrix_back(shape: tuple[int, int], library: str) -> None:
    m, n = shape
    for dtype in DTYPES:
        a = matrix(m, n, dtype=dtype)
        lu, pivots, info = run(aten.linalg_lu_factor_ex.default, a, library=library)
        assert not info.any()
        torch.testing.assert_close(pivots, torch.linalg.lu_factor(a)[1])
        p, lower, upper = torch.lu_unpack(lu.double(), pivots)
        close((p @ lower @ upper).to(dtype), a, n)
        assert lower.abs().max() <= 1
        for mode in ("reduced", "complete"):
            q, r = run(aten.linalg_qr.default, a, mode, library=library)
            close((q.double() @ r.double()).to(dtype), a, n)
            close(q.mT @ q, torch.eye(q.shape[-1]), n)
        want = torch.linalg.qr(a.double())[1]
        close(run(aten.linalg_qr.default, a, "r", library=library)[1], want, n)


@pytest.mark.parametrize("n", SIZES)
def test_factors_of_positive_matrices(n: int, library: str) -> None:
    for dtype in DTYPES:
        a = matrix(n, n)
        a = (a @ a.mT + n * torch.eye(n, dtype=torch.float64)).to(dtype)
        want = torch.linalg.cholesky(a.double())
        for upper in (False, True):
            # The other triangle is not read.
            half = a.clone()
            half[(torch.ones(n, n).tril(-1) if upper else torch.ones(n, n).triu(1)).bool()] = math.nan
            got, info = run_op(
                aten.linalg_cholesky_ex.default,
                [half],
                {"upper": upper},
                aten.linalg_cholesky_ex.default(a, upper=upper),
                library,
            )
            assert info == 0
            close(got, want.mT if upper else want, n)
        # The minor that is not positive, in every place of a block.
        for place in {0, n // 2, n - 1}:
            spoilt = a.clone()
            spoilt[place, place] = -1
            _, info = run(aten.linalg_cholesky_ex.default, spoilt, library=library)
            assert info == place + 1


@pytest.mark.parametrize("n", SIZES)
def test_exponentials(n: int, library: str) -> None:
    for dtype in DTYPES:
        for size in (1e-3, 0.5, 6.0):
            a = (matrix(n, n) * (size / n)).to(dtype)
            (got,) = run(aten.linalg_matrix_exp.default, a, library=library)
            close(got, torch.linalg.matrix_exp(a.double()), n)
    turn = torch.tensor([[0.0, -1e3], [1e3, 0.0]], dtype=torch.float64)
    (got,) = run(aten.linalg_matrix_exp.default, turn, library=library)
    want = torch.tensor(
        [[math.cos(1e3), -math.sin(1e3)], [math.sin(1e3), math.cos(1e3)]], dtype=torch.float64
    )
    torch.testing.assert_close(got, want, rtol=0, atol=1e-11)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(n, n) for n in SIZES] + [(67, 9), (9, 67), (40, 33), (33, 40), (200, 3)])
def test_spectra(shape: tuple[int, int], dtype: torch.dtype, library: str) -> None:
    check(matrix(*shape, dtype=dtype), library)
    if shape[0] == shape[1]:
        check_symmetric(matrix(*shape, dtype=dtype), library)


def check(a: Tensor, library: str) -> None:
    for full in (False, True):
        args = (a, full)
        want = list(aten._linalg_svd.default(*args))
        got = run(aten._linalg_svd.default, *args, library=library)
        assert FACTORS["aten::_linalg_svd"](args, got, want) == ""
    values = run(aten._linalg_svd.default, a, False, False, library=library)[1]
    torch.testing.assert_close(values, got[1])
    assert (values[:-1] >= values[1:]).all() and (values >= 0).all()


def check_symmetric(a: Tensor, library: str) -> None:
    want = list(aten._linalg_eigh.default(a))
    got = run(aten._linalg_eigh.default, a, library=library)
    assert FACTORS["aten::_linalg_eigh"]((a,), got, want) == ""
    values = run(aten._linalg_eigh.default, a, "L", False, library=library)[0]
    torch.testing.assert_close(values, got[0])


def difficult(n: int) -> dict[str, Tensor]:
    eye, ones = torch.eye(n, dtype=torch.float64), torch.ones(n, n, dtype=torch.float64)
    place = torch.arange(n, dtype=torch.float64)
    beside = torch.ones(n - 1, dtype=torch.float64)
    holes = place.clone()
    holes[::3] = 0
    few, turned, sizes = matrix(n, 3), torch.linalg.qr(matrix(n, n))[0], 10.0**-place
    return {
        "zeros": eye * 0,
        "identity": eye,
        "ones": ones,
        "of rank 3": few @ few.mT,
        "values twice": turned @ torch.diag(place // 2 + 1) @ turned.mT,
        "graded": sizes.diag() + sizes[1:].diag(1) + sizes[1:].diag(-1),
        "graded upwards": (sizes.diag() + sizes[1:].diag(1)).flip(0, 1),
        "two diagonals with zeros": torch.diag(holes) + torch.diag(beside, 1),
        "a zero at the end": torch.diag(place.flip(0)) + torch.diag(beside, 1),
        "zeros but above": torch.diag(beside, 1),
        "neighbours": torch.diag(2 + 0 * place) - torch.diag(beside, 1) - torch.diag(beside, -1),
        "nearly equal": (place * 2 - n + 1).abs().diag() / 2 + torch.diag(beside, 1) + torch.diag(beside, -1),
        "tiny beside": eye + 1e-17 * matrix(n, n),
        "of tiny numbers": 1e-250 * matrix(n, n),
        "ill-conditioned": 1 / (place[:, None] + place + 1),
    }


@pytest.mark.parametrize("name", difficult(2))
@pytest.mark.parametrize("n", [2, 3, 21, 40])
def test_difficult_spectra(name: str, n: int, library: str) -> None:
    a = difficult(n)[name]
    check(a, library)
    check(a[:, : n // 2 + 1].contiguous(), library)
    check_symmetric(a, library)


def test_values_of_a_chain(library: str) -> None:
    n = 60
    a = difficult(n)["neighbours"]
    want = 2 - 2 * torch.cos(torch.arange(1, n + 1, dtype=torch.float64) * math.pi / (n + 1))
    torch.testing.assert_close(
        run(aten._linalg_eigh.default, a, library=library)[0], want, rtol=0, atol=1e-14
    )


def test_small_singular_values(library: str) -> None:
    """To the accuracy of what is larger beside them."""
    values = 10.0 ** -torch.arange(12, dtype=torch.float64)
    a = torch.linalg.qr(matrix(30, 12))[0] @ values.diag() @ torch.linalg.qr(matrix(12, 12))[0]
    got = run(aten._linalg_svd.default, a, False, library=library)[1]
    torch.testing.assert_close(got, values, rtol=1e-14, atol=2e-16)


def test_pivots_that_are_zero(library: str) -> None:
    for n in (5, 20, 40):
        a = torch.eye(n)
        a[n // 2 :, n // 2] = 0
        for op, place in ((aten.linalg_lu_factor_ex.default, 2), (aten.linalg_inv_ex.default, 1)):
            assert run(op, a, library=library)[place] == n // 2 + 1
        assert run(aten._linalg_det.default, a, library=library)[0] == 0
        assert run(aten._linalg_slogdet.default, a, library=library)[0] == 0


def test_a_nan_comes_out(library: str) -> None:
    a = well_posed(20, torch.float64)
    a[3, 4] = math.nan
    for op in (aten.linalg_inv_ex.default, aten._linalg_det.default, aten.linalg_matrix_exp.default):
        assert run(op, a, library=library)[0].isnan().any()
    assert run(aten.linalg_qr.default, a, library=library)[1].isnan().any()
