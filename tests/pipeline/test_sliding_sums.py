"""Averages along the depth alone, as of local response norms, are sums of shifted parts."""

from __future__ import annotations

import pytest
import torch
from tests.pipeline.fused import Calls, check, operators
from torch import nn
from torch.export import Dim
from torch.nn import functional

import penlight


@pytest.mark.parametrize("size", [2, 3, 5])
@pytest.mark.parametrize("shape", [(2, 7, 5, 6), (1, 4, 3, 3), (2, 6, 3, 4, 5)])
def test_local_response_norm(shape: tuple[int, ...], size: int) -> None:
    layer, x = nn.LocalResponseNorm(size, alpha=0.1, beta=0.75, k=2.0), torch.randn(shape)
    assert "avg_pool3d" not in operators(layer, x)
    check(layer, x)
    x[0, 2, 1, 1] = torch.nan
    x[0, 1, 2, 2] = torch.inf
    check(layer, x)


def test_dynamic_images() -> None:
    layer, x = nn.Sequential(nn.Conv2d(3, 6, 3), nn.LocalResponseNorm(3)), torch.randn(2, 3, 9, 8)
    sizes = ({0: Dim.AUTO(max=4), 2: Dim.AUTO(max=20), 3: Dim.AUTO(max=20)},)
    loaded = penlight.load(penlight.compile(layer, (x,), dynamic_shapes=sizes))
    for given in (x, torch.randn(1, 3, 20, 5), torch.randn(4, 3, 6, 6)):
        torch.testing.assert_close(loaded(given), layer(given), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("options", [{"divisor_override": 2}, {"stride": (2, 1, 1)}, {"padding": (1, 0, 0)}])
def test_those_that_stay(options: dict[str, object]) -> None:
    options = {"stride": 1, **options}
    pool, x = Calls(lambda x: functional.avg_pool3d(x, (3, 1, 1), **options)), torch.randn(2, 3, 8, 4, 5)
    assert "avg_pool3d" in operators(pool, x)
    check(pool, x)


def test_no_channels_beside() -> None:
    pool = Calls(lambda x: functional.avg_pool3d(x, (4, 1, 1), 1))
    for shape in ((2, 6, 4, 5), (1, 2, 6, 4, 5)):
        assert "avg_pool3d" not in operators(pool, torch.randn(shape))
        check(pool, torch.randn(shape))
