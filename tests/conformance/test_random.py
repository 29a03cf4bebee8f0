"""Random operators: equal to their documented generator, seeded, and distributed as they say.

torch's own numbers are another sequence, so ATen is no reference here.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import penlight
from penlight.errors import RuntimeFailure

#: What is tried here and cannot be in the tables of cases.
KERNELS = frozenset(
    {
        "aten::bernoulli.Tensor_out",
        "aten::bernoulli.float_out",
        "aten::bernoulli.out",
        "aten::binomial.out",
        "aten::exponential.out",
        "aten::multinomial.out",
        "aten::native_dropout.out",
        "aten::normal.Tensor_Tensor_out",
        "aten::normal.Tensor_float_out",
        "aten::normal.float_Tensor_out",
        "aten::normal.float_float_out",
        "aten::normal_functional.out",
        "aten::poisson.out",
        "aten::rand.out",
        "aten::rand_like.out",
        "aten::randint.low_out",
        "aten::randint.out",
        "aten::randint_like.low_dtype_out",
        "aten::randint_like.out",
        "aten::randn.out",
        "aten::randn_like.out",
        "aten::random.from_out",
        "aten::random.out",
        "aten::random.to_out",
        "aten::randperm.out",
        "aten::uniform.out",
        "prims::normal.out",
        "prims::uniform.out",
    }
)

MANY = 20_000


class Drawing(torch.nn.Module):
    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, *args: torch.Tensor) -> Any:
        return self.function(*args)


def load(function: Callable[..., Any], *args: torch.Tensor) -> Any:
    return penlight.load(penlight.compile(Drawing(function), args).to_bytes())


def draw(function: Callable[..., Any], *args: torch.Tensor) -> Any:
    """One call of a program that holds nothing but `function`."""
    return torch.as_tensor(load(function, *args)(*args))


def philox(counter: tuple[int, int, int, int], key: tuple[int, int]) -> list[int]:
    """Philox4x32-10 as its paper defines it."""
    c, (k0, k1) = list(counter), key
    for _ in range(10):
        a, b = 0xD2511F53 * c[0], 0xCD9E8D57 * c[2]
        c = [b >> 32 ^ c[1] ^ k0, b & 0xFFFFFFFF, a >> 32 ^ c[3] ^ k1, a & 0xFFFFFFFF]
        k0, k1 = (k0 + 0x9E3779B9) & 0xFFFFFFFF, (k1 + 0xBB67AE85) & 0xFFFFFFFF
    return c


def bits(count: int, seed: int = 0, call: int = 0) -> list[int]:
    """64 bits for each element of one call, as kernels/portable/random.h describes them."""
    found = []
    for i in range(count):
        words = philox((i // 2, 0, call & 0xFFFFFFFF, call >> 32), (seed & 0xFFFFFFFF, seed >> 32))
        found.append(words[i % 2 * 2] | words[i % 2 * 2 + 1] << 32)
    return found


def test_philox_known_answers() -> None:
    """The vectors published with the generator, for the reference that the kernels are compared with."""
    assert philox((0,) * 4, (0,) * 2) == [0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8]
    ones = 0xFFFFFFFF
    assert philox((ones,) * 4, (ones,) * 2) == [0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD]
    pi = (0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344)
    assert philox(pi, (0xA4093822, 0x299F31D0)) == [0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1]


@pytest.mark.parametrize(
    ("dtype", "digits"), [(torch.float64, 53), (torch.float32, 24), (torch.float16, 11), (torch.bfloat16, 8)]
)
def test_rand_is_the_documented_generator(dtype: torch.dtype, digits: int) -> None:
    model = load(lambda x: torch.rand(3, 7, dtype=dtype) + x, torch.zeros(1, dtype=dtype))
    model.seed(2**40 + 5)
    for call in range(2):
        want = [(word >> (64 - digits)) * 2.0**-digits for word in bits(21, 2**40 + 5, call)]
        got = torch.as_tensor(model(torch.zeros(1, dtype=dtype)))
        assert got.double().flatten().tolist() == want


def test_randn_is_the_normal_quantile() -> None:
    got = draw(lambda x: torch.randn(999, dtype=torch.float64) + x, torch.zeros(1, dtype=torch.float64))
    uniform = torch.tensor([((word >> 12) + 0.5) * 2.0**-52 for word in bits(999)], dtype=torch.float64)
    torch.testing.assert_close(got, torch.special.ndtri(uniform), rtol=1e-13, atol=1e-13)


def test_randint_takes_the_remainder() -> None:
    got = draw(lambda x: torch.randint(-5, 12, (50,)) + x, torch.zeros(1, dtype=torch.int64))
    assert got.tolist() == [word % 17 - 5 for word in bits(50)]


def test_seed_decides() -> None:
    x = torch.zeros(100)
    model = load(lambda x: (torch.rand_like(x), torch.rand_like(x)), x)
    first, second = (torch.as_tensor(value).clone() for value in model(x))
    assert not torch.equal(first, second), "two operators of one program draw alike"
    assert not torch.equal(first, torch.as_tensor(model(x)[0])), "two runs draw alike"
    model.seed(0)
    assert torch.equal(first, torch.as_tensor(model(x)[0])), "a program is opened with seed 0"
    model.seed(1)
    assert not torch.equal(first, torch.as_tensor(model(x)[0]))
    with pytest.raises(penlight.errors.InvalidInput, match="64 bits"):
        model.seed(-1)


def test_methods_share_one_state() -> None:
    """The second method goes on where the first one stopped."""
    x = torch.zeros(8)
    exported = torch.export.export(Drawing(torch.rand_like), (x,))
    model = penlight.load(penlight.compile({"a": exported, "b": exported}).to_bytes())
    first, second = (torch.as_tensor(model[name](x)).clone() for name in ("a", "b"))
    assert not torch.equal(first, second)
    model.seed(0)
    assert torch.equal(torch.as_tensor(model["b"](x)), first)


def test_layout_does_not_matter() -> None:
    """An element's number depends on its place, not on where it lies in memory."""
    x = torch.zeros(2, 3, 5, 4)
    plain, last = draw(torch.rand_like, x), draw(torch.rand_like, x.to(memory_format=torch.channels_last))
    assert torch.equal(plain, last)


