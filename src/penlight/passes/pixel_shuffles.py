"""Shuffles of pixels beside convolutions as views, which are made in one copy in whichever order is wanted.

    pixel_shuffle(x, r)     ->   x.view(n, c, r, r, h, w).permute(0, 1, 4, 2, 5, 3).view(n, c, h * r, w * r)
    pixel_unshuffle(x, r)   ->   x.view(n, c, h, r, w, r).permute(0, 1, 3, 5, 2, 4).view(n, c * r * r, h, w)

The operators themselves give the order that they read: at the end of a network, and at its
beginning, that was a copy more (Shi et al., "Real-time single image and video super-resolution",
2016).

Needs:  edge dialect; sizes that are known.
Keeps:  every output's shape, dtype and value.
Runs:   after weights are packed, before images are kept channels-last.
"""

from __future__ import annotations

from typing import Any

import torch
from torch.fx import Graph, Node

from penlight.passes.base import add_permute, add_view, is_static, tensor_of
from penlight.passes.image_copies import image_behind, is_to_channels_last
from penlight.passes.image_order import is_elementwise

aten = torch.ops.aten


def shuffle_by_views(graph: Graph) -> int:
    """Rewrite `graph` in place; return how many operators became views."""
    changed = 0
    for node in list(graph.nodes):
        sizes, parts, order = _parts_of(node)
        if not parts:
            continue
        source: Any = node.args[0]
        with graph.inserting_before(node):
            lying = add_permute(graph, add_view(graph, source, parts, node), order, node)
            new = add_view(graph, lying, sizes, node)
        node.replace_all_uses_with(new)
        graph.erase_node(node)
        changed += 1
    return changed


def _is_image(source: Any) -> bool:
    """Is it, or will it be when functions of its elements are channels-last too?"""
    while image_behind(source) is None:
        if not is_elementwise(source.target) or len(source.all_input_nodes) != 1:
            return False
        source = source.all_input_nodes[0]
    return True


def _parts_of(node: Node) -> tuple[list[int], list[int], list[int]]:
    """Sizes of the result, parts of the source and their order; nothing where the operator is to stay."""
    stays: tuple[list[int], list[int], list[int]] = ([], [], [])
    if node.target not in (aten.pixel_shuffle.default, aten.pixel_unshuffle.default):
        return stays
    source, value = node.args[0], tensor_of(node)
    if value is None or value.dim() != 4 or not is_static(node, source) or not value.is_contiguous():  # type: ignore[arg-type]
        return stays
    n, c, h, w = tensor_of(source).shape  # type: ignore[union-attr]
    factor: Any = node.args[1]
    if node.target is aten.pixel_shuffle.default:
        if not _is_image(source):
            return stays
        return list(value.shape), [n, c // factor**2, factor, factor, h, w], [0, 1, 4, 2, 5, 3]
    if not all(map(is_to_channels_last, node.users)):
        return stays
    return list(value.shape), [n, c, h // factor, factor, w // factor, factor], [0, 1, 3, 5, 2, 4]
