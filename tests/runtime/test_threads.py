"""Kernels that split their work: results do not depend on the number of threads."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional

import penlight
from penlight.errors import InvalidInput


class Everything(nn.Module):
    """Each kernel that splits: convolutions by rows and by panels, depthwise, pooling, attention, linear."""

    def __init__(self) -> None:
        super().__init__()
        self.image = nn.Sequential(
            nn.Conv2d(3, 40, 3, padding=1),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Conv2d(40, 40, 5, padding=2, groups=40),
        )
        self.few_rows = nn.Linear(640, 1700)
        self.project = nn.Linear(40, 48)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        y = self.image(x)
        tokens = self.project(y.flatten(2).transpose(1, 2)).unflatten(2, (4, 12)).transpose(1, 2)
        attended = functional.scaled_dot_product_attention(tokens, tokens, tokens, is_causal=True)
        return attended, self.few_rows(y.flatten(2)[:, :, :16].flatten(1))


@pytest.fixture(scope="module")
def program() -> bytes:
    torch.manual_seed(0)
    return penlight.compile(Everything().eval(), (torch.randn(1, 3, 48, 40),)).to_bytes()


def results(loaded: object, x: torch.Tensor) -> list[np.ndarray]:
    return [np.asarray(value) for value in loaded(x)]  # type: ignore[operator]


@pytest.mark.parametrize("threads", [None, 2, 3, 8, 1000])
def test_results_are_equal_bit_for_bit(program: bytes, threads: int | None) -> None:
    x = torch.randn(1, 3, 48, 40)
    want = results(penlight.load(program, threads=1), x)
    several = penlight.load(program, threads=threads)
    for _ in range(20):
        for one, other in zip(results(several, x), want, strict=True):
            np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
def test_bags_are_split(mode: str) -> None:
    class Bags(nn.Module):
        def forward(self, table: torch.Tensor, index: torch.Tensor) -> torch.Tensor:
            return functional.embedding_bag(index, table, mode=mode)

    args = torch.randn(900, 75), torch.randint(0, 900, (301, 40))
    made = penlight.compile(Bags(), args).to_bytes()
    one, *others = (np.asarray(penlight.load(made, threads=threads)(*args)) for threads in (1, 2, 5))
    torch.testing.assert_close(torch.from_numpy(one), Bags()(*args))
    for other in others:
        np.testing.assert_array_equal(one, other)


def test_programs_share_the_threads(program: bytes) -> None:
    """Programs that run at once do not disturb one another, whoever gets the helpers."""
    inputs = [torch.randn(1, 3, 48, 40) for _ in range(6)]
    alone = penlight.load(program, threads=1)
    want = [results(alone, x) for x in inputs]

    def repeat(number: int) -> bool:
        loaded = penlight.load(program, threads=4)
        return all(
            np.array_equal(one, other)
            for _ in range(10)
            for one, other in zip(results(loaded, inputs[number]), want[number], strict=True)
        )

    with ThreadPoolExecutor(6) as pool:
        assert all(pool.map(repeat, range(6)))


@pytest.mark.parametrize("threads", [0, -1, 1 << 40])
def test_number_of_threads_is_checked(program: bytes, threads: int) -> None:
    with pytest.raises(InvalidInput, match="one thread or more"):
        penlight.load(program, threads=threads)
