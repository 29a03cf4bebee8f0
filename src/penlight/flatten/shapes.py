"""Shapes at their upper bound.

Memory is planned for the largest tensor a method can meet. Every symbol of a
dynamic dimension has a range; a size such as 2*s + 1 is bounded by interval
arithmetic over it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import sympy
import torch
from torch.utils._sympy.functions import FloorDiv
from torch.utils._sympy.numbers import int_oo
from torch.utils._sympy.value_ranges import ValueRanges, bound_sympy

from penlight.errors import UnboundedShape
from penlight.ir.dtypes import DType
from penlight.ir.sizes import expression, without_exact_quotients, without_remainders
from penlight.passes.contiguous import is_channels_last, is_contiguous

_LARGEST = 1 << 40  # anything beyond is "no bound": torch's default ranges end at 2**63 - 1


def _without_floors(expr: sympy.Expr) -> sympy.Expr:
    """What is never less, and may be simpler: s/2 for s - (s + 1)//2, which has the interval of s twice."""
    terms = []
    for term in sympy.Add.make_args(sympy.expand(expr)):
        factor, rest = term.as_coeff_Mul()
        if isinstance(rest, FloorDiv) and rest.args[1].is_Integer and rest.args[1] > 0:
            above, below = rest.args
            rest = (above if factor > 0 else above - below + 1) / below
        terms.append(factor * rest)
    return sympy.expand(sympy.Add(*terms))


class Bounds:
    """Upper bounds of sizes, from the ranges of a method's symbols."""

    def __init__(self, ranges: Mapping[sympy.Symbol, tuple[int, int]]) -> None:
        self.ranges = {symbol: ValueRanges(low, high) for symbol, (low, high) in ranges.items()}
        self.known: dict[Any, int | None] = {}

    def upper(self, size: Any, where: str) -> int:
        """The largest value of a size.

        Raises:
            UnboundedShape: there is none; `where` says of which dimension and node.
        """
        expr = expression(size)
        if isinstance(expr, int):
            return expr
        if expr.is_Integer:
            return int(expr)
        if expr not in self.known:
            self.known[expr] = self._upper(expr)
        bound = self.known[expr]
        if bound is None:
            raise UnboundedShape(
                f"size {expr} has no upper bound",
                where=where,
                got=", ".join(f"{s}: {self._shown(s)}" for s in sorted(expr.free_symbols, key=str)),
                do="give the dimension one: torch.export.Dim('name', max=512); "
                "for a size computed from data, torch._check(n <= 512) in the model",
            )
        return bound

    def least(self, size: Any) -> int:
        """The smallest value of a size; 0 where nothing is known."""
        expr = expression(size)
        if isinstance(expr, int) or not all(symbol in self.ranges for symbol in expr.free_symbols):
            return 0
        lower = bound_sympy(expr, self.ranges).lower
        return int(lower) if lower.is_finite and lower > 0 else 0

    def range(self, number: Any) -> tuple[int, int] | None:
        """Of a number that is an input."""
        known = self.ranges.get(expression(number))
        return None if known is None else (int(known.lower), int(known.upper))

    def _upper(self, expr: Any) -> int | None:
        if not all(symbol in self.ranges for symbol in expr.free_symbols):
            return None
        exact = [without_exact_quotients(form) for form in (expr, without_remainders(expr))]
        forms = {*exact, *map(_without_floors, exact)}
        upper = min(bound_sympy(form, self.ranges).upper for form in forms)
        if upper in (int_oo, sympy.oo) or upper > _LARGEST:
            return None
        return max(int(upper), 0)

    def _shown(self, symbol: sympy.Symbol) -> str:
        known = self.ranges.get(symbol)
        return f"{known.lower} to {known.upper}" if known else "no range"


def dtype_of(tensor: torch.Tensor) -> DType:
    return DType[str(tensor.dtype).removeprefix("torch.")]


def dim_order_of(tensor: torch.Tensor) -> tuple[int, ...]:
    """Channels-last where the tensor is that and not row-major too; else row-major.

    Other strides are those of a view; what the program computes is dense.
    """
    rank = tensor.dim()
    if is_contiguous(tensor):
        return tuple(range(rank))
    last = is_channels_last(tensor)
    if last or (rank == 5 and tensor.is_contiguous(memory_format=torch.channels_last_3d)):
        return (0, *range(2, rank), 1)
    return tuple(range(rank))


def strides_of(sizes: Sequence[int], dim_order: Sequence[int]) -> tuple[int, ...]:
    """Strides in elements of a dense tensor; sizes of 0 count as 1."""
    strides, step = [0] * len(sizes), 1
    for dim in reversed(dim_order):
        strides[dim] = step
        step *= max(sizes[dim], 1)
    return tuple(strides)
