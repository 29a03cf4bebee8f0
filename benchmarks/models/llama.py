"""A Llama of 125 M parameters with seeded weights: 12 layers, width 768, 12 query and 4 key-value heads.

Written out as models in the wild are: RMS norms by hand, rotary embeddings that turn the two
halves of a head, gated feed-forwards, a static key-value cache. `prefill` scores the word after
a whole text; `decode` takes one token, and its cache holds 128 tokens from the start, so that
every run of it does the same work.
"""

from __future__ import annotations

import functools

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from . import Model
from .unset import unset_parameters

WIDTH, LAYERS, HEADS, KV_HEADS, HEAD, HIDDEN, WORDS = 768, 12, 12, 4, 64, 2048, 32000
PROMPT, CACHE = 128, 256  # tokens: in the text that prefill reads, room in decode's cache
ROPE_BASE, EPSILON = 10000.0, 1e-5
Turn = tuple[Tensor, Tensor]


class Norm(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(WIDTH))

    def forward(self, x: Tensor) -> Tensor:
        return self.weight * (x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + EPSILON))


class Attention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.query = nn.Linear(WIDTH, HEADS * HEAD, bias=False)
        self.key = nn.Linear(WIDTH, KV_HEADS * HEAD, bias=False)
        self.value = nn.Linear(WIDTH, KV_HEADS * HEAD, bias=False)
        self.out = nn.Linear(HEADS * HEAD, WIDTH, bias=False)

    def heads(self, x: Tensor, turn: Turn) -> tuple[Tensor, Tensor, Tensor]:
        """Queries, keys and values, [batch, heads, length, 64] each."""
        q, k, v = (
            part(x).unflatten(-1, (-1, HEAD)).transpose(1, 2) for part in (self.query, self.key, self.value)
        )
        return rotate(q, *turn), rotate(k, *turn), v

    def join(self, attended: Tensor) -> Tensor:
        return self.out(attended.transpose(1, 2).flatten(2))


class Layer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.attention = Attention()
        self.gate = nn.Linear(WIDTH, HIDDEN, bias=False)
        self.up = nn.Linear(WIDTH, HIDDEN, bias=False)
        self.down = nn.Linear(HIDDEN, WIDTH, bias=False)
        self.norm_attention, self.norm_feed = Norm(), Norm()

    def feed(self, x: Tensor) -> Tensor:
        y = self.norm_feed(x)
        return x + self.down(F.silu(self.gate(y)) * self.up(y))


class Llama(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(WORDS, WIDTH)
        self.layers = nn.ModuleList(Layer() for _ in range(LAYERS))
        self.norm = Norm()
        self.head = nn.Linear(WIDTH, WORDS, bias=False)


class Prefill(nn.Module):
    """Scores of the next token, [batch, 32000], after `tokens` [batch, length]."""

    def __init__(self, llama: Llama) -> None:
        super().__init__()
        self.llama = llama

    def forward(self, tokens: Tensor) -> Tensor:
        turn = angles(torch.arange(tokens.shape[1]))
        x = self.llama.words(tokens)
        for layer in self.llama.layers:
            q, k, v = layer.attention.heads(layer.norm_attention(x), turn)
            attended = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
            x = layer.feed(x + layer.attention.join(attended))
        return self.llama.head(self.llama.norm(x[:, -1]))


class Decode(nn.Module):
    """Scores of the next token after `token` [1, 1] at `position` [1]; the cache is written in place."""

    def __init__(self, llama: Llama) -> None:
        super().__init__()
        self.llama = llama
        for i, cache in enumerate(first_caches()):
            self.register_buffer(f"cache_{i}", cache)

    def forward(self, token: Tensor, position: Tensor) -> Tensor:
        turn, mask = angles(position), torch.arange(CACHE) <= position[:, None]
        x = self.llama.words(token)
        for i, layer in enumerate(self.llama.layers):
            keys, values = getattr(self, f"cache_{2 * i}"), getattr(self, f"cache_{2 * i + 1}")
            q, k, v = layer.attention.heads(layer.norm_attention(x), turn)
            keys.index_copy_(2, position, k)
            values.index_copy_(2, position, v)
            attended = F.scaled_dot_product_attention(q, keys, values, mask, enable_gqa=True)
            x = layer.feed(x + layer.attention.join(attended))
        return self.llama.head(self.llama.norm(x[:, -1]))


class StatelessDecode(nn.Module):
    """The same for engines that keep no state: caches come in, and go out with a row more."""

    def __init__(self, llama: Llama) -> None:
        super().__init__()
        self.llama = llama

    def forward(self, token: Tensor, position: Tensor, *caches: Tensor) -> tuple[Tensor, ...]:
        turn, places = angles(position), torch.arange(CACHE)
        mask, here = places <= position[:, None], (places == position)[:, None]
        x = self.llama.words(token)
        written = []
        for i, layer in enumerate(self.llama.layers):
            q, k, v = layer.attention.heads(layer.norm_attention(x), turn)
            keys, values = torch.where(here, k, caches[2 * i]), torch.where(here, v, caches[2 * i + 1])
            written += [keys, values]
            attended = F.scaled_dot_product_attention(q, keys, values, mask, enable_gqa=True)
            x = layer.feed(x + layer.attention.join(attended))
        return self.llama.head(self.llama.norm(x[:, -1])), *written


def angles(positions: Tensor) -> Turn:
    """Cosines and sines of the angles that heads are turned by, [length, 64] each."""
    inverse = ROPE_BASE ** (-torch.arange(0, HEAD, 2).float() / HEAD)
    turned = torch.outer(positions.float(), inverse)
    both = torch.cat([turned, turned], -1)
    return both.cos(), both.sin()


def rotate(x: Tensor, cosine: Tensor, sine: Tensor) -> Tensor:
    low, high = x.chunk(2, -1)
    return x * cosine + torch.cat([-high, low], -1) * sine


def first_caches() -> list[Tensor]:
    """Keys and values of each layer in turn, as if a text of 128 tokens had been read."""
    caches = torch.zeros(2 * LAYERS, 1, KV_HEADS, CACHE, HEAD)
    caches[..., :PROMPT, :] = torch.randn(
        2 * LAYERS, 1, KV_HEADS, PROMPT, HEAD, generator=torch.Generator().manual_seed(1)
    )
    return [cache.clone() for cache in caches]


@functools.cache
def network() -> Llama:
    with unset_parameters():
        llama = Llama()
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for name, weight in llama.named_parameters():
            scale = 1.0 if name.startswith("words") else weight.shape[-1] ** -0.5
            if weight.dim() == 2:
                weight.normal_(0, scale, generator=generator)
            else:
                weight.uniform_(0.8, 1.2, generator=generator)
    return llama


def text(length: int = PROMPT) -> Tensor:
    return torch.randint(WORDS, (1, length), generator=torch.Generator().manual_seed(2))


def prefill() -> Model:
    return Model({"forward": Prefill(network())}, [("forward", (text(),))])


def decode() -> Model:
    return Model({"forward": Decode(network())}, [("forward", (text(1), torch.tensor([PROMPT])))])


def stateless_decode() -> Model:
    inputs = text(1), torch.tensor([PROMPT]), *first_caches()
    return Model({"forward": StatelessDecode(network())}, [("forward", inputs)])
