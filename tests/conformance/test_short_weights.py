"""Packed weights of 16 bits give what the same numbers in float32 give, bit by bit."""

from __future__ import annotations

import math

import pytest
import torch
from run_op import overload_of, run_op
from torch.nn import functional

from penlight.dialects.packed_ops import packed_ops
from penlight.errors import InvalidInput
from penlight.ir.tensors import Derived
from penlight.kernels.table import default_table
from penlight.passes.packing import pack_depthwise, pack_panels

assert packed_ops(default_table(), ("optimized", "portable"))
SHORT = (torch.float16, torch.bfloat16)


@pytest.mark.parametrize("dtype", SHORT)
@pytest.mark.parametrize("rows", [1, 2, 13, 14, 28, 30, 55])
@pytest.mark.parametrize(
    "depth, outputs", [(1, 1), (33, 24), (800, 56), (901, 140), (0, 20), (19, 72), (16, 40), (34, 104)]
)
def test_linear(isa: str, dtype: torch.dtype, rows: int, depth: int, outputs: int) -> None:
    x, residual = torch.randn(rows, depth), torch.randn(rows, outputs)
    weight, bias = torch.randn(outputs, depth).to(dtype), torch.randn(outputs).to(dtype)
    packed = pack_panels(Derived.of(weight), bias).tensor()
    op = overload_of("penlight::linear_packed")
    for added, activation in ((None, 0), (residual, 1), (residual, 6)):
        rest = [added, outputs, activation, 0.0, 0.0]
        wide = run_op(op, [x, packed.float(), *rest], {}, torch.empty(rows, outputs), "optimized")[0]
        found = run_op(op, [x, packed, *rest], {}, torch.empty(rows, outputs), "optimized")[0]
        assert torch.equal(found, wide)
        if activation == 0:
            exact = functional.linear(x.double(), weight.double(), bias.double())
            torch.testing.assert_close(found.double(), exact, rtol=1e-5, atol=2e-7 * max(depth, 8))


@pytest.mark.parametrize("dtype", [torch.float32, *SHORT])
@pytest.mark.parametrize("index", [torch.int32, torch.int64])
@pytest.mark.parametrize("rows, depth", [(1, 1), (16, 5), (40, 33), (35, 0)])
def test_rows_of_packed_weights(dtype: torch.dtype, index: torch.dtype, rows: int, depth: int) -> None:
    table = torch.randn(rows, depth).to(dtype)
    packed = pack_panels(Derived.of(table), torch.randn(rows).to(dtype)).tensor()
    op = overload_of("penlight::embedding_packed")
    for sizes in ((), (7,), (2, 0), (2, 3, 4)):
        at = torch.randint(rows, sizes, dtype=index)
        want = functional.embedding(at.long(), table.float())
        found = run_op(op, [packed, at, rows, depth], {}, want, "optimized")[0]
        assert torch.equal(found, want)


CONVOLUTIONS = [
    ((1, 64, 14, 13), 48, 3, 1, 1, 1),
    ((1, 32, 33, 30), 40, 3, 1, 1, 1),
    ((2, 24, 40, 21), 19, 3, 1, 0, 4),
    ((1, 200, 6, 5), 33, 3, 1, 1, 1),
    ((1, 40, 9, 8), 70, 1, 1, 0, 1),
    ((3, 48, 7, 6), 24, 5, 2, 2, 2),
    ((1, 9, 6, 7), 16, 1, 2, 0, 1),
    ((1, 40, 9, 10), 3, 3, 1, 1, 1),
    ((1, 24, 6, 7), 24, 3, 1, 1, 6),
    ((1, 96, 33, 30), 72, 3, 1, 1, 3),
    ((1, 96, 18, 17), 96, 3, 1, 1, 2),
    ((1, 100, 7, 8), 90, 3, 1, 1, 1),
    ((2, 64, 7, 7), 64, 3, 1, 1, 1),
]


@pytest.mark.parametrize("dtype", SHORT)
@pytest.mark.parametrize("case", CONVOLUTIONS, ids=str)
def test_convolution(isa: str, dtype: torch.dtype, case: tuple[object, ...]) -> None:
    sizes, outputs, size, stride, padding, groups = case
    if groups != 1:
        outputs -= outputs % groups
    x = torch.randn(sizes).contiguous(memory_format=torch.channels_last)
    weight, bias = (
        torch.randn(outputs, sizes[1] // groups, size, size).to(dtype),
        torch.randn(outputs).to(dtype),
    )
    exact = functional.conv2d(x.double(), weight.double(), bias.double(), stride, padding, 1, groups)
    want = exact.contiguous(memory_format=torch.channels_last)
    packed = pack_panels(Derived.of(weight), bias, groups).tensor()
    numbers = [[outputs, size, size], [stride] * 2, [padding] * 2, [1, 1]]
    for name in ("conv2d_packed", "conv2d_direct_packed"):
        op = overload_of(f"penlight::{name}")
        wide, found = (
            run_op(op, [x, p, None, *numbers, groups, 1, 0.0, 0.0], {}, want.float(), "optimized")[0]
            for p in (packed.float(), packed)
        )
        assert torch.equal(found, wide)
        scale = float(want.abs().max())
        torch.testing.assert_close(found.double(), want.relu(), rtol=1e-5, atol=1e-4 * scale)


def test_infinite_weights_of_tiles() -> None:
    """Found after the tiles were transformed, and computed directly."""
    x = torch.randn(1, 32, 30, 30).contiguous(memory_format=torch.channels_last)
    weight = torch.randn(32, 32, 3, 3).bfloat16()
    weight[3, 4, 1, 1], weight[9, 0, 0, 2] = math.inf, math.nan
    want = functional.conv2d(x, weight.float(), padding=1).contiguous(memory_format=torch.channels_last)
    packed = pack_panels(Derived.of(weight), None).tensor()
    numbers = [None, [32, 3, 3], [1, 1], [1, 1], [1, 1], 1, 0, 0.0, 0.0]
    wide, found = (
        run_op(overload_of("penlight::conv2d_packed"), [x, p, *numbers], {}, want, "optimized")[0]
        for p in (packed.float(), packed)
    )
    torch.testing.assert_close(found, wide, rtol=0, atol=0, equal_nan=True)
    inside = (slice(None), slice(None), slice(1, -1), slice(1, -1))
    torch.testing.assert_close(found[inside], want[inside], rtol=1e-4, atol=1e-4, equal_nan=True)


@pytest.mark.parametrize("name", ["few channels", "depthwise"])
def test_layers_that_take_float32(name: str) -> None:
    depthwise = name == "depthwise"
    x, weight = torch.randn(1, 8, 9, 9), torch.randn(8, 1 if depthwise else 8, 3, 3).half()
    x = x.contiguous(memory_format=torch.channels_last)
    packed = (pack_depthwise if depthwise else pack_panels)(Derived.of(weight), None).tensor()
    args = [x, packed, None, [8, 3, 3], [1, 1], [1, 1], [1, 1], 8 if depthwise else 1, 0, 0.0, 0.0]
    with pytest.raises(InvalidInput, match="packed weights are float16, not float32"):
        run_op(overload_of("penlight::conv2d_packed"), args, {}, x, "optimized")
