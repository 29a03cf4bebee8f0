"""Sizes as expressions of sympy's, and other forms of those, of the same value, whose intervals are known."""

from __future__ import annotations

from typing import Any

import sympy
import torch
from torch.utils._sympy.functions import FloorDiv, Mod, PythonMod


def expression(number: Any) -> Any:
    """Of a SymInt and its kin; a number as it is. Comparing expressions decides nothing about the model."""
    return number.node.expr if isinstance(number, torch.SymInt | torch.SymFloat | torch.SymBool) else number


def without_exact_quotients(expr: sympy.Expr) -> sympy.Expr:
    """s instead of s*s // s, whose interval would be far too wide, or none where s may be 0."""

    def divide(numerator: sympy.Expr, denominator: sympy.Expr) -> sympy.Expr:
        quotient = sympy.cancel(numerator / denominator)
        exact = sympy.fraction(sympy.together(quotient))[1] == 1
        return quotient if exact else FloorDiv(numerator, denominator)

    return expr.replace(FloorDiv, divide)


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
