"""Channels-last images are matrices of pixels: read one as the other where it lies.

    permute(x, [0, 3, 1, 2])        of x [batch, height, width, channels] is an image, channels-last
    transpose(flatten(image, 2))    is its pixels, [batch, height * width, channels]

so what transformers, linear layers and layer norms do between convolutions needs no
copy. An alias is a permute_copy that is marked as one: its result lies channels-last.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch.fx import Graph, Node

from penlight.ir.edge import IMAGE
from penlight.passes.base import add_permute, add_view, tensor_of
from penlight.passes.contiguous import is_channels_last, is_contiguous
from penlight.passes.layouts import Follow, Layout, equal, sizes_of, step_of

aten = torch.ops.aten


def image_of_pixels(graph: Graph, node: Node) -> Node | None:
    """The channels-last image that `node`, views of a row-major tensor, is a copy of; made before `node`."""
    base, value = pixels_behind(node), tensor_of(node)
    if base is None or value is None:
        return None
    n, c, h, w = value.shape
    with graph.inserting_before(node):
        rows = add_view(graph, base, (n, h, w, c), node)
        image = add_permute(graph, rows, (0, 3, 1, 2), node, torch.channels_last)
    image.meta[IMAGE] = True
    return image


def pixels_behind(node: Node) -> Node | None:
    """The tensor that has the pixels of the image `node`, which is views of it, as rows."""
    value = tensor_of(node)
    if value is None or value.dim() != 4 or not _can_be_viewed(node):
        return None
    follow: list[Follow] = []
    base, step = node, step_of(node)
    while step is not None:
        base = step[0]
        follow.insert(0, step[1])
        step = step_of(base)
        if not _is_dense_row_major(base) or not _is_whole(node, base):
            continue
        layout: Layout | None = Layout.dense(sizes_of(tensor_of(base)))  # type: ignore[arg-type]
        for one in follow:
            layout = one(layout) if layout is not None else None
        if layout is None or layout.is_dense():
            continue
        placed = layout.viewed(sizes_of(value))
        if placed is not None and _is_channels_last(placed):
            return base
    return None


def _is_dense_row_major(node: Node) -> bool:
    value = tensor_of(node)
    return value is not None and is_contiguous(value)


def _can_be_viewed(*nodes: Node) -> bool:
    """Has a view of these sizes at most one that is dynamic?"""
    return all(
        sum(not isinstance(size, int) for size in tensor_of(node).shape) <= 1  # type: ignore[union-attr]
        for node in nodes
    )


def channels_last_layout(image: Node) -> Layout:
    """Where the elements of `image`, of 4 dimensions, lie when it is channels-last."""
    n, c, h, w = sizes_of(tensor_of(image))  # type: ignore[arg-type]
    return Layout.of((n, c, h, w), (c * h * w, 1, c * w, c))


def read_images_as_pixels(graph: Graph) -> int:
    """Views that give the pixels of a channels-last image read it where it lies; return how many."""
    changed = 0
    for node in list(graph.nodes):
        found = views_of_image(node)
        if found is None:
            continue
        image, layout = found
        if not _can_be_viewed(node, image) or not _is_whole(node, image) or not layout.is_dense():
            continue
        with graph.inserting_before(node):
            rows = add_permute(graph, image, (0, 2, 3, 1), node)
            value: Any = tensor_of(node)
            new = add_view(graph, rows, tuple(value.shape), node)
        node.replace_all_uses_with(new)
        graph.erase_node(node)
        changed += 1
    return changed


def views_of_image(node: Node) -> tuple[Node, Layout] | None:
    """A channels-last image that views, `node` last, see in row-major order, and where they see it."""
    seen = tensor_of(node)
    if seen is None or not is_contiguous(seen):  # as an alias, which is an image itself
        return None
    steps = []
    step = step_of(node)
    while step is not None:
        steps.append(step[1])
        node = step[0]
        step = step_of(node)
    image: Any = node.args[0] if node.target is aten.clone.default and node.args else None
    before, after = tensor_of(image), tensor_of(node)
    if not steps or before is None or after is None or is_contiguous(before) or not is_channels_last(before):
        return None
    layout: Layout | None = channels_last_layout(image)
    for follow in reversed(steps):
        layout = follow(layout) if layout is not None else None
    return None if layout is None else (image, layout)


def _is_channels_last(layout: Layout) -> bool:
    _, c, h, w = layout.sizes
    wanted = (c * h * w, 1, c * w, c)
    pairs = zip(layout.sizes, layout.strides, wanted, strict=True)
    return layout.offset == 0 and all(
        size == 1 or (step is not None and equal(step, want)) for size, step, want in pairs
    )


def _is_whole(node: Node, base: Node) -> bool:
    sizes = [sizes_of(tensor_of(one)) for one in (node, base)]  # type: ignore[arg-type]
    return not any(0 in own for own in sizes) and equal(*map(math.prod, sizes))
