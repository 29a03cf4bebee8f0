"""Results of constants that are folded because together they replace what they are made of."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from tests.pipeline.fused import check, operators
from torch import Tensor, nn

import penlight

ROWS, WIDTH = 96, 512  # 192 KB: each part is more than what is folded whatever it replaces


class Tables(nn.Module):
    """Sums over parts of tables, which are turned so that no part is only a view."""

    a: Tensor
    b: Tensor

    def __init__(self, parts: Callable[[Tensor, Tensor], tuple[Tensor, ...]]) -> None:
        super().__init__()
        self.parts = parts
        self.register_buffer("a", torch.randn(ROWS, WIDTH))
        self.register_buffer("b", torch.randn(ROWS, WIDTH))

    def forward(self, x: Tensor) -> tuple[Tensor, ...]:
        return tuple((x[: len(part)] * part).sum(-1) for part in self.parts(self.a, self.b))


@pytest.mark.parametrize(
    "parts, tables, folded",
    [
        (lambda a, b: (a[::2].flip(1), a[1::2].flip(1)), 1, True),
        (lambda a, b: tuple(a[i::3].flip(1) for i in range(3)), 1, True),
        # Of two tables each, neither of which is read otherwise.
        (lambda a, b: ((a[:48] + b[:48]).flip(1), (a[48:] * b[48:]).flip(1)), 2, True),
        # The second part is made of what the first one shares with a third.
        (lambda a, b: (a[:40].flip(1), (a[40:] * b[40:]).flip(1), b[:40].flip(1)), 2, True),
        # Parts that are more than the table; a table that something else reads whole.
        (lambda a, b: (a[:80].flip(1), a[16:].flip(1)), 1, False),
        (lambda a, b: (a[::2].flip(1), a[1::2].flip(1), a), 1, False),
    ],
    ids=["halves", "many", "two", "chain", "overlap", "kept"],
)
def test_parts_of_tables(
    parts: Callable[[Tensor, Tensor], tuple[Tensor, ...]], tables: int, folded: bool
) -> None:
    """The file has no more than the tables that are read."""
    model, x = Tables(parts).eval(), torch.randn(ROWS, WIDTH)
    assert ("flip" not in operators(model, x)) is folded
    assert len(penlight.compile(model, (x,)).to_bytes()) < tables * model.a.nbytes + 10_000
    check(model, x)


def test_phases_of_a_transposed_convolution_of_videos() -> None:
    """Its weights are cut by the stride in time, and packed when the program is made."""
    model = nn.ConvTranspose3d(24, 32, 3, 2, 1, 1).eval()
    x = torch.randn(1, 24, 3, 8, 8)
    assert not {"flip", "pack_convolution"} & {*operators(model, x)}
    check(model, x)
