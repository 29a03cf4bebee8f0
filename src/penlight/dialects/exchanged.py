"""What ExecuTorch's CPU kernels lack, or do not do for every size, made of what they have.

For target "portable": a target whose kernels compute these operators whole keeps them.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch._decomp import decomposition_table
from torch._ops import OpOverload

aten = torch.ops.aten


def _unbind(x, dim=0):  # type: ignore[no-untyped-def]
    """Rows of dynamic size one by one: the kernel leaves each output as large as it may become."""
    if any(isinstance(size, torch.SymInt) for size in x.shape):
        return [x.select(dim, row) for row in range(x.shape[dim])]
    return NotImplemented


def _copysign(x, sign):  # type: ignore[no-untyped-def]
    """The sign of a zero is that of what it divides into; that of NaN is not looked at."""
    dtype = torch.result_type(x, sign)
    dtype = dtype if dtype.is_floating_point else torch.get_default_dtype()
    x = x.to(dtype)
    sign = sign.to(dtype) if isinstance(sign, torch.Tensor) else torch.full((), sign, dtype=dtype)
    size = x.abs()
    return torch.where((sign < 0) | ((sign == 0) & (sign.reciprocal() < 0)), -size, size)


def _hypot(x, y):  # type: ignore[no-untyped-def]
    """By the larger of both, so that no square is too large or too small."""
    dtype = torch.result_type(x, y)
    x, y = x.to(dtype).abs(), y.to(dtype).abs()
    large = torch.maximum(x, y)
    ratio = torch.minimum(x, y) / large
    length = torch.where(large == 0, large, large * (ratio * ratio + 1).sqrt())
    return torch.where((x == torch.inf) | (y == torch.inf), torch.inf, length)


def wide(x: torch.Tensor) -> torch.Tensor:
    """In float32 what has 16 bits, as kernels sum it: it is rounded once."""
    return x.float() if x.dtype in (torch.float16, torch.bfloat16) else x


def _avg_pool3d(  # type: ignore[no-untyped-def]
    x,
    kernel_size,
    stride=(),
    padding=(0,),
    ceil_mode=False,
    count_include_pad=True,
    divisor_override=None,
):
    """Over the depth, then over the images; where a window is never cut, both divide by its size."""
    kernel, step, around = (
        list(given) * (3 if len(given) == 1 else 1) for given in (kernel_size, stride or kernel_size, padding)
    )
    whole = ceil_mode or divisor_override == 0 or (any(around) and not count_include_pad)
    if whole or not x.is_floating_point():
        return NotImplemented
    dtype, x = x.dtype, wide(x)
    *leading, depth, height, width = x.shape
    planes = aten.avg_pool2d.default(
        x.reshape(-1, 1, depth, height * width), [kernel[0], 1], [step[0], 1], [around[0], 0]
    )
    images = planes.reshape(-1, 1, height, width)
    pooled = aten.avg_pool2d.default(images, kernel[1:], step[1:], around[1:])
    result = pooled.reshape(*leading, planes.shape[2], *pooled.shape[2:])
    return (result if divisor_override is None else result * (math.prod(kernel) / divisor_override)).to(dtype)


def _adaptive_avg_pool3d(x, output_size):  # type: ignore[no-untyped-def]
    """Over the depth, then over the images: each window has the same height and width all the way down."""
    dtype, x = x.dtype, wide(x)
    *leading, depth, height, width = x.shape
    planes = aten._adaptive_avg_pool2d.default(
        x.reshape(-1, 1, depth, height * width), [output_size[0], height * width]
    )
    pooled = aten._adaptive_avg_pool2d.default(planes.reshape(-1, 1, height, width), output_size[1:])
    return pooled.reshape(*leading, *output_size).to(dtype)


def _adaptive_max_pool(op: OpOverload) -> Callable[..., Any]:
    """torch's own are windows of the sizes of the example: those of a dynamic size stay whole."""

    def split(x: Any, output_size: Any) -> Any:
        if not all(isinstance(size, int) for size in x.shape[-len(output_size) :]):
            return NotImplemented
        return decomposition_table[op](x, output_size)

    return split


def like(x: torch.Tensor, value: Any) -> torch.Tensor:
    """A number, or a tensor of one, as a tensor of x's dtype."""
    return value.to(x.dtype) if isinstance(value, torch.Tensor) else torch.full((), value, dtype=x.dtype)


def _addcmul(x, a, b, *, value=1):  # type: ignore[no-untyped-def]
    """Of integers the factor is cut to one, as ATen has it."""
    integers = not any(t.dtype == torch.bool or t.is_floating_point() or t.is_complex() for t in (x, a, b))
    return decomposition_table[aten.addcmul.default](x, a, b, value=int(value) if integers else value)


