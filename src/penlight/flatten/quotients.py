"""Conditions on quotients and floating multiples of sizes, as conditions on whole numbers.

`n / m > 1.3` is `10 * n > 13 * m`. A floating number counts as the decimal fraction that Python writes it as.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any

import sympy
from sympy.core.relational import Relational
from torch.utils._sympy.functions import (
    CeilToInt,
    FloatTrueDiv,
    FloorDiv,
    FloorToInt,
    IntTrueDiv,
    Max,
    Min,
    Mod,
    RoundToInt,
    ToFloat,
    TruncToInt,
)

_LARGEST = 10**9  # of a denominator: products of it and sizes have 64 bits
_FLOATING = (FloatTrueDiv, IntTrueDiv, ToFloat, sympy.Float, sympy.Abs)
_TO_WHOLE = (CeilToInt, FloorToInt, RoundToInt, TruncToInt)


class NotWhole(Exception):
    """A root or power, the sign of a divisor that is not known, a number with too many digits."""


def in_whole_numbers(condition: sympy.Basic) -> sympy.Basic:
    """The same condition for all sizes.

    Raises:
        NotWhole: it has no such form.
    """
    if not condition.has(*_FLOATING, *_TO_WHOLE):
        return condition
    if isinstance(condition, Relational):
        (left, below_left), (right, below_right) = map(_fraction, condition.args)
        return condition.func(left * below_right, right * below_left)
    if isinstance(condition, sympy.And | sympy.Or | sympy.Not):
        return condition.func(*map(in_whole_numbers, condition.args))
    raise NotWhole


def _fraction(expr: Any) -> tuple[Any, Any]:
    """Numerator and denominator, which is positive."""
    if isinstance(expr, sympy.Float | sympy.Rational):
        number = Fraction(str(float(expr)) if isinstance(expr, sympy.Float) else str(expr))
        if number.denominator > _LARGEST:
            raise NotWhole
        return sympy.Integer(number.numerator), sympy.Integer(number.denominator)
    if isinstance(expr, ToFloat):
        return _fraction(expr.args[0])
    if isinstance(expr, IntTrueDiv | FloatTrueDiv):
        (above, below), (divisor, under) = map(_fraction, expr.args)
        if not divisor.is_positive:
            raise NotWhole
        return above * under, below * divisor
    if isinstance(expr, sympy.Abs):
        above, below = _fraction(expr.args[0])
        return Max(above, -above), below
    if isinstance(expr, sympy.Add | sympy.Mul):
        return _joined(expr)
    return _whole(expr), sympy.Integer(1)


def _joined(expr: Any) -> tuple[Any, Any]:
    above, below = _fraction(expr.args[0])
    for part in expr.args[1:]:
        other, under = _fraction(part)
        above = above * under + other * below if isinstance(expr, sympy.Add) else above * other
        below = below * under
    return above, below


def _whole(expr: Any) -> Any:
    if isinstance(expr, _TO_WHOLE):
        above, below = _fraction(expr.args[0])
        return _ROUNDED[type(expr)](above, below)
    if not expr.is_integer:
        raise NotWhole
    if not expr.has(*_FLOATING, *_TO_WHOLE):
        return expr
    parts = []
    for part in expr.args:
        above, below = _fraction(part)
        if below != 1:
            raise NotWhole
        parts.append(above)
    return expr.func(*parts)


def _truncated(above: Any, below: Any) -> Any:
    if not above.is_nonnegative:
        raise NotWhole
    return FloorDiv(above, below)


def _to_nearest(above: Any, below: Any) -> Any:
    """Halves to the even number."""
    twice = 2 * above + below
    upper = FloorDiv(twice, 2 * below)
    return upper - (1 - Min(1, Mod(twice, 2 * below))) * Mod(upper, 2)


_ROUNDED: dict[type, Callable[[Any, Any], Any]] = {
    CeilToInt: lambda above, below: FloorDiv(above + below - 1, below),
    FloorToInt: FloorDiv,
    RoundToInt: _to_nearest,
    TruncToInt: _truncated,
}
