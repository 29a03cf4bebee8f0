"""Keep images channels-last from one convolution to the next.

Convolutions over packed weights are surrounded by conversions. A conversion back
to row-major order moves down past every operator that computes in either order,
and where it meets one to channels-last, both go.

Needs:  edge dialect.
Keeps:  shapes, dtypes, values.
"""

from __future__ import annotations

from typing import Any

import torch
from torch.fx import Graph, Node

from penlight.passes.base import tensor_of

aten = torch.ops.aten

_ELEMENTWISE = {
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
    aten.max_pool2d_with_indices.default,
}
# They read an image in any order, and what they give is no image.
_READERS = {aten.mean.dim, aten.sum.dim_IntList, aten.amax.default, aten.amin.default}


def to_channels_last(graph: Graph, x: Node) -> Node:
    """Insert a copy of `x`, a node of 4 dimensions, in channels-last order."""
    return _converted(graph, x, torch.channels_last, x)


def to_contiguous(graph: Graph, x: Node, like: Node) -> Node:
    """Insert a copy of `x` in row-major order; `like` is where it comes from in the model."""
    return _converted(graph, x, torch.contiguous_format, like)


def keep_channels_last(graph: Graph) -> int:
    """Move and merge conversions; return how many places changed."""
    changed = 0
    for node in list(graph.nodes):
        if node.op != "call_function":
            continue
        if _is_to_channels_last(node):
            source = _image_behind(node.args[0])
            if source is not None:
                node.replace_all_uses_with(source)
                changed += 1
        elif node.target in _READERS:
            source = _image_behind(node.args[0])
            if source is not None:
                node.update_arg(0, source)
                changed += 1
        elif node.target in _ELEMENTWISE or node.target in _IMAGES:
            changed += _move_down(graph, node)
    return changed


def _move_down(graph: Graph, node: Node) -> int:
    """op(to_contiguous(x), ...) becomes to_contiguous(op(x, ...))."""
    values = node.meta["val"] if isinstance(node.meta["val"], tuple | list) else [node.meta["val"]]
    if any(not isinstance(value, torch.Tensor) or value.dim() != 4 for value in values):
        return 0
    replaced: dict[Node, Node] = {}
    for source in node.all_input_nodes:
        image = _image_behind(source)
        if image is not None:
            replaced[source] = image
        elif not _any_order(source, values[0]):
            return 0
    if not replaced:
        return 0
    node.args = torch.fx.map_arg(node.args, lambda arg: replaced.get(arg, arg))
    node.kwargs = torch.fx.map_arg(node.kwargs, lambda arg: replaced.get(arg, arg))
    results = [node] if not isinstance(node.meta["val"], tuple | list) else list(node.users)
    images = [_channels_last(value) for value in values]
    node.meta["val"] = images[0] if results == [node] else tuple(images)
    for result in results:
        if result is not node:
            result.meta["val"] = images[result.args[1]]  # type: ignore[index]
        with graph.inserting_after(result):
            back = _converted(graph, result, torch.contiguous_format, result)
        result.replace_all_uses_with(back, delete_user_cb=lambda user, back=back: user is not back)  # type: ignore[misc]
    return 1


def _any_order(source: Node, result: torch.Tensor) -> bool:
    """A number, a value for each channel, or one image pixel: the same bytes in either order."""
    value = tensor_of(source)
    if value is None:
        return True
    if value.dim() < 3:
        return value.numel() == 1
    tail = value.shape[-2:] if value.dim() in (3, 4) else ()
    return len(tail) == 2 and all(isinstance(size, int) and size == 1 for size in tail)


def _converted(graph: Graph, x: Node, order: torch.memory_format, like: Node) -> Node:
    node = graph.call_function(aten.clone.default, (x,), {"memory_format": order})
    value: Any = tensor_of(x)
    if order is torch.channels_last:
        image = _channels_last(value)
    else:
        with value.fake_mode:
            image = torch.empty(value.shape, dtype=value.dtype)
    node.meta = {**like.meta, "val": image}
    return node


def _channels_last(value: Any) -> torch.Tensor:
    with value.fake_mode:
        return torch.empty(value.shape, dtype=value.dtype).contiguous(memory_format=torch.channels_last)


def _is_to_channels_last(node: Node) -> bool:
    return node.target is aten.clone.default and node.kwargs.get("memory_format") is torch.channels_last


def _image_behind(node: Any) -> Node | None:
    """The channels-last image that `node` is a row-major copy of."""
    if not isinstance(node, Node) or node.target is not aten.clone.default:
        return None
    if node.kwargs.get("memory_format") is not torch.contiguous_format or not isinstance(node.args[0], Node):
        return None
    value = tensor_of(node)
    return node.args[0] if value is not None and value.dim() == 4 else None