DISTRIBUTIONS: list[tuple[str, Callable[[torch.Tensor], Any], float, float]] = [
    ("rand", torch.rand_like, 1 / 2, 1 / 12),
    ("randn", torch.randn_like, 0, 1),
    ("uniform_", lambda x: x.clone().uniform_(2, 8), 5, 3),
    ("normal_", lambda x: x.clone().normal_(3, 2), 3, 4),
    ("normal tensors", lambda x: torch.normal(x + 3, x + 2), 3, 4),
    ("normal of a tensor and a number", lambda x: torch.normal(x + 3, 2.0), 3, 4),
    ("normal of a number and a tensor", lambda x: torch.normal(3.0, x + 2), 3, 4),
    ("normal of numbers", lambda x: torch.normal(3.0, 2.0, (MANY,)) + x, 3, 4),
    ("exponential_", lambda x: x.clone().exponential_(4), 1 / 4, 1 / 16),
    ("bernoulli", lambda x: torch.bernoulli(x + 0.3), 0.3, 0.21),
    ("bernoulli of a number", lambda x: torch.bernoulli(x, 0.3), 0.3, 0.21),
    ("bernoulli_ of a tensor", lambda x: x.clone().bernoulli_(x + 0.3), 0.3, 0.21),
    ("dropout", lambda x: torch.nn.functional.dropout(x + 1, 0.25, True), 1, 1 / 3),
    ("bernoulli_ of a number", lambda x: x.clone().bernoulli_(0.3), 0.3, 0.21),
    ("feature dropout", lambda x: torch.nn.functional.dropout1d((x + 1)[:, None], 0.25, True), 1, 1 / 3),
    ("alpha dropout", lambda x: torch.nn.functional.alpha_dropout(x + 1, 0.5, True), 0.4432, 1.4943),
    ("randint_like", lambda x: torch.randint_like(x, 1, 7), 3.5, 35 / 12),
    ("randint_like to", lambda x: torch.randint_like(x, 6), 2.5, 35 / 12),
    ("randint to", lambda x: torch.randint(6, (MANY,)) + x, 2.5, 35 / 12),
    ("random_ to", lambda x: x.clone().random_(6), 2.5, 35 / 12),
    ("geometric_", lambda x: x.clone().geometric_(0.5), 2, 2),
    ("poisson, seldom", lambda x: torch.poisson(x + 0.3), 0.3, 0.3),
    ("poisson, often", lambda x: torch.poisson(x + 10.5), 10.5, 10.5),
    ("poisson, very often", lambda x: torch.poisson(x + 4000), 4000, 4000),
    ("binomial, seldom", lambda x: torch.binomial(x + 7, x + 0.2), 1.4, 1.12),
    ("binomial, mostly", lambda x: torch.binomial(x + 7, x + 0.9), 6.3, 0.63),
    ("binomial, often", lambda x: torch.binomial(x + 300, x + 0.4), 120, 72),
    ("gumbel", lambda x: -torch.log(torch.empty_like(x).exponential_()), 0.5772157, 1.6449341),
]


