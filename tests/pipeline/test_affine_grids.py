"""Positions that an affine transform gives, of images and of volumes."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

import penlight


@pytest.mark.parametrize("align_corners", [False, True])
@pytest.mark.parametrize(
    "size", [(2, 3, 5, 7), (1, 1, 1, 9), (3, 2, 4, 1), (2, 1, 3, 4, 5), (1, 2, 1, 1, 2)], ids=str
)
def test_affine_grid(size: tuple[int, ...], align_corners: bool) -> None:
    class Grid(nn.Module):
        def forward(self, theta: Tensor) -> Tensor:
            return functional.affine_grid(theta, list(size), align_corners=align_corners)

    dims = len(size) - 2
    for dtype, digits in ((torch.float32, 1e-6), (torch.float64, 1e-12)):
        theta = torch.randn(size[0], dims, dims + 1, dtype=dtype)
        program = penlight.load(penlight.compile(Grid(), (theta,)))
        want = Grid()(theta)
        torch.testing.assert_close(torch.as_tensor(program(theta)), want, rtol=digits, atol=4 * digits)
