"""Transpositions of few and of many rows: each number of rows has loops of its own. And their split between
threads, and that of slices and of strided views."""

from __future__ import annotations

import dim_order  # noqa: F401  (defines operators)
import pytest
import torch
from run_op import one_op_program, overload_of, run_op

import penlight
from penlight.errors import PenlightError

PERMUTE = overload_of("aten::permute_copy")


@pytest.mark.parametrize("library", ["portable", "optimized"])
@pytest.mark.parametrize("rows", [1, 2, 3, 4, 5, 8, 13])
@pytest.mark.parametrize("dtype", [torch.uint8, torch.int16, torch.float32, torch.float64, torch.complex128])
def test_rows_become_columns(dtype: torch.dtype, rows: int, library: str) -> None:
    for columns in (1, 3, 4, 7, 64, 65, 130):
        x = torch.randint(0, 200, (3, rows, columns)).to(dtype)
        want = x.permute(0, 2, 1).contiguous()
        (got,) = run_op(PERMUTE, [x, [0, 2, 1]], {}, want, library)
        assert torch.equal(got, want), f"{rows} rows of {columns}"


# Large enough for threads, with the dimension that they share first, in the middle, last or short; and not.
SPLIT = [
    ((64, 1200), (1, 0)),
    ((1200, 64), (1, 0)),
    ((3, 40000), (1, 0)),
    ((40000, 3), (1, 0)),
    ((2, 3, 5, 7, 400), (1, 0, 4, 3, 2)),
    ((2, 3, 5, 7, 400), (0, 3, 2, 1, 4)),
    ((1, 8, 7, 8, 7, 33), (0, 1, 3, 2, 4, 5)),
    ((1, 1, 90000, 1), (3, 2, 0, 1)),
    ((2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2), tuple(range(15, -1, -1))),
    ((5, 6), (1, 0)),
    ((0, 700), (1, 0)),
]


@pytest.mark.parametrize("dtype", [torch.uint8, torch.float32, torch.complex64], ids=str)
@pytest.mark.parametrize(("sizes", "dims"), SPLIT, ids=str)
def test_threads_share_a_permutation(
    sizes: tuple[int, ...], dims: tuple[int, ...], dtype: torch.dtype
) -> None:
    x = torch.randint(0, 200, sizes).to(dtype)
    want = x.permute(dims).contiguous()
    file = one_op_program(PERMUTE, [x, list(dims)], {}, want)
    for threads in (1, 2, 3, 8):
        (got,) = penlight.load(file, libraries="optimized", threads=threads)(x)
        assert torch.equal(got, want), f"{threads} threads"


@pytest.mark.parametrize("library", ["portable", "optimized"])
@pytest.mark.parametrize("size", [16, 31, 32, 33, 48, 64, 65])
def test_runs_of_bytes(size: int, library: str) -> None:
    """That are moved at once, and others; from the last to the first, and one several times."""
    x = torch.randint(0, 256, (7, 5, size), dtype=torch.uint8)
    strides = (size, 2 * size, 1)
    cases = [
        ("permute_copy", [x, [1, 0, 2]], x.permute(1, 0, 2)),
        ("slice_copy.Tensor", [x, 1, 1, 5, 2], x[:, 1:5:2]),
        ("as_strided_copy", [x, [6, 3, size], list(strides), 0], x.as_strided((6, 3, size), strides)),
    ]
    if library == "portable":
        cases += [
            ("flip", [x, [0, 1]], x.flip(0, 1)),
            ("expand_copy", [x[:, :1], [7, 4, size]], x[:, :1].expand(7, 4, size)),
        ]
    for name, args, want in cases:
        (got,) = run_op(overload_of(f"aten::{name}"), args, {}, want.contiguous(), library)
        assert torch.equal(got, want), name


@pytest.mark.parametrize("dims", [(0, 1), (-1, 0), (1, -1), (2, 2)], ids=str)
def test_threads_share_a_transposition(dims: tuple[int, int]) -> None:
    x = torch.randn(30, 41, 53)
    want = x.transpose(*dims).contiguous()
    file = one_op_program(overload_of("aten::transpose_copy.int"), [x, *dims], {}, want)
    for threads in (1, 2, 3, 8):
        (got,) = penlight.load(file, libraries="optimized", threads=threads)(x)
        assert torch.equal(got, want), f"{threads} threads"


