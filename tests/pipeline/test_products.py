"""Products with constant matrices are layers, factors of queries attention's; fills are folded."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from tests.pipeline.fused import Calls as Function
from tests.pipeline.fused import check, operators
from torch import Tensor, nn
from torch.export import Dim
from torch.nn import functional

import penlight


class Calls(nn.Module):
    """A function of the inputs and of two constants, a matrix and a row."""

    weight: Tensor
    bias: Tensor

    def __init__(self, function: Callable[..., Tensor], width: int = 20) -> None:
        super().__init__()
        self.function = function
        self.register_buffer("weight", torch.randn(12, width))
        self.register_buffer("bias", torch.randn(width))

    def forward(self, x: Tensor) -> Tensor:
        return self.function(x, self.weight, self.bias)


LAYERS: dict[str, Callable[[Tensor, Tensor, Tensor], Tensor]] = {
    "mm": lambda x, w, b: x @ w,
    "addmm": lambda x, w, b: torch.addmm(b, x, w),
    "transposed": lambda x, w, b: x @ w.T.contiguous().T,
    "row after it": lambda x, w, b: (x @ w).relu() + b,
    "more dimensions": lambda x, w, b: torch.addmm(b, x[None].flatten(0, 1), w).view(1, -1, 20) * 2,
    "twice": lambda x, w, b: (x @ w) * torch.addmm(b, -x, w),
    "batches of one": lambda x, w, b: torch.bmm(x[None], w[None])[0] + b,
    "einsum": lambda x, w, b: torch.einsum("nd,dhk->nhk", x, w.view(12, 4, 5)).flatten(1),
    "einsum of batches": lambda x, w, b: torch.einsum("bnd,dhk->bhnk", x[None], w.view(12, 4, 5)).tanh()[
        0, 1
    ],
    "einsum and product": lambda x, w, b: torch.einsum("nd,dk->nk", x, w) * (x @ w),
    "cell": lambda x, w, b: (x @ w).split(5, -1)[2].tanh(),
}


@pytest.mark.parametrize("rows", [1, 7])
@pytest.mark.parametrize("name", LAYERS)
def test_becomes_a_layer(name: str, rows: int) -> None:
    model, x = Calls(LAYERS[name]), torch.randn(rows, 12)
    found = operators(model, x)
    assert "linear_packed" in found and not {"mm", "bmm", "addmm"} & set(found)
    assert "permute_copy" not in found or name == "einsum of batches"
    check(model, x)
    x[0, 3] = torch.inf
    check(model, x)


ADDED: dict[str, Callable[[Tensor, Tensor, Tensor], Tensor]] = {
    "alpha": lambda x, w, b: torch.addmm(b, x, w, alpha=0.5),
    "beta": lambda x, w, b: torch.addmm(b, x, w, beta=2),
    "nothing": lambda x, w, b: torch.addmm(b * torch.nan, x, w, beta=0),
    "a number": lambda x, w, b: torch.addmm(b[0], x, w),
    "a matrix": lambda x, w, b: torch.addmm(x[:, :1] * b, x, w),
    "a computed row": lambda x, w, b: torch.addmm(x[0, 0] * b, x, w, alpha=3, beta=-1.5),
}


@pytest.mark.parametrize("name", ADDED)
def test_what_is_added_comes_after_the_layer(name: str) -> None:
    model, x = Calls(ADDED[name]), torch.randn(7, 12)
    found = operators(model, x)
    assert "linear_packed" in found and not {"mm", "addmm"} & set(found)
    check(model, x)


def test_a_residual_is_added_by_the_layer() -> None:
    model, x = Calls(lambda x, w, b: torch.addmm(x.repeat(1, 2)[:, :20], x, w)), torch.randn(7, 12)
    assert "add" not in operators(model, x)
    check(model, x)


def test_a_sum_of_computed_matrices_is_split() -> None:
    model, x = Calls(lambda x, w, b: torch.addmm(b, x, w * x[0, 0], beta=0.5)), torch.randn(7, 12)
    found = operators(model, x)
    assert "mm" in found and "addmm" not in found
    check(model, x)


STAYS: dict[str, Callable[[Tensor, Tensor, Tensor], Tensor]] = {
    "read elsewhere": lambda x, w, b: x @ w + (w * x[0, 0]).sum(0),
    "a weight of inputs": lambda x, w, b: x @ (w * x[0, 0]),
    "several batches": lambda x, w, b: torch.bmm(x.expand(2, -1, -1), w.view(12, 2, 10).transpose(0, 1)),
    "left factor": lambda x, w, b: w.T[:, :7] @ x,
}


@pytest.mark.parametrize("name", STAYS)
def test_other_products_stay(name: str) -> None:
    model, x = Calls(STAYS[name]), torch.randn(7, 12)
    assert "linear_packed" not in operators(model, x)
    check(model, x)


def test_double_precision_stays() -> None:
    model, x = Calls(lambda x, w, b: torch.addmm(b.double(), x, w.double())), torch.randn(3, 12).double()
    assert "linear_packed" not in operators(model, x)
    check(model, x)


def test_products_left_out() -> None:
    model, x = Calls(LAYERS["addmm"]), torch.randn(3, 12)
    assert "addmm" in operators(model, x, without=["constant_products"])
    check(model, x, without=["constant_products"])


class Attention(nn.Module):
    def __init__(self, factor: Callable[[Tensor], Tensor], scale: float | None = 1.0) -> None:
        super().__init__()
        self.factor, self.scale = factor, scale
        self.query, self.key = nn.Linear(24, 24), nn.Linear(24, 24)

    def forward(self, x: Tensor) -> Tensor:
        q, k = (
            self.factor(layer(x)).unflatten(-1, (3, 8)).transpose(1, 2) for layer in (self.query, self.key)
        )
        y = functional.scaled_dot_product_attention(q, k, k.relu(), scale=self.scale)
        return y.transpose(1, 2).flatten(2)


@pytest.mark.parametrize("scale", [1.0, None, 0.3])
@pytest.mark.parametrize("factor", [lambda x: x * 0.25, lambda x: x / 3, lambda x: -2 * x])
def test_attention_scales_queries(factor: Callable[[Tensor], Tensor], scale: float | None) -> None:
    model, x = Attention(factor, scale), torch.randn(2, 9, 24)
    found = operators(model, x, without=["fold_affine"])
    assert found.count("mul") + found.count("div") == 1, "keys are read elsewhere too"
    check(model, x, without=["fold_affine"])
    x[0, 2, 3] = torch.nan
    check(model, x, without=["fold_affine"])


def test_attention_leaves_what_is_no_scale() -> None:
    model, x = Attention(lambda x: x * 0.0), torch.randn(1, 5, 24)
    assert "mul" in operators(model, x)
    check(model, x)


@pytest.mark.parametrize("places", [(0, 0, 0), (0, 0, 1), (0, 1, 0), (1, 0, 0)])
@pytest.mark.parametrize("turned", [False, True])
def test_attention_of_one_scaled_tensor(places: tuple[int, ...], turned: bool) -> None:
    """Taking the factor from queries would take it from keys or values too."""

    def attention(*args: Tensor) -> Tensor:
        scaled, other = args[0] * 0.25, args[1]
        read = [(scaled, other)[place] for place in places]
        return functional.scaled_dot_product_attention(*(x.transpose(1, 2) if turned else x for x in read))

    def written(*args: Tensor) -> Tensor:
        scaled = args[0] * 0.25
        return (scaled @ scaled.mT).softmax(-1) @ (args[1], scaled)[places[2]]

    for function in (attention, written):
        check(Function(function), torch.randn(2, 4, 4, 8), torch.randn(2, 4, 4, 8))


def test_attention_scale_left_out() -> None:
    model, x = Attention(lambda x: x * 0.25), torch.randn(1, 5, 24)
    names = ["fold_attention_scale", "fold_affine"]
    assert operators(model, x, without=names).count("mul") == 2
    check(model, x, without=names)


def windows(x: Tensor) -> Tensor:
    """A mask made of pieces, as networks with shifted windows have it."""
    mask = x.new_zeros(80, 80)
    for count, (start, stop) in enumerate(((0, 30), (30, 60), (60, 80))):
        mask[start:stop, start:stop] = count + 1.0
    return x * mask.masked_fill(mask == 0, -2.0) + torch.full_like(x, 3.0) * torch.ones_like(x[:1])


def test_fills_of_known_sizes_are_folded() -> None:
    x = torch.randn(80, 80)
    model = Calls(lambda x, w, b: windows(x))
    assert set(operators(model, x)) <= {"mul", "add", "elementwise"}
    check(model, x)


def test_a_large_fill_is_not_kept() -> None:
    """The file stays small where few operators would go."""
    model, x = Calls(lambda x, w, b: x + torch.full_like(x, 2.0).cumsum(0)), torch.randn(500, 200)
    assert len(penlight.compile(model, (x,)).to_bytes()) < 20_000
    check(model, x)


class Biased(nn.Module):
    """Adds what a table has for the distance of each pair of rows, as windows' attention does."""

    def __init__(self, weights: int) -> None:
        super().__init__()
        self.layer = nn.Linear(weights, 100)
        self.table = nn.Parameter(torch.randn(199, 8))

    def forward(self, x: Tensor) -> Tensor:
        places = torch.arange(100)
        distance = places[:, None] - places[None, :] + 99
        bias = self.table[distance.view(-1)].view(100, 100, 8).permute(2, 0, 1)
        return self.layer(x).softmax(-1)[:, None, None] + bias


