"""Products by group against float64, over packed weights and plain ones, with every instruction set."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate

import pytest
import torch
from run_op import one_op_program, overload_of, run_op
from torch import Tensor

import penlight
from penlight.dialects.packed_ops import packed_ops
from penlight.dialects.penlight_ops import grouped_linear, twins
from penlight.errors import InvalidInput, RuntimeFailure
from penlight.ir.tensors import Derived
from penlight.kernels.table import default_table
from penlight.passes.packing import pack_groups

# Makes the operators known to torch.
LIBRARIES = ("optimized", "portable")
assert packed_ops(default_table(), LIBRARIES) and twins(default_table(), LIBRARIES)

KERNELS = ("penlight::grouped_linear_packed.out",)
PACKED, PLAIN = overload_of("penlight::grouped_linear_packed"), overload_of("penlight::grouped_linear")
DTYPES = (torch.float32, torch.float16, torch.bfloat16)

# Rows of each group, and those behind the last.
GROUPINGS = [
    ((), 0),
    ((), 3),
    ((1,), 0),
    ((0,), 5),
    ((0, 0, 0), 0),
    ((40,), 0),
    ((0, 0, 37, 0), 0),
    ((3, 0, 1, 14), 2),
    ((1, 1, 0, 1, 2, 0, 1, 1), 0),
    ((25, 130, 0, 7), 0),
]
# Inputs and outputs of a group.
MATRICES = [(1, 1), (33, 17), (64, 48), (7, 150), (800, 70), (1024, 130), (0, 20)]


def ends_of(counts: Sequence[int], dtype: torch.dtype = torch.int32) -> Tensor:
    return torch.tensor(list(accumulate(counts)), dtype=dtype)


def close(got: Tensor, want: Tensor, depth: int) -> None:
    torch.testing.assert_close(got.double(), want, rtol=1e-5, atol=2e-7 * max(depth, 8))


def run_packed(x: Tensor, weight: Tensor, ends: Tensor) -> Tensor:
    outputs = weight.shape[1]
    packed = pack_groups(Derived.of(weight)).tensor() if len(weight) else weight.flatten()
    args = [x, packed, ends, outputs]
    return run_op(PACKED, args, {}, torch.empty(len(x), outputs), "optimized")[0]


@pytest.mark.parametrize("depth, outputs", MATRICES)
@pytest.mark.parametrize("counts, behind", GROUPINGS, ids=str)
def test_groups(isa: str, counts: tuple[int, ...], behind: int, depth: int, outputs: int) -> None:
    x = torch.randn(sum(counts) + behind, depth)
    for i, dtype in enumerate(DTYPES):
        weight = torch.randn(len(counts), outputs, depth).to(dtype)
        ends = ends_of(counts, (torch.int32, torch.int64)[i % 2])
        want = grouped_linear(x.double(), weight.double(), ends)
        close(run_packed(x, weight, ends), want, depth)
    wide = weight.float()
    for library in ("optimized", "portable"):
        if library == "portable" or depth > 0:  # without inputs it is the portable kernel's
            close(run_op(PLAIN, [x, wide, ends], {}, want.float(), library)[0], want, depth)


def test_random_groupings(isa: str) -> None:
    generator = torch.Generator().manual_seed(1)

    def number(high: int) -> int:
        return int(torch.randint(high, (), generator=generator))

    for _ in range(60):
        counts = [number(30) * number(2) for _ in range(number(12))]
        depth, outputs = 1 + number(90), 1 + number(90)
        x, weight = torch.randn(sum(counts) + number(3), depth), torch.randn(len(counts), outputs, depth)
        want = grouped_linear(x.double(), weight.double(), ends_of(counts))
        close(run_packed(x, weight, ends_of(counts)), want, depth)
        for library in ("optimized", "portable"):
            close(run_op(PLAIN, [x, weight, ends_of(counts)], {}, want.float(), library)[0], want, depth)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float16, torch.bfloat16])
@pytest.mark.parametrize("counts, behind", GROUPINGS, ids=str)
def test_other_types(dtype: torch.dtype, counts: tuple[int, ...], behind: int) -> None:
    x = torch.randn(sum(counts) + behind, 20).to(dtype)
    weight = torch.randn(len(counts), 9, 20).to(dtype)
    exact = grouped_linear(x.double(), weight.double(), ends_of(counts))
    (got,) = run_op(PLAIN, [x, weight, ends_of(counts)], {}, exact.to(dtype))
    torch.testing.assert_close(got, exact.to(dtype))


# All in one group, few in many, and each split that lies between.
@pytest.mark.parametrize(
    "counts", [(200, 0, 0), (1,) * 24, (90, 3, 1, 0, 60), (12,) * 9, (1,), (4, 1)], ids=str
)
@pytest.mark.parametrize("dtype", DTYPES)
def test_threads_change_nothing(isa: str, dtype: torch.dtype, counts: tuple[int, ...]) -> None:
    depth, outputs = 300, 700
    x, weight = torch.randn(sum(counts), depth), torch.randn(len(counts), outputs, depth).to(dtype)
    ends = ends_of(counts)
    want = grouped_linear(x.double(), weight.double(), ends)
    packed = [x, pack_groups(Derived.of(weight)).tensor(), ends, outputs]
    for op, args in ((PACKED, packed), (PLAIN, [x, weight.float(), ends])):
        file = one_op_program(op, args, {}, want.float())
        alone, *others = (penlight.load(file, threads=threads)(*args[:3])[0] for threads in (1, 2, 3, 5))
        close(alone, want, depth)
        assert all(torch.equal(alone, other) for other in others)


def test_only_the_rows_of_a_group_meet_its_weights(isa: str) -> None:
    x, weight = torch.randn(9, 20), torch.randn(4, 18, 20)
    x[3, 2], weight[1, 0, 0], weight[3] = float("nan"), float("inf"), float("nan")
    ends = torch.tensor([2, 5, 8, 8])
    want = grouped_linear(x, weight, ends)
    for got in (run_packed(x, weight, ends), run_op(PLAIN, [x, weight, ends], {}, want)[0]):
        torch.testing.assert_close(got, want, rtol=1e-5, atol=1e-5, equal_nan=True)
        assert not got[8].any()


@pytest.mark.parametrize(
    "ends, message",
    [
        ([2, 1, 4], r"group 1 ends at row 1, which is not in \[2, 6\]"),
        ([2, 4, 7], r"group 2 ends at row 7, which is not in \[4, 6\]"),
        ([-1, 4, 6], r"group 0 ends at row -1, which is not in \[0, 6\]"),
        ([2, 2**40, 6], rf"group 1 ends at row {2**40}"),
        ([-(2**63), 2**63 - 1, 6], "group 0 ends at row -9223372036854775808"),
    ],
)
def test_ends_that_are_none(ends: list[int], message: str) -> None:
    x, weight, places = torch.randn(6, 20), torch.randn(3, 18, 20), torch.tensor(ends)
    like = torch.empty(6, 18)
    with pytest.raises(RuntimeFailure, match=message):
        run_packed(x, weight, places)
    for library in ("optimized", "portable"):
        with pytest.raises(RuntimeFailure, match=message):
            run_op(PLAIN, [x, weight, places], {}, like, library)


def test_what_is_no_weight() -> None:
    x, ends, like = torch.randn(6, 20), torch.tensor([2, 6]), torch.empty(6, 18)
    packed = pack_groups(Derived.of(torch.randn(2, 18, 20))).tensor()
    wrong = [
        ([x, packed[:-1], ends, 18], "elements, the other arguments need"),
        ([x, packed, ends[:1], 18], "elements, the other arguments need"),
        ([x, packed, ends, -1], "cannot have -1 outputs"),
        ([x, packed, ends, 2**62], "cannot have"),
        ([x, packed, ends[None], 18], "a row of int32 or int64"),
        ([x[0], packed, ends, 18], "a dense matrix"),
    ]
    for args, message in wrong:
        with pytest.raises(InvalidInput, match=message):
            run_op(PACKED, args, {}, like, "optimized")
    with pytest.raises(InvalidInput, match="in 2 groups, weight"):
        run_op(PLAIN, [x, torch.randn(3, 18, 20), ends], {}, like)
    with pytest.raises(InvalidInput, match="in 2 groups, weight"):
        run_op(PLAIN, [x, torch.randn(2, 18, 21), ends], {}, like)
