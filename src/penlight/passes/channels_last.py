"""Keep images channels-last from one convolution to the next.

Convolutions over packed weights are surrounded by copies. A copy back to row-major
order moves down past the operators that are to compute on channels-last images
(image_order.py says which), and where it meets one to channels-last, both go.

Needs:  edge dialect.
Keeps:  shapes, dtypes, values.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import torch
from torch._ops import OpOverload
from torch.fx import Graph, Node

from penlight.ir.edge import IMAGE
from penlight.passes.base import tensor_of
from penlight.passes.contiguous import dense, is_contiguous
from penlight.passes.image_copies import (
    channels_last_like,
    from_channels_last,
    image_behind,
    is_to_channels_last,
    to_channels_last,
)
from penlight.passes.image_order import (
    READERS,
    SEVERAL,
    channels_last_nodes,
    in_any_order,
)
from penlight.passes.image_parts import moved, views_in_order
from penlight.passes.image_views import channels_last_layout, image_of_pixels
from penlight.passes.layouts import Layout, sizes_of
from penlight.passes.unread_indices import MAX_POOL, window_of

aten = torch.ops.aten


def keep_channels_last(max_pool: OpOverload) -> Callable[[Graph], int]:
    """The pass that moves and merges conversions; `max_pool` pools images, without indices."""

    def keep_channels_last(graph: Graph) -> int:
        changed = 0
        nodes = list(graph.nodes)
        chosen, views = channels_last_nodes(nodes)
        for node in nodes:
            if node.op != "call_function":
                continue
            if is_to_channels_last(node):
                source = image_behind(node.args[0]) or image_of_pixels(graph, node.args[0])
                if source is not None:
                    node.replace_all_uses_with(source)
                    changed += 1
            elif node.target in READERS:
                source = image_behind(node.args[0])
                if source is not None:
                    node.update_arg(0, source)
                    changed += 1
            elif node in views:
                changed += _move_parts(graph, node, views[node], node in chosen)
            elif node in chosen:
                changed += _move_down(graph, node, max_pool)
        return changed

    return keep_channels_last


# Convolutions with fewer channels read images in either order (kernels/optimized/convolution.cpp).
FEW_CHANNELS = 32


def read_row_major(convolution: OpOverload) -> Callable[[Graph], int]:
    """The pass that has the first convolutions read a row-major image without a conversion."""

    def read_row_major(graph: Graph) -> int:
        changed = 0
        for node in graph.find_nodes(op="call_function", target=convolution):
            image, window, groups = node.args[0], node.args[3], node.args[7]
            value = tensor_of(image)
            if not is_to_channels_last(image) or groups != 1 or window[1] * window[2] == 1:
                continue
            source = image.args[0]
            before = tensor_of(source)
            if value is None or before is None or not is_contiguous(before):
                continue
            if isinstance(value.shape[1], int) and value.shape[1] < FEW_CHANNELS:
                node.update_arg(0, source)
                changed += 1
        return changed

    return read_row_major


def _move_down(graph: Graph, node: Node, max_pool: OpOverload) -> int:
    """Have `node` compute on channels-last images; copies after it give what it gave."""
    if node.target is MAX_POOL:
        _pool(graph, node, max_pool)
    elif node.target in SEVERAL:
        _several(graph, node)
    else:
        _one(graph, node, {source: _image(graph, source, node) for source in node.all_input_nodes})
    return 1


def _move_parts(graph: Graph, node: Node, views: int, as_image: bool) -> int:
    """Make `node`, the last of so many views of an image, in one copy of what there is of that."""
    first = node
    for _ in range(views - 1):
        first = first.args[0]  # type: ignore[assignment]
    source: Any = first.args[0]
    image = image_behind(source)
    if image is None and not as_image:
        return 0
    lies = Layout.dense(sizes_of(tensor_of(source))) if image is None else channels_last_layout(source)  # type: ignore[arg-type]
    layout = next((found for one, found in views_in_order(first, lies) if one is node), None)
    result = None if layout is None else moved(graph, image or source, layout, node, image=as_image)
    if result is None:
        return 0
    if as_image:
        with graph.inserting_before(node):
            result = from_channels_last(graph, result, node)
    node.replace_all_uses_with(result)
    graph.erase_node(node)
    return 1


def _image(graph: Graph, source: Any, reader: Node) -> Node:
    """`source` channels-last, as `reader` is to read it; what is the same in either order as it is."""
    found = image_behind(source)
    if found is None and in_any_order(source):
        return source  # type: ignore[no-any-return]
    found = found or image_of_pixels(graph, source)
    if found is None:
        with graph.inserting_before(reader):
            found = to_channels_last(graph, source)
    return found


def _one(graph: Graph, node: Node, images: dict[Node, Node]) -> None:
    args = torch.fx.map_arg(node.args, lambda arg: images.get(arg, arg))
    kwargs = torch.fx.map_arg(node.kwargs, lambda arg: images.get(arg, arg))
    with graph.inserting_before(node):
        new = graph.call_function(node.target, args, kwargs)  # type: ignore[arg-type]
        new.meta = {**node.meta, "val": channels_last_like(node), IMAGE: True}
        back = from_channels_last(graph, new, node)
    node.replace_all_uses_with(back)
    graph.erase_node(node)


def _several(graph: Graph, node: Node) -> None:
    """As `_one`, of an operator with several results: its first argument alone is an image."""
    image, parts = _image(graph, node.args[0], node), list(node.users)
    with graph.inserting_before(node):
        new = graph.call_function(node.target, (image, *node.args[1:]), node.kwargs)  # type: ignore[arg-type]
    with image.meta["val"].fake_mode:
        made = [
            dense(one.shape, one.dtype, torch.channels_last) if one.dim() == 4 else one
            for one in node.meta["val"]
        ]
    new.meta = {**node.meta, "val": type(node.meta["val"])(made), IMAGE: True}
    for part in parts:
        with graph.inserting_before(part):
            piece = graph.call_function(operator.getitem, (new, part.args[1]))
            piece.meta = {**part.meta, "val": made[part.args[1]]}  # type: ignore[index]
            back = from_channels_last(graph, piece, part) if piece.meta["val"].dim() == 4 else piece
        part.replace_all_uses_with(back)
        graph.erase_node(part)
    graph.erase_node(node)


def _pool(graph: Graph, node: Node, op: OpOverload) -> None:
    """Pool the image itself, without indices."""
    users = list(node.users)
    image = _image(graph, node.args[0], node)
    with graph.inserting_before(users[0]):
        pooled = graph.call_function(op, (image, *window_of(node)))
        pooled.meta = {**users[0].meta, "val": channels_last_like(users[0])}
        back = from_channels_last(graph, pooled, users[0])
    for user in users:
        user.replace_all_uses_with(back)
        graph.erase_node(user)
    graph.erase_node(node)
