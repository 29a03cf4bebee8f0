"""Models that the tests of selective builds share, and how their binaries are run."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

import penlight
from penlight.build.build import Built


class PNet(nn.Module):
    """The first stage of MTCNN, with two results."""

    def __init__(self) -> None:
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(3, 10, 3),
            nn.PReLU(10),
            nn.MaxPool2d(2, 2, ceil_mode=True),
            nn.Conv2d(10, 16, 3),
            nn.PReLU(16),
            nn.Conv2d(16, 32, 3),
            nn.PReLU(32),
        )
        self.face, self.box = nn.Conv2d(32, 2, 1), nn.Conv2d(32, 4, 1)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        x = self.features(x)
        return self.box(x), torch.softmax(self.face(x), 1)


class Keywords(nn.Module):
    """A depthwise-separable CNN, of the size that spots keywords."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Conv2d(1, 16, (10, 4), 2, (5, 1)),
            nn.ReLU(),
            nn.Conv2d(16, 16, 3, 1, 1, groups=16),
            nn.ReLU(),
            nn.Conv2d(16, 16, 1),
            nn.ReLU(),
            nn.AdaptiveAvgPool2d(1),
            nn.Flatten(),
            nn.Linear(16, 12),
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.softmax(self.layers(x), -1)


class Integers(nn.Module):
    def forward(self, x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, ...]:
        total = (x * 3 + y.to(torch.int64)).clamp(-100, 100)
        return total.cumsum(-1), (x > y).sum(-1), (x.to(torch.float32) / 3).sum()


class Choice(nn.Module):
    """Control flow, and a dtype that only one branch has."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.cond(
            x.sum() > 0, lambda x: x + 1, lambda x: (x.to(torch.float64) * 2).to(torch.float32), (x,)
        )


class Add(nn.Module):
    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return x + y


Make = Callable[..., Built]
Inputs = tuple[torch.Tensor, ...]
MODELS: dict[str, tuple[Callable[[], nn.Module], Inputs]] = {
    "pnet": (PNet, (torch.rand(1, 3, 30, 26, generator=torch.Generator().manual_seed(1)),)),
    "keywords": (Keywords, (torch.rand(1, 1, 49, 10, generator=torch.Generator().manual_seed(2)),)),
    "integers": (
        Integers,
        (torch.arange(-16, 16).reshape(4, 8), torch.arange(32, dtype=torch.int32).reshape(4, 8) - 20),
    ),
    "choice": (Choice, (torch.tensor([1.0, -3.0, 0.5]),)),
    "add": (Add, (torch.tensor([1.5, 2.5]), torch.tensor([0.25, -4.0]))),
    "add_double": (Add, (torch.tensor([1.5, 2.5]).double(), torch.tensor([0.25, -4.0]).double())),
}


def run_program(
    command: Sequence[str | Path], inputs: Inputs, folder: Path, more: Sequence[str | Path] = ()
) -> list[np.ndarray[Any, Any]]:
    """Outputs of a program that `penlight build` made."""
    folder.mkdir(parents=True, exist_ok=True)
    words = [*command, *more, "-o", folder / "output"]
    for index, tensor in enumerate(inputs):
        path = folder / f"input{index}.npy"
        np.save(path, tensor.numpy())
        words += ["-i", path]
    subprocess.run([str(word) for word in words], check=True, capture_output=True, text=True, timeout=120)
    return [np.load(path) for path in sorted(folder.glob("output.*.npy"))]


def expected(path: Path, inputs: Inputs) -> list[np.ndarray[Any, Any]]:
    """What the runtime in Python gives."""
    results = penlight.load(path, libraries=["portable"])(*[tensor.numpy() for tensor in inputs])
    results = results if isinstance(results, (list, tuple)) else [results]
    return [np.asarray(result) for result in results]


def assert_same_bits(got: Sequence[Any], want: Sequence[Any]) -> None:
    assert len(got) == len(want) > 0
    for mine, theirs in zip(got, want, strict=True):
        assert mine.dtype == theirs.dtype and mine.shape == theirs.shape
        assert mine.tobytes() == theirs.tobytes()
