"""Views of an image that are made in one copy, whichever order it and they lie in.

    x.view(n, g, c // g, h, w).transpose(1, 2).view(n, c, h, w)                 channels are shuffled
    x.view(n, c, h // 2, 2, w // 2, 2).permute(0, 1, 3, 5, 2, 4).view(n, c, 4, h * w // 4)

are views of the numbers of a channels-last image too: its dimensions fall into parts, which
lie in the result in another order (Zhang et al., "ShuffleNet", 2017; Mehta and Rastegari,
"MobileViT", 2022). So are the heads of attention.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch.fx import Graph, Node

from penlight.ir.edge import IMAGE
from penlight.ir.sizes import expression
from penlight.passes.base import add_permute, add_view, tensor_of
from penlight.passes.contiguous import is_contiguous
from penlight.passes.layouts import Layout, Size, equal, sizes_of, step_of

_MOST_PARTS = 8
_LAST = torch.channels_last
_AS_IMAGE = (0, 2, 3, 1)  # dimensions of a channels-last image from the slowest to the fastest


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


def order_of_parts(source: Node, layout: Layout, dims: Sequence[int]) -> tuple[list[Size], list[int]] | None:
    """Sizes of a tensor's parts as they lie in memory, and their places if `dims` are walked in that order.

    None if they are not all of the dense tensor `source`, or another than the slowest has a dynamic size.
    """
    parts = [part for dim in dims for part in layout.dims[dim] if part[0] != 1]
    if layout.offset != 0 or not parts or len(parts) > _MOST_PARTS:
        return None
    if not all(isinstance(stride, int) for _, stride in parts):
        return None
    lying = sorted(range(len(parts)), key=lambda place: -parts[place][1])
    lengths = [parts[place][0] for place in lying]
    dense = [math.prod(lengths[i + 1 :]) for i in range(len(lengths))]
    whole = equal(math.prod(lengths), math.prod(sizes_of(tensor_of(source))))  # type: ignore[arg-type]
    if not whole or [parts[place][1] for place in lying] != dense:
        return None
    return lengths, [lying.index(place) for place in range(len(parts))]


def moved(graph: Graph, source: Node, layout: Layout, node: Node, *, image: bool) -> Node | None:
    """What `node` is a copy of, channels-last if an `image` is wanted, from the dense `source`.

    None where that is not one permutation.

    Args:
        layout: where in `source`, if that is row-major, else as it lies, the elements of `node` are.
    """
    value: Any = tensor_of(source)
    dims = _AS_IMAGE if image else range(len(layout.dims))
    order = order_of_parts(source, layout, dims)
    if order is None:
        return None
    lengths, places = order
    sizes = tuple(tensor_of(node).shape)  # type: ignore[union-attr]
    known = [size for size in (*sizes, *value.shape) if not isinstance(size, int)]
    found = [_among(known, length) for length in lengths]
    if None in found or sum(not isinstance(size, int) for size in sizes) > 1:
        return None
    with graph.inserting_before(node):
        rows = source if is_contiguous(value) else add_permute(graph, source, _AS_IMAGE, node)
        numbers = add_view(graph, rows, found, node)
        if places != sorted(places):
            numbers = add_permute(graph, numbers, places, node)
        if not image:
            return add_view(graph, numbers, sizes, node)
        n, c, h, w = sizes
        result = add_permute(graph, add_view(graph, numbers, (n, h, w, c), node), (0, 3, 1, 2), node, _LAST)
    result.meta[IMAGE] = True
    return result


def _among(known: Sequence[torch.SymInt], size: Size) -> Any:
    """`size` as torch has it: a number, or one of the `known` symbols; None if it is none of them."""
    if isinstance(size, int):
        return size
    return next((symbol for symbol in known if equal(expression(symbol), size)), None)
