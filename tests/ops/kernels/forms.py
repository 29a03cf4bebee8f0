"""What Python says of the operators in forms.cpp."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

import penlight


@penlight.op("testforms::every").fake
def _(x: Tensor, step: int, *, dtype: torch.dtype) -> Tensor:
    return x.new_empty([(x.shape[0] + step - 1) // step], dtype=dtype)


@penlight.op("testforms::shifted").backward
def _(ctx: Any, grad: Tensor) -> Any:
    return grad * ctx.inputs.k, None, grad if ctx.inputs.shift is not None else None


@penlight.op("testforms::half_shifted").backward
def _(ctx: Any, grad: Tensor) -> Any:
    return grad * ctx.inputs.k, None


@penlight.op("testforms::by_function").function
class Shifted(torch.autograd.Function):
    @staticmethod
    def forward(x: Tensor, k: float, shift: Tensor | None) -> Any:
        return torch.ops.testforms.by_function(x, k, shift=shift)

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        _, ctx.k, ctx.shift = inputs

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:  # type: ignore[override]
        return grad * ctx.k, None, None if ctx.shift is None else grad

    @staticmethod
    def jvp(ctx: Any, x: Any, k: Any, shift: Any) -> Any:  # type: ignore[override]
        return x * ctx.k + (0 if shift is None else shift)
