"""Integers and bool in the optimized library, bit for bit as ATen has them, with every instruction set."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from op_case import INTS
from run_op import overload_of, run_op

pytestmark = pytest.mark.usefixtures("isa")

INTEGRAL = (*INTS, torch.bool)
EVERY = (*INTEGRAL, torch.float32, torch.float64, torch.float16, torch.bfloat16)

# Shapes of two operands: parts of vectors, several blocks, rows, columns, both stretched, numbers.
SHAPES = [
    *(((count,), (count,)) for count in (1, 3, 31, 64, 65, 4097, 40000)),
    ((300, 7), (7,)),
    ((300, 7), (300, 1)),
    ((3, 5000), (3, 1)),
    ((1, 700), (9, 1)),
    ((5, 1, 40), (1, 30, 1)),
    ((2, 3, 5, 7), (3, 1, 1)),
    ((70,), ()),
    ((), (70,)),
    ((), ()),
    ((0, 3), (1, 3)),
]


def sample(shape: tuple[int, ...], dtype: torch.dtype) -> torch.Tensor:
    if dtype is torch.bool:
        return torch.randint(0, 2, shape).bool()
    limits = torch.iinfo(dtype)
    numbers = torch.randint(limits.min, limits.max, shape, dtype=torch.int64).to(dtype)
    # Equal ones, and the ends.
    few = torch.tensor([limits.min, limits.max, 0, 1, 2, limits.max - 1])[torch.randint(0, 6, shape)].to(
        dtype
    )
    return torch.where(torch.rand(shape) < 0.5, numbers, few)


def check(name: str, args: list[Any], library: str | None = "optimized", **kwargs: Any) -> None:
    op = overload_of(name)
    want = op(*args, **kwargs)
    (got,) = run_op(op, args, kwargs, want, library)
    torch.testing.assert_close(got, want, rtol=0, atol=0)


NUMBERS = ("add.Tensor", "sub.Tensor", "mul.Tensor", "maximum", "minimum")
ORDERED = ("eq.Tensor", "ne.Tensor", "lt.Tensor", "le.Tensor", "gt.Tensor", "ge.Tensor")
BITS = ("bitwise_and.Tensor", "bitwise_or.Tensor", "bitwise_xor.Tensor")
LOGICAL = ("logical_and", "logical_or", "logical_xor")


@pytest.mark.parametrize("dtype", INTEGRAL, ids=str)
@pytest.mark.parametrize("shapes", SHAPES, ids=str)
def test_two_tensors(shapes: Any, dtype: torch.dtype) -> None:
    a, b = (sample(shape, dtype) for shape in shapes)
    for name in (*NUMBERS, *ORDERED, *BITS, *LOGICAL):
        if dtype is torch.bool and name == "sub.Tensor":
            continue
        check(f"aten::{name}", [a, b])


@pytest.mark.parametrize("first", INTEGRAL, ids=str)
@pytest.mark.parametrize("second", INTEGRAL, ids=str)
def test_two_types(first: torch.dtype, second: torch.dtype) -> None:
    for shapes in (((700,), (700,)), ((33, 5), (33, 1)), ((90,), ())):
        a, b = sample(shapes[0], first), sample(shapes[1], second)
        both = torch.bool in (first, second)
        for name in (*NUMBERS, *ORDERED, *BITS, *LOGICAL):
            if not (both and name == "sub.Tensor"):
                check(f"aten::{name}", [a, b], None if name in LOGICAL else "optimized")


@pytest.mark.parametrize("dtype", INTEGRAL, ids=str)
def test_a_number(dtype: torch.dtype) -> None:
    truths = dtype is torch.bool
    for count in (1, 70, 9000):
        x = sample((count,), dtype)
        for number in (True, False) if truths else (0, 3, -2, True, 100):
            for name in ("eq", "ne", "lt", "le", "gt", "ge", "bitwise_and", "bitwise_or", "bitwise_xor"):
                if dtype is torch.uint8 and number < 0 and not name.startswith("bit"):
                    continue
                check(f"aten::{name}.Scalar", [x, number])
            if truths:
                continue
            for name in ("add", "mul") if number is True else ("add", "sub", "mul", "rsub"):
                check(f"aten::{name}.Scalar", [x, number])
            if not (dtype is torch.uint8 and number < 0):
                for name in ("clamp_min", "clamp_max"):
                    check(f"aten::{name}", [x, number])


@pytest.mark.parametrize("dtype", INTEGRAL, ids=str)
def test_one_tensor(dtype: torch.dtype) -> None:
    for shape in ((), (1,), (67,), (20, 300), (0,)):
        x = sample(shape, dtype)
        check("aten::bitwise_not", [x])
        check("aten::logical_not", [x])
        if dtype is not torch.bool:
            check("aten::abs", [x])
            check("aten::neg", [x])
            for low, high in ((3, 50), (None, 9), (9, None), (50, 3)):
                check("aten::clamp", [x, low, high])
            check("aten::clamp.Tensor", [x, sample(shape, dtype), sample(shape[-1:], dtype)])


@pytest.mark.parametrize("dtype", INTS, ids=str)
def test_shifts(dtype: torch.dtype) -> None:
    bits = torch.iinfo(dtype).bits
    lowest = 0 if dtype is torch.uint8 else -2
    for count in (1, 70, 5000):
        x, by = sample((count,), dtype), torch.randint(lowest, bits + 3, (count,)).to(dtype)
        for name in ("bitwise_left_shift", "bitwise_right_shift"):
            check(f"aten::{name}.Tensor", [x, by])
            for number in (0, 1, 5, bits - 1, bits):
                check(f"aten::{name}.Tensor_Scalar", [x, number])
            check(f"aten::{name}.Tensor", [x, torch.tensor(2, dtype=dtype)])


@pytest.mark.parametrize("dtype", INTEGRAL, ids=str)
def test_other_layouts(dtype: torch.dtype) -> None:
    image, other = sample((2, 3, 9, 11), dtype), sample((2, 3, 9, 11), dtype)
    last = image.to(memory_format=torch.channels_last)
    for name in ("mul.Tensor", "lt.Tensor", "maximum", "logical_and"):
        for a, b in (
            (last, other.to(memory_format=torch.channels_last)),
            (last, other),
            (last, sample((3, 1, 1), dtype)),
            (image[:, :, ::2, 1:], other[:, :, ::2, 1:]),
            (image.transpose(0, 3), other.transpose(0, 3)),
            (sample((1, 3, 1, 11), dtype).expand(2, 3, 9, 11), other),
        ):
            check(f"aten::{name}", [a, b])


@pytest.mark.parametrize("second", EVERY, ids=str)
@pytest.mark.parametrize("first", EVERY, ids=str)
def test_conversions(first: torch.dtype, second: torch.dtype) -> None:
    if first is second:
        pytest.skip("that is a copy")
    for count in (1, 37, 600, 5000):
        if first.is_floating_point:
            # What is in range of all: beyond it machines differ.
            limit = 100 if second is not torch.uint8 else 255
            x = (torch.rand(count, dtype=torch.float64) * limit * (1 if second is torch.uint8 else 1.3)).to(
                first
            )
            x = x if second in (torch.uint8, torch.bool) else x - 65
            x[0] = 0
        else:
            x = sample((count,), first)
        check("aten::_to_copy", [x], dtype=second)
    rows = sample((9, 30), torch.int16).to(first)
    check("aten::_to_copy", [rows.t()], dtype=second)
    check("aten::_to_copy", [rows[:, ::3]], dtype=second)


@pytest.mark.parametrize("second", (torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64), ids=str)
@pytest.mark.parametrize("first", (torch.float32, torch.float64), ids=str)
def test_what_fits_no_integer(first: torch.dtype, second: torch.dtype) -> None:
    """The lowest number of 32 or of 64 bits, and of that what is wanted; on every machine."""
    wild = [torch.nan, torch.inf, -torch.inf, 3e38, -3e38, 2.0**31, 2.0**63, -(2.0**63), -(2.0**31), 1e10]
    x = torch.tensor(wild * 9, dtype=first)
    low = -(2**63) if second is torch.int64 else -(2**31)
    fits = x.isfinite() & (x.double() < -low) & (x.double() >= low)
    whole = torch.where(fits, x.double(), 0.0).to(torch.int64)
    want = torch.where(fits, whole, low).to(second)
    like = torch.empty_like(want)
    for library in ("optimized", "portable"):
        (got,) = run_op(overload_of("aten::_to_copy"), [x], {"dtype": second}, like, library)
        assert torch.equal(got, want)


# Sizes, the dimensions that are reduced, and the order in which the sizes lie in memory.
RUNS = [
    *(((3, count), [1], None) for count in (1, 2, 15, 64, 65, 511, 512, 513, 1500, 9000)),
    ((40000,), [0], None),
    ((200, 3), [0], None),
    ((200, 64), [0], None),
    ((201, 100), [0], None),
    ((7, 600), [0], None),
    ((3, 33, 1100), [1], None),
    ((9, 40, 5), [1], None),
    ((4, 3, 17), [0, 1], None),
    ((4, 3, 5, 7), [2, 3], None),
    ((2, 70, 9, 8), [2, 3], (0, 2, 3, 1)),
    ((2, 70, 9, 8), [1], (0, 2, 3, 1)),
    ((3, 1, 5), [1], None),
    ((9,), [0], None),
    ((), [], None),
]


@pytest.mark.parametrize("keepdim", [False, True])
@pytest.mark.parametrize("dtype", INTEGRAL, ids=str)
@pytest.mark.parametrize("case", RUNS, ids=str)
def test_reductions(case: Any, dtype: torch.dtype, keepdim: bool) -> None:
    sizes, dims, order = case
    x = sample(sizes, dtype)
    if order is not None:
        x = x.permute(order).contiguous().permute([order.index(d) for d in range(len(order))])
    names = ["sum.dim_IntList", "amax", "amin"]
    if dtype is torch.bool:
        names += ["any.dims", "all.dims"]
    for name in names:
        check(f"aten::{name}", [x, dims, keepdim], None)
    if not keepdim:
        for name in ("max", "min", "sum"):
            check(f"aten::{name}", [x])


def test_any_and_all_of_numbers() -> None:
    for dtype in (torch.uint8, torch.int32):
        x = torch.tensor([[0, 7, 200], [0, 0, 0], [9, 5, 1]]).to(dtype)
        for name in ("any", "all"):
            check(f"aten::{name}", [x], None)
            check(f"aten::{name}.dim", [x, 1], None)
            check(f"aten::{name}.dims", [x, []], None)


def test_truth_values_may_be_any_byte() -> None:
    bytes_ = torch.tensor([0, 1, 2, 128, 255, 0] * 50, dtype=torch.uint8)
    plain = bytes_ != 0
    for name, args in (
        ("bitwise_and.Tensor", [plain.flip(0)]),
        ("bitwise_not", []),
        ("eq.Tensor", [plain]),
        ("add.Tensor", [plain]),
        ("amax", [[0]]),
        ("sum.dim_IntList", [[0]]),
    ):
        op = overload_of(f"aten::{name}")
        want = op(plain, *args)
        (got,) = run_op(op, [bytes_.view(torch.bool), *args], {}, want, "optimized")
        assert torch.equal(got, want)


def test_parts() -> None:
    x, y = (torch.randint(-(2**31), 2**31, (1300, 1100), dtype=torch.int32) for _ in range(2))
    check("aten::add.Tensor", [x, y])
    check("aten::add.Tensor", [x, y[:, :1]])
    check("aten::sum.dim_IntList", [x, [0]])
    check("aten::amax", [x, [1]])