def _attention(q, k, v, attn_mask=None, dropout_p=0.0, is_causal=False, *, scale=None, enable_gqa=False):  # type: ignore[no-untyped-def]
    """Scores of later keys are put aside; torch's own adds -inf, which leaves NaN what it is."""
    if not is_causal or attn_mask is not None or dropout_p > 0:
        op = aten.scaled_dot_product_attention.default
        options = {"scale": scale, "enable_gqa": enable_gqa}
        return op.decompose(q, k, v, attn_mask, dropout_p, is_causal, **options)
    dtype, q, k, v = q.dtype, wide(q), wide(k), wide(v)
    queries, keys = q.shape[-2], k.shape[-2]
    if isinstance(queries, int) and isinstance(keys, int) and queries < keys:
        k, v = k.narrow(-2, 0, queries), v.narrow(-2, 0, queries)  # no query sees the others
    if enable_gqa:
        k, v = (x.repeat_interleave(q.shape[-3] // x.shape[-3], -3) for x in (k, v))
    scores = (q * (q.shape[-1] ** -0.5 if scale is None else scale)) @ k.mT
    seen = torch.ones(queries, k.shape[-2], dtype=torch.bool).tril()
    return (aten._safe_softmax(torch.where(seen, scores, -math.inf), -1) @ v).to(dtype)


def _angle(x):  # type: ignore[no-untyped-def]
    if x.is_complex():
        return NotImplemented
    if not x.is_floating_point():
        x = x.to(torch.get_default_dtype())
    return torch.where(x != x, x, torch.where(x < 0, math.pi, 0.0).to(x.dtype))


def _scatter_reduce(x, dim, index, src, reduce, *, include_self=True):  # type: ignore[no-untyped-def]
    if reduce != "sum":
        return NotImplemented
    return (x if include_self else x.scatter(dim, index, 0)).scatter_add(dim, index, src)


def _scatter(x, dim, index, src, *, reduce):  # type: ignore[no-untyped-def]
    return x.scatter_add(dim, index, src) if reduce == "add" else NotImplemented


def _rand_like(op: OpOverload) -> Callable[..., Any]:
    def split(x: Any, *, dtype: Any = None, **_: Any) -> Any:
        return op(list(x.shape), dtype=dtype or x.dtype)

    return split


def _randint_low(low, high, size, *, dtype=torch.int64, **_):  # type: ignore[no-untyped-def]
    count = high - low
    drawn = aten.rand.default(list(size), dtype=torch.float64) * count
    return (drawn.floor().clamp(max=count - 1) + low).to(dtype or torch.int64)


def _randint(high, size, **options):  # type: ignore[no-untyped-def]
    return _randint_low(0, high, size, **options)  # type: ignore[no-untyped-call]


def _randint_like_low(x, low, high, *, dtype=None, **_):  # type: ignore[no-untyped-def]
    return _randint_low(low, high, x.shape, dtype=dtype or x.dtype)  # type: ignore[no-untyped-call]


def _randint_like(x, high, *, dtype=None, **_):  # type: ignore[no-untyped-def]
    return _randint_like_low(x, 0, high, dtype=dtype)  # type: ignore[no-untyped-call]


def from_start(index: torch.Tensor) -> torch.Tensor:
    """Parts count negative indices from the end: here they are too large, and refused."""
    return index.to(torch.int64) & torch.iinfo(torch.int64).max


def _slices_at(op: OpOverload) -> Callable[..., Any]:
    def split(x: Any, dim: int, index: Any, *args: Any, **kwargs: Any) -> Any:
        return decomposition_table[op](x, dim, from_start(index), *args, **kwargs)

    return split


def _index_fill(x, dim, index, value):  # type: ignore[no-untyped-def]
    """This one counts negative indices from the end."""
    y = x.reshape(1) if x.dim() == 0 else x
    places = [None] * (dim % y.dim()) + [index.reshape(-1)]
    return aten.index_put.default(y, places, like(x, value).reshape(())).reshape(x.shape)


def _bernoulli(p, *, generator=None):  # type: ignore[no-untyped-def]
    """Where a probability is none, an element behind the end is asked for, as nothing else can fail."""
    refused = ((p >= 0) & (p <= 1)).logical_not().any().to(torch.int64).reshape(1)
    zero = torch.zeros(1, dtype=p.dtype).index_select(0, refused).reshape(())
    return (torch.rand(p.shape, dtype=torch.float32) < p + zero).to(p.dtype)


SPLITS: dict[OpOverload, Callable[..., Any]] = {
    aten._adaptive_avg_pool3d.default: _adaptive_avg_pool3d,
    aten.addcmul.default: _addcmul,
    aten.adaptive_max_pool2d.default: _adaptive_max_pool(aten.adaptive_max_pool2d.default),
    aten.adaptive_max_pool3d.default: _adaptive_max_pool(aten.adaptive_max_pool3d.default),
    aten.angle.default: _angle,
    aten.avg_pool3d.default: _avg_pool3d,
    aten.bernoulli.default: _bernoulli,
    aten.copysign.Scalar: _copysign,
    aten.copysign.Tensor: _copysign,
    aten.hypot.default: _hypot,
    aten.index_add.default: _slices_at(aten.index_add.default),
    aten.index_copy.default: _slices_at(aten.index_copy.default),
    aten.index_fill.int_Scalar: _index_fill,
    aten.index_fill.int_Tensor: _index_fill,
    aten.rand_like.default: _rand_like(aten.rand.default),
    aten.randint.default: _randint,
    aten.randint.low: _randint_low,
    aten.randint_like.default: _randint_like,
    aten.randint_like.low_dtype: _randint_like_low,
    aten.randn_like.default: _rand_like(aten.randn.default),
    aten.scaled_dot_product_attention.default: _attention,
    aten.scatter.reduce: _scatter,
    aten.scatter_reduce.two: _scatter_reduce,
    aten.unbind.int: _unbind,
    aten.unbind_copy.int: _unbind,
}
