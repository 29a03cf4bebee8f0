"""Put operators over packed weights in place of linear layers, 1-D and 2-D convolutions.

Weights are laid out as kernels read them when the program is made, so that loading
it is mapping the file. Convolutions compute on channels-last images: each gets a
conversion before and after it, and the pass after this one removes most of them.

A weight that something else reads too, such as an embedding that is also the
last layer, stays as it is: packed, it would be in the file twice.

Needs:  edge dialect, float32, weights constant.
Keeps:  outputs up to rounding.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

import torch
from torch._ops import OpOverload
from torch.fx import Graph, Node

from penlight.ir.edge import EdgeProgram, InputKind
from penlight.passes.base import tensor_of
from penlight.passes.channels_last import channels_last_like, from_channels_last, to_channels_last
from penlight.passes.constants import Constants
from penlight.passes.packing import pack_depthwise, pack_panels

aten = torch.ops.aten


def read_otherwise(program: EdgeProgram) -> set[str]:
    """Names of constants that some method reads in another place than a layer's."""
    return {
        str(spec.target)
        for method in program.methods.values()
        for spec, node in method.placeholders()
        if spec.kind is InputKind.CONSTANT
        and any(user.target not in (aten.linear.default, aten.convolution.default) for user in node.users)
    }


def pack_weights(
    linear: OpOverload, convolution: OpOverload, kept: Collection[str] = ()
) -> Callable[[Graph, Constants], int]:
    """The pass that rewrites to `linear` and `convolution`, the operators over packed weights.

    Constants of `kept` stay as they are.
    """

    def pack_weights(graph: Graph, constants: Constants) -> int:
        if not constants.can_add():
            return 0
        packed = 0
        for node in list(graph.nodes):
            if len(node.args) > 1 and constants.names.get(node.args[1]) in kept:
                continue
            if node.target is aten.linear.default:
                packed += _pack_linear(graph, constants, node, linear)
            elif node.target is aten.convolution.default:
                packed += _pack_convolution(graph, constants, node, convolution)
        return packed

    return pack_weights


def _pack_linear(graph: Graph, constants: Constants, node: Node, op: OpOverload) -> int:
    x, weight = node.args[0], node.args[1]
    bias = node.args[2] if len(node.args) > 2 else None
    like = _packable(constants, x, weight, bias, node)
    if like is None or like.dim() != 2:
        return 0
    name = _add(constants, weight, bias, lambda w, b: pack_panels(w, b))
    with graph.inserting_before(node):
        new = graph.call_function(op, (x, name, None, like.shape[0], 0, 0.0, 0.0))
    new.meta = dict(node.meta)
    node.replace_all_uses_with(new)
    graph.erase_node(node)
    return 1


def _pack_convolution(graph: Graph, constants: Constants, node: Node, op: OpOverload) -> int:
    x, weight, bias, stride, padding, dilation, transposed, _, groups = node.args
    like = _packable(constants, x, weight, bias, node)
    if like is None or like.dim() not in (3, 4) or transposed or not isinstance(groups, int):
        return 0
    if tensor_of(x).dim() != like.dim():  # type: ignore[union-attr]
        return 0  # without a batch
    channels, outputs = like.shape[1], like.shape[0]
    if groups > 1 and channels == 1 and outputs == groups:
        name = _add(constants, weight, bias, pack_depthwise)
    elif groups > 1 and outputs // groups < 8:
        return 0  # panels would be mostly padding
    else:
        name = _add(constants, weight, bias, lambda w, b: pack_panels(w, b, groups))
    with graph.inserting_before(node):
        image = to_channels_last(graph, x)  # type: ignore[arg-type]
        window = [outputs, *_pair(like.shape[2:], 1)]
        lists = [_pair(stride, 1), _pair(padding, 0), _pair(dilation, 1)]
        new = graph.call_function(op, (image, name, None, window, *lists, groups, 0, 0.0, 0.0))
        new.meta = {**node.meta, "val": channels_last_like(node)}
        back = from_channels_last(graph, new, node)
    node.replace_all_uses_with(back)
    graph.erase_node(node)
    return 1


def _packable(constants: Constants, x: Any, weight: Any, bias: Any, node: Node) -> torch.Tensor | None:
    """The weight, if it can be packed."""
    like, value = constants.like(weight), tensor_of(x)
    if like is None or value is None or like.dtype != torch.float32 or value.dtype != torch.float32:
        return None
    if bias is not None and (constants.like(bias) is None or constants.like(bias).dtype != like.dtype):  # type: ignore[union-attr]
        return None
    if 0 in like.shape or any(user.target is not node.target for user in weight.users):
        return None
    return like


def _add(constants: Constants, weight: Any, bias: Any, pack: Callable[..., Any]) -> Node:
    """The packed constant; methods that share weight and bias share it."""
    name = f"{constants.names[weight]}.packed"
    if bias is not None:
        name = f"{name}.{constants.names[bias].rsplit('.', 1)[-1]}"
    return constants.add(name, pack(constants.derived(weight), constants.get(bias)))


def _pair(numbers: Any, first: int) -> list[Any]:
    """One number for each direction of an image; a signal has none for its height."""
    return list(numbers) if len(numbers) == 2 else [first, numbers[0]]
