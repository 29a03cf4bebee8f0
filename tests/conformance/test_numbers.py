"""Any number where an operator takes one: fractions of truth values, out of range, not finite.

The tables name the numbers that somebody thought of. Here each argument that takes a
Scalar gets all of NUMBERS, with tensors of each dtype; the rest of the call is the first
case of the operator's row.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from compare import assert_matches
from op_case import ALL, Case, Op
from run_op import overload_of, run_op
from test_conformance import ROWS

warnings.filterwarnings("ignore", category=UserWarning)

INF, NAN = float("inf"), float("nan")
NUMBERS = (0, 1, -1, 3, 300, 2**40, True, False, 0.5, 0.7, -0.7, 2.5, -3.5, 1e30, INF, -INF, NAN)
#: ATen multiplies by it before or after it adds up, as its matrix product likes.
LEFT_OPEN = {("aten::addmm", "alpha"): (INF, -INF)}


def _takers() -> Iterator[Any]:
    """The first row of every operator, and way to call it, that takes a number; and the places of numbers."""
    seen = set()
    for row in ROWS:
        arguments = overload_of(row.name)._schema.arguments
        places = [i for i, argument in enumerate(arguments) if "number" in str(argument.type).lower()]
        key = (row.name, len(row.inputs[0]), len(row.args), tuple(row.kwargs))
        if places and key not in seen and not any(dtype.is_complex for dtype in row.dtypes):
            seen.add(key)
            yield pytest.param(row, places, id=f"{row.name.removeprefix('aten::')}-{len(seen)}")


@dataclass(frozen=True)
class _Called(Case):
    """A case with other arguments than its row has."""

    args: tuple[Any, ...] = ()
    kwargs: tuple[tuple[str, Any], ...] = ()

    def arguments(self) -> tuple[list[Any], dict[str, Any]]:
        return list(self.args), dict(self.kwargs)


@pytest.mark.parametrize(("row", "places"), _takers())
def test_any_number(row: Op, places: list[int]) -> None:
    op, compared = overload_of(row.name), 0
    for dtype in ALL:
        for place in places:
            argument = op._schema.arguments[place]
            for number in NUMBERS:
                if number in LEFT_OPEN.get((row.name, argument.name), ()):
                    continue
                try:
                    args, kwargs = Case(row, row.inputs[0], dtype).arguments()
                    if not argument.kwarg_only and place < len(args):
                        args[place] = number
                    else:
                        kwargs[argument.name] = number
                    want = op(*args, **kwargs)
                except (RuntimeError, IndexError, ValueError, TypeError, ZeroDivisionError):
                    continue  # ATen has no kernel for this dtype or refuses the number
                case = _Called(row, row.inputs[0], dtype, args=tuple(args), kwargs=tuple(kwargs.items()))
                try:
                    assert_matches(case, op, run_op(op, args, kwargs, want), want)
                except Exception as error:
                    error.add_note(f"{dtype}, {argument.name}={number!r}")
                    raise
                compared += 1
    assert compared, "ATen refuses every number here"
