"""`flex_attention` as plain operators: scores, what the model's functions make of them, softmax, sums."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor
from torch.fx import GraphModule, Node
from torch.fx.experimental.proxy_tensor import ProxyTorchDispatchMode

aten = torch.ops.aten


@contextmanager
def split_flex_attention() -> Iterator[None]:
    """While torch re-traces a program: the operator becomes others."""
    operator = torch.ops.higher_order.flex_attention

    def traced(mode: ProxyTorchDispatchMode, *args: Any) -> Any:
        with mode:
            return _attention(*args)

    before = operator.python_key_table[ProxyTorchDispatchMode]
    operator.python_key_table[ProxyTorchDispatchMode] = traced
    operator._dispatch_cache.clear()  # what it calls for a mode is looked up once, and kept
    try:
        yield
    finally:
        operator.python_key_table[ProxyTorchDispatchMode] = before
        operator._dispatch_cache.clear()


# Of one element beside those that torch calls pointwise.
_OF_ELEMENTS = {
    *(aten.index, aten.to, aten._to_copy, aten.lift_fresh_copy, aten.clone, aten.detach, aten.alias),
    *(aten.where, aten.__and__, aten.__or__, aten.__xor__, aten.floor_divide, aten.new_ones, aten.new_zeros),
    *(aten.ones_like, aten.zeros_like, aten.full_like),
}


def refused(module: GraphModule) -> Node | None:
    """A node of the operator whose functions do not work on all scores at once, their indices broadcast."""
    for node in module.graph.nodes:
        if node.target is torch.ops.higher_order.flex_attention:
            arguments: Any = node.args
            bodies = (getattr(module, body.target) for body in (arguments[3], arguments[4][-1]))
            if not all(_of_elements(body) for body in bodies):
                found: Node = node
                return found
    inner = (refused(child) for child in module.children() if isinstance(child, GraphModule))
    return next((node for node in inner if node is not None), None)


def _of_elements(body: GraphModule) -> bool:
    """Where each value is one element, an index has a number for each dimension of what it reads."""
    return all(_is_element(node) for node in body.graph.nodes if node.op == "call_function")


def _is_element(node: Node) -> bool:
    operator: Any = node.target
    known = getattr(operator, "overloadpacket", None) in _OF_ELEMENTS
    # An index of these functions is an autograd function of torch's own.
    known |= operator is torch.ops.higher_order.flat_apply and "ModIndex" in str(node.args[1:])
    return (known or torch.Tag.pointwise in getattr(operator, "tags", ())) and not node.meta["val"].shape


def _attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    score_mod: Callable[..., Tensor],
    block_mask: Sequence[Any],
    scale: float,
    _options: Any,
    score_others: Sequence[Any] = (),
    mask_others: Sequence[Any] = (),
) -> tuple[Tensor, Tensor, Tensor]:
    """The result, and of each row the logarithm of its sum and its largest score, both to base 2."""
    groups = query.shape[1] // key.shape[1]
    if groups > 1:
        key, value = (x.repeat_interleave(groups, 1) for x in (key, value))
    precise = torch.float64 if query.dtype == torch.float64 else torch.float32
    scores = (query.to(precise) @ key.to(precise).transpose(-2, -1)) * scale
    place = [
        torch.arange(size).reshape([-1 if d == e else 1 for e in range(4)])
        for d, size in enumerate(scores.shape)
    ]
    mask = block_mask[-1](*place, *mask_others)
    scores = torch.where(mask, score_mod(scores, *place, *score_others).to(precise), -torch.inf)
    sums, most = scores.logsumexp(-1), scores.amax(-1)
    weights = aten._safe_softmax(scores, -1)
    return weights.to(query.dtype) @ value, sums / math.log(2), most / math.log(2)
