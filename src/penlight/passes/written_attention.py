"""Find attention written out, and make it one operator.

    softmax(q @ k.mT * factor + mask, -1) @ v   ->   attention(q, k, v, mask, scale=factor)
    v @ softmax(q.mT @ k, -1).mT                ->   attention(q.mT, k.mT, v.mT).mT

A number may divide instead, and what is one number for each head, as of cosine attention, is a
factor of the queries. Masks may be several, or one of conditions, where a number
takes the place of scores. The scores are never in memory then. The second is how it is
written over images, whose pixels as rows are turned, and are none when they lie
channels-last.

A mask that hides every key of a query with -inf makes softmax NaN, and ATen's attention
zero: what is put here does as softmax.

Needs:  edge dialect, float32; nothing else reads the scores.
Keeps:  outputs up to rounding.
Runs:   before a scale is folded and views around attention are looked at.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch._ops import OpOverload
from torch.fx import Graph, Node

from penlight.passes.attention_masks import Fill, Sizes, count_dynamic, join_masks, mask_sizes
from penlight.passes.base import Leave, add_node, add_permute, add_view, tensor_of
from penlight.passes.constants import Constants
from penlight.passes.layouts import equal, same_sizes, sizes_of
from penlight.passes.merge_views import RESHAPES

aten = torch.ops.aten

_TURNED = (0, 2, 1)
_PRODUCTS = (aten.bmm.default, aten.mm.default)
_SCALES = {aten.mul.Scalar, aten.div.Scalar}
# Scores of one matrix.
_FEW = 1024


@dataclass(frozen=True)
class Scores:
    """`product`, of matrices, times `factor`, with masks, each with the sizes of the scores that it is for.

    They are added; with `fill` there is one, of conditions. `factors` are tensors of a number for each head.
    """

    product: Node
    factor: float
    factors: tuple[Node, ...]
    masks: tuple[tuple[Node, Sizes], ...]
    fill: Fill | None


def fuse_written_attention(attention: OpOverload) -> Callable[[Graph, Constants, Leave], int]:
    """The pass that puts `attention`, Penlight's, in place of its parts."""

    def fuse_written_attention(graph: Graph, constants: Constants, leave: Leave) -> int:
        fused = 0
        for node in list(graph.nodes):
            found = _weights_of(node)
            if found is None:
                continue
            softmax, turned = found
            scores = _scores(softmax, constants)
            values: Any = node.args[0 if turned else 1]
            reason = _obstacle(node, softmax, scores, values)
            if scores is None or reason is not None:
                leave(
                    softmax, reason or "its input is no product that is scaled, masked and read nowhere else"
                )
                continue
            with graph.inserting_before(node):
                values = _three(graph, values)
                if turned:
                    values = add_permute(graph, values, _TURNED, node)
                new = _attention(graph, softmax, scores, values, attention, constants)
                if turned:
                    new = add_permute(graph, new, _TURNED, node)
                if node.target is aten.mm.default:
                    new = add_view(graph, new, node.meta["val"].shape)
                node.replace_all_uses_with(new)
            fused += 1
        return fused

    return fuse_written_attention


def _weights_of(node: Node) -> tuple[Node, bool] | None:
    """The softmax over keys, if `node` is the product of it with values, or of turned ones with it turned."""
    if node.target not in _PRODUCTS:
        return None
    for turned, place in ((False, 0), (True, 1)):
        found = _before_views(node.args[place], node)
        if turned and found is not None:
            found = _before_views(found.args[0], found) if _turns_matrices(found) else None
        value = tensor_of(found)
        if found is None or value is None or found.target is not aten._softmax.default or value.dim() < 2:
            continue
        if found.args[1] in (-1, value.dim() - 1):
            return found, turned
    return None


def _turns_matrices(node: Node) -> bool:
    """Does it exchange the last two dimensions?"""
    if node.target is not aten.permute_copy.default:
        return False
    dims: Any = node.args[1]
    count = len(dims)
    return [dim % count for dim in dims] == [*range(count - 2), count - 1, count - 2]


def _before_views(node: Any, reader: Node) -> Node | None:
    """What `node` is reshaped from; None if something else than `reader` reads any of it."""
    while isinstance(node, Node) and list(node.users) == [reader]:
        if node.target not in RESHAPES:
            return node
        reader, node = node, node.args[0]
    return None


def _scores(softmax: Node, constants: Constants) -> Scores | None:
    """What softmax is of, followed back to the product."""
    factor, factors, masks, fill = 1.0, list[Node](), list[tuple[Node, Sizes]](), None
    found = _before_views(softmax.args[0], softmax)
    while found is not None and found.target not in _PRODUCTS:
        args: Any = found.args
        if found.target in _SCALES and _is_scale(args[1]):
            number = float(args[1])
            factor *= number if found.target is aten.mul.Scalar else 1 / number
            found = _before_views(args[0], found)
        elif found.target is aten.mul.Tensor and _is_product(args[0]) != _is_product(args[1]):
            scores, of_heads = args if _is_product(args[0]) else reversed(args)
            if not _scales_heads(of_heads, found, softmax):
                return None
            factors.append(of_heads)
            found = _before_views(scores, found)
        elif found.target is aten.add.Tensor and not found.kwargs and factor == 1.0 and not factors:
            # A factor after the sum would be the mask's too.
            scores, mask = args if _is_product(args[0]) else reversed(args)
            sizes = sizes_of(found.meta["val"])
            if not isinstance(mask, Node) or not same_sizes(sizes_of(scores.meta["val"]), sizes):
                return None
            masks.append((mask, sizes))
            found = _before_views(scores, found)
        else:
            filled = _filled(found, constants) if factor == 1.0 and not masks and not factors else None
            if filled is None:
                return None
            scores, mask, fill = filled
            masks.append((mask, sizes_of(found.meta["val"])))
            found = _before_views(scores, found)
    if found is None or (fill is not None and len(masks) > 1):
        return None
    return Scores(found, factor, tuple(factors), tuple(masks), fill)


