"""Running sums and products of the optimized library, with every instruction set."""

from __future__ import annotations

import pytest
import torch
from run_op import overload_of, run_op

# Rows shorter than a vector, of every rest that one may leave, and of many; columns of a block and its rests.
SHAPES = [
    *[((5, count), 1) for count in (*range(1, 20), 31, 33, 1000)],
    *[((rows, 3), 1) for rows in (1, 7, 8, 9, 40)],
    *[((4, columns), 0) for columns in (1, 3, 5, 8, 17, 63, 64, 65, 140)],
    ((3, 7, 70), 1),
    ((2, 9, 5, 6), -3),
    ((6, 1, 7), 1),
    ((1000,), 0),
]


def check(name: str, x: torch.Tensor, dim: int) -> None:
    want = overload_of(name)(x, dim)
    (got,) = run_op(overload_of(name), [x, dim], {}, want, "optimized")
    torch.testing.assert_close(got, want, rtol=0, atol=0, equal_nan=True)


@pytest.mark.parametrize("shape, dim", SHAPES, ids=str)
def test_sums(isa: str, shape: tuple[int, ...], dim: int) -> None:
    """In the order of the elements, which large ones that cancel each other show."""
    x = torch.randn(shape)
    check("aten::cumsum", x, dim)
    check("aten::cumsum", torch.where(x > 0.5, 3e38, torch.where(x < -0.5, -3e38, x)), dim)
    flat = x.view(-1)
    flat[1::23], flat[5::31], flat[7::37] = torch.inf, -torch.inf, torch.nan
    check("aten::cumsum", x, dim)


@pytest.mark.parametrize("shape, dim", SHAPES, ids=str)
def test_products(isa: str, shape: tuple[int, ...], dim: int) -> None:
    """In the order of the elements: on their way, others are too large or too small."""
    x = torch.randn(shape)
    check("aten::cumprod", x, dim)
    check("aten::cumprod", torch.where(x > 0, 1e38, -1e-38), dim)
    flat = x.view(-1)
    flat[1::23], flat[5::31], flat[7::37] = torch.inf, torch.nan, 0
    check("aten::cumprod", x, dim)


@pytest.mark.parametrize("name", ["aten::cumsum", "aten::cumprod"])
@pytest.mark.parametrize("shape, dim", SHAPES, ids=str)
def test_integers_wrap_around(isa: str, shape: tuple[int, ...], dim: int, name: str) -> None:
    info = torch.iinfo(torch.int64)
    check(name, torch.randint(info.min, info.max, shape), dim)
    check(name, torch.randint(-3, 4, shape), dim)


@pytest.mark.parametrize("dim", [0, 1, 2])
def test_in_the_order_of_memory(isa: str, dim: int) -> None:
    x = torch.randn(3, 20, 9).round().permute(0, 2, 1)
    check("aten::cumsum", x, dim)
    check("aten::cumprod", x, dim)
