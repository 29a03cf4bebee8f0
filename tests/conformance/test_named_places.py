"""Indices that are out of range, wherever they are: each operator says which, of which dimension."""

from __future__ import annotations

import pytest
import torch
from run_op import overload_of, run_op

import penlight


@pytest.mark.parametrize("dtype", [torch.int64, torch.int32])
@pytest.mark.parametrize("shape, dim", [((3, 200), 1), ((200, 3), 0), ((5, 1), 0), ((4, 5, 1), 1)])
@pytest.mark.parametrize("bad", [-1, 200, 2**31 - 1])
def test_gather_and_scatter_name_the_index(
    dtype: torch.dtype, shape: tuple[int, ...], dim: int, bad: int
) -> None:
    size = shape[dim]
    x = torch.randn(shape)
    for at in (0, x.numel() // 2, x.numel() - 1):
        index = torch.randint(0, size, shape)
        index.view(-1)[at] = bad
        said = f"index {bad} is out of range for dimension {dim} with size {size}"
        for name, rest in (
            ("aten::gather", []),
            ("aten::scatter.src", [x]),
            ("aten::scatter.value", [2]),
            ("aten::scatter_add", [x]),
            ("aten::scatter_reduce.two", [x, "mean"]),
        ):
            with pytest.raises(penlight.PenlightError, match=said):
                run_op(overload_of(name), [x, dim, index.to(dtype), *rest], {}, x)


def test_an_index_of_64_bits_is_not_cut() -> None:
    index = torch.tensor([0, 2**32 + 1])
    with pytest.raises(penlight.PenlightError, match="index 4294967297 is out of range"):
        run_op(overload_of("aten::gather"), [torch.randn(2), 0, index], {}, torch.randn(2))
