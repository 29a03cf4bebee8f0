"""Compute gates of channels in one call, and multiply the weights that come next by them, not the image.

    conv2d_packed(conv2d_packed(mean(x, [2, 3], True), 1x1 ...), 1x1 ...)   ->   squeeze_excite_packed(x, ...)
    conv2d_packed(x * gate, 1x1 ...)   ->   conv2d_gated_packed(x, gate, ...)

as networks with squeeze-and-excitation have it (Hu et al., "Squeeze-and-Excitation Networks", 2018). The
two layers may be linear ones, with views around them. The second rewrite saves a pass over the image, where
it has 4/3 as many pixels as the convolution has outputs, or more. Its gates are sigmoids, so that a weight
multiplied by one is in the range of a number when the image so multiplied is. Convolutions of many outputs
are left to Strassen's algorithm, which adds up weights before the gates are known.

Needs:  layers over packed weights, with their activations; images channels-last.
Keeps:  outputs up to rounding.
Runs:   before layers are multiplied by Strassen's algorithm.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import torch
from torch._ops import OpOverload
from torch.fx import Graph, Node

from penlight.kernels.activations import Activation
from penlight.passes.base import Leave, add_node, add_view, replace_call, tensor_of
from penlight.passes.contiguous import is_channels_last
from penlight.passes.layouts import sizes_of, step_of

aten = torch.ops.aten

_SAME_NUMBERS = (aten.view_copy.default, aten.clone.default)
_SIGMOIDS = (aten.sigmoid.default, aten.hardsigmoid.default)
_BETWEEN_0_AND_1 = (Activation.SIGMOID, Activation.HARD_SIGMOID)
# Multiplying a weight and storing it takes as long as so much of that for an element of the image, where two
# threads share the image.
_COST_OF_WEIGHT = 4 / 3
# From so many outputs, and channels, on Strassen's algorithm saves more than a pass over the image takes.
_MANY_OUTPUTS, _MANY_CHANNELS = 192, 64


def fuse_gates(
    linear: OpOverload, convolution: OpOverload, squeeze_excite: OpOverload, gated: OpOverload
) -> Callable[[Graph, Leave], int]:
    """The pass that calls `squeeze_excite` and `gated` instead of `linear` layers and `convolution`."""

    def fuse_gates(graph: Graph, leave: Leave) -> int:
        layers, fused = {linear, convolution}, 0
        for node in list(graph.nodes):
            found = _before(node, layers, convolution) if node.target in layers else None
            if found is not None:
                _squeeze(graph, node, *found, squeeze_excite)
                fused += 1
        bounded = {*layers, squeeze_excite}
        for node in list(graph.find_nodes(op="call_function", target=convolution)):
            image = node.args[0]
            factors = _gate_of(image)
            if factors is None:
                continue
            reason = _obstacle(node, image, *factors, bounded)
            if reason is not None:
                leave(node, reason)
                continue
            _, weight, residual, window, *_ = node.args
            replace_call(graph, node, gated, (*factors, weight, residual, window[0], *node.args[-3:]))
            graph.erase_node(image)
            fused += 1
        return fused

    return fuse_gates


def _before(node: Node, layers: set[OpOverload], convolution: OpOverload) -> tuple[Any, Any] | None:
    """The first of two layers, of which `node` is the second, and the means of an image that it alone reads.

    None unless they give as many numbers as there are means.
    """
    first = _source(node.args[0])
    if first is None or first.target not in layers:
        return None
    for one in (node, first):
        fits = _is_of_pixels(one) if one.target is convolution else one.meta["val"].dim() == 2
        if not fits or one.args[2] is not None or _row(one) is None:
            return None
    means = _source(first.args[0])
    if means is None or not _is_mean_of_image(means):
        return None
    image = tensor_of(means.args[0])
    if image is None or image.dtype is not torch.float32 or not is_channels_last(image):
        return None
    return (first, means) if sizes_of(image)[:2] == _row(node) else None


def _squeeze(graph: Graph, node: Any, first: Any, means: Any, squeeze_excite: OpOverload) -> None:
    between, (rows, columns) = first.meta["val"].shape[1], node.meta["val"].shape[:2]
    image, before = means.args[0], node
    args = (image, first.args[1], node.args[1], between, columns, *first.args[-3:], *node.args[-3:])
    with graph.inserting_before(node):
        gates = add_node(graph, squeeze_excite, args, (rows, columns, 1, 1), node, order=torch.channels_last)
    for user in list(node.users):  # what makes an image of a linear layer's row
        if user.target in _SAME_NUMBERS and _row(user) == _row(node) and user.meta["val"].dim() == 4:
            user.replace_all_uses_with(gates)
            graph.erase_node(user)
    if node.users and node.meta["val"].dim() == 2:
        with graph.inserting_before(node):
            gates = add_view(graph, gates, (rows, columns))
    node.replace_all_uses_with(gates)
    while before is not image:
        before, gone = before.args[0], before
        graph.erase_node(gone)


def _source(node: Any) -> Node | None:
    """What makes the row of each image that a layer reads, through views of it; None if others read it."""
    while isinstance(node, Node) and len(node.users) == 1 and _row(node) is not None:
        if node.target not in _SAME_NUMBERS:
            return node
        if _row(node) != _row(node.args[0]):
            return None
        node = node.args[0]
    return None


def _row(node: Any) -> tuple[Any, Any] | None:
    """How many rows and columns it has: a matrix, or images of one pixel."""
    value = tensor_of(node)
    if value is None or value.dim() not in (2, 4):
        return None
    rows, columns, *pixels = sizes_of(value)
    return (rows, columns) if all(size == 1 for size in pixels) else None


def _is_mean_of_image(node: Node) -> bool:
    if node.target not in (aten.adaptive_avg_pool2d.default, aten.mean.dim) or node.kwargs:
        return False
    image, over = tensor_of(node.args[0]), cast("list[int] | None", node.args[1])
    if image is None or image.dim() != 4 or over is None:
        return False
    is_mean = node.target is aten.mean.dim
    return {dim % 4 for dim in over} == {2, 3} if is_mean else list(over) == [1, 1]


def _is_of_pixels(node: Node) -> bool:
    """Is it a convolution of windows of one pixel, each of them once?"""
    _, _, _, window, stride, padding, _, groups, *_ = node.args
    single = list(window[1:]) == [1, 1] and set(stride) == {1}  # type: ignore[index, arg-type]
    return bool(single and groups == 1 and not any(padding))  # type: ignore[arg-type]


def _gate_of(image: Any) -> tuple[Node, Node] | None:
    """The image that is multiplied and the factors of its channels."""
    if not isinstance(image, Node) or image.target is not aten.mul.Tensor:
        return None
    a, b = image.args
    pairs: Any = ((a, b), (b, a))
    for x, gate in pairs:
        both = tensor_of(x), tensor_of(gate)
        are_images = all(one is not None and one.dim() == 4 for one in both)
        if are_images and _row(gate) is not None and _row(x) is None:
            return x, gate
    return None


def _obstacle(node: Node, image: Node, x: Any, gate: Node, bounded: set[OpOverload]) -> str | None:
    """Why `image` is multiplied by its gates."""
    product, whole, factors = (tensor_of(one) for one in (image, x, gate))
    assert product is not None and whole is not None and factors is not None
    if {whole.dtype, factors.dtype} != {torch.float32}:
        return "the image or its gates are not of float32"
    if sizes_of(whole) != sizes_of(product) or sizes_of(whole)[:2] != sizes_of(factors)[:2]:
        return "not every channel of every image has a gate of its own"
    if not is_channels_last(whole):
        return "the image is not channels-last"
    if not _is_of_pixels(node):
        return "the convolution is not one of every pixel alone"
    if len(image.users) != 1 or node.args[2] is image:
        return "something else reads the multiplied image as well"
    if not _is_sigmoid(gate, bounded):
        return "the gates are not sigmoids"
    height, width = whole.shape[2:]
    if not isinstance(height, int) or not isinstance(width, int):
        return "sizes of the image are dynamic"
    outputs: Any = node.args[3][0]  # type: ignore[index]
    if outputs * _COST_OF_WEIGHT > height * width:
        return "the image has not 4/3 as many pixels as the convolution has outputs"
    if outputs >= _MANY_OUTPUTS and whole.shape[1] >= _MANY_CHANNELS:
        return "the convolution is so large that Strassen's algorithm saves more"
    return None


def _is_sigmoid(gate: Any, layers: set[OpOverload]) -> bool:
    while True:
        step = step_of(gate)
        if step is None and gate.target is not aten.clone.default:
            break
        gate = step[0] if step is not None else gate.args[0]
    return gate.target in _SIGMOIDS or (gate.target in layers and gate.args[-3] in _BETWEEN_0_AND_1)
