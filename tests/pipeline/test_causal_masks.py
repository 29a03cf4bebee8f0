"""A constant mask that hides later keys makes attention causal; any other stays a mask."""

from __future__ import annotations

import math

import pytest
import torch
from tests.pipeline.fused import check
from torch import Tensor, nn
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


def is_causal(model: nn.Module, x: Tensor) -> bool:
    graph = penlight.to_edge(torch.export.export(model, (x,))).methods["forward"].graph
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
