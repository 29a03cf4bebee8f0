"""Keep images channels-last from one convolution to the next.

Convolutions over packed weights are surrounded by conversions. A conversion back
to row-major order moves down past every operator that computes in either order,
and where it meets one to channels-last, both go. A signal of one dimension is an
image of height 1, and is kept as one in the same way.

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
from penlight.passes.base import add_node, tensor_of
from penlight.passes.channel_shuffles import shuffled_image
from penlight.passes.image_views import image_of_pixels

aten = torch.ops.aten

ELEMENTWISE = {
    *(aten.relu.default, aten.hardtanh.default, aten.clamp.default, aten.sigmoid.default, aten.tanh.default),
    *(aten.hardswish.default, aten.hardsigmoid.default, aten.silu.default, aten.gelu.default),
    *(aten.leaky_relu.default, aten.elu.default, aten.mish.default, aten.softplus.default, aten.neg.default),
    *(aten.abs.default, aten.exp.default, aten.log.default, aten.sqrt.default, aten.rsqrt.default),
    *(aten.add.Tensor, aten.sub.Tensor, aten.mul.Tensor, aten.div.Tensor, aten.maximum.default),
    *(aten.minimum.default, aten.add.Scalar, aten.sub.Scalar, aten.mul.Scalar, aten.div.Scalar),
    *(aten.pow.Tensor_Scalar, aten.where.self, aten._prelu_kernel.default),
}
# One image in, one image out; their other arguments are numbers.
_IMAGES = {
    *(aten.avg_pool2d.default, aten.adaptive_avg_pool2d.default, aten.upsample_nearest2d.default),
    *(aten.upsample_bilinear2d.default, aten.constant_pad_nd.default, aten.cat.default),
    *(aten.upsample_nearest2d.vec, aten.upsample_bilinear2d.vec, aten.slice_copy.Tensor),
    *(aten.reflection_pad2d.default, aten.replication_pad2d.default, aten.channel_shuffle.default),
    *(aten.pixel_shuffle.default, aten.pixel_unshuffle.default),
}
# One image in; several out, or one and numbers of its groups.
_SEVERAL = {aten.split_copy.Tensor, aten.split_with_sizes_copy.default, aten.native_group_norm.default}
# They read an image in any order, and what they give is no image.
_READERS = {aten.mean.dim, aten.sum.dim_IntList, aten.amax.default, aten.amin.default}

_squeeze, _unsqueeze = aten.squeeze_copy.dims, aten.unsqueeze_copy.default


def to_channels_last(graph: Graph, x: Node) -> Node:
    """Insert a copy of `x` in channels-last order; of 3 dimensions, it becomes an image of height 1."""
    value: Any = tensor_of(x)
    if value.dim() == 3:
        x = add_node(graph, _unsqueeze, (x, 2), (*value.shape[:2], 1, value.shape[2]), x)
    return _converted(graph, x, torch.channels_last, x)


def from_channels_last(graph: Graph, image: Node, like: Node) -> Node:
    """Insert a copy of `image` in row-major order, with the dimensions of `like`, which it stands for."""
    back = _converted(graph, image, torch.contiguous_format, like)
    value: Any = tensor_of(like)
    if value.dim() == 4:
        return back
    return add_node(graph, _squeeze, (back, [2]), value.shape, like)


def channels_last_like(node: Node) -> torch.Tensor:
    """The value of `node` as a channels-last image."""
    value: Any = tensor_of(node)
    sizes = value.shape if value.dim() == 4 else (*value.shape[:2], 1, value.shape[2])
    with value.fake_mode:
        return torch.empty(sizes, dtype=value.dtype).contiguous(memory_format=torch.channels_last)


def keep_channels_last(max_pool: OpOverload) -> Callable[[Graph], int]:
    """The pass that moves and merges conversions; `max_pool` pools images, without indices."""

    def keep_channels_last(graph: Graph) -> int:
        changed = 0
        for node in list(graph.nodes):
            if node.op != "call_function":
                continue
            if _is_to_channels_last(node):
                source = _image_behind(node.args[0]) or image_of_pixels(graph, node.args[0])
                if source is not None:
                    node.replace_all_uses_with(source)
                    changed += 1
            elif node.target in _READERS:
                source = _image_behind(node.args[0])
                if source is not None and tensor_of(node.args[0]).dim() == 4:  # type: ignore[union-attr]
                    node.update_arg(0, source)
                    changed += 1
            elif node.target is aten.max_pool2d_with_indices.default:
                changed += _pool(graph, node, max_pool)
            elif node.target in ELEMENTWISE or node.target in _IMAGES:
                changed += _move_down(graph, node)
            elif node.target in _SEVERAL:
                changed += _move_down_results(graph, node)
            elif node.target is aten.view_copy.default:
                shuffled = shuffled_image(graph, node)
                if shuffled is not None:
                    with graph.inserting_before(node):
                        back = from_channels_last(graph, shuffled, node)
                    node.replace_all_uses_with(back)
                    changed += 1
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
            if not _is_to_channels_last(image) or groups != 1 or window[1] * window[2] == 1:
                continue
            source = image.args[0]
            before = tensor_of(source)
            if value is None or before is None or not before.is_contiguous():
                continue
            if isinstance(value.shape[1], int) and value.shape[1] < FEW_CHANNELS:
                node.update_arg(0, source)
                changed += 1
        return changed

    return read_row_major


def _pool(graph: Graph, node: Node, op: OpOverload) -> int:
    """Pool the image itself, if nobody wants the indices."""
    image, users = _image_behind(node.args[0]), list(node.users)
    wanted = [user for user in users if user.target is not operator.getitem or user.args[1] != 0]
    if image is None or wanted or not users:
        return 0
    value = tensor_of(users[0])
    if value is None or value.dim() != 4 or value.dtype != torch.float32:
        return 0
    window = [*node.args[1:], *_POOL_DEFAULTS[len(node.args) - 2 :]]
    with graph.inserting_before(users[0]):
        pooled = graph.call_function(op, (image, *window))
        pooled.meta = {**users[0].meta, "val": channels_last_like(users[0])}
        back = from_channels_last(graph, pooled, users[0])
    for user in users:
        user.replace_all_uses_with(back)
        graph.erase_node(user)
    graph.erase_node(node)
    return 1


def _move_down_results(graph: Graph, node: Node) -> int:
    """As `_move_down`, of an operator with several results: its first argument alone is an image."""
    image, parts = _image_behind(node.args[0]), list(node.users)
    value = tensor_of(node.args[0])
    if image is None or value is None or value.dim() != 4 or not parts:
        return 0
    if any(part.target is not operator.getitem for part in parts):
        return 0
    with graph.inserting_before(node):
        new = graph.call_function(node.target, (image, *node.args[1:]), node.kwargs)  # type: ignore[arg-type]
    with value.fake_mode:  # type: ignore[attr-defined]
        made = [
            torch.empty_like(one, memory_format=torch.channels_last) if one.dim() == 4 else one
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
    return 1


# stride, padding, dilation, ceil_mode
_POOL_DEFAULTS: tuple[Any, ...] = ([], [0, 0], [1, 1], False)


def _move_down(graph: Graph, node: Node) -> int:
    """op(to_contiguous(x), ...) becomes to_contiguous(op(x, ...))."""
    value = node.meta["val"]
    if not isinstance(value, torch.Tensor) or value.dim() not in (3, 4):
        return 0
    if value.dim() == 3 and node.target not in ELEMENTWISE:
        return 0
    replaced: dict[Node, Node] = {}
    has_image = any(_image_behind(source) is not None for source in node.all_input_nodes)
    for source in node.all_input_nodes:
        # What only this reads is copied as little after it as before.
        moves = has_image or (list(source.users) == [node] and tensor_of(source).shape == value.shape)  # type: ignore[union-attr]
        image = _image_behind(source) or (image_of_pixels(graph, source) if moves else None)
        if image is not None:
            if tensor_of(source).dim() != value.dim():  # type: ignore[union-attr]
                return 0
            replaced[source] = image
        elif not _any_order(source, value):
            return 0
    if not replaced:
        return 0
    with graph.inserting_before(node):
        args = torch.fx.map_arg(node.args, lambda arg: replaced.get(arg, arg))
        kwargs = torch.fx.map_arg(node.kwargs, lambda arg: replaced.get(arg, arg))
        new = graph.call_function(node.target, args, kwargs)  # type: ignore[arg-type]
        new.meta = {**node.meta, "val": channels_last_like(node)}
        if node.target is aten.slice_copy.Tensor:
            new.meta[IMAGE] = True
        back = from_channels_last(graph, new, node)
    node.replace_all_uses_with(back)
    graph.erase_node(node)
    return 1


def _any_order(source: Node, result: torch.Tensor) -> bool:
    """A number, a value for each channel, or one image pixel: the same bytes in either order."""
    value = tensor_of(source)
    if value is None or (value.dim() < 3 and value.numel() == 1):
        return True
    if result.dim() == 3 or value.dim() not in (3, 4):
        return False
    return all(isinstance(size, int) and size == 1 for size in value.shape[-2:])


def _converted(graph: Graph, x: Node, order: torch.memory_format, like: Node) -> Node:
    value: Any = tensor_of(x)
    kwargs = {"memory_format": order}
    return add_node(graph, aten.clone.default, (x,), value.shape, like, kwargs=kwargs, order=order)


def _is_to_channels_last(node: Node) -> bool:
    return node.target is aten.clone.default and node.kwargs.get("memory_format") is torch.channels_last


def _image_behind(node: Any) -> Node | None:
    """The channels-last image that `node` is a row-major copy of, of 4 dimensions or as a signal of 3."""
    if not isinstance(node, Node):
        return None
    if node.target is _squeeze and node.args[1] == [2]:
        return _image_behind(node.args[0])
    if node.target is _unsqueeze and node.args[1] == 2:
        flat = node.args[0]
        return _image_behind(flat) if isinstance(flat, Node) and flat.target is _squeeze else None
    if node.target is not aten.clone.default or not isinstance(node.args[0], Node):
        return None
    if node.kwargs.get("memory_format") is not torch.contiguous_format:
        return None
    value = tensor_of(node)
    return node.args[0] if value is not None and value.dim() == 4 else None
