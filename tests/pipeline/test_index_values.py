"""What is known of a tensor from its indices alone is what eager computes, for other sizes too."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch
from tests.pipeline.fused import Calls
from torch import Tensor, nn
from torch.export import Dim

import penlight
from penlight.passes.bands import Known, Line
from penlight.passes.constants import Constants
from penlight.passes.index_values import IndexValues

SIZE = Dim("n", min=2, max=40)
BUFFER = torch.ones(41, 41).tril()
PLACES = torch.arange(41)[None] * 3 + 2


def column(n: int) -> Tensor:
    return torch.arange(n)[:, None]


def row(n: int) -> Tensor:
    return torch.arange(n)[None, :]


def in_one_piece(n: int) -> Tensor:
    """As transformers asks whether positions follow each other."""
    places = torch.arange(n)[None]
    steps = torch.diff(places, prepend=places[:, :1] - 1, dim=-1)
    sequence = (steps != 1).cumsum(-1)
    first = torch.zeros(1, dtype=torch.int64)[:, None, None, None]
    rows, columns = places[:, None, :, None], places[:, None, None, :]
    seen = rows.new_ones((), dtype=torch.bool) & (places[first, columns] <= places[first, rows])
    return seen & (sequence[first, columns] == sequence[first, rows])


KNOWN: dict[str, Callable[[int], Tensor]] = {
    "line": lambda n: torch.arange(n) * 3 - 2,
    "line of dimensions": lambda n: (column(n) * 2 - row(n) + 7).unsqueeze(0),
    "line from a number on": lambda n: torch.arange(4, n + 4),
    "line with steps": lambda n: torch.arange(0, 3 * n, 3) + 1,
    "line of a buffer": lambda n: PLACES[:, :n] + 1,
    "part of a line": lambda n: torch.arange(n + 3)[3:] - 5,
    "expanded": lambda n: row(n).expand(n, n) + column(n).expand(n, n) * 5,
    "turned": lambda n: (column(n) + row(n) * 4).mT,
    "joined": lambda n: torch.cat([torch.tensor([-1]), torch.arange(n)]),
    "looked up": lambda n: (torch.arange(2 * n) * 3)[torch.arange(n) + 1],
    "less or equal": lambda n: row(n) <= column(n),
    "less": lambda n: row(n) < column(n),
    "equal": lambda n: row(n) + 1 == column(n),
    "unequal": lambda n: row(n) != column(n) - 2,
    "halves": lambda n: 2 * row(n) >= 2 * column(n) + 3,
    "negative": lambda n: column(n) * -3 + row(n) * 3 > 4,
    "window": lambda n: (row(n) <= column(n)) & (row(n) > column(n) - 3),
    "either": lambda n: (row(n) > column(n)) | ~(row(n) >= column(n) - 1),
    "turned bands": lambda n: (row(n) <= column(n) + 1).mT & (row(n) <= column(n) + 2),
    "lower": lambda n: torch.ones(n, n, dtype=torch.bool).tril(1),
    "upper": lambda n: torch.full((n, n), -math.inf).triu(2),
    "upper and lower": lambda n: torch.full((2, n, n), 4).triu(-1).tril(2),
    "where": lambda n: torch.where(row(n) <= column(n), 0.0, -math.inf),
    "filled": lambda n: torch.zeros(n, n).masked_fill(row(n) > column(n) + 1, -5.0) * 2,
    "part of a buffer": lambda n: BUFFER[:n, :n] == 0,
    "later part of a buffer": lambda n: BUFFER[1 : n + 1, :n][None],
    "one piece": in_one_piece,
    "number": lambda n: torch.zeros(n, n) + 3,
    "number of another type": lambda n: torch.full((n,), 3.7, dtype=torch.int64),
}
UNKNOWN: dict[str, Callable[[int], Tensor]] = {
    "counted from the end": lambda n: torch.arange(n) - n,
    "backwards": lambda n: torch.arange(n).flip(0),
    "both grow": lambda n: row(n) + column(n) > 3,
    "rounded": lambda n: torch.arange(n) // 2,
    "fractions": lambda n: torch.arange(n) * 0.5,
    "short integers": lambda n: torch.arange(n).to(torch.uint8) * 100,
    "short integers from the start": lambda n: torch.arange(n, dtype=torch.int8) * 5,
    "integers of 32 bits": lambda n: torch.arange(n, dtype=torch.int32) * (1 << 30),
    "a column of a triangle": lambda n: torch.ones(n, 1).tril().bool() & torch.ones(n, n).bool(),
    "a row of bands": lambda n: (row(n) <= column(n))[:1] | torch.zeros(n, n).bool(),
    "a gap": lambda n: torch.cat([torch.tensor([-2]), torch.arange(n)]),
    "looked up from the end": lambda n: torch.arange(n)[torch.arange(n) - 1],
    "some columns": lambda n: (row(n) <= column(n)) & (row(n) != 2),
    "no diagonals": lambda n: torch.arange(41 * 41).view(41, 41)[:n, :n],
}


def known_of(function: Callable[[int], Tensor]) -> Known | None:
    return known_of_model(Calls(lambda x: (function(x.shape[0]), x + 1)))


def known_of_model(model: nn.Module) -> Known | None:
    edge = penlight.to_edge(
        penlight.export(model, (torch.ones(6),), dynamic_shapes=(({0: SIZE},),)), without=["fuse_elementwise"]
    )
    method = edge.methods["forward"]
    output = next(node for node in method.graph.nodes if node.op == "output")
    return IndexValues(Constants(method.graph, method, edge.tensors, None)).of(output.args[0][0])


def computed(known: Known, like: Tensor) -> Tensor:
    places = torch.meshgrid(*map(torch.arange, like.shape), indexing="ij")
    if isinstance(known, Line):
        return known.start + sum(
            (factor * place for factor, place in zip(known.factors, places, strict=True)),
            torch.zeros_like(like),
        )
    distances = places[known.dims[0]] - places[known.dims[1]]
    return torch.tensor([known.at(int(d)) for d in distances.flatten()], dtype=like.dtype).view(like.shape)


@pytest.mark.parametrize("name", KNOWN)
def test_known(name: str) -> None:
    known = known_of(KNOWN[name])
    assert known is not None
    for n in (2, 3, 7, 40):
        want = KNOWN[name](n)
        assert torch.equal(computed(known, want), want)


@pytest.mark.parametrize("name", UNKNOWN)
def test_unknown(name: str) -> None:
    assert known_of(UNKNOWN[name]) is None


def test_of_inputs_nothing_is_known() -> None:
    def long(x: Tensor) -> Tensor:
        for _ in range(500):
            x = (x + 1).sin()
        return x

    assert known_of_model(Calls(lambda x: (long(x), x + 1))) is None
