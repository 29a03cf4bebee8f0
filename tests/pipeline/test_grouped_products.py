"""Products by group, which mixtures of experts are made of."""

from __future__ import annotations

import pytest
import torch
from tests.pipeline.running import check
from torch import Tensor, nn
from torch.export import Dim


def of_library(x: Tensor, weight: Tensor, ends: Tensor) -> Tensor:
    """The operator that the library's models of mixtures have where torch's own takes no float32."""
    pytest.importorskip("transformers.integrations.moe", exc_type=ImportError)
    made: Tensor = torch.ops.transformers.grouped_mm_fallback(x, weight, ends)
    return made


class Experts(nn.Module):
    """Tokens go to the two experts that a router likes best, sorted by expert."""

    def __init__(self, experts: int) -> None:
        super().__init__()
        self.router = nn.Linear(16, experts)
        self.weight = nn.Parameter(torch.randn(experts, 16, 8) / 4)

    def forward(self, x: Tensor) -> Tensor:
        score, chosen = self.router(x).softmax(-1).topk(2)
        order = chosen.reshape(-1).argsort(stable=True)
        experts = torch.arange(self.weight.shape[0])
        ends = (chosen.reshape(1, -1) <= experts.unsqueeze(1)).sum(1).to(torch.int32)
        made = of_library(x.repeat_interleave(2, 0)[order], self.weight, ends)
        made = torch.zeros_like(made).index_copy(0, order, made)
        return (made.reshape(-1, 2, 8) * score.unsqueeze(-1)).sum(1)


@pytest.mark.parametrize(("tokens", "experts"), [(1, 4), (2, 4), (9, 3)])
def test_experts(tokens: int, experts: int) -> None:
    check(Experts(experts), (torch.randn(tokens, 16),))


def test_any_number_of_tokens() -> None:
    tokens = [(torch.randn(count, 16),) for count in (5, 1, 12)]
    check(Experts(4), *tokens, dynamic_shapes=({0: Dim("tokens", max=12)},))


class Groups(nn.Module):
    def forward(self, x: Tensor, weight: Tensor, ends: Tensor) -> Tensor:
        if x.dtype == torch.float32:
            return of_library(x, weight, ends)
        return nn.functional.grouped_mm(x, weight, offs=ends)


@pytest.mark.parametrize("rows", [3, 8])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_empty_groups_and_special_values(dtype: torch.dtype, rows: int) -> None:
    x, weight = torch.randn(rows, 16).to(dtype), torch.randn(4, 16, 8).to(dtype)
    x[2, 2], weight[1, 0, 0] = float("nan"), float("inf")
    calls = [(x, weight, torch.tensor(ends, dtype=torch.int32)) for ends in ([0, 2, 2, rows], [rows] * 4)]
    check(Groups(), *calls, tolerance=1e-4 if dtype == torch.float32 else 1e-2)
