"""Between what numbers the elements of a tensor lie, from what they are made of.

A mask made of conditions and finite numbers is known to be finite this way, whatever
the inputs of the model are. Whole numbers that a model is given count as conditions:
in a mask they are 0 or 1. Nothing is computed but the ends of constants.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch.fx import Node

from penlight.passes.base import tensor_of
from penlight.passes.constants import Constants
from penlight.passes.layouts import step_of

aten = torch.ops.aten

Bounds = tuple[float, float]

# Larger constants are not looked at: they are weights.
_LOOKED_AT = 1 << 20
_LARGEST = torch.finfo(torch.float32).max


def bounds_of(node: Any, constants: Constants) -> Bounds | None:
    """The least and the most that an element can be, both finite as float32; None if that is not known."""
    found = _bounds(node, constants)
    return found if found is not None and all(abs(end) <= _LARGEST for end in found) else None


def _bounds(node: Any, constants: Constants) -> Bounds | None:
    if isinstance(node, bool | int | float):
        return float(node), float(node)
    value = tensor_of(node)
    if not isinstance(node, Node) or value is None or value.is_complex():
        return None
    if value.dtype is torch.bool:
        return 0.0, 1.0
    if node in constants.names:
        return _of_constant(node, constants)
    if node.op == "placeholder":
        return None if value.is_floating_point() else (0.0, 1.0)
    step = step_of(node)
    if step is not None:
        return bounds_of(step[0], constants)
    rule = _RULES.get(node.target)
    if rule is None or node.kwargs.get("alpha", 1) != 1 or len(node.args) > 3:
        return None
    operands = [bounds_of(arg, constants) for arg in node.args if not isinstance(arg, list | tuple)]
    known = [found for found in operands if found is not None]
    return rule(*known) if len(known) == len(operands) else None


def _of_constant(node: Node, constants: Constants) -> Bounds | None:
    like = constants.like(node)
    if like is None or not 0 < like.numel() <= _LOOKED_AT:
        return None
    tensor = constants.get(node)
    assert tensor is not None
    ends = float(tensor.min()), float(tensor.max())
    return ends if all(map(math.isfinite, ends)) else None


def _add(a: Bounds, b: Bounds) -> Bounds:
    return a[0] + b[0], a[1] + b[1]


def _sub(a: Bounds, b: Bounds) -> Bounds:
    return a[0] - b[1], a[1] - b[0]


def _mul(a: Bounds, b: Bounds) -> Bounds:
    ends = [x * y for x in a for y in b]
    return min(ends), max(ends)


def _either(a: Bounds, b: Bounds) -> Bounds:
    return min(a[0], b[0]), max(a[1], b[1])


_RULES: dict[Any, Callable[..., Bounds]] = {
    aten.add.Tensor: _add,
    aten.add.Scalar: _add,
    aten.sub.Tensor: _sub,
    aten.sub.Scalar: _sub,
    aten.rsub.Tensor: lambda a, b: _sub(b, a),
    aten.rsub.Scalar: lambda a, b: _sub(b, a),
    aten.mul.Tensor: _mul,
    aten.mul.Scalar: _mul,
    aten.neg.default: lambda a: (-a[1], -a[0]),
    aten._to_copy.default: lambda a: a,
    aten.full.default: lambda a: a,
    aten.repeat.default: lambda a: a,
    aten.embedding.default: lambda a, index: a,
    aten.index_select.default: lambda a, dim, index: a,
    aten.index.Tensor: lambda a: a,
    aten.where.self: lambda condition, a, b: _either(a, b),
    aten.masked_fill.Scalar: lambda a, condition, b: _either(a, b),
}