@pytest.mark.parametrize(
    ("function", "mean", "variance"), [pytest.param(*row, id=name) for name, *row in DISTRIBUTIONS]
)
def test_moments(function: Callable[..., Any], mean: float, variance: float) -> None:
    """Mean within five standard errors, variance within a tenth."""
    got = draw(function, torch.zeros(MANY)).double()
    assert abs(got.mean().item() - mean) < 5 * (variance / MANY) ** 0.5
    assert abs(got.var().item() / variance - 1) < 0.1


def test_uniform_fills_every_cell_evenly() -> None:
    """Chi-square of 64 cells: 63 degrees of freedom, 130 is beyond 1 in 100,000."""
    cells = torch.bincount((draw(torch.rand_like, torch.zeros(MANY)) * 64).long(), minlength=64)
    assert ((cells - MANY / 64) ** 2 / (MANY / 64)).sum() < 130


def assert_shares(got: torch.Tensor, chances: torch.Tensor) -> None:
    """Chi-square of the values that are expected 10 times, within six deviations of its mean."""
    found = torch.bincount(got.long(), minlength=len(chances))[: len(chances)]
    kept = chances * MANY > 10
    square = ((found - chances * MANY) ** 2 / (chances * MANY))[kept].sum()
    cells = int(kept.sum())
    assert square < cells + 6 * (2 * cells) ** 0.5


@pytest.mark.parametrize("rate", [0.01, 3.7, 9.99, 10.0, 31.5])
def test_poisson_shares(rate: float) -> None:
    number = torch.arange(100, dtype=torch.float64)
    chances = torch.exp(number * np.log(rate) - rate - torch.lgamma(number + 1))
    assert_shares(draw(lambda x: torch.poisson(x + rate), torch.zeros(MANY, dtype=torch.float64)), chances)


@pytest.mark.parametrize(
    ("count", "chance"), [(1, 0.5), (20, 0.3), (20, 0.75), (60, 0.5), (500, 0.03), (9, 1e-5)]
)
def test_binomial_shares(count: int, chance: float) -> None:
    number = torch.arange(count + 1, dtype=torch.float64)
    total = torch.tensor(float(count), dtype=torch.float64)
    ways = torch.lgamma(total + 1) - torch.lgamma(number + 1) - torch.lgamma(total - number + 1)
    chances = torch.exp(ways + number * np.log(chance) + (count - number) * np.log1p(-chance))
    zeros = torch.zeros(MANY, dtype=torch.float64)
    assert_shares(draw(lambda x: torch.binomial(x + count, x + chance), zeros), chances)


def test_certain_numbers_of_events() -> None:
    assert not draw(torch.poisson, torch.zeros(9)).any()
    count = torch.tensor([0.0, 5.0, 1000.0])
    model = load(lambda n, p: torch.binomial(n, p), count, torch.zeros(2, 1))
    got = torch.as_tensor(model(count, torch.tensor([[0.0], [1.0]])))
    assert got.tolist() == [[0, 0, 0], [0, 5, 1000]]


def test_random_fills_the_dtype() -> None:
    small = draw(lambda x: x.clone().random_(), torch.zeros(MANY, dtype=torch.int8))
    assert sorted(set(small.tolist())) == list(range(128))
    wide = draw(lambda x: x.clone().random_(), torch.zeros(99, dtype=torch.int64))
    assert wide.min() >= 0 and wide.max() > 2**60


