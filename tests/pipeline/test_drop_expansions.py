"""Elementwise operators broadcast by themselves what was expanded for them."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from tests.pipeline.fused import Calls, check, operators
from torch import Tensor
from torch.nn import functional

X, ROW, COLUMN = torch.randn(6, 40), torch.randn(40), torch.rand(6, 1) + 1
GO: dict[str, tuple[Callable[..., Tensor], tuple[Tensor, ...]]] = {
    "a norm": (functional.normalize, (X,)),
    "a row": (lambda x, row: x * row.expand(6, 40), (X, ROW)),
    "rows and columns": (lambda row, column: row.expand(6, 40) - column, (ROW, COLUMN)),
    "a condition": (lambda x, row: torch.where((row > 0).expand(6, 40), x, 2.0), (X, ROW)),
}
STAY: dict[str, tuple[Callable[..., Tensor], tuple[Tensor, ...]]] = {
    "what makes the size": (lambda row: row.expand(6, 40) * 2.0, (ROW,)),
    "both of two": (lambda row, column: row.expand(6, 40) / row.cos().expand(6, 40), (ROW, COLUMN)),
    "more dimensions": (lambda x: x.expand(3, 6, 40) * x, (X,)),
    "an operator between": (lambda x, row: x[:, None] + row.expand(6, 3, 40).cos(), (X, ROW)),
    "no elementwise operator": (lambda row: row.expand(6, 40).cumsum(0), (ROW,)),
}


@pytest.mark.parametrize("name", GO)
def test_goes(name: str) -> None:
    function, args = GO[name]
    assert "expand_copy" not in operators(Calls(function), *args)
    assert "expand_copy" in operators(Calls(function), *args, without=["drop_expansions"])
    check(Calls(function), *args)


@pytest.mark.parametrize("name", STAY)
def test_result_keeps_its_size(name: str) -> None:
    function, args = STAY[name]
    assert "expand_copy" in operators(Calls(function), *args)
    check(Calls(function), *args)


def test_double_precision_stays() -> None:
    x, row = X.double(), ROW.double()
    assert "expand_copy" in operators(Calls(GO["a row"][0]), x, row)
    check(Calls(GO["a row"][0]), x, row)
