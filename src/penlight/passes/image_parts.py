"""Images whose parts lie in another order, made from channels-last images in one copy.

    x.view(n, g, c // g, h, w).transpose(1, 2).view(n, c, h, w)                 channels are shuffled
    x.view(n, c, h // 2, 2, w // 2, 2).permute(0, 1, 3, 5, 2, 4).view(n, c, 4, h * w // 4)

are views of the numbers of a channels-last image too: its dimensions fall into parts, which
lie in the result in another order (Zhang et al., "ShuffleNet", 2017; Mehta and Rastegari,
"MobileViT", 2022).
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import torch
from torch.fx import Graph, Node

from penlight.ir.edge import IMAGE
from penlight.passes.base import add_permute, add_view, tensor_of
from penlight.passes.layouts import Layout, sizes_of, step_of

_MOST_PARTS = 8


def channels_last_layout(image: Node) -> Layout:
    """Where the elements of `image`, of 4 dimensions, lie when it is channels-last."""
    n, c, h, w = sizes_of(tensor_of(image))  # type: ignore[arg-type]
    return Layout.of((n, c, h, w), (c * h * w, 1, c * w, c))


def views_in_order(view: Node, layout: Layout | None) -> Iterator[tuple[Node, Layout]]:
    """`view`, and what is a view of it alone, with where each lies if what `view` is of lies as `layout`."""
    while True:
        step = step_of(view)
        layout = step[1](layout) if step is not None and layout is not None else None
        if layout is None:
            return
        yield view, layout
        if len(view.users) != 1:
            return
        view = next(iter(view.users))


def order_of_parts(layout: Layout) -> tuple[list[int], list[int]] | None:
    """Sizes of the parts that an image has as they lie in memory, and of those as it has them the places.

    None if it does not have all of a dense tensor.
    """
    if len(layout.dims) != 4 or layout.offset != 0:
        return None
    parts = [part for dim in (0, 2, 3, 1) for part in layout.dims[dim] if part[0] != 1]
    if (
        not parts
        or len(parts) > _MOST_PARTS
        or not all(isinstance(number, int) for part in parts for number in part)
    ):
        return None
    lying = sorted(range(len(parts)), key=lambda place: -parts[place][1])
    lengths = [parts[place][0] for place in lying]
    dense = [math.prod(lengths[i + 1 :]) for i in range(len(lengths))]
    if [parts[place][1] for place in lying] != dense:
        return None
    return lengths, [lying.index(place) for place in range(len(parts))]


def moved_image(graph: Graph, image: Node, layout: Layout, node: Node) -> Node:
    """The channels-last image that `node` is a copy of, which has the numbers of `image` at `layout`."""
    order = order_of_parts(layout)
    assert order is not None
    lengths, places = order
    n, c, h, w = tensor_of(node).shape  # type: ignore[union-attr]
    with graph.inserting_before(node):
        numbers = add_view(graph, add_permute(graph, image, (0, 2, 3, 1), node), lengths, node)
        if places != sorted(places):
            numbers = add_permute(graph, numbers, places, node)
        moved = add_permute(
            graph, add_view(graph, numbers, (n, h, w, c), node), (0, 3, 1, 2), node, torch.channels_last
        )
    moved.meta[IMAGE] = True
    return moved
