"""Gates of channels from means over images, and convolutions over images that have them, against float64."""

from __future__ import annotations

import math

import pytest
import torch
from run_op import one_op_program, overload_of, run_op
from test_packed_kernels import ACTIVATIONS, close, image
from torch import Tensor
from torch.nn import functional

import penlight
from penlight.errors import PenlightError
from penlight.ir.tensors import Derived
from penlight.passes.packing import pack_panels

SQUEEZE = overload_of("penlight::squeeze_excite_packed")
GATED = overload_of("penlight::conv2d_gated_packed")
KERNELS = ("penlight::squeeze_excite_packed.out", "penlight::conv2d_gated_packed.out")


def layer(outputs: int, depth: int, dtype: torch.dtype = torch.float32) -> tuple[Tensor, Tensor, Tensor]:
    """A 1x1 convolution's weight, bias, and both packed."""
    weight, bias = torch.randn(outputs, depth, 1, 1).to(dtype), torch.randn(outputs).to(dtype)
    return weight, bias, pack_panels(Derived.of(weight), bias).tensor()


# Images, features between the layers, gates.
SQUEEZES = [
    ((1, 16, 56, 56), 8, 16),
    ((2, 7, 3, 5), 3, 7),
    ((1, 1, 1, 1), 1, 1),
    ((3, 40, 9, 1), 24, 40),
    ((2, 130, 7, 7), 33, 50),
    ((1, 576, 7, 7), 144, 576),
    ((17, 20, 2, 3), 5, 20),
    ((0, 8, 4, 4), 4, 8),
    ((1, 33, 300, 200), 9, 33),
]


@pytest.mark.parametrize("case", SQUEEZES, ids=str)
@pytest.mark.parametrize("activations", [(1, 3), (5, 8), (0, 2), (10, 9)])
def test_squeeze_excite(
    isa: str, case: tuple[tuple[int, ...], int, int], activations: tuple[int, int]
) -> None:
    sizes, between, outputs = case
    x = image(*sizes) + 0.5
    (first, bias, squeeze), (last, shift, excite) = layer(between, sizes[1]), layer(outputs, between)
    y = functional.conv2d(x.double().mean((2, 3), keepdim=True), first.double(), bias.double())
    y = functional.conv2d(ACTIVATIONS[activations[0]](y), last.double(), shift.double())
    want = ACTIVATIONS[activations[1]](y)
    ends = (activations[0], -0.5, 0.75, activations[1], -0.5, 0.75)
    (got,) = run_op(SQUEEZE, [x, squeeze, excite, between, outputs, *ends], {}, want.float(), "optimized")
    close(got, want, sizes[1] + between * 4)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_squeeze_excite_with_weights_of_16_bits(isa: str, dtype: torch.dtype) -> None:
    x, want = image(2, 40, 6, 5), torch.empty(2, 40, 1, 1)
    packed = [layer(10, 40, dtype)[2], layer(40, 10, dtype)[2]]
    rest = [10, 40, 1, 0.0, 0.0, 3, 0.0, 0.0]
    found, wide = (
        run_op(SQUEEZE, [x, *weights, *rest], {}, want, "optimized")[0]
        for weights in (packed, [weight.float() for weight in packed])
    )
    assert torch.equal(found, wide)


def test_means_of_special_values(isa: str) -> None:
    """A NaN or an infinity reaches all gates of its image, and none of another."""
    x = image(4, 24, 5, 6)
    x[1, 3, 2, 2], x[2, 20, 0, 5] = math.nan, math.inf
    (first, bias, squeeze), (last, shift, excite) = layer(6, 24), layer(24, 6)
    y = functional.conv2d(x.mean((2, 3), keepdim=True), first, bias).relu()
    want = functional.conv2d(y, last, shift).sigmoid()
    rest = [6, 24, 1, 0.0, 0.0, 3, 0.0, 0.0]
    (got,) = run_op(SQUEEZE, [x, squeeze, excite, *rest], {}, want, "optimized")
    torch.testing.assert_close(got, want, rtol=1e-5, atol=1e-5, equal_nan=True)
    assert got[1].isnan().all() and not got[[0, 3]].isnan().any()


