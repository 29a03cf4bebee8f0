"""What a model is made of after all passes, and whether its program computes what it does."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch._ops import OpOverload

import penlight
from penlight.pipeline import export, to_edge


class Calls(nn.Module):
    """A model that is one function of tensors."""

    def __init__(self, function: Callable[..., object]) -> None:
        super().__init__()
        self.function = function

    def forward(self, *args: Tensor) -> object:
        return self.function(*args)


def trained(norm: nn.Module) -> nn.Module:
    """With statistics and parameters as training leaves them."""
    for name, tensor in (*norm.named_parameters(), *norm.named_buffers()):
        if tensor.is_floating_point():
            tensor.data = torch.rand_like(tensor) + 0.5 if "var" in name else torch.randn_like(tensor)
    return norm.eval()


def operators(model: nn.Module, *args: Tensor, **options: object) -> list[str]:
    """Their names, in order, without namespace and overload."""
    graph = to_edge(export(model.eval(), args), **options).methods["forward"].graph
    return [str(node.target).split(".")[-2] for node in graph.nodes if isinstance(node.target, OpOverload)]


def check(model: nn.Module, *args: Tensor, tolerance: float = 1e-5, **options: object) -> None:
    """The runtime gives what eager mode does, NaN included."""
    program = penlight.load(penlight.compile(model.eval(), args, **options).to_bytes())
    with torch.no_grad():
        torch.testing.assert_close(
            program(*args), model(*args), rtol=tolerance, atol=tolerance, equal_nan=True
        )
