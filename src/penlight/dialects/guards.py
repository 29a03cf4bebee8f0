"""Conditions on sizes that hold for the branches of Python that were taken when the model was traced (guards)."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import sympy
import torch
from torch.export import ExportedProgram
from torch.utils._sympy.functions import Mod, PythonMod
from torch.utils._sympy.value_ranges import ValueRanges, bound_sympy

_TORCH = str(Path(torch.__file__).parent)
_LAYOUT = re.compile("contiguous|strides|channels_last|reshape_view|non_overlapping")


def guards_of(exported: ExportedProgram) -> list[sympy.Basic]:
    """Those that do not follow from the ranges of sizes; later passes ask torch more, which is no condition."""
    sizes = (
        size
        for node in exported.graph.find_nodes(op="placeholder")
        for size in _numbers(node.meta.get("val"))
    )
    first = next(sizes, None)
    if first is None:
        return []
    environment = first.node.shape_env
    found = dict.fromkeys(
        environment.replace(guard.expr) for guard in environment.guards if not _is_about_layout(guard)
    )
    ranges = {symbol: limits for symbol, limits in exported.range_constraints.items() if symbol.is_Symbol}
    return [guard for guard in found if not _follows(guard, ranges)]


def _is_about_layout(guard: Any) -> bool:
    """Did torch ask, and for what changes no result: strides, or whether a size is 0 or 1 where any would do?"""
    place = getattr(getattr(guard, "sloc", None), "framework_loc", None)
    if place is None or not str(place.filename).startswith(_TORCH):
        return False
    if _LAYOUT.search(place.name):
        return True
    expr = guard.expr
    compares = isinstance(expr, sympy.Rel) and not isinstance(expr, sympy.Eq) and expr.args[1] in (0, 1, 2)
    return compares and not expr.has(Mod, PythonMod)


def _numbers(value: object) -> list[torch.SymInt]:
    if isinstance(value, torch.SymInt):
        return [value]
    sizes = value.shape if isinstance(value, torch.Tensor) else ()
    return [size for size in sizes if isinstance(size, torch.SymInt)]


def _follows(guard: sympy.Basic, ranges: dict[sympy.Symbol, ValueRanges[sympy.Expr]]) -> bool:
    if guard == sympy.true:
        return True
    try:
        known = bound_sympy(guard, ranges)
    except Exception:  # an operation whose interval torch does not know
        return False
    return bool(known.lower == known.upper == sympy.true)
