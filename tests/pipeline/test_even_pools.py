"""Adaptive pools with windows of one size are pools with a stride."""

from __future__ import annotations

import pytest
import torch
from tests.pipeline.fused import Calls, check, operators
from torch import nn
from torch.export import Dim

EVEN = [
    (nn.AdaptiveAvgPool1d(4), (2, 3, 12), "avg_pool1d"),
    (nn.AdaptiveAvgPool2d((2, 5)), (2, 3, 8, 15), "avg_pool2d"),
    (nn.AdaptiveAvgPool2d((1, 4)), (3, 9, 8), "avg_pool2d"),
    (nn.AdaptiveAvgPool3d((2, 1, 3)), (2, 3, 4, 5, 9), "avg_pool3d"),
    (nn.AdaptiveMaxPool2d((4, 4)), (2, 3, 8, 16), "max_pool2d"),
    (nn.AdaptiveMaxPool2d((2, 4), return_indices=True), (2, 3, 8, 16), "max_pool2d_with_indices"),
    (nn.AdaptiveMaxPool3d((1, 2, 3), return_indices=True), (2, 3, 2, 4, 9), "max_pool3d_with_indices"),
]


@pytest.mark.parametrize("layer, sizes, want", EVEN, ids=str)
def test_windows_alike(layer: nn.Module, sizes: tuple[int, ...], want: str) -> None:
    x = torch.randn(sizes)
    x.view(-1)[::7] = 2.0  # the same largest value several times
    x.view(-1)[5] = torch.nan
    assert want in operators(layer, x)
    check(layer, x)


@pytest.mark.parametrize(
    "layer, sizes",
    [(nn.AdaptiveAvgPool2d(4), (2, 3, 8, 9)), (nn.AdaptiveMaxPool2d(6), (1, 3, 3, 3))],
    ids=str,
)
def test_windows_that_differ(layer: nn.Module, sizes: tuple[int, ...]) -> None:
    x = torch.randn(sizes)
    assert any(name.startswith("adaptive") for name in operators(layer, x))
    check(layer, x)


def test_the_same_size_is_nothing() -> None:
    x = torch.randn(1, 3, 7, 7)
    assert operators(Calls(lambda x: nn.AdaptiveAvgPool2d(7)(x.tanh()).relu()), x) == ["elementwise"]
    for layer in (nn.AdaptiveAvgPool2d(7), nn.AdaptiveAvgPool2d((None, 7)), nn.AdaptiveMaxPool2d(7)):
        check(layer, x)


def test_dynamic_sizes() -> None:
    layer, x = nn.AdaptiveAvgPool2d((2, 4)), torch.randn(2, 3, 6, 8)
    check(layer, x, dynamic_shapes=({0: Dim("n", max=4), 2: Dim("h", min=2, max=20)},))


def test_the_head_of_a_pyramid() -> None:
    """Several pools of one channels-last image, blown up again."""
    convolution = nn.Conv2d(3, 16, 3, padding=1)

    def bins(x: torch.Tensor) -> torch.Tensor:
        y = convolution(x)
        pooled = [nn.functional.adaptive_avg_pool2d(y, size) for size in (1, 2, 3, 6)]
        return torch.cat(
            [y, *(nn.functional.interpolate(p, y.shape[2:], mode="bilinear") for p in pooled)], 1
        )

    model = Calls(bins)
    model.convolution = convolution
    x = torch.randn(1, 3, 12, 12)
    assert operators(model, x).count("avg_pool2d") == 3
    check(model, x)
