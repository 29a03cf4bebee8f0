"""Attention written out is one operator; what is not quite attention stays what it was."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch
from tests.pipeline.fused import Calls, check, operators
from torch import Tensor, nn
from torch.export import Dim
from torch.nn import functional

import penlight

LOWEST = torch.finfo(torch.float32).min
Score = Callable[..., Tensor]


class Written(nn.Module):
    """Multi-head attention as models write it; `score` is what they do with the product, before softmax."""

    bias: Tensor

    def __init__(self, score: Score, *, heads: int = 3, joined: bool = False, keys: int = 0) -> None:
        super().__init__()
        self.score, self.heads, self.joined = score, heads, joined
        self.query, self.key, self.value = (nn.Linear(24, 24) for _ in range(3))
        self.register_buffer("bias", torch.randn(heads, 7, 7))

    def split(self, x: Tensor) -> Tensor:
        x = x.unflatten(-1, (self.heads, -1)).transpose(1, 2)
        return x.flatten(0, 1) if self.joined else x

    def forward(self, x: Tensor, *masks: Tensor) -> Tensor:
        q, k, v = (self.split(layer(x)) for layer in (self.query, self.key, self.value))
        scores = self.score(q @ k.transpose(-1, -2), *masks, *([self.bias] if self.score in BIASED else []))
        y = torch.softmax(scores, -1) @ v
        y = y.unflatten(0, (x.shape[0], self.heads)) if self.joined else y
        return y.transpose(1, 2).flatten(2)


def is_fused(model: nn.Module, *args: Tensor, **options: object) -> bool:
    found = set(operators(model, *args, **options))
    fused = bool(found & {"attention_in_rows", "scaled_dot_product_attention"})
    assert fused != bool(found & {"bmm", "_softmax"}), found
    return fused


def hidden(scores: Tensor, keep: Tensor) -> Tensor:
    return scores / math.sqrt(8) + (1.0 - keep[:, None, None].float()) * LOWEST


def hidden_twice(scores: Tensor, keep: Tensor) -> Tensor:
    """-inf where neither is kept."""
    lowest = torch.where(keep, 0.0, LOWEST)
    return scores + lowest[:, None] + lowest[:, :, None]


def biased(scores: Tensor, bias: Tensor) -> Tensor:
    return scores * 0.3 + bias


def windows(scores: Tensor, keep: Tensor, bias: Tensor) -> Tensor:
    """A bias for each head, and a mask for each window, added to other dimensions."""
    shifted = torch.where(keep[:, None] & keep[:, :, None], 0.0, -100.0)[:, None][None]
    return ((scores + bias)[None] + shifted).flatten(0, 1)


BIASED = {biased, windows}
PLAIN: dict[str, Score] = {
    "as it is": lambda scores: scores,
    "divided": lambda scores: scores / 2.5,
    "multiplied twice": lambda scores: scores * 0.5 * 0.25,
    "bias of heads": biased,
}


@pytest.mark.parametrize("batch", [1, 2])
@pytest.mark.parametrize("name", PLAIN)
def test_one_operator(name: str, batch: int) -> None:
    model, x = Written(PLAIN[name]), torch.randn(batch, 7, 24)
    assert is_fused(model, x)
    assert "permute_copy" not in operators(model, x), "heads are read where they are"
    check(model, x)


@pytest.mark.parametrize("heads", [1, 3])
def test_batches_and_heads_as_one_dimension(heads: int) -> None:
    model, x = Written(lambda scores: scores * 0.4, heads=heads, joined=True), torch.randn(2, 7, 24)
    assert is_fused(model, x)
    check(model, x)


@pytest.mark.parametrize("dtype, kept", [(torch.bool, 0), (torch.int64, 0), (torch.int64, -3)])
def test_mask_of_conditions(dtype: torch.dtype, kept: int) -> None:
    """With a number below 0, the sum that is added is -inf."""
    x, keep = torch.randn(2, 7, 24), torch.tensor([[1, 1, 1, 1, 0, 0, 0], [kept] * 7], dtype=dtype)
    model = Written(hidden)
    assert is_fused(model, x, keep)
    check(model, x, keep)


@pytest.mark.parametrize("kept", [0, 1, 7])
def test_masks_that_are_infinite_together(kept: int) -> None:
    model, x, keep = Written(hidden_twice, heads=1), torch.randn(2, 7, 24), torch.arange(7)[None] < kept
    assert is_fused(model, x, keep)
    check(model, x, keep)


FILLS: dict[str, Callable[[Tensor, Tensor, float], Tensor]] = {
    "hidden": lambda scores, keep, number: (scores / 3).masked_fill(~keep, number),
    "kept": lambda scores, keep, number: torch.where(keep, scores, number),
    "filled first": lambda scores, keep, number: torch.where(~keep, number, scores * 0.3),
}


@pytest.mark.parametrize("number", [-math.inf, LOWEST, -1e9, -2.5, 3.0, math.nan])
@pytest.mark.parametrize("fill", FILLS)
def test_a_number_instead_of_scores(fill: str, number: float) -> None:
    """-inf everywhere gives NaN, and any other number the mean of all values."""
    x, keep = torch.randn(2, 7, 24), torch.rand(2, 1, 7, 7) > 0.4
    keep[:, :, 3] = False
    model = Written(lambda scores, keep: FILLS[fill](scores, keep, number))
    assert is_fused(model, x, keep)
    check(model, x, keep)


def test_rows_of_numbers_instead_of_scores() -> None:
    """As it is written for padding: one row of conditions for all queries, turned around each time."""
    keep = torch.tensor([[1, 1, 0, 1, 0, 0, 0], [0, 0, 0, 0, 0, 0, 0]])
    model = Written(lambda scores, keep: scores.masked_fill(keep[:, None, None] == 0, -1e4), joined=False)
    assert is_fused(model, torch.randn(2, 7, 24), keep)
    check(model, torch.randn(2, 7, 24), keep)


@pytest.mark.parametrize("batch", [1, 2])
def test_masks_of_windows(batch: int) -> None:
    model, x, keep = Written(windows), torch.randn(batch, 7, 24), torch.rand(batch, 7) > 0.3
    assert is_fused(model, x, keep)
    check(model, x, keep)


@pytest.mark.parametrize("number", [math.nan, math.inf, -math.inf, 1e15])
@pytest.mark.parametrize("place", [(0, 3, 5), (1, 0, 0)])
def test_what_is_not_finite_comes_out_as_in_eager(number: float, place: tuple[int, ...]) -> None:
    model, x = Written(biased), torch.randn(2, 7, 24)
    x[place] = number
    check(model, x)


OTHERS: dict[str, tuple[Score, tuple[Tensor, ...]]] = {
    "a factor for the mask too": (
        lambda scores, keep: (scores + torch.where(keep, 0.0, -9.0)) * 0.5,
        (torch.ones(7, dtype=torch.bool),),
    ),
    "a number and a mask": (
        lambda scores, keep: scores.masked_fill(~keep, -9.0) + torch.where(keep, 0.5, -1.0),
        (torch.rand(7, 7) > 0.4,),
    ),
    "numbers that differ": (
        lambda scores, keep: torch.where(keep, scores, torch.arange(7.0)),
        (torch.rand(7, 7) > 0.4,),
    ),
    "a number that scales": (
        lambda scores, keep: scores.masked_fill(~keep, -9.0) * 0.5,
        (torch.rand(7, 7) > 0.4,),
    ),
    "something between": (lambda scores: scores.tanh() * 3, ()),
    "scores that are scaled with zero": (lambda scores: scores * 0.0, ()),
    "one factor for each query": (lambda scores, factor: scores * factor, (torch.rand(7, 1),)),
    "keys that are turned": (lambda scores: scores.flip(-1), ()),
}


@pytest.mark.parametrize("name", OTHERS)
def test_stays_as_it_was(name: str) -> None:
    score, masks = OTHERS[name]
    model, x = Written(score), torch.randn(2, 7, 24)
    assert not is_fused(model, x, *masks)
    check(model, x, *masks)


@pytest.mark.parametrize("constant", [True, False])
def test_all_keys_hidden_with_infinity(constant: bool) -> None:
    """Softmax gives NaN there, where ATen's attention gives zeros."""
    mask = torch.zeros(7, 7)
    mask[2] = -math.inf
    mask[4, :6] = -math.inf

    class Constant(Written):
        def forward(self, x: Tensor, *masks: Tensor) -> Tensor:
            return super().forward(x, mask)

    model = (Constant if constant else Written)(lambda scores, mask: scores + mask)
    x, masks = torch.randn(2, 7, 24), () if constant else (mask,)
    assert is_fused(model, x, *masks)
    check(model, x, *masks)
    with torch.no_grad():
        assert model(x, *masks).isnan().any(-1).tolist() == [[i == 2 for i in range(7)]] * 2


