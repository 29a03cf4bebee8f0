"""Upper bounds of sizes: what torch.export knows of them, and an error for what has none."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import sympy
import torch
from torch.export import ExportedProgram
from torch.fx import Node
from torch.utils import _pytree as pytree

from penlight.errors import UnboundedShape
from penlight.ir.edge import EdgeMethod, InputKind
from penlight.ir.source import describe

# Sizes are int32 in programs; a larger bound is as good as none.
MAX_SIZE = 2**31 - 1


def bounds_of(exported: ExportedProgram) -> dict[sympy.Symbol, tuple[int, int]]:
    ranges = {
        symbol: (finite(limits.lower, 0), finite(limits.upper, MAX_SIZE))
        for symbol, limits in exported.range_constraints.items()
        if isinstance(symbol, sympy.Symbol)
    }
    for size, limits in exported.range_constraints.items():
        # Of a size such as 32*s torch takes s for 2 or more, as 0 and 1 are static; the size may be less.
        if len(size.free_symbols) == 1 and not isinstance(size, sympy.Symbol):
            (symbol,) = size.free_symbols
            low, high = ranges.get(symbol, (0, 0))
            if low == 2:
                allowed = (s for s in (0, 1, 2) if size.subs(symbol, s) >= finite(limits.lower, 0))
                ranges[symbol] = (next(allowed, low), high)
    return ranges


def finite(limit: Any, otherwise: int) -> int:
    """A limit of an interval as a size; `otherwise` where it is none."""
    try:
        return max(0, min(int(limit), MAX_SIZE))
    except (TypeError, ValueError, OverflowError, AttributeError):
        return otherwise


def check_bounds(method: EdgeMethod) -> None:
    """Every symbol that a tensor's size has must have an upper bound."""
    numbers = {
        value.node.expr: node
        for node in method.graph.find_nodes(op="placeholder")
        if isinstance(value := node.meta.get("val"), torch.SymInt)
    }
    found = [
        (node, dim, symbol, size)
        for node, dim, size in _symbolic_sizes(method)
        for symbol in sorted(size.node.expr.free_symbols, key=str)
        if method.bounds.get(symbol, (0, MAX_SIZE))[1] >= MAX_SIZE
    ]
    inputs = _inputs(method)
    asked = dict.fromkeys((inputs[node.name], dim) for node, dim, _, _ in found if node.op == "placeholder")
    if asked and found[0][0].op == "placeholder":
        raise _unbounded_inputs(list(asked))
    if found:
        node, dim, symbol, size = found[0]
        raise _unbounded(node, dim, size, symbol, numbers.get(symbol))


def _symbolic_sizes(method: EdgeMethod) -> Iterator[tuple[Node, int, torch.SymInt]]:
    for node in method.graph.nodes:
        value = node.meta.get("val")
        for item in value if isinstance(value, tuple | list) else (value,):
            if not isinstance(item, torch.Tensor):
                continue
            for dim, size in enumerate(item.shape):
                if isinstance(size, torch.SymInt):
                    yield node, dim, size


@dataclass(frozen=True)
class _Input:
    name: str  # in the signature of forward
    nested: bool  # one of several tensors in one argument


def _inputs(method: EdgeMethod) -> dict[str, _Input]:
    """The inputs of the user, by the names of their nodes, which need not be the user's."""
    specs = [spec for spec in method.inputs if spec.kind is InputKind.USER]
    return {
        spec.name: _Input(spec.parameter or spec.name, depth > 2)
        for spec, depth in zip(specs, _depths(method.in_spec), strict=True)
    }


def _depths(spec: pytree.TreeSpec) -> list[int]:
    """Of each leaf, in how many containers it is."""
    if spec.is_leaf():
        return [0]
    return [1 + depth for child in spec.children() for depth in _depths(child)]


def _unbounded_inputs(found: list[tuple[_Input, int]]) -> UnboundedShape:
    """One error for all of them: each would stop the next attempt."""
    places: dict[_Input, list[int]] = {}
    for item, dim in found:
        places.setdefault(item, []).append(dim)
    several = len(found) > 1
    (first, dims), *_ = places.items()
    what = f"dimension {dims[0]} of input '{first.name}' has no upper bound"
    one = 'torch.export.Dim("n", max=...)'
    shapes = ", ".join(
        f'"{item.name}": {{' + ", ".join(f"{dim}: {one}" for dim in dims) + "}"
        for item, dims in places.items()
        if not item.nested
    )
    them = "them" if several else "it"
    given = f"give {them} one: dynamic_shapes={{{shapes}}}" if shapes else f"give {them} one: {one}"
    nested = " (where dynamic_shapes has it)" if any(item.nested for item in places) else ""
    return UnboundedShape(
        f"{len(found)} dimensions of inputs have no upper bound" if several else what,
        where="\n".join(
            f"input {item.name}, dimension{'s' * (len(dims) > 1)} {', '.join(map(str, dims))}"
            for item, dims in places.items()
        ),
        do=f"{given}{nested}, or Dim.AUTO(max=...)",
    )


def _unbounded(node: Node, dim: int, size: torch.SymInt, symbol: Any, number: Node | None) -> UnboundedShape:
    where = f"{describe(node)}, dimension {dim}, size {size.node.expr}"
    if number is not None:
        return UnboundedShape(
            f"the int input '{number.name}' is part of a size and has no upper bound",
            where=where,
            do=f'give it one: dynamic_shapes={{"{number.name}": torch.export.Dim.AUTO(max=...)}}',
        )
    do = f"bound it in the model, where it is made: torch._check(result.shape[{dim}] <= 512)"
    if (origin := _origin(node, symbol)) is not None:
        do = f"bound the number it comes from, {describe(origin)}: torch._check(n <= 512) after that"
    return UnboundedShape(
        f"dimension {dim} of a result depends on values and has no upper bound", where=where, do=do
    )


def _origin(node: Node, symbol: Any) -> Node | None:
    """The number that `symbol` stands for, where that is not the size of a tensor."""
    other: Node
    for other in node.graph.nodes:
        value = other.meta.get("val")
        if isinstance(value, torch.SymInt) and value.node.expr == symbol:
            return other
        if other is node:
            break
    return None
