"""Say that attention is causal where its mask says so, query by query.

    attention(q, k, v, tril(ones(n, n)))   ->   attention(q, k, v, is_causal=True)

The mask is a constant, or made of what is known for all sizes (index_values.py).
Keys that are hidden are then not computed at all.

Needs:  edge dialect; as many queries as keys, a mask of conditions or of 0 and -inf.
Keeps:  outputs, but that NaN and inf of hidden keys and their values stay hidden.
Runs:   after attention written out is one operator.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch._ops import OpOverload
from torch.fx import Graph, Node

from penlight.passes.bands import Bands
from penlight.passes.base import tensor_of
from penlight.passes.constants import Constants
from penlight.passes.index_values import IndexValues
from penlight.passes.layouts import equal, same_sizes, sizes_of

_MASK, _CAUSAL = 3, 5  # arguments


def use_causal_masks(attention: OpOverload) -> Callable[[Graph, Constants], int]:
    """The pass over `attention`, Penlight's."""

    def use_causal_masks(graph: Graph, constants: Constants) -> int:
        changed, values = 0, IndexValues(constants)
        for node in graph.find_nodes(op="call_function", target=attention):
            if _is_causal(node, constants, values):
                missing: list[Any] = [None, 0.0, False]
                args = [*node.args, *missing[len(node.args) - _MASK :]]
                args[_MASK], args[_CAUSAL] = None, True
                node.args = tuple(args)
                changed += 1
        return changed

    return use_causal_masks


def _is_causal(node: Node, constants: Constants, values: IndexValues) -> bool:
    args: Any = node.args
    mask = args[_MASK] if len(args) > _MASK else None
    if node.kwargs.get("hidden_score") not in (None, -math.inf) or (len(args) > _CAUSAL and args[_CAUSAL]):
        return False
    like = constants.like(mask)
    if like is None:
        return _is_made_causal(node, values)
    queries, keys = (tensor_of(operand).shape[-2] for operand in args[:2])  # type: ignore[union-attr]
    if not isinstance(queries, int) or not isinstance(keys, int) or queries != keys:
        return False
    if tuple(like.shape[-2:]) != (queries, keys) or like.numel() != queries * keys:
        return False
    seen = torch.ones(queries, keys, dtype=torch.bool).tril()
    wanted = seen if like.dtype is torch.bool else torch.zeros(queries, keys).masked_fill(~seen, -torch.inf)
    found = constants.get(mask)
    return found is not None and torch.equal(found.reshape(queries, keys).to(wanted.dtype), wanted)


def _is_made_causal(node: Node, values: IndexValues) -> bool:
    """The same of a mask that the program makes, of dynamic sizes."""
    query, key, _, mask = [*list[Any](node.args), None][:4]
    value = tensor_of(mask) if isinstance(mask, Node) else None
    if value is None or value.dtype not in (torch.bool, torch.float32):
        return False
    square = [sizes_of(tensor_of(operand))[-2] for operand in (query, key)]  # type: ignore[arg-type]
    if not equal(*square) or not same_sizes(sizes_of(value)[-2:], square):
        return False
    wanted = (False, True) if value.dtype is torch.bool else (-math.inf, 0.0)
    return values.of(mask) == Bands(wanted, (0,), (value.dim() - 2, value.dim() - 1))