def test_attention_of_torch_beside_it_gives_zeros_there() -> None:
    class Both(Written):
        def forward(self, x: Tensor, *masks: Tensor) -> tuple[Tensor, Tensor]:  # type: ignore[override]
            q, k, v = (self.split(layer(x)) for layer in (self.query, self.key, self.value))
            y = nn.functional.scaled_dot_product_attention(q, k, v, masks[0])
            return super().forward(x, *masks), y.transpose(1, 2).flatten(2)

    mask = torch.zeros(7, 7)
    mask[2] = -math.inf
    check(Both(lambda scores, mask: scores + mask), torch.randn(2, 7, 24), mask)


def test_scores_that_are_a_result_too_stay() -> None:
    class Shows(Written):
        def forward(self, x: Tensor, *masks: Tensor) -> Tensor:
            q, v = self.split(self.query(x)), self.split(self.value(x))
            weights = torch.softmax(q @ q.transpose(-1, -2), -1)
            return (weights @ v).sum(-1) + weights.amax(-1)

    model, x = Shows(lambda scores: scores), torch.randn(2, 7, 24)
    assert not is_fused(model, x)
    check(model, x)


@pytest.mark.parametrize("beta, alpha", [(1.0, 1.0), (1.0, 0.3), (0.5, 2.0), (0.0, 0.3)])
def test_sums_of_a_product_and_a_bias(beta: float, alpha: float) -> None:
    """As BLOOM has it: a bias of keys by heads, and a mask of all."""

    def attention(x: Tensor, bias: Tensor, keep: Tensor) -> Tensor:
        scores = torch.baddbmm(bias, x, x.mT, beta=beta, alpha=alpha)
        hidden = scores.view(2, 3, 7, 7) + torch.where(keep, 0.0, LOWEST)[:, None, None]
        return hidden.softmax(-1).view(6, 7, 7) @ x

    bias = torch.full((6, 1, 7), torch.nan) if beta == 0 else torch.randn(6, 1, 7)
    args = torch.randn(6, 7, 8), bias, torch.rand(2, 7) < 0.8
    assert is_fused(Calls(attention), *args)
    check(Calls(attention), *args)


