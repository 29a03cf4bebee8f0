"""The greatest and least few of rows, with every instruction set, as the portable kernel has them."""

from __future__ import annotations

import math

import pytest
import torch
from run_op import run_op

TOPK = torch.ops.aten.topk.default

pytestmark = pytest.mark.usefixtures("isa")


def rows(kind: str, count: int, length: int) -> torch.Tensor:
    x = torch.randn(count, length)
    if kind == "ties":
        x = x.round()
    elif kind == "zeros of both signs":
        x = torch.zeros(count, length) * x.sign()
    elif kind == "rising":
        x = torch.arange(float(count * length)).reshape(count, length)
    elif kind == "falling":
        x = -torch.arange(float(count * length)).reshape(count, length)
    elif kind == "special":
        x.view(-1)[::5] = torch.tensor([torch.nan, torch.inf, -torch.inf, 1e-42, -torch.nan]).repeat(
            x.numel()
        )[: x.view(-1)[::5].numel()]
    return x


@pytest.mark.parametrize("largest", [True, False])
@pytest.mark.parametrize("kind", ["normal", "ties", "zeros of both signs", "rising", "falling", "special"])
@pytest.mark.parametrize(
    "count, length, k",
    [(3, 1, 1), (5, 7, 3), (2, 16, 16), (4, 33, 1), (2, 100, 64), (3, 130, 5), (2, 1700, 90), (1, 9000, 500)],
)
def test_topk(count: int, length: int, k: int, kind: str, largest: bool) -> None:
    x = rows(kind, count, length)
    args = [x, k, -1, largest, True]
    want = TOPK(*args)
    values, indices = run_op(TOPK, args, {}, want, "optimized")
    expected, places = run_op(TOPK, args, {}, want, "portable")
    torch.testing.assert_close(values, expected, rtol=0, atol=0, equal_nan=True)
    assert torch.equal(indices, places), "among equals the first comes first"
    torch.testing.assert_close(values, want[0], rtol=0, atol=0, equal_nan=True)


@pytest.mark.parametrize("largest", [True, False])
@pytest.mark.parametrize("kind", ["normal", "ties", "special"])
@pytest.mark.parametrize(
    "shape, k, dim",
    [((6, 5), 2, 0), ((3, 40, 17), 5, 1), ((2, 9, 1), 4, -2), ((2, 5000, 20), 90, 1), ((70000, 3), 2, 0),
     ((3, 4, 5, 6), 3, 1), ((7, 1, 33), 1, 1)],
    ids=str,
)  # fmt: skip
def test_other_dimensions(shape: tuple[int, ...], k: int, dim: int, kind: str, largest: bool) -> None:
    x = rows(kind, 1, math.prod(shape)).reshape(shape)
    args = [x, k, dim, largest, True]
    want = TOPK(*args)
    values, indices = run_op(TOPK, args, {}, want, "optimized")
    expected, places = run_op(TOPK, args, {}, want, "portable")
    torch.testing.assert_close(values, expected, rtol=0, atol=0, equal_nan=True)
    torch.testing.assert_close(values, want[0], rtol=0, atol=0, equal_nan=True)
    assert torch.equal(indices, places)


@pytest.mark.parametrize("shape, k, dim", [((4, 600), 500, 1), ((600, 4), 500, 0)], ids=str)
def test_others_are_portable(shape: tuple[int, ...], k: int, dim: int) -> None:
    x = torch.randn(shape)
    want = TOPK(x, k, dim)
    values, indices = run_op(TOPK, [x, k, dim], {}, want)
    assert torch.equal(values, want[0]) and torch.equal(indices, want[1])


def test_rows_of_several_dimensions() -> None:
    x = torch.randn(2, 3, 4, 40)
    want = TOPK(x, 3, 3)
    values, indices = run_op(TOPK, [x, 3, 3], {}, want, "optimized")
    assert torch.equal(values, want[0]) and torch.equal(indices, want[1])
