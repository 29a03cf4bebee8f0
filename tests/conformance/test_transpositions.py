"""Transpositions of few and of many rows: each number of rows has loops of its own."""

from __future__ import annotations

import pytest
import torch
from run_op import overload_of, run_op

PERMUTE = overload_of("aten::permute_copy")


@pytest.mark.parametrize("rows", [1, 2, 3, 4, 5, 8, 13])
@pytest.mark.parametrize("dtype", [torch.uint8, torch.int16, torch.float32, torch.float64, torch.complex128])
def test_rows_become_columns(dtype: torch.dtype, rows: int) -> None:
    for columns in (1, 3, 4, 7, 64, 65, 130):
        x = torch.randint(0, 200, (3, rows, columns)).to(dtype)
        want = x.permute(0, 2, 1).contiguous()
        (got,) = run_op(PERMUTE, [x, [0, 2, 1]], {}, want)
        assert torch.equal(got, want), f"{rows} rows of {columns}"
