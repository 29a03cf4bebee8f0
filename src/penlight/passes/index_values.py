"""What a tensor's elements are, where their indices alone say it, whatever sizes it will have.

    arange(n)[:, None] + 1                               a line: 1 + i
    arange(n)[None, :] <= arange(n)[:, None]             bands: False where i - j < 0, True from there on
    triu(full([n, n], -inf), 1), slices of such buffers  bands, too

Masks of dynamic sizes are made of such operators. Known are whole numbers that grow evenly along each
dimension, and numbers that depend on how far two indices are apart alone: as matrices, their diagonals.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

import torch
from torch.fx import Node

from penlight.passes.bands import (
    Bands,
    Known,
    Line,
    Number,
    aligned,
    as_line,
    combined,
    compared,
    diagonals,
    from_index,
    moved,
    of_sizes,
)
from penlight.passes.base import tensor_of
from penlight.passes.constants import Constants
from penlight.passes.layouts import same_sizes, sizes_of
from penlight.passes.merge_views import RESHAPES

aten = torch.ops.aten

_WHOLE = torch.int64  # shorter integers may wrap around
_LARGEST = 1 << 12  # side of a constant that is looked through

_COMPARISONS = {
    getattr(getattr(aten, name), kind)
    for name in ("eq", "ne", "lt", "le", "gt", "ge")
    for kind in ("Scalar", "Tensor")
}
_POINTWISE = _COMPARISONS | {
    *(aten.logical_and.default, aten.logical_or.default, aten.logical_not.default),
    *(aten.bitwise_and.Tensor, aten.bitwise_or.Tensor, aten.bitwise_not.default),
    *(aten.bitwise_and.Scalar, aten.bitwise_or.Scalar, aten.where.self, aten.neg.default),
    *(aten.masked_fill.Scalar, aten.masked_fill.Tensor),
    *(aten.add.Tensor, aten.add.Scalar, aten.sub.Tensor, aten.sub.Scalar, aten.mul.Tensor, aten.mul.Scalar),
    *(aten._to_copy.default, aten.clone.default),
}
_FILLS: dict[Any, Callable[[list[Any]], Any]] = {
    aten.full.default: lambda args: args[1],
    aten.ones.default: lambda args: 1,
    aten.zeros.default: lambda args: 0,
    aten.scalar_tensor.default: lambda args: args[0],
}


class IndexValues:
    """What is known of the tensors of a graph, looked for when asked."""

    def __init__(self, constants: Constants) -> None:
        self.constants = constants
        self.known: dict[Node, Known | None] = {}

    def of(self, node: Node) -> Known | None:
        """What is known of the elements of `node`: nothing if inputs of the program decide them."""
        return self._of(node) if self._is_independent(node) else None

    def _is_independent(self, node: Node) -> bool:
        seen, left = {node}, [node]
        while left:
            at = left.pop()
            if tensor_of(at) is None:  # a size
                continue
            if at.op == "placeholder" and at not in self.constants.names:
                return False
            more = [part for part in at.all_input_nodes if part not in seen]
            seen.update(more)
            left += more
        return True

    def _of(self, node: Any) -> Known | None:
        value = tensor_of(node) if isinstance(node, Node) else None
        if value is None:
            return None
        if node not in self.known:
            found = self._constant(node) if node.op == "placeholder" else self._result(node)
            if isinstance(found, Line) and value.dtype is not _WHOLE:
                found = None
            self.known[node] = None if found is None else of_sizes(found, sizes_of(value))
        return self.known[node]

    def _constant(self, node: Node) -> Known | None:
        like = self.constants.like(node)
        sizes = [] if like is None else [size for size in like.shape if size != 1]
        if (
            like is None
            or like.dtype.is_complex
            or len(sizes) > 2
            or not all(0 < s <= _LARGEST for s in sizes)
        ):
            return None
        if len(sizes) == 2 and (tuple(like.shape[-2:]) != tuple(sizes) or sizes[0] != sizes[1]):
            return None
        value = self.constants.get(node)
        assert value is not None
        if not sizes:
            return Bands((value.item(),))
        if len(sizes) == 2:
            return diagonals(value.reshape(sizes), value.dim())
        row = value.reshape(-1).tolist()
        steps = {b - a for a, b in pairwise(row)}
        if len(steps) != 1 or value.dtype is not _WHOLE:
            return None
        (step,) = steps
        return Line(tuple(0 if size == 1 else step for size in value.shape), row[0])

    def _result(self, node: Node) -> Known | None:
        target: Any = node.target
        args = list[Any](node.args)
        rank = tensor_of(node).dim()  # type: ignore[union-attr]
        if target in _FILLS:
            number, dtype = _FILLS[target](args), tensor_of(node).dtype  # type: ignore[union-attr]
            known = isinstance(number, bool | int | float) and not dtype.is_complex
            return Bands((torch.tensor(number).to(dtype).item(),)) if known else None
        if target in (aten.arange.default, aten.arange.start, aten.arange.start_step):
            start, step = (0, 1) if target is aten.arange.default else (args[0], [*args, 1][2])
            return Line((step,), start) if type(start) is int and type(step) is int else None
        if target in (aten.tril.default, aten.triu.default):
            return self._triangle(node, [*args, 0][1], rank)
        if target is aten.cat.default:
            return self._joined(args[0], [*args, 0][1] % rank)
        if target is aten.index.Tensor:
            return self._looked_up(args[0], args[1], rank)
        if target is aten.cumsum.default:
            return Bands((0,)) if self._of(args[0]) in (Bands((0,)), Bands((False,))) else None
        if target in _POINTWISE:
            return self._pointwise(node, rank)
        return self._view(node, args)

    def _view(self, node: Node, args: list[Any]) -> Known | None:
        """Of views: where each dimension comes from; or a part of a dimension."""
        source = self._of(args[0]) if args else None
        if source is None:
            return None
        before, after = (sizes_of(tensor_of(part)) for part in (args[0], node))  # type: ignore[arg-type]
        if node.target in RESHAPES:
            old, new = ([d for d, size in enumerate(sizes) if size != 1] for sizes in (before, after))
            if not same_sizes([before[d] for d in old], [after[d] for d in new]):
                return None
            return moved(source, [old[new.index(d)] if d in new else None for d in range(len(after))])
        if node.target is aten.permute_copy.default:
            return moved(source, [d % len(before) for d in args[1]])
        if node.target is aten.expand_copy.default:
            more = len(after) - len(before)
            same = [d >= more and before[d - more] == after[d] for d in range(len(after))]
            return moved(source, [d - more if same[d] else None for d in range(len(after))])
        if node.target is aten.slice_copy.Tensor:
            missing: list[Any] = [0, None, None, 1]
            dim, start, _, step = args[1:] + missing[len(args) - 1 :]
            start = 0 if start is None else start
            return from_index(source, dim % len(before), start) if step == 1 and type(start) is int else None
        return None

    def _triangle(self, node: Node, diagonal: Any, rank: int) -> Known | None:
        source = self._of(node.args[0])
        if type(diagonal) is not int or rank < 2:
            return None
        lower = node.target is aten.tril.default
        edge = -diagonal if lower else 1 - diagonal
        kept = Bands((not lower, lower), (edge,), (rank - 2, rank - 1))
        return combined([kept, source], lambda keep, x: x if keep else type(x)(0))

    def _joined(self, parts: Sequence[Node], dim: int) -> Known | None:
        """Two pieces of one line."""
        if len(parts) != 2:
            return None
        a, b = (as_line(self._of(part), tensor_of(part).dim()) for part in parts)  # type: ignore[union-attr]
        count = sizes_of(tensor_of(parts[0]))[dim]  # type: ignore[arg-type]
        if (
            a is None
            or b is None
            or not isinstance(count, int)
            or a.start != b.start - count * b.factors[dim]
        ):
            return None
        along = b.factors[dim] if count == 1 else a.factors[dim]
        factors = (*a.factors[:dim], along, *a.factors[dim + 1 :])
        return replace(a, factors=factors) if factors == b.factors else None

    def _looked_up(self, x: Node, indices: Sequence[Node | None], rank: int) -> Known | None:
        """A line at lines that are never negative."""
        whole = as_line(self._of(x), tensor_of(x).dim())  # type: ignore[union-attr]
        if whole is None or len(indices) != len(whole.factors):
            return None
        found, factors = whole.start, [0] * rank
        for factor, index in zip(whole.factors, indices, strict=True):
            value = tensor_of(index) if index is not None else None
            at = None if value is None else as_line(self._of(index), value.dim())
            if value is None or at is None or value.dtype is torch.bool or min(at.start, *at.factors, 0) < 0:
                return None
            found += factor * at.start
            for d, step in enumerate(at.factors, rank - len(at.factors)):
                factors[d] += factor * step
        return Line(tuple(factors), found)

    def _pointwise(self, node: Node, rank: int) -> Known | None:
        target: Any = node.target
        operands = [part for part in node.args if isinstance(part, Node)]
        values = [tensor_of(part) for part in operands]
        if None in values or any(isinstance(part, list) for part in node.args):
            return None
        found = [
            known and aligned(known, value.dim(), rank)  # type: ignore[union-attr]
            for known, value in zip(map(self._of, operands), values, strict=True)
        ]
        if any(isinstance(known, Line) for known in found):
            return _of_lines(node, found, rank)

        dtypes = [tensor_of(part).dtype if isinstance(part, Node) else None for part in node.args]  # type: ignore[union-attr]

        def compute(*numbers: Number) -> Number:
            rest = iter(numbers)
            args = [
                part if dtype is None else torch.tensor(next(rest), dtype=dtype)
                for part, dtype in zip(node.args, dtypes, strict=True)
            ]
            options = {key: option for key, option in node.kwargs.items() if key in ("dtype", "alpha")}
            result: Number = target(*args, **options).item()
            return result

        return combined(found, compute)


def _of_lines(node: Node, found: Sequence[Known | None], rank: int) -> Known | None:
    """Sums of lines, multiples, and comparisons."""
    lines = [as_line(known, rank) for known in found]
    numbers = [part for part in node.args if not isinstance(part, Node)]
    if (
        None in lines
        or any(type(number) is not int for number in numbers)
        or node.kwargs.get("alpha", 1) != 1
    ):
        return None
    operands, given = iter(lines), list[Any](node.args)
    args: list[Any] = [
        next(operands) if isinstance(part, Node) else Line((0,) * rank, part) for part in given
    ]
    if node.target in (aten.clone.default, aten._to_copy.default):
        dtype = node.kwargs.get("dtype")
        return args[0] if dtype in (None, _WHOLE) else None
    if len(args) != 2:
        return None
    a, b = args
    if node.target in (aten.mul.Tensor, aten.mul.Scalar):
        if any(a.factors):
            a, b = b, a
        return None if any(a.factors) else Line(tuple(a.start * f for f in b.factors), a.start * b.start)
    sign = 1 if node.target in (aten.add.Tensor, aten.add.Scalar) else -1
    result = Line(
        tuple(x + sign * y for x, y in zip(a.factors, b.factors, strict=True)), a.start + sign * b.start
    )
    if node.target in (aten.add.Tensor, aten.add.Scalar, aten.sub.Tensor, aten.sub.Scalar):
        return result
    return compared(node.target, result) if node.target in _COMPARISONS else None
