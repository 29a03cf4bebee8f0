"""torch.vmap and what else transforms functions leaves plain operators, or a reason."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from tests.pipeline.running import check
from torch import Tensor, nn
from torch._higher_order_ops.associative_scan import associative_scan
from torch.export import Dim

import penlight
from penlight.errors import ExportError, NotSupported


class Function(nn.Module):
    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function
        self.linear = nn.Linear(3, 3)

    def forward(self, x: Tensor) -> Any:
        return self.function(self, x)


def batched(self: Function, x: Tensor) -> Any:
    return torch.vmap(lambda row: self.linear(row).sin() * row.sum())(x)


def nested(self: Function, x: Tensor) -> Any:
    return torch.vmap(torch.vmap(torch.dot, (None, 0)), (0, None))(x, x + 1)


def along_columns(self: Function, x: Tensor) -> Any:
    return torch.vmap(lambda column: column.sin() * column.sum(), in_dims=1)(x)


def writes_inside(self: Function, x: Tensor) -> Any:
    def change(row: Tensor) -> Tensor:
        row = row.clone()
        row[0] = 7
        return row

    return torch.vmap(change)(x)


def forward_derivative(self: Function, x: Tensor) -> Any:
    return torch.func.jvp(torch.sin, (x,), (x,))


def under_autocast(self: Function, x: Tensor) -> Any:
    with torch.autocast("cpu", torch.bfloat16):
        return torch.vmap(torch.exp)(x).float()


def running_sums(self: Function, x: Tensor) -> Any:
    return associative_scan(torch.add, x, dim=0, combine_mode="generic")


def state_space(self: Function, x: Tensor) -> Any:
    """The recurrence h = a h + b of state-space models, and from behind."""

    def combine(left: Any, right: Any) -> Any:
        return left[0] * right[0], right[0] * left[1] + right[1]

    forward = associative_scan(combine, (x.sigmoid(), x), dim=0, combine_mode="generic")
    return forward, associative_scan(torch.maximum, x, dim=1, reverse=True, combine_mode="generic")


@pytest.mark.parametrize(
    "function",
    [
        batched,
        nested,
        along_columns,
        writes_inside,
        forward_derivative,
        under_autocast,
        running_sums,
        state_space,
    ],
    ids=lambda function: function.__name__,
)
def test_same_as_eager(function: Callable[..., Any]) -> None:
    check(Function(function), (torch.randn(5, 3),))


def test_any_number_of_rows() -> None:
    rows = [(torch.randn(size, 3),) for size in (4, 1, 9)]
    check(Function(batched), rows[0], *rows[1:], dynamic_shapes=({0: Dim("rows", max=9)},))


def test_a_derivative_inside_is_refused() -> None:
    def slope(self: Function, x: Tensor) -> Any:
        return torch.func.grad(lambda x: (x**2).sum())(x)

    with pytest.raises(NotSupported) as caught:
        penlight.compile(Function(slope), (torch.randn(3),))
    assert caught.value.what.startswith("the model differentiates inside")
    assert "test_function_transforms.py" in str(caught.value.where)


def test_a_derivative_of_dynamic_sizes_is_refused() -> None:
    def jacobian(self: Function, x: Tensor) -> Any:
        return torch.func.jacrev(lambda y: y.sin().sum(1))(x)

    with pytest.raises(NotSupported, match="kept a tensor without numbers") as caught:
        penlight.compile(Function(jacobian), (torch.randn(3, 4),), dynamic_shapes=({0: Dim("rows", max=9)},))
    assert "write down the derivative" in str(caught.value.do)


def forward_jacobian(self: Function, x: Tensor) -> Any:
    return torch.func.jacfwd(torch.sin)(x)


def second_derivatives(self: Function, x: Tensor) -> Any:
    return torch.func.hessian(lambda x: (x**3).sum())(x)


def slope_of_each_row(self: Function, x: Tensor) -> Any:
    return torch.func.vmap(torch.func.grad(lambda row: (row**2).sum()))(x)


@pytest.mark.parametrize("function", [forward_jacobian, second_derivatives, slope_of_each_row])
def test_derivatives_that_export_refuses(function: Callable[..., Any]) -> None:
    with pytest.raises(ExportError) as caught:
        penlight.compile(Function(function), (torch.randn(2, 3),))
    assert (caught.value.do or "").startswith("write down the derivative")
    assert "test_function_transforms.py" in str(caught.value.where)


def inverted(self: Function, x: Tensor) -> Any:
    return torch.vmap(torch.linalg.inv)(x), torch.vmap(torch.linalg.cholesky)(x @ x.mT + torch.eye(3))


def solved(self: Function, x: Tensor) -> Any:
    return torch.vmap(lambda a: torch.linalg.inv(a) @ torch.linalg.solve(a, self.linear.bias))(x)


@pytest.mark.parametrize("function", [inverted, solved])
def test_factorisations_of_batches(function: Callable[..., Any]) -> None:
    """What torch checks behind each, by an effect, the kernel checks itself."""
    x = torch.randn(4, 3, 3) + 4 * torch.eye(3)
    for loaded in check(Function(function), (x,), (x.mT.contiguous(),)):
        with pytest.raises(RuntimeError, match="the matrix has no inverse"):
            loaded(torch.zeros(4, 3, 3))
