"""Recordings of the tree, as float32 samples at 16 kHz, and Whisper's view of them."""

from __future__ import annotations

import math
import wave
from pathlib import Path

import numpy as np
import torch
from torch import Tensor


def recording(name: str) -> Tensor:
    """A 16-bit mono file of audio/ in -1..1."""
    with wave.open(str(Path(__file__).parent / "audio" / name)) as file:
        samples = np.frombuffer(file.readframes(file.getnframes()), np.int16)
    return torch.from_numpy(samples.astype(np.float32) / 32768)


def mel_filters(count: int = 80, fft: int = 400, rate: int = 16000) -> Tensor:
    """Slaney's triangular mel filters, each of unit area, [count, fft // 2 + 1]."""
    knee, step = 1000.0, math.log(6.4) / 27

    def to_hz(mel: Tensor) -> Tensor:
        return torch.where(mel < 15, mel * 200 / 3, knee * torch.exp(step * (mel - 15)))

    top = 15 + math.log(rate / 2 / knee) / step
    edges = to_hz(torch.linspace(0, top, count + 2, dtype=torch.float64))
    bins = torch.linspace(0, rate / 2, fft // 2 + 1, dtype=torch.float64)
    rising = (bins - edges[:-2, None]) / (edges[1:-1] - edges[:-2])[:, None]
    falling = (edges[2:, None] - bins) / (edges[2:] - edges[1:-1])[:, None]
    area = 2 / (edges[2:] - edges[:-2])
    return (torch.minimum(rising, falling).clamp(min=0) * area[:, None]).float()


def log_mel(samples: Tensor, seconds: int = 30) -> Tensor:
    """Whisper's spectrogram of up to 30 s: [1, 80, 3000]."""
    padded = torch.zeros(seconds * 16000)
    padded[: len(samples)] = samples
    spectrum = torch.stft(padded, 400, 160, window=torch.hann_window(400), return_complex=True)
    power = spectrum[:, :-1].abs() ** 2
    log = (mel_filters() @ power).clamp(min=1e-10).log10()
    return ((torch.maximum(log, log.max() - 8) + 4) / 4)[None]