def test_native_dropout() -> None:
    x = torch.arange(1.0, 1001)
    kept, mask = (
        torch.as_tensor(value) for value in load(lambda x: torch.native_dropout(x, 0.4, True), x)(x)
    )
    torch.testing.assert_close(kept, torch.where(mask, x / 0.6, 0.0))
    assert 500 < mask.sum() < 700
    everything, mask = (
        torch.as_tensor(value) for value in load(lambda x: torch.native_dropout(x, 0.4, False), x)(x)
    )
    assert torch.equal(everything, x) and mask.all()
    assert not draw(lambda x: torch.native_dropout(x, 1.0, True)[0], x).any()


@pytest.mark.parametrize("dtype", [torch.int64, torch.int32, torch.float32])
def test_randperm(dtype: torch.dtype) -> None:
    model = load(lambda x: torch.randperm(5, dtype=dtype) + x, torch.zeros(1, dtype=dtype))
    counts = np.zeros((5, 5))
    for _ in range(2000):
        order = torch.as_tensor(model(torch.zeros(1, dtype=dtype))).long()
        assert sorted(order.tolist()) == [0, 1, 2, 3, 4]
        counts[np.arange(5), order.numpy()] += 1
    assert (abs(counts - 400) < 100).all()  # five standard deviations


def test_multinomial() -> None:
    weights = torch.tensor([[1.0, 0.0, 3.0, 6.0], [5.0, 5.0, 0.0, 0.0]])
    got = draw(lambda w: torch.multinomial(w, MANY, replacement=True), weights)
    for row, weight in zip(got, weights, strict=True):
        share = torch.bincount(row, minlength=4) / MANY
        torch.testing.assert_close(share, weight / weight.sum(), atol=0.02, rtol=0)
    few = load(lambda w: torch.multinomial(w, 2), weights)
    for _ in range(50):
        first, second = torch.as_tensor(few(weights))
        assert len(set(first.tolist())) == 2 and 1 not in first
        assert sorted(second.tolist()) == [0, 1]


@pytest.mark.parametrize(
    ("function", "argument", "message"),
    [
        (torch.bernoulli, torch.tensor([0.5, 1.5]), "probability"),
        (torch.bernoulli, torch.tensor([float("nan")]), "probability"),
        (lambda w: torch.multinomial(w, 1), torch.tensor([-1.0, 2.0]), "negative"),
        (lambda w: torch.multinomial(w, 2), torch.tensor([0.0, 2.0]), "above 0"),
        (torch.poisson, torch.tensor([1.0, -1.0]), "rate"),
        (torch.poisson, torch.tensor([1.0, float("inf")]), "rate"),
        (lambda p: torch.binomial(p * 0 + 5, p), torch.tensor([0.5, 1.5]), "probability"),
        (lambda n: torch.binomial(n, n * 0 + 0.5), torch.tensor([-1.0, 2.0]), "count"),
    ],
)
def test_impossible_arguments(function: Callable[..., Any], argument: torch.Tensor, message: str) -> None:
    model = load(function, torch.ones_like(argument) / 2)
    with pytest.raises(RuntimeFailure, match=message):
        model(argument)
    model(torch.ones_like(argument) / 2)  # and the program still runs


ZERO = torch.zeros(1)
DRAWN: dict[str, Callable[[int], Any]] = {
    "rand": lambda count: torch.rand(count),
    "rand_like": lambda count: torch.rand_like(torch.zeros(count)),
    "uniform": lambda count: torch.zeros(count).uniform_(-3.3, 7.1),
    "randn": lambda count: torch.randn(count),
    "randn_like": lambda count: torch.randn_like(torch.zeros(count)),
    "normal_": lambda count: torch.zeros(count).normal_(1.3, 2.7),
    "normal": lambda count: torch.normal(0.3, 1.7, (count,)),
}


@pytest.mark.parametrize("count", [1, 2, 7, 33, 1001, 300_001])
@pytest.mark.parametrize("name", DRAWN)
def test_vectors_draw_the_same_numbers(isa: str, name: str, count: int) -> None:
    """To the bit, whatever the vectors' width and however many threads there are."""
    program = penlight.compile(Drawing(lambda x: (DRAWN[name](count) + 0 * x, DRAWN[name](count))), (ZERO,))
    drawn = []
    for libraries in (["portable"], None):
        loaded = penlight.load(program.to_bytes(), libraries=libraries)
        loaded.seed(2**63 + 11)
        drawn.append([torch.as_tensor(part) for _ in range(2) for part in loaded(ZERO)])
    for one, other in zip(*drawn, strict=True):
        assert torch.equal(one, other)