@pytest.mark.parametrize("layout", [torch.contiguous_format, torch.channels_last], ids=str)
@pytest.mark.parametrize("start, end, step", [(0, 20, 1), (3, -1, 1), (-7, 100, 2), (30, 2, 1)], ids=str)
@pytest.mark.parametrize("dim", [0, 1, 2, -1])
def test_threads_share_a_slice(
    dim: int, start: int, end: int, step: int, layout: torch.memory_format
) -> None:
    x = torch.randn(24, 31, 27, 29).contiguous(memory_format=layout)
    want = x.movedim(dim, 0)[start:end:step].movedim(0, dim).contiguous(memory_format=layout)
    file = one_op_program(
        overload_of("aten::slice_copy.Tensor"), [x, dim, start, end, step], {}, want, image=True
    )
    for threads in (1, 2, 3, 8):
        (got,) = penlight.load(file, libraries="optimized", threads=threads)(x)
        assert torch.equal(got, want), f"{threads} threads"


STRIDED = [
    ((22, 40, 3, 50), (2000, 50, 2000, 1), 0),  # windows over time, side by side
    ((40, 9, 64), (1000, 500, 7), 3),
    ((300, 200), (0, 1), 11),
    ((5, 6000), (1, 5), 20),
    ((30, 0, 7), (100, 10, 1), 0),
    ((), (), 47999),
]


@pytest.mark.parametrize("dtype", [torch.uint8, torch.float32, torch.complex128], ids=str)
@pytest.mark.parametrize(("sizes", "strides", "offset"), STRIDED, ids=str)
def test_threads_share_a_strided_view(
    sizes: tuple[int, ...], strides: tuple[int, ...], offset: int, dtype: torch.dtype
) -> None:
    x = torch.randint(0, 200, (24, 40, 50)).to(dtype)
    want = x.as_strided(sizes, strides, offset).contiguous()
    args = [x, list(sizes), list(strides), offset]
    file = one_op_program(overload_of("aten::as_strided_copy"), args, {}, want)
    for threads in (1, 2, 3, 8):
        (got,) = penlight.load(file, libraries="optimized", threads=threads)(x)
        assert torch.equal(got, want), f"{threads} threads"


@pytest.mark.parametrize("library", ["portable", "optimized"])
def test_a_view_past_the_end(library: str) -> None:
    args = [torch.randn(3, 4), [2, 3], [6, 3], 0]
    with pytest.raises(PenlightError, match="as_strided reaches element 12 of a tensor with 12"):
        run_op(overload_of("aten::as_strided_copy"), args, {}, torch.randn(2, 3), library)


@pytest.mark.parametrize("name", ["_to_dim_order_copy", "_clone_dim_order"])
@pytest.mark.parametrize("order", [[0, 2, 3, 1], [0, 1, 2, 3], [3, 2, 1, 0]], ids=str)
@pytest.mark.parametrize("layout", [torch.contiguous_format, torch.channels_last], ids=str)
def test_threads_share_a_change_of_order(layout: torch.memory_format, order: list[int], name: str) -> None:
    op = overload_of(f"dim_order_ops::{name}")
    x = torch.randn(2, 21, 40, 37).contiguous(memory_format=layout)
    want = op(x, dim_order=order)
    file = one_op_program(op, [x], {"dim_order": order}, want)
    for threads in (1, 2, 3, 8):
        (got,) = penlight.load(file, libraries="optimized", threads=threads)(x)
        assert torch.equal(got, x), f"{threads} threads"


@pytest.mark.parametrize("dims", [[0, 0], [0], [0, 2], [-3, 1]], ids=str)
@pytest.mark.parametrize("library", ["portable", "optimized"])
def test_dimensions_that_do_not_fit(library: str, dims: list[int]) -> None:
    with pytest.raises(PenlightError, match="permute_copy"):
        run_op(PERMUTE, [torch.randn(3, 4), dims], {}, torch.randn(4, 3), library)
