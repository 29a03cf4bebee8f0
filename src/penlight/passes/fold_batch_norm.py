"""Fold batch norm into the convolution or linear layer before it.

    bn(conv(x, w, b)) = conv(x, w * s, (b - mean) * s + beta),   s = gamma / sqrt(var + eps)

Computed in float64 and rounded once to the weight's dtype, and not before the weight is
written to the file: a folded copy of every weight would double what a model needs.

Needs:  edge dialect, weights constant, the layer used by nothing else.
Keeps:  outputs up to rounding.
"""

from __future__ import annotations

import operator
from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch.fx import Graph, Node

from penlight.ir.tensors import Derived, recipe
from penlight.passes.constants import Constants

aten = torch.ops.aten
batch_norm = aten._native_batch_norm_legit_no_training.default
convolution = aten.convolution.default
linear = aten.linear.default
addmm = aten.addmm.default


def fold_batch_norm(graph: Graph, constants: Constants) -> int:
    """Rewrite `graph` in place; return how many were folded."""
    if not constants.can_add():
        return 0
    folded = 0
    for node in graph.find_nodes(op="call_function", target=batch_norm):
        layer: Any = node.args[0]
        if not isinstance(layer, Node) or layer.target not in (convolution, linear) or len(layer.users) > 1:
            continue
        results = [user for user in node.users if user.target is operator.getitem]
        if len(results) != len(node.users) or any(user.args[1] != 0 for user in results):
            continue
        if _fold(graph, constants, node, layer):
            for result in results:
                result.replace_all_uses_with(layer)
            folded += 1
    return folded


def _fold(graph: Graph, constants: Constants, norm: Node, layer: Node) -> bool:
    _, gamma, beta, mean, variance, _, eps = norm.args
    weight = constants.like(layer.args[1])
    bias = constants.get(layer.args[2]) if len(layer.args) > 2 and layer.args[2] is not None else None
    statistics = [constants.get(mean), constants.get(variance)]
    if weight is None or None in statistics or not weight.is_floating_point():
        return False
    if len(layer.args) > 2 and layer.args[2] is not None and bias is None:
        return False
    affine = [
        constants.get(gamma) if gamma is not None else None,
        constants.get(beta) if beta is not None else None,
    ]
    if (gamma is not None and affine[0] is None) or (beta is not None and affine[1] is None):
        return False
    if layer.target is linear and weight.dim() == 2 and layer.meta["val"].dim() != 2:
        return False  # the norm's channels are not the layer's outputs
    scale, shift = scale_and_shift(affine, statistics, float(eps))  # type: ignore[arg-type]
    scale_layer(constants, layer, scale, shift)
    return True


def scale_layer(constants: Constants, layer: Node, scale: torch.Tensor, shift: torch.Tensor) -> None:
    """Let a layer over constants give its outputs times `scale` plus `shift`, which has one for each.

    Args:
        layer: a convolution or a linear layer, of which nothing else uses the result.
        scale: of the outputs, float64; shift: as many.
    """
    bias = constants.get(layer.args[2]) if len(layer.args) > 2 else None
    transposed = layer.target is convolution and bool(layer.args[6])
    groups = int(layer.args[8]) if layer.target is convolution else 1  # type: ignore[arg-type]
    old = constants.derived(layer.args[1])  # type: ignore[arg-type]
    new_bias = shift if bias is None else bias.double() * scale + shift
    replace_parameters(constants, layer, _scaled(old, scale, transposed, groups), new_bias)


def replace_parameters(constants: Constants, layer: Node, weight: Derived, bias: torch.Tensor) -> None:
    """Give a convolution or a linear layer others, named after those that it had; of one dtype."""
    stem = constants.names[layer.args[1]].removesuffix(".weight").removesuffix(".folded")  # type: ignore[index]
    args = list(layer.args)
    args[1] = constants.add(f"{stem}.folded.weight", weight)
    args[2:3] = [constants.add(f"{stem}.folded.bias", bias.to(weight.like.dtype))]
    layer.args = tuple(args)


def scale_and_shift(
    affine: Sequence[torch.Tensor | None],
    statistics: Sequence[torch.Tensor],
    eps: float,
    rounded_to: torch.dtype = torch.float64,
) -> tuple[torch.Tensor, torch.Tensor]:
    """bn(x) as x * scale + shift, in float64.

    Args:
        affine: weight and bias; statistics: mean and variance.
        rounded_to: the scale is, before the shift is made from it.
    """
    mean, variance = (tensor.double() for tensor in statistics)
    scale = (variance + eps).rsqrt()
    if affine[0] is not None:
        scale = scale * affine[0].double()
    scale = scale.to(rounded_to).double()
    shift = -mean * scale
    if affine[1] is not None:
        shift = shift + affine[1].double()
    return scale, shift


def _scaled(weight: Derived, scale: torch.Tensor, transposed: bool, groups: int) -> Derived:
    """Scale the output channels: dimension 0, or 1 within each group of a transposed convolution."""
    like = weight.like
    factors = scale.reshape(-1, *[1] * (like.dim() - 1))
    if transposed:
        inputs, outputs = like.shape[:2]
        grouped = scale.reshape(groups, 1, outputs).expand(groups, inputs // groups, outputs)
        factors = grouped.reshape(inputs, outputs, *[1] * (like.dim() - 2))

    def pieces() -> Iterator[torch.Tensor]:
        row = 0
        for piece in weight.pieces():
            rows = piece.shape[0]
            scaled = piece.to(torch.float64, copy=True).mul_(factors[row : row + rows])
            yield scaled.to(like.dtype)
            row += rows

    return Derived(like, pieces, recipe("scaled", weight, scale, transposed, groups))
