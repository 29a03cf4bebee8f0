"""Compiling and saving a model takes little memory beside its weights."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch import nn

import penlight

# The most that compiling and saving may need: weights included, in weights.
_LIMIT = 1.3


class Normed(nn.Module):
    """Convolutions and linear layers with batch norms to fold, one weight larger than the rest."""

    def __init__(self) -> None:
        super().__init__()
        self.convs = nn.Sequential(
            *(nn.Sequential(nn.Conv2d(512, 512, 3, padding=1), nn.BatchNorm2d(512)) for _ in range(4))
        )
        self.up = nn.Sequential(nn.ConvTranspose2d(512, 512, 2, 2, groups=2), nn.BatchNorm2d(512))
        self.head = nn.Sequential(nn.Linear(512 * 16, 1024), nn.BatchNorm1d(1024))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.up(self.convs(x)).flatten(1))


class Transposed(nn.Module):
    """A weight that is read in another order than it is kept in."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(3000, 4000))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.bmm(x[None], self.weight.t()[None])


def weight_normed() -> nn.Module:
    layers = [nn.Linear(1024, 1024) for _ in range(12)]
    return nn.Sequential(*map(nn.utils.parametrizations.weight_norm, layers))


_MODELS = {
    "batch norms": lambda: (Normed(), torch.randn(1, 512, 2, 2)),
    "channels-last": lambda: (Normed().to(memory_format=torch.channels_last), torch.randn(1, 512, 2, 2)),
    "transposed": lambda: (Transposed(), torch.randn(2, 4000)),
    "weight norm": lambda: (weight_normed(), torch.randn(1, 1024)),
}


def _peak(field: str) -> int:
    status = Path("/proc/self/status").read_text()
    return int(status.partition(f"{field}:")[2].split()[0]) * 1024


def _measure(path: str) -> None:
    """Print, for each model, the peak of memory over that before compiling, in weights of the model."""
    for make in _MODELS.values():
        model, x = make()
        model.eval()
        # Once without weights to speak of: what torch and Penlight load themselves is not the model's.
        penlight.compile(
            nn.Sequential(nn.Conv2d(1, 1, 1), nn.BatchNorm2d(1)).eval(), (torch.zeros(1, 1, 2, 2),)
        ).save(path)
        weights = sum(t.numel() * t.element_size() for t in model.state_dict().values())
        Path("/proc/self/clear_refs").write_text("5")  # the peak starts again from what is in use
        before = _peak("VmRSS")
        penlight.compile(model, (x,)).save(path)
        print((weights + _peak("VmHWM") - before) / weights)
        del model, x


@pytest.mark.skipif(
    not Path("/proc/self/clear_refs").exists(), reason="the peak of memory is read from /proc"
)
def test_weights_are_not_copied(tmp_path: Path) -> None:
    command = [sys.executable, __file__, str(tmp_path / "model.pte")]
    printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
    assert len(printed) == len(_MODELS)
    for name, peak in zip(_MODELS, map(float, printed), strict=True):
        assert peak <= _LIMIT, f"{name}: {peak:.2f} times its weights"


if __name__ == "__main__":
    _measure(sys.argv[1])
