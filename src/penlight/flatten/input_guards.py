"""Conditions on sizes of inputs as the runtime checks them before each run: in reverse Polish notation.

A branch of Python on `x.shape[0] % 2` was taken when the model was traced; sizes for which the other one
would have been taken are refused.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import sympy
import torch
from torch.utils._sympy.functions import CleanDiv, FloorDiv, Max, Min, Mod
from torch.utils._sympy.functions import PythonMod as RemainderOfPython

from penlight.errors import UnboundedShape
from penlight.flatten.input_limits import symbol_of
from penlight.flatten.quotients import NotWhole, in_whole_numbers
from penlight.ir.plan import Guard

# Numbers of runtime/exec/input_guards.cpp and runtime/core/integer_codes.h; conditions are 1 and 0.
_NUMBER, _SIZE = 0, 1
_ADD, _FLOOR_DIVIDE, _MIN, _MAX = 5, 8, 16, 17
_OPERATIONS: dict[Any, tuple[int, str]] = {
    sympy.Add: (_ADD, "{} + {}"),
    sympy.Mul: (7, "{} * {}"),
    FloorDiv: (_FLOOR_DIVIDE, "{} // {}"),
    CleanDiv: (_FLOOR_DIVIDE, "{} // {}"),
    Mod: (9, "{} % {}"),
    RemainderOfPython: (9, "{} % {}"),
    sympy.Eq: (10, "{} == {}"),
    sympy.Ne: (11, "{} != {}"),
    sympy.StrictLessThan: (12, "{} < {}"),
    sympy.LessThan: (13, "{} <= {}"),
    sympy.StrictGreaterThan: (14, "{} > {}"),
    sympy.GreaterThan: (15, "{} >= {}"),
    Min: (_MIN, "min({}, {})"),
    Max: (_MAX, "max({}, {})"),
    sympy.And: (_MIN, "{} and {}"),
    sympy.Or: (_MAX, "{} or {}"),
}
_EQUAL = _OPERATIONS[sympy.Eq][0]
_MOST_WORDS, _DEEPEST = 256, 16  # of the runtime's stack
_MOST_SHOWN = 200  # characters of a condition


class _Unknown(Exception):
    """What has no form here."""


def input_guards(guards: Sequence[sympy.Basic], examples: Sequence[Any], names: Sequence[str]) -> list[Guard]:
    """The guards of a method, given the fake value and the name of each input, in their order.

    Those on numbers that a run computes are not checked; of others that cannot be there is a warning.

    Raises:
        UnboundedShape: a condition holds for one size alone of a dimension that was to be dynamic.
    """
    places = _places(examples, names)
    found = []
    unknown = []
    for guard in guards:
        if not guard.free_symbols <= places.keys():
            continue
        try:
            whole = in_whole_numbers(guard)
            _check_open(whole, places)
            words, text, _ = _words(whole, places)
        except (_Unknown, NotWhole):
            words = None
        if words is None or len(words) > _MOST_WORDS or _depth(words) > _DEEPEST:
            unknown.append(guard)
        else:
            found.append(Guard(words, text))
    if unknown:
        _warn(unknown, places)
    return found


def _check_open(guard: sympy.Basic, places: dict[sympy.Symbol, tuple[list[int], str]]) -> None:
    """torch makes a dimension static that has to be some number, but not if that takes a division."""
    if not isinstance(guard, sympy.Eq) or len(guard.free_symbols) != 1:
        return
    (symbol,) = guard.free_symbols
    rest = sympy.expand(guard.lhs - guard.rhs)
    if not rest.is_polynomial(symbol) or sympy.degree(rest, symbol) != 1:
        return
    size, (_, text) = -rest.coeff(symbol, 0) / rest.coeff(symbol, 1), places[symbol]
    raise UnboundedShape(
        f"{text} was asked to be dynamic, but the model fixes it to {size}",
        got=f"it was traced for {guard.subs(symbol, sympy.Symbol(text))}",
        do="leave the dimension static, or have the model take other sizes too",
    )


def _warn(guards: Sequence[sympy.Basic], places: dict[sympy.Symbol, tuple[list[int], str]]) -> None:
    """One warning for all: the shortest is the one to understand."""
    names = {symbol: sympy.Symbol(text) for symbol, (_, text) in places.items()}
    shown = min((str(guard.subs(names)) for guard in guards), key=len)
    if len(shown) > _MOST_SHOWN:
        shown = f"{shown[:_MOST_SHOWN]} ..."
    others = len(guards) - 1
    more = f" and {others} more condition{'s' * (others > 1)}" if others else ""
    warnings.warn(
        f"the model was traced for sizes with {shown}{more}, and the program cannot check that: "
        "for others it computes what the other branch of Python would not",
        stacklevel=2,
    )


def _places(examples: Sequence[Any], names: Sequence[str]) -> dict[sympy.Symbol, tuple[list[int], str]]:
    """Where each symbol is: a size that it is alone before one that has it in 2*s + 1."""
    plain: dict[sympy.Symbol, tuple[list[int], str]] = {}
    others: dict[sympy.Symbol, tuple[list[int], str]] = {}
    for index, (example, name) in enumerate(zip(examples, names, strict=True)):
        sizes = [(-1, example)] if isinstance(example, torch.SymInt) else []
        sizes += enumerate(getattr(example, "shape", ()))
        for dim, size in sizes:
            factor, offset, symbol = symbol_of(size)
            if symbol is None:
                continue
            words, text = [_SIZE, index, dim], name if dim < 0 else f"{name}.shape[{dim}]"
            if (factor, offset) == (1, 0):
                plain.setdefault(symbol, (words, text))
                continue
            if offset:
                words, text = [*words, _NUMBER, -offset, _ADD], f"({text} - {offset})"
            if factor != 1:
                words, text = [*words, _NUMBER, factor, _FLOOR_DIVIDE], f"({text} // {factor})"
            others.setdefault(symbol, (words, text))
    return others | plain


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
        return [*words, _NUMBER, 0, _EQUAL], f"not ({text})", True
    for kind in _OPERATIONS:
        if isinstance(expr, kind):
            return _joined(kind, expr.args, places)
    raise _Unknown


def _joined(
    kind: Any, parts: Sequence[sympy.Basic], places: dict[sympy.Symbol, tuple[list[int], str]]
) -> tuple[list[int], str, bool]:
    code, form = _OPERATIONS[kind]
    called = form.endswith(")")
    words, text, alone = _words(parts[0], places)
    for part in parts[1:]:
        more, other, other_alone = _words(part, places)
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
        depth += 1 if code in (_NUMBER, _SIZE) else -1
        most = max(most, depth)
    return most
