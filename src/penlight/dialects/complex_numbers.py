"""Operators on complex tensors for which there is no kernel, by their real and imaginary parts.

The kernels of these operators are for real numbers. Inverse functions follow W. Kahan, "Branch Cuts for
Complex Elementary Functions" (1987), but for infinite numbers.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch._ops import OpOverload, OpOverloadPacket
from torch.utils import _pytree as pytree

from penlight.dialects import matrices
from penlight.dialects.exchanged import like
from penlight.ir.dtypes import DType
from penlight.kernels.out_variants import by_naming_rule, out_variant, parameters_of
from penlight.kernels.table import OpTable
from penlight.passes.decompose import whole

aten = torch.ops.aten
Split = Callable[..., Any]


def splits_for(
    table: OpTable, libraries: tuple[str, ...], others: Any
) -> Callable[[OpOverload, Any, Any], Split | None]:
    """What computes a call with complex numbers that no kernel takes; None where one does, or none is known.

    `others` has the decompositions of operators that are not kept whole.
    """

    def find(op: OpOverload, args: Any, kwargs: Any) -> Split | None:
        leaves = [leaf for leaf in pytree.tree_leaves((args, kwargs)) if _is_complex(leaf)]
        if op in _OF_NUMBERS and any(isinstance(leaf, complex) for leaf in leaves):
            return _OF_NUMBERS[op]
        if not leaves:
            return None
        given = {
            parameter.name: leaf.dtype
            for parameter, value in zip(parameters_of(op), args, strict=False)
            for leaf in pytree.tree_leaves(value)
            if isinstance(leaf, Tensor)
        }
        dtypes = {**given, "out": kwargs["dtype"]} if kwargs.get("dtype") is not None else given
        for row in table.rows((out_variant(op) or by_naming_rule(op)).op, libraries):
            if all(row.takes(name, _kind(dtype)) for name, dtype in dtypes.items()):
                return None
        return SPLITS.get(op) or others.get(op)

    return find


def _is_complex(value: Any) -> bool:
    dtype = value.dtype if isinstance(value, Tensor) else value
    return dtype.is_complex if isinstance(dtype, torch.dtype) else isinstance(value, complex)


def _kind(dtype: torch.dtype) -> DType:
    return DType[str(dtype).removeprefix("torch.")]


# --- functions of one number ---------------------------------------------------------------------------


def _times_i(z: Tensor) -> Tensor:
    return torch.complex(-z.imag, z.real)


def _over_i(z: Tensor) -> Tensor:
    return torch.complex(z.imag, -z.real)


def _asin(z: Tensor) -> Tensor:
    below, above = (1 - z).sqrt(), (1 + z).sqrt()
    real = torch.atan2(z.real, below.real * above.real - below.imag * above.imag)
    return torch.complex(real, torch.asinh(below.real * above.imag - below.imag * above.real))


def _acos(z: Tensor) -> Tensor:
    below, above = (1 - z).sqrt(), (1 + z).sqrt()
    real = 2 * torch.atan2(below.real, above.real)
    return torch.complex(real, torch.asinh(above.real * below.imag - above.imag * below.real))


def _acosh(z: Tensor) -> Tensor:
    below, above = (z - 1).sqrt(), (z + 1).sqrt()
    real = torch.asinh(below.real * above.real + below.imag * above.imag)
    return torch.complex(real, 2 * torch.atan2(below.imag, above.real))


def _asinh(z: Tensor) -> Tensor:
    return _over_i(_asin(_times_i(z)))


def _atanh(z: Tensor) -> Tensor:
    x, y = z.real, z.imag
    size = x.abs()
    real = torch.copysign(0.25 * torch.log1p(4 * size / ((1 - size) ** 2 + y**2)), x)
    return torch.complex(real, 0.5 * torch.atan2(2 * y, (1 - x) * (1 + x) - y**2))


def _atan(z: Tensor) -> Tensor:
    return _over_i(_atanh(_times_i(z)))


def _expm1(z: Tensor) -> Tensor:
    x, y = z.real, z.imag
    return torch.complex(torch.expm1(x) * y.cos() - 2 * (y / 2).sin() ** 2, x.exp() * y.sin())


def _log1p(z: Tensor) -> Tensor:
    x, y = z.real, z.imag
    small = 0.5 * torch.log1p(x * (2 + x) + y**2)
    near = (x.abs() < 0.5) & (y.abs() < 0.5)
    return torch.complex(torch.where(near, small, (1 + z).abs().log()), torch.atan2(y, 1 + x))


def _sigmoid(z: Tensor) -> Tensor:
    return 1 / (1 + (-z).exp())


def _isfinite(z: Tensor) -> Tensor:
    return z.real.isfinite() & z.imag.isfinite()


def _isinf(z: Tensor) -> Tensor:
    return z.real.isinf() | z.imag.isinf()


def _of_nonzero(op: OpOverload) -> Split:
    def split(z: Tensor, *args: Any, **kwargs: Any) -> Any:
        return op(z != 0, *args, **kwargs)

    return split


# --- reductions ----------------------------------------------------------------------------------------


def _of_sizes(op: OpOverload) -> Split:
    """A norm, which sees the absolute values alone."""

    def split(z: Tensor, *args: Any, dtype: torch.dtype | None = None, **kwargs: Any) -> Any:
        if dtype is None:
            return op(z.abs(), *args, **kwargs)
        real = torch.zeros((), dtype=dtype).real.dtype if dtype.is_complex else dtype
        return op(z.abs(), *args, dtype=real, **kwargs)

    return split


def _variance(*, root: bool, mean: bool) -> Split:
    """That of the real parts and that of the imaginary ones."""

    def split(z: Tensor, dim: Any = None, *, correction: Any = None, keepdim: bool = False) -> Any:
        real, imaginary = (
            aten.var.correction(part, dim, correction=correction, keepdim=keepdim)
            for part in (z.real, z.imag)
        )
        spread = (real + imaginary).sqrt() if root else real + imaginary
        return (spread, z.mean(dim or list(range(z.dim())), keepdim)) if mean else spread

    return split


def _unbiased(split: Split) -> Split:
    """The overload that says so instead of the correction."""

    def of_dims(z: Tensor, dim: Any, unbiased: bool = True, keepdim: bool = False) -> Any:
        return split(z, dim, correction=int(unbiased), keepdim=keepdim)

    return of_dims


def _logsumexp(z: Tensor, dim: Any, keepdim: bool = False) -> Tensor:
    largest = z.real.amax(dim, True)
    largest = torch.where(largest.isfinite(), largest, 0)
    total = (z - largest).exp().sum(dim, keepdim).log()
    return total + (largest if keepdim else largest.amax(dim))


# --- places --------------------------------------------------------------------------------------------


def _index_add(z: Tensor, dim: int, index: Tensor, source: Tensor, *, alpha: Any = 1) -> Tensor:
    source = source * alpha
    if z.dim() == 0:
        return _index_add(z.reshape(1), 0, index.reshape(-1), source.reshape(-1)).reshape(())
    pairs, added = torch.view_as_real(z), torch.view_as_real(source)
    return torch.view_as_complex(pairs.index_add(dim % z.dim(), index, added))


def _scatter_add(z: Tensor, dim: int, index: Tensor, source: Tensor) -> Tensor:
    if z.dim() == 0:
        return _scatter_add(z.reshape(1), 0, index.reshape(-1), source.reshape(-1)).reshape(())
    both = index.unsqueeze(-1).expand(*index.shape, 2)
    pairs, added = torch.view_as_real(z), torch.view_as_real(source)
    return torch.view_as_complex(pairs.scatter_add(dim % z.dim(), both, added))


def _put(z: Tensor, index: Tensor, source: Tensor, accumulate: bool = False) -> Any:
    placed = aten.index_put.default(z.reshape(-1), [index.reshape(-1)], source.reshape(-1), accumulate)
    return placed.reshape(z.shape)


def _index_fill(z: Tensor, dim: int, index: Tensor, value: Any) -> Tensor:
    value = like(z, value)
    if z.dim() == 0:
        return torch.where(index.reshape(-1)[:1].reshape(()) == 0, value, z) if index.numel() else z.clone()
    shape = [index.numel() if d == dim % z.dim() else size for d, size in enumerate(z.shape)]
    return z.index_copy(dim, index.reshape(-1), value.expand(shape))


def _masked_fill(z: Tensor, mask: Tensor, value: Any) -> Tensor:
    return torch.where(mask, like(z, value), z)


# --- arithmetic with complex numbers -------------------------------------------------------------------


def _lerp(start: Tensor, end: Tensor, weight: Any) -> Any:
    return start + weight * (end - start)


def _added(product: Split) -> Split:
    """beta * x + alpha * product."""

    def split(x: Tensor, a: Tensor, b: Tensor, *, beta: Any = 1, alpha: Any = 1) -> Any:
        made = product(a, b) * alpha
        return made if beta == 0 else made + x * beta

    return split


def _constant_pad(z: Tensor, pad: Any, value: Any = 0) -> Tensor:
    value = complex(value)
    return torch.complex(
        aten.constant_pad_nd.default(z.real, pad, value.real),
        aten.constant_pad_nd.default(z.imag, pad, value.imag),
    )


# --- random numbers ------------------------------------------------------------------------------------


def _randn(size: Any, *, dtype: torch.dtype, **_: Any) -> Tensor:
    """Of variance 1: half of it in each part."""
    real = torch.zeros((), dtype=dtype).real.dtype
    return torch.view_as_complex(torch.randn([*size, 2], dtype=real) * math.sqrt(0.5))


def _randn_like(x: Tensor, *, dtype: torch.dtype | None = None, **_: Any) -> Tensor:
    dtype = dtype or x.dtype
    return _randn(x.shape, dtype=dtype) if dtype.is_complex else torch.randn(x.shape, dtype=dtype)


# --- matrices ------------------------------------------------------------------------------------------


def _matrix_exp(a: Tensor) -> Tensor:
    return matrices.from_reals(torch.linalg.matrix_exp(matrices.in_reals(a)))


def _solve_triangular(
    a: Tensor, b: Tensor, *, upper: bool, left: bool = True, unitriangular: bool = False
) -> Any:
    triangle = a.triu() if upper else a.tril()
    if unitriangular:
        unit = torch.eye(a.shape[-1], dtype=torch.bool)
        triangle = torch.where(unit, torch.ones((), dtype=a.dtype), triangle)
    return torch.linalg.solve(triangle, b, left=left)


def _svd(a: Tensor, full_matrices: bool = False, compute_uv: bool = True, *, driver: Any = None) -> Any:
    """Each value is twice one of the real matrix; vectors would have to be chosen among those of both."""
    values = aten._linalg_svd.default(matrices.in_reals(a), False, False)[1][..., ::2]
    u, _, vh = whole(aten._linalg_svd.default, a, full_matrices, compute_uv)
    return u, values, vh


def _eigh(a: Tensor, uplo: str = "L", compute_v: bool = True) -> Any:
    """As for singular values. What lies on the other side of the diagonal is not read."""
    a = a.mH if uplo.upper() == "U" else a
    values = aten._linalg_eigh.default(matrices.in_reals(matrices.hermitian_of(a)), "L", False)[0][..., ::2]
    _, vectors = whole(aten._linalg_eigh.default, a, uplo, compute_v)
    return values, vectors


_NORMS = aten.norm.Scalar, aten.norm.ScalarOpt_dim, aten.norm.ScalarOpt_dtype, aten.norm.ScalarOpt_dim_dtype

_VARIANCES: dict[OpOverloadPacket, Split] = {
    aten.std: _variance(root=True, mean=False),
    aten.std_mean: _variance(root=True, mean=True),
    aten.var: _variance(root=False, mean=False),
    aten.var_mean: _variance(root=False, mean=True),
}

_OF_NUMBERS: dict[OpOverload, Split] = {
    aten.addmm.default: _added(torch.mm),
    aten.addmv.default: _added(torch.mv),
    aten.baddbmm.default: _added(torch.bmm),
    aten.addbmm.default: _added(lambda a, b: torch.bmm(a, b).sum(0)),
    aten.addr.default: _added(torch.outer),
    aten.constant_pad_nd.default: _constant_pad,
    aten.index_fill.int_Scalar: _index_fill,
    aten.lerp.Scalar: _lerp,
    aten.masked_fill.Scalar: _masked_fill,
}

SPLITS: dict[OpOverload, Split] = {
    aten.acos.default: _acos,
    aten.acosh.default: _acosh,
    aten.asin.default: _asin,
    aten.asinh.default: _asinh,
    aten.atan.default: _atan,
    aten.atanh.default: _atanh,
    aten.count_nonzero.default: _of_nonzero(aten.count_nonzero.default),
    aten.count_nonzero.dim_IntList: _of_nonzero(aten.count_nonzero.dim_IntList),
    aten.exp2.default: lambda z: (z * math.log(2)).exp(),
    aten.expm1.default: _expm1,
    aten.index_add.default: _index_add,
    aten.index_fill.int_Tensor: _index_fill,
    aten.isfinite.default: _isfinite,
    aten.isinf.default: _isinf,
    aten.lerp.Scalar: _lerp,
    aten.lerp.Tensor: _lerp,
    aten.linalg_matrix_exp.default: _matrix_exp,
    aten.linalg_solve_triangular.default: _solve_triangular,
    aten._linalg_eigh.default: _eigh,
    aten._linalg_svd.default: _svd,
    aten.linalg_vector_norm.default: _of_sizes(aten.linalg_vector_norm.default),
    aten.log1p.default: _log1p,
    aten.logsumexp.default: _logsumexp,
    aten.masked_fill.Tensor: _masked_fill,
    aten.nonzero.default: _of_nonzero(aten.nonzero.default),
    aten.nonzero_static.default: _of_nonzero(aten.nonzero_static.default),
    aten.put.default: _put,
    aten.randn.default: _randn,
    aten.randn_like.default: _randn_like,
    aten.rms_norm.default: aten.rms_norm.default.decompose,
    aten.scatter_add.default: _scatter_add,
    aten.sigmoid.default: _sigmoid,
    aten.silu.default: lambda z: z * _sigmoid(z),
    **{op.correction: split for op, split in _VARIANCES.items()},
    **{op.dim: _unbiased(split) for op, split in _VARIANCES.items()},
    **{op: _of_sizes(op) for op in _NORMS},
}