def test_means_of_no_pixels(isa: str) -> None:
    x = image(2, 8, 0, 3)
    rest = [4, 8, 0, 0.0, 0.0, 3, 0.0, 0.0]
    args = [x, layer(4, 8)[2], layer(8, 4)[2], *rest]
    assert run_op(SQUEEZE, args, {}, torch.empty(2, 8, 1, 1), "optimized")[0].isnan().all()


# Images and outputs: few and many pixels, parts of tiles and panels, products of few outputs.
GATED_CONVOLUTIONS = [
    ((1, 16, 56, 56), 16),
    ((1, 96, 14, 14), 40),
    ((2, 24, 9, 7), 33),
    ((3, 5, 1, 1), 17),
    ((1, 1, 1, 3), 1),
    ((4, 130, 3, 5), 70),
    ((1, 240, 14, 14), 50),
    ((2, 64, 20, 9), 3),
    ((2, 16, 12, 11), 8),
    ((5, 20, 1, 2), 4),
    ((1, 700, 7, 7), 24),
    ((0, 8, 5, 5), 12),
    ((2, 8, 0, 5), 12),
    ((1, 33, 40, 50), 200),
]


@pytest.mark.parametrize("case", GATED_CONVOLUTIONS, ids=str)
@pytest.mark.parametrize("activation", [0, 1, 2, 9])
def test_gated_convolution(isa: str, case: tuple[tuple[int, ...], int], activation: int) -> None:
    sizes, outputs = case
    x, gate = image(*sizes), torch.rand(*sizes[:2], 1, 1)
    weight, bias, packed = layer(outputs, sizes[1])
    products = torch.einsum("nchw,oc->nohw", x.double() * gate.double(), weight[:, :, 0, 0].double())
    exact = products + bias[:, None, None]
    for residual in (None, image(*exact.shape)):
        want = ACTIVATIONS[activation](exact if residual is None else exact + residual)
        want = want.contiguous(memory_format=torch.channels_last)
        args = [x, gate, packed, residual, outputs, activation, -0.5, 0.75]
        (got,) = run_op(GATED, args, {}, want.float(), "optimized")
        close(got, want, sizes[1])


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("case", GATED_CONVOLUTIONS, ids=str)
def test_gated_weights_of_16_bits(isa: str, case: tuple[tuple[int, ...], int], dtype: torch.dtype) -> None:
    sizes, outputs = case
    packed = layer(outputs, sizes[1], dtype)[2]
    want = image(sizes[0], outputs, *sizes[2:])
    x, gate, rest = image(*sizes), torch.rand(*sizes[:2], 1, 1), [None, outputs, 1, 0.0, 0.0]
    found, wide = (
        run_op(GATED, [x, gate, weights, *rest], {}, want, "optimized")[0]
        for weights in (packed, packed.float())
    )
    assert torch.equal(found, wide)


def test_special_gates_and_pixels(isa: str) -> None:
    """They reach what they reach where the image is multiplied."""
    x, gate = image(3, 20, 6, 7), torch.rand(3, 20, 1, 1)
    x[0, 2, 1, 1], x[1, 5, 3, 3], x[1, 6] = math.nan, math.inf, 0.0
    gate[1, 9], gate[2, 4], gate[1, 6] = 0.0, math.nan, math.inf
    weight, bias, packed = layer(24, 20)
    want = functional.conv2d(x * gate, weight, bias).contiguous(memory_format=torch.channels_last)
    args = [x, gate, packed, None, 24, 0, 0.0, 0.0]
    (got,) = run_op(GATED, args, {}, want, "optimized")
    torch.testing.assert_close(got, want, rtol=1e-5, atol=1e-5, equal_nan=True)
    assert got[0].isnan().any() and not got[0].isnan().all() and got[1:].isnan().all()


