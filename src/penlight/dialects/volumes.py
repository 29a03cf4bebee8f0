"""Resampling of volumes: that of their images, which have kernels, and then between the images."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch._decomp import decomposition_table
from torch._decomp.decompositions import upsample_compute_output_size
from torch._ops import OpOverload

aten = torch.ops.aten


def _resized(x: Any, size: Any, factors: Any) -> tuple[list[Any], Any] | None:
    """Depth, height and width of the result, and the factors that were given; None where nothing is left."""
    given = factors if factors is not None and None not in factors else [None] * 3
    size = upsample_compute_output_size(x.shape, size, None if size is not None else given)
    return None if 0 in [n for n in (*x.shape, *size) if isinstance(n, int)] else (list(size), given)


def _of_images(x: Any, resize: OpOverload, size: list[Any], *options: Any) -> Any:
    """Height and width of each image of the volumes, by `resize`."""
    n, c, depth, height, width = x.shape
    images = resize(x.reshape(n, c * depth, height, width), size[1:], *options)
    return images.reshape(n, c, depth, *size[1:])


def _step(old: Any, new: Any, factor: float | None) -> Any:
    return 1.0 / factor if factor else old / new


def _trilinear(x: Any, size: Any, align_corners: bool, factors: Any) -> Any:
    known = _resized(x, size, factors)
    if known is None:
        return None
    (depth, *_), given = known
    dtype = x.dtype
    x = x if dtype == torch.float64 else x.float()  # halves are rounded once
    x = _of_images(x, aten.upsample_bilinear2d.default, known[0], align_corners, *given[1:])
    old, number = x.shape[2], torch.arange(depth, dtype=x.dtype)
    if align_corners:
        place = number * ((old - 1) / torch.sym_max(depth - 1, 1))
    else:
        place = ((number + 0.5) * _step(old, depth, given[0]) - 0.5).clamp(min=0)
    below = place.floor().clamp(max=old - 1)
    above, rest = (below + 1).clamp(max=old - 1), (place - below).reshape(-1, 1, 1)
    first, second = (x.index_select(2, which.to(torch.int64)) for which in (below, above))
    return (first * (1 - rest) + second * rest).to(dtype)


def _nearest(x: Any, size: Any, factors: Any) -> Any:
    known = _resized(x, size, factors)
    if known is None:
        return None
    (depth, *others), given = known
    for old, new, factor in zip(x.shape[3:], others, given[1:], strict=True):
        doubled = new == 2 * old if isinstance(new, int) else factor is not None and 2.0 <= factor < 3.0
        if doubled and factor not in (None, 2.0):
            return None  # images are doubled then, and volumes are not
    x = _of_images(x, aten.upsample_nearest2d.default, known[0], *given[1:])
    old = x.shape[2]
    place = torch.arange(depth, dtype=torch.float32) * _step(old, depth, given[0])
    return x.index_select(2, place.to(torch.int64).clamp(max=old - 1))


def _of_vector(op: OpOverload, split: Callable[..., Any]) -> Callable[..., Any]:
    parts = decomposition_table.get(op, op.decompose)

    def resample(*args: Any) -> Any:
        made = split(*args)
        return parts(*args) if made is None else made

    return resample


def _of_numbers(op: OpOverload, split: Callable[..., Any]) -> Callable[..., Any]:
    """With a number for each factor, as arguments or by name."""
    parts, names = decomposition_table.get(op, op.decompose), ("scales_d", "scales_h", "scales_w")
    before = len(op._schema.arguments) - len(names)

    def resample(*args: Any, **kwargs: Any) -> Any:
        given = [*args[before:], *(kwargs.get(name) for name in names[len(args) - before :])]
        made = split(*args[:before], given)
        return parts(*args, **kwargs) if made is None else made

    return resample


SPLITS: dict[OpOverload, Callable[..., Any]] = {
    aten.upsample_trilinear3d.vec: _of_vector(aten.upsample_trilinear3d.vec, _trilinear),
    aten.upsample_trilinear3d.default: _of_numbers(aten.upsample_trilinear3d.default, _trilinear),
    aten.upsample_nearest3d.vec: _of_vector(aten.upsample_nearest3d.vec, _nearest),
    aten.upsample_nearest3d.default: _of_numbers(aten.upsample_nearest3d.default, _nearest),
}
