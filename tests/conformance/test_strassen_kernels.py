"""Layers of many rows by Strassen's algorithm against float64, with every instruction set of this machine."""

from __future__ import annotations

import math
from collections.abc import Sequence

import pytest
import torch
from run_op import one_op_program, overload_of, run_op
from torch import Tensor
from torch.nn import functional

import penlight
from penlight.dialects.packed_ops import packed_ops
from penlight.ir.tensors import Derived
from penlight.kernels.table import default_table
from penlight.passes.packing import pack_panels
from penlight.runtime.isa import select_instruction_set

assert packed_ops(default_table(), ("optimized", "portable"))  # makes the operators known to torch

KERNELS = ("penlight::linear_strassen_packed.out", "penlight::conv2d_strassen_packed.out")
LINEAR, DIRECT = (overload_of(f"penlight::linear_{name}packed") for name in ("strassen_", ""))
CONVOLUTION = overload_of("penlight::conv2d_strassen_packed")

# Rows, inputs, outputs: units that are full and others, parts of k of one size and of several, more
# blocks of rows than one; and what is too little to be multiplied so.
SIZES = [
    *((32, 64, 128), (33, 66, 129), (47, 98, 190), (48, 384, 128), (64, 386, 256), (128, 384, 384)),
    *((49, 160, 960), (197, 192, 576), (70, 736, 200), (65, 2048, 150), (300, 802, 193), (500, 64, 130)),
    *((31, 64, 128), (32, 62, 128), (32, 65, 128), (32, 64, 127), (1, 64, 128)),
]


def packed(weight: Tensor, bias: Tensor | None) -> Tensor:
    return pack_panels(Derived.of(weight), bias).tensor()


def run(x: Tensor, weight: Tensor, bias: Tensor | None, direct: Sequence[int] = ()) -> Tensor:
    outputs = weight.shape[0]
    args = [x, packed(weight, bias), None, outputs, list(direct), 0, 0.0, 0.0]
    return run_op(LINEAR, args, {}, x.new_empty(*x.shape[:-1], outputs), "optimized")[0]


def assert_near(got: Tensor, x: Tensor, weight: Tensor, bias: Tensor | None) -> None:
    """Within units in the last place of the norms of row and column, and of the bias."""
    want = functional.linear(x.double(), weight.double(), None if bias is None else bias.double())
    sizes = x.double().norm(dim=-1, keepdim=True) * weight.double().norm(dim=-1)
    if bias is not None:
        sizes += bias.abs()
    assert bool(((got.double() - want).abs() <= 24 * 2**-24 * sizes).all())


@pytest.mark.parametrize("sizes", SIZES, ids=str)
def test_sizes(isa: str, sizes: tuple[int, int, int]) -> None:
    rows, depth, outputs = sizes
    x, weight, bias = torch.randn(rows, depth), torch.randn(outputs, depth), torch.randn(outputs)
    for one in (bias, None):
        assert_near(run(x, weight, one), x, weight, one)


