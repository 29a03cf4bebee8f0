"""Silero VAD: is somebody speaking? A Fourier convolution, four convolutions, an LSTM cell.

One call takes 32 ms of sound; the cell's state is kept in the program.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from . import Model, Runner
from .audio_input import recording
from .wheels import folder

CHUNK, CONTEXT = 512, 64  # samples of 16 kHz


class SileroVad(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.fourier = nn.Conv1d(1, 258, 256, stride=128, bias=False)
        shapes = [(129, 128, 1), (128, 64, 2), (64, 64, 2), (64, 128, 1)]
        self.encoder = nn.ModuleList(nn.Conv1d(a, b, 3, stride=s, padding=1) for a, b, s in shapes)
        self.cell = nn.LSTMCell(128, 128)
        self.speech = nn.Conv1d(128, 1, 1)
        self.register_buffer("hidden", torch.zeros(1, 128))
        self.register_buffer("memory", torch.zeros(1, 128))

    def forward(self, samples: Tensor) -> Tensor:
        """Probability of speech, [1, 1], of `samples`, [1, 576]: the last 64 and 512 new ones."""
        spectrum = self.fourier(F.pad(samples, (0, 64), "reflect")[:, None])
        x = (spectrum[:, :129] ** 2 + spectrum[:, 129:] ** 2).sqrt()
        for layer in self.encoder:
            x = layer(x).relu()
        hidden, memory = self.cell(x.squeeze(-1), (self.hidden, self.memory))
        self.hidden.copy_(hidden)
        self.memory.copy_(memory)
        return self.speech(hidden[:, :, None].relu()).sigmoid().mean(2)


def build() -> Model:
    # The weights of the scripted model: the .safetensors beside it are older.
    scripted = torch.jit.load(str(folder("silero_vad") / "data" / "silero_vad.jit"), map_location="cpu")
    given = {
        k.removeprefix("_model."): v for k, v in scripted.state_dict().items() if k.startswith("_model.")
    }
    names = {"stft.forward_basis_buffer": "fourier.weight"}
    for i in range(4):
        names |= {f"encoder.{i}.reparam_conv.{p}": f"encoder.{i}.{p}" for p in ("weight", "bias")}
    names |= {f"decoder.rnn.{p}": f"cell.{p}" for p in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")}
    names |= {f"decoder.decoder.2.{p}": f"speech.{p}" for p in ("weight", "bias")}
    network = SileroVad()
    problems = network.load_state_dict({names[k]: v for k, v in given.items()}, strict=False)
    assert problems.missing_keys == ["hidden", "memory"], problems
    chunks = list(pieces(recording("speech.wav")))
    return Model({"forward": network}, [("forward", (chunk,)) for chunk in chunks[8:12]], check)


def pieces(samples: Tensor) -> list[Tensor]:
    """Consecutive chunks, each with the end of the one before in front: [1, 576]."""
    padded = F.pad(samples, (CONTEXT, -len(samples) % CHUNK))
    return [padded[None, i : i + CONTEXT + CHUNK] for i in range(0, len(padded) - CONTEXT, CHUNK)]


def check(run: Runner) -> str:
    loudest = {}
    for name in ("speech.wav", "silence.wav"):
        run.reset()
        loudest[name] = max(float(run("forward", piece)) for piece in pieces(recording(name)))
    assert loudest["speech.wav"] > 0.95 and loudest["silence.wav"] < 0.05, loudest
    return f"speech {loudest['speech.wav']:.3f}, silence {loudest['silence.wav']:.3f}"
