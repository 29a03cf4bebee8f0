"""Put operators over packed weights in place of linear layers, 1-D and 2-D convolutions.

Weights are laid out as kernels read them when the program is made, so that loading
it is mapping the file. Convolutions compute on channels-last images: each gets a
conversion before and after it, and the pass after this one removes most of them.

An image that is padded with more zeros on one side than on the other, as TensorFlow does
for a stride of 2, is read where it lies: these operators know a padding of four sides.

A weight that something else reads too stays as it is: packed, it would be in the file twice.
But an embedding that is also the last layer reads its rows from the packed weight. And a convolution
packs such a weight in each run, as it does with one that the program computes.

Needs:  edge dialect, float32.
Keeps:  outputs up to rounding.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

import torch
from torch._ops import OpOverload
from torch.fx import Graph, Node

from penlight.ir.tensors import Derived
from penlight.passes.base import Leave, replace_call, tensor_of
from penlight.passes.channels_last import FEW_CHANNELS
from penlight.passes.constants import Constants
from penlight.passes.fold_padding import TRANSPOSED, zeros_around
from penlight.passes.image_copies import channels_last_like, from_channels_last, to_channels_last
from penlight.passes.packing import in_16_bits, pack_depthwise, pack_panels, pack_transposed

aten = torch.ops.aten

# Weights from which on it counts how many bytes each has.
_LARGE = 1 << 12


def is_for_layer(user: Node, weight: Node) -> bool:
    """Does `user` read it as a layer's weight or bias, or look up rows of such a weight?"""
    if _is_lookup(user, weight):
        return any(one.target is aten.linear.default for one in weight.users)
    return user.target in (aten.linear.default, aten.convolution.default)


def pack_weights(
    linear: OpOverload,
    convolution: OpOverload,
    transposed: OpOverload,
    embedding: OpOverload,
    pack: OpOverload,
    kept: Collection[str] = (),
) -> Callable[[Graph, Constants, Leave], int]:
    """The pass that rewrites to `linear`, `convolution` and the others, the operators over packed weights.

    Constants of `kept` stay as they are. `pack` packs what a program computes.
    """

    def pack_weights(graph: Graph, constants: Constants, leave: Leave) -> int:
        packed = 0
        for node in list(graph.nodes):
            if node.target not in (aten.linear.default, aten.convolution.default):
                continue
            is_linear, obstacle = node.target is aten.linear.default, _obstacle(node)
            reason = obstacle or _why_not_constant(constants, node, kept)
            if reason and (obstacle or is_linear):
                leave(node, reason)
                continue
            packed += 1
            if is_linear:
                _pack_linear(graph, constants, node, linear, embedding)
                continue
            weight = _in_each_run(graph, node, pack) if reason else packed_once(constants, node)
            if node.args[TRANSPOSED]:
                _pack_transposed(graph, node, weight, transposed)
            else:
                _pack_convolution(graph, node, weight, convolution)
        return packed

    return pack_weights


def _is_lookup(user: Node, weight: Node) -> bool:
    return user.target is aten.embedding.default and user.args[0] is weight


def _pack_linear(
    graph: Graph, constants: Constants, node: Node, op: OpOverload, embedding: OpOverload
) -> None:
    args: tuple[Any, ...] = node.args
    weight, bias = args[1], args[2] if len(args) > 2 else None
    like: Any = constants.like(weight)
    name = _add(constants, weight, bias, _pack_panels)
    for lookup in [user for user in weight.users if _is_lookup(user, weight)]:
        with graph.inserting_before(lookup):
            rows = graph.call_function(embedding, (name, lookup.args[1], *like.shape))
        rows.meta = dict(lookup.meta)
        lookup.replace_all_uses_with(rows)
        graph.erase_node(lookup)
    replace_call(graph, node, op, (node.args[0], name, None, like.shape[0], 0, 0.0, 0.0))


def _pack_panels(weight: Derived, bias: torch.Tensor | None, groups: int = 1, short: bool = True) -> Derived:
    """As panels, of 16 bits if these hold the weights and if the kernel is for such."""
    return pack_panels(shortened(weight, bias) if short else weight, bias, groups)


def shortened(weight: Derived, bias: torch.Tensor | None) -> Derived:
    """Of 16 bits, if these hold it and it is large enough for that to count."""
    return in_16_bits(weight, bias) if weight.like.numel() >= _LARGE else weight


def packed_once(constants: Constants, node: Node) -> Node:
    """The packed weights of a convolution, 1-D to 3-D, as a constant."""
    args: tuple[Any, ...] = node.args
    weight, bias, stride, groups = args[1], args[2], args[3], args[-1]
    like: Any = constants.like(weight)
    if args[TRANSPOSED]:
        steps = _pair(stride, 1, like.dim() - 2)
        return _add(constants, weight, bias, lambda w, b: pack_transposed(w, b, steps))
    if is_depthwise(like, groups):
        return _add(constants, weight, bias, pack_depthwise)
    # Windows over few channels have a kernel of their own, for weights of float32. Frames that a window over
    # several pixels of each reads lie side by side in channels.
    taps = like[0, 0].numel()
    channels = like[0, :, :, 0, 0].numel() if like.dim() == 5 and taps > like.shape[2] else like.shape[1]
    short = groups > 1 or channels >= FEW_CHANNELS or taps == 1
    return _add(constants, weight, bias, lambda w, b: _pack_panels(w, b, groups, short))