@pytest.mark.parametrize("activation", range(11))
def test_epilogues(isa: str, activation: int) -> None:
    x, weight, bias = torch.randn(2, 41, 450) / 20, torch.randn(170, 450), torch.randn(170)
    for residual in (None, torch.randn(2, 41, 170)):
        args = [x, packed(weight, bias), residual, 170, [], activation, -0.5, 0.75]
        want = LINEAR(*(one.double() if isinstance(one, Tensor) else one for one in args))
        (got,) = run_op(LINEAR, args, {}, want.float(), "optimized")
        torch.testing.assert_close(got.double(), want, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("batch, height, width", [(1, 7, 7), (3, 5, 9), (1, 1, 40)])
def test_images(isa: str, batch: int, height: int, width: int) -> None:
    x = torch.randn(batch, 96, height, width).contiguous(memory_format=torch.channels_last)
    weight, bias = torch.randn(200, 96), torch.randn(200)
    lists = [[200, 1, 1], [1, 1], [0, 0], [1, 1]]
    result = torch.empty(batch, 200, height, width, memory_format=torch.channels_last)
    args = [x, packed(weight, bias), None, *lists, 1, [], 0, 0.0, 0.0]
    (got,) = run_op(CONVOLUTION, args, {}, result, "optimized")
    assert_near(got.movedim(1, -1), x.movedim(1, -1), weight, bias)


@pytest.mark.parametrize("taps, stride, padding", [(3, 1, 1), (1, 2, 0), (1, 1, 1)])
def test_other_windows_are_computed_directly(isa: str, taps: int, stride: int, padding: int) -> None:
    x = torch.randn(1, 64, 12, 12).contiguous(memory_format=torch.channels_last)
    weight = torch.randn(128, 64, taps, taps)
    want = functional.conv2d(x.double(), weight.double(), None, stride, padding)
    result = want.float().contiguous(memory_format=torch.channels_last)
    lists = [[128, taps, taps], [stride] * 2, [padding] * 2, [1, 1]]
    args = [x, packed(weight, None), None, *lists, 1, [], 0, 0.0, 0.0]
    (got,) = run_op(CONVOLUTION, args, {}, result, "optimized")
    torch.testing.assert_close(got.double(), want, rtol=1e-5, atol=1e-3)  # maybe transformed


def test_columns_that_are_not_alike(isa: str) -> None:
    """Blocks that are named keep the digits of small columns."""
    x, weight = torch.randn(100, 800), torch.randn(200, 800)
    weight[70] *= 1e-6  # of the second block
    weight[20, 300:] = 0  # of the first: its two last parts of k
    direct = [1, 4, 7, 10, 6, 9, 99, -1]  # and some that there are not
    assert_near(run(x, weight, None, direct), x, weight, None)


def test_rows_that_are_not_alike(isa: str) -> None:
    """Every row keeps its digits, whatever the size of those beside it, and what is zero stays zero."""
    x, weight = torch.randn(100, 400), torch.randn(190, 400)
    x[::7] *= 1e6
    x[3::11] *= 1e-9
    x[5::13] = 0
    got = run(x, weight, None)
    assert_near(got, x, weight, None)
    assert bool((got[5::13] == 0).all())


@pytest.mark.parametrize("special", [math.nan, math.inf, -math.inf, 3e38])
def test_special_values_stay_in_their_rows(isa: str, special: float) -> None:
    x, weight = torch.randn(90, 400), torch.randn(140, 400)
    x[20, 17] = x[61, 399] = special
    got, want = run(x, weight, None), functional.linear(x, weight)
    touched = torch.zeros(90, dtype=torch.bool)
    touched[[20, 61]] = True
    assert_near(got[~touched], x[~touched], weight, None)
    torch.testing.assert_close(got[touched], want[touched], rtol=1e-5, atol=1e-3, equal_nan=True)


@pytest.mark.parametrize(
    "sizes", [(197, 192, 576), (100, 800, 200), (40, 64, 1030), (2000, 64, 128), (784, 512, 128)], ids=str
)
def test_threads_change_nothing(isa: str, sizes: tuple[int, int, int]) -> None:
    rows, depth, outputs = sizes
    x, weight, bias = torch.randn(rows, depth), torch.randn(outputs, depth), torch.randn(outputs)
    x[rows // 2] *= 1e5  # some units are computed directly
    args = [x, packed(weight, bias), torch.randn(rows, outputs), outputs, [1, 2], 1, 0.0, 0.0]
    file = one_op_program(LINEAR, args, {}, torch.empty(rows, outputs))
    alone, *others = (penlight.load(file, threads=threads)(*args[:3])[0] for threads in (1, 2, 3, 5, 16))
    assert all(torch.equal(alone, one) for one in others)


def test_it_is_another_way(isa: str) -> None:
    """Where it gains, the results are not those of a direct product to the bit."""
    if isa != "avx512":
        pytest.skip("only AVX-512 multiplies by blocks")
    x, weight = torch.randn(64, 256), torch.randn(128, 256)
    got = run(x, weight, None)
    args = [x, packed(weight, None), None, 128, 0, 0.0, 0.0]
    (direct,) = run_op(DIRECT, args, {}, torch.empty(64, 128), "optimized")
    assert torch.equal(run(x, weight, None, [0, 1]), direct)
    assert not torch.equal(got, direct)
    torch.testing.assert_close(got, direct, rtol=1e-5, atol=1e-4)
    select_instruction_set("avx512-intel")
    assert torch.equal(run(x, weight, None), direct)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_weights_of_16_bits(isa: str, dtype: torch.dtype) -> None:
    x, weight = torch.randn(50, 128), torch.randn(160, 128).to(dtype)
    args = [x, packed(weight.float(), None).to(dtype), None, 160, [], 0, 0.0, 0.0]
    (got,) = run_op(LINEAR, args, {}, torch.empty(50, 160), "optimized")
    assert_near(got, x, weight, None)
