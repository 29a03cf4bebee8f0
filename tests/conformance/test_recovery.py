"""Input that an operator cannot take: an error, and the same method answers good input after it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.export import Dim
from torch.utils import _pytree as pytree

import penlight
from penlight.errors import PenlightError

aten = torch.ops.aten
X = torch.arange(12.0).reshape(3, 4)
INTS = torch.tensor([7, -7, 9])
LARGEST = torch.iinfo(torch.int64).max
SMALLEST = torch.iinfo(torch.int64).min


def places(*values: int) -> torch.Tensor:
    return torch.tensor(values)


class Call(torch.nn.Module):
    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, *args: torch.Tensor) -> Any:
        return self.function(*args)


# What is called, good arguments, bad ones, and what the message says.
Row = tuple[str, Callable[..., Any], tuple[torch.Tensor, ...], tuple[torch.Tensor, ...], str]
INDICES: list[tuple[str, Callable[..., Any]]] = [
    ("index_select", lambda i: X.index_select(0, i)),
    ("index", lambda i: X[i]),
    ("index of two", lambda i: X[i, i]),
    ("take", lambda i: torch.take(X[:, 0].contiguous(), i)),
    ("gather", lambda i: X.gather(0, i[:, None])),
    ("scatter", lambda i: X.scatter(0, i[:, None], 9.0)),
    ("scatter_add", lambda i: X.scatter_add(0, i[:, None], torch.ones(2, 1))),
    ("scatter_reduce", lambda i: X.scatter_reduce(0, i[:, None], torch.ones(2, 1), "amax")),
    ("index_put", lambda i: X.index_put((i,), torch.ones(4))),
    ("index_put adding", lambda i: X.index_put((i,), torch.ones(4), True)),
    ("index_add", lambda i: X.index_add(0, i, torch.ones(2, 4))),
    ("index_copy", lambda i: X.index_copy(0, i, torch.ones(2, 4))),
    ("index_fill", lambda i: X.index_fill(0, i, 5.0)),
    ("index_reduce", lambda i: X.index_reduce(0, i, torch.ones(2, 4), "amin")),
    ("put", lambda i: aten.put(X[:, 0].contiguous(), i, torch.ones(2))),
    ("embedding", lambda i: torch.nn.functional.embedding(i, X)),
    ("embedding_bag", lambda i: torch.nn.functional.embedding_bag(i[None], X)),
    ("nll_loss", lambda i: torch.nn.functional.nll_loss(X[:2, :3], i)),
]
ROWS: list[Row] = [
    *[
        (
            f"{name} of {bad}",
            function,
            (places(0, 2),),
            (places(1, bad),),
            "out of range|outside|index|indices",
        )
        for name, function in INDICES
        for bad in (3, -4, LARGEST, SMALLEST)
    ],
    *[
        (name, function, (INTS, places(2, 3, 4)), (INTS, places(2, 0, 4)), "zero")
        for name, function in (
            ("floor_divide", torch.floor_divide),
            ("remainder", torch.remainder),
            ("fmod", torch.fmod),
            ("div to zero", lambda a, b: torch.div(a, b, rounding_mode="trunc")),
            ("div to the floor", lambda a, b: torch.div(a, b, rounding_mode="floor")),
        )
    ],
    ("inverse", torch.linalg.inv, (torch.eye(3) * 2,), (torch.ones(3, 3),), "no inverse"),
    ("solve", torch.linalg.solve, (torch.eye(3) * 2, X[:, 0]), (torch.zeros(3, 3), X[:, 0]), "no inverse"),
    ("cholesky", torch.linalg.cholesky, (torch.eye(3),), (-torch.eye(3),), "positive-definite"),
    ("eigh", lambda a: torch.linalg.eigvalsh(a), (torch.eye(3),), (torch.eye(3) * float("nan"),), "finite"),
]


def agree(got: Any, want: Any) -> None:
    for have, expected in zip(pytree.tree_leaves(got), pytree.tree_leaves(want), strict=True):
        torch.testing.assert_close(torch.as_tensor(have), torch.as_tensor(expected))


@pytest.mark.parametrize("row", [pytest.param(row[1:], id=row[0]) for row in ROWS])
def test_bad_values(row: tuple[Callable[..., Any], Any, Any, str]) -> None:
    function, good, bad, message = row
    model = penlight.load(penlight.compile(Call(function), good).to_bytes())
    want = function(*good)
    agree(model(*good), want)
    for _ in range(2):
        with pytest.raises(PenlightError, match=message):
            model(*bad)
        agree(model(*good), want)


ROWS_OF = Dim("rows", min=2, max=6)


class Kept(torch.nn.Module):
    def forward(self, x: torch.Tensor, keep: torch.Tensor) -> torch.Tensor:
        kept = x[keep]
        torch._check(kept.shape[0] <= 3)
        return kept * 2


def test_more_results_than_there_is_room_for() -> None:
    x = torch.arange(6.0)
    few = torch.tensor([True, False, True, False, False, True])
    model = penlight.load(penlight.compile(Kept(), (x, few)).to_bytes())
    for _ in range(2):
        agree(model(x, few), x[few] * 2)
        with pytest.raises(PenlightError):
            model(x, torch.ones(6, dtype=torch.bool))


@pytest.mark.parametrize(
    "function",
    [torch.add, torch.matmul, lambda a, b: torch.cat([a, b], 1), lambda a, b: torch.where(a > 1, a, b)],
)
def test_sizes_that_do_not_fit(function: Callable[..., Any]) -> None:
    shapes = ({0: ROWS_OF, 1: ROWS_OF}, {0: ROWS_OF, 1: ROWS_OF})
    square = torch.randn(4, 4), torch.randn(4, 4)
    exported = torch.export.export(Call(function), square, dynamic_shapes=(shapes,))
    model = penlight.load(penlight.compile(exported).to_bytes())
    for size in (2, 6, 3):
        good = torch.randn(size, size), torch.randn(size, size)
        agree(model(*good), function(*good))
        for bad in ((2, 2), (3, 3)), ((5, 4), (3, 4)), ((7, 7), (7, 7)):
            with pytest.raises(PenlightError):
                model(*(torch.randn(shape) for shape in bad))
        agree(model(*good), function(*good))
