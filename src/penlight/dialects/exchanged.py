"""What ExecuTorch's CPU kernels lack, or do not do for every size, made of what they have.

For target "portable": a target whose kernels compute these operators whole keeps them.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
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
    if ceil_mode or divisor_override == 0 or (any(around) and not count_include_pad):
        return NotImplemented
    *leading, depth, height, width = x.shape
    planes = aten.avg_pool2d.default(
        x.reshape(-1, 1, depth, height * width), [kernel[0], 1], [step[0], 1], [around[0], 0]
    )
    images = planes.reshape(-1, 1, height, width)
    pooled = aten.avg_pool2d.default(images, kernel[1:], step[1:], around[1:])
    result = pooled.reshape(*leading, planes.shape[2], *pooled.shape[2:])
    return result if divisor_override is None else result * (math.prod(kernel) / divisor_override)


SPLITS: dict[OpOverload, Callable[..., Any]] = {
    aten.avg_pool3d.default: _avg_pool3d,
    aten.copysign.Scalar: _copysign,
    aten.copysign.Tensor: _copysign,
    aten.hypot.default: _hypot,
    aten.unbind.int: _unbind,
    aten.unbind_copy.int: _unbind,
}
