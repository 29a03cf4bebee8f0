"""Families of operators on generated arguments: shapes, dtypes, memory orders and special values.

The tables of cases hold what somebody thought of. Here hypothesis makes the arguments: empty and 0-d
tensors, sizes that broadcast, channels-last, mixed dtypes, NaN, infinities and the limits of integers; and
shrinks what fails to the least of it.
"""

from __future__ import annotations

import math
import os
import warnings
from typing import Any

import pytest
import torch
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from op_case import FLOATS, INTS, TOLERANCE
from run_op import overload_of, run_op
from torch.utils import _pytree as pytree

warnings.filterwarnings("ignore", category=UserWarning)

EXAMPLES = int(os.environ.get("PENLIGHT_EXAMPLES", "12"))  # of each operator
DTYPES = (*FLOATS, *INTS, torch.bool)
UNARY = (
    *("abs", "neg", "sign", "ceil", "floor", "trunc", "round", "sqrt", "rsqrt", "reciprocal", "exp", "expm1"),
    *(
        "log",
        "log1p",
        "sin",
        "cos",
        "tanh",
        "sigmoid",
        "relu",
        "erf",
        "isnan",
        "isinf",
        "logical_not",
        "bitwise_not",
    ),
    *("gelu", "silu", "hardswish", "atan", "sinh", "log2"),
)
BINARY = (
    *("add.Tensor", "sub.Tensor", "mul.Tensor", "div.Tensor", "maximum", "minimum", "eq.Tensor", "lt.Tensor"),
    *(
        "ge.Tensor",
        "ne.Tensor",
        "remainder.Tensor",
        "fmod.Tensor",
        "floor_divide",
        "pow.Tensor_Tensor",
        "atan2",
    ),
    *("logical_and", "logical_xor", "bitwise_and.Tensor", "bitwise_or.Tensor", "copysign.Tensor", "fmax"),
)
REDUCTIONS = (
    *("sum.dim_IntList", "mean.dim", "amax", "amin", "any.dims", "all.dims", "logsumexp", "var.correction"),
    *("linalg_vector_norm",),
)
ALONG = ("argmax", "argmin", "cumsum", "_softmax", "sort", "cumprod", "any.dim", "prod.dim_int")

sizes = st.sampled_from([0, 1, 1, 2, 3, 5])
shapes = st.lists(sizes, max_size=4).map(tuple)


def elements(dtype: torch.dtype) -> st.SearchStrategy[Any]:
    if dtype == torch.bool:
        return st.booleans()
    if dtype.is_floating_point:
        limits = torch.finfo(dtype)
        special = [
            float("nan"),
            float("inf"),
            -float("inf"),
            0.0,
            -0.0,
            limits.max,
            limits.min,
            limits.tiny,
            0.5,
            2.5,
        ]
        return st.one_of(st.sampled_from(special), st.floats(-100, 100, width=16))
    limits = torch.iinfo(dtype)
    low, high = max(limits.min, -20), min(limits.max, 20)
    return st.one_of(st.integers(low, high), st.sampled_from([limits.min, limits.max, limits.max - 1, 0, 1]))


@st.composite
def tensors(draw: Any, shape: tuple[int, ...], dtypes: tuple[torch.dtype, ...] = DTYPES) -> torch.Tensor:
    dtype = draw(st.sampled_from(dtypes))
    count = 1
    for size in shape:
        count *= size
    pool = draw(st.lists(elements(dtype), min_size=1, max_size=6))
    seed = draw(st.integers(0, 2**16))
    generator = torch.Generator().manual_seed(seed)
    places = torch.randint(0, len(pool), (count,), generator=generator)
    tensor = torch.tensor(pool, dtype=dtype)[places].reshape(shape)
    if len(shape) == 4 and draw(st.booleans()):
        tensor = tensor.contiguous(memory_format=torch.channels_last)
    return tensor


@st.composite
def broadcasting(draw: Any, count: int) -> list[tuple[int, ...]]:
    whole = draw(shapes)
    found = []
    for _ in range(count):
        start = draw(st.integers(0, len(whole)))
        found.append(tuple(1 if draw(st.booleans()) else size for size in whole[start:]))
    return found


