"""Where views of a tensor lie in it: sizes, strides and an offset, symbolic ones included.

    select(permute(view(x, [b, s, 3, h, d]), [2, 0, 3, 1, 4]), 0, 1)   ->   x, sizes, strides, offset

A pass follows views back to the tensor they are of with this, and sees whether a
kernel could read them in place. Nothing here asks torch, which would add guards
on symbolic sizes.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import sympy
import torch
from torch.fx import Node

from penlight.ir.sizes import expression
from penlight.passes.base import tensor_of
from penlight.passes.contiguous import is_contiguous
from penlight.passes.merge_views import RESHAPES

aten = torch.ops.aten

Size = Any  # an int, or an expression of sympy's


def expressions(numbers: Iterable[Any]) -> tuple[Size, ...]:
    """Symbolic numbers as expressions: comparing those decides nothing about the model."""
    return tuple(map(expression, numbers))


def sizes_of(value: torch.Tensor) -> tuple[Size, ...]:
    """To be compared, as expressions where they are symbolic."""
    return expressions(value.shape)


def equal(a: Size, b: Size) -> bool:
    """Are they for sure?"""
    return bool(a == b) if isinstance(a, int) and isinstance(b, int) else bool(sympy.expand(a - b) == 0)


def same_sizes(a: Sequence[Size], b: Sequence[Size]) -> bool:
    """Are they for sure?"""
    return len(a) == len(b) and all(map(equal, a, b))


def _quotient(a: Size, b: Size) -> Size | None:
    if isinstance(a, int) and isinstance(b, int):
        return a // b if b and a % b == 0 else None
    found = sympy.cancel(sympy.sympify(a) / b)
    return found if found.as_numer_denom()[1] == 1 else None


@dataclass(frozen=True)
class Layout:
    """Where each element lies: `offset`, and for each dimension its index times a stride.

    A dimension may have several parts, (size, stride) each, the last of which counts
    fastest: batches and heads that a view made one.
    """

    dims: tuple[tuple[tuple[Size, Size], ...], ...]
    offset: Size = 0

    @staticmethod
    def of(sizes: Sequence[Size], strides: Sequence[Size], offset: Size = 0) -> Layout:
        return Layout(tuple(((size, step),) for size, step in zip(sizes, strides, strict=True)), offset)

    @staticmethod
    def dense(sizes: Sequence[Size]) -> Layout:
        strides: list[Size] = []
        step: Size = 1
        for size in reversed(sizes):
            strides.insert(0, step)
            step = step * size
        return Layout.of(sizes, strides)

    @property
    def sizes(self) -> tuple[Size, ...]:
        return tuple(math.prod((size for size, _ in parts), start=1) for parts in self.dims)

    @property
    def strides(self) -> tuple[Size | None, ...]:
        """None for a dimension of several parts."""
        steps = [[step for size, step in parts if not equal(size, 1)] for parts in self.dims]
        return tuple(found[0] if len(found) == 1 else None if found else 0 for found in steps)

    def is_dense(self) -> bool:
        found = zip(self.sizes, self.strides, Layout.dense(self.sizes).strides, strict=True)
        return all(
            equal(size, 1) or (stride is not None and equal(stride, wanted)) for size, stride, wanted in found
        )

    def permuted(self, dims: Sequence[int]) -> Layout:
        return Layout(tuple(self.dims[dim] for dim in dims), self.offset)

    def part(self, dim: int, start: Size, size: Size, step: int = 1) -> Layout | None:
        stride = self.strides[dim]
        if stride is None:
            return None
        dims = list(self.dims)
        dims[dim] = ((size, stride * step),)
        return Layout(tuple(dims), self.offset + start * stride)

    def without(self, dim: int) -> Layout:
        return Layout(self.dims[:dim] + self.dims[dim + 1 :], self.offset)

    def viewed(self, sizes: Sequence[Size]) -> Layout | None:
        """The same elements in the same order, as other sizes; None if no parts make these."""
        runs: list[tuple[Size, Size]] = []  # parts, and neighbours that are one: size, stride
        for size, stride in (part for parts in self.dims for part in parts):
            if isinstance(size, int) and size == 0:
                return None
            if equal(size, 1):
                continue
            if runs and equal(runs[-1][1], size * stride):
                runs[-1] = runs[-1][0] * size, stride
            else:
                runs.append((size, stride))
        dims: list[tuple[tuple[Size, Size], ...]] = []
        left, step = 1, 0
        for size in reversed(sizes):
            parts: list[tuple[Size, Size]] = []
            while not equal(size, 1):
                if equal(left, 1):
                    if not runs:
                        return None
                    left, step = runs.pop()
                rest, more = _quotient(left, size), _quotient(size, left)
                if rest is not None:
                    parts.insert(0, (size, step))
                    left, step, size = rest, step * size, 1
                elif more is not None:
                    parts.insert(0, (left, step))
                    left, size = 1, more
                else:
                    return None
            dims.insert(0, tuple(parts))
        return Layout(tuple(dims), self.offset) if equal(left, 1) and not runs else None


def layout_of(node: Node) -> tuple[Node, Layout] | None:
    """The tensor that `node` is a view of, and where it lies there; of no view, itself."""
    step = step_of(node)
    if step is not None:
        source, follow = step
        found = layout_of(source)
        after = follow(found[1]) if found is not None else None
        if found is not None and after is not None:
            return found[0], after
    value = tensor_of(node)
    if value is None or not is_contiguous(value):
        return None
    return node, Layout.dense(sizes_of(value))


Follow = Callable[[Layout], Layout | None]


def step_of(node: Node) -> tuple[Node, Follow] | None:
    """What `node` is a view of, and how; None if it is no view."""
    if node.op != "call_function" or not node.args or not isinstance(node.args[0], Node):
        return None
    target, args = node.target, list[Any](node.args)
    value = tensor_of(node)
    if target is operator.getitem:
        return _piece(args[0], args[1])
    if value is None or node.kwargs:
        return None
    sizes = sizes_of(value)
    source: Node = args[0]
    if target in RESHAPES or target is aten.clone.default:
        return source, lambda layout: layout.viewed(sizes)
    if target is aten.permute_copy.default:
        return source, lambda layout: layout.permuted([dim % len(layout.dims) for dim in args[1]])
    if target is aten.select_copy.int:
        return source, lambda layout: _selected(layout, args[1], args[2])
    if target is aten.slice_copy.Tensor:
        return source, lambda layout: _sliced(layout, sizes, *args[1:])
    if target is aten.expand_copy.default:
        return source, lambda layout: _expanded(layout, sizes)
    return None


def _selected(layout: Layout, dim: int, index: Any) -> Layout | None:
    dim %= len(layout.dims)
    size = layout.sizes[dim]
    if not isinstance(index, int) or (index < 0 and not isinstance(size, int)):
        return None
    found = layout.part(dim, index % size if index < 0 else index, 1)
    return None if found is None else found.without(dim)


def _sliced(
    layout: Layout, sizes: Sequence[Size], dim: int = 0, start: Any = None, end: Any = None, step: Any = 1
) -> Layout | None:
    dim %= len(layout.dims)
    size = layout.sizes[dim]
    start = 0 if start is None else start
    if not isinstance(start, int) or not isinstance(step, int):
        return None
    if start < 0 or not (isinstance(size, int) or start == 0):
        if not isinstance(size, int):
            return None
        start = max(start + size, 0)
    return layout.part(dim, start, sizes[dim], step)


def _expanded(layout: Layout, sizes: Sequence[Size]) -> Layout:
    new = len(sizes) - len(layout.dims)
    dims: list[tuple[tuple[Size, Size], ...]] = [((size, 0),) for size in sizes[:new]]
    for size, old, parts in zip(sizes[new:], layout.sizes, layout.dims, strict=True):
        dims.append(parts if equal(size, old) else ((size, 0),))
    return Layout(tuple(dims), layout.offset)


def _piece(whole: Node, index: Any) -> tuple[Node, Follow] | None:
    """Result `index` of a split."""
    if whole.op != "call_function" or whole.kwargs or not isinstance(index, int):
        return None
    args = list[Any](whole.args)
    source = args[0]
    if whole.target is aten.unbind_copy.int:
        dim = args[1] if len(args) > 1 else 0
        return source, lambda layout: _selected(layout, dim, index)
    if whole.target is aten.split_copy.Tensor:
        dim, length = args[2] if len(args) > 2 else 0, args[1]
        size = sizes_of(whole.meta["val"][index])[dim]
        if not isinstance(length, int) or not isinstance(size, int):
            return None
        return source, lambda layout: layout.part(dim % len(layout.dims), index * length, size)
    if whole.target is aten.split_with_sizes_copy.default:
        dim = args[2] if len(args) > 2 else 0
        lengths: list[Any] = args[1]
        if not all(isinstance(length, int) for length in lengths):
            return None
        start = sum(lengths[:index])
        return source, lambda layout: layout.part(dim % len(layout.dims), start, lengths[index])
    return None
