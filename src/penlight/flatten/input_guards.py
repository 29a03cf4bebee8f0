"""Conditions on sizes of inputs as the runtime checks them before each run: in reverse Polish notation.

A branch of Python on `x.shape[0] % 2` was taken when the model was traced; sizes for which the other one
would have been taken are refused.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import sympy
import torch
from torch.utils._sympy.functions import CeilToInt, CleanDiv, FloorDiv, FloorToInt, IntTrueDiv, Max, Min, Mod
from torch.utils._sympy.functions import PythonMod as RemainderOfPython

from penlight.flatten.input_limits import symbol_of
from penlight.ir.plan import Guard

# Numbers of runtime/exec/input_guards.cpp.
_NUMBER, _SIZE = 0, 1
_OPERATIONS: dict[Any, tuple[int, str]] = {
    sympy.Add: (2, "{} + {}"),
    sympy.Mul: (3, "{} * {}"),
    FloorDiv: (4, "{} // {}"),
    CleanDiv: (4, "{} // {}"),
    Mod: (5, "{} % {}"),
    RemainderOfPython: (5, "{} % {}"),
    Min: (6, "min({}, {})"),
    Max: (7, "max({}, {})"),
    sympy.Eq: (8, "{} == {}"),
    sympy.Ne: (9, "{} != {}"),
    sympy.StrictLessThan: (10, "{} < {}"),
    sympy.LessThan: (11, "{} <= {}"),
    sympy.And: (12, "{} and {}"),
    sympy.Or: (13, "{} or {}"),
}
_SWAPPED = {sympy.StrictGreaterThan: sympy.StrictLessThan, sympy.GreaterThan: sympy.LessThan}
_NOT = 14
_MOST_WORDS, _DEEPEST = 256, 16  # of the runtime's stack


class _Unknown(Exception):
    """What has no form here: a number that is no size, a quotient that is not whole."""


def input_guards(guards: Sequence[sympy.Basic], examples: Sequence[Any], names: Sequence[str]) -> list[Guard]:
    """The guards of a method, given the fake value and the name of each input, in their order.

    Those on numbers that a run computes are not checked.
    """
    places: dict[sympy.Symbol, tuple[list[int], str]] = {}
    for index, (example, name) in enumerate(zip(examples, names, strict=True)):
        sizes = [(-1, example)] if isinstance(example, torch.SymInt) else []
        sizes += enumerate(getattr(example, "shape", ()))
        for dim, size in sizes:
            factor, offset, symbol = symbol_of(size)
            if symbol is None or (symbol in places and places[symbol][1].count(" ") == 0):
                continue
            words, text = [_SIZE, index, dim], name if dim < 0 else f"{name}.shape[{dim}]"
            if offset:
                words, text = [*words, _NUMBER, -offset, 2], f"({text} - {offset})"
            if factor != 1:
                words, text = [*words, _NUMBER, factor, 4], f"({text} // {factor})"
            places[symbol] = words, text
    found = []
    for guard in guards:
        try:
            words, text, _ = _words(guard, places)
        except _Unknown:
            continue
        if len(words) <= _MOST_WORDS and _depth(words) <= _DEEPEST:
            found.append(Guard(words, text))
    return found


def _words(
    expr: sympy.Basic, places: dict[sympy.Symbol, tuple[list[int], str]]
) -> tuple[list[int], str, bool]:
    """Words, text, and whether the text stands for itself without parentheses."""
    if expr in places:
        return *places[expr], True
    if isinstance(expr, sympy.Integer):
        return [_NUMBER, int(expr)], str(expr), True
    if isinstance(expr, sympy.Pow) and isinstance(expr.exp, sympy.Integer) and 1 < int(expr.exp) < 8:
        return _joined(sympy.Mul, [expr.base] * int(expr.exp), places)
    if isinstance(expr, sympy.Not):
        words, text, _ = _words(expr.args[0], places)
        return [*words, _NOT], f"not ({text})", True
    if isinstance(expr, FloorToInt | CeilToInt) and isinstance(expr.args[0], IntTrueDiv):
        above, below = expr.args[0].args
        if isinstance(expr, CeilToInt):
            above = above + below - 1
        return _joined(FloorDiv, [above, below], places)
    for kind, other in _SWAPPED.items():
        if isinstance(expr, kind):
            return _joined(other, expr.args[::-1], places)
    for kind in _OPERATIONS:
        if isinstance(expr, kind):
            return _joined(kind, expr.args, places)
    raise _Unknown


def _joined(
    kind: Any, parts: Sequence[sympy.Basic], places: dict[sympy.Symbol, tuple[list[int], str]]
) -> tuple[list[int], str, bool]:
    code, form = _OPERATIONS[kind]
    words, text, alone = _words(parts[0], places)
    for part in parts[1:]:
        more, other, other_alone = _words(part, places)
        called = form.startswith("m")
        words = [*words, *more, code]
        text = form.format(
            text if alone or called else f"({text})", other if other_alone or called else f"({other})"
        )
        alone = called
    return words, text, alone


def _depth(words: Sequence[int]) -> int:
    """How many numbers wait at most for an operation."""
    depth = most = place = 0
    while place < len(words):
        code = words[place]
        place += {_NUMBER: 2, _SIZE: 3}.get(code, 1)
        depth += 1 if code in (_NUMBER, _SIZE) else 0 if code == _NOT else -1
        most = max(most, depth)
    return most
