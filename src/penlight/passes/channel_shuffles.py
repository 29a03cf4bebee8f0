"""The channels of an image in another order, as networks with groups write it (Zhang et al. 2017).

    x.view(n, g, c // g, h, w).transpose(1, 2).view(n, c, h, w)

of a channels-last image moves numbers within pixels, and gives such an image again.
"""

from __future__ import annotations

import math

import torch
from torch.fx import Graph, Node

from penlight.ir.edge import IMAGE
from penlight.passes.base import add_permute, add_view, tensor_of
from penlight.passes.image_views import views_of_image
from penlight.passes.layouts import Layout

aten = torch.ops.aten


def shuffled_image(graph: Graph, node: Node) -> Node | None:
    """The channels-last image that `node`, views of another that move its channels alone, is a copy of."""
    found, value = views_of_image(node), tensor_of(node)
    if found is None or value is None or value.dim() != 4:
        return None
    image, layout = found
    order = order_of_channels(image, layout)
    if order is None:
        return None
    n, c, h, w = value.shape
    lengths, places = order
    with graph.inserting_before(node):
        pixels = add_permute(graph, image, (0, 2, 3, 1), node)
        parts = add_view(graph, pixels, (n, h, w, *lengths), node)
        turned = add_permute(graph, parts, (0, 1, 2, *(3 + place for place in places)), node)
        again = add_view(graph, turned, (n, h, w, c), node)
        shuffled = add_permute(graph, again, (0, 3, 1, 2), node, torch.channels_last)
    shuffled.meta[IMAGE] = True
    return shuffled


def order_of_channels(image: Node, layout: Layout) -> tuple[list[int], list[int]] | None:
    """Sizes of the channels' parts as they lie in a pixel, and their places in the result."""
    shape = list(tensor_of(image).shape)  # type: ignore[union-attr]
    if not all(isinstance(size, int) for size in (*shape, *layout.sizes)):
        return None
    n, c, h, w = shape
    if list(layout.sizes) != shape or layout.offset != 0:
        return None
    around = zip((n, h, w), (layout.strides[dim] for dim in (0, 2, 3)), (c * h * w, c * w, c), strict=True)
    if any(size != 1 and stride != wanted for size, stride, wanted in around):
        return None
    parts = [part for part in layout.dims[1] if part[0] != 1]
    lying = sorted(range(len(parts)), key=lambda place: -parts[place][1])
    lengths = [parts[place][0] for place in lying]
    dense = [math.prod(lengths[i + 1 :]) for i in range(len(lengths))]
    if lying == list(range(len(parts))) or [parts[place][1] for place in lying] != dense:
        return None
    return lengths, [lying.index(place) for place in range(len(parts))]
