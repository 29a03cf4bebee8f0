"""Signals of one dimension are images of height 1.

    add(squeeze(a, 2), squeeze(b, 2))   ->   squeeze(add(a, b), 2)

What computes between convolutions of signals does so on images then, and all that is done
for images, their order, activations and residuals, is done for signals too.

Needs:  edge dialect; convolutions of signals between copies from and to images.
Keeps:  every output's shape, dtype and value.
Runs:   before orders of images are chosen.
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
from penlight.passes.image_copies import is_to_channels_last
from penlight.passes.image_order import READERS, is_elementwise
from penlight.passes.layouts import same_sizes, sizes_of
from penlight.passes.merge_views import RESHAPES

aten = torch.ops.aten

_squeeze, _unsqueeze = aten.squeeze_copy.dims, aten.unsqueeze_copy.default


def signals_as_images(graph: Graph) -> int:
    """Rewrite `graph` in place; return how many operators compute on images now."""
    if not any(_is_of_convolution(node) for node in graph.nodes):
        return 0
    for node in graph.nodes:
        _say_height(node)
    found = _beside_images(graph)
    images: dict[Node, Node] = {}
    for node in list(graph.nodes):
        if node in found:
            _lift(graph, node, images)
    for node in graph.find_nodes(op="call_function", target=_unsqueeze):
        if _adds_height(node) and _takes_height(node.args[0]):
            node.replace_all_uses_with(node.args[0].args[0])
    return len(found)


def _is_of_convolution(node: Node) -> bool:
    """Is it the image of a signal that a convolution reads?"""
    return is_to_channels_last(node) and node.args[0].target is _unsqueeze  # type: ignore[union-attr]


def _say_height(node: Node) -> None:
    """Write a view of a signal as an image, or back, as one dimension more or less."""
    if node.target not in RESHAPES:
        return
    before, after = (sizes_of(value) for value in map(tensor_of, (node.args[0], node)) if value is not None)
    if len(before) == 3 and same_sizes((*before[:2], 1, before[2]), after):
        node.target, node.args, node.kwargs = _unsqueeze, (node.args[0], 2), {}
    elif len(after) == 3 and same_sizes(before, (*after[:2], 1, after[2])):
        node.target, node.args, node.kwargs = _squeeze, (node.args[0], [2]), {}


def _adds_height(node: Node) -> bool:
    """Is it a signal as an image?"""
    return bool(node.target is _unsqueeze and _is_signal(node.args[0]) and node.args[1] == 2)


def _takes_height(node: Any) -> bool:
    """Is it an image as a signal?"""
    return isinstance(node, Node) and node.target is _squeeze and node.args[1] == [2] and _is_signal(node)


def _beside_images(graph: Graph) -> set[Node]:
    """What can compute on images, and is connected by such to what does."""
    left = []
    for node in graph.nodes:
        if _adds_height(node):
            left.append(node.args[0])
        elif _takes_height(node):
            left.append(node)
    found: set[Node] = set()
    while left:
        signal = left.pop()
        maker: Any = signal.args[0] if signal.target is operator.getitem else signal
        for node in (maker, *signal.users):
            if node not in found and as_image(node) is not None:
                found.add(node)
                left += filter(_is_signal, (*node.all_input_nodes, node, *node.users))
    return found


def _is_signal(node: Any) -> bool:
    value = tensor_of(node)
    return value is not None and value.dim() == 3


def _lift(graph: Graph, node: Node, images: dict[Node, Node]) -> None:
    """Have `node` compute on `images` of its signals, as far as there are some already."""

    def image(source: Node) -> Node:
        value = tensor_of(source)
        if value is None or value.dim() < 2:
            return source
        if _takes_height(source):
            return source.args[0]  # type: ignore[return-value]
        if source not in images:
            place, sizes = value.dim() - 1, list(value.shape)
            images[source] = add_node(
                graph, _unsqueeze, (source, place), (*sizes[:place], 1, *sizes[place:]), source
            )
        return images[source]

    target, arguments, keywords = as_image(node)  # type: ignore[misc]
    with graph.inserting_before(node):
        args = torch.fx.map_arg(tuple(arguments), image)
        new = graph.call_function(target, args, torch.fx.map_arg(keywords, image))
    results = node.meta["val"]
    made = (
        [_of_height_1(one) for one in results] if isinstance(results, list | tuple) else _of_height_1(results)
    )
    new.meta = {**node.meta, "val": type(results)(made) if isinstance(made, list) else made}
    new.meta.pop(IMAGE, None)
    if isinstance(made, torch.Tensor):
        _replace(graph, node, new)
        return
    for part in list(node.users):
        with graph.inserting_before(part):
            piece = graph.call_function(operator.getitem, (new, part.args[1]))
            piece.meta = {**part.meta, "val": made[part.args[1]]}  # type: ignore[index]
        _replace(graph, part, piece)
    graph.erase_node(node)


def _of_height_1(value: torch.Tensor) -> torch.Tensor:
    if value.dim() != 3:
        return value
    with value.fake_mode:  # type: ignore[attr-defined]
        return torch.empty((*value.shape[:2], 1, value.shape[2]), dtype=value.dtype)


def _replace(graph: Graph, node: Node, image: Node) -> None:
    """Put what `image` is as a signal in the place of `node`."""
    result = image
    if _is_signal(node):
        with graph.inserting_before(node):
            result = add_node(graph, _squeeze, (image, [2]), tensor_of(node).shape, node)  # type: ignore[union-attr]
    node.replace_all_uses_with(result)
    graph.erase_node(node)


Call = tuple[Any, list[Any], dict[str, Any]]

_WIDTH = 3  # of an image, dimension 2 of a signal


def as_image(node: Node) -> Call | None:
    """What `node` is of images of height 1, with its signals in their places; None if it cannot be."""
    tensors = [value for value in map(tensor_of, node.all_input_nodes) if value is not None]
    if node.op != "call_function" or not any(value.dim() == 3 for value in tensors):
        return None
    if is_elementwise(node.target):
        value = tensor_of(node)
        known = value is not None and value.dim() == 3
        return (node.target, list(node.args), dict(node.kwargs)) if known else None
    rule = _RULES.get(node.target)
    source: Any = node.args[0] if node.args else None
    if rule is None or not _is_signal(source[0] if isinstance(source, list | tuple) and source else source):
        return None
    if node.target is aten.cat.default and not all(value.dim() == 3 for value in tensors):
        return None
    return rule(node)


def _same(node: Node) -> Call:
    return node.target, list(node.args), dict(node.kwargs)


def _along(place: int) -> Callable[[Node], Call]:
    """Of a dimension that is argument `place`, else 0."""

    def rule(node: Node) -> Call:
        args = list(node.args)
        if len(args) > place:
            dim: Any = args[place]
            args[place] = dim % 3 + (dim % 3 == 2)
        return node.target, args, dict(node.kwargs)

    return rule


def _over(place: int) -> Callable[[Node], Call | None]:
    """Of a list of dimensions, to be reduced, that is argument `place`; without any, of all."""

    def rule(node: Node) -> Call | None:
        args = list(node.args)
        dims: Any = args[place] if len(args) > place else None
        if dims:
            kept = {dim % 3 for dim in dims}
            if 2 not in kept:
                return None
            args[place] = [*sorted(kept - {2}), 2, _WIDTH]
        elif tensor_of(node).dim() == 3:  # type: ignore[union-attr]
            return None
        return node.target, args, dict(node.kwargs)

    return rule


def _padded(target: OpOverload) -> Callable[[Node], Call]:
    def rule(node: Node) -> Call:
        args: list[Any] = list(node.args)
        args[1] = [*args[1][:2], 0, 0, *args[1][2:]]
        return target, args, dict(node.kwargs)

    return rule


def _pooled(target: OpOverload) -> Callable[[Node], Call]:
    """Of lists of one number each: a window or a size, its stride, its padding."""
    height = {1: 1, 2: 1, 3: 0}

    def rule(node: Node) -> Call:
        args: list[Any] = list(node.args)
        for place, own in height.items():
            if len(args) > place and args[place]:
                args[place] = [own, *args[place]]
        return target, args, dict(node.kwargs)

    return rule


def _resized(target: OpOverload, factors: int) -> Callable[[Node], Call]:
    """Of a size, and of factors from argument `factors` on."""

    def rule(node: Node) -> Call:
        args: list[Any] = list(node.args)
        args[1] = [1, *args[1]]
        args[factors:] = [None, *args[factors:]]
        return target, args, dict(node.kwargs)

    return rule


_RULES: dict[Any, Callable[[Node], Call | None]] = {
    aten.native_group_norm.default: _same,
    aten.cat.default: _along(1),
    aten.slice_copy.Tensor: _along(1),
    aten.split_copy.Tensor: _along(2),
    aten.split_with_sizes_copy.default: _along(2),
    aten._softmax.default: _along(1),
    aten._log_softmax.default: _along(1),
    aten.constant_pad_nd.default: _padded(aten.constant_pad_nd.default),
    aten.reflection_pad1d.default: _padded(aten.reflection_pad2d.default),
    aten.replication_pad1d.default: _padded(aten.replication_pad2d.default),
    aten.avg_pool1d.default: _pooled(aten.avg_pool2d.default),
    aten.adaptive_avg_pool1d.default: _pooled(aten.adaptive_avg_pool2d.default),
    aten.upsample_nearest1d.default: _resized(aten.upsample_nearest2d.default, 2),
    aten.upsample_linear1d.default: _resized(aten.upsample_bilinear2d.default, 3),
    **{reader: _over(2 if reader is aten.linalg_vector_norm.default else 1) for reader in READERS},
}
