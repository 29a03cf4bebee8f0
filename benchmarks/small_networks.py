"""Small networks to race, with seeded random weights: `benchmarks/small_networks.py:NAME`.

Of the kinds that MLPerf Tiny (Banbury et al., 2021) measures, where it tells what a layer takes beside its
arithmetic.
"""

from __future__ import annotations

from itertools import pairwise

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from benchmarks.networks import Built


def _normed(inputs: int, outputs: int, taps: int, stride: int = 1, groups: int = 1) -> nn.Sequential:
    window = nn.Conv2d(inputs, outputs, taps, stride, taps // 2, groups=groups, bias=False)
    return nn.Sequential(window, nn.BatchNorm2d(outputs))


class Residual(nn.Module):
    """Two windows around which the image passes, by 1x1 where its size changes."""

    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.first, self.second = _normed(inputs, outputs, 3, stride), _normed(outputs, outputs, 3)
        self.passes = nn.Identity() if stride == 1 else _normed(inputs, outputs, 1, stride)

    def forward(self, x: Tensor) -> Tensor:
        return F.relu(self.second(F.relu(self.first(x))) + self.passes(x))


def _residual(blocks: int) -> Built:
    layers: list[nn.Module] = [_normed(3, 16, 3), nn.ReLU()]
    inputs = 16
    for outputs in (16, 32, 64):
        for i in range(blocks):
            layers.append(Residual(inputs, outputs, 2 if i == 0 and outputs > 16 else 1))
            inputs = outputs
    model = nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, 10))
    return model, (torch.randn(1, 3, 32, 32),)


def resnet8() -> Built:
    """The residual network for images of 32 by 32 with one block of each width (He et al., 2016)."""
    return _residual(1)


def resnet20() -> Built:
    """The same with three."""
    return _residual(3)


def keywords() -> Built:
    """Depthwise-separable convolutions over a spectrogram (Zhang et al., 2017)."""
    first = nn.Conv2d(1, 64, (10, 4), 2, (5, 1), bias=False)
    layers: list[nn.Module] = [first, nn.BatchNorm2d(64), nn.ReLU()]
    for _ in range(4):
        layers += [_normed(64, 64, 3, groups=64), nn.ReLU(), _normed(64, 64, 1), nn.ReLU()]
    model = nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, 12))
    return model, (torch.randn(1, 1, 49, 10),)


def anomalies() -> Built:
    """An autoencoder of linear layers over frames of a spectrogram (Koizumi et al., 2020)."""
    layers: list[nn.Module] = []
    widths = [640, 128, 128, 128, 128, 8, 128, 128, 128, 128]
    for inputs, outputs in pairwise(widths):
        layers += [nn.Linear(inputs, outputs), nn.BatchNorm1d(outputs), nn.ReLU()]
    return nn.Sequential(*layers, nn.Linear(128, 640)), (torch.randn(1, 640),)


class Segmentation(nn.Module):
    """A U-Net of three scales (Ronneberger et al., 2015) that begins with 16 channels."""

    def __init__(self) -> None:
        super().__init__()

        def twice(inputs: int, outputs: int) -> nn.Sequential:
            layers = (_normed(inputs, outputs, 3), nn.ReLU(), _normed(outputs, outputs, 3), nn.ReLU())
            return nn.Sequential(*layers)

        self.down = nn.ModuleList([twice(3, 16), twice(16, 32), twice(32, 64)])
        self.up = nn.ModuleList([twice(64 + 32, 32), twice(32 + 16, 16)])
        self.last = nn.Conv2d(16, 2, 1)

    def forward(self, x: Tensor) -> Tensor:
        first = self.down[0](x)
        second = self.down[1](F.max_pool2d(first, 2))
        third = self.down[2](F.max_pool2d(second, 2))
        x = self.up[0](torch.cat([second, F.interpolate(third, scale_factor=2.0)], 1))
        x = self.up[1](torch.cat([first, F.interpolate(x, scale_factor=2.0)], 1))
        result: Tensor = self.last(x)
        return result


def segmentation() -> Built:
    return Segmentation(), (torch.randn(1, 3, 128, 128),)
