"""Indices and probabilities that ATen refuses are errors in the run, whatever an operator is made of."""

from __future__ import annotations

import pytest
import torch
from fused import Calls
from torch import Tensor
from torch.export import Dim
from torch.nn import functional

import penlight


def _rows(index: Tensor) -> Tensor:
    return index.unsqueeze(1).expand(2, 5)


REFUSE_NEGATIVE = {
    "index_add": lambda x, index, values: x.index_add(0, index, values, alpha=2),
    "index_copy": lambda x, index, values: x.index_copy(0, index, values),
    "index_select": lambda x, index, values: x.index_select(0, index),
    "index_reduce": lambda x, index, values: x.index_reduce(0, index, values, "amax"),
    "gather": lambda x, index, values: x.gather(0, _rows(index)),
    "scatter": lambda x, index, values: x.scatter(0, _rows(index), values),
    "scatter a number": lambda x, index, values: x.scatter(0, _rows(index), 1.5),
    "scatter_add": lambda x, index, values: x.scatter_add(0, _rows(index), values),
    "scatter_reduce": lambda x, index, values: x.scatter_reduce(0, _rows(index), values, "amax"),
    "one_hot": lambda x, index, values: functional.one_hot(index, 4),
    "embedding": lambda x, index, values: functional.embedding(index, x),
    "max_unpool": lambda x, index, values: functional.max_unpool1d(values[:1, :2], index.unsqueeze(0), 2, 2),
}
COUNT_FROM_THE_END = {
    "index_fill": lambda x, index, values: x.index_fill(0, index, 1.5),
    "index_put": lambda x, index, values: x.index_put((index,), values),
    "take": lambda x, index, values: x.take(index),
}


@pytest.mark.parametrize("target", ["cpu", "portable"])
@pytest.mark.parametrize("rows", [None, Dim("rows", min=4, max=9)])
@pytest.mark.parametrize("name", [*REFUSE_NEGATIVE, *COUNT_FROM_THE_END])
def test_indices(name: str, rows: Dim | None, target: str) -> None:
    function = (REFUSE_NEGATIVE | COUNT_FROM_THE_END)[name]
    x, values = torch.randn(4, 5), torch.randn(2, 5)
    shapes = None if rows is None else (({0: rows}, None, None),)
    given = (x, torch.tensor([1, 0]), values)
    program = penlight.load(penlight.compile(Calls(function), given, target=target, dynamic_shapes=shapes))
    for index in ((1, 0), (3, 2), (-1, 0), (2, -4), (0, 99), (-99, 1)):
        now = (x, torch.tensor(index), values)
        if max(index) > 4 or min(index) < (0 if name in REFUSE_NEGATIVE else -4):
            with pytest.raises((RuntimeError, IndexError)):
                function(*now)
            with pytest.raises(penlight.PenlightError, match="out of range"):
                program(*now)
        else:
            torch.testing.assert_close(torch.as_tensor(program(*now)), function(*now))


@pytest.mark.parametrize("target", ["cpu", "portable"])
@pytest.mark.parametrize("rows", [None, Dim("rows", max=9)])
def test_probabilities(rows: Dim | None, target: str) -> None:
    shapes = None if rows is None else (({0: rows},),)
    example = (torch.rand(4, 5),)
    program = penlight.load(
        penlight.compile(Calls(torch.bernoulli), example, target=target, dynamic_shapes=shapes)
    )
    certain = torch.randint(0, 2, (4, 5)).float()
    torch.testing.assert_close(torch.as_tensor(program(certain)), certain)
    assert set(torch.as_tensor(program(torch.full((4, 5), 0.5))).unique().tolist()) <= {0.0, 1.0}
    for wrong in (2.0, -0.1, torch.nan):
        certain[2, 3] = wrong
        with pytest.raises(penlight.PenlightError):
            program(certain)


def test_a_single_probability() -> None:
    program = penlight.load(penlight.compile(Calls(torch.bernoulli), (torch.tensor(0.5),), target="portable"))
    found = torch.as_tensor(program(torch.tensor(1.0)))
    assert found.shape == () and found == 1
