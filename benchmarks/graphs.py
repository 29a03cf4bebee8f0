"""Graphs made for measuring: many tiny operators."""

from __future__ import annotations

import torch
from torch import Tensor, nn


class TinyOperators(nn.Module):
    """`count` additions and multiplications in turn, on four elements."""

    def __init__(self, count: int) -> None:
        super().__init__()
        self.count = count

    def forward(self, x: Tensor, y: Tensor, z: Tensor) -> Tensor:
        for i in range(self.count):
            x = x + y if i % 2 == 0 else x * z
        return x


def tiny_operators(count: int) -> tuple[nn.Module, tuple[Tensor, ...]]:
    torch.manual_seed(0)
    return TinyOperators(count).eval(), (torch.randn(4), torch.randn(4) * 0.1, torch.ones(4))


def build(name: str) -> tuple[nn.Module, tuple[Tensor, ...]]:
    """A module and its inputs: "tiny:COUNT", or a model of one method by its name."""
    if name.startswith("tiny:"):
        return tiny_operators(int(name[5:]))
    from .models import llama, load

    makers = {
        "llama_prefill": llama.prefill,
        "llama_decode": llama.decode,
        "stateless:llama_decode": llama.stateless_decode,
    }
    model = makers[name]() if name in makers else load(name)
    return model.methods["forward"], model.example("forward")
