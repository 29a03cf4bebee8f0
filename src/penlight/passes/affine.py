"""Arithmetic that a layer's parameters could do: a factor and a summand for each channel."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch._ops import OpOverload
from torch.fx import Node

from penlight.passes.base import tensor_of
from penlight.passes.constants import Constants
from penlight.passes.layouts import same_sizes, sizes_of

aten = torch.ops.aten

SUMS: dict[Any, int] = {aten.add.Tensor: 1, aten.sub.Tensor: -1, aten.add.Scalar: 1, aten.sub.Scalar: -1}
PRODUCTS: set[OpOverload] = {aten.mul.Tensor, aten.mul.Scalar}
QUOTIENTS: set[OpOverload] = {aten.div.Tensor, aten.div.Scalar}
DTYPES = (torch.float32, torch.float64)


@dataclass(frozen=True)
class Affine:
    """x * scale + shift, with a value for each of x's channels, float64."""

    scale: torch.Tensor
    shift: torch.Tensor

    @staticmethod
    def identity(channels: int) -> Affine:
        one = torch.ones(channels, dtype=torch.float64)
        return Affine(one, torch.zeros_like(one))

    def then(self, other: Affine) -> Affine:
        return Affine(self.scale * other.scale, self.shift * other.scale + other.shift)


def weight_of_second(node: Node) -> float | None:
    """What a sum or a difference multiplies its second operand with; None if that is not known yet."""
    alpha: Any = node.args[2] if len(node.args) > 2 else node.kwargs.get("alpha", 1)
    return float(SUMS[node.target] * alpha) if isinstance(alpha, int | float) else None


def affine_step(constants: Constants, node: Node, axis: int) -> tuple[Node, Affine] | None:
    """The tensor of which `node` is an affine function, the same along all dimensions but `axis`."""
    if node.target not in SUMS and node.target not in PRODUCTS and node.target not in QUOTIENTS:
        return None
    value, (a, b) = tensor_of(node), node.args[:2]
    swapped = constants.like(a) is not None and node.target not in QUOTIENTS
    x, number = (b, a) if swapped else (a, b)
    source = tensor_of(x)
    if value is None or source is None or value.dtype not in DTYPES or source.dtype is not value.dtype:
        return None
    given = _along(constants, number, value, axis) if same_sizes(sizes_of(source), sizes_of(value)) else None
    if given is None:
        return None
    none = Affine.identity(len(given))
    if node.target in PRODUCTS:
        step = Affine(given, none.shift)
    elif node.target in QUOTIENTS:
        step = Affine(given.reciprocal(), none.shift)
    else:
        second = weight_of_second(node)
        if second is None:
            return None
        step = Affine(none.scale * second, given) if swapped else Affine(none.scale, given * second)
    usual = step.scale.isfinite() & (step.scale != 0) & step.shift.isfinite()
    return (x, step) if bool(usual.all()) else None  # type: ignore[return-value]


def _along(constants: Constants, number: Any, value: torch.Tensor, axis: int) -> torch.Tensor | None:
    """A number or a constant of `value`'s dtype as a vector along `axis`; None if it varies along others."""
    count: Any = value.shape[axis]
    if not isinstance(count, int):
        return None
    if isinstance(number, int | float):
        return torch.full((count,), float(number), dtype=torch.float64)
    like = constants.like(number)
    if like is None or like.dtype is not value.dtype or like.dim() > value.dim():
        return None
    shape = [1] * (value.dim() - like.dim()) + [*like.shape]
    if any(size != 1 for place, size in enumerate(shape) if place != axis) or shape[axis] not in (1, count):
        return None
    tensor: Any = constants.get(number)
    return tensor.double().reshape(-1).expand(count).contiguous()  # type: ignore[no-any-return]