@pytest.mark.parametrize("target", ["cpu", "portable"])
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64, torch.int64])
def test_sums_of_other_dtypes(dtype: torch.dtype, target: str) -> None:
    a, b, c = ((3 * torch.randn(sizes)).to(dtype) for sizes in ((2, 4, 3), (2, 4, 5), (2, 5, 3)))
    model = Calls(lambda a, b, c: torch.baddbmm(a, b, c, beta=2, alpha=3))
    tolerance = {torch.float16: 1e-3, torch.bfloat16: 1.6e-2}.get(dtype, 1e-10)
    check(model, a, b, c, tolerance=tolerance, target=target)


def test_double_precision_stays() -> None:
    model, x = Written(lambda scores: scores / 2).double(), torch.randn(2, 7, 24).double()
    assert not is_fused(model, x)
    check(model, x)


def test_dynamic_length() -> None:
    model, x = Written(lambda scores: scores / 2), torch.randn(1, 7, 24)
    shapes = {"x": {1: Dim("length", min=2, max=12)}}
    program = penlight.load(penlight.compile(model, (x,), dynamic_shapes=shapes).to_bytes())
    for length in (2, 7, 12):
        x = torch.randn(1, length, 24)
        with torch.no_grad():
            torch.testing.assert_close(program(x), model(x), rtol=1e-5, atol=1e-5)


def test_left_out() -> None:
    model, x = Written(biased), torch.randn(2, 7, 24)
    assert not is_fused(model, x, without=["fuse_written_attention"])
    check(model, x, without=["fuse_written_attention"])


def test_says_why_it_was_left() -> None:
    report = penlight.compile(
        Written(lambda scores: scores / 2).double(), (torch.randn(1, 7, 24).double(),)
    ).report
    assert report is not None
    (one,) = [left for left in report.left if left.stage == "fuse written attention"]
    assert "not of float32" in one.reason and "test_written_attention.py" in one.source


