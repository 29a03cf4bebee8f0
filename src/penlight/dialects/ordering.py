"""Sorting, and what follows from it, made of top k: ExecuTorch's CPU kernels have that alone.

For target "portable": a target whose kernels compute these operators whole keeps them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch._ops import OpOverload

aten = torch.ops.aten


def _sort(x, dim=-1, descending=False):  # type: ignore[no-untyped-def]
    """Equal elements keep their order, which top k does not promise; NaN is the largest.

    A second top k puts the places of equal elements in order: it goes by the number of the run that an
    element is in, and by its place within that. All rows count from the same run on, 0 or 1.
    """
    if x.dim() == 0:
        return x.clone(), torch.zeros((), dtype=torch.int64)
    length = x.shape[dim]
    keys = x.to(torch.uint8) if x.dtype == torch.bool else x
    values, places = torch.topk(keys, length, dim, descending)
    before = values.roll(1, dim)
    differ = values != before
    if x.dtype.is_floating_point:
        differ = differ & ((values == values) | (before == before))
    start = differ.to(torch.int64).cumsum(dim) * length
    places = torch.topk(start + places, length, dim, False)[0] - start
    return x.gather(dim, places), places


def _sort_stable(x, *, stable, dim=-1, descending=False):  # type: ignore[no-untyped-def]
    return _sort(x, dim, descending)  # type: ignore[no-untyped-call]


def _kth(x, k, dim=-1, keepdim=False):  # type: ignore[no-untyped-def]
    if x.dim() == 0:
        return _sort(x)  # type: ignore[no-untyped-call]
    found = [part.narrow(dim, k - 1, 1) for part in _sort(x, dim)]  # type: ignore[no-untyped-call]
    return tuple(part if keepdim else part.squeeze(dim) for part in found)


def _median_of(skips_nan: bool) -> Callable[..., Any]:
    """The lower of two in the middle. NaN where there is one, or of what is left without them."""

    def split(x, dim=-1, keepdim=False):  # type: ignore[no-untyped-def]
        if x.dim() == 0:
            return _sort(x)  # type: ignore[no-untyped-call]
        values, places = _sort(x, dim)  # type: ignore[no-untyped-call]
        length = x.shape[dim]
        missing = (x != x).to(torch.int64).sum(dim, keepdim=True)
        if skips_nan:
            at = (length - 1 - missing).clamp(min=0) // 2
        else:
            at = torch.where(missing > 0, length - missing, (length - 1) // 2)
        found = [part.gather(dim, at) for part in (values, places)]
        return tuple(part if keepdim else part.squeeze(dim) for part in found)

    return split


def _median_of_all(skips_nan: bool) -> Callable[..., Any]:
    along = _median_of(skips_nan)
    return lambda x: along(x.reshape(-1), 0)[0]


def _search_sorted(  # type: ignore[no-untyped-def]
    edges, x, *, out_int32=False, right=False, side=None, sorter=None
):
    """Counts the edges that come before: a NaN comes after all of them."""
    if sorter is not None:
        return NotImplemented
    right = right or side == "right"
    x = x if isinstance(x, torch.Tensor) else torch.full((), x, dtype=edges.dtype)
    edges = edges if edges.dim() == 1 else edges.unsqueeze(-2)
    follows = edges > x.unsqueeze(-1) if right else edges >= x.unsqueeze(-1)
    return follows.logical_not().sum(-1, dtype=torch.int32 if out_int32 else torch.int64)


def _bucketize(x, edges, **options):  # type: ignore[no-untyped-def]
    return _search_sorted(edges, x, **options)  # type: ignore[no-untyped-call]


SPLITS: dict[OpOverload, Callable[..., Any]] = {
    aten.bucketize.Scalar: _bucketize,
    aten.kthvalue.default: _kth,
    aten.median.default: _median_of_all(False),
    aten.median.dim: _median_of(False),
    aten.nanmedian.default: _median_of_all(True),
    aten.nanmedian.dim: _median_of(True),
    aten.searchsorted.Scalar: _search_sorted,
    aten.searchsorted.Tensor: _search_sorted,
    aten.sort.default: _sort,
    aten.sort.stable: _sort_stable,
}
