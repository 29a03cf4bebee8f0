"""Sorting rows by places, by merging and, long ones, by digits: every dtype, stable, both ways."""

from __future__ import annotations

import pytest
import torch
from run_op import run_op

SORT = torch.ops.aten.sort.stable
DTYPES = (
    *(torch.float32, torch.float64, torch.float16, torch.bfloat16),
    *(torch.int8, torch.uint8, torch.int16, torch.int32, torch.int64, torch.bool),
)


def row(dtype: torch.dtype, length: int) -> torch.Tensor:
    if not dtype.is_floating_point:
        low, high = (0, 1) if dtype == torch.bool else (torch.iinfo(dtype).min, torch.iinfo(dtype).max)
        x = torch.randint(low, high, (2, length), dtype=torch.int64)
        x[:, ::7], x[0, 1], x[0, 2] = x[0, 0].clone(), low, high
        return x.to(dtype)
    x = torch.randn(2, length, dtype=torch.float64).mul(50).to(dtype)
    x[:, ::9] = x[0, 0].clone()
    special = [torch.nan, -torch.nan, torch.inf, -torch.inf, 0.0, -0.0, 0.0]
    x[0, 3 : 3 + len(special)] = torch.tensor(special, dtype=dtype)
    return x


@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize("length", [10, 16, 17, 33, 63, 100, 129, 255, 256, 1500])
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_long_sorts(dtype: torch.dtype, length: int, descending: bool) -> None:
    x = row(dtype, length)
    for one, dim in ((x, 1), (x.T.contiguous(), 0)):
        want = SORT(one, stable=True, dim=dim, descending=descending)
        got = run_op(SORT, [one], {"stable": True, "dim": dim, "descending": descending}, want)
        for found, wanted in zip(got, want, strict=True):
            torch.testing.assert_close(found, wanted, rtol=0, atol=0, equal_nan=True)
