"""Masks of attention that is written out: what they mean for scores, and all of them as one.

Masks are added to scores, or say where a number takes their place, while scores have some
dimensions; attention has others, where batches, windows and heads were split or are one.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import torch
from torch.fx import Graph, Node

from penlight.passes.base import add_node, add_view
from penlight.passes.constants import Constants
from penlight.passes.layouts import equal, same_sizes, sizes_of

aten = torch.ops.aten
Sizes = tuple[Any, ...]

# What is true where these are not, of NaN too.
_OPPOSITES: dict[Any, Any] = {
    aten.eq.Scalar: aten.ne.Scalar,
    aten.ne.Scalar: aten.eq.Scalar,
    aten.eq.Tensor: aten.ne.Tensor,
    aten.ne.Tensor: aten.eq.Tensor,
}


@dataclass(frozen=True)
class Fill:
    """`number` instead of scores, where the mask is true, or where it is not."""

    number: float
    where: bool


def mask_sizes(mask: Node, added_to: Sizes, wanted: Sizes) -> Sizes | None:
    """Sizes, without leading ones, with which the mask means the same added to scores of `wanted` sizes."""
    sizes = _without_ones(mask)
    count = len(sizes)
    if (count, len(added_to), len(wanted)) == (4, 5, 4) and not count_dynamic((*sizes, *added_to, wanted[0])):
        # A mask for each window of an image: batches and windows are one dimension now.
        alike = same_sizes((added_to[0] * added_to[1], *added_to[2:]), wanted) and sizes[0] == added_to[1]
        return (wanted[0], *sizes[1:]) if alike else None
    if (count, len(added_to), len(wanted)) == (3, 3, 4) and equal(sizes[0], wanted[0] * wanted[1]):
        # Batches and heads were one dimension then.
        alike = same_sizes((sizes[0], *wanted[2:]), added_to) and not count_dynamic(sizes)
        return (*wanted[:2], *sizes[1:]) if alike else None
    if count > len(wanted):
        return None
    alike = same_sizes(added_to[len(added_to) - count :], wanted[len(wanted) - count :])
    return sizes if alike else None


def join_masks(
    graph: Graph, masks: Iterable[tuple[Node, Sizes]], fill: Fill | None, wanted: Sizes, constants: Constants
) -> Node:
    """All of `masks`, each with the sizes of the scores that it is for, as one for scores of `wanted` sizes.

    With `fill` it is true where a score counts.
    """
    parts = []
    for one, sizes in masks:
        found, shape = mask_sizes(one, sizes, wanted) or (), one.meta["val"].shape
        own = _without_ones(one)
        if len(found) == len(own) and not same_sizes(found, own):
            one = add_view(graph, one, (1, *own))
            wide = (found[0] // own[0], *own)
            one = add_view(graph, add_node(graph, aten.expand_copy.default, (one, [*wide]), wide, one), found)
        elif len(found) > len(shape):
            one = add_view(graph, one, found)
        elif len(shape) > len(wanted):
            extra = len(shape) - len(found)  # leading ones
            one = add_node(graph, aten.squeeze_copy.dims, (one, [*range(extra)]), shape[extra:], one)
        parts.append(one)
    mask = parts[0]
    for one in parts[1:]:
        shape = torch.broadcast_shapes(one.meta["val"].shape, mask.meta["val"].shape)
        mask = add_node(graph, aten.add.Tensor, (one, mask), shape, mask)
    if fill is None or not fill.where:
        return mask
    hidden = constants.get(mask)
    if hidden is not None:
        return constants.add(f"{constants.names[mask]}.not", ~hidden)
    opposite = _OPPOSITES.get(mask.target)
    target, args = (aten.logical_not.default, (mask,)) if opposite is None else (opposite, mask.args)
    return add_node(graph, target, args, mask.meta["val"].shape, mask)


def count_dynamic(sizes: Any) -> int:
    """How many of them are not known?"""
    return sum(not isinstance(size, int) for size in sizes)


def _without_ones(mask: Node) -> Sizes:
    sizes = sizes_of(mask.meta["val"])
    while sizes and equal(sizes[0], 1):
        sizes = sizes[1:]
    return sizes
