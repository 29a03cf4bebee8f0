"""Values that indices alone determine: lines, and bands along diagonals; and what is computed of them.

A line grows by a whole number along each dimension. Bands depend on how far two indices are apart, and
change at few distances. Whatever sizes a tensor has, these say what its elements are.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch

Number = bool | int | float
_MOST_EDGES = 4


@dataclass(frozen=True)
class Line:
    """The whole number start + the sum of factors * indices."""

    factors: tuple[int, ...]
    start: int


@dataclass(frozen=True)
class Bands:
    """values[k] from edges[k - 1] to below edges[k], of the index of one dimension less another's."""

    values: tuple[Number, ...]
    edges: tuple[int, ...] = ()
    dims: tuple[int, int] = (0, 0)

    def at(self, distance: int) -> Number:
        return self.values[sum(edge <= distance for edge in self.edges)]


Known = Line | Bands


def of_sizes(known: Known, sizes: Sequence[Any]) -> Known | None:
    """There is one index along a dimension of size 1: bands along it are none where it is broadcast."""
    if isinstance(known, Bands):
        return None if known.edges and any(sizes[d] == 1 for d in known.dims) else known
    factors = (0 if size == 1 else factor for factor, size in zip(known.factors, sizes, strict=True))
    return replace(known, factors=tuple(factors))


def compared(target: Any, difference: Line) -> Bands | None:
    """Where a line is less than zero, say."""

    def holds(number: int) -> bool:
        result: bool = target.overloadpacket(torch.tensor(number), 0).item()
        return result

    dims = [d for d, factor in enumerate(difference.factors) if factor]
    if not dims:
        return Bands((holds(difference.start),))
    if len(dims) != 2 or difference.factors[dims[0]] != -difference.factors[dims[1]]:
        return None
    factor = difference.factors[dims[0]]
    below, above = -(difference.start // factor), -difference.start // factor + 1  # of where it is zero
    edges = sorted({below, above})
    values = [holds(factor * at + difference.start) for at in (edges[0] - 1, *edges)]
    return _simplest(values, edges, (dims[0], dims[1]))


def as_line(known: Known | None, rank: int) -> Line | None:
    """A line, or a constant as one."""
    if isinstance(known, Bands):
        whole = not known.edges and isinstance(known.values[0], int)
        return Line((0,) * rank, int(known.values[0])) if whole else None
    return known


def _simplest(values: Sequence[Number], edges: Sequence[int], dims: tuple[int, int]) -> Bands:
    """Neighbours that are equal made one."""
    kept = [k for k in range(len(edges)) if values[k] != values[k + 1]]
    return Bands(
        (values[0], *(values[k + 1] for k in kept)), tuple(edges[k] for k in kept), dims if kept else (0, 0)
    )


def diagonals(matrix: torch.Tensor, rank: int) -> Bands | None:
    """Of a matrix, the last two of `rank` dimensions, whose diagonals have few different values."""
    if not torch.equal(matrix[1:, 1:], matrix[:-1, :-1]):
        return None
    values = [*matrix[0].flip(0).tolist(), *matrix[1:, 0].tolist()]
    edges = [k for k in range(1, len(values)) if values[k] != values[k - 1]]
    if len(edges) > _MOST_EDGES:
        return None
    found = [values[k] for k in (0, *edges)]
    return _simplest(found, [k - len(matrix) + 1 for k in edges], (rank - 2, rank - 1))


def moved(known: Known, sources: Sequence[int | None]) -> Known | None:
    """With dimensions from others, or new ones along which nothing changes."""
    if isinstance(known, Line):
        if any(factor for d, factor in enumerate(known.factors) if d not in sources):
            return None
        return replace(known, factors=tuple(0 if d is None else known.factors[d] for d in sources))
    if not known.edges:
        return known
    if any(d not in sources for d in known.dims):
        return None
    first, second = (sources.index(d) for d in known.dims)
    found = replace(known, dims=(first, second))
    return found if first < second else _turned(found)


def aligned(known: Known, rank: int, wanted: int) -> Known | None:
    return moved(known, [None] * (wanted - rank) + list(range(rank)))


def from_index(known: Known, dim: int, start: int) -> Known | None:
    """From an index on along a dimension."""
    if start < 0:
        return None
    if isinstance(known, Line):
        return replace(known, start=known.start + known.factors[dim] * start)
    if not known.edges or dim not in known.dims:
        return known
    shift = -start if dim == known.dims[0] else start
    return replace(known, edges=tuple(edge + shift for edge in known.edges))


def combined(parts: Sequence[Known | None], compute: Callable[..., Number]) -> Bands | None:
    """What is computed of bands along the same two dimensions, band by band."""
    found = [part for part in parts if isinstance(part, Bands)]
    if len(found) < len(parts) or not found:
        return None
    dims = {part.dims for part in found if part.edges}
    edges = sorted({edge for part in found for edge in part.edges})
    if len(dims) > 1 or len(edges) > _MOST_EDGES:
        return None
    places = [edges[0] - 1, *edges] if edges else [0]
    return _simplest(
        [compute(*(part.at(at) for part in found)) for at in places], edges, min(dims, default=(0, 0))
    )


def _turned(bands: Bands) -> Bands:
    """The same along its dimensions the other way about."""
    edges = tuple(1 - edge for edge in reversed(bands.edges))
    return Bands(bands.values[::-1], edges, (bands.dims[1], bands.dims[0]))
