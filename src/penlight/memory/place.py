"""Algorithms that give requests for memory their offsets.

An algorithm is a function of requests and an alignment that sets every
request's `offset`. Two requests whose lifetimes overlap must not share a byte.
"""

from __future__ import annotations

import bisect
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from penlight.memory.lifetimes import Lifetime


@dataclass
class Request:
    """Bytes needed from step `start` to step `end`, both included."""

    name: str
    nbytes: int
    start: int
    end: int
    offset: int = 0

    @property
    def lifetime(self) -> Lifetime:
        return Lifetime(self.start, self.end)


_SPAN = 64  # steps whose tensors are looked through together

Algorithm: TypeAlias = Callable[[Sequence[Request], int], None]


def arena_size(requests: Sequence[Request], alignment: int) -> int:
    """Bytes up to the last one in use."""
    return _aligned(max((request.offset + request.nbytes for request in requests), default=0), alignment)


def naive(requests: Sequence[Request], alignment: int) -> None:
    """Every request its own bytes: the largest arena, and the easiest to debug in."""
    end = 0
    for request in requests:
        request.offset = end
        end = _aligned(end + request.nbytes, alignment)


def greedy(requests: Sequence[Request], alignment: int) -> None:
    """Place one request after the other in the lowest gap that is free for its whole life.

    Not optimal (the problem is NP-hard). Several orders are tried, largest first
    among them; then whatever ends up at the top of the arena is placed first in
    another try. It stops when no more is needed than is alive at the fullest step.

    Source: greedy by size with offset calculation, Pisarchyk & Lee 2020, arXiv:2001.03288.
    """
    bound = lower_bound(requests, alignment)
    tries = min(24, 4000 // max(len(requests), 1)) + 1
    best: list[int] | None = None
    best_size = 0
    for key in _ORDERS:
        order = sorted(requests, key=key)
        for _ in range(tries):
            _place(order, alignment)
            size = arena_size(requests, alignment)
            if best is None or size < best_size:
                best, best_size = [request.offset for request in requests], size
            if best_size <= bound:
                break
            top = max(range(len(order)), key=lambda i: order[i].offset + order[i].nbytes)
            order.insert(0, order.pop(top))
        if best_size <= bound:
            break
    for request, offset in zip(requests, best or [], strict=True):
        request.offset = offset


_ORDERS: tuple[Callable[[Request], tuple[int, ...]], ...] = (
    lambda r: (-r.nbytes, r.start),
    lambda r: (-r.nbytes * (r.end - r.start + 1), r.start),
    lambda r: (r.start - r.end, -r.nbytes),
    lambda r: (r.start, -r.nbytes),
)


def lower_bound(requests: Sequence[Request], alignment: int) -> int:
    """Bytes alive at the fullest step: no plan needs less."""
    changes: dict[int, int] = {}
    for request in requests:
        size = _aligned(request.nbytes, alignment)
        changes[request.start] = changes.get(request.start, 0) + size
        changes[request.end + 1] = changes.get(request.end + 1, 0) - size
    alive = most = 0
    for step in sorted(changes):
        alive += changes[step]
        most = max(most, alive)
    return most


def _place(ordered: Sequence[Request], alignment: int) -> None:
    # Offset, end of bytes, first and last step; by offset. And those alive in each span of steps: to look
    # through one span is less than through all, through many would be more.
    placed: list[tuple[int, int, int, int]] = []
    alive: defaultdict[int, list[tuple[int, int, int, int]]] = defaultdict(list)
    for request in ordered:
        spans = range(request.start // _SPAN, request.end // _SPAN + 1)
        if len(spans) > 2:
            near = placed
        else:
            near = alive[spans[0]] if len(spans) == 1 else sorted({*alive[spans[0]], *alive[spans[1]]})
        gap = 0
        for offset, end, start, stop in near:
            if start > request.end or stop < request.start:
                continue
            if offset - gap >= request.nbytes:
                break
            if end > gap:
                gap = end
        request.offset = gap
        if request.nbytes:
            end = _aligned(gap + request.nbytes, alignment)
            for some in (placed, *(alive[span] for span in spans)):
                bisect.insort(some, (gap, end, request.start, request.end))


def _aligned(value: int, alignment: int) -> int:
    return -(-value // alignment) * alignment
