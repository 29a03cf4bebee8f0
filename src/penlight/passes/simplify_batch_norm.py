"""Batch norm that no layer could take becomes a multiply and an add of constants.

    bn(x) = x * s + t,   s = gamma / sqrt(var + eps),   t = beta - mean * s

with one s and one t for each channel, which chains of elementwise operators take in,
and which leave an image channels-last. They are computed in float64 and rounded once;
t is made from s as it was rounded, so that what is near the mean stays near beta.

Needs:  edge dialect, statistics and affine parameters constant, float32.
Keeps:  shapes, dtypes; values up to rounding.
Runs:   after fold_batch_norm, which leaves nothing to compute at all.
"""

from __future__ import annotations

import operator
from typing import Any

import torch
from torch.fx import Graph, Node

from penlight.passes.base import tensor_of
from penlight.passes.constants import Constants
from penlight.passes.fold_batch_norm import batch_norm, scale_and_shift

aten = torch.ops.aten


def simplify_batch_norm(graph: Graph, constants: Constants) -> int:
    """Rewrite `graph` in place; return how many were replaced."""
    if not constants.can_add():
        return 0
    replaced = 0
    for node in graph.find_nodes(op="call_function", target=batch_norm):
        results = [user for user in node.users if user.target is operator.getitem and user.args[1] == 0]
        if len(results) != len(node.users) or not results:
            continue
        affine = _scale_and_shift(node, constants)
        if affine is None:
            continue
        result = _as_product(graph, constants, node, results[0], *affine)
        for user in results:
            user.replace_all_uses_with(result)
        replaced += 1
    return replaced


def _scale_and_shift(node: Node, constants: Constants) -> tuple[torch.Tensor, torch.Tensor] | None:
    """Of each channel, in float32; None where a parameter is no constant, or something is not float32."""
    x, *parameters, _, eps = node.args
    value = tensor_of(x)
    if value is None or value.dtype is not torch.float32 or value.dim() < 2:
        return None
    for parameter in parameters:
        like = constants.like(parameter)
        if parameter is not None and (like is None or like.dtype is not torch.float32):
            return None
    gamma, beta, mean, variance = (constants.get(parameter) for parameter in parameters)
    assert mean is not None and variance is not None
    scale, shift = scale_and_shift((gamma, beta), (mean, variance), float(eps), torch.float32)  # type: ignore[arg-type]
    return scale.float(), shift.float()


def _as_product(
    graph: Graph, constants: Constants, node: Node, result: Node, scale: torch.Tensor, shift: torch.Tensor
) -> Node:
    image: Any = node.args[0]
    sizes = (-1, *[1] * (image.meta["val"].dim() - 2))
    stem = constants.names[node.args[3]].removesuffix(".running_mean")  # type: ignore[index]
    made = [
        constants.add(f"{stem}.{name}", one.reshape(sizes))
        for name, one in (("scale", scale), ("shift", shift))
    ]
    for op, factor in ((aten.mul.Tensor, made[0]), (aten.add.Tensor, made[1])):
        with graph.inserting_before(node):
            image = graph.call_function(op, (image, factor))
        image.meta = dict(result.meta)
    new: Node = image
    return new
