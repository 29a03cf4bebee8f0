"""Chains of elementwise operators become one call; what may not join stays what it was."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable

import pytest
import torch
from tests.pipeline.fused import Calls
from torch import Tensor, nn
from torch.export import Dim
from torch.nn import functional

import penlight
from penlight.dialects.elementwise_op import MEANING
from penlight.kernels.elementwise import ElementOp
from penlight.pipeline import export, to_edge


def operators(function: Callable[..., object], *args: Tensor, **options: object) -> Counter[str]:
    graph = to_edge(export(Calls(function), args), **options).methods["forward"].graph
    return Counter(
        str(node.target).removesuffix(".default").split(".", 1)[1]
        for node in graph.nodes
        if node.op == "call_function" and "." in str(node.target)
    )


def programs(function: Callable[..., object], *args: Tensor) -> list[list[ElementOp]]:
    """The operations of each chain."""
    graph = to_edge(export(Calls(function), args)).methods["forward"].graph
    return [
        [ElementOp(op) for op in node.args[3][::5]]
        for node in graph.nodes
        if node.target is torch.ops.penlight.elementwise.default
    ]


# Where gelu is small it is x / 2 times a difference: 7 units of erf beside 1, and ATen's own, for x to -5.
ATOL = 3e-6


def check(function: Callable[..., object], *args: Tensor, **options: object) -> None:
    model = Calls(function)
    program = penlight.load(penlight.compile(model, args, **options).to_bytes())
    torch.testing.assert_close(program(*args), model(*args), rtol=1e-5, atol=ATOL, equal_nan=True)


A, B, ROW, COLUMN = torch.randn(2, 6, 40), torch.randn(2, 6, 40), torch.rand(40) + 0.5, torch.randn(2, 6, 1)
ONE: dict[str, Callable[[Tensor], Tensor]] = {
    "neg": torch.neg,
    "abs": torch.abs,
    "relu": torch.relu,
    "square": torch.square,
    "sqrt": lambda x: x.abs().sqrt(),
    "rsqrt": lambda x: (x * x + 1).rsqrt(),
    "reciprocal": torch.reciprocal,
    "exp": torch.exp,
    "log": lambda x: (x.abs() + 1).log(),
    "sin": torch.sin,
    "cos": torch.cos,
    "erf": torch.erf,
    "sigmoid": torch.sigmoid,
    "tanh": torch.tanh,
    "silu": functional.silu,
    "gelu": functional.gelu,
    "gelu_tanh": lambda x: functional.gelu(x, approximate="tanh"),
    "hardsigmoid": functional.hardsigmoid,
    "hardswish": functional.hardswish,
    "relu6": functional.relu6,
    "hardtanh": lambda x: functional.hardtanh(x, -0.5, 0.25),
    "leaky_relu": lambda x: functional.leaky_relu(x, 0.3),
    "clamp": lambda x: x.clamp(-0.5, 0.5),
    "clamp_min": lambda x: x.clamp(min=0.1),
    "clamp_max": lambda x: x.clamp_max(0.1),
    "add": lambda x: x + 2,
    "sub": lambda x: x - 0.5,
    "rsub": lambda x: 1 - x,
    "mul": lambda x: x * 3,
    "div": lambda x: x / 3,
    "alpha": lambda x: torch.add(x, B, alpha=0.3) + torch.sub(x, ROW, alpha=2),
    "minimum": lambda x: torch.minimum(x, ROW),
    "maximum": lambda x: torch.maximum(x, COLUMN),
    "square_of_power": lambda x: x**2,
    "cube": lambda x: x**3,
    "other powers": lambda x: (x.abs() + 1) ** 1.7 + 1.5**x + (x.abs() + 0.1).pow(B),
    "powers": lambda x: (x.abs() + 1) ** 0.5 + (x.abs() + 1) ** -0.5 + x**-1.0 + x**-2,
    "where": lambda x: torch.where(x > 0.2, x, B),
    "comparisons": lambda x: torch.where((x < B) & ~(x >= ROW) | (x == 0) | (x != x), x, 0.5),
    "masked": lambda x: x.masked_fill(B > 0, -1e4),
    "prelu": lambda x: functional.prelu(x, ROW[:6]),
    "addcmul": lambda x: torch.addcmul(x, B, ROW, value=0.5),
    "condition as a number": lambda x: (x > 0.5).to(torch.float32),
    "both conditions": lambda x: ((x >= -1) & (x < B)).float(),
    "times a mask": lambda x: x * (B > 0),
    "plus a condition": lambda x: (x > B) + x,
    "expm1": torch.expm1,
    "log1p": lambda x: torch.log1p(x.abs()),
    "atan2": lambda x: torch.atan2(x, B),
    "atan": torch.atan,
    "asin": lambda x: torch.asin(x / 9),
    "acos": lambda x: torch.acos(x / 9),
    "exp2": torch.exp2,
    "log2": lambda x: torch.log2(x.abs() + 0.01),
    "log10": lambda x: torch.log10(x.abs() + 0.01),
    "sinh": torch.sinh,
    "cosh": torch.cosh,
    "tan": lambda x: torch.tan(x / 9),
    "asinh": torch.asinh,
    "acosh": lambda x: torch.acosh(x.abs() + 1.1),
    "erfc": torch.erfc,
    "lgamma": torch.lgamma,
    "atanh": lambda x: torch.atanh(x / 9),
    "hypot": lambda x: torch.hypot(x, B),
    "fmod": lambda x: torch.fmod(x, 0.3),
    "elu": lambda x: functional.elu(x, 0.7),
    "softplus": lambda x: functional.softplus(x, beta=0.5),
    "mish": functional.mish,
    "whole numbers": lambda x: x.floor() + 2 * x.ceil() + 4 * x.trunc() + 8 * x.round(),
    "lerp near the start": lambda x: x.lerp(B, 0.25),
    "lerp near the end": lambda x: x.lerp(B, 0.75),
    "lerp by a tensor": lambda x: x.lerp(B, ROW),
    "isinf": lambda x: torch.isinf(x / (x > 0)),
    "isposinf": lambda x: torch.isposinf(x / (x > 0)),
    "isneginf": lambda x: torch.isneginf(x / (x > 0)),
    "sign": lambda x: torch.sign(torch.where(x > 2, 0, x / (x > 0) * (x > -1))),
    "nan_to_num": lambda x: torch.nan_to_num(x / (x > 0)),
    "nan_to_num of numbers": lambda x: torch.nan_to_num(x / (x > 0), 1.5, 2.5, -3.5),
}


@pytest.mark.parametrize("name", ONE)
def test_an_operator_joins_a_chain(name: str) -> None:
    def function(x: Tensor, other: Tensor) -> Tensor:
        return ONE[name](x * 0.5 + other) * other

    found = operators(function, A, B)
    assert set(found) <= {"elementwise", "view_copy", "unsqueeze_copy"} and found["elementwise"] == 1, found
    check(function, A, B)


def test_divisions_are_those_of_aten() -> None:
    """Remainders and whole quotients, bit for bit: all pairs of what is special, whole and near to it."""
    special = [0.0, -0.0, 1.0, -1.0, 0.3, -0.3, 7.0, -7.0, 1e-5, 3e4, torch.inf, -torch.inf, torch.nan]
    numbers = torch.cat([torch.tensor(special), torch.randn(60), torch.arange(-9.0, 9.0) * 0.1])
    x, y = (grid.contiguous() for grid in torch.meshgrid(numbers, numbers, indexing="ij"))
    functions: list[Callable[[Tensor, Tensor], Tensor]] = [
        torch.fmod,
        torch.remainder,
        torch.floor_divide,
        lambda x, y: torch.div(x, y, rounding_mode="floor"),
        lambda x, y: torch.div(x, y, rounding_mode="trunc"),
        lambda x, y: torch.remainder(3.5, y),
        *(lambda x, y, n=n: torch.remainder(x, n) for n in (0.7, -2.0, 0.0)),
        *(lambda x, y, n=n: torch.floor_divide(x, n) for n in (0.7, -2.0, 0.0)),
    ]
    for function in functions:
        assert operators(function, x, y).get("elementwise") == 1
        program = penlight.load(penlight.compile(Calls(function), (x, y)).to_bytes())
        got, want = program(x, y), function(x, y)
        torch.testing.assert_close(got, want, rtol=0, atol=0, equal_nan=True)
        known = ~want.isnan()
        assert torch.equal(got.signbit()[known], want.signbit()[known])


ALONE: dict[str, Callable[[Tensor], Tensor]] = {
    "elu": functional.elu,
    "elu of slopes": lambda x: functional.elu(x, alpha=0.3),
    "selu": functional.selu,
    "celu": lambda x: functional.celu(x, alpha=2.5),
    "celu below": lambda x: functional.celu(x, alpha=-0.5),
    "softplus": functional.softplus,
    "softplus of slopes": lambda x: functional.softplus(x, beta=2.5, threshold=3),
    "softplus below": lambda x: functional.softplus(x, beta=-1.5, threshold=30),
    "mish": functional.mish,
    "log of sigmoid": functional.logsigmoid,
    "threshold": lambda x: functional.threshold(x, 0.5, -3.0),
    "softshrink": functional.softshrink,
    "softshrink of more": lambda x: functional.softshrink(x, 2.25),
    "hardshrink": functional.hardshrink,
    "hardshrink of less": lambda x: functional.hardshrink(x, -1.0),
    "logit": torch.logit,
    "logit inside": lambda x: torch.logit(x, eps=1e-3),
    "fraction": torch.frac,
}


@pytest.mark.parametrize("name", ALONE)
def test_an_activation_of_several_steps_alone(name: str) -> None:
    special = torch.tensor(
        [0.0, -0.0, 1e-8, -1e-8, 88.9, -88.9, 1e30, -1e30, torch.inf, -torch.inf, torch.nan]
    )
    x = torch.cat([special, torch.linspace(-30, 30, 401)])
    function = ALONE[name]
    assert len(programs(function, x)) == 1
    model = Calls(function)
    program = penlight.load(penlight.compile(model, (x,)).to_bytes())
    torch.testing.assert_close(program(x), function(x.double()).float(), rtol=2e-6, atol=1e-7, equal_nan=True)
    assert not programs(function, x.double()), "chains are of float32"


@pytest.mark.parametrize(
    "function",
    [
        lambda x, a: functional.elu(x, alpha=a.item()),
        lambda x, a: functional.softplus(x * 1.0, beta=a.item() + 1),
        lambda x, a: functional.celu(x, alpha=a.item() + 0.5) * 2,
        lambda x, a: functional.softplus(x, beta=x.shape[0]),
        lambda x, a: functional.hardshrink(x * 2, lambd=a.item()),
    ],
)
def test_numbers_that_are_known_when_it_runs(function: Callable[..., Tensor]) -> None:
    check(function, torch.randn(3, 40), torch.tensor(0.5))


CONDITIONS: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "greater than a number": lambda x, y: x > 0.25,
    "not equal": lambda x, y: x != y,
    "between": lambda x, y: (y <= x) & ~(x >= 1),
    "both masks": lambda x, y: (x > 0) & B.gt(0),
    "filled": lambda x, y: x.masked_fill(B > 0, -1.0),
    "as numbers": lambda x, y: (B > 0).to(torch.float32) + 0 * x,
    "one of two": lambda x, y: (x > 0) ^ (B > 0),
    "one of two, by name": lambda x, y: torch.logical_xor(x > 0, B > 0),
    "not a number": lambda x, y: torch.isnan((x * B).sqrt()),
}


@pytest.mark.parametrize("name", CONDITIONS)
def test_conditions_are_results_of_chains(name: str) -> None:
    function = CONDITIONS[name]
    found = operators(function, A, COLUMN)
    assert set(found) == {"elementwise"} and found["elementwise"] == 1, found
    check(function, A, COLUMN)


def test_conditions_of_integers_are_no_chains() -> None:
    numbers = torch.arange(480).view(2, 6, 40)
    assert not programs(lambda x: x > 7, numbers)
    assert not programs(lambda x: x & 1, numbers)
    assert not programs(lambda x: (x > 7).to(torch.float64), numbers)
    check(lambda x: (x > 7) & (x < 300), numbers)


def test_broadcast_operands_are_read_as_they_are() -> None:
    def function(x: Tensor, row: Tensor, column: Tensor, number: Tensor) -> Tensor:
        return (x - column) * row + number * x

    args = (A, ROW, COLUMN, torch.tensor(0.7))
    assert operators(function, *args) == {"elementwise": 1}
    check(function, *args)


def test_a_value_that_something_else_reads_is_computed_once() -> None:
    def function(x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        shared = x.exp() + y
        return shared.tanh() * shared, shared.sum(-1)

    assert operators(function, A, B) == {"elementwise": 2, "sum.dim_IntList": 1}
    check(function, A, B)


def test_a_value_that_the_chain_reads_twice_is_computed_once() -> None:
    assert programs(lambda x, y: (x + y).tanh() * (x + y), A, B) == [
        [ElementOp.ADD, ElementOp.TANH, ElementOp.MUL]
    ]


def test_small_values_are_not_computed_for_every_element() -> None:
    """What is broadcast later has a chain of its own."""

    def function(x: Tensor, column: Tensor) -> Tensor:
        return x * (column.exp() + 1).sigmoid() + x

    column = torch.randn(2, 20, 1)
    assert sorted(map(len, programs(function, torch.randn(2, 20, 9), column))) == [2, 3]
    check(function, A, COLUMN)
    assert sorted(map(len, programs(function, A, COLUMN))) == [2], "for few elements a chain is not worth it"


def test_gated_feed_forward() -> None:
    gate, up, down = nn.Linear(40, 64), nn.Linear(40, 64), nn.Linear(64, 40)

    def function(x: Tensor, y: Tensor) -> Tensor:
        return x + down(functional.silu(gate(x)) * up(x)) * y.sigmoid() + y

    assert operators(function, A, B)["elementwise"] == 1
    check(function, A, B)


def test_squeeze_and_excite_stays_channels_last() -> None:
    squeeze = nn.Sequential(
        nn.AdaptiveAvgPool2d(1), nn.Conv2d(16, 8, 1), nn.ReLU(), nn.Conv2d(8, 16, 1), nn.Hardsigmoid()
    )
    first, last = nn.Conv2d(3, 16, 3), nn.Conv2d(16, 4, 1)

    def function(x: Tensor) -> Tensor:
        y = functional.silu(first(x)) * 2
        return last(functional.hardswish(squeeze(y) * y))

    image = torch.randn(2, 3, 12, 14)
    found = operators(function, image)
    assert found["elementwise"] == 1 and found["clone"] == 1, found
    check(function, image)


def test_operators_of_other_dtypes_stay() -> None:
    def function(x: Tensor, y: Tensor) -> Tensor:
        return x * y + x

    assert operators(function, A.double(), B.double()) == {"mul.Tensor": 1, "add.Tensor": 1}
    assert operators(function, A.int(), B.int()) == {"mul.Tensor": 1, "add.Tensor": 1}
    check(function, A.double(), B.double())
    check(lambda x, y: torch.where(x > 3, y * 2, y.exp()), torch.arange(12).view(2, 6, 1), B)


def test_portable_programs_have_no_chains() -> None:
    assert (
        b"penlight::"
        not in penlight.compile(Calls(lambda x, y: x * y + x), (A, B), target="portable").to_bytes()
    )


def test_long_chains_are_cut() -> None:
    def function(x: Tensor) -> Tensor:
        y = x
        for i in range(150):
            y = (y + x * (1 + i / 100)).tanh()
        return y

    assert max(map(len, programs(function, A))) <= 64
    check(function, A)


def test_many_values_at_a_time_are_cut() -> None:
    def function(*args: Tensor) -> Tensor:
        values = [x.exp() for x in args]
        total = values[0]
        for value in values:
            total = total + value
        for value in values:
            total = total * value.cos()
        return total

    args = [torch.randn(3, 5) for _ in range(40)]
    check(function, *args)


@pytest.mark.parametrize("count", [8191, 8208, 65536, 70001, 200003])
def test_a_step_alone_of_many_elements(count: int) -> None:
    x, y = torch.randn(count), torch.randn(count)
    x[::777] = torch.nan
    data = penlight.compile(Calls(torch.maximum), (x, y)).to_bytes()
    for threads in (1, 2, 3):
        got = penlight.load(data, threads=threads)(x, y)
        torch.testing.assert_close(got, torch.maximum(x, y), rtol=0, atol=0, equal_nan=True)


@pytest.mark.parametrize("batch, length", [(1, 1), (3, 7), (4, 64)])
def test_dynamic_shapes(batch: int, length: int) -> None:
    def function(x: Tensor, row: Tensor) -> Tensor:
        return functional.gelu(x * row + 1) - x

    sizes = {0: Dim("batch", max=4), 1: Dim("length", max=64)}
    model = Calls(function)
    program = penlight.compile(model, (A, ROW), dynamic_shapes={"args": (sizes, None)})
    x = torch.randn(batch, length, 40)
    torch.testing.assert_close(penlight.load(program.to_bytes())(x, ROW), model(x, ROW), rtol=1e-5, atol=ATOL)


@pytest.mark.parametrize("shape", [(), (1,), (0, 3)])
def test_shapes_at_the_edge(shape: tuple[int, ...]) -> None:
    check(lambda x, y: (x + y).exp() * x, torch.randn(shape), torch.randn(shape))


# --- parts of tensors --------------------------------------------------------------------------------

IMAGE = torch.randn(2, 6, 9, 8).contiguous(memory_format=torch.channels_last)
PARTS: dict[str, tuple[Callable[..., object], tuple[Tensor, ...]]] = {
    "differences": (lambda x: x[:, 1:] - x[:, :-1], (A,)),
    "differences of both": (lambda x: x[:, 1:, 1:] - x[:, :-1, :-1] * 2, (A,)),
    "halves": (lambda x: torch.mul(*x.chunk(2, -1)), (A,)),
    "gate": (lambda x: functional.glu(x * 2, -1), (A,)),
    "gate of channels": (lambda x: functional.glu(x * 2, 1), (IMAGE,)),
    "uneven pieces": (lambda x: [piece.exp() + 1 for piece in x.split([15, 25], -1)], (A,)),
    "places": (lambda x: x[:, 0] * x[:, -1] + x[:, 2], (A,)),
    "unbound": (lambda x: torch.mul(*x.unbind(0)), (A,)),
    "every second": (lambda x: x[..., ::2] + x[..., 1::2], (A,)),
    "columns": (lambda x: x[..., 0] * x[..., 1] + x[..., 5].exp(), (torch.randn(4, 30, 6),)),
    "parts of parts": (lambda x: x[:, 1:4][..., 3:].exp() * x[:, 2:5][..., :-3], (A,)),
    "a part and all": (lambda x: (x * x[:, :1]).exp() + x[:, :, 3:4], (A,)),
    "conditions": (lambda x, y: torch.where((y > 0)[:, :3], x[:, :3], 0.5), (A, B)),
    "columns of an image": (lambda x: x[..., :4] * x[..., 4:].sigmoid(), (IMAGE,)),
}


@pytest.mark.parametrize("name", PARTS)
def test_parts_are_read_where_they_lie(name: str) -> None:
    function, args = PARTS[name]
    copies = {"slice_copy.Tensor", "select_copy.int", "split_with_sizes_copy", "unbind_copy.int"}
    found = operators(function, *args)
    assert (found["elementwise"] and not copies.intersection(found)) or name in ("uneven pieces", "places"), (
        found
    )
    check(function, *args)


def test_a_part_that_something_else_reads_is_copied() -> None:
    def function(x: Tensor) -> tuple[Tensor, Tensor]:
        part = x[:, :3]
        return part.exp() + 1, part.cumsum(1)

    assert operators(function, A)["slice_copy.Tensor"] == 1
    check(function, A)


@pytest.mark.parametrize("split", [lambda x: x.chunk(2, -1), lambda x: x.split([15, 25], -1)])
def test_of_a_split_one_piece_is_copied(split: Callable[[Tensor], list[Tensor]]) -> None:
    def function(x: Tensor) -> tuple[Tensor, Tensor]:
        a, b = split(x)
        return a.exp() + 1, b.cumsum(1)

    assert operators(function, A) == {"elementwise": 1, "slice_copy.Tensor": 1, "cumsum": 1}
    check(function, A)


@pytest.mark.parametrize("split", [lambda x: x.chunk(2, 1), lambda x: x.split([6, 10], 1)])
def test_pieces_of_images_stay_images(split: Callable[[Tensor], list[Tensor]]) -> None:
    first = nn.Conv2d(6, 16, 3)
    second = nn.Conv2d(split(first(IMAGE))[1].shape[1], 8, 3)

    def function(x: Tensor) -> Tensor:
        a, b = split(first(x))
        return second(b), a.exp() * 2 + a

    found = operators(function, IMAGE)
    assert not {"split_copy.Tensor", "split_with_sizes_copy"}.intersection(found)
    check(function, IMAGE)


def test_a_split_that_others_read_stays() -> None:
    assert operators(lambda x: [piece.cumsum(1) for piece in x.chunk(2, -1)], A)["split_copy.Tensor"] == 1


def test_a_part_does_not_keep_its_whole() -> None:
    layers = nn.ModuleList(nn.Linear(40, 40) for _ in range(5))

    def function(x: Tensor) -> Tensor:
        part = (layers[0](x) + 1)[:, :1]  # one row of six
        y = x
        for layer in layers:
            y = layer(y)
        return y * part

    assert operators(function, A)["slice_copy.Tensor"] == 1
    check(function, A)


def test_the_output_takes_over_no_whole() -> None:
    layer = nn.Linear(40, 40)

    def function(x: Tensor) -> Tensor:
        y = layer(x)
        return y * y[:, -1:] + y[:, :1]

    assert operators(function, A) == {"linear_packed": 1, "elementwise": 1}
    check(function, A)


@pytest.mark.parametrize("batch, length", [(1, 4), (3, 7), (4, 64)])
def test_parts_with_dynamic_sizes(batch: int, length: int) -> None:
    def function(x: Tensor) -> tuple[Tensor, ...]:
        a, b = x.chunk(2, -1)
        last = x[:, 2:]
        return x[:, 1:] - x[:, :-1], a * b.sigmoid(), x[:, -1] * x[:, 0] + x[0, 0], last.exp() * last

    sizes = {0: Dim("batch", max=4), 1: Dim("length", min=4, max=64)}
    model = Calls(function)
    program = penlight.load(penlight.compile(model, (A,), dynamic_shapes={"args": (sizes,)}).to_bytes())
    x = torch.randn(batch, length, 40)
    torch.testing.assert_close(list(program(x)), list(model(x)), rtol=1e-5, atol=ATOL)


def test_a_part_at_a_place_that_is_known_when_it_runs() -> None:
    def function(x: Tensor, at: Tensor) -> Tensor:
        return x[at.item()] * 2 + x[0]

    model = Calls(function)
    program = penlight.load(penlight.compile(model, (A, torch.tensor(1))).to_bytes())
    for at in (0, 1, -1):
        torch.testing.assert_close(program(A, torch.tensor(at)), model(A, torch.tensor(at)))
    with pytest.raises(penlight.PenlightError):
        program(A, torch.tensor(2))


# --- memory ----------------------------------------------------------------------------------------


def arena(function: Callable[..., object], *args: Tensor) -> int:
    program = penlight.compile(Calls(function), args)
    return sum(program.methods["forward"].arenas)


def test_the_output_takes_over_an_input() -> None:
    layer = nn.Linear(40, 40)

    def function(x: Tensor) -> Tensor:
        return layer(layer(x).exp() * 0.5 + 1)

    # The input; a layer's result, which the chain overwrites; the last result.
    assert arena(function, A) <= 3 * A.nbytes


def test_a_chain_that_runs_later_keeps_no_more_alive() -> None:
    layers = nn.ModuleList(nn.Linear(40, 40) for _ in range(5))

    def function(x: Tensor) -> Tensor:
        a, b = layers[0](x), layers[1](x)
        product = a * b  # one tensor instead of two, while the layers run
        y = x
        for layer in layers:
            y = layer(y)
        return (y * product).exp()

    assert operators(function, A) == {"linear_packed": 6, "mul.Tensor": 1, "elementwise": 1}
    check(function, A)


def test_state_that_is_written_in_between_is_read_before() -> None:
    class Counts(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("seen", torch.ones(40))

        def forward(self, x: Tensor) -> Tensor:
            before = self.seen * 2
            self.seen.add_(x)
            return (before + x).exp()

    model, program = Counts(), penlight.load(penlight.compile(Counts(), (ROW,)).to_bytes())
    for _ in range(3):
        torch.testing.assert_close(program(ROW), model(ROW), rtol=1e-5, atol=ATOL)


# --- random models ---------------------------------------------------------------------------------


MIXED: list[Callable[[Tensor, Tensor, Tensor], Tensor]] = [
    *(lambda x, y, z: x + y, lambda x, y, z: x * y, lambda x, y, z: x - 2 * y),
    *(lambda x, y, z: torch.maximum(x, y), lambda x, y, z: torch.where(x < y, z, y)),
    *(lambda x, y, z: x.abs(), lambda x, y, z: x.clamp(-2, 2), lambda x, y, z: torch.minimum(x, z)),
    *(lambda x, y, z: x / (z.abs() + 1), lambda x, y, z: x.relu() - y),
    *(lambda x, y, z: x.flatten().view(x.shape) + z, lambda x, y, z: x.sum(-1, keepdim=True) * y),
    *(lambda x, y, z: x[..., :1] * y, lambda x, y, z: x.narrow(-1, x.shape[-1] - 1, 1).sin() + z),
    lambda x, y, z: torch.cat(x.chunk(2, -1)[::-1], -1) - y,
]


def random_function(seed: int) -> Callable[..., Tensor]:
    def function(*args: Tensor) -> Tensor:
        r = random.Random(seed)
        values = list(args)
        for _ in range(r.choice([3, 10, 40])):
            x, y, z = (r.choice(values[-6:] if r.random() < 0.7 else values) for _ in range(3))
            values.append(r.choice(MIXED)(x, y, z))
        return sum(values[len(args) :], args[0])

    return function


@pytest.mark.parametrize("seed", range(12))
def test_random_models(seed: int) -> None:
    args = (A, B, ROW, COLUMN)
    program = penlight.load(penlight.compile(Calls(random_function(seed)), args).to_bytes())
    want = random_function(seed)(*args)
    torch.testing.assert_close(program(*args), want, rtol=1e-4, atol=1e-4 * float(want.abs().max()))


def test_operations_are_those_of_the_kernels() -> None:
    from pathlib import Path
    from re import DOTALL, findall

    root = Path(__file__).resolve().parents[2]
    header = (root / "kernels" / "optimized" / "vector" / "elements.h").read_text()
    (listed,) = findall(r"enum class ElementOp : int \{(.*?)// Not in files", header, DOTALL)
    kernels = {name.lower(): int(number) for name, number in findall(r"(\w+) = (\d+),", listed)}
    assert kernels == {member.name.replace("_", "").lower(): int(member) for member in ElementOp}
    assert set(MEANING) == set(ElementOp)
