"""Operators that seldom occur, made of those that have kernels."""

from __future__ import annotations

import builtins
import math
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch._decomp import decomposition_table
from torch._ops import OpOverload

from penlight.dialects.exchanged import from_start

aten = torch.ops.aten


def _frexp(x):  # type: ignore[no-untyped-def]
    """By the bits of the number, once those below the smallest normal one are scaled up."""
    wide = x if x.dtype == torch.float64 else x.to(torch.float32)
    integer, digits, bias = (torch.int64, 52, 1022) if wide.dtype == torch.float64 else (torch.int32, 23, 126)
    small = wide.abs() < torch.finfo(wide.dtype).tiny
    bits = torch.where(small, wide * 2.0 ** (digits + 1), wide).view(integer)
    field = (2 * bias + 3) << digits
    exponent = ((bits & field) >> digits) - bias - small.to(integer) * (digits + 1)
    mantissa = ((bits & ~field) | (bias << digits)).view(wide.dtype)
    plain = torch.isfinite(wide) & (wide != 0)
    return torch.where(plain, mantissa, wide).to(x.dtype), torch.where(plain, exponent, 0).to(torch.int32)


def _count_between(points, edges, weight, density):  # type: ignore[no-untyped-def]
    """How many points [n, dims] lie between each edge and the next; the last edge belongs to the last."""
    inside = torch.ones(points.shape[0], dtype=torch.bool)
    place = torch.zeros(points.shape[0], dtype=torch.int64)
    for x, ends in zip(points.unbind(1), edges, strict=True):
        bins = ends.shape[0] - 1
        inside = inside & (x >= ends[0]) & (x <= ends[-1])
        place = place * bins + (torch.bucketize(x.contiguous(), ends, right=True) - 1).clamp(0, bins - 1)
    counted = inside.to(points.dtype) if weight is None else torch.where(inside, weight.reshape(-1), 0)
    sizes = [ends.shape[0] - 1 for ends in edges]
    counts = torch.zeros(math.prod(sizes), dtype=points.dtype).scatter_add(0, place, counted).reshape(sizes)
    if not density:
        return counts
    counts = counts / counts.sum()
    for d, ends in enumerate(edges):
        counts = counts / (ends[1:] - ends[:-1]).reshape([-1 if d == e else 1 for e in range(len(sizes))])
    return counts


