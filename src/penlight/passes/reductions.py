"""Reduce what lies there, and not a copy of it in another order.

    mean(permute(x, [0, 4, 1, 2, 3]), [2, 3, 4])   ->   mean(x, [1, 2, 3])
    mean(view(x, [1, 8, 54, 48, 48]), [1, 3, 4])   ->   mean(mean(x, [2, 3]).view(...), ...)
    adaptive_avg_pool3d(x, 1)                      ->   mean(x, [-3, -2, -1], keepdim=True)
    logsumexp(x, dims)                             ->   log(sum(exp(x - amax(x)))) + amax(x)

A sum does not care in which order its dimensions are. What is left is smaller, and moved
instead of the whole if need be. So a video's channels are averaged over frames that lie
channels-last.

Needs:  edge dialect.
Keeps:  every output's shape and dtype, and its value up to the order of sums.
Runs:   after convolutions of videos are those of frames.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import torch
from torch._ops import OpOverload
from torch.fx import Graph, Node

from penlight.passes.base import add_node, add_permute, add_view, is_static, tensor_of

aten = torch.ops.aten

# Where each has the dimensions that go, which `keepdim` follows.
_REDUCTIONS = {
    aten.mean.dim: 1,
    aten.sum.dim_IntList: 1,
    aten.amax.default: 1,
    aten.amin.default: 1,
    aten.linalg_vector_norm.default: 2,
}
# How many elements for one make it worth to reduce in two steps.
_MOST_GO = 8
_VOLUMES = (aten.adaptive_avg_pool3d.default, aten._adaptive_avg_pool3d.default)


def simplify_reductions(graph: Graph) -> int:
    """Rewrite `graph` in place; return how many operators changed."""
    changed = 0
    for node in list(graph.nodes):
        if node.target in _VOLUMES and all(size == 1 for size in node.args[1]):
            node.target, node.args = aten.mean.dim, (node.args[0], [-3, -2, -1], True)
            changed += 1
        if node.target is aten.logsumexp.default:
            changed += _in_parts(graph, node)
            continue
        new: Node | None = node
        while new is not None:
            node, new = new, _without_permute(graph, new) or _without_view(graph, new)
            changed += new is not None
    return changed


def _in_parts(graph: Graph, node: Node) -> bool:
    """What torch's logsumexp is made of, which have vector code; infinities are not taken away."""
    x: Any = node.args[0]
    value, result = tensor_of(x), tensor_of(node)
    if value is None or result is None or value.dtype is not torch.float32 or node.kwargs or value.dim() == 0:
        return False
    given: Any = node.args[1]
    dims = {dim % value.dim() for dim in given} or set(range(value.dim()))
    kept = [1 if dim in dims else size for dim, size in enumerate(value.shape)]
    if not is_static(x) or 0 in value.shape:
        return False

    def add(target: OpOverload, args: tuple[Any, ...], sizes: Iterable[Any], dtype: Any = None) -> Node:
        return add_node(graph, target, args, sizes, node, dtype=dtype)

    with graph.inserting_before(node):
        most = add(aten.amax.default, (x, sorted(dims), True), kept)
        size = add(aten.abs.default, (most,), kept)
        is_infinite = add(aten.eq.Scalar, (size, math.inf), kept, torch.bool)
        most = add(aten.masked_fill.Scalar, (most, is_infinite, 0.0), kept)
        less = add(aten.sub.Tensor, (x, most), value.shape)
        powers = add(aten.exp.default, (less,), value.shape)
        total = add(aten.sum.dim_IntList, (powers, sorted(dims), True), kept)
        whole = add(aten.add.Tensor, (add(aten.log.default, (total,), kept), most), kept)
        new = add_view(graph, whole, result.shape, node)
    node.replace_all_uses_with(new)
    graph.erase_node(node)
    return True


def _without_permute(graph: Graph, node: Node) -> Node | None:
    """The reduction in the place of `node` of what its argument is a permutation of."""
    found = _reduced(node, aten.permute_copy.default)
    if found is None:
        return None
    place, permute, given = found
    source: Any = permute.args[0]
    order: Any = permute.args[1]
    dims = [dim % len(order) for dim in order]
    gone = [dims[dim] for dim in given]
    left = [dim for dim in range(len(dims)) if dim not in gone]
    wanted = [dim for dim in dims if dim not in gone]
    sizes, result = tensor_of(source).shape, tensor_of(node).shape  # type: ignore[union-attr]
    args = (source, *node.args[1:place], sorted(gone))
    with graph.inserting_before(node):
        new = add_node(graph, node.target, args, [sizes[dim] for dim in left], node)  # type: ignore[arg-type]
        reduced = new
        if wanted != left:
            reduced = add_permute(graph, reduced, [left.index(dim) for dim in wanted], node)
        reduced = add_view(graph, reduced, result, node)
    node.replace_all_uses_with(reduced)
    graph.erase_node(node)
    return new


def _without_view(graph: Graph, node: Node) -> Node | None:
    """The reduction of what its argument is a view of, if whole dimensions of that go, and most elements."""
    found = _reduced(node, aten.view_copy.default)
    if found is None:
        return None
    place, view, given = found
    source: Any = view.args[0]
    before, after = list(tensor_of(source).shape), list(tensor_of(view).shape)  # type: ignore[union-attr]
    groups = _groups(before, after)
    if groups is None or node.target is aten.linalg_vector_norm.default:
        return None
    gone = [dim for dim, group in enumerate(groups) if before[dim] > 1 and given.issuperset(group)]
    if math.prod(before[dim] for dim in gone) < _MOST_GO:
        return None
    for dim in gone:
        for part in groups[dim]:
            after[part] = 1
    args = (source, *node.args[1:place], gone, True)
    with graph.inserting_before(node):
        sizes = [1 if dim in gone else size for dim, size in enumerate(before)]
        new = add_node(graph, node.target, args, sizes, node)  # type: ignore[arg-type]
        rest = add_view(graph, new, after, node)
        if any(after[dim] > 1 for dim in given):
            rest = add_node(graph, node.target, (rest, *node.args[1:]), tensor_of(node).shape, node)  # type: ignore
        else:
            rest = add_view(graph, rest, tensor_of(node).shape, node)  # type: ignore[union-attr]
    node.replace_all_uses_with(rest)
    graph.erase_node(node)
    return new


def _reduced(node: Node, view: OpOverload) -> tuple[int, Node, set[int]] | None:
    """Of a reduction: where its dimensions are, the `view` that it reduces, and which of it go."""
    place: int | None = _REDUCTIONS.get(node.target)  # type: ignore[call-overload]
    source = node.args[0] if node.args else None
    if place is None or node.kwargs or not isinstance(source, Node) or source.target is not view:
        return None
    value, dims = tensor_of(source), list(node.args[place]) if len(node.args) > place else []  # type: ignore
    if value is None or not dims or not is_static(source, source.args[0]):  # type: ignore[arg-type]
        return None
    return place, source, {dim % value.dim() for dim in dims}


def _groups(before: list[int], after: list[int]) -> list[list[int]] | None:
    """Which dimensions of a view, those of size 1 aside, each of its source was split into."""
    groups: list[list[int]] = []
    at = 0
    for size in before:
        group, product = list[int](), 1
        while product < size and at < len(after):
            if after[at] != 1:
                group.append(at)
                product *= after[at]
            at += 1
        if product != size:
            return None
        groups.append(group)
    return groups
