"""Small programs that the tests of the runtime share, compiled once a session."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

import penlight
from penlight.runtime.program import LoadedProgram


class Scale(torch.nn.Module):
    """Keywords and containers: what goes in and comes out is nested."""

    def forward(self, image: torch.Tensor, pair: Any, *, options: dict[str, torch.Tensor]) -> dict[str, Any]:
        scaled = image * options["scale"]
        return {"scaled": scaled, "more": [pair[0] + pair[1], (scaled.sum(),)]}


class Counter(torch.nn.Module):
    """State with an initial value, and state that begins as zeros."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("total", torch.tensor([1.0, 2.0]))
        self.register_buffer("calls", torch.zeros(1, dtype=torch.int64))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.total.add_(x)
        self.calls.add_(1)
        return self.total * 1


class Cache(torch.nn.Module):
    """Two entry points over one state."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("cache", torch.zeros(4))

    def write(self, x: torch.Tensor) -> torch.Tensor:
        self.cache.copy_(x)
        return x + 1

    def read(self, x: torch.Tensor) -> torch.Tensor:
        return self.cache + x


class Twice(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + x


def _linear() -> Any:
    torch.manual_seed(0)
    return penlight.compile(torch.nn.Linear(4, 3).eval(), (torch.randn(2, 4),))


def _dynamic() -> Any:
    torch.manual_seed(0)
    batch = torch.export.Dim("batch", max=6)
    model = torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.ReLU()).eval()
    return penlight.compile(model, (torch.randn(2, 4),), dynamic_shapes=({0: batch},))


def _containers() -> Any:
    pair = (torch.ones(2), torch.ones(2))
    keywords = {"options": {"scale": torch.tensor(2.0)}}
    return penlight.compile(Scale(), (torch.ones(2, 3), pair), keywords)


def _counter() -> Any:
    return penlight.compile(Counter(), (torch.ones(2),))


def _cache() -> Any:
    model, x = Cache(), torch.ones(4)
    return penlight.compile({"write": (model.write, (x,)), "read": (model.read, (x,))})


def _twice(dtype: torch.dtype) -> Callable[[], Any]:
    return lambda: penlight.compile(Twice(), (torch.ones(2, 3).to(dtype),))


def _convolution() -> Any:
    torch.manual_seed(0)
    model = torch.nn.Conv2d(3, 4, 3, padding=1).eval().to(memory_format=torch.channels_last)
    image = torch.randn(1, 3, 5, 6).to(memory_format=torch.channels_last)
    return penlight.compile(model, (image,))


MAKERS: dict[str, Callable[[], Any]] = {
    "linear": _linear,
    "dynamic": _dynamic,
    "containers": _containers,
    "counter": _counter,
    "cache": _cache,
    "convolution": _convolution,
    "bfloat16": _twice(torch.bfloat16),
    "complex64": _twice(torch.complex64),
    "float16": _twice(torch.float16),
    "int64": _twice(torch.int64),
    "uint8": _twice(torch.uint8),
}


@pytest.fixture(scope="session")
def program_path(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """The file of a program by name; made at its first use."""
    folder = tmp_path_factory.mktemp("programs")

    def path(name: str) -> Path:
        file = folder / f"{name}.pte"
        if not file.exists():
            MAKERS[name]().save(file)
        return file

    return path


@pytest.fixture
def load(program_path: Callable[[str], Path]) -> Callable[..., LoadedProgram]:
    """Load a program by name."""
    return lambda name, **options: penlight.load(program_path(name), **options)