def test_tables_read_at_constant_places() -> None:
    """Folded where the weights are so many that the file hardly grows; else only the places are."""
    for weights, folded in ((50_000, True), (100, False)):
        model, x = Biased(weights), torch.randn(2, weights)
        found = operators(model, x)
        assert ("index" in found) is not folded
        assert "permute_copy" not in found or not folded
        assert "arange" not in found, "as small as it is"
        check(model, x)


class Positions(nn.Module):
    """Attends by position alone, beside what the rows say, as ConViT does."""

    def __init__(self, weights: int, count: int = 1) -> None:
        super().__init__()
        self.layer = nn.Linear(weights, 16)
        self.of_distance = nn.ModuleList(nn.Linear(3, 16) for _ in range(count))
        places = torch.arange(80.0)
        distance = places[:, None] - places[None, :]
        self.register_buffer("distances", torch.stack([distance, distance**2, distance.abs()], -1) / 100)

    def forward(self, x: Tensor) -> Tensor:
        result = self.layer(x)[:, :, None, None]
        for layer in self.of_distance:
            result = result * layer(self.distances).permute(2, 0, 1).softmax(-1)
        return result


def test_what_takes_long_to_compute() -> None:
    for weights, folded in ((100_000, True), (1_000, False)):
        model, x = Positions(weights), torch.randn(2, weights)
        found = operators(model, x)
        assert ("_softmax" in found) is not folded
        check(model, x)


