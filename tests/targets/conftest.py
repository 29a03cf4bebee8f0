"""Caches in this checkout, and the models that every target runs."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tests.build.models import Integers, PNet, expected
from torch import nn

import penlight

ROOT = Path(__file__).resolve().parents[2]
LINEAR = ROOT / "tests" / "ops" / "kernels" / "linear.cpp"


class Keywords(nn.Module):
    """DS-CNN (Zhang, Suda, Lai and Chandra 2017), small: 49 frames of 10 features, 12 words."""

    def __init__(self, channels: int = 64) -> None:
        super().__init__()

        def block(*convolutions: nn.Module) -> list[nn.Module]:
            return [m for c in convolutions for m in (c, nn.BatchNorm2d(channels), nn.ReLU())]

        def separable() -> list[nn.Module]:
            depthwise = nn.Conv2d(channels, channels, 3, padding=1, groups=channels)
            return block(depthwise, nn.Conv2d(channels, channels, 1))

        first = nn.Conv2d(1, channels, (10, 4), stride=2, padding=(5, 1))
        self.body = nn.Sequential(*block(first), *(m for _ in range(4) for m in separable()))
        self.head = nn.Linear(channels, 12)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.softmax(self.head(self.body(x).mean((2, 3))), -1)


class Functions(nn.Module):
    """What boards have no C library for."""

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        y = torch.tanh(x) + torch.erf(x) * torch.nn.functional.gelu(x)
        return (
            y,
            torch.sigmoid(x) * torch.pow(x.abs(), 1.7),
            torch.atan(x) + torch.log1p(x.abs()) - torch.sin(x),
        )


class Custom(nn.Module):
    """An operator of the user's own, between two of torch's."""

    def __init__(self) -> None:
        super().__init__()
        penlight.ops.load(LINEAR)
        self.weight = nn.Parameter(torch.randn(5, 7))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(torch.ops.testlin.custom_linear(self.weight, x * 2, None))


@dataclass(frozen=True)
class Case:
    program: Path
    inputs: list[np.ndarray[Any, Any]]
    want: list[np.ndarray[Any, Any]]
    exact: bool  # arithmetic alone: the same bits everywhere
    sources: tuple[Path, ...] = ()


def _pnet() -> nn.Module:
    """MTCNN's first network, with its trained weights where they are installed (`make models`)."""
    try:
        from benchmarks.models.mtcnn import build

        trained: nn.Module = build().methods["propose"]
    except (ImportError, FileNotFoundError):
        return PNet()
    return trained


MAKE: dict[str, tuple[Callable[[], nn.Module], Callable[[], tuple[torch.Tensor, ...]], bool]] = {
    "keywords": (Keywords, lambda: (torch.randn(1, 1, 49, 10),), False),
    "pnet": (_pnet, lambda: (torch.rand(1, 3, 30, 26) * 2 - 1,), False),
    "integers": (
        Integers,
        lambda: (torch.arange(-16, 16).reshape(4, 8), torch.arange(32, dtype=torch.int32).reshape(4, 8) - 20),
        True,
    ),
    "custom": (Custom, lambda: (torch.randn(3, 7),), True),
    "functions": (Functions, lambda: (torch.linspace(-6, 6, 101),), False),
}


def own(path: Path, inputs: tuple[torch.Tensor, ...]) -> list[np.ndarray[Any, Any]]:
    """What the runtime gives with operators of the user's own, which are in no library by name."""
    results = penlight.load(path)(*[x.numpy() for x in inputs])
    return [np.asarray(x) for x in (results if isinstance(results, (list, tuple)) else [results])]


@pytest.fixture(autouse=True, scope="session")
def caches() -> Iterator[None]:
    """zig's cache and the objects of these tests stay in build/, where `make clean` finds them."""
    wanted = {"ZIG_GLOBAL_CACHE_DIR": ROOT / "build" / "zig", "PENLIGHT_CACHE": ROOT / "build" / "cache"}
    before = {name: os.environ.get(name) for name in wanted}
    for name, path in wanted.items():
        os.environ.setdefault(name, str(path))
    yield
    for name, value in before.items():
        if value is None:
            del os.environ[name]


@pytest.fixture(scope="session")
def case(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Case]:
    """A model by name: its program, inputs, and what the runtime in Python gives."""
    folder = tmp_path_factory.mktemp("programs")
    made: dict[str, Case] = {}

    def get(name: str) -> Case:
        if name not in made:
            torch.manual_seed(0)
            make, make_inputs, exact = MAKE[name]
            inputs = make_inputs()
            path = folder / f"{name}.pte"
            penlight.compile(make().eval(), inputs, target="portable").save(path)
            sources = (LINEAR,) if name == "custom" else ()
            want = own(path, inputs) if sources else expected(path, inputs)
            made[name] = Case(path, [x.numpy() for x in inputs], want, exact, sources)
        return made[name]

    return get
