"""Upper bounds of what a run counts: elements that a mask chooses, or that differ."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import zip_longest
from typing import Any

import sympy
import torch
from torch.fx import Node
from torch.utils import _pytree as pytree
from torch.utils._sympy.value_ranges import ValueRanges, bound_sympy

from penlight.dialects.bounds import MAX_SIZE, finite
from penlight.errors import NotSupported
from penlight.ir.edge import EdgeMethod
from penlight.ir.sizes import expression
from penlight.ir.source import describe

aten = torch.ops.aten

# Operators whose results have a part for each element that is chosen, or is like no other, and where they
# have their argument `dim`.
_CHOOSE: dict[Any, int | None] = {
    **dict.fromkeys((aten.nonzero.default, aten.nonzero_numpy.default, aten.argwhere.default)),
    **dict.fromkeys((aten.where.default, aten.masked_select.default, aten.index.Tensor)),
    **dict.fromkeys((aten._unique.default, aten._unique2.default)),
    **dict.fromkeys((aten.unique_dim.default, aten.unique_dim_consecutive.default), 1),
    aten.unique_consecutive.default: 3,
}


def bound_counts(method: EdgeMethod) -> None:
    """Bound how many elements a mask chooses, or how many differ, by how many there can be.

    torch.export does where that is a number, not where it depends on dynamic dimensions.
    """
    for node in method.graph.nodes:
        if node.op != "call_function" or node.target not in _CHOOSE:
            continue
        _check_rank(node)
        known = {symbol for source in node.all_input_nodes for symbol in _symbols(source)}
        for symbol in _symbols(node) - known:
            low, high = method.bounds.get(symbol, (0, MAX_SIZE))
            most = _most_chosen(node, method.bounds)
            if high == _counted_by_torch(node):
                high = most
            method.bounds[symbol] = (low, min(high, most))


def _counted_by_torch(node: Node) -> int | None:
    """torch bounds what masked_select chooses by its elements, though a mask may repeat them."""
    if node.target is not aten.masked_select.default:
        return None
    given = node.args[0].meta["val"].numel()  # type: ignore[union-attr]
    return given if isinstance(given, int) else None


def _symbols(node: Node) -> set[sympy.Symbol]:
    """Of sizes."""
    leaves = [leaf for leaf in pytree.tree_leaves(node.meta.get("val")) if isinstance(leaf, torch.Tensor)]
    return {
        symbol
        for leaf in leaves
        for size in leaf.shape
        for symbol in sympy.sympify(expression(size)).free_symbols
    }


def _check_rank(node: Node) -> None:
    """torch traces unique_consecutive along a dimension that counts from the end with the wrong sizes."""
    dim = _dim(node) if node.target is aten.unique_consecutive.default else None
    if dim is not None and dim < 0:
        rank = node.args[0].meta["val"].dim()  # type: ignore[union-attr]
        raise NotSupported(
            "torch.export gives unique_consecutive the wrong sizes where its dimension counts from the end",
            where=describe(node),
            got=f"dim={dim}",
            do=f"write dim={dim + rank}",
        )


def _dim(node: Node) -> Any:
    place = _CHOOSE[node.target]
    return node.args[place] if place is not None and len(node.args) > place else node.kwargs.get("dim")


def _most_chosen(node: Node, bounds: Mapping[sympy.Symbol, tuple[int, int]]) -> int:
    ranges = {symbol: ValueRanges(*limits) for symbol, limits in bounds.items()}

    def sizes(tensor: Any) -> list[int]:
        shape = tensor.meta["val"].shape
        return [
            finite(bound_sympy(sympy.sympify(expression(size)), ranges).upper, MAX_SIZE) for size in shape
        ]

    given: Sequence[Any] = node.args
    if node.target is aten.index.Tensor:
        masks = [i for i in given[1] if i is not None and i.meta["val"].dtype in (torch.bool, torch.uint8)]
        return min((math.prod(sizes(mask)) for mask in masks), default=MAX_SIZE)
    if node.target is aten.masked_select.default:
        backwards = (reversed(sizes(tensor)) for tensor in given)
        return math.prod(max(pair) for pair in zip_longest(*backwards, fillvalue=1))
    dim = _dim(node)
    return math.prod(sizes(given[0])) if dim is None else sizes(given[0])[dim]
