"""Let a linear layer or convolution add a residual and apply an activation itself.

    activation(linear(x) + residual)      either part may be missing

The sums are in registers then; on their own, each of these would read and write
the whole tensor once more. A view between a linear layer and what is fused is taken
of the layer's input instead: rows are rows in any number of dimensions.

Needs:  operators over packed weights; what is fused has no other user.
Keeps:  outputs up to rounding.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch._ops import OpOverload
from torch.fx import Graph, Node

from penlight.kernels.activations import Activation
from penlight.passes.base import Leave, add_node, tensor_of
from penlight.passes.bounds import bounds_of
from penlight.passes.layouts import equal, expressions, same_sizes, sizes_of
from penlight.passes.merge_views import RESHAPES
from penlight.passes.simplify_views import view_sizes

aten = torch.ops.aten

_PLAIN = {
    aten.relu.default: Activation.RELU,
    aten.sigmoid.default: Activation.SIGMOID,
    aten.tanh.default: Activation.TANH,
    aten.silu.default: Activation.SILU,
    aten.hardsigmoid.default: Activation.HARD_SIGMOID,
    aten.hardswish.default: Activation.HARD_SWISH,
}
# Of both operators: where their schemas have what is fused.
_RESIDUAL, _ACTIVATION = 2, slice(-3, None)  # activation, low, high


def fuse_epilogues(linear: OpOverload, *convolutions: OpOverload) -> Callable[[Graph, Leave], int]:
    """The pass over these operators over packed weights."""

    def fuse_epilogues(graph: Graph, leave: Leave) -> int:
        fused = 0
        for node in list(graph.nodes):
            while node.target in (linear, *convolutions):
                if node.target is linear:
                    node = _after_view(graph, node)
                after = _fuse_next(graph, node, leave)
                if after is None:
                    break
                node = after
                fused += 1
        return fused

    return fuse_epilogues


def _after_view(graph: Graph, node: Node) -> Node:
    """The linear layer `node` over a view of its input, if it is a view of the result that is used on."""
    value = tensor_of(node)
    view = next(iter(node.users), node)
    if len(node.users) != 1 or view.target not in RESHAPES or value is None:
        return node
    result, sizes = tensor_of(view), view_sizes(view)
    if not any(map(_is_wanted, view.users)) or result is None or result.dim() == 0 or sizes is None:
        return node
    if not equal(sizes_of(result)[-1], sizes_of(value)[-1]):
        return node
    args = list[Any](node.args)
    with graph.inserting_before(view):
        for place in (0, _RESIDUAL):
            rows = args[place]
            if rows is None:
                continue
            width = rows.meta["val"].shape[-1]
            shape, wanted = (*result.shape[:-1], width), [*sizes[:-1], width]
            args[place] = add_node(graph, aten.view_copy.default, (rows, wanted), shape, rows)
        new = graph.call_function(node.target, tuple(args), node.kwargs)  # type: ignore[arg-type]
    new.meta = dict(view.meta)
    view.replace_all_uses_with(new)
    graph.erase_node(view)
    graph.erase_node(node)
    return new


def _is_wanted(user: Node) -> bool:
    return _activation(user) is not None or user.target is aten.add.Tensor


def _fuse_next(graph: Graph, node: Node, leave: Leave) -> Node | None:
    """Take the only user of `node` into it; the node that stands for both."""
    wanted = [user for user in node.users if _is_wanted(user)]
    if not wanted:
        return None
    user = wanted[0]
    args = list(node.args)
    reason = _obstacle(node, user)
    if reason is not None:
        leave(user, reason)
        return None
    activation = _activation(user)
    if activation is not None:
        number, low, high = activation
        args[_ACTIVATION] = (int(number), low, high)  # programs hold numbers, not members
    else:
        args[_RESIDUAL] = user.args[1] if user.args[0] is node else user.args[0]
    with graph.inserting_before(user):
        new = graph.call_function(node.target, tuple(args), node.kwargs)  # type: ignore[arg-type]
    new.meta = {**user.meta, "val": node.meta["val"]}
    user.replace_all_uses_with(new)
    graph.erase_node(user)
    graph.erase_node(node)
    return new


def _obstacle(node: Node, user: Node) -> str | None:
    """Why the layer `node` cannot do what `user` does with its result."""
    if len(node.users) != 1:
        return "something else reads the layer's result as well"
    if node.args[_ACTIVATION][0] != Activation.NONE:
        return "the layer applies an activation already"
    value, result = tensor_of(node), tensor_of(user)
    if value is None or result is None or value.dtype != result.dtype or not _alike(value, result):
        return "its result has another shape or dtype than the layer's"
    if user.target is not aten.add.Tensor:
        return None
    other: Any = user.args[1] if user.args[0] is node else user.args[0]
    added = tensor_of(other)
    if node.args[_RESIDUAL] is not None:
        return "the layer adds something already"
    if user.kwargs.get("alpha", 1) != 1 or other is node or added is None:
        return "it is not a plain sum of two tensors"
    if added.dtype != value.dtype or not _alike(added, value):
        return "what is added is broadcast or of another dtype"
    pairs = zip(sizes_of(value), expressions(added.stride()), expressions(value.stride()), strict=True)
    if any(not equal(size, 1) and not equal(step, wanted) for size, step, wanted in pairs):
        return "what is added lies in another order in memory"
    return None


def _alike(a: torch.Tensor, b: torch.Tensor) -> bool:
    return same_sizes(sizes_of(a), sizes_of(b))


def _activation(user: Node) -> tuple[int, float, float] | None:
    """Number and bounds of an activation that the kernels know."""
    target, args = user.target, user.args
    if set(user.kwargs) - {"approximate"}:
        return None
    if target in _PLAIN:
        return _PLAIN[target], 0.0, 0.0
    if target is aten.gelu.default:
        approximate = user.kwargs.get("approximate", "none")
        return (Activation.GELU_TANH if approximate == "tanh" else Activation.GELU), 0.0, 0.0
    if target is aten.leaky_relu.default:
        return _leaky(args[1] if len(args) > 1 else 0.01)
    bounds = bounds_of(user)
    return None if bounds is None else (Activation.CLAMP, *bounds)


def _leaky(slope: Any) -> tuple[int, float, float] | None:
    return (Activation.LEAKY_RELU, float(slope), 0.0) if isinstance(slope, int | float) else None
