"""Conditions on sizes: for which the branches of Python that were taken in tracing are the right ones."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import sympy
import torch
from torch.fx import Graph
from torch.utils._sympy.functions import Mod, PythonMod
from torch.utils._sympy.value_ranges import ValueRanges, bound_sympy

from penlight.ir.sizes import without_exact_quotients, without_remainders

_TORCH, _OURS = str(Path(torch.__file__).parent), str(Path(__file__).parents[1])
_DISPATCH = str(Path(_TORCH, "_ops.py"))  # operators in C++ are called here
_SQUEEZES = (torch.ops.aten.squeeze, torch.ops.aten.squeeze_copy)
_LAYOUT = re.compile("contiguous|strides|channels_last|reshape_view|non_overlapping|should_swap|^ge$")


def guards_of(graph: Graph) -> list[sympy.Basic]:
    """What torch asked so far, but for what follows from the ranges of sizes."""
    sizes = (size for node in graph.find_nodes(op="placeholder") for size in _numbers(node.meta.get("val")))
    first = next(sizes, None)
    if first is None:
        return []
    environment = first.node.shape_env
    asked = [guard.expr for guard in environment.guards if not _is_about_layout(guard)]
    found = dict.fromkeys(map(environment.replace, asked))
    return [guard for guard in found if not _follows(guard, dict(environment.var_to_range))]


def guards_of_squeezes(graph: Graph) -> list[sympy.Basic]:
    """That no dimension is 1 which a squeeze kept in tracing: it would drop it, and torch does not ask."""
    found: dict[sympy.Basic, None] = {}
    for node in graph.nodes:
        if node.op != "call_function" or getattr(node.target, "overloadpacket", None) not in _SQUEEZES:
            continue
        sizes = node.args[0].meta["val"].shape
        given = node.args[1:2] or (range(len(sizes)),)
        dims = [given[0]] if isinstance(given[0], int) else list(given[0])
        for size in (sizes[dim] for dim in dims if sizes):
            if isinstance(size, torch.SymInt):
                ranges = size.node.shape_env.var_to_range
                # From 2 on is what torch says of every size.
                known = {s: r if r.lower > 2 else ValueRanges(0, r.upper) for s, r in ranges.items()}
                guard = sympy.Ne(size.node.expr, 1)
                if not _follows(guard, known):
                    found[guard] = None
    return list(found)


def _is_about_layout(guard: Any) -> bool:
    """Did torch ask for what changes no result: strides, or whether a size is 0 or 1 where any would do?

    An operator that finds two sizes or strides unlike goes on with what holds for like ones too: a copy
    instead of a view.
    Passes of our own write what holds for all sizes.
    """
    place = getattr(getattr(guard, "sloc", None), "framework_loc", None)
    if place is None or not str(place.filename).startswith((_TORCH, _OURS)):
        return False
    if _LAYOUT.search(place.name) or str(place.filename).startswith(_OURS):
        return True
    expr = guard.expr
    is_unlike = isinstance(expr, sympy.Ne) and all(side.free_symbols for side in expr.args)
    if is_unlike and str(place.filename) == _DISPATCH:
        return True
    is_not_small = isinstance(expr, sympy.Ne | sympy.Gt | sympy.Ge) and expr.args[1] in (0, 1, 2)
    return is_not_small and not expr.has(Mod, PythonMod)


def _numbers(value: object) -> list[torch.SymInt]:
    if isinstance(value, torch.SymInt):
        return [value]
    sizes: Any = value.shape if isinstance(value, torch.Tensor) else ()
    return [size for size in sizes if isinstance(size, torch.SymInt)]


def _follows(guard: sympy.Basic, ranges: dict[sympy.Symbol, ValueRanges[Any]]) -> bool:
    return any(_holds(form, ranges) for form in (guard, without_exact_quotients(without_remainders(guard))))


def _holds(guard: sympy.Basic, ranges: dict[sympy.Symbol, ValueRanges[Any]]) -> bool:
    if guard == sympy.true:
        return True
    try:
        known = bound_sympy(guard, ranges)
    except Exception:  # an operation whose interval torch does not know
        return False
    return bool(known.lower == known.upper == sympy.true)
