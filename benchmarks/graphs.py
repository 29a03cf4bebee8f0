"""Graphs made for measuring: many tiny operators, and models by their names."""

from __future__ import annotations

from runpy import run_path

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


class TinyProducts(nn.Module):
    """`count` operators in turn, on matrices of 4 by 4: a product, then softmax of its rows."""

    def __init__(self, count: int) -> None:
        super().__init__()
        self.count = count

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        for i in range(self.count):
            x = torch.mm(x, y) if i % 2 == 0 else torch.softmax(x, -1)
        return x


def tiny_products(count: int) -> tuple[nn.Module, tuple[Tensor, ...]]:
    torch.manual_seed(0)
    return TinyProducts(count).eval(), (torch.randn(4, 4), torch.randn(4, 4))


class InDtype(nn.Module):
    """A model of another dtype, with inputs and a first result of float32."""

    def __init__(self, module: nn.Module, dtype: torch.dtype) -> None:
        super().__init__()
        self.module, self.dtype = module.to(dtype), dtype

    def forward(self, *args: Tensor) -> Tensor:
        result = self.module(*(arg.to(self.dtype) if arg.is_floating_point() else arg for arg in args))
        first: Tensor = result[0] if isinstance(result, tuple | list) else result
        return first.float()


def in_dtype(module: nn.Module, name: str) -> nn.Module:
    """`module` in the dtype of that name."""
    return InDtype(module, getattr(torch, name)).eval()


def build(name: str) -> tuple[nn.Module, tuple[Tensor, ...]]:
    """A module and its inputs, by a name as in case.py, or "tiny:COUNT" or "products:COUNT"."""
    kind, _, count = name.partition(":")
    if kind == "tiny":
        return tiny_operators(int(count))
    if kind == "products":
        return tiny_products(int(count))
    if kind in ("torchvision", "timm"):
        from .models import seeded

        model = (seeded.named if kind == "torchvision" else seeded.of_timm)(count)
        return model.methods["forward"], model.example("forward")
    if kind.endswith(".py"):
        return _of_file(kind, count)
    from .models import llama, load

    makers = {
        "llama_prefill": llama.prefill,
        "llama_decode": llama.decode,
        "stateless:llama_decode": llama.stateless_decode,
    }
    model = makers[name]() if name in makers else load(name)
    return model.methods["forward"], model.example("forward")


def _of_file(path: str, function: str) -> tuple[nn.Module, tuple[Tensor, ...]]:
    torch.manual_seed(0)
    make = run_path(path).get(function)
    if not callable(make):
        raise ValueError(
            f"{path} has no function {function!r}: give one that returns a module and its inputs"
        )
    module, args = make()
    return module, args
