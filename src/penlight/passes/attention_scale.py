"""Let attention scale the scores by what queries or keys were multiplied with.

    scaled_dot_product_attention(q * 0.125, k, v, scale=1.0)   ->   attention of q, with scale 0.125

Attention multiplies by its scale in any case.

Needs:  edge dialect; a number that is finite and not zero; nothing else reads the product.
Keeps:  outputs up to rounding.
Runs:   before the views around attention are looked at.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch._ops import OpOverload
from torch.fx import Graph, Node

from penlight.passes.base import tensor_of
from penlight.passes.layouts import step_of

aten = torch.ops.aten


def fold_attention_scale(attention: OpOverload) -> Callable[[Graph], int]:
    """The pass over `attention`, which has ATen's schema."""

    def fold_attention_scale(graph: Graph) -> int:
        folded = 0
        for node in graph.find_nodes(op="call_function", target=attention):
            for place in (0, 1):
                scaled = _scaled(node.args[place], node)
                if scaled is None:
                    continue
                product, factor = scaled
                given = _scale_of(node)
                scale = factor * given if given is not None else 0.0
                if not math.isfinite(scale) or scale == 0:
                    continue
                product.replace_all_uses_with(product.args[0])  # type: ignore[arg-type]
                node.kwargs = {**node.kwargs, "scale": scale}
                folded += 1
        return folded

    return fold_attention_scale


def _scaled(operand: Any, reader: Node) -> tuple[Node, float] | None:
    """The product with a number that `operand` is views of, if only `reader` reads it and them."""
    while isinstance(operand, Node) and list(operand.users) == [reader] and _once(operand, reader):
        value, args = tensor_of(operand), operand.args
        if value is None or value.dtype is not torch.float32:
            return None
        if operand.target in (aten.mul.Scalar, aten.div.Scalar) and not operand.kwargs:
            number: Any = args[1]
            if not isinstance(number, int | float) or not math.isfinite(number) or number == 0:
                return None
            return operand, number if operand.target is aten.mul.Scalar else 1 / number
        step = step_of(operand)
        if step is None or step[0] is not args[0]:
            return None
        operand, reader = step[0], operand
    return None


def _once(operand: Node, reader: Node) -> bool:
    """Is it one argument alone? Queries may be keys, or values, too."""
    return [*reader.args, *reader.kwargs.values()].count(operand) == 1


def _scale_of(node: Node) -> float | None:
    """None if it depends on a width that is dynamic."""
    scale: Any = node.kwargs.get("scale")
    if scale is not None:
        return float(scale)
    width = tensor_of(node.args[0]).shape[-1]  # type: ignore[union-attr]
    return 1 / math.sqrt(width) if isinstance(width, int) and width else None