class OfImages(nn.Module):
    """Attention between pixels of an image, channels first, as YOLO and diffusion models have it."""

    def __init__(self, heads: int, *, joined: bool = False) -> None:
        super().__init__()
        self.heads, self.joined = heads, joined
        self.all, self.last = nn.Conv2d(16, heads * 20, 1), nn.Conv2d(heads * 8, 16, 1)

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        n, _, h, w = x.shape
        q, k, v = self.all(x).view(n, self.heads, 20, h * w).split([6, 6, 8], dim=2)
        if self.joined:
            q, k, v = (part.flatten(0, 1) for part in (q, k, v))
        scores = q.transpose(-2, -1) @ k * 6**-0.5
        if mask is not None:
            scores = scores + mask
        y = v @ scores.softmax(-1).transpose(-2, -1)
        return x + self.last(y.reshape(n, self.heads * 8, h, w))


@pytest.mark.parametrize("joined", [False, True])
@pytest.mark.parametrize("heads", [1, 3])
def test_pixels_of_images(heads: int, joined: bool) -> None:
    model, x = OfImages(heads, joined=joined), torch.randn(2, 16, 5, 4)
    assert is_fused(model, x)
    check(model, x)
    check(model, x, torch.randn(20, 20))
    x[0, 3, 2, 1] = math.nan
    check(model, x)


