"""Sizes of the results: only the kernel can tell."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

import penlight

places = penlight.op("testplaces::places")
counted = penlight.op("testplaces::counted")


@places.fake
def _(x: Tensor) -> Tensor:
    found = torch.library.get_ctx().new_dynamic_size()
    torch._check(found <= x.numel())
    return x.new_empty([found], dtype=torch.int64)


@counted.fake
def _(runs: Tensor, x: Tensor) -> Tensor:
    found = torch.library.get_ctx().new_dynamic_size(min=0, max=100)
    return x.new_empty([found], dtype=torch.int64)


@places.samples
def _() -> Iterator[tuple[Tensor]]:
    for count in (4, 0, 1, 9):
        yield (torch.arange(count) % 3 * torch.ones(count),)


@counted.samples
def _() -> Iterator[tuple[Tensor, Tensor]]:
    for count in (4, 0, 1, 9):
        yield torch.tensor([3]), torch.arange(count) % 2 * torch.ones(count)
