"""Tensors joined and split by the optimized kernels, and what those leave to the portable ones."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from run_op import one_op_program, overload_of, run_op

import penlight
from penlight.errors import PenlightError
from penlight.runtime.kernels import call_kernel

OP = overload_of("aten::cat")
SPLIT, SPLIT_EVENLY = overload_of("aten::split_with_sizes_copy"), overload_of("aten::split_copy.Tensor")
LENGTHS = (1, 3, 0, 2, 7)
SIZES = [(5,), (3, 4), (2, 3, 4), (2, 3, 4, 5), (1, 2, 3, 1, 2), (3, 0, 2)]
DTYPES = [torch.float32, torch.bfloat16, torch.int64, torch.uint8, torch.bool, torch.complex64, torch.float64]


def number(*sizes: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    """Values that tell the places of a tensor apart as far as its type can."""
    return (
        torch.randint(0, 100, sizes).to(dtype) if dtype is not torch.complex64 else torch.randn(*sizes) * 1j
    )


def check(
    tensors: list[torch.Tensor], dim: int, want: torch.Tensor, library: str | None = "optimized"
) -> None:
    """By the optimized kernel alone, or, where it may decline, by that or the portable one."""
    (got,) = run_op(OP, [tensors, dim], {}, want, library)
    torch.testing.assert_close(got, want, rtol=0, atol=0)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("sizes", SIZES, ids=str)
def test_rows_of_every_dimension(dtype: torch.dtype, sizes: tuple[int, ...]) -> None:
    for dim in range(-len(sizes), len(sizes)):
        tensors = []
        for length in LENGTHS:
            tensors.append(
                number(*(length if k == dim % len(sizes) else n for k, n in enumerate(sizes)), dtype=dtype)
            )
        check(tensors, dim, torch.cat(tensors, dim))
        check(tensors[1:2], dim, tensors[1].clone())


@pytest.mark.parametrize("dim", range(4))
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.uint8], ids=str)
def test_channels_last(dtype: torch.dtype, dim: int) -> None:
    sizes = (2, 5, 6, 7)
    tensors = [
        number(*(length if k == dim else n for k, n in enumerate(sizes)), dtype=dtype)
        for length in (3, 1, 0, 8)
    ]
    last = [tensor.to(memory_format=torch.channels_last) for tensor in tensors]
    want = torch.cat(tensors, dim).contiguous(memory_format=torch.channels_last)
    check(last, dim, want)
    check([tensors[0], *last[1:]], dim, want, None)  # of several orders
    check(last, dim, want.contiguous(), None)


def test_empty_tensors_of_one_dimension_are_left_out() -> None:
    empty, x, y = torch.empty(0), number(2, 3, 4), number(2, 1, 4)
    check([empty, x, empty, y], 1, torch.cat([x, y], 1))
    check([empty, empty], 0, torch.empty(0), None)


def test_types_that_differ_are_converted() -> None:
    x, y = number(3, 2), number(4, 2, dtype=torch.int64)
    check([x, y], 0, torch.cat([x, y], 0), None)


@pytest.mark.parametrize(("sizes", "dim"), [((2, 3), 1), ((3, 2, 1), 0)], ids=str)
def test_sizes_that_do_not_fit(sizes: tuple[int, ...], dim: int) -> None:
    with pytest.raises(PenlightError, match="cat"):
        run_op(OP, [[number(3, 3), number(*sizes)], dim], {}, number(6, 3))


@pytest.mark.parametrize("layout", [torch.contiguous_format, torch.channels_last], ids=str)
@pytest.mark.parametrize("dim", range(4))
def test_threads(layout: torch.memory_format, dim: int) -> None:
    """So large that threads share it, by bytes: runs of any length are cut anywhere."""
    sizes = [3, 37, 41, 43]
    tensors = []
    for length in (1, 29, 2, 33):
        sizes[dim] = length
        tensors.append(torch.randn(sizes).contiguous(memory_format=layout))
    want = torch.cat(tensors, dim).contiguous(memory_format=layout)
    file = one_op_program(OP, [tensors, dim], {}, want)
    for threads in (1, 2, 3, 8):
        (got,) = penlight.load(file, libraries="optimized", threads=threads)(*tensors)
        torch.testing.assert_close(got, want, rtol=0, atol=0)


def check_split(
    whole: torch.Tensor,
    lengths: tuple[int, ...] | int,
    dim: int,
    want: list[torch.Tensor],
    library: str | None = "optimized",
) -> None:
    """As check(), for what is split: the kernel declines parts of another order than the whole's."""
    op, how = (SPLIT_EVENLY, lengths) if isinstance(lengths, int) else (SPLIT, list(lengths))
    got = run_op(op, [whole, how, dim], {}, want, library, image=True)
    for a, b in zip(got, want, strict=True):
        torch.testing.assert_close(a, b, rtol=0, atol=0)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("sizes", SIZES, ids=str)