@pytest.mark.parametrize("case", GATED_CONVOLUTIONS, ids=str)
def test_threads_change_nothing(isa: str, case: tuple[tuple[int, ...], int]) -> None:
    sizes, outputs = case
    x, residual = image(*sizes), image(sizes[0], outputs, *sizes[2:])
    args = [x, torch.rand(*sizes[:2], 1, 1), layer(outputs, sizes[1])[2], residual, outputs, 5, 0.0, 0.0]
    file = one_op_program(GATED, args, {}, residual)
    alone, *others = (penlight.load(file, threads=threads)(*args[:4])[0] for threads in (1, 2, 3, 7))
    assert all(torch.equal(alone, one) for one in others)


@pytest.mark.parametrize("case", SQUEEZES, ids=str)
def test_threads_change_no_gate(isa: str, case: tuple[tuple[int, ...], int, int]) -> None:
    sizes, between, outputs = case
    weights = [layer(between, sizes[1])[2], layer(outputs, between)[2]]
    args = [image(*sizes), *weights, between, outputs, 1, 0.0, 0.0, 3, 0.0, 0.0]
    file = one_op_program(SQUEEZE, args, {}, torch.empty(sizes[0], outputs, 1, 1))
    alone, *others = (penlight.load(file, threads=threads)(*args[:3])[0] for threads in (1, 2, 3, 7))
    assert all(torch.equal(alone, one) for one in others)


X, GATE = image(2, 8, 3, 4), torch.rand(2, 8, 1, 1)
WEIGHT, BEHIND = layer(4, 8)[2], layer(8, 4)[2]


@pytest.mark.parametrize(
    ("args", "message"),
    [
        ([X.contiguous(), GATE, WEIGHT, None, 4, 0, 0.0, 0.0], "channels-last images of float32"),
        ([X, GATE[:1], WEIGHT, None, 4, 0, 0.0, 0.0], "one gate for each of 8 channels of 2 images"),
        ([X, GATE[:, :7], WEIGHT, None, 4, 0, 0.0, 0.0], "one gate for each of 8 channels of 2 images"),
        ([X, image(2, 8, 3, 1), WEIGHT, None, 4, 0, 0.0, 0.0], "one gate for each of 8 channels"),
        ([X, GATE, WEIGHT[:-1], None, 4, 0, 0.0, 0.0], "143 elements, the other arguments need 144"),
        ([X, GATE, WEIGHT, None, 0, 0, 0.0, 0.0], "8 channels cannot have 0 outputs"),
        ([X, GATE, WEIGHT, None, 4, 99, 0.0, 0.0], "no activation 99"),
        ([X, GATE, WEIGHT, torch.rand(2, 4, 3, 3), 4, 0, 0.0, 0.0], "residual has not the sizes"),
    ],
)
def test_what_does_not_fit_a_gated_convolution(args: list[object], message: str) -> None:
    with pytest.raises(PenlightError, match=message):
        run_op(GATED, args, {}, image(2, 4, 3, 4), "optimized")


@pytest.mark.parametrize(
    ("args", "message"),
    [
        ([X.contiguous(), WEIGHT, BEHIND, 4, 8, 0, 0.0, 0.0, 3, 0.0, 0.0], "channels-last images of float32"),
        ([X, WEIGHT, BEHIND, 0, 8, 0, 0.0, 0.0, 3, 0.0, 0.0], "8 channels cannot have 0 outputs"),
        ([X, WEIGHT, BEHIND, 4, -1, 0, 0.0, 0.0, 3, 0.0, 0.0], "4 channels cannot have -1 outputs"),
        ([X, WEIGHT, BEHIND[1:], 4, 8, 0, 0.0, 0.0, 3, 0.0, 0.0], "79 elements, the other arguments need 80"),
        ([X, WEIGHT, BEHIND, 4, 8, 77, 0.0, 0.0, 3, 0.0, 0.0], "no activation 77"),
    ],
)
def test_what_does_not_fit_gates(args: list[object], message: str) -> None:
    with pytest.raises(PenlightError, match=message):
        run_op(SQUEEZE, args, {}, GATE, "optimized")
