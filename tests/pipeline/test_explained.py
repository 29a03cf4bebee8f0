"""What fusions looked at and left as it was is in the report, with the reason."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

import penlight
from penlight.passes.base import Left, Report


def left(model: nn.Module, *args: Tensor, stage: str) -> list[Left]:
    report = penlight.compile(model.eval(), args).report
    assert report is not None
    return [one for one in report.left if one.stage == stage]


class ReadTwice(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(32, 32)

    def forward(self, x: Tensor) -> Tensor:
        y = self.layer(x)
        return torch.cat([functional.relu(y), y.flip(0)])


class AddsRow(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(32, 32)

    def forward(self, x: Tensor, row: Tensor) -> Tensor:
        return self.layer(x) + row


class ComputedWeight(nn.Module):
    def forward(self, x: Tensor, weight: Tensor) -> Tensor:
        return functional.linear(x, weight)


class Expansion(nn.Module):
    def __init__(self, channels: int = 8, kernel: int = 1, stride: int = 1, windows: int = 3) -> None:
        super().__init__()
        self.expand = nn.Conv2d(channels, 48, kernel, stride)
        self.windows = nn.Conv2d(48, 48, windows, padding=windows // 2, groups=48)

    def forward(self, x: Tensor) -> Tensor:
        return self.windows(self.expand(x))


class Branches(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        y = x.exp()
        return torch.cat([y * 2, y + 1])


X = torch.randn(4, 32)
CASES = [
    ("fuse epilogues", ReadTwice(), (X,), "something else reads the layer's result"),
    ("fuse epilogues", AddsRow(), (X, torch.randn(32)), "broadcast"),
    ("pack weights", ComputedWeight(), (X, torch.randn(8, 32)), "its weight is not a constant"),
    ("pack weights", nn.ConvTranspose2d(4, 4, 3, 2, groups=2), (torch.randn(1, 4, 8, 8),), "transposed"),
    ("fuse expansions", Expansion(windows=7), (torch.randn(1, 8, 12, 12),), "fits a cache"),
    (
        "fuse expansions",
        Expansion(stride=2),
        (torch.randn(1, 8, 128, 128),),
        "not a 1x1 convolution with stride 1",
    ),
    (
        "fuse expansions",
        Expansion(kernel=3, windows=7),
        (torch.randn(1, 8, 32, 32),),
        "not of 3x3 or 5x5 pixels",
    ),
    ("fuse expansions", Expansion(64), (torch.randn(1, 64, 32, 32),), "does not expand"),
    ("fuse elementwise", Branches(), (X,), "its result is read in several places"),
]


@pytest.mark.parametrize(("stage", "model", "args", "reason"), CASES)
def test_reason(stage: str, model: nn.Module, args: tuple[Tensor, ...], reason: str) -> None:
    (one,) = left(model, *args, stage=stage)
    assert reason in one.reason and "\n" not in one.reason
    # torch's own layers have no line of the user's.
    assert "test_explained.py" in one.source or isinstance(model, nn.ConvTranspose2d)


def test_nothing_left_where_all_fuses() -> None:
    model = nn.Sequential(nn.Linear(32, 32), nn.ReLU()).eval()
    report = penlight.compile(model, (X,)).report
    assert report is not None and not report.left and report.explain_left() == ""


def test_a_line_for_each_reason() -> None:
    """Ten places with one reason take one line, which counts them."""
    ten = [Left("fuse epilogues", f"relu_{i}", "aten.relu", "read twice", "net.py:3") for i in range(10)]
    report = Report(left=[*ten, Left("pack weights", "linear", "aten.linear", "not a constant", "")])
    lines = report.explain_left().splitlines()
    assert len(lines) == 3
    assert lines[1].endswith("read twice: relu_0 (aten.relu, net.py:3) and 9 more")
    assert lines[2].endswith("not a constant: linear (aten.linear)")
