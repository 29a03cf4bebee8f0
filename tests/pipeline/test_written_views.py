"""Writes through views, into arguments and state."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from running import check, compare
from torch import Tensor, nn
from torch._higher_order_ops.while_loop import while_loop
from torch.export import Dim

import penlight
from penlight.errors import NotSupported


class Calls(nn.Module):
    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function
        self.register_buffer("state", torch.zeros(3))

    def forward(self, *args: Tensor) -> Any:
        return self.function(self, *args)


def changed_as_flat(_: Calls, x: Tensor) -> Tensor:
    flat = x.flatten()
    nn.functional.relu(flat, inplace=True)
    return x + flat.sum()


def changed_as_column(_: Calls, x: Tensor) -> Tensor:
    column = x.view(-1, 1)
    column[column > 1] = 0
    return x + 1


def changed_where_nothing_is_repeated(model: Calls, x: Tensor) -> Any:
    same = x[:, None].expand(2, 1, 3)
    same.mul_(2)
    model.state.expand(1, 3).add_(x[0])
    flags = x > 0
    flags.expand_as(x).logical_not_()  # of bool, for which torch has no other form than ours
    return model.state.expand_as(x[0]).neg_(), flags


def changed_through_its_own_sizes(_: Calls, x: Tensor) -> Tensor:
    same = x.view_as(x)
    start = (torch.tensor(0), same, same)
    _, total, _ = while_loop(lambda i, a, b: i < 3, lambda i, a, b: (i + 1, b * 2, a + 1), start)
    same.add_(total)
    return x - 1


WRITES = [
    changed_through_its_own_sizes,
    changed_as_flat,
    changed_as_column,
    changed_where_nothing_is_repeated,
]


@pytest.mark.parametrize("target", ["cpu", "portable"])
@pytest.mark.parametrize("function", WRITES)
def test_argument_is_changed(function: Callable[..., Any], target: str) -> None:
    x = torch.tensor([[1.0, -2.0, 3.0], [-4.0, 5.0, -6.0]])
    model, mine, theirs = Calls(function), x.clone(), x.clone()
    running = penlight.load(penlight.compile(Calls(function), (x.clone(),), target=target).to_bytes())
    for _ in range(3):
        compare(running(mine), model(theirs))
        compare(mine, theirs)
        if "state" in running.state:
            compare(running.state["state"], model.state)


def test_product_into_an_argument_of_any_length() -> None:
    def function(_: Calls, x: Tensor) -> Tensor:
        x.addcmul_(torch.arange(3), x)
        return x - 1

    calls = [(torch.randn(rows, 3),) for rows in (4, 1, 8)]
    check(Calls(function), *calls, dynamic_shapes={"args": ({0: Dim("rows", max=8)},)})


@pytest.mark.parametrize("join", [torch.stack, torch.cat, torch.hstack])
def test_joined_tensors_of_several_dtypes(join: Callable[..., Tensor]) -> None:
    call = (torch.tensor([1, 0, 255], dtype=torch.uint8), torch.tensor([0.5, 2, -1], dtype=torch.float16))
    check(Calls(lambda _, a, b: (join([a, b]), join([b, a > 0]), join([a > 0, a]))), call)


def test_a_result_of_another_shape() -> None:
    def function(model: Calls, x: Tensor) -> Tensor:
        torch.add(x, 1, out=model.state)
        return x

    with pytest.raises(NotSupported, match="the model gives 'state' another shape than it has") as caught:
        penlight.compile(Calls(function), (torch.randn(2, 3),))
    assert "float32[2, 3]" in str(caught.value)
