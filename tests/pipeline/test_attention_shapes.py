"""Attention whose queries, keys and values have unlike leading sizes."""

from __future__ import annotations

import pytest
import torch
from tests.pipeline.running import check
from torch import Tensor, nn
from torch.export import Dim
from torch.nn import functional

SHAPES = {
    "keys have batches": ((1, 4, 3, 8), (4, 4, 6, 8), (4, 4, 6, 8)),
    "queries and values have one": ((4, 1, 3, 8), (4, 4, 6, 8), (1, 4, 6, 8)),
    "queries have fewer dimensions": ((4, 3, 8), (2, 4, 6, 8), (2, 4, 6, 8)),
    "queries have no heads": ((3, 8), (4, 6, 8), (4, 6, 8)),
    "one head of keys": ((2, 4, 3, 8), (2, 1, 6, 8), (2, 1, 6, 8)),
    "values are wider": ((2, 4, 3, 8), (1, 4, 6, 8), (2, 4, 6, 16)),
    "nothing but rows": ((3, 8), (6, 8), (6, 8)),
}


class Attention(nn.Module):
    def __init__(self, causal: bool = False, grouped: bool = False) -> None:
        super().__init__()
        self.causal, self.grouped = causal, grouped

    def forward(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return 2 * functional.scaled_dot_product_attention(
            q, k, v, is_causal=self.causal, enable_gqa=self.grouped
        )


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("name", SHAPES)
def test_leading_sizes_are_broadcast(name: str, causal: bool) -> None:
    check(Attention(causal), tuple(map(torch.randn, SHAPES[name])))


def test_heads_in_groups() -> None:
    for batch in (1, 2):
        check(
            Attention(grouped=True),
            tuple(map(torch.randn, ((2, 6, 3, 8), (batch, 2, 5, 8), (batch, 2, 5, 8)))),
        )


def test_dynamic_sizes() -> None:
    sizes = SHAPES["queries have fewer dimensions"]
    rows = {1: Dim.AUTO(max=16)}, {2: Dim.AUTO(max=16)}, {2: Dim.AUTO(max=16)}
    calls = [
        tuple(map(torch.randn, ((4, n, 8), (2, 4, m, 8), (2, 4, m, 8)))) for n, m in ((3, 6), (1, 16), (9, 2))
    ]
    assert sizes[0] == calls[0][0].shape
    check(Attention(), *calls, dynamic_shapes=rows)
