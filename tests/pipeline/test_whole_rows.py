"""Gathers and scatters whose index is one number for each row."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from fused import Calls, check, operators
from torch import Tensor
from torch.export import Dim

import penlight

X, INDEX = torch.randn(1, 7, 5), torch.tensor([3, 0, 6, 6, 2])
Y = torch.randn(1, 5, 5)

ROWS: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "gather": lambda x, i: x.gather(1, i.view(1, -1, 1).expand(1, -1, 5)),
    "gather from the end": lambda x, i: x[0].gather(-2, i[:, None].expand(-1, 5)),
    "gather of columns": lambda x, i: x.gather(2, i.clamp(max=4).expand(1, 7, 5)),
    "gather of a vector": lambda x, i: x[0, :, 0].gather(0, i),
    "scatter": lambda x, i: x.scatter_add(1, i.view(1, -1, 1).expand(1, -1, 5), Y),
    "scatter of rows": lambda x, i: x[0].scatter_add(0, i[:, None].expand(-1, 5), Y[0]),
    "scatter that reduces": lambda x, i: x[0].scatter_reduce(0, i[:, None].expand(-1, 5), Y[0], "sum"),
    "the sum alone": lambda x, i: x[0].scatter_reduce(
        0, i[:, None].expand(-1, 5), Y[0], "sum", include_self=False
    ),
    "the sum alone of nothing else": lambda x, i: torch.zeros(7, 5).scatter_reduce(
        0, i[:, None].expand(-1, 5), x[0, :5], "sum", include_self=False
    ),
    "the sum of zeros below 0": lambda x, i: torch.full((7, 5), -0.0).scatter_reduce(
        0, i[:, None].expand(-1, 5), x[0, :5] * -0.0, "sum", include_self=False
    ),
    **{
        f"the {how}, include_self={own}": lambda x, i, how=how, own=own: x.scatter_reduce(  # type: ignore[misc]
            1, i.view(1, -1, 1).expand(1, -1, 5), Y, how, include_self=own
        )
        for how in ("mean", "prod", "amax", "amin")
        for own in (True, False)
    },
}
OTHERS: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "places from the end": lambda x, i: torch.take_along_dim(x, i.view(1, -1, 1), 1),
    "part of each row": lambda x, i: x.gather(1, i.view(1, -1, 1).expand(1, -1, 4)),
    "an index for each": lambda x, i: x.gather(1, (i.view(1, -1, 1) + torch.arange(5)) % 7),
    "several batches": lambda x, i: x.expand(2, 7, 5).gather(
        1, torch.stack([i, i]).unsqueeze(-1).expand(-1, -1, 5)
    ),
    "more to add than places": lambda x, i: x.scatter_add(1, i[:3].view(1, -1, 1).expand(1, -1, 5), Y),
    "bfloat16, rounded once": lambda x, i: (
        x[0].bfloat16().scatter_reduce(0, i[:, None].expand(-1, 5), Y[0].bfloat16(), "mean")
    ),
}
MOVED = {"index_select", "index_add", "index_reduce"}


@pytest.mark.parametrize("name", ROWS)
def test_whole_rows_are_moved(name: str) -> None:
    found = operators(Calls(ROWS[name]), X, INDEX)
    assert MOVED.intersection(found), found
    assert "expand_copy" not in found
    check(Calls(ROWS[name]), X, INDEX)
    check(Calls(ROWS[name]), X, INDEX, target="portable")


@pytest.mark.parametrize("name", OTHERS)
def test_what_moves_no_whole_rows_stays(name: str) -> None:
    found = operators(Calls(OTHERS[name]), X, INDEX)
    assert not MOVED.intersection(found), found
    check(Calls(OTHERS[name]), X, INDEX)


def test_zeros_are_not_made_zero_again() -> None:
    assert "index_fill" in operators(Calls(ROWS["the sum alone"]), X, INDEX)
    assert "index_fill" in operators(Calls(ROWS["the sum of zeros below 0"]), X, INDEX)
    assert "index_fill" not in operators(Calls(ROWS["the sum alone of nothing else"]), X, INDEX)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_sums_of_16_bits_are_rounded_once(dtype: torch.dtype) -> None:
    index, ones = torch.zeros(3000, dtype=torch.int64), torch.ones(3000, 33, dtype=dtype)
    model = Calls(lambda x, i, y: (x.scatter_add(0, i[:, None].expand(-1, 33), y), x.index_add(0, i, y)))
    args = torch.zeros(2, 33, dtype=dtype), index, ones
    for made in penlight.load(penlight.compile(model, args).to_bytes())(*args):
        assert torch.equal(torch.as_tensor(made)[0], torch.full((33,), 3000, dtype=dtype))


def test_dynamic_numbers_of_rows() -> None:
    model = Calls(
        lambda x, i, y: (
            x.gather(0, i[:, None].expand(-1, 5)).cos() + x.scatter_add(0, i[:, None].expand(-1, 5), y).sum()
        )
    )
    args = X[0], INDEX, Y[0]
    nodes, edges = Dim("nodes", max=20), Dim("edges", max=30)
    sizes = {"args": ({0: nodes}, {0: edges}, {0: edges})}
    program = penlight.load(penlight.compile(model, args, dynamic_shapes=sizes).to_bytes())
    for count, index in ((2, [1, 0, 1, 1]), (20, [19, 3]), (9, [4])):
        x, i, y = torch.randn(count, 5), torch.tensor(index), torch.randn(len(index), 5)
        torch.testing.assert_close(program(x, i, y), model(x, i, y), rtol=1e-5, atol=1e-5)
    with pytest.raises(penlight.PenlightError, match="range"):
        program(X[0], torch.tensor([7]), Y[0, :1])