def test_what_takes_long_is_a_third_of_the_weights_at_most() -> None:
    """However often constants are folded."""
    model, x = Positions(50_000, 8), torch.randn(2, 50_000)
    weights, each = 50_000 * 16 * 4, 16 * 80 * 80 * 4
    assert operators(model, x).count("_softmax") == 8 - weights // 3 // each
    assert len(penlight.compile(model, (x,)).to_bytes()) < weights * 4 // 3 + each // 2
    check(model, x)


@pytest.mark.parametrize("dim", [0, 1, None])
def test_weight_norm_is_folded(dim: int | None) -> None:
    """Its weights are made when the file is written, a piece at a time, not in each run."""
    for layer, x in (
        (nn.Linear(700, 600), torch.randn(3, 700)),
        (nn.Conv1d(40, 60, 3), torch.randn(2, 40, 30)),
        (nn.ConvTranspose1d(40, 60, 4, 2), torch.randn(2, 40, 30)),
    ):
        model = nn.utils.parametrizations.weight_norm(layer, dim=dim)
        assert not {"linalg_vector_norm", "div", "mul"} & {*operators(model, x)}
        check(model, x)


def test_what_follows_is_fused_with_dynamic_rows() -> None:
    """As GPT-2 has its layers: rows below each other, and apart again."""
    model = Calls(
        lambda x, w, b: functional.gelu(torch.addmm(b, x.reshape(-1, 12), w).view(*x.shape[:2], 20))
    )
    x = torch.randn(2, 6, 12)
    shapes = ({0: Dim("batch", max=4), 1: Dim("rows", max=9)},)
    program = penlight.load(penlight.compile(model, (x,), dynamic_shapes=shapes).to_bytes())
    assert not [name for name in program["forward"].instruction_names() if "gelu" in name]
    for sizes in ((2, 6), (4, 9), (1, 1)):
        other = torch.randn(*sizes, 12)
        torch.testing.assert_close(program(other), model(other), rtol=1e-5, atol=1e-5)
