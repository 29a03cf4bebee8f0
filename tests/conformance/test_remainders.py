"""fmod of float32 is exact: as the C library's, bit for bit."""

from __future__ import annotations

import numpy as np
import torch
from run_op import run_op

FMOD = torch.ops.aten.fmod.Tensor
SPECIAL = [0.0, -0.0, 1.0, -1.0, torch.inf, torch.nan, 1e-45, 1e-38, 3.4e38, 0.3, 2.0**29, 2.0**24 - 1]


def test_fmod_is_exact() -> None:
    special = torch.tensor([*SPECIAL, *(-x for x in SPECIAL)])
    pairs = torch.cartesian_prod(special, special)
    bits = torch.randint(-(2**31), 2**31 - 1, (20000, 2), dtype=torch.int32).view(torch.float32)
    number, size = torch.randint(1, 2**29, (20000,)).float(), torch.rand(20000) * 10
    multiples = torch.stack([number * size, size], 1)  # and what comes just before them
    before = torch.stack([multiples[:, 0].nextafter(torch.tensor(0.0)), size], 1)
    x, y = torch.cat([pairs, bits, multiples, before]).unbind(1)
    with np.errstate(invalid="ignore"):
        want = torch.from_numpy(np.fmod(x.numpy(), y.numpy()))
    (got,) = run_op(FMOD, [x.contiguous(), y.contiguous()], {}, want)
    assert torch.equal(got.isnan(), want.isnan())
    kept = ~want.isnan()
    assert torch.equal(got[kept].view(torch.int32), want[kept].view(torch.int32))