def test_split_along_every_dimension(dtype: torch.dtype, sizes: tuple[int, ...]) -> None:
    for dim in range(-len(sizes), len(sizes)):
        whole = number(*(13 if k == dim % len(sizes) else n for k, n in enumerate(sizes)), dtype=dtype)
        check_split(whole, LENGTHS, dim, [part.clone() for part in whole.split(LENGTHS, dim)])
        check_split(whole, (13,), dim, [whole.clone()])
        for length in (1, 5, 12, 13, 40):
            check_split(whole, length, dim, [part.clone() for part in whole.split(length, dim)])


@pytest.mark.parametrize("dim", range(4))
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.uint8], ids=str)
def test_split_of_channels_last(dtype: torch.dtype, dim: int) -> None:
    whole = number(*(13 if k == dim else n for k, n in enumerate((2, 5, 6, 7))), dtype=dtype)
    rows = [part.contiguous() for part in whole.split(LENGTHS, dim)]
    last = [part.contiguous(memory_format=torch.channels_last) for part in rows]
    image = whole.contiguous(memory_format=torch.channels_last)
    check_split(image, LENGTHS, dim, last)
    for length in (4, 12):
        parts = [
            part.contiguous().contiguous(memory_format=torch.channels_last)
            for part in whole.split(length, dim)
        ]
        check_split(image, length, dim, parts)
    check_split(image, LENGTHS, dim, [last[0], *rows[1:]], None)  # into several orders
    check_split(whole, LENGTHS, dim, last, None)


@pytest.mark.parametrize("lengths", [(2, 2), (4, -1), (5,), (3, 0, 1)], ids=str)
def test_lengths_that_do_not_add_up(lengths: tuple[int, ...]) -> None:
    with pytest.raises(PenlightError, match="split sizes do not add up to 3"):
        run_op(SPLIT, [number(3, 2), list(lengths), 0], {}, [number(3, 2) for _ in lengths])


def test_what_splits_evenly_and_does_not() -> None:
    check_split(number(0, 3), 2, 0, [number(0, 3)], None)
    check_split(number(0, 3), 0, 0, [number(0, 3)], None)
    for length, parts in ((0, 3), (-1, 3), (2, 3), (2, 1), (2, 0)):
        outs = [np.zeros((3, 2), np.float32) for _ in range(parts)]
        with pytest.raises(PenlightError, match="split"):
            call_kernel("aten::split_copy.Tensor_out", [np.ones((3, 2), np.float32), length, 0, outs])


@pytest.mark.parametrize("layout", [torch.contiguous_format, torch.channels_last], ids=str)
@pytest.mark.parametrize("dim", range(4))
def test_split_by_threads(layout: torch.memory_format, dim: int) -> None:
    lengths, sizes = (1, 29, 2, 33), [3, 37, 41, 43]
    sizes[dim] = sum(lengths)
    whole = torch.randn(sizes).contiguous(memory_format=layout)
    want = [part.contiguous(memory_format=layout) for part in whole.split(lengths, dim)]
    file = one_op_program(SPLIT, [whole, list(lengths), dim], {}, want, image=True)
    for threads in (1, 2, 3, 8):
        got = penlight.load(file, libraries="optimized", threads=threads)(whole)
        for a, b in zip(got, want, strict=True):
            torch.testing.assert_close(a, b, rtol=0, atol=0)


@pytest.mark.parametrize("dtype", [*DTYPES, torch.complex128], ids=str)
@pytest.mark.parametrize("lengths", [(1, 1), (2, 0, 3), (1, 1, 1), (16, 16), (5, 11), (8, 3, 8)], ids=str)
def test_short_runs_and_threads(lengths: tuple[int, ...], dtype: torch.dtype) -> None:
    """Those of one part are moved together, of some turns at a time."""
    for sizes in ((7, 6003, sum(lengths)), (3, 6003, sum(lengths), 1)):
        x = torch.randint(0, 100, sizes)
        whole = x.to(dtype) * (1 + 2j) if dtype.is_complex else x.to(dtype)
        parts = [part.contiguous() for part in whole.split(lengths, 2)]
        joined = one_op_program(OP, [parts, 2], {}, whole)
        split = one_op_program(SPLIT, [whole, list(lengths), 2], {}, parts, image=True)
        for threads in (1, 2, 3):
            (got,) = penlight.load(joined, libraries="optimized", threads=threads)(*parts)
            torch.testing.assert_close(got, whole, rtol=0, atol=0)
            outs = penlight.load(split, libraries="optimized", threads=threads)(whole)
            for a, b in zip(outs, parts, strict=True):
                torch.testing.assert_close(a, b, rtol=0, atol=0)
