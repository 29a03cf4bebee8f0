"""CrossMapLRN2d, whose own forward() no graph can hold, and pools of random places, of dynamic sizes."""

from __future__ import annotations

import pytest
import torch
from fused import Calls
from tests.pipeline.running import check
from torch import Tensor, nn
from torch.export import Dim
from torch.nn import functional


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("size", [1, 2, 3, 4, 5, 9, 20])
def test_norms_over_channels(size: int, dynamic: bool) -> None:
    model = nn.CrossMapLRN2d(size, alpha=0.3, beta=0.6, k=1.5)
    shapes = ({0: Dim("batch", max=8), 2: Dim("height", min=2, max=40)},) if dynamic else None
    others = [(torch.randn(1, 7, 2, 5),), (torch.randn(8, 7, 40, 5),)] if dynamic else []
    check(model, (torch.randn(2, 7, 6, 5),), *others, dynamic_shapes=shapes)


def test_norms_between_convolutions() -> None:
    model = nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU(), nn.CrossMapLRN2d(5), nn.Conv2d(8, 4, 1))
    check(model, (torch.randn(2, 3, 9, 8),))


def test_fractional_pools() -> None:
    def pooled(x: Tensor, samples: Tensor) -> tuple[Tensor, Tensor]:
        found, places = functional.fractional_max_pool2d(
            x, (2, 3), output_size=(3, 4), _random_samples=samples, return_indices=True
        )
        return found, places

    shapes = (({0: (batch := Dim("batch", max=4)), 2: Dim("height", min=5, max=40)}, {0: batch}),)
    given = [(torch.randn(b, 5, h, 9), torch.rand(b, 5, 2)) for b, h in ((2, 9), (1, 20), (4, 5), (3, 40))]
    check(Calls(pooled), *given, dynamic_shapes=shapes)