def _even_edges(x, bins, ends):  # type: ignore[no-untyped-def]
    """Of `bins` equal bins from `ends[0]` to `ends[1]`, or from the least to the largest element."""
    if ends is not None:
        low, high = (torch.full((), end, dtype=x.dtype) for end in ends)
    elif x.numel():
        low, high = x.min(), x.max()
    else:
        low, high = torch.zeros((), dtype=x.dtype), torch.ones((), dtype=x.dtype)
    room = torch.where(low == high, 0.5, 0.0).to(x.dtype)
    low, high = low - room, high + room
    # From both ends, so that they are exact.
    step, number = (high - low) / bins, torch.arange(bins + 1, dtype=x.dtype)
    return torch.where(number < (bins + 1) // 2, low + number * step, high - (bins - number) * step)


def _histogram(x, bins=100, *, range=None, weight=None, density=False):  # type: ignore[no-untyped-def]
    return _histogram_of(x, _even_edges(x, bins, range), weight=weight, density=density)  # type: ignore[no-untyped-call]


def _histogram_of(x, edges, *, weight=None, density=False):  # type: ignore[no-untyped-def]
    return _count_between(x.reshape(-1, 1), [edges], weight, density), edges.clone()  # type: ignore[no-untyped-call]


def _histogramdd_edges(x, bins, *, range=None, weight=None, density=False):  # type: ignore[no-untyped-def]
    ends = [range[2 * d : 2 * d + 2] if range is not None else None for d in builtins.range(len(bins))]
    columns = x.reshape(-1, x.shape[-1]).unbind(1)
    return [_even_edges(*given) for given in zip(columns, bins, ends, strict=True)]  # type: ignore[no-untyped-call]


def _histogramdd(x, bins, *, range=None, weight=None, density=False):  # type: ignore[no-untyped-def]
    edges = _histogramdd_edges(x, bins, range=range)  # type: ignore[no-untyped-call]
    return _histogramdd_of(x, edges, weight=weight, density=density)  # type: ignore[no-untyped-call]


def _histogramdd_of(x, bins, *, weight=None, density=False):  # type: ignore[no-untyped-def]
    return _count_between(x.reshape(-1, x.shape[-1]), bins, weight, density)  # type: ignore[no-untyped-call]


_EMPTY = {"sum": 0.0, "mean": 0.0, "prod": 1.0, "max": -torch.inf, "min": torch.inf}
_REDUCE = {"sum": "sum", "mean": "sum", "prod": "prod", "max": "amax", "min": "amin"}


def _segment_reduce(  # type: ignore[no-untyped-def]
    data, reduce, *, lengths=None, indices=None, offsets=None, axis=0, unsafe=False, initial=None
):
    """Segment by segment along `axis`, each begun with `initial`."""
    if offsets is None:
        offsets = torch.nn.functional.pad(lengths.cumsum(-1), (1, 0))
    segments, size = offsets.shape[-1] - 1, data.shape[axis]
    # What lies before the first segment or after the last goes to one more, which is cut off.
    place = torch.arange(size, dtype=offsets.dtype)
    segment = (place.unsqueeze(-1) >= offsets[..., None, 1:]).sum(-1)
    segment = torch.where(place < offsets[..., :1], segments, segment)
    wide = segment.reshape(*segment.shape, *[1] * (data.dim() - axis - 1)).expand(data.shape)
    start = _EMPTY[reduce] if initial is None else initial
    begun = torch.full((*data.shape[:axis], segments + 1, *data.shape[axis + 1 :]), start, dtype=data.dtype)
    result = begun.scatter_reduce(axis, wide, data, _REDUCE[reduce]).narrow(axis, 0, segments)
    if reduce != "mean":
        return result
    counts = (offsets[..., 1:] - offsets[..., :-1]).reshape(
        *offsets.shape[:-1], segments, *[1] * (data.dim() - axis - 1)
    )
    mean = result / counts.to(data.dtype)
    return mean if initial is None else torch.where(counts == 0, result, mean)


def _fractional_max_pool(x, kernel_size, output_size, random_samples):  # type: ignore[no-untyped-def]
    """Windows that begin where the random numbers of an image say; in any number of dimensions."""
    dims = len(kernel_size)
    batched = x if x.dim() == dims + 2 else x.unsqueeze(0)
    leading, sizes = batched.shape[:2], batched.shape[2:]
    flat = torch.zeros((), dtype=torch.int64)
    for d, (size, kernel, out) in enumerate(zip(sizes, kernel_size, output_size, strict=True)):
        # Images have the width's number first, volumes the depth's.
        sample = random_samples[: leading[0], :, 1 - d if dims == 2 else d].unsqueeze(-1)
        first = torch.zeros((*leading, 0), dtype=torch.int64)
        if out > 1:
            step = torch.full((), (size - kernel) / (out - 1), dtype=x.dtype)
            number = torch.arange(out - 1, dtype=x.dtype)
            first = ((number + sample) * step).to(torch.int64) - (sample * step).to(torch.int64)
        begins = torch.cat([first, torch.full((*leading, 1), size - kernel, dtype=torch.int64)], -1)
        places = begins.unsqueeze(-1) + torch.arange(kernel)  # [batch, channels, out, kernel]
        shape = [1] * (2 * dims)
        shape[d], shape[dims + d] = out, kernel
        flat = flat * size + places.reshape(*leading, *shape)
    window = flat.reshape(*leading, *output_size, math.prod(kernel_size))
    values = batched.flatten(2).gather(-1, window.flatten(2)).reshape(window.shape)
    best = values.argmax(-1, keepdim=True)
    found, index = values.gather(-1, best).squeeze(-1), window.gather(-1, best).squeeze(-1)
    return (found, index) if batched is x else (found.squeeze(0), index.squeeze(0))


def _multilabel_margin(x, target, reduction):  # type: ignore[no-untyped-def]
    """What torch splits this into counts class 0 once for each label behind the first -1."""
    rows, labels = torch.atleast_2d(x), torch.atleast_2d(target)
    classes = torch.arange(rows.shape[1], dtype=labels.dtype)
    given = (labels == -1).cumsum(-1) == 0
    told = torch.where(given, labels, 0)
    is_target = ((told.unsqueeze(-1) == classes) & given.unsqueeze(-1)).any(1)
    short = (1 - rows.gather(1, told).unsqueeze(-1) + rows.unsqueeze(1)).clamp_min(0)
    counted = given.unsqueeze(-1) & ~is_target.unsqueeze(1)  # [batch, label, class]
    loss = torch.where(counted, short, 0).sum((1, 2)) / rows.shape[1]
    reduced = (loss if x.dim() == 2 else loss.squeeze(0), loss.mean(), loss.sum())[reduction]
    return reduced, is_target.to(x.dtype).reshape(target.shape)


def _multilabel_margin_loss(x, target, reduction=1):  # type: ignore[no-untyped-def]
    return _multilabel_margin(x, target, reduction)[0]  # type: ignore[no-untyped-call]


def _take(x, index):  # type: ignore[no-untyped-def]
    return aten.index.Tensor(x.reshape(-1), [index])


def _bucketize(x, edges, **options):  # type: ignore[no-untyped-def]
    """torch's own asks a single number for its value."""
    split = decomposition_table[aten.bucketize.Tensor]
    return split(x, edges, **options) if x.dim() else split(x.reshape(1), edges, **options).reshape(())


def _linspace(op: OpOverload) -> Callable[..., Any]:
    """Of integers the ends are cut to integers first, as ATen does and torch's own does not."""

    def split(start: Any, end: Any, steps: Any, *, dtype: Any = None, **options: Any) -> Any:
        dtype = dtype or torch.get_default_dtype()
        if dtype.is_floating_point or dtype.is_complex:
            return decomposition_table[op](start, end, steps, dtype=dtype, **options)
        start, end = (
            value.to(dtype).to(torch.float64) if isinstance(value, torch.Tensor) else float(int(value))
            for value in (start, end)
        )
        step, number = (end - start) / torch.sym_max(steps - 1, 1), torch.arange(steps, dtype=torch.float64)
        ascending, descending = start + step * number, end - step * (steps - 1 - number)
        half = torch.sym_max(steps // 2, 1)  # a single number is the first end
        return torch.where(number < half, ascending, descending).to(dtype)

    return split


def _geometric(x, p, generator=None):  # type: ignore[no-untyped-def]
    """How many attempts there are up to the first success, each of probability `p`."""
    drawn = torch.rand_like(x, dtype=x.dtype if x.is_floating_point() else torch.float32)
    return (torch.floor(torch.log1p(-drawn) / math.log1p(-p)) + 1).to(x.dtype)


def _max_unpool(op: OpOverload) -> Callable[..., Any]:
    def split(x: Any, places: Any, *sizes: Any) -> Any:
        return decomposition_table[op](x, from_start(places), *sizes)

    return split


def _one_hot(x, classes=-1):  # type: ignore[no-untyped-def]
    """Written where the classes are, each of which has to be one."""
    if classes < 1:
        return aten.one_hot.default.decompose(x, classes)
    zeros = torch.zeros(*x.shape, classes, dtype=torch.int64)
    return zeros.scatter(-1, x.to(torch.int64).unsqueeze(-1), 1)


def _of_tensors(op: OpOverload) -> Callable[..., Any]:
    """`op` where numbers stand for tensors."""

    def split(*args: Any) -> Any:
        return op(*(value if isinstance(value, torch.Tensor) else torch.full((), value) for value in args))

    return split


# Functions of two numbers whose overloads for a number beside a tensor have no kernels of their own.
_OF_TWO = (
    *(
        "xlogy",
        "special_xlog1py",
        "special_zeta",
        "special_legendre_polynomial_p",
        "special_laguerre_polynomial_l",
    ),
    *("special_hermite_polynomial_h", "special_hermite_polynomial_he"),
    *(f"special_{shifted}chebyshev_polynomial_{kind}" for shifted in ("", "shifted_") for kind in "tuvw"),
)


_LINSPACE = (
    *(aten.linspace.default, aten.linspace.Scalar_Tensor, aten.linspace.Tensor_Scalar),
    aten.linspace.Tensor_Tensor,
)


def _mixed() -> Iterator[tuple[OpOverload, Callable[..., Any]]]:
    for name in _OF_TWO:
        packet = getattr(aten, name)
        of_tensors = packet.Tensor if name == "xlogy" else packet.default
        for overload in packet.overloads():
            if "scalar" in overload.lower() and "out" not in overload.lower():
                yield getattr(packet, overload), _of_tensors(of_tensors)


SPLITS: dict[OpOverload, Callable[..., Any]] = {
    aten.bucketize.Tensor: _bucketize,
    aten.fractional_max_pool2d.default: _fractional_max_pool,
    aten.fractional_max_pool3d.default: _fractional_max_pool,
    aten.frexp.Tensor: _frexp,
    aten.geometric.default: _geometric,
    aten.histogram.bin_ct: _histogram,
    aten.histogram.bins_tensor: _histogram_of,
    aten._histogramdd_bin_edges.default: _histogramdd_edges,
    aten._histogramdd_from_bin_cts.default: _histogramdd,
    aten._histogramdd_from_bin_tensors.default: _histogramdd_of,
    aten.max_unpool2d.default: _max_unpool(aten.max_unpool2d.default),
    aten.max_unpool3d.default: _max_unpool(aten.max_unpool3d.default),
    aten.multilabel_margin_loss.default: _multilabel_margin_loss,
    aten.multilabel_margin_loss_forward.default: _multilabel_margin,
    aten.one_hot.default: _one_hot,
    aten.segment_reduce.default: _segment_reduce,
    aten.take.default: _take,
    torch.ops.prims.convert_element_type.default: lambda x, dtype: x.to(dtype),
    **{op: _linspace(op) for op in _LINSPACE},
    **dict(_mixed()),
}
