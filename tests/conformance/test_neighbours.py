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
    # ATen has none of float16: a step of its own bits is the only neighbour there.
    want = NEXT(x, y) if dtype != torch.float16 else _by_bits(x, y)
    (got,) = run_op(NEXT, [x, y], {}, want)
    assert torch.equal(got.isnan(), want.isnan())
    kept = ~want.isnan()
    assert torch.equal(got[kept].view(bits), want[kept].view(bits))


def _by_bits(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """As the sizes' order is that of the bits without the sign."""
    bits = x.view(torch.int16)
    step = torch.where((x < y) == (x > 0), 1, -1)
    out = bits + step.to(torch.int16)
    from_zero = (y.view(torch.int16) & -32768) | 1
    out = torch.where(x == 0, from_zero, out)
    found = torch.where(x == y, y.view(torch.int16), out).view(torch.float16)
    return torch.where(x.isnan() | y.isnan(), torch.nan, found)
