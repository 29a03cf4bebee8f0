"""Sizes as expressions of sympy's, and other forms of those, of the same value, whose intervals are known."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

import sympy
import torch
from torch._subclasses.fake_tensor import FakeTensor
from torch.utils._sympy.functions import FloorDiv, Mod, PythonMod


def expression(number: Any) -> Any:
    """Of a SymInt and its kin; a number as it is. Comparing expressions decides nothing about the model."""
    return number.node.expr if isinstance(number, torch.SymInt | torch.SymFloat | torch.SymBool) else number


def said_by_view(result: Any, asked: Sequence[Any], first: int = 0) -> dict[sympy.Expr, int]:
    """What sizes of a view's result are, from the numbers among those it was asked for.

    `first` is the dimension of the first.
    """
    if not isinstance(result, torch.Tensor):
        return {}
    pairs = zip(result.shape[first:], asked, strict=False)
    return {
        expression(size): number
        for size, number in pairs
        if isinstance(size, torch.SymInt) and isinstance(number, int) and number >= 0
    }


def with_numbers(value: Any, numbers: Mapping[sympy.Expr, int]) -> Any:
    """A size, or a fake tensor, with numbers for expressions: those given, and those that are constant."""
    if isinstance(value, torch.SymInt):
        old = sympy.sympify(value.node.expr)
        new = sympy.sympify(old.xreplace(numbers))
        if new.is_number:
            return int(new)
        return value if new == old else value.node.shape_env.create_symintnode(new, hint=None)
    if not isinstance(value, FakeTensor):
        return value
    before = (*value.shape, *value.stride())
    after = [with_numbers(number, numbers) for number in before]
    if all(a is b for a, b in zip(before, after, strict=True)):
        return value
    with value.fake_mode:
        return torch.empty_strided(after[: value.dim()], after[value.dim() :], dtype=value.dtype)


def without_exact_quotients(expr: sympy.Expr) -> sympy.Expr:
    """s instead of s*s // s, whose interval would be far too wide, or none where s may be 0."""
    return expr.replace(FloorDiv, _exact_quotient)


@lru_cache(4096)  # the sizes of each layer have those of the layers before it in several places
def _exact_quotient(numerator: sympy.Expr, denominator: sympy.Expr) -> sympy.Expr:
    quotient = sympy.cancel(numerator / denominator)
    exact = sympy.fraction(sympy.together(quotient))[1] == 1
    return quotient if exact else FloorDiv(numerator, denominator)


def without_remainders(expr: sympy.Expr) -> sympy.Expr:
    """-(-s//8)*8 for s + -s % 8, of which a quotient by 8 is exact.

    The interval of a remainder that stays is wider than it was.
    """

    def quotient(numerator: sympy.Expr, denominator: sympy.Expr) -> sympy.Expr:
        terms = sympy.Add.make_args(sympy.expand(numerator))
        whole = [
            t for t in terms if denominator.is_Integer and (t.as_coeff_Mul()[0] / denominator).is_Integer
        ]
        rest = sympy.Add(*terms) - sympy.Add(*whole)
        return sympy.Add(*whole) / denominator + FloorDiv(rest, denominator)

    def remainder(numerator: sympy.Expr, denominator: sympy.Expr) -> sympy.Expr:
        return sympy.expand(numerator - denominator * quotient(numerator, denominator))

    for kind in (PythonMod, Mod):
        expr = expr.replace(
            lambda e, kind=kind: isinstance(e, kind) and e.args[1].is_positive, lambda e: remainder(*e.args)
        )
    return expr.replace(FloorDiv, quotient)
