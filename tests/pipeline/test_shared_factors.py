"""Batches of matrices times one matrix are one product."""

from __future__ import annotations

import pytest
import torch
from tests.pipeline.fused import Calls, check, operators
from torch import Tensor
from torch.export import Dim

import penlight

SHARED = {
    "unsqueezed": (lambda a, b: a @ b.unsqueeze(1), (2, 3, 4, 5), (1, 5, 6)),
    "of more dimensions": (lambda a, b: a @ b, (2, 3, 4, 5), (1, 1, 5, 6)),
    "expanded by hand": (lambda a, b: torch.bmm(a, b.expand(7, 5, 6)), (7, 4, 5), (1, 5, 6)),
    "a row": (lambda a, b: torch.bmm(a, b.expand(7, 5, 6)), (7, 1, 5), (1, 5, 6)),
}
OWN = {
    "for each image": (lambda a, b: a @ b.unsqueeze(1), (2, 3, 4, 5), (2, 5, 6)),
    "expanded rows": (lambda a, b: torch.bmm(a, b.expand(7, 5, 6)), (7, 4, 5), (1, 1, 6)),
    "its own": (torch.bmm, (7, 4, 5), (7, 5, 6)),
}


@pytest.mark.parametrize("name", SHARED)
def test_one_product(name: str) -> None:
    function, *sizes = SHARED[name]
    args = [torch.randn(size) for size in sizes]
    found = operators(Calls(function), *args)
    assert "mm" in found and "bmm" not in found and "expand_copy" not in found, found
    check(Calls(function), *args)
    assert "bmm" in operators(Calls(function), *args, without=["share_factors"])


@pytest.mark.parametrize("name", OWN)
def test_factors_of_their_own(name: str) -> None:
    function, *sizes = OWN[name]
    args = [torch.randn(size) for size in sizes]
    assert "bmm" in operators(Calls(function), *args)
    check(Calls(function), *args)


def test_a_constant_is_packed() -> None:
    weight = torch.randn(1, 1, 64, 96)
    model, x = Calls(lambda x: x @ weight), torch.randn(2, 3, 4, 64)
    assert "linear_packed" in operators(model, x)
    check(model, x)


def test_empty_and_dynamic() -> None:
    def function(a: Tensor, b: Tensor) -> Tensor:
        return a @ b.unsqueeze(1)

    check(Calls(function), torch.randn(2, 3, 0, 5), torch.randn(1, 5, 6))
    args, shapes = (torch.randn(2, 3, 4, 5), torch.randn(1, 5, 6)), (({0: Dim("n", min=2, max=9)}, None),)
    program = penlight.load(penlight.compile(Calls(function), args, dynamic_shapes=shapes).to_bytes())
    a = torch.randn(7, 3, 4, 5)
    torch.testing.assert_close(program(a, args[1]), function(a, args[1]), rtol=1e-5, atol=1e-5)
