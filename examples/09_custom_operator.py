"""Your own operator: one C++ file and one call, in eager PyTorch, torch.export and programs.

    python examples/09_custom_operator.py
    penlight op build examples/09_custom_operator.cpp --test

This file has the stem of the C++ file, so what it says of the operator below counts
wherever the operator is loaded: its gradient, and what tests compare it with.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

import penlight

SOURCE = Path(__file__).with_suffix(".cpp")
soft_clip = penlight.op("examples::soft_clip")


@soft_clip.backward
def _(ctx: Any, grad: Tensor) -> Any:
    limit = ctx.inputs.limit
    _, pull_back = torch.func.vjp(lambda x: reference(x, limit), ctx.inputs.x)
    return pull_back(grad)[0], None


@soft_clip.reference
def reference(x: Tensor, limit: float = 1.0) -> Tensor:
    """What the kernel computes, in PyTorch's own operators."""
    median = x.double().median(-1, keepdim=True).values
    u = (x.double() - median) / limit
    return (median + limit * u / (1 + u.abs())).to(x.dtype)


@soft_clip.samples
def _() -> Iterator[tuple[Any, ...]]:
    for shape in ((2, 5), (7,), (3, 1, 4), (0, 5)):
        yield torch.randn(shape), 0.5
    yield torch.randn(4, 9, dtype=torch.float64), 2.0


class Tame(torch.nn.Module):
    """A small network that clips what comes in."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(16, 4)

    def forward(self, x: Tensor) -> Tensor:
        return self.linear(torch.ops.examples.soft_clip(x, 2.0))


def main() -> None:
    torch.manual_seed(0)
    op = penlight.ops.load(SOURCE)
    x = torch.randn(3, 16) * 5
    torch.testing.assert_close(op(x, 2.0), reference(x, 2.0))
    print("eager   ", op)

    model = Tame().eval()
    program = penlight.compile(model, (x,), dynamic_shapes={"x": {0: torch.export.Dim("rows", max=8)}})
    loaded = penlight.load(program.to_bytes())
    for rows in (1, 3, 8):
        x = torch.randn(rows, 16) * 5
        torch.testing.assert_close(loaded(x), model(x).detach())
    print("program  the same for 1, 3 and 8 rows")

    x.requires_grad_()
    op(x, 2.0).sum().backward()
    assert x.grad is not None
    print(f"gradient {x.grad.abs().max():.3f} at most")


if __name__ == "__main__":
    main()
