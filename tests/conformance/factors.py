"""What factors of a matrix have to be: the signs of singular vectors and eigenvectors are free.

A vector may be turned round, and vectors of equal values mixed, so two right answers differ by far more
than any tolerance. What is compared instead: the values with ATen's, and that the factors have
orthonormal columns and give the matrix back.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch


def svd_difference(args: tuple[Any, ...], got: list[torch.Tensor], want: list[torch.Tensor]) -> str:
    """What is wrong with `_linalg_svd(a, full_matrices, compute_uv)`; "" when nothing is."""
    a, _, vectors = (*args, *(False, True)[len(args) - 1 :])
    u, sizes, right = got
    wrong = difference(sizes, want[1], largest(a))
    if wrong or not vectors:
        return wrong
    kept = sizes.shape[-1]
    return (
        not_orthonormal(u)
        or not_orthonormal(right.mH)
        or difference((u[..., :kept] * sizes.unsqueeze(-2)) @ right[..., :kept, :], a, largest(a))
    )


def eigh_difference(args: tuple[Any, ...], got: list[torch.Tensor], want: list[torch.Tensor]) -> str:
    """What is wrong with `_linalg_eigh(a, UPLO, compute_v)`; "" when nothing is."""
    a, side, vectors = (*args, *("L", True)[len(args) - 1 :])
    values, columns = got
    wrong = difference(values, want[0], largest(a))
    if wrong or not vectors:
        return wrong
    half = a.triu() if side.upper() == "U" else a.tril()
    whole = half + (half.triu(1) if side.upper() == "U" else half.tril(-1)).mH
    return not_orthonormal(columns) or difference(
        (columns * values.unsqueeze(-2)) @ columns.mH, whole, largest(a)
    )


def eig_difference(args: tuple[Any, ...], got: list[torch.Tensor], want: list[torch.Tensor]) -> str:
    """What is wrong with `linalg_eig(a)`, whose values come in any order; "" when nothing is."""
    (a,), (values, columns) = args, got
    wide = a.to(values.dtype)
    # Nearly equal values are sensitive: each must belong to the matrix, and their sums be its traces.
    power, sums = wide, values
    for _ in range(min(a.shape[-1], 3)):
        traces = power.diagonal(dim1=-2, dim2=-1).sum(-1)
        wrong = difference(sums.sum(-1), traces, largest(power) * a.shape[-1])
        if wrong:
            return wrong
        power, sums = power @ wide, sums * values
    lengths = torch.linalg.vector_norm(columns, dim=-2)
    return difference(lengths, torch.ones_like(lengths), 1.0) or difference(
        wide @ columns, columns * values.unsqueeze(-2), largest(a)
    )


FACTORS: dict[str, Callable[[tuple[Any, ...], list[torch.Tensor], list[torch.Tensor]], str]] = {
    "aten::_linalg_svd": svd_difference,
    "aten::_linalg_eigh": eigh_difference,
    "aten::linalg_eig": eig_difference,
}


def largest(a: torch.Tensor) -> float:
    """The size of a matrix, which its rounding errors are measured by."""
    return float(a.abs().max()) * max(a.shape[-2:]) if a.numel() else 0.0


def difference(have: torch.Tensor, expected: torch.Tensor, size: float) -> str:
    """Where two tensors differ by more than rounding errors of numbers as large as `size`."""
    rounding = 100 * torch.finfo(have.dtype).eps
    try:
        torch.testing.assert_close(have, expected, rtol=rounding, atol=rounding * size)
    except AssertionError as error:
        return str(error)
    return ""


def not_orthonormal(columns: torch.Tensor) -> str:
    """What the products of columns with one another should be and are not."""
    unit = torch.eye(columns.shape[-1], dtype=columns.dtype).expand(*columns.shape[:-2], -1, -1)
    return difference(columns.mH @ columns, unit, 1.0)
