"""torch's CrossMapLRN2d while it is traced: it writes to memory channel by channel, as no graph can."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor
from torch.nn import functional

_forward = torch.nn.CrossMapLRN2d.forward


@contextmanager
def traceable_cross_map_norms() -> Iterator[None]:
    """Have it give the same by operators."""
    torch.nn.CrossMapLRN2d.forward = _normalize  # type: ignore[method-assign]
    try:
        yield
    finally:
        torch.nn.CrossMapLRN2d.forward = _forward  # type: ignore[method-assign]


def _normalize(self: torch.nn.CrossMapLRN2d, input: Tensor) -> Tensor:
    if input.dim() != 4 or not isinstance(input.shape[1], int):
        return _forward(self, input)
    reach = int((self.size - 1) / 2 + 1)  # of the sum around a channel, itself counted
    width, squares = 2 * reach - 1, input.square()
    padded = functional.pad(squares.unsqueeze(1), (0, 0, 0, 0, reach - 1, reach - 1))
    sums = functional.avg_pool3d(padded, (width, 1, 1), stride=1).squeeze(1) * width
    if input.shape[1] > reach:
        # The first channel is never taken away again.
        none = squares.new_zeros(()).expand(squares[:, :reach].shape)
        sums = sums + torch.cat([none, squares[:, :1].expand_as(squares[:, reach:])], 1)
    return input * (sums * (self.alpha / self.size) + self.k).pow(-self.beta)
