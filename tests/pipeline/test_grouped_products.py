"""Products by group, which mixtures of experts are made of."""

from __future__ import annotations

import pytest
import torch
from tests.pipeline.fused import operators
from tests.pipeline.running import check
from torch import Tensor, nn
from torch.export import Dim

import penlight
from penlight.dialects.penlight_ops import grouped_linear

try:
    import transformers.integrations.moe  # noqa: F401  # makes the operator known
except ImportError:

    @torch.library.custom_op("transformers::grouped_mm_fallback", mutates_args=())
    def _fallback(input: Tensor, weight: Tensor, offs: Tensor) -> Tensor:
        return grouped_linear(input, weight.mT, offs)

    @_fallback.register_fake
    def _(input: Tensor, weight: Tensor, offs: Tensor) -> Tensor:
        return input.new_empty(input.shape[0], weight.shape[2])


def of_library(x: Tensor, weight: Tensor, ends: Tensor) -> Tensor:
    """The operator that the library's models of mixtures have where torch's own takes no float32."""
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


class Mixture(nn.Module):
    """Gated experts; their matrices are stored as those of linear layers, or turned."""

    def __init__(self, experts: int, turned: bool = False) -> None:
        super().__init__()
        self.up = nn.Parameter(torch.randn(experts, *((32, 40) if turned else (40, 32))) / 6)
        self.down = nn.Parameter(torch.randn(experts, *((20, 32) if turned else (32, 20))) / 6)
        self.turned = turned

    def forward(self, x: Tensor, ends: Tensor) -> Tensor:
        up, down = (self.up, self.down) if self.turned else (self.up.mT, self.down.mT)
        a, b = of_library(x, up, ends).chunk(2, -1)
        return of_library(nn.functional.silu(a) * b, down, ends)


def ends_of(*ends: int) -> Tensor:
    return torch.tensor(ends, dtype=torch.int32)


@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize("experts", [1, 3, 32])
def test_weights_are_packed(experts: int, turned: bool) -> None:
    model = Mixture(experts, turned)
    ends = [torch.randint(12, (experts,)).sort()[0].int() for _ in range(3)]
    calls = [(torch.randn(12, 32), one) for one in (*ends, ends_of(*[0] * experts), ends_of(*[12] * experts))]
    check(model, *calls)
    assert operators(model, *calls[0]) == ["grouped_linear_packed", "elementwise", "grouped_linear_packed"]


def test_any_number_of_rows() -> None:
    calls = [(torch.randn(rows, 32), ends_of(0, rows // 2, rows)) for rows in (6, 1, 50, 2)]
    check(Mixture(3), *calls, dynamic_shapes=({0: Dim("rows", max=64)}, None))


def test_short_weights_stay_short() -> None:
    model = Mixture(40)
    x, ends = torch.randn(12, 32), ends_of(*[3] * 10, *[8] * 20, *[12] * 10)
    sizes = []
    for dtype in (torch.float32, torch.bfloat16, torch.float16):
        check(model.to(dtype), (x.to(dtype), ends), targets=["cpu"], tolerance=2e-2)
        sizes.append(len(penlight.compile(model, (x.to(dtype), ends)).to_bytes()))
        assert operators(model, x.to(dtype), ends).count("grouped_linear_packed") == 2
    assert max(sizes[1:]) < 0.6 * sizes[0]


def test_methods_share_packed_weights() -> None:
    model = Mixture(6)
    one = {"many": (model, (torch.randn(60, 32), ends_of(*range(6))))}
    both = {**one, "few": (model, (torch.randn(2, 32), ends_of(0, 1, 1, 1, 2, 2)))}
    alone, shared = (len(penlight.compile(methods).to_bytes()) for methods in (one, both))
    assert shared < 1.1 * alone


def test_weights_that_something_else_reads_stay() -> None:
    class Read(Mixture):
        def forward(self, x: Tensor, ends: Tensor) -> Tensor:
            return super().forward(x, ends) + (x @ self.down).sum((0, 2))[:, None]

    model, args = Read(3), (torch.randn(12, 32), ends_of(2, 7, 12))
    check(model, args)
    program = penlight.compile(model, args)
    assert program.report is not None
    reasons = [one.reason for one in program.report.left if one.stage == "pack groups"]
    assert reasons == ["something else reads the weight as it is"]


def test_weights_that_are_given() -> None:
    args = (torch.randn(9, 16), torch.randn(3, 16, 8), ends_of(2, 2, 9))
    check(Groups(), args)
    assert "grouped_linear" in operators(Groups(), *args)


def test_ends_out_of_order() -> None:
    model, x = Mixture(3), torch.randn(12, 32)
    running = penlight.load(penlight.compile(model, (x, ends_of(2, 7, 12))).to_bytes())
    for wrong in (ends_of(7, 2, 12), ends_of(2, 7, 13), ends_of(-1, 7, 12)):
        with pytest.raises(penlight.errors.RuntimeFailure, match=r"group \d ends at row"):
            running(x, wrong)
    assert torch.isfinite(running(x, ends_of(2, 7, 11))).all()
