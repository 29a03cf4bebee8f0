"""Products of many rows by a matrix unit against float64, and by every other instruction set as well."""

from __future__ import annotations

import math

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
from penlight.runtime.isa import instruction_set, select_instruction_set

assert packed_ops(default_table(), ("optimized", "portable"))  # makes the operators known to torch

LINEAR = overload_of("penlight::linear_packed")
CONVOLUTION = overload_of("penlight::conv2d_direct_packed")
PARTS = overload_of("penlight::conv2d_parts_packed")

# Rows, inputs, outputs. Tiles of all heights, one alone and pairs; panels alone and in part; tiles whose k
# is not whole; one pass over k and several; blocks of rows; more outputs than may wait for a pass.
SIZES = [
    *((32, 64, 3200), (33, 2048, 96), (47, 512, 290), (48, 384, 353), (49, 1376, 96), (50, 1408, 97)),
    *((63, 250, 411), (64, 60, 1700), (65, 1100, 100), (97, 928, 200), (128, 384, 384), (196, 800, 104)),
    *((197, 192, 576), (300, 3000, 96), (1000, 64, 130), (1100, 800, 108), (40, 900, 8300), (35, 4608, 107)),
]
# And what is too little to be worth it.
SMALL = [(31, 512, 512), (96, 800, 95), (1, 800, 800), (1000, 40, 200), (100, 100, 100), (0, 64, 96)]


def packed(weight: Tensor, bias: Tensor | None) -> Tensor:
    return pack_panels(Derived.of(weight), bias).tensor()


