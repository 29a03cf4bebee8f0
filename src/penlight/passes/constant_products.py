"""Make products with constant matrices linear layers: their weights can be packed then.

    addmm(bias, x, weight)   ->   linear(x, permute(weight), bias)
    mm(x, weight)            ->   linear(x, permute(weight))
    bmm(x, weight)           ->   linear(x, permute(weight[0]))         batches of one, as of einsum
    addmm(y, a, b)           ->   add(mm(a, b), y)                      any other: y may be a residual

as models have them that keep their weights transposed, and cells of recurrent
networks that were taken apart. The permutation is of a constant, and is folded next.

A weight that something else reads too, in this method or another, stays as it is:
turned, it would be in the file twice.

Needs:  edge dialect, float32.
Keeps:  outputs up to rounding.
Runs:   before constants are folded and weights packed.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any

import torch
from torch.fx import Graph, Node

from penlight.passes.base import Leave, add_node, add_permute, add_view, tensor_of
from penlight.passes.constants import Constants
from penlight.passes.layouts import sizes_of

aten = torch.ops.aten


def constant_products(kept: Collection[str]) -> Callable[[Graph, Constants, Leave], int]:
    """The pass that makes layers of products with constants, but for those named `kept`."""

    def constant_products(graph: Graph, constants: Constants, leave: Leave) -> int:
        changed = 0
        turned: dict[Node, Node] = {}
        for node in list(graph.nodes):
            if _is_sum(node) and _obstacle(node, turned, constants, kept) is not None:
                node = _split(graph, node)
                changed += 1
            parts = _parts(node)
            if parts is None or parts[1] not in constants.names:
                continue
            x, weight, bias = parts
            reason = _obstacle(node, turned, constants, kept)
            if reason is not None:
                leave(node, reason)
                continue
            with graph.inserting_before(node):
                inputs, outputs = weight.meta["val"].shape[-2:]
                if weight not in turned:
                    matrix = add_view(graph, weight, (inputs, outputs))
                    turned[weight] = add_permute(graph, matrix, (1, 0))
                args = (x, turned[weight], *([] if bias is None else [bias]))
                new = add_node(graph, aten.linear.default, args, node.meta["val"].shape, node)
            node.replace_all_uses_with(new)
            graph.erase_node(node)
            changed += 1
        return changed

    return constant_products


def _parts(node: Node) -> tuple[Node, Node, Node | None] | None:
    """Input, weight and bias of a product."""
    args: Any = node.args
    if node.target is aten.bmm.default:
        weight = tensor_of(args[1])
        return (args[0], args[1], None) if weight is not None and sizes_of(weight)[0] == 1 else None
    if node.target is aten.mm.default:
        return args[0], args[1], None
    return (args[1], args[2], args[0]) if node.target is aten.addmm.default else None


def _is_sum(node: Node) -> bool:
    result = tensor_of(node)
    return node.target is aten.addmm.default and result is not None and result.dtype is torch.float32


def _split(graph: Graph, node: Node) -> Node:
    """Add what `node` adds after the product, which is returned."""
    added, a, b = node.args
    shape = node.meta["val"].shape
    with graph.inserting_before(node):
        product = add_node(graph, aten.mm.default, (a, b), shape, node)
        result = _times(graph, product, node.kwargs.get("alpha", 1))
        beta = node.kwargs.get("beta", 1)
        if beta != 0:  # then it may be NaN
            result = add_node(graph, aten.add.Tensor, (result, _times(graph, added, beta)), shape, node)
    node.replace_all_uses_with(result)
    graph.erase_node(node)
    return product


def _times(graph: Graph, x: Any, factor: Any) -> Node:
    return x if factor == 1 else add_node(graph, aten.mul.Scalar, (x, factor), x.meta["val"].shape, x)


def _obstacle(
    node: Node, turned: Mapping[Node, Node], constants: Constants, kept: Collection[str]
) -> str | None:
    parts = _parts(node)
    assert parts is not None
    _, weight, bias = parts
    if weight not in constants.names:
        return "its matrices are computed"
    value = tensor_of(weight)
    if value is None or value.dtype is not torch.float32 or not constants.can_add():
        return "it is not of float32"
    before = turned.get(weight)
    reads = (
        is_for_product(user, weight) or user is before or (before is not None and user is before.args[0])
        for user in weight.users
    )
    if constants.names[weight] in kept or not all(reads):
        return "something else reads the weight as it is"
    if node.kwargs.get("alpha", 1) != 1 or node.kwargs.get("beta", 1) != 1 or len(node.args) > 3:
        return "it is not a plain product and sum"
    if bias is not None:
        like = constants.like(bias)
        if like is None or tuple(like.shape) != (value.shape[-1],) or like.dtype is not torch.float32:
            return "what is added is not a constant row"
    return None


def is_for_product(user: Node, weight: Node) -> bool:
    """Does `user` read it as a product's second matrix?"""
    parts = _parts(user)
    return parts is not None and parts[1] is weight and parts[0] is not weight and parts[2] is not weight
