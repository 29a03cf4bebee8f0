"""Copies of images from one order to the other, and what such a copy is of.

A signal of one dimension is an image of height 1.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch.fx import Graph, Node

from penlight.passes.base import add_node, tensor_of
from penlight.passes.contiguous import dense

aten = torch.ops.aten

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
    return channels_last_of(node, value.shape if value.dim() == 4 else (*value.shape[:2], 1, value.shape[2]))


def channels_last_of(node: Node, sizes: Sequence[Any]) -> torch.Tensor:
    """A channels-last image of these sizes, with the dtype of `node`."""
    value: Any = tensor_of(node)
    with value.fake_mode:
        return dense(sizes, value.dtype, torch.channels_last)


def _converted(graph: Graph, x: Node, order: torch.memory_format, like: Node) -> Node:
    value: Any = tensor_of(x)
    kwargs = {"memory_format": order}
    return add_node(graph, aten.clone.default, (x,), value.shape, like, kwargs=kwargs, order=order)


def is_to_channels_last(node: Node) -> bool:
    return node.target is aten.clone.default and node.kwargs.get("memory_format") is torch.channels_last


def image_behind(node: Any) -> Node | None:
    """The channels-last image that `node` is a row-major copy of."""
    if not isinstance(node, Node):
        return None
    if node.target is not aten.clone.default or not isinstance(node.args[0], Node):
        return None
    if node.kwargs.get("memory_format") is not torch.contiguous_format:
        return None
    value = tensor_of(node)
    return node.args[0] if value is not None and value.dim() == 4 else None
