"""Resampling of images along rows, then along columns, for targets without a kernel of it.

torch's own parts divide by zero where the corners of a dynamic size of one are aligned, round images
of bytes differently from ATen, and look for nearest neighbours by a factor that the sizes do not have.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch._decomp import decomposition_table
from torch._decomp.decompositions import upsample_compute_output_size
from torch._ops import OpOverload

from penlight.dialects.exchanged import wide

aten = torch.ops.aten

_DIGITS = 22  # behind the point of a weight, at most
_LIMIT = 1 << 15  # of weights of bytes, which have 16 bits


def _places(old: Any, new: Any, align_corners: bool, factor: float | None, dtype: Any) -> Any:
    """Where in the input each output lies."""
    number = torch.arange(new, dtype=dtype)
    if align_corners:
        return number * ((old - 1) / torch.sym_max(new - 1, 1))
    place = (number + 0.5) * (1.0 / factor if factor else old / new) - 0.5
    return _by_sizes(place, number, old, new, factor, 1)


def _by_sizes(place: Any, number: Any, old: Any, new: Any, factor: float | None, times: int) -> Any:
    """Of `times` as many outputs as inputs, each is one input, whatever the factor."""
    if not factor or not times < factor < times + 1:
        return place
    if isinstance(old, int) and isinstance(new, int):
        return number / times if new == times * old else place
    return torch.where(torch.full((), new) == torch.full((), times * old), number / times, place)


def _linear(place: Any, old: Any) -> tuple[list[Any], list[Any]]:
    place = place.clamp(min=0)
    first = place.floor().clamp(max=old - 1)
    rest = (place - first).clamp(max=1)
    return [first, (first + 1).clamp(max=old - 1)], [1 - rest, rest]


def _cubic(place: Any, old: Any) -> tuple[list[Any], list[Any]]:
    a, first = -0.75, place.floor()
    behind = place - first
    weights = [
        near
        for t in (behind, 1 - behind)
        for near in (
            ((a * (t + 1) - 5 * a) * (t + 1) + 8 * a) * (t + 1) - 4 * a,
            ((a + 2) * t - (a + 3)) * t * t + 1,
        )
    ]
    positions = [(first + step).clamp(0, old - 1) for step in (-1, 0, 2, 1)]
    return positions, weights


def _whole_weights(positions: list[Any], weights: list[Any]) -> tuple[list[Any], Any]:
    """In 16 bits, and how many of these are behind the point.

    What stands at the border several times has one weight, rounded once.
    """
    place, exact = torch.stack(positions, 1), torch.stack(weights, 1)
    same = place.unsqueeze(2) == place.unsqueeze(1)
    again = (same & torch.ones(len(weights), len(weights), dtype=torch.bool).tril(-1)).any(2)
    joined = torch.where(again, 0.0, torch.where(same, exact.unsqueeze(1), 0.0).sum(2))
    steps = torch.tensor([float(2 << digits) for digits in range(_DIGITS)], dtype=exact.dtype)
    fit = joined.amax() * steps + 0.5 < _LIMIT
    scaled = joined * torch.where(fit, 2.0, 1.0).to(exact.dtype).prod()
    whole = torch.where(scaled < 0, scaled - 0.5, scaled + 0.5).trunc().to(torch.int32)
    return list(whole.unbind(1)), fit.sum().to(torch.int32)


def _blended(x: Any, dim: int, new: Any, kind: Any, align_corners: bool, factor: float | None) -> Any:
    old, is_bytes = x.shape[dim], x.dtype == torch.uint8
    if isinstance(old, int) and isinstance(new, int) and old == new:
        return x
    place = _places(old, new, align_corners, factor, torch.float64 if is_bytes else x.dtype)
    positions, weights = kind(place, old)
    if is_bytes:
        weights, digits = _whole_weights(positions, weights)
    parts = [
        x.index_select(dim, position.to(torch.int64)).to(weight.dtype)
        * weight.reshape(-1, *[1] * (x.dim() - 1 - dim))
        for position, weight in zip(positions, weights, strict=True)
    ]
    if not is_bytes:
        return sum(parts[1:], parts[0])
    half = torch.bitwise_left_shift(torch.ones((), dtype=torch.int32), digits - 1)
    return torch.bitwise_right_shift(sum(parts, half), digits).clamp(0, 255).to(torch.uint8)


def _nearest(x: Any, dim: int, new: Any, factor: float | None) -> Any:
    old, number = x.shape[dim], torch.arange(new, dtype=torch.float32)
    place = number * (1.0 / factor if factor else old / new)
    for times in (1, 2):
        place = _by_sizes(place, number, old, new, factor, times)
    return x.index_select(dim, place.to(torch.int64).clamp(max=old - 1))


def _split(op: OpOverload, resize: Callable[..., Any]) -> Callable[..., Any]:
    """Along rows, then along columns, by `resize(image, dimension, size, ..., factor)`."""
    parts, is_vector = decomposition_table[op], op._overloadname == "vec"

    def resample(x: Any, size: Any, *args: Any, **named: Any) -> Any:
        before = len(op._schema.arguments) - (3 if is_vector else 4)
        options, given = args[:before], args[before:]
        if is_vector:
            factors = given[0] or (None, None)
            size = upsample_compute_output_size(x.shape, size, given[0])
        else:
            factors = (*given, *(named.get(name) for name in ("scales_h", "scales_w")[len(given) :]))
        if 0 in [number for number in (*x.shape, *size) if isinstance(number, int)]:
            return parts(x, size, *options, *((None,) if is_vector else factors))
        for dim in (3, 2):
            x = resize(x, dim, size[dim - 2], *options, factors[dim - 2])
        return x

    return resample


def _blend(op: OpOverload, kind: Any) -> Callable[..., Any]:
    split = _split(op, lambda x, dim, new, *options: _blended(x, dim, new, kind, *options))

    def resample(x: Any, *args: Any, **named: Any) -> Any:
        return split(wide(x), *args, **named).to(x.dtype)  # halves are rounded once

    return resample


SPLITS: dict[OpOverload, Callable[..., Any]] = {
    aten.upsample_bilinear2d.vec: _blend(aten.upsample_bilinear2d.vec, _linear),
    aten.upsample_bilinear2d.default: _blend(aten.upsample_bilinear2d.default, _linear),
    aten.upsample_bicubic2d.default: _blend(aten.upsample_bicubic2d.default, _cubic),
    aten.upsample_nearest2d.vec: _split(aten.upsample_nearest2d.vec, _nearest),
    aten.upsample_nearest2d.default: _split(aten.upsample_nearest2d.default, _nearest),
}
