"""What the bodies of cond, map, scan and while_loop may hold."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from tests.pipeline.running import check
from torch import Tensor, nn
from torch._higher_order_ops.map import map as map_rows
from torch._higher_order_ops.scan import scan
from torch._higher_order_ops.while_loop import while_loop
from torch.export import Dim

import penlight
from penlight.errors import NotSupported


@pytest.fixture(autouse=True)
def traced_anew() -> None:
    """Eager PyTorch traces bodies as well; what it keeps of other tests' may fail an assertion of its own."""
    torch._dynamo.reset()


class Function(nn.Module):
    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, *args: Tensor) -> Any:
        return self.function(*args)


def weights() -> Tensor:
    return torch.tensor([1.0, -2.0, 3.0])


def change(x: Tensor) -> Tensor:
    """Writes to a tensor of its own, whole and in parts."""
    x = x.clone()
    x[0] = 1.0
    x += 2
    return x.clamp_(max=4)


def constant_in_cond(x: Tensor) -> Any:
    return torch.cond(x.sum() > 0, lambda x: x * weights(), lambda x: x + weights() * 2, (x,))


def constant_in_while(x: Tensor) -> Any:
    def more(i: Tensor, x: Tensor) -> Tensor:
        return i < torch.tensor(3)

    return while_loop(more, lambda i, x: (i + torch.tensor(1), x * weights()), (torch.tensor(0), x))


def constant_in_loop_in_scan(x: Tensor) -> Any:
    def step(total: Tensor, x: Tensor) -> Any:
        def inner(i: Tensor, value: Tensor) -> Any:
            return i + 1, value * weights()

        _, value = while_loop(lambda i, value: i < 2, inner, (torch.tensor(0), total + x))
        return value.clone(), value.sum()

    return scan(step, torch.zeros(3), x.expand(4, 3))


def constant_in_map(x: Tensor) -> Any:
    return map_rows(lambda row: row * weights() + torch.tensor(7.0), x.expand(4, 3))


def change_in_cond(x: Tensor) -> Any:
    return torch.cond(x.sum() > 0, change, lambda x: x.sin(), (x,))


def change_in_scan(x: Tensor) -> Any:
    def step(total: Tensor, x: Tensor) -> Any:
        total = total.clone()
        total += x
        return total, change(x)

    return scan(step, torch.zeros(3), x.expand(4, 3))


def change_in_map(x: Tensor) -> Any:
    return map_rows(change, x.expand(4, 3))


BODIES = [
    constant_in_cond,
    constant_in_while,
    constant_in_loop_in_scan,
    constant_in_map,
    change_in_cond,
    change_in_scan,
    change_in_map,
]


@pytest.mark.parametrize("body", BODIES, ids=lambda body: body.__name__)
def test_body(body: Callable[..., Any]) -> None:
    x = torch.tensor([0.5, 1.5, -0.25])
    check(Function(body), (x,), (-x,))


def test_no_rows_where_other_sizes_are_dynamic() -> None:
    """PyTorch refuses to map over nothing; the result has no rows, of the width that was given."""
    args = (torch.ones(3, 4),)
    shapes = ((({0: Dim("rows", max=6), 1: Dim("columns", max=5)}),),)
    model = Function(lambda x: map_rows(lambda row: (row * 2, row.sum()), x))
    loaded = penlight.load(penlight.compile(model, args, dynamic_shapes=shapes))
    for rows, columns in ((3, 5), (0, 2), (6, 1), (0, 5)):
        wide, sums = loaded(torch.ones(rows, columns))
        assert (wide.shape, sums.shape) == ((rows, columns), (rows,))


class WritesInBranch(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("total", torch.zeros(3))

    def forward(self, x: Tensor) -> Tensor:
        def add(x: Tensor) -> Tensor:
            self.total.add_(x)
            return x * 2

        return torch.cond(x.sum() > 0, add, lambda x: x * 3, (x,))


def test_a_branch_that_writes_to_state() -> None:
    with pytest.raises(NotSupported, match="the body of a cond or loop writes") as caught:
        penlight.compile(WritesInBranch(), (torch.ones(3),))
    assert "return the new value from the body" in str(caught.value.do)