def _scales_heads(factor: Any, product: Node, softmax: Node) -> bool:
    """Is it one number for all scores of a head, or of all heads?"""
    value = tensor_of(factor)
    if value is None or value.dtype is not torch.float32 or count_dynamic(value.shape):
        return False
    alike = same_sizes(*(sizes_of(node.meta["val"]) for node in (product, softmax)))
    return alike and all(size == 1 for size in value.shape[-2:])


def _filled(node: Node, constants: Constants) -> tuple[Node, Node, Fill] | None:
    """Scores, the mask, and what takes the place of scores where it says so."""
    args: Any = node.args
    if node.target is aten.masked_fill.Scalar:
        scores, mask, number = args
        where = True
    elif node.target is aten.where.self:
        where = _is_product(args[2])
        mask, number, scores = args if where else (args[0], args[2], args[1])
        single = constants.like(number)
        number = constants.get(number).item() if single is not None and single.numel() == 1 else None  # type: ignore[union-attr]
    else:
        return None
    value, conditions = tensor_of(scores), tensor_of(mask)
    if not isinstance(number, int | float) or value is None or conditions is None:
        return None
    if conditions.dtype is not torch.bool or not same_sizes(sizes_of(value), sizes_of(node.meta["val"])):
        return None
    representable = not math.isfinite(number) or abs(number) <= torch.finfo(torch.float32).max
    return (scores, mask, Fill(float(number), where)) if representable else None


def _is_scale(number: Any) -> bool:
    return isinstance(number, int | float) and math.isfinite(number) and number != 0


def _is_product(node: Any) -> bool:
    """Does it come from a product as scores do?"""
    while isinstance(node, Node) and (node.target in RESHAPES or node.target in _SCALES):
        node = node.args[0]
    if isinstance(node, Node) and node.target in (aten.add.Tensor, aten.mul.Tensor):
        return any(map(_is_product, node.args))
    return isinstance(node, Node) and node.target in _PRODUCTS


def _obstacle(node: Node, softmax: Node, scores: Scores | None, values: Node) -> str | None:
    value = tensor_of(softmax)
    if scores is None or value is None:
        return None
    if value.dtype is not torch.float32:
        return "it is not of float32"
    wanted = sizes_of(value)
    if not same_sizes(sizes_of(scores.product.meta["val"])[-2:], wanted[-2:]):
        return "its scores have other sizes than the product"
    kind = torch.float32 if scores.fill is None else torch.bool
    for mask, sizes in scores.masks:
        like = tensor_of(mask)
        if like is None or like.dtype is not kind or mask_sizes(mask, sizes, wanted) is None:
            return "its mask has other dimensions than the scores, or is not of float32"
    results = (*scores.product.args, values, node)
    if any(count_dynamic((*value.shape[:-2], *part.meta["val"].shape[-2:])) > 1 for part in results):  # type: ignore[union-attr]
        return "several of its sizes are dynamic"
    if node.target is aten.mm.default and not count_dynamic(value.shape) and value.numel() < _FEW:
        return "it has so few scores that its parts take less time"
    heads = math.prod(wanted[:-2])
    batches = [(1, 1, *sizes_of(part.meta["val"]))[-3] for part in results]  # type: ignore[union-attr]
    if not all(equal(batch, heads) for batch in batches):
        return "its matrices are in other batches than its scores"
    return None


def _three(graph: Graph, matrix: Node) -> Node:
    """With a dimension for batches and heads."""
    sizes = matrix.meta["val"].shape
    return add_view(graph, matrix, (1, *sizes)) if len(sizes) == 2 else matrix


def _attention(
    graph: Graph, softmax: Node, scores: Scores, values: Node, attention: OpOverload, constants: Constants
) -> Node:
    """The weighted values, of three dimensions as those are."""
    value: Any = tensor_of(softmax)
    query, turned_key = (_three(graph, part) for part in scores.product.args[:2])  # type: ignore[arg-type]
    heads, fill = value.shape[:-2] or (1,), scores.fill
    operands: list[Any] = [query, add_permute(graph, turned_key, _TURNED, values), values]
    args = [add_view(graph, part, (*heads, *part.meta["val"].shape[1:])) for part in operands]
    for factor in scores.factors:
        args[0] = add_node(graph, aten.mul.Tensor, (args[0], factor), args[0].meta["val"].shape, args[0])
    if scores.masks:
        args.append(join_masks(graph, scores.masks, scores.fill, sizes_of(value), constants))
    number = None if fill is None else fill.number
    kwargs = {"scale": scores.factor, "safe_softmax": False, "hidden_score": number}
    width = values.meta["val"].shape[-1]
    shape = (*heads, value.shape[-2], width)
    new = add_node(graph, attention, tuple(args), shape, softmax, kwargs=kwargs)
    flat = (*query.meta["val"].shape[:2], width)
    return add_view(graph, new, flat)
