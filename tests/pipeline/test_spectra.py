"""Short-time Fourier transforms of signals, and back."""

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


@pytest.mark.parametrize("center", [True, False])
@pytest.mark.parametrize("onesided", [True, False])
def test_spectra_of_dynamic_batches_and_lengths(center: bool, onesided: bool) -> None:
    class Spectrum(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("window", torch.hann_window(SIZE))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            options: dict[str, Any] = {"center": center, "onesided": onesided, "return_complex": True}
            return torch.stft(x, SIZE, 5, SIZE, self.window, **options)

    model = Spectrum()
    sizes = {0: Dim.AUTO(max=5), 1: Dim.AUTO(max=300)}
    built = penlight.compile(model, (torch.randn(2, 100),), dynamic_shapes=(sizes,))
    program = penlight.load(built)
    for batch, length in ((2, 100), (5, 300), (3, 57), (1, 41)):
        x = torch.randn(batch, length)
        torch.testing.assert_close(program(x), model(x), rtol=1e-4, atol=1e-5)


def test_transforms_of_lengths_that_are_sums() -> None:
    """As a convolution of two signals has them: with zeros up to the length of the result."""

    class Convolution(torch.nn.Module):
        def forward(self, x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            length = x.shape[-1] + y.shape[-1] - 1
            product = torch.fft.rfft(x, length) * torch.fft.rfft(y, length)
            return torch.fft.irfft(product, length), product.abs()

    model = Convolution()
    sizes = {1: Dim.AUTO(max=200)}, {1: Dim.AUTO(max=30)}
    args = torch.randn(2, 80), torch.randn(2, 10)
    program = penlight.load(penlight.compile(model, args, dynamic_shapes=sizes))
    for one, other in ((80, 10), (70, 9), (91, 7), (200, 30), (12, 30)):
        args = torch.randn(2, one), torch.randn(2, other)
        for got, want in zip(program(*args), model(*args), strict=True):
            torch.testing.assert_close(got, want, rtol=1e-4, atol=1e-4)
