"""A constant mask that hides later keys makes attention causal; any other stays a mask."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from tests.pipeline.fused import check
from torch import Tensor, nn
from torch.export import Dim
from torch.nn import functional

import penlight

ROWS = 9
SEEN = torch.ones(ROWS, ROWS, dtype=torch.bool).tril()
HIDDEN = torch.zeros(ROWS, ROWS).masked_fill(~SEEN, -math.inf)


class Masked(nn.Module):
    """Attention of x with itself, by torch's operator or written out."""

    mask: Tensor

    def __init__(self, mask: Tensor, *, written: bool = False) -> None:
        super().__init__()
        self.register_buffer("mask", mask)
        self.written = written

    def forward(self, x: Tensor) -> Tensor:
        if not self.written:
            return functional.scaled_dot_product_attention(x, x, x, self.mask)
        scores = x @ x.mT / 3
        hidden = self.mask.dtype is torch.bool
        scores = scores.masked_fill(~self.mask, -math.inf) if hidden else scores + self.mask
        return scores.softmax(-1) @ x


def is_causal(model: nn.Module, x: Tensor, dynamic_shapes: Any = None) -> bool:
    exported = torch.export.export(model, (x,), dynamic_shapes=dynamic_shapes)
    graph = penlight.to_edge(exported).methods["forward"].graph
    (node,) = [node for node in graph.nodes if "attention" in str(node.target)]
    return len(node.args) > 5 and node.args[5] is True and node.args[3] is None


@pytest.mark.parametrize("written", [False, True])
@pytest.mark.parametrize(
    "mask", [SEEN, HIDDEN, SEEN[None, None], HIDDEN[None]], ids=["conditions", "numbers", "batches", "heads"]
)
def test_causal(mask: Tensor, written: bool) -> None:
    model, x = Masked(mask, written=written), torch.randn(2, 3, ROWS, 8)
    assert is_causal(model, x)
    check(model, x)


OTHERS = {
    "all seen": torch.ones(ROWS, ROWS, dtype=torch.bool),
    "one more is hidden": SEEN & (torch.arange(ROWS) != 2),
    "later ones are seen": SEEN.mT,
    "a number that is not infinite": HIDDEN.clamp(min=-30.0),
    "a bias before": HIDDEN + torch.eye(ROWS),
    "others for each head": SEEN.expand(3, ROWS, ROWS).contiguous(),
}


@pytest.mark.parametrize("written", [False, True])
@pytest.mark.parametrize("name", OTHERS)
def test_others_stay(name: str, written: bool) -> None:
    model, x = Masked(OTHERS[name], written=written), torch.randn(2, 3, ROWS, 8)
    assert not is_causal(model, x)
    check(model, x)


def test_left_out() -> None:
    model, x = Masked(SEEN), torch.randn(1, 2, ROWS, 8)
    check(model, x, without=["use_causal_masks"])


class Made(nn.Module):
    """Attention of x with itself under a mask that is made for the number of rows there are."""

    def __init__(self, mask: Callable[[int], Tensor]) -> None:
        super().__init__()
        self.mask = mask

    def forward(self, x: Tensor) -> Tensor:
        return functional.scaled_dot_product_attention(x, x, x, self.mask(x.shape[-2]))


def places(n: int) -> tuple[Tensor, Tensor]:
    return torch.arange(n)[:, None], torch.arange(n)[None, :]


LARGER = torch.ones(1, 1, 51, 51).tril()
MADE: dict[str, tuple[bool, Callable[[int], Tensor]]] = {
    "lower triangle": (True, lambda n: torch.ones(n, n, dtype=torch.bool).tril()),
    "upper triangle": (True, lambda n: torch.full((n, n), -math.inf).triu(1)),
    "of nn.Transformer": (True, nn.Transformer.generate_square_subsequent_mask),
    "places": (True, lambda n: places(n)[1] <= places(n)[0]),
    "of several heads": (True, lambda n: (places(n)[0] >= places(n)[1]).expand(1, 3, n, n)),
    "a buffer's part": (True, lambda n: LARGER[:, :, :n, :n] != 0),
    "numbers": (True, lambda n: torch.where(places(n)[1] > places(n)[0], -math.inf, 0.0)),
    "turned conditions": (True, lambda n: (places(n)[0] <= places(n)[1]).mT),
    "one less": (False, lambda n: torch.ones(n, n, dtype=torch.bool).tril(1)),
    "one more": (False, lambda n: places(n)[1] < places(n)[0] + 2),
    "upper seen": (False, lambda n: torch.ones(n, n, dtype=torch.bool).triu()),
    "window": (False, lambda n: (places(n)[1] <= places(n)[0]) & (places(n)[1] > places(n)[0] - 4)),
    "finite": (False, lambda n: torch.full((n, n), -30.0).triu(1)),
    "the first row for all": (False, lambda n: (places(n)[1] <= places(n)[0])[:1].expand(n, n)),
    "a column for all": (
        False,
        lambda n: torch.ones(n, 1).tril().bool() & torch.ones(n, n, dtype=torch.bool),
    ),
    "turned": (False, lambda n: (places(n)[1] <= places(n)[0]).mT),
}


@pytest.mark.parametrize("name", MADE)
def test_made_for_dynamic_sizes(name: str) -> None:
    causal, mask = MADE[name]
    model, x = Made(mask), torch.randn(2, 3, ROWS, 8)
    shapes = ({2: Dim("rows", min=2, max=50)},)
    assert is_causal(model, x, shapes) == causal
    program = penlight.load(penlight.compile(model, (x,), dynamic_shapes=shapes).to_bytes())
    for rows in (ROWS, 2, 17, 50):
        other = torch.randn(2, 3, rows, 8)
        torch.testing.assert_close(torch.as_tensor(program(other)), model(other), rtol=1e-5, atol=1e-5)