def check(op: Any, args: list[Any], kwargs: dict[str, Any] | None = None) -> None:
    """Penlight gives what ATen gives, or, in 16 bits, what it gives before the last rounding."""
    kwargs = kwargs or {}
    try:
        want = op(*args, **kwargs)
    except (RuntimeError, NotImplementedError, IndexError, ZeroDivisionError):
        assume(False)  # ATen refuses them
    got = run_op(op, args, kwargs, want)
    expected = [leaf for leaf in pytree.tree_leaves(want) if isinstance(leaf, torch.Tensor)]
    assert len(got) == len(expected)
    for have, wanted in zip(got, expected, strict=True):
        rtol, atol = TOLERANCE.get(wanted.dtype, (0.0, 0.0))
        try:
            torch.testing.assert_close(have, wanted, rtol=rtol, atol=atol, equal_nan=True)
        except AssertionError:
            # Nearer to the truth than ATen, or an overflow on ATen's way to it.
            truth = in_double(op, args, kwargs)
            if not wanted.is_floating_point() or truth is None or truth.shape != have.shape:
                raise
            torch.testing.assert_close(have, truth.to(have.dtype), rtol=rtol, atol=atol, equal_nan=True)


def in_double(op: Any, args: list[Any], kwargs: dict[str, Any]) -> torch.Tensor | None:
    def wide(leaf: Any) -> Any:
        return leaf.double() if isinstance(leaf, torch.Tensor) and leaf.is_floating_point() else leaf

    result = op(*pytree.tree_map(wide, args), **pytree.tree_map(wide, kwargs))
    return result if isinstance(result, torch.Tensor) else None


def some(function: Any) -> Any:
    quiet = [HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large]
    return settings(max_examples=EXAMPLES, suppress_health_check=quiet)(function)


@pytest.mark.parametrize("name", UNARY)
@some
@given(data=st.data())
def test_unary(name: str, data: Any) -> None:
    op = overload_of(f"aten::{name}")
    check(op, [data.draw(tensors(data.draw(shapes)))])


@pytest.mark.parametrize("name", BINARY)
@some
@given(data=st.data())
def test_binary(name: str, data: Any) -> None:
    first, second = (data.draw(tensors(shape)) for shape in data.draw(broadcasting(2)))
    if name in ("fmod.Tensor", "remainder.Tensor"):
        # ATen has NaN where a quotient is beyond what float64 counts one by one, but only in whole vectors.
        a, b = first.double(), second.double()
        assume(not ((a.isfinite() & (b != 0)) & ((a / b).abs() > 2.0**53)).any())
    if name in ("mul.Tensor", "div.Tensor") and second.numel() == 1 and first.is_floating_point():
        # ATen reads one integer beside numbers of 16 bits as it is, several as 16 bits have them.
        assume(second.is_floating_point() or not second.to(first.dtype).isinf().any())
    check(overload_of(f"aten::{name}"), [first, second])


@some
@given(data=st.data())
def test_where(data: Any) -> None:
    condition, first, second = data.draw(broadcasting(3))
    args = [
        data.draw(tensors(condition, (torch.bool,))),
        data.draw(tensors(first)),
        data.draw(tensors(second)),
    ]
    check(torch.ops.aten.where.self, args)


@some
@given(data=st.data())
def test_conversion(data: Any) -> None:
    # What a float out of an integer's range becomes is left open by C++, and by ATen.
    tensor = data.draw(tensors(data.draw(shapes)))
    dtype = data.draw(st.sampled_from(DTYPES))
    if tensor.is_floating_point() and not dtype.is_floating_point and dtype != torch.bool:
        tensor = tensor.nan_to_num(0, 0, 0).clamp(0, 100)
    check(torch.ops.aten._to_copy.default, [tensor], {"dtype": dtype})


@pytest.mark.parametrize("name", REDUCTIONS)
@some
@given(data=st.data())
def test_reduction(name: str, data: Any) -> None:
    shape = data.draw(shapes)
    tensor = data.draw(tensors(shape))
    places = (
        st.lists(st.integers(-len(shape), len(shape) - 1), unique_by=lambda d: d % len(shape))
        if shape
        else st.just([])
    )
    dims, keep = data.draw(places), data.draw(st.booleans())
    if name == "var.correction":
        # Of the largest numbers ATen's mean overflows, where the variance may be 0.
        tensor = tensor.clamp(-1e2, 1e2)
    if name in ("sum.dim_IntList", "mean.dim") and tensor.dtype == torch.float64:
        # Whether a sum on the way is infinite, and NaN after the other infinity, is a matter of its order.
        # What narrower types give without that, in_double() knows.
        tensor = tensor / 1024
    if name == "linalg_vector_norm":
        order = data.draw(st.sampled_from([0, 1, 2, 3, float("inf"), -float("inf")]))
        check(overload_of("aten::linalg_vector_norm"), [tensor, order, dims or None, keep])
    elif name == "var.correction":
        check(overload_of("aten::var.correction"), [tensor, dims], {"correction": 1, "keepdim": keep})
    else:
        check(overload_of(f"aten::{name}"), [tensor, dims, keep])


