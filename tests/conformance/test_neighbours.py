"""nextafter of every float dtype is ATen's bit for bit, of random bits and of special numbers."""

from __future__ import annotations

import pytest
import torch
from run_op import run_op

NEXT = torch.ops.aten.nextafter.default
BITS = {
    torch.float16: torch.int16,
    torch.bfloat16: torch.int16,
    torch.float32: torch.int32,
    torch.float64: torch.int64,
}


@pytest.mark.parametrize("dtype", BITS, ids=str)
def test_nextafter_is_exact(dtype: torch.dtype) -> None:
    bits, of = BITS[dtype], torch.finfo(dtype)
    least = torch.tensor(1, dtype=bits).view(dtype).item()  # above zero
    special = [0.0, least, of.smallest_normal, 1.0, 1.0 + of.eps, of.max, torch.inf, torch.nan]
    numbers = torch.tensor([*special, *(-x for x in special)], dtype=dtype)
    count = torch.iinfo(bits)
    random = torch.randint(count.min, count.max, (20000, 2), dtype=bits).view(dtype)
    x, y = torch.cat([torch.cartesian_prod(numbers, numbers), random]).unbind(1)
    x, y = x.contiguous(), y.contiguous()
    want = NEXT(x, y)
    (got,) = run_op(NEXT, [x, y], {}, want)
    assert torch.equal(got.isnan(), want.isnan())
    kept = ~want.isnan()
    assert torch.equal(got[kept].view(bits), want[kept].view(bits))
