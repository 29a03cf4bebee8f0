"""Results that take over an argument's memory."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

import penlight


class Calling(torch.nn.Module):
    def __init__(self, function: Callable[..., torch.Tensor]) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.function(x * 2)


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x.masked_scatter(x > 0, x),
        lambda x: x.scatter(0, torch.tensor([[3, 2, 1, 0]]).T.expand(4, 4), x),
        lambda x: x.index_copy(0, torch.tensor([3, 2, 1, 0]), x),
        lambda x: x.index_add(0, torch.tensor([3, 2, 1, 0]), x),
        lambda x: x.index_put((torch.tensor([3, 2, 1, 0]),), x),
        lambda x: x.index_reduce(1, torch.tensor([3, 2, 1, 0]), x, "prod"),
        lambda x: x.put(torch.arange(15, -1, -1), x.view(-1)),
        lambda x: x + x,
        lambda x: torch.where(x > 0, x, -x),
    ],
)
def test_an_argument_that_is_given_twice(function: Callable[..., torch.Tensor]) -> None:
    """`out` may be the first argument's memory, but not where the same tensor is also another one."""
    x = torch.randn(4, 4, generator=torch.Generator().manual_seed(0))
    model = penlight.load(penlight.compile(Calling(function), (x,)).to_bytes())
    torch.testing.assert_close(model(x), function(x * 2))


def _max(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    values, places = torch.empty(0), torch.empty(4, dtype=torch.int64)
    torch.max(x, 1, out=(values, places))
    return values + 1, places


def _part(x: torch.Tensor) -> torch.Tensor:
    result = torch.zeros(6, 4)
    torch.mm(x, x, out=result[1:5])
    return result


def _converted(x: torch.Tensor) -> torch.Tensor:
    return torch.add(x, x, out=torch.empty(4, 4, dtype=torch.float64))


@pytest.mark.parametrize(
    "function",
    [
        _max,
        _part,
        _converted,
        lambda x: torch.sort(x, out=(torch.empty(4, 4), torch.empty(4, 4, dtype=torch.int64))),
        lambda x: torch.mm(x, x, out=torch.empty(4, 4)),
        lambda x: torch.cat([x, x], out=torch.empty(8, 4)),
        lambda x: torch.linalg.norm(x, dim=1, out=torch.empty(4)),
        lambda x: torch.mul(x, 3, out=x) + x,
    ],
)
def test_results_that_are_given_as_out(function: Callable[..., torch.Tensor]) -> None:
    x = torch.randn(4, 4, generator=torch.Generator().manual_seed(0))
    model = penlight.load(penlight.compile(Calling(function), (x,)).to_bytes())
    torch.testing.assert_close(model(x), function(x * 2))


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x.abs_().add_(1).pow_(-0.5),
        lambda x: x.abs_().double().add_(1).float_power_(2.5),
        lambda x: x.abs().pow_(x),
        lambda x: x.round_().remainder_(3).fmod_(2).copysign_(-1).xlogy_(2.5).clamp_(min=0.1),
        lambda x: x.to(torch.int32).bitwise_and_(6).bitwise_left_shift_(2).floor_divide_(3),
    ],
)
def test_operators_with_a_number(function: Callable[..., torch.Tensor]) -> None:
    """In place, a number comes last: out of place there may be one that comes first."""
    x = torch.randn(4, 4, generator=torch.Generator().manual_seed(0))
    model = penlight.load(penlight.compile(Calling(function), (x,)).to_bytes())
    torch.testing.assert_close(model(x), function(x * 2))
