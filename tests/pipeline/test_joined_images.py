"""Images that are joined by channels between convolutions, as many vision models do it."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.export import Dim

import penlight


class Branches(nn.Module):
    """Two convolutions and a pooled copy side by side, read by another convolution."""

    def __init__(self, activation: type[nn.Module]) -> None:
        super().__init__()
        self.start = nn.Conv2d(3, 4, 3, padding=1)
        self.one, self.three = nn.Conv2d(4, 6, 1), nn.Conv2d(4, 5, 3, padding=1)
        self.pool = nn.MaxPool2d(3, 1, 1)
        self.end = nn.Conv2d(15, 2, 1)
        self.activation = activation()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.activation(self.start(x))
        parts = [self.activation(self.one(x)), self.activation(self.three(x)), self.pool(x)]
        return self.end(torch.cat(parts, 1))


class Ghost(nn.Module):
    """A cheap second half is made of the first, and both are joined."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Conv2d(3, 8, 1), nn.Conv2d(8, 8, 3, padding=1, groups=8)
        self.end = nn.Conv2d(13, 3, 3, padding=1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = torch.relu(self.first(x))
        return x + self.end(torch.cat([y, torch.relu(self.second(y))], 1)[:, :13])


@pytest.mark.parametrize("target", ["cpu", "portable"])
@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("model", [Branches(nn.Identity), Branches(nn.ReLU), Branches(nn.Hardswish), Ghost()])
def test_joined_images(model: nn.Module, dynamic: bool, target: str) -> None:
    model.eval()
    shapes = ({2: Dim("height", min=1, max=16), 3: Dim("width", min=1, max=16)},) if dynamic else None
    program = penlight.compile(model, (torch.randn(2, 3, 7, 9),), dynamic_shapes=shapes, target=target)
    loaded = penlight.load(program.to_bytes())
    for size in [(7, 9), (5, 1), (16, 16)] if dynamic else [(7, 9)]:
        x = torch.randn(2, 3, *size)
        torch.testing.assert_close(loaded(x), model(x), rtol=1e-4, atol=1e-4)