def _in_each_run(graph: Graph, node: Node, pack: OpOverload) -> Node:
    """The packed weights of a convolution, which the program packs."""
    args: tuple[Any, ...] = node.args
    weight, bias, stride, groups = args[1], args[2], args[3], args[-1]
    value: Any = tensor_of(weight)
    steps = _pair(stride, 1, value.dim() - 2) if args[TRANSPOSED] else []
    with graph.inserting_before(node):
        packed = graph.call_function(pack, (weight, bias, groups, steps))
    with value.fake_mode:
        packed.meta = {**node.meta, "val": pack(value, None, groups, steps)}
    return packed


def _pack_convolution(graph: Graph, node: Node, packed: Node, op: OpOverload) -> None:
    args: tuple[Any, ...] = node.args
    x, weight, _, stride, padding, dilation, _, _, groups = args
    shape = _shape(weight)
    dims = len(shape) - 2
    padded, around = _pair(padding, 0, dims), zeros_around(node)
    if not isinstance(around, str) and any(low != high for low, high in around):
        around = [(0, 0)] * (2 - len(around)) + around
        padded = [own + around[d][side] for side in (0, 1) for d, own in enumerate(padded)]
        x = x.args[0]
    window = [shape[0], *_pair(shape[2:], 1, dims)]
    lists = [_pair(stride, 1, dims), padded, _pair(dilation, 1, dims)]
    _replace(graph, node, op, x, (packed, None, window, *lists, groups))


def _pack_transposed(graph: Graph, node: Node, packed: Node, op: OpOverload) -> None:
    args: tuple[Any, ...] = node.args
    x, weight, _, stride, padding, _, _, output_padding, _ = args
    shape = _shape(weight)
    dims = len(shape) - 2
    window = [shape[1], *_pair(shape[2:], 1, dims)]
    lists = [_pair(stride, 1, dims), _pair(padding, 0, dims), _pair(output_padding, 0, dims)]
    _replace(graph, node, op, x, (packed, None, window, *lists))


def _shape(weight: Node) -> tuple[int, ...]:
    value: Any = tensor_of(weight)
    return tuple(value.shape)


def _replace(graph: Graph, node: Node, op: OpOverload, x: Node, args: tuple[Any, ...]) -> None:
    """Put `op`, without an activation, in place of `node`, between conversions of its image `x` and back."""
    with graph.inserting_before(node):
        new = graph.call_function(op, (to_channels_last(graph, x), *args, 0, 0.0, 0.0))
        new.meta = {**node.meta, "val": channels_last_like(node)}
        back = from_channels_last(graph, new, node)
    node.replace_all_uses_with(back)
    graph.erase_node(node)


def is_depthwise(weight: torch.Tensor, groups: Any) -> bool:
    """Has each channel a window of its own?"""
    return groups > 1 and weight.shape[1] == 1


def _obstacle(node: Node) -> str | None:
    """Why there is no operator over packed weights for `node`, whatever its weight is."""
    args: tuple[Any, ...] = node.args
    x, like = tensor_of(args[0]), tensor_of(args[1])
    bias = tensor_of(args[2]) if len(args) > 2 else None
    if x is None or like is None or any(one.dtype != torch.float32 for one in (x, like)):
        return "it is not of float32"
    if bias is not None and bias.dtype != torch.float32:
        return "its bias is not of float32"
    if not all(isinstance(size, int) for size in like.shape):
        return "the sizes of its weight are dynamic"
    if 0 in like.shape:
        return "its weight is empty"
    if node.target is aten.linear.default:
        return None if like.dim() == 2 else "its weight is not a matrix"
    *_, dilation, transposed, _, groups = node.args
    if like.dim() not in (3, 4) or x.dim() != like.dim():
        return "its images are not 1-D or 2-D, in batches"
    if not isinstance(groups, int):
        return "its groups are dynamic"
    if transposed and (groups != 1 or any(step != 1 for step in dilation)):  # type: ignore[union-attr]
        return "it is a transposed convolution with groups or dilation"
    return None


def _why_not_constant(constants: Constants, node: Node, kept: Collection[str]) -> str | None:
    """Why the weight of `node` cannot be packed when the program is made."""
    args: tuple[Any, ...] = node.args
    weight, bias = args[1], args[2] if len(args) > 2 else None
    if constants.like(weight) is None or not constants.can_add():
        return "its weight is not a constant"
    if bias is not None and constants.like(bias) is None:
        return "its bias is not a constant"
    others = [
        user
        for user in weight.users
        if node.target is not aten.linear.default or not _is_lookup(user, weight)
    ]
    if constants.names[weight] in kept or any(_order(user) != _order(node) for user in others):
        return "something else reads the weight as it is, or in another order"
    return None


def _order(layer: Node) -> tuple[Any, ...]:
    """Equal for layers whose weights are packed alike."""
    if layer.target is not aten.convolution.default:
        return (layer.target,)
    transposed, groups = layer.args[TRANSPOSED], layer.args[-1]
    phases: Any = layer.args[3] if transposed else ()
    return layer.target, transposed, groups, tuple(phases)


def _add(constants: Constants, weight: Any, bias: Any, pack: Callable[..., Any]) -> Node:
    """The packed constant; methods that share weight and bias share it."""
    name = f"{constants.names[weight]}.packed"
    if bias is not None:
        name = f"{name}.{constants.names[bias].rsplit('.', 1)[-1]}"
    return constants.add(name, pack(constants.derived(weight), constants.get(bias)))


def _pair(numbers: Any, first: int, dims: int) -> list[Any]:
    """One number for each direction of an image, from one for each of `dims` or one for all.

    A signal has no height: there it is `first`.
    """
    return [first, numbers[0]] if dims == 1 else [numbers[0], numbers[-1]]
