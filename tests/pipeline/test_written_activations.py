"""Activations written out are the operators they are, and part of the layer before them."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch
from tests.pipeline.fused import check, operators
from torch import Tensor, nn
from torch.nn import functional

Function = Callable[[Tensor], Tensor]
ROOT = math.sqrt(2 / math.pi)
WRITTEN: dict[str, tuple[str, Function]] = {
    "gelu": ("gelu", lambda x: 0.5 * x * (1 + torch.erf(x / math.sqrt(2)))),
    "gelu, halves last": ("gelu", lambda x: x * (1.0 + torch.erf(x * 0.7071067811865475)) * 0.5),
    "gelu, halved sum": ("gelu", lambda x: x * ((torch.erf(x / 2**0.5) + 1) / 2)),
    "tanh": ("gelu", lambda x: 0.5 * x * (1 + torch.tanh(ROOT * (x + 0.044715 * x**3)))),
    "tanh of products": (
        "gelu",
        lambda x: x * 0.5 * (1.0 + torch.tanh(x * 0.7978845608 * (1.0 + 0.044715 * x * x))),
    ),
    "tanh of a cube": ("gelu", lambda x: 0.5 * (x * (torch.tanh((0.044715 * x * x * x + x) * ROOT) + 1))),
    "silu": ("silu", lambda x: x * torch.sigmoid(x)),
    "silu, turned": ("silu", lambda x: torch.sigmoid(x) * x),
    "hardswish": ("hardswish", lambda x: x * functional.relu6(x + 3) / 6),
    "hardswish, ramp first": ("hardswish", lambda x: functional.hardtanh(x + 3.0, 0.0, 6.0) / 6.0 * x),
}
OTHERS: dict[str, Function] = {
    "of another input": lambda x: 0.5 * x * (1 + torch.erf(x.flip(0) / math.sqrt(2))),
    "a quick gelu": lambda x: x * torch.sigmoid(1.702 * x),
    "another factor": lambda x: 0.4 * x * (1 + torch.erf(x / math.sqrt(2))),
    "another root": lambda x: 0.5 * x * (1 + torch.erf(x / 1.4)),
    "another cube": lambda x: 0.5 * x * (1 + torch.tanh(ROOT * (x + 0.05 * x**3))),
    "a square": lambda x: 0.5 * x * (1 + torch.tanh(ROOT * (x + 0.044715 * x**2))),
    "no one": lambda x: 0.5 * x * (2 + torch.erf(x / math.sqrt(2))),
    "another ramp": lambda x: x * torch.clamp(x + 3, 0, 5) / 6,
    "three factors": lambda x: x * torch.sigmoid(x) * x,
}


class Calls(nn.Module):
    def __init__(self, function: Function, *, layer: bool = True) -> None:
        super().__init__()
        self.layer = nn.Linear(12, 12) if layer else nn.Identity()
        self.function = function

    def forward(self, x: Tensor) -> Tensor:
        return self.function(self.layer(x))


@pytest.mark.parametrize("name", WRITTEN)
def test_a_layer_applies_it(name: str) -> None:
    model, x = Calls(WRITTEN[name][1]), torch.randn(5, 12)
    assert operators(model, x) == ["linear_packed"]
    check(model, x)


@pytest.mark.parametrize("name", WRITTEN)
def test_values(name: str) -> None:
    operator, function = WRITTEN[name]
    model = Calls(lambda x: function(x.t()), layer=False)
    x = torch.cat(
        [torch.linspace(-12, 12, 301), torch.tensor([0.0, -0.0, torch.nan, 1e-30, 1e4, -1e4, torch.inf])]
    )
    x = x.view(7, 44)
    assert operator in operators(model, x)
    check(model, x)


@pytest.mark.parametrize("name", OTHERS)
def test_others_stay(name: str) -> None:
    model, x = Calls(OTHERS[name]), torch.randn(5, 12) * 3
    assert not {"gelu", "silu", "hardswish"} & set(operators(model, x, without=["fuse_epilogues"])) or (
        name == "three factors"
    )
    check(model, x)


def test_parts_that_are_read_elsewhere_are_computed() -> None:
    def function(x: Tensor) -> Tensor:
        gate = torch.sigmoid(x)
        return torch.cat([x * gate, gate])

    check(Calls(function), torch.randn(5, 12))


def test_broadcast_stays() -> None:
    check(Calls(lambda x: x[:1] * torch.sigmoid(x[:1]) * x), torch.randn(5, 12))


def test_double_precision_stays() -> None:
    model, x = Calls(WRITTEN["silu"][1], layer=False), torch.randn(5, 12).double()
    assert "silu" not in operators(model, x)
    check(model, x)


def test_left_out() -> None:
    model, x = Calls(WRITTEN["gelu"][1]), torch.randn(5, 12)
    assert "elementwise" in operators(model, x, without=["fuse_written_activations"])
