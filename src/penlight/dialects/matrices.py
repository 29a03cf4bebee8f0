"""Operators on matrices, as factorisations that have kernels."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch._ops import OpOverload

aten = torch.ops.aten


def _batched(*operands: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """The same leading sizes for all."""
    batch = torch.broadcast_shapes(*(operand.shape[:-2] for operand in operands))
    return tuple(operand.expand(*batch, *operand.shape[-2:]) for operand in operands)


def _checked(op: OpOverload, results: int) -> Callable[..., Any]:
    """The first results of an `_ex` operator that fails where the matrix has no such factors."""

    def split(*args: Any, **kwargs: Any) -> Any:
        found = op(*args, **kwargs, check_errors=True)
        return found[0] if results == 1 else found[:results]

    return split


def _cholesky(x, upper=False):  # type: ignore[no-untyped-def]
    return aten.linalg_cholesky_ex.default(x, upper=upper, check_errors=True)[0]


def _cholesky_solve(b, factor, upper=False):  # type: ignore[no-untyped-def]
    b, factor = _batched(b, factor)
    solve = aten.linalg_solve_triangular.default
    first, second = (factor.mH, factor) if upper else (factor, factor.mH)
    return solve(second, solve(first, b, upper=False), upper=True)


def _cholesky_inverse(factor, upper=False):  # type: ignore[no-untyped-def]
    unit = torch.eye(factor.shape[-1], dtype=factor.dtype).expand(factor.shape)
    return _cholesky_solve(unit, factor, upper)  # type: ignore[no-untyped-call]


def _triangular_solve(b, a, upper=True, transpose=False, unitriangular=False):  # type: ignore[no-untyped-def]
    if transpose:
        a, upper = a.mT, not upper
    a, b = _batched(a, b)
    solution = aten.linalg_solve_triangular.default(a, b, upper=upper, unitriangular=unitriangular)
    return solution, a.clone()


def _lu(a, *, pivot=True):  # type: ignore[no-untyped-def]
    factors, pivots, _ = aten.linalg_lu_factor_ex.default(a, pivot=pivot)
    return aten.lu_unpack.default(factors, pivots)


def _lu_solve(lu, pivots, b, *, left=True, adjoint=False):  # type: ignore[no-untyped-def]
    """P L U x = b, or the adjoint of it."""
    transposed = left == adjoint  # x A = b is the transposed system
    p, lower, upper, b = _batched(*aten.lu_unpack.default(lu, pivots), b if left else b.mT)
    solve = aten.linalg_solve_triangular.default
    if transposed:
        x = p @ solve(lower.mT, solve(upper.mT, b, upper=False), upper=True, unitriangular=True)
    else:
        x = solve(upper, solve(lower, p.mT @ b, upper=False, unitriangular=True), upper=True)
    return x if left else x.mT


def _pinv(a, *, atol=None, rtol=None, hermitian=False):  # type: ignore[no-untyped-def]
    if rtol is None:
        rtol = 0.0 if atol is not None else max(a.shape[-2:]) * torch.finfo(a.dtype).eps
    if a.is_complex():
        real = in_reals(hermitian_of(a) if hermitian else a)
        return from_reals(_pinv(real, atol=atol, rtol=rtol, hermitian=hermitian))  # type: ignore[no-untyped-call]
    if hermitian:
        values, vectors = torch.linalg.eigh(a)
        u, sizes, right = vectors, values.abs(), vectors.mT
    else:
        u, values, right = torch.linalg.svd(a, full_matrices=False)
        sizes = values
    limits = [
        limit.unsqueeze(-1) if isinstance(limit, torch.Tensor) else limit
        for limit in (0.0 if atol is None else atol, rtol)
    ]
    largest = sizes.amax(-1, keepdim=True) if sizes.shape[-1] else sizes
    counts = sizes > torch.maximum(largest * limits[1], torch.zeros_like(largest) + limits[0])
    inverse = torch.where(counts, 1 / torch.where(counts, values, 1), 0)
    return (right.mT * inverse.unsqueeze(-2)) @ u.mT


def _ormqr(reflections, tau, other, left=True, transpose=False):  # type: ignore[no-untyped-def]
    rows, columns = reflections.shape[-2:]
    square = torch.nn.functional.pad(reflections[..., : min(rows, columns)], (0, rows - min(rows, columns)))
    q = aten.linalg_householder_product.default(square, tau)
    q = q.mT if transpose else q
    return q @ other if left else other @ q


def in_reals(a: torch.Tensor) -> torch.Tensor:
    """[[re, -im], [im, re]], which does to two halves what the complex one does to both parts."""
    above, below = torch.cat([a.real, -a.imag], -1), torch.cat([a.imag, a.real], -1)
    return torch.cat([above, below], -2)


def hermitian_of(a: torch.Tensor) -> torch.Tensor:
    """With what the lower triangle says above the diagonal as well."""
    lower = a.tril(-1)
    return lower + lower.mH + torch.diag_embed(a.diagonal(dim1=-2, dim2=-1).real)


def of_parts(real: torch.Tensor, imaginary: torch.Tensor) -> torch.Tensor:
    return torch.view_as_complex(torch.stack([real, imaginary], -1))


def from_reals(a: torch.Tensor) -> torch.Tensor:
    """What `in_reals` has made."""
    rows, columns = a.shape[-2] // 2, a.shape[-1] // 2
    return of_parts(a[..., :rows, :columns], a[..., rows:, :columns])


def _inverse(a, *, check_errors=False):  # type: ignore[no-untyped-def]
    if not a.is_complex():
        return NotImplemented
    inverse, info = aten.linalg_inv_ex.default(in_reals(a), check_errors=check_errors)
    return from_reals(inverse), info.clamp(max=a.shape[-1])


def _solve(a, b, *, left=True, check_errors=False):  # type: ignore[no-untyped-def]
    """Factors and pivots are not those of the complex matrix; only derivatives would read them."""
    if not a.is_complex():
        return NotImplemented
    n, vector = a.shape[-1], b.dim() == a.dim() - 1
    column = b.unsqueeze(-1) if vector else b
    dim = -2 if left else -1
    right = torch.cat([column.real, column.imag if left else -column.imag], dim)
    found, _, _, info = aten._linalg_solve_ex.default(
        in_reals(a), right, left=left, check_errors=check_errors
    )
    real, imaginary = found.narrow(dim, 0, n), found.narrow(dim, n, n)
    x = of_parts(real, imaginary if left else -imaginary)
    pivots = torch.zeros(a.shape[:-1], dtype=torch.int32)
    return x.squeeze(-1) if vector else x, a.clone(), pivots, info.clamp(max=n)


SPLITS: dict[OpOverload, Callable[..., Any]] = {
    aten._linalg_solve_ex.default: _solve,
    aten.cholesky.default: _cholesky,
    aten.cholesky_inverse.default: _cholesky_inverse,
    aten.cholesky_solve.default: _cholesky_solve,
    aten.linalg_cholesky.default: _checked(aten.linalg_cholesky_ex.default, 1),
    aten.linalg_inv.default: _checked(aten.linalg_inv_ex.default, 1),
    aten.linalg_inv_ex.default: _inverse,
    aten.linalg_ldl_factor.default: _checked(aten.linalg_ldl_factor_ex.default, 2),
    aten.linalg_lu_factor.default: _checked(aten.linalg_lu_factor_ex.default, 2),
    aten.linalg_solve.default: _checked(aten.linalg_solve_ex.default, 1),
    aten.linalg_lu.default: _lu,
    aten.linalg_lu_solve.default: _lu_solve,
    aten.linalg_pinv.atol_rtol_float: _pinv,
    aten.linalg_pinv.atol_rtol_tensor: _pinv,
    aten.ormqr.default: _ormqr,
    aten.triangular_solve.default: _triangular_solve,
}
