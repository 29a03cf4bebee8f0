"""Views that move nothing hide nothing: they become plain ones, and fusions look past them."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from tests.pipeline.fused import Calls, check, operators
from torch import Tensor, nn
from torch.export import Dim

import penlight

MOVES_NOTHING: dict[str, tuple[Callable[[Tensor], Tensor], tuple[int, ...]]] = {
    "transpose of one row": (lambda x: x.transpose(0, 1), (7, 1, 5)),
    "ones to the end": (lambda x: x.permute(1, 3, 0, 2), (1, 4, 1, 3)),
    "there and back": (lambda x: x.view(2, 3, 4, 5).transpose(1, 2).transpose(2, 1).flatten(1), (2, 60)),
    "the only row": (lambda x: x[:, 0], (6, 1, 4)),
    "the only part": (lambda x: x.split(3)[0], (3, 4)),
    "heads of one row": (lambda x: x.view(1, 1, 4, 8).transpose(1, 2), (1, 32)),
    "expanded to what it is": (lambda x: x[:, None].expand(4, 1, 5), (4, 5)),
}


@pytest.mark.parametrize("name", MOVES_NOTHING)
def test_becomes_a_plain_view(name: str) -> None:
    function, sizes = MOVES_NOTHING[name]
    model, x = Calls(lambda x: function(x.neg()).contiguous().relu()), torch.randn(sizes)
    assert set(operators(model, x)) <= {"neg", "relu", "view_copy", "unsqueeze_copy", "elementwise"}
    check(model, x)


MOVES: dict[str, tuple[Callable[[Tensor], Tensor], tuple[int, ...]]] = {
    "transpose": (lambda x: x.transpose(0, 1), (2, 3)),
    "first rows": (lambda x: x[:2], (4, 3)),
    "last row": (lambda x: x[-1:], (4, 3)),
    "rows of a transpose": (lambda x: x.transpose(0, 1).reshape(-1), (2, 3)),
    "stretched": (lambda x: x.expand(3, 4), (1, 4)),
    "nothing of it": (lambda x: x[1:1].transpose(0, 1), (4, 3)),
}


@pytest.mark.parametrize("name", MOVES)
def test_what_moves_stays(name: str) -> None:
    function, sizes = MOVES[name]
    check(Calls(lambda x: function(x.neg()).contiguous().relu()), torch.randn(sizes))


@pytest.mark.parametrize("dims", [(0,), (1,), (0, 1)])
def test_dynamic_sizes(dims: tuple[int, ...]) -> None:
    model, x = Calls(lambda x: (x.neg()[:, :, None].permute(2, 0, 3, 1)[0] * 2).relu()), torch.randn(4, 6, 5)
    shapes = ({dim: Dim(f"d{dim}", min=1, max=8) for dim in dims},)
    program = penlight.load(penlight.compile(model, (x,), dynamic_shapes={"args": shapes}).to_bytes())
    for sizes in ((4, 6, 5), (1 if 0 in dims else 4, 1 if 1 in dims else 6, 5)):
        x = torch.randn(sizes)
        torch.testing.assert_close(program(x), model(x))


class Block(nn.Module):
    """A residual block over [rows, batch], as torch's own attention has it."""

    def __init__(self, around: Callable[[Tensor], Tensor], *, first: bool = True) -> None:
        super().__init__()
        self.layer, self.around, self.first = nn.Linear(12, 12), around, first

    def forward(self, x: Tensor) -> Tensor:
        y = self.around(self.layer(x.transpose(0, 1)))
        return (y + x if self.first else x + y).relu()


@pytest.mark.parametrize("first", [True, False])
@pytest.mark.parametrize("around", [lambda y: y.transpose(0, 1), lambda y: y.reshape(1, 9, 12)])
def test_layer_adds_behind_a_view(around: Callable[[Tensor], Tensor], first: bool) -> None:
    model, x = Block(around, first=first), torch.randn(1, 9, 12)
    found = operators(model, x)
    assert "add" not in found and "relu" not in found and "permute_copy" not in found
    check(model, x)
    x[0, 3, 2], x[0, 4, 1] = torch.nan, torch.inf
    check(model, x)


def test_layer_keeps_a_view_that_changes_its_rows() -> None:
    class Regrouped(Block):
        def forward(self, x: Tensor) -> Tensor:
            return self.layer(x).view(1, 18, 6) + x.view(1, 18, 6)

    model, x = Regrouped(lambda y: y), torch.randn(1, 9, 12)
    assert "add" in operators(model, x)
    check(model, x)


def test_a_view_that_is_read_elsewhere_stays() -> None:
    class Twice(Block):
        def forward(self, x: Tensor) -> Tensor:
            y = self.layer(x)
            return (y.view(9, 12) + x[0]) * y[0].sum()

    check(Twice(lambda y: y), torch.randn(1, 9, 12))


def test_left_out() -> None:
    model, x = Block(lambda y: y.transpose(0, 1)), torch.randn(1, 9, 12)
    assert "permute_copy" in operators(model, x, without=["simplify_views"])
    check(model, x, without=["simplify_views"])
