"""What the memory plan does not see of a method's inputs: sizes that are wrong though within their bounds.

A branch of Python on a size was taken when the model was traced, so smaller ones may not follow; a size
can be a multiple of something, or fixed beside a dynamic one; and where inputs share a dimension, theirs
must agree. The runtime checks it before each run.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import sympy
import torch

from penlight.flatten.shapes import Bounds
from penlight.ir.plan import Limit
from penlight.ir.sizes import expression

# torch counts sizes of 0 and 1 as static, whether or not anything depends on it: where nobody gave a least,
# it is 0 or 2.
_SAYS_NOTHING = (0, 2)


def input_limits(examples: Sequence[Any], bounds: Bounds) -> list[Limit]:
    """The limits of inputs, given the fake value of each, in their order."""
    found: list[tuple[Limit, sympy.Symbol | None]] = []
    for index, example in enumerate(examples):
        if isinstance(example, torch.SymInt):
            if (known := bounds.range(example)) is not None:
                found.append((Limit(index, None, *known), symbol_of(example)[2]))
        elif any(isinstance(size, torch.SymInt) for size in getattr(example, "shape", ())):
            found += [_of_size(index, dim, size, bounds) for dim, size in enumerate(example.shape)]
    shared = [symbol for _, symbol in found if symbol is not None]
    kept: list[Limit] = []
    first: dict[sympy.Symbol, int] = {}
    for limit, symbol in found:
        alone = limit.dim is not None and limit.least == 0 < limit.most and limit.factor == 1
        if alone and (symbol is None or shared.count(symbol) == 1):
            continue
        if symbol is not None:
            limit.like = first.get(symbol)
            first.setdefault(symbol, len(kept))
        kept.append(limit)
    return kept


def _of_size(index: int, dim: int, size: Any, bounds: Bounds) -> tuple[Limit, sympy.Symbol | None]:
    if isinstance(size, int):  # in the file, all sizes of a tensor are bounds if one of them is
        return Limit(index, dim, size, size), None
    least = bounds.least(size)
    factor, offset, symbol = symbol_of(size)
    most = bounds.upper(size, f"dimension {dim} of input {index}")
    return Limit(index, dim, 0 if least in _SAYS_NOTHING else least, most, factor, offset), symbol


def symbol_of(size: Any) -> tuple[int, int, sympy.Symbol | None]:
    """Factor, offset and symbol of a size like 2*s + 1; 1, 0 and None of any other."""
    expr = expression(size)
    symbols = list(getattr(expr, "free_symbols", ()))
    if len(symbols) != 1:
        return 1, 0, None
    start = expr.subs(symbols[0], 0)
    slope = sympy.expand((expr - start) / symbols[0])
    if not (slope.is_Integer and start.is_Integer and slope > 0):
        return 1, 0, None
    return int(slope), int(start), symbols[0]
