"""Short-time Fourier transforms back to signals."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
import torch
from torch.export import Dim

import penlight

SIZE, FRAMES = 16, 17


class Signal(torch.nn.Module):
    def __init__(self, **options: Any) -> None:
        super().__init__()
        self.options = options
        self.register_buffer("window", torch.hann_window(options.get("win_length", SIZE)) + 0.1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.istft(x, SIZE, window=self.window, **self.options)


def spectra(*sizes: int, whole: bool = False) -> torch.Tensor:
    transform = torch.fft.fft if whole else torch.fft.rfft
    return transform(torch.randn(*sizes, SIZE)).transpose(-1, -2)


@pytest.mark.parametrize("center, normalized", itertools.product((True, False), repeat=2))
@pytest.mark.parametrize("whole", [False, True])
@pytest.mark.parametrize("length", [None, 40, 100])
def test_signals(center: bool, normalized: bool, whole: bool, length: int | None) -> None:
    options: dict[str, int]
    for options in (
        {},
        {"hop_length": 5},
        {"hop_length": 3, "win_length": 10 if center and length != 100 else SIZE},
    ):
        model = Signal(center=center, normalized=normalized, onesided=not whole, length=length, **options)
        for sizes in ((FRAMES,), (2, FRAMES)):
            x = spectra(*sizes, whole=whole)
            want = model(x)
            got = penlight.load(penlight.compile(model, (x,)).to_bytes())(x)
            torch.testing.assert_close(got, want, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("length", [None, 40])
def test_dynamic_sizes(length: int | None) -> None:
    model, x = Signal(length=length), spectra(2, FRAMES)
    sizes = {0: Dim("batch", max=4), 2: Dim("frames", min=11, max=40)}
    built = penlight.compile(model, (x,), dynamic_shapes=(sizes,))
    program = penlight.load(built)
    assert program["forward"].instruction_count < 40
    for batch, frames in ((1, 11), (3, 29), (4, 40)):
        x = spectra(batch, frames)
        torch.testing.assert_close(program(x), model(x), rtol=1e-4, atol=1e-5)