def test_pixels_of_one_head_are_not_turned() -> None:
    class Plain(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layers = nn.ModuleList(nn.Conv2d(16, 16, 1) for _ in range(4))

        def forward(self, x: Tensor) -> Tensor:
            q, k, v = (layer(x).flatten(2) for layer in self.layers[:3])  # type: ignore[index]
            y = torch.bmm(v, torch.bmm(q.permute(0, 2, 1), k).mul(0.25).softmax(2).permute(0, 2, 1))
            return self.layers[3](y.view(x.shape)) + x  # type: ignore[no-any-return]

    model, x = Plain(), torch.randn(2, 16, 5, 4)
    assert is_fused(model, x) and operators(model, x).count("clone") <= 2, "the input's and the result's"
    check(model, x)


def test_what_is_turned_otherwise_stays() -> None:
    for function in (
        lambda q, k, v: v @ (q.mT @ k).softmax(-2),
        lambda q, k, v: v @ (q.mT @ k).softmax(-1),
        lambda q, k, v: (q.mT @ k).softmax(-2).mT @ v.mT,
        lambda q, k, v: v @ (q.mT @ k).softmax(-2).mT,
    ):
        model, parts = Calls(function), (torch.randn(2, 6, 9), torch.randn(2, 6, 9), torch.randn(2, 8, 9))
        check(model, *parts)


class Cosines(nn.Module):
    """As of Swin V2: cosines of queries and keys, times a number for each head, with a bias and a mask."""

    def __init__(self, *, masked: bool, first: bool = False) -> None:
        super().__init__()
        self.qkv, self.factor = nn.Linear(24, 72), nn.Parameter(torch.rand(3, 1, 1) * 4)
        self.bias, self.masked, self.first = nn.Parameter(torch.randn(3, 7, 7)), masked, first

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        q, k, v = (part.unflatten(-1, (3, 8)).transpose(1, 2) for part in self.qkv(x).chunk(3, -1))
        scores = functional.normalize(q, dim=-1) @ functional.normalize(k, dim=-1).transpose(-2, -1)
        factor = self.factor.clamp(max=math.log(100.0)).exp()
        scores = (scores + self.bias) * factor if self.first else factor * scores + self.bias
        if self.masked:
            scores = (scores.view(-1, 2, 3, 7, 7) + mask[None, :, None]).view(-1, 3, 7, 7)
        return (scores.softmax(-1) @ v).transpose(1, 2).flatten(2)


@pytest.mark.parametrize("images", [1, 2, 5])
@pytest.mark.parametrize("masked", [False, True])
def test_a_factor_for_each_head(masked: bool, images: int) -> None:
    """With a mask for each of two windows of some images."""
    x, mask = torch.randn(2 * images, 7, 24), torch.where(torch.rand(2, 7, 7) < 0.7, 0.0, -100.0)
    assert is_fused(Cosines(masked=masked), x, mask)
    check(Cosines(masked=masked), x, mask)


def test_a_factor_of_the_bias_too_stays() -> None:
    x, mask = torch.randn(4, 7, 24), torch.zeros(2, 7, 7)
    assert not is_fused(Cosines(masked=False, first=True), x, mask)
    check(Cosines(masked=False, first=True), x, mask)


@pytest.mark.parametrize("sizes", [(1, 1), (1,), (), (2, 1, 1, 1), (2, 3, 1, 1)])
def test_factors_of_other_sizes(sizes: tuple[int, ...]) -> None:
    def attention(q: Tensor, k: Tensor, v: Tensor, factor: Tensor) -> Tensor:
        return ((q @ k.mT) * factor / 2).softmax(-1) @ v

    args = [torch.randn(2, 3, n, 8) for n in (5, 6, 6)]
    check(Calls(attention), *args, torch.rand(sizes) * 3)
    for wrong in ((5, 1), (6,), (3, 5, 1)):
        check(Calls(attention), *args, torch.rand(wrong))
        assert not is_fused(Calls(attention), *args, torch.rand(wrong))


MATRICES = {
    "plain": lambda x, y, edges, bias: (x @ y.T).softmax(-1) @ y,
    "edges": lambda x, y, edges, bias: (x @ y.T / 3).masked_fill(edges == 0, -torch.inf).softmax(1) @ y,
    "bias": lambda x, y, edges, bias: ((x @ y.T) * bias[:1, :1] + bias).softmax(-1) @ y,
    "edges kept": lambda x, y, edges, bias: torch.where(edges != 0, x @ y.T, -1e4).softmax(1) @ y,
}


@pytest.mark.parametrize("name", MATRICES)
@pytest.mark.parametrize("keys", [16, 40])
def test_matrices_without_batches(name: str, keys: int) -> None:
    """As between the nodes of a graph, with edges as a mask."""
    model = Calls(MATRICES[name])
    x, y, bias = torch.randn(64, 6), torch.randn(keys, 6), torch.randn(64, keys)
    args = x, y, (torch.rand(64, keys) < 0.6).float(), bias
    assert is_fused(model, *args)
    assert "logical_not" not in operators(model, *args)
    check(model, *args)
    nodes = Dim("nodes", min=2, max=99)
    shapes = (({0: nodes}, None, {0: nodes}, {0: nodes}),)
    running = penlight.load(penlight.compile(model, args, dynamic_shapes=shapes).to_bytes())
    fewer = args[0][:4], args[1], args[2][:4], args[3][:4]
    torch.testing.assert_close(running(*fewer), model(*fewer), rtol=1e-5, atol=1e-5, equal_nan=True)


def test_matrices_with_values_first() -> None:
    model, args = Calls(lambda x, y: y.T @ (x @ y.T).softmax(-1).T), (torch.randn(50, 6), torch.randn(45, 6))
    assert is_fused(model, *args)
    check(model, *args)


def test_tiny_matrices_stay() -> None:
    model, args = Calls(lambda x, y: (x @ y.T).softmax(-1) @ y), (torch.randn(4, 4), torch.randn(4, 4))
    assert not is_fused(model, *args)
    check(model, *args)


def test_values_that_heads_share_as_one_matrix() -> None:
    """Softmax is of batches, but the product with values of one matrix."""

    def attention(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        weights = (q @ k.mT).softmax(-1)
        return torch.mm(weights.view(-1, 5), v)

    def together(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        weights = (q @ k.mT).softmax(-1)
        return torch.bmm(weights.view(2, 12, 5), v)

    q, k, v = torch.randn(6, 4, 8), torch.randn(6, 5, 8), torch.randn(5, 3)
    assert not is_fused(Calls(attention), q, k, v)
    check(Calls(attention), q, k, v)
    assert not is_fused(Calls(together), q, k, torch.randn(2, 5, 3))
    check(Calls(together), q, k, torch.randn(2, 5, 3))
    check(Calls(attention), q[:1], k[:1], v)


class MergedHeads(nn.Module):
    """Batches and heads are one dimension where softmax is, and a mask has more than that."""

    def __init__(self, *, filled: bool) -> None:
        super().__init__()
        self.filled = filled
        self.register_buffer("past", torch.ones(24, 24).tril().bool()[None, None])

    def forward(self, x: Tensor) -> Tensor:
        batch, heads, length, _ = x.shape
        past = self.past[:, :, :length, :length]
        scores = x @ x.mT
        scores = scores.masked_fill(~past, -1e4) if self.filled else scores + past
        return scores.view(batch * heads, length, length).softmax(-1).view(batch, heads, length, length) @ x


@pytest.mark.parametrize("filled", [False, True])
def test_masks_of_more_dimensions_and_dynamic_sizes(filled: bool) -> None:
    model, x = MergedHeads(filled=filled), torch.randn(2, 3, 7, 8)
    program = penlight.load(penlight.compile(model, (x,), dynamic_shapes={"x": {2: Dim("length", max=20)}}))
    for length in (1, 7, 20):
        x = torch.randn(2, 3, length, 8)
        torch.testing.assert_close(program(x), model(x), rtol=1e-5, atol=1e-5)
