"""Memory planning: lifetimes, shared bytes, algorithms, report."""

from __future__ import annotations

from penlight.memory.place import Algorithm, Request, greedy, naive
from penlight.memory.planner import MemoryReport, Region, plan_memory
from penlight.memory.unshared import find_unshared
from penlight.memory.views import elide_views

__all__ = [
    "Algorithm",
    "MemoryReport",
    "Region",
    "Request",
    "elide_views",
    "find_unshared",
    "greedy",
    "naive",
    "plan_memory",
]