def run(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    args = [x, packed(weight, bias), None, weight.shape[0], 0, 0.0, 0.0]
    return run_op(LINEAR, args, {}, x.new_empty(x.shape[0], weight.shape[0]), "optimized")[0]


def assert_near(got: Tensor, x: Tensor, weight: Tensor, bias: Tensor | None = None) -> None:
    """Within units in the last place of the norms of row and column, and of the bias."""
    want = functional.linear(x.double(), weight.double(), None if bias is None else bias.double())
    sizes = x.double().norm(dim=-1, keepdim=True) * weight.double().norm(dim=-1)
    if bias is not None:
        sizes += bias.abs()
    assert bool(((got.double() - want).abs() <= 16 * 2**-24 * sizes).all())


@pytest.mark.parametrize("sizes", SIZES + SMALL, ids=str)
def test_sizes(isa: str, sizes: tuple[int, int, int]) -> None:
    rows, depth, outputs = sizes
    x, weight, bias = torch.randn(rows, depth), torch.randn(outputs, depth), torch.randn(outputs)
    for one in (bias, None):
        assert_near(run(x, weight, one), x, weight, one)


@pytest.mark.parametrize("sizes", SIZES + SMALL, ids=str)
@pytest.mark.skipif(instruction_set() != "amx", reason="this processor has no matrix unit")
def test_it_is_another_way(sizes: tuple[int, int, int]) -> None:
    """By pieces where that gains, else to the bit as without the unit."""
    rows, depth, outputs = sizes
    x, weight = torch.randn(rows, depth), torch.randn(outputs, depth)
    got = run(x, weight)
    select_instruction_set("avx512-intel")
    directly = run(x, weight)
    select_instruction_set("amx")
    assert torch.equal(got, directly) == (sizes in SMALL)


def test_no_digit_is_lost(isa: str) -> None:
    """Numbers of all 24 digits, in sums of one product: each is rounded once, as PyTorch's."""
    x, weight = torch.zeros(640, 128), torch.randn(96, 128)
    places = torch.randint(0, 128, (640,))
    x[torch.arange(640), places] = torch.randn(640)
    want = x.double() @ weight.double().T
    got = run(x, weight).double()
    assert bool(((got - want).abs() <= 2.5 * 2**-24 * want.abs()).all())


@pytest.mark.parametrize("activation", range(11))
def test_epilogues(isa: str, activation: int) -> None:
    x, weight, bias = torch.randn(2, 241, 450) / 20, torch.randn(170, 450), torch.randn(170)
    for residual in (None, torch.randn(2, 241, 170)):
        args = [x, packed(weight, bias), residual, 170, activation, -0.5, 0.75]
        want = LINEAR(*(one.double() if isinstance(one, Tensor) else one for one in args))
        (got,) = run_op(LINEAR, args, {}, want.float(), "optimized")
        torch.testing.assert_close(got.double(), want, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("depth", [400, 2000])
@pytest.mark.parametrize("special", [math.nan, math.inf, -math.inf, 3e38])
def test_special_values_stay_in_their_rows(isa: str, special: float, depth: int) -> None:
    x, weight = torch.randn(190, depth), torch.randn(140, depth)
    x[20, 17] = x[61, depth - 1] = x[62, 300] = special
    got, want = run(x, weight), functional.linear(x, weight)
    touched = torch.zeros(190, dtype=torch.bool)
    touched[[20, 61, 62]] = True
    assert_near(got[~touched], x[~touched], weight)
    torch.testing.assert_close(got[touched], want[touched], rtol=1e-5, atol=1e-3, equal_nan=True)


@pytest.mark.parametrize("depth", [400, 2000])
@pytest.mark.parametrize("special", [math.nan, math.inf, 3e38])
def test_special_values_stay_in_their_columns(isa: str, special: float, depth: int) -> None:
    x, weight, bias = torch.randn(150, depth), torch.randn(140, depth), torch.randn(140)
    weight[3, 0] = weight[70, depth - 1] = weight[139, 7] = special
    got, want = run(x, weight, bias), functional.linear(x, weight, bias)
    touched = torch.zeros(140, dtype=torch.bool)
    touched[[3, 70, 139]] = True
    assert_near(got[:, ~touched], x, weight[~touched], bias[~touched])
    torch.testing.assert_close(got[:, touched], want[:, touched], rtol=1e-5, atol=1e-3, equal_nan=True)


def test_every_panel_and_row_directly(isa: str) -> None:
    """With residuals, which are added once, and bounds."""
    x, weight, bias = torch.randn(100, 900), torch.randn(130, 900), torch.randn(130)
    residual = torch.randn(100, 130)
    for factors in ((1e-25, 1.0), (1.0, 1e-25), (1e-15, 1e-15), (1e25, 1e-25)):
        rows, columns = x * factors[0], weight * factors[1]
        args = [rows, packed(columns, bias), residual, 130, 1, 0.0, 0.0]
        want = functional.relu(functional.linear(rows.double(), columns.double(), bias.double()) + residual)
        (got,) = run_op(LINEAR, args, {}, torch.empty(100, 130), "optimized")
        torch.testing.assert_close(got.double(), want, rtol=1e-5, atol=1e-3)


@pytest.mark.parametrize("small", [1e-12, 1e-20, 1e-38, 1e-42])
def test_small_rows_and_columns_keep_their_digits(isa: str, small: float) -> None:
    x, weight = torch.randn(100, 800), torch.randn(190, 800)
    x[::7] *= small
    x[5::13] = 0
    weight[::9] *= 1 / math.sqrt(small) if small > 1e-30 else 1
    got, want = run(x, weight), x.double() @ weight.double().T
    sizes = x.double().norm(dim=-1, keepdim=True) * weight.double().norm(dim=-1)
    assert bool(((got.double() - want).abs() <= 16 * 2**-24 * sizes + 800 * 2**-149).all())
    assert bool((got[5::13] == 0).all())


@pytest.mark.parametrize(
    "taps, stride, padding, dilation", [(3, 1, 1, 1), (3, 2, 1, 1), (1, 2, 0, 1), (2, 1, 0, 1), (3, 1, 6, 6)]
)
@pytest.mark.parametrize(
    "batch, height, width, channels", [(1, 9, 9, 512), (3, 19, 24, 192), (2, 25, 40, 188)]
)
def test_windows(
    isa: str,
    batch: int,
    height: int,
    width: int,
    channels: int,
    taps: int,
    stride: int,
    padding: int,
    dilation: int,
) -> None:
    x = torch.randn(batch, channels, height, width).contiguous(memory_format=torch.channels_last)
    weight, bias = torch.randn(196, channels, taps, taps), torch.randn(196)
    want = functional.conv2d(x.double(), weight.double(), bias.double(), stride, padding, dilation)
    result = want.float().contiguous(memory_format=torch.channels_last)
    lists = [[196, taps, taps], [stride] * 2, [padding] * 2, [dilation] * 2]
    residual = torch.randn_like(result)
    args = [x, packed(weight, bias), residual, *lists, 1, 0, 0.0, 0.0]
    (got,) = run_op(CONVOLUTION, args, {}, result, "optimized")
    torch.testing.assert_close(got.double(), want + residual, rtol=1e-5, atol=1e-3)


def test_windows_over_several_images(isa: str) -> None:
    images = [
        torch.randn(2, count, 19, 10).contiguous(memory_format=torch.channels_last) for count in (64, 128, 32)
    ]
    weight = torch.randn(100, 224, 2, 2)
    want = functional.conv2d(torch.cat(images, 1).double(), weight.double(), None, 1, 1)
    result = want.float().contiguous(memory_format=torch.channels_last)
    args = [images, packed(weight, None), None, [100, 2, 2], [1, 1], [1, 1], [1, 1], 0, 0.0, 0.0]
    (got,) = run_op(PARTS, args, {}, result, "optimized")
    torch.testing.assert_close(got.double(), want, rtol=1e-5, atol=1e-3)


@pytest.mark.parametrize(
    "sizes", [(197, 192, 576), (100, 800, 200), (40, 160, 1030), (2000, 64, 128), (49, 2304, 96)], ids=str
)
def test_threads_change_nothing(isa: str, sizes: tuple[int, int, int]) -> None:
    rows, depth, outputs = sizes
    x, weight, bias = torch.randn(rows, depth), torch.randn(outputs, depth), torch.randn(outputs)
    x[rows // 2] *= 1e25  # these are computed directly
    weight[outputs // 3] *= 1e-25
    args = [x, packed(weight, bias), torch.randn(rows, outputs), outputs, 1, 0.0, 0.0]
    file = one_op_program(LINEAR, args, {}, torch.empty(rows, outputs))
    alone, *others = (penlight.load(file, threads=threads)(*args[:3])[0] for threads in (1, 2, 3, 5, 16))
    assert all(torch.equal(alone, one) for one in others)


@pytest.mark.parametrize("sizes", [(700, 100, 98), (128, 800, 200), (133, 60, 900)], ids=str)
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_weights_of_16_bits(isa: str, dtype: torch.dtype, sizes: tuple[int, int, int]) -> None:
    rows, depth, outputs = sizes
    x, weight, bias = torch.randn(rows, depth), torch.randn(outputs, depth), torch.randn(outputs)
    weight, bias = (one.to(dtype).float() for one in (weight, bias))
    x[5] = math.inf
    x[9] *= 1e-30
    args = [x, packed(weight, bias).to(dtype), None, outputs, 0, 0.0, 0.0]
    (got,) = run_op(LINEAR, args, {}, torch.empty(rows, outputs), "optimized")
    finite = torch.arange(rows) != 5
    assert_near(got[finite], x[finite], weight, bias)
    torch.testing.assert_close(got[5], functional.linear(x[5], weight, bias), equal_nan=True)


@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("sizes", [(64, 800, 1100), (33, 640, 512), (1000, 64, 105)], ids=str)
def test_matrices(isa: str, sizes: tuple[int, int, int], transposed: bool) -> None:
    """Neither of which is packed."""
    rows, depth, columns = sizes
    a, b = torch.randn(rows, depth), torch.randn(columns, depth)
    b = b.T if transposed else b.T.contiguous()
    (got,) = run_op(torch.ops.aten.mm.default, [a, b], {}, torch.empty(rows, columns), "optimized")
    assert_near(got, a, b.T)
