"""Programs of elementwise operations against ATen, with every instruction set of this machine."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch
from run_op import overload_of, run_op
from torch import Tensor

from penlight.dialects.elementwise_op import MEANING, arity, elementwise_op
from penlight.errors import PenlightError
from penlight.kernels.elementwise import OPERANDS, REGISTERS, STEP_WORDS, STEPS, ElementOp
from penlight.kernels.table import default_table

assert elementwise_op(default_table(), ("optimized",))
ELEMENTWISE = overload_of("penlight::elementwise")
KERNELS = ("penlight::elementwise.out",)

NAN, INF = float("nan"), float("inf")
SPECIAL = [0.0, -0.0, 1.0, -1.0, INF, -INF, NAN, 1e-45, -1e-45, 1e-38, 3.4e38, -3.4e38, 88.7, -103.9, 5e-324]
CONDITIONS = (ElementOp.LESS, ElementOp.LESS_EQUAL, ElementOp.EQUAL, ElementOp.NOT_EQUAL)
LOGICAL = (ElementOp.AND, ElementOp.OR, ElementOp.NOT)

# Units in the last place that a function may be off, and where its argument is tried.
FUNCTIONS: dict[ElementOp, tuple[float, float, float]] = {
    ElementOp.SQRT: (0.5, 0, 1e30),
    ElementOp.RSQRT: (1.5, 0, 1e30),
    ElementOp.RECIPROCAL: (0.5, -1e30, 1e30),
    ElementOp.EXP: (2, -104, 90),
    ElementOp.LOG: (2, 0, 3e38),
    ElementOp.SIN: (2, -2e6, 2e6),
    ElementOp.COS: (2, -2e6, 2e6),
    ElementOp.ERF: (7, -5, 5),  # 6 where a multiply and an add are one
    ElementOp.SIGMOID: (4, -85, 90),
    ElementOp.TANH: (4, -12, 12),
    ElementOp.EXPM1: (3, -35, 90),
    ElementOp.LOG1P: (4, -1, 3e38),
    ElementOp.ATAN: (3, -3e38, 3e38),
    ElementOp.ASIN: (3, -1, 1),
    ElementOp.ACOS: (3, -1, 1),
    ElementOp.FLOOR: (0, -100, 100),
    ElementOp.CEIL: (0, -3e7, 3e7),
    ElementOp.TRUNC: (0, -100, 100),
    ElementOp.ROUND: (0, -3e7, 3e7),
    ElementOp.EXP2: (0.6, -150, 129),
    ElementOp.LOG2: (0.6, 0, 3e38),
    ElementOp.LOG10: (0.6, 0, 3e38),
    ElementOp.SINH: (1.5, -90, 90),
    ElementOp.COSH: (0.6, -90, 90),
    ElementOp.TAN: (5, -2e6, 2e6),
    ElementOp.ASINH: (0.6, -3e38, 3e38),
    ElementOp.ACOSH: (0.6, 1, 3e38),
    ElementOp.ATANH: (0.6, -1, 1),
    ElementOp.ERFC: (0.7, -6, 11),
    ElementOp.LGAMMA: (0.7, -200, 3e36),
}


def run(
    inputs: list[Tensor],
    program: list[int],
    constants: list[float],
    result: Tensor,
    wholes: Sequence[Tensor] = (),
    windows: Sequence[int] = (),
) -> Tensor:
    args = [inputs, list(wholes), list(windows), program, constants]
    (out,) = run_op(ELEMENTWISE, args, {}, result, "optimized")
    return out


def step(op: int, to: int, *sources: int) -> list[int]:
    return [int(op), to, *sources, *[0] * (3 - len(sources))]


def one(op: ElementOp, *inputs: Tensor) -> Tensor:
    shape = torch.broadcast_shapes(*(x.shape for x in inputs))
    sources = [REGISTERS + i for i in range(len(inputs))]
    return run(list(inputs), step(op, 0, *sources), [], torch.empty(shape))


def same(got: Tensor, want: Tensor) -> None:
    torch.testing.assert_close(got, want, rtol=0, atol=0, equal_nan=True)


def units_off(got: Tensor, want: Tensor) -> Tensor:
    """How far float32 is from float64, in units of the last place."""
    unit = 2.0 ** (torch.floor(torch.log2(want.abs().clamp(2.0**-126))) - 23)
    return (got.double() - want).abs() / unit


@pytest.mark.parametrize("op", FUNCTIONS, ids=lambda op: op.name)
def test_functions_are_as_exact_as_they_say(isa: str, op: ElementOp) -> None:
    limit, low, high = FUNCTIONS[op]
    spread = torch.rand(40_000, dtype=torch.double)
    near = torch.cat([x * s for x in (torch.logspace(-38, 38, 4001, dtype=torch.double),) for s in (1, -1)])
    x = torch.cat([low + (high - low) * spread, near[(near >= low) & (near <= high)], 8 * spread - 4]).float()
    x = x[(x >= low) & (x <= high)]
    got, want = one(op, x).double(), MEANING[op](x.double())
    finite = want.abs() < 3.4028235e38
    wrong = units_off(got, want)[finite]
    worst = int(wrong.argmax())
    assert wrong[worst] <= limit, f"{op.name}({x[finite][worst]!r}) is {wrong[worst]:.2f} units off"
    same(got[~finite].float(), want[~finite].float())


@pytest.mark.parametrize("op", [ElementOp.GELU, ElementOp.GELU_TANH], ids=lambda op: op.name)
def test_gelu_is_as_exact_as_it_says(isa: str, op: ElementOp) -> None:
    small = torch.logspace(-30, 0, 3001)
    x = torch.cat([torch.linspace(-12, 12, 200_001), small, -small, 30 * torch.randn(1000)])
    got, want = one(op, x), MEANING[op](x.double())
    assert units_off(got, want)[x > 0].max() <= 4
    assert ((got.double() - want).abs() <= 2.1e-7 * x.abs())[x < 0].all()


@pytest.mark.parametrize(
    "op", [*FUNCTIONS, ElementOp.SILU, ElementOp.GELU, ElementOp.GELU_TANH], ids=lambda op: op.name
)
def test_results_do_not_depend_on_where_a_number_lies(isa: str, op: ElementOp) -> None:
    """Vectors are computed alone and together, and threads cut runs anywhere."""
    x = torch.cat([3 * torch.randn(250), 40 * torch.randn(50)])
    whole = one(op, x)
    for first, last in ((0, 1), (3, 8), (5, 40), (1, 34), (7, 150), (2, 300)):
        same(one(op, x[first:last].clone()), whole[first:last])


def test_erf_stays_within_one(isa: str) -> None:
    x = torch.linspace(-6, 6, 200_001)
    assert one(ElementOp.ERF, x).abs().max() == 1


@pytest.mark.parametrize("op", [op for op in ElementOp if op not in LOGICAL], ids=lambda op: op.name)
def test_special_values(isa: str, op: ElementOp) -> None:
    values = torch.tensor(SPECIAL)
    count = arity(op)
    grids = torch.meshgrid(*[values] * count, indexing="ij")
    if op is ElementOp.CLAMP:
        grids = (grids[0], *(torch.nan_to_num(bound) for bound in grids[1:]))
    if op is ElementOp.WHERE:
        grids = (grids[0] > 0, *grids[1:])
    inputs = [grid.contiguous() for grid in grids]
    # ATen's AVX-512 kernels make infinity of 2e38 and NaN of infinity, and of what is left of 1 by 1e-45.
    exact = op in (ElementOp.GELU, ElementOp.FMOD)
    want = MEANING[op](*(x.double() if exact else x for x in inputs))
    if want.dtype is torch.bool:
        program = [*step(op, 0, *range(REGISTERS, REGISTERS + count)), *step(ElementOp.WHERE, 0, 0, 10, 11)]
        got = run(inputs, program, [1.0, 0.0], torch.empty(want.shape))
        same(got, want.float())
        assert torch.equal(run(inputs, program[:STEP_WORDS], [], want), want)
        return
    got = one(op, *inputs)
    want = want.float()
    assert torch.equal(got.isnan(), want.isnan())
    torch.testing.assert_close(got, want, rtol=1e-6, atol=2e-45, equal_nan=True)


@pytest.mark.parametrize("op", FUNCTIONS, ids=lambda op: op.name)
def test_zeros_have_their_signs(isa: str, op: ElementOp) -> None:
    x = torch.tensor([0.0, -0.0, 1.0, 2.0]).repeat_interleave(17)
    got, want = one(op, x), MEANING[op](x.double()).float()
    assert torch.equal(got.signbit()[want == 0], want.signbit()[want == 0])


@pytest.mark.parametrize("sign_y", [1, -1])
@pytest.mark.parametrize("sign_x", [1, -1])
def test_atan2_of_a_quadrant(isa: str, sign_x: int, sign_y: int) -> None:
    torch.manual_seed(0)
    largest, near = 10 ** (76 * torch.rand(40_000) - 38), 1 + 1e-3 * torch.randn(40_000)
    ratios = torch.cat([torch.rand(40_000), near, 1 / near, 10 ** (9 * torch.rand(40_000) - 4)])
    x = sign_x * largest.repeat(4)
    y = sign_y * (x * ratios).abs().clamp(max=3e38)
    for away, along in ((y, x), (sign_y * x.abs(), sign_x * y.abs())):
        wrong = units_off(one(ElementOp.ATAN2, away, along), torch.atan2(away.double(), along.double()))
        worst = int(wrong.argmax())
        assert wrong[worst] <= 3, f"atan2({away[worst]!r}, {along[worst]!r}) is {wrong[worst]:.2f} units off"


def test_atan2_has_the_signs_of_zeros(isa: str) -> None:
    y, x = (
        grid.contiguous()
        for grid in torch.meshgrid(torch.tensor(SPECIAL), torch.tensor(SPECIAL), indexing="ij")
    )
    got, want = one(ElementOp.ATAN2, y, x), torch.atan2(y.double(), x.double()).float()
    known = ~want.isnan()
    assert torch.equal(got.isnan(), want.isnan())
    assert torch.equal(got[known].signbit(), want[known].signbit())
    for op in (ElementOp.ATAN, ElementOp.ASIN):
        assert one(op, torch.full((20,), -0.0)).signbit().all(), op.name


def test_powers(isa: str) -> None:
    torch.manual_seed(0)
    x, y = 10 ** (76 * torch.rand(200_000) - 38), torch.randn(200_000)
    y[:100_000] *= 88 / x[:100_000].log().abs()  # as far as results reach, subnormal ones too
    x[100_000:] = 1 + 0.01 * torch.randn(100_000)
    y[100_000:] *= 1000
    got, want = one(ElementOp.POW, x, y).double(), x.double() ** y.double()
    finite = want.abs() < 3.4028235e38
    wrong = units_off(got, want)[finite]
    worst = int(wrong.argmax())
    assert wrong[worst] <= 1, f"{x[finite][worst]!r} ** {y[finite][worst]!r} is {wrong[worst]:.2f} units off"
    same(got[~finite].float(), want[~finite].float())


def test_powers_of_special_values(isa: str) -> None:
    values = torch.tensor(
        [*SPECIAL, 2.0, -2.0, 0.5, -0.5, 3.0, -3.0, 1e20, -1e20, 16777215.0, 16777217.0, 8388609.0]
    )
    x, y = (grid.contiguous() for grid in torch.meshgrid(values, values, indexing="ij"))
    got, want = one(ElementOp.POW, x, y), (x.double() ** y.double()).float()
    assert torch.equal(got.isnan(), want.isnan())
    torch.testing.assert_close(got, want, rtol=2e-7, atol=2e-45, equal_nan=True)
    known = ~want.isnan()
    assert torch.equal(got[known].signbit(), want[known].signbit())


# --- chains ----------------------------------------------------------------------------------------

EXACT = [
    *(ElementOp.ADD, ElementOp.SUB, ElementOp.MUL, ElementOp.DIV, ElementOp.MINIMUM, ElementOp.MAXIMUM),
    *(ElementOp.LEAKY_RELU, ElementOp.NEG, ElementOp.ABS, ElementOp.RELU, ElementOp.SQUARE, ElementOp.SQRT),
    *(ElementOp.RECIPROCAL, ElementOp.WHERE, ElementOp.CLAMP, *CONDITIONS, *LOGICAL),
]
SHAPES = [
    *((), (1,), (7,), (1023,), (1024,), (1025,), (5000,), (0,), (3, 0, 2), (2, 3), (300, 3), (3, 300)),
    *((4, 5, 6), (2, 3, 700), (2, 70, 16), (3, 17, 5, 9), (1, 24, 30, 30), (2, 2, 2, 2, 2, 2), (1, 1, 2000)),
    *((40, 1, 40), (2100, 2), (3, 1, 5, 1, 7), (64, 64, 17), (5, 383), (5, 384), (3, 2, 511), (70000,)),
]


def inputs_for(shape: tuple[int, ...], r: random.Random, count: int) -> list[Tensor]:
    """Tensors that broadcast to `shape`, one of them of that shape; some conditions, some channels-last."""
    made = []
    for i in range(count):
        own = [1 if i and r.random() < 0.4 else size for size in shape]
        own = own[r.randint(0, len(own)) :] if i and r.random() < 0.3 else own
        x = torch.randn(own) * 3
        if x.numel() and r.random() < 0.3:
            x.view(-1)[r.randrange(x.numel())] = r.choice(SPECIAL)
        if i and r.random() < 0.3:
            x = x > 0
        if x.dim() == 4 and r.random() < 0.5:
            x = x.contiguous(memory_format=torch.channels_last)
        made.append(x)
    return made


class Writer:
    """A random program, with what it gives step by step in float32."""

    def __init__(self, inputs: list[Tensor], constants: list[float], r: random.Random) -> None:
        self.r, self.program = r, list[int]()
        operands = [*inputs, *map(torch.tensor, constants)]
        self.known: dict[int, Tensor] = {REGISTERS + i: x for i, x in enumerate(operands)}
        self.shape = inputs[0].shape
        self.floats = 0

    def write(self, ops: list[ElementOp], count: int) -> Tensor:
        while len(self.program) < count * STEP_WORDS:
            self._step(self.r.choice(ops))
        places = [p for p, x in self.known.items() if p < REGISTERS and x.dtype is torch.float32]
        self._append(ElementOp.ADD, [self.r.choice(places) if places else REGISTERS, REGISTERS])
        return self.result.expand(self.shape)

    def _step(self, op: ElementOp) -> None:
        sources = []
        for place in range(arity(op)):
            wanted = torch.bool if op in LOGICAL or (op is ElementOp.WHERE and place == 0) else torch.float32
            found = [at for at, x in self.known.items() if x.dtype is wanted]
            if op is ElementOp.CLAMP and place:
                found = [at for at in found if not self.known[at].isnan().any()]
            if not found:
                return
            sources.append(self.r.choice(found))
        self._append(op, sources)

    def _append(self, op: ElementOp, sources: list[int]) -> None:
        values = [self.known[at] for at in sources]
        if op is ElementOp.SQRT:
            self.result = values[0].double().sqrt().float()  # ATen's own is not always the nearest
        else:
            self.result = MEANING[op](*values)
        to = self.r.randrange(REGISTERS)
        self.known[to] = self.result
        self.program += step(op, to, *sources)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_random_chains_of_exact_operations_are_bit_equal(isa: str, shape: tuple[int, ...]) -> None:
    for seed in range(12):
        r = random.Random(f"{shape} {seed}")
        torch.manual_seed(seed)
        constants = [r.choice([0.5, -2.0, 0.0, 1e30, INF, 3.0]) for _ in range(r.randint(0, 3))]
        inputs = inputs_for(shape, r, r.randint(1, 6))
        writer = Writer(inputs, constants, r)
        want = writer.write(EXACT, r.choice([1, 3, 8, 30]))
        like = inputs[0] if inputs[0].dim() == 4 else want.contiguous()
        got = run(inputs, writer.program, constants, torch.empty_like(like))
        same(got, want)


def whole_of(part: Tensor, place: int, r: random.Random) -> tuple[Tensor, list[int]]:
    """A tensor that `part` is a part of, and the windows that say which."""
    whole, windows = part, list[int]()
    for _ in range(r.randint(0, 3)):
        if whole.dim() and r.random() < 0.8:
            dim = r.randrange(whole.dim())
            size, before, after, step = (
                whole.shape[dim],
                r.randint(0, 3),
                r.randint(0, 3),
                r.choice([1, 1, 2, 3]),
            )
            grown = list(whole.shape)
            grown[dim] = before + max(size * step - step + 1, 0) + after
            end = before + max(size * step - step + 1, 0) if size else before
            target = torch.full(grown, 7).to(whole.dtype)
            target.narrow(dim, before, end - before)[(slice(None),) * dim + (slice(None, None, step),)] = (
                whole
            )
            ends = [end, end - grown[dim]] if end < grown[dim] else [end, 2**63 - 1, end + 5]
            starts = [before, before - grown[dim]] if grown[dim] else [before]
            window = [r.choice([dim, dim - whole.dim()]), r.choice(starts), r.choice(ends), step]
        else:
            dim, count = r.randint(0, whole.dim()), r.randint(1, 4)
            index = r.randrange(count)
            target = torch.full([*whole.shape[:dim], count, *whole.shape[dim:]], 7).to(whole.dtype)
            target.select(dim, index).copy_(whole)
            window = [dim, r.choice([index, index - count]), 0, 0]
        whole, windows = target, [place, *window, *windows]
    if whole.dim() == 4 and r.random() < 0.5:
        whole = whole.contiguous(memory_format=torch.channels_last)
    return whole, windows


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_parts_of_tensors_are_read_where_they_lie(isa: str, shape: tuple[int, ...]) -> None:
    for seed in range(12):
        r = random.Random(f"parts {shape} {seed}")
        torch.manual_seed(seed)
        inputs = inputs_for(shape, r, r.randint(1, 6))
        writer = Writer(inputs, [0.5], r)
        want = writer.write(EXACT, r.choice([1, 3, 8]))
        whole = r.randint(0, len(inputs))  # those from here on
        made = [whole_of(part, place, r) for place, part in enumerate(inputs[whole:])]
        windows = [number for _, window in made for number in window]
        like = torch.empty_like(inputs[0] if inputs[0].dim() == 4 else want.contiguous())
        got = run(inputs[:whole], writer.program, [0.5], like, [x for x, _ in made], windows)
        same(got, want)


WHOLE = torch.randn(4, 9)


@pytest.mark.parametrize(
    "windows",
    [
        *([0, 0, 0, 2], [1, 0, 0, 2, 1], [-1, 0, 0, 2, 1], [0, 2, 0, 2, 1], [0, -3, 0, 2, 1]),
        *([0, 0, 4, 0, 0], [0, 0, -5, 0, 0], [0, 0, 0, 2, -1], [0, 0, 1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 9, 0, 0]),
        *([1 << 32, 0, 0, 2, 1], [0, 1 << 32, 0, 2, 1], [0, 0, 1 << 62, 0, 0], [0, 0, -(1 << 63), 0, 0]),
    ],
    ids=str,
)
def test_damaged_windows_are_refused(windows: list[int]) -> None:
    with pytest.raises(PenlightError):
        run([], step(ElementOp.NEG, 0, REGISTERS), [], WHOLE[:2], [WHOLE], windows)


def test_too_many_wholes_are_refused() -> None:
    with pytest.raises(PenlightError, match="elementwise"):
        run([], step(ElementOp.NEG, 0, REGISTERS), [], WHOLE, [WHOLE] * (OPERANDS + 1))


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_a_condition_as_result(isa: str, shape: tuple[int, ...]) -> None:
    """Does an even number of the inputs hold? One of numbers does where it is more than a half."""
    for seed in range(8):
        r = random.Random(f"conditions {shape} {seed}")
        torch.manual_seed(seed)
        inputs = inputs_for(shape, r, 4)
        if seed % 2:
            inputs = [x > 0.3 for x in inputs]
        half, program = REGISTERS + len(inputs), list[int]()
        want = torch.ones(shape, dtype=torch.bool)
        program += step(ElementOp.EQUAL, 0, half, half)
        for at, x in enumerate(inputs, REGISTERS):
            program += (
                step(ElementOp.LESS, 1, half, at)
                if x.dtype is torch.float32
                else step(ElementOp.OR, 1, at, at)
            )
            program += [
                *step(ElementOp.AND, 2, 0, 1),
                *step(ElementOp.OR, 0, 0, 1),
                *step(ElementOp.NOT, 2, 2),
            ]
            program += step(ElementOp.AND, 0, 0, 2)
            want = want ^ ((x > 0.5) if x.dtype is torch.float32 else x)
        like = torch.empty_like(inputs[0] if len(shape) == 4 else want, dtype=torch.bool)
        assert torch.equal(run(inputs, program, [0.5], like), want)


@pytest.mark.parametrize("ops", [list(FUNCTIONS), list(ElementOp)], ids=["functions", "all"])
def test_random_chains_of_functions(isa: str, ops: list[ElementOp]) -> None:
    """Arguments near 1, where no function magnifies an error by much."""
    for seed in range(60):
        r = random.Random(seed)
        torch.manual_seed(seed)
        inputs = [torch.rand(50, 30) + 0.5, torch.rand(30) + 0.5, torch.rand(50, 1) + 0.5]
        writer = Writer(inputs, [0.75], r)
        want = writer.write([op for op in ops if op not in (*CONDITIONS, *LOGICAL, ElementOp.WHERE)], 5)
        if not want.isfinite().all() or want.abs().max() > 100:
            continue
        torch.testing.assert_close(run(inputs, writer.program, [0.75], want), want, rtol=2e-4, atol=2e-4)


@pytest.mark.parametrize("length", [*range(1, 18), 23, 24, 31, 32, 33, 40])
def test_runs_of_any_length(isa: str, length: int) -> None:
    """Parts of rows, and numbers of a row each, are copied to where they lie as the result does."""
    for rows in (1, 3, 200):
        x, column, mask = (
            torch.randn(2, rows, length + 3),
            torch.randn(rows, 1),
            torch.rand(2, rows, length + 1) > 0.5,
        )
        first, second, third, fourth = range(REGISTERS, REGISTERS + 4)
        program = step(ElementOp.MUL, 0, second, first)
        program += [*step(ElementOp.ADD, 1, 0, third), *step(ElementOp.WHERE, 0, fourth, 0, 1)]
        windows = [0, 2, 1, 1 + length, 1, 1, 2, 3, length + 3, 1, 2, 2, 1, length + 1, 1]
        product = x[..., 1 : 1 + length] * column
        want = torch.where(mask[..., 1:], product, product + x[..., 3:])
        same(run([column], program, [], want, [x, x, mask], windows), want)


def test_as_many_operands_and_steps_as_there_may_be(isa: str) -> None:
    inputs = [torch.randn(3, 700) for _ in range(OPERANDS - 1)]
    program = step(ElementOp.ADD, 7, REGISTERS, REGISTERS + 1)
    want = inputs[0] + inputs[1]
    for i in range(2, OPERANDS):
        program += step(ElementOp.ADD, 7, 7, REGISTERS + i)
        want = want + (inputs[i] if i < len(inputs) else 0.25)
    while len(program) < STEPS * STEP_WORDS:
        program += step(ElementOp.NEG, 7, 7)
        want = -want
    same(run(inputs, program, [0.25], want), want)


# --- programs that are damaged -----------------------------------------------------------------------

X = torch.randn(2, 9)
GOOD = step(ElementOp.ADD, 0, REGISTERS, REGISTERS)
BAD: dict[str, tuple[list[Tensor], list[int], list[float]]] = {
    "no steps": ([X], [], []),
    "half a step": ([X], GOOD[:-1], []),
    "too many steps": ([X], GOOD * (STEPS + 1), []),
    "operation 0": ([X], step(0, 0, REGISTERS), []),
    "an operation that there is not": ([X], step(len(ElementOp) + 1, 0, REGISTERS), []),
    "a negative operation": ([X], step(-1, 0, REGISTERS), []),
    "an operation beyond 32 bits": ([X], step((1 << 32) + 1, 0, REGISTERS, REGISTERS), []),
    "a register that there is not": ([X], step(ElementOp.NEG, REGISTERS, REGISTERS), []),
    "a negative register": ([X], step(ElementOp.NEG, -1, REGISTERS), []),
    "a register before it is written": ([X], step(ElementOp.NEG, 0, 0), []),
    "another register than was written": ([X], [*GOOD, *step(ElementOp.ADD, 1, 0, 2)], []),
    "an input that there is not": ([X], step(ElementOp.ADD, 0, REGISTERS, REGISTERS + 1), []),
    "a constant that there is not": ([X], step(ElementOp.ADD, 0, REGISTERS, REGISTERS + 2), [1.0]),
    "a negative source": ([X], step(ElementOp.ADD, 0, REGISTERS, -1), []),
    "a source beyond 32 bits": ([X], step(ElementOp.ADD, 0, REGISTERS, 1 << 32), []),
    "too many operands": ([X], GOOD, [0.5] * OPERANDS),
    "a condition as a number": ([X], step(ElementOp.LESS, 0, REGISTERS, REGISTERS), []),
}


@pytest.mark.parametrize("what", BAD)
def test_damaged_programs_are_refused(what: str) -> None:
    inputs, program, constants = BAD[what]
    with pytest.raises(PenlightError, match="elementwise"):
        run(inputs, program, constants, X)


def test_a_number_as_condition_is_refused() -> None:
    with pytest.raises(PenlightError, match="elementwise"):
        run([X], GOOD, [], X > 0)


def test_shapes_that_do_not_broadcast_are_refused() -> None:
    with pytest.raises(PenlightError, match="broadcast"):
        run([X, torch.randn(2, 8)], step(ElementOp.ADD, 0, REGISTERS, REGISTERS + 1), [], X)


def test_random_numbers_are_no_danger() -> None:
    """Whatever a file says: an error, or a result of the right shape."""
    r = random.Random(0)
    pick: list[Callable[[], int]] = [
        lambda: r.randint(0, 40),
        lambda: r.randint(0, 12),
        lambda: r.randint(-3, 60),
        lambda: r.choice([-(2**63), 2**63 - 1, 2**31, 2**32 + 8]),
    ]
    ran = 0
    for _ in range(1500):
        weights = r.choice([(1, 0, 0, 0), (4, 8, 1, 0), (1, 1, 1, 1), (8, 40, 1, 0)])
        program: list[Any] = [
            r.choices(pick, weights)[0]() for _ in range(STEP_WORDS * r.choice([1, 1, 2, 3]))
        ]
        try:
            got = run([X, X[0], X > 0], program, [0.5], X)
        except PenlightError:
            continue
        ran += 1
        assert got.shape == X.shape
    assert ran > 10


@pytest.mark.parametrize("op", [ElementOp.HYPOT, ElementOp.FMOD], ids=lambda op: op.name)
def test_functions_of_two(isa: str, op: ElementOp) -> None:
    """Of numbers that are near each other, or whose quotient is as large as one can be."""
    torch.manual_seed(0)
    sizes = 10 ** (76 * torch.rand(100_000, dtype=torch.double) - 38)
    ratios = 10 ** (torch.tensor([1.0, 12.0, 60.0]).repeat_interleave(100_000) * torch.rand(300_000))
    x = (torch.randn(300_000).sign() * sizes.repeat(3)).float()
    y = (torch.randn(300_000).sign() * x / ratios).float()
    y[:1000] = x[:1000] / torch.arange(1.0, 1001)
    got, want = one(op, x, y), MEANING[op](x.double(), y.double())
    assert units_off(got, want)[want.abs() < 3e38].max() <= (0.6 if op is ElementOp.HYPOT else 0)
    numbers = ~want.isnan()
    assert op is ElementOp.HYPOT or torch.equal(got.signbit()[numbers], x.signbit()[numbers])


def test_logarithms_of_powers_are_whole(isa: str) -> None:
    whole = torch.arange(-38.0, 39.0)
    assert torch.equal(one(ElementOp.LOG2, 2.0**whole), whole)
    assert torch.equal(one(ElementOp.EXP2, whole), 2.0**whole)
    tens = torch.arange(11.0)
    assert torch.equal(one(ElementOp.LOG10, 10.0**tens), tens)


@pytest.mark.parametrize("op", [ElementOp.FLOOR, ElementOp.CEIL, ElementOp.TRUNC, ElementOp.ROUND])
def test_whole_numbers(isa: str, op: ElementOp) -> None:
    """Halves, what is next to a whole number, where all numbers are whole, and the sign of zero."""
    whole = torch.cat([torch.arange(-20.0, 21.0), 2.0 ** torch.arange(20.0, 33.0), torch.tensor(SPECIAL)])
    x = torch.cat([whole, whole + 0.5, whole - 0.5])
    x = torch.cat([x, x.nextafter(torch.tensor(INF)), x.nextafter(torch.tensor(-INF))])
    got, want = one(op, x), getattr(torch, op.name.lower())(x)
    same(got, want)
    assert torch.equal(got.signbit() | got.isnan(), want.signbit() | want.isnan())
