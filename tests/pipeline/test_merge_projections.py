"""Queries, keys and values of one input are one linear layer."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from tests.pipeline.fused import check, operators
from torch import Tensor, nn
from torch.export import Dim

import penlight


class SelfAttention(nn.Module):
    """With a layer of its own for each operand, which may have fewer heads, or no bias."""

    def __init__(self, heads: int = 4, shared: int = 4, without_bias: str = "", width: int = 16) -> None:
        super().__init__()
        self.width, depth = width, heads * width
        counts = {"query": heads, "key": shared, "value": shared}
        for name, count in counts.items():
            self.add_module(name, nn.Linear(depth, count * width, bias=name not in without_bias))
        self.output = nn.Linear(depth, depth)

    def heads(self, layer: Callable[[Tensor], Tensor], x: Tensor) -> Tensor:
        return layer(x).unflatten(-1, (-1, self.width)).transpose(1, 2)

    def forward(self, x: Tensor, memory: Tensor | None = None) -> Tensor:
        memory = x if memory is None else memory
        q, k, v = self.heads(self.query, x), self.heads(self.key, memory), self.heads(self.value, memory)
        y = F.scaled_dot_product_attention(q, k, v, enable_gqa=k.shape[1] != q.shape[1])
        return self.output(y.transpose(1, 2).flatten(2))


X = torch.randn(2, 9, 64)


def layers(model: nn.Module, *args: Tensor, **options: object) -> int:
    return sum(name.startswith("linear") for name in operators(model, *args, **options))


@pytest.mark.parametrize(
    "model",
    [
        SelfAttention(),
        SelfAttention(shared=2),
        SelfAttention(without_bias="key"),
        SelfAttention(without_bias="query, value"),
        SelfAttention(without_bias="query, key, value"),
    ],
)
@pytest.mark.parametrize("x", [X, torch.randn(1, 100, 64)], ids=["few rows", "many"])
def test_operands_of_one_input(model: SelfAttention, x: Tensor) -> None:
    assert layers(model, x) == 2
    assert layers(model, x, without={"merge_projections"}) == 4
    check(model, x)


def test_keys_and_values_of_another_input() -> None:
    model, memory = SelfAttention(), torch.randn(2, 13, 64)
    assert layers(model, X, memory) == 3
    check(model, X, memory)


def test_no_weight_is_there_twice() -> None:
    model = SelfAttention().eval()
    merged, apart = (
        penlight.compile(model, (X,), without=without).to_bytes() for without in ((), ["merge_projections"])
    )
    assert len(merged) < len(apart) + 512


class Tied(SelfAttention):
    """Something else reads the weights as well."""

    def forward(self, x: Tensor, memory: Tensor | None = None) -> Tensor:
        y = super().forward(x)
        return super().forward(y)


def test_weights_that_others_read() -> None:
    model = Tied()
    assert layers(model, X) == 8
    check(model, X)


def test_results_that_others_read() -> None:
    class Shown(SelfAttention):
        def forward(self, x: Tensor, memory: Tensor | None = None) -> tuple[Tensor, Tensor]:  # type: ignore[override]
            return super().forward(x), self.key(x)

    model = Shown()
    assert layers(model, X) == 3, "queries and values"
    check(model, X)


def test_weights_of_two_methods() -> None:
    """They stay apart: one method may not merge what the other does."""
    model = SelfAttention().eval()
    methods = {"forward": model, "twice": nn.Sequential(model, model).eval()}
    compiled = penlight.compile({name: (method, (X,)) for name, method in methods.items()})
    program = penlight.load(compiled.to_bytes())
    for name, method in methods.items():
        with torch.no_grad():
            torch.testing.assert_close(program[name](X), method(X), rtol=1e-5, atol=1e-5)
    assert len(compiled.to_bytes()) < 1.3 * len(penlight.compile(model, (X,)).to_bytes())


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_short_weights(dtype: torch.dtype) -> None:
    model, x = SelfAttention().to(dtype).eval(), X.to(dtype)
    program = penlight.load(penlight.compile(model, (x,)).to_bytes())
    with torch.no_grad():
        torch.testing.assert_close(program(x).float(), model(x).float(), rtol=5e-2, atol=2e-2)


def test_dynamic_batch_and_rows() -> None:
    model = SelfAttention().eval()
    sizes = ({0: Dim("batch", min=1, max=5), 1: Dim("rows", min=1, max=40)},)
    program = penlight.load(penlight.compile(model, (X,), dynamic_shapes=sizes).to_bytes())
    names = program["forward"].instruction_names()
    assert "penlight::attention_in_rows.out" in names and sum("linear" in name for name in names) == 2
    for batch, rows in ((1, 1), (2, 9), (5, 40)):
        x = torch.randn(batch, rows, 64)
        with torch.no_grad():
            torch.testing.assert_close(program(x), model(x), rtol=1e-5, atol=1e-5)
