"""How long one kernel takes on this machine."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

from .kernels import call_kernel


def seconds_of(name: str, arguments: Sequence[Any], *, rounds: int = 9) -> float:
    """The least of several calls of a kernel, after one that warms caches; see `call_kernel`."""
    best = float("inf")
    for number in range(rounds + 1):
        start = time.perf_counter()
        call_kernel(name, arguments)
        if number:
            best = min(best, time.perf_counter() - start)
    return best