@pytest.mark.parametrize("name", ALONG)
@some
@given(data=st.data())
def test_along_a_dimension(name: str, data: Any) -> None:
    shape = data.draw(shapes)
    tensor = data.draw(tensors(shape, FLOATS if name == "_softmax" else DTYPES))
    dim = data.draw(st.integers(-max(len(shape), 1), max(len(shape), 1) - 1))
    if name in ("prod.dim_int", "cumprod") and tensor.is_floating_point():
        # Whether a product on the way is infinite, and NaN after a zero, is a matter of their order.
        size = tensor.double().abs().nan_to_num(1, 1).clamp(min=1).log2().sum()
        assume(size < math.log2(torch.finfo(tensor.dtype).max))
    if name == "sort":  # by value; which of equals comes first is open
        check_values(overload_of("aten::sort"), [tensor, dim, data.draw(st.booleans())])
    else:
        check(overload_of(f"aten::{name}"), [tensor, dim, *([False] if name == "_softmax" else [])])


def check_values(op: Any, args: list[Any]) -> None:
    try:
        want = op(*args)
    except (RuntimeError, IndexError):
        assume(False)
    got = run_op(op, args, {}, want)
    torch.testing.assert_close(got[0], want[0], rtol=0, atol=0, equal_nan=True)
    if args[0].dim():
        torch.testing.assert_close(args[0].gather(args[1], got[1]), want[0], rtol=0, atol=0, equal_nan=True)


@some
@given(data=st.data())
def test_moving(data: Any) -> None:
    """Views as copies, joined, repeated, turned and cut."""
    shape = data.draw(shapes)
    tensor = data.draw(tensors(shape))
    rank = len(shape)
    dim = data.draw(st.integers(-rank, rank - 1)) if rank else 0
    number = st.integers(-7, 7)
    aten = torch.ops.aten
    calls: dict[Any, list[Any]] = {
        aten.permute_copy.default: [tensor, data.draw(st.permutations(range(rank)))],
        aten.unsqueeze_copy.default: [tensor, data.draw(st.integers(-rank - 1, rank))],
        aten.repeat.default: [tensor, [data.draw(st.integers(0, 2)) for _ in range(rank)]],
        aten.view_copy.default: [tensor.contiguous(), [-1] if tensor.numel() else [0]],
        aten.tril.default: [tensor, data.draw(number)],
        aten.flip.default: [tensor, [dim] if rank else []],
        aten.roll.default: [tensor, [data.draw(number)], [dim] if rank else []],
    }
    if rank:
        start, end = data.draw(number), data.draw(number)
        calls[aten.slice_copy.Tensor] = [tensor, dim, start, end, data.draw(st.integers(1, 3))]
        calls[aten.cat.default] = [[tensor, tensor, tensor], dim]
        calls[aten.constant_pad_nd.default] = [tensor, [data.draw(st.integers(-1, 3)) for _ in range(2)], 1]
        calls[aten.unfold_copy.default] = [
            tensor,
            dim,
            data.draw(st.integers(0, 3)),
            data.draw(st.integers(1, 3)),
        ]
        if shape[dim]:
            calls[aten.select_copy.int] = [tensor, dim, data.draw(st.integers(-shape[dim], shape[dim] - 1))]
    check(*data.draw(st.sampled_from(list(calls.items()))))


@some
@given(data=st.data())
def test_indexing(data: Any) -> None:
    shape = data.draw(shapes.filter(lambda shape: len(shape) > 0))
    tensor = data.draw(tensors(shape))
    dim = data.draw(st.integers(0, len(shape) - 1))
    index_dtype = data.draw(st.sampled_from([torch.int64, torch.int32]))
    length = data.draw(st.integers(0, 4)) if shape[dim] else 0
    seed = torch.Generator().manual_seed(data.draw(st.integers(0, 2**16)))

    def index(size: tuple[int, ...], low: int) -> torch.Tensor:
        return torch.randint(low, max(shape[dim], low + 1), size, generator=seed).to(index_dtype)

    spread = tuple(length if d == dim else size for d, size in enumerate(shape))
    aten = torch.ops.aten
    wide = index(spread, 0).long()
    source = data.draw(tensors(spread, (tensor.dtype,)))
    calls: dict[Any, list[Any]] = {
        aten.index_select.default: [tensor, dim, index((length,), 0)],
        aten.gather.default: [tensor, dim, wide],
        aten.scatter_add.default: [tensor, dim, wide, source],
        aten.index.Tensor: [tensor, [None] * dim + [index((length,), -shape[dim]).long()]],
        aten.masked_fill.Scalar: [tensor, data.draw(tensors(shape, (torch.bool,))), 1],
    }
    check(*data.draw(st.sampled_from(list(calls.items()))))
