"""Transposed convolution over packed weights, against float64."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from run_op import one_op_program, overload_of, run_op
from test_packed_kernels import ACTIVATIONS, close, image
from torch import Tensor
from torch.nn import functional

import penlight
from penlight.errors import InvalidInput
from penlight.ir.tensors import Derived
from penlight.passes.packing import pack_transposed

KERNELS = ("penlight::conv_transpose2d_packed.out",)

# Sizes of the input, outputs, window, stride, padding, output padding.
CASES = [
    ((1, 3, 5, 4), 4, (2, 2), (2, 2), (0, 0), (0, 0)),
    ((2, 17, 7, 9), 20, (4, 4), (2, 2), (1, 1), (0, 0)),
    ((1, 40, 6, 5), 33, (3, 3), (2, 2), (1, 1), (1, 1)),
    ((1, 16, 1, 30), 24, (1, 8), (1, 4), (0, 0), (0, 0)),
    ((2, 5, 3, 60), 7, (3, 5), (1, 1), (0, 2), (0, 0)),
    ((1, 8, 4, 4), 16, (2, 3), (3, 5), (0, 0), (0, 0)),  # outputs that no tap reaches
    ((1, 6, 3, 3), 5, (1, 1), (2, 3), (0, 0), (1, 2)),
    ((1, 6, 9, 8), 5, (5, 7), (2, 3), (4, 6), (1, 2)),  # paddings that take whole taps away
    ((3, 2, 1, 1), 3, (4, 4), (4, 4), (1, 1), (0, 0)),
    ((1, 33, 2, 70), 1, (4, 4), (2, 2), (1, 1), (0, 1)),
    ((1, 35, 20, 21), 1, (9, 9), (2, 2), (4, 4), (1, 1)),
    ((2, 16, 3, 70), 3, (3, 3), (2, 2), (1, 1), (1, 1)),
    ((0, 4, 5, 5), 6, (3, 3), (2, 2), (1, 1), (0, 0)),
    ((1, 500, 4, 4), 18, (4, 4), (2, 2), (1, 1), (0, 0)),
    ((2, 4, 3, 110), 16, (2, 2), (2, 2), (0, 0), (0, 0)),  # lines that are written where they belong
    # Lines of few outputs, as many at once as a product by vectors of channels takes.
    ((2, 32, 24, 23), 2, (3, 3), (2, 2), (1, 1), (1, 1)),
    ((1, 21, 9, 40), 4, (2, 2), (2, 2), (0, 0), (0, 0)),
    ((1, 16, 30, 7), 1, (5, 4), (3, 1), (1, 2), (1, 0)),
]

# Signals, of which threads share the columns.
SIGNALS = [
    ((1, 32, 1, 200), 16, (1, 8), (1, 4), (0, 2), (0, 0)),
    ((1, 24, 1, 500), 2, (1, 16), (1, 8), (0, 4), (0, 1)),
    ((2, 20, 1, 303), 33, (1, 5), (1, 2), (0, 1), (0, 1)),
]


class Layer:
    def __init__(self, case: Any) -> None:
        sizes, outputs, window, stride, padding, more = case
        self.op = overload_of("penlight::conv_transpose2d_packed")
        self.x = image(*sizes)
        self.weight, self.bias = torch.randn(sizes[1], outputs, *window), torch.randn(outputs)
        self.packed = pack_transposed(Derived.of(self.weight), self.bias, stride).tensor()
        self.numbers = [[outputs, *window], list(stride), list(padding), list(more)]
        self.depth = sizes[1] * math.prod(window)
        self.exact = functional.conv_transpose2d(
            self.x.double(), self.weight.double(), self.bias.double(), stride, padding, more
        )

    def args(self, added: Tensor | None, activation: int) -> list[Any]:
        return [self.x, self.packed, added, *self.numbers, activation, -0.5, 0.75]


@pytest.mark.parametrize("case", CASES + SIGNALS, ids=str)
def test_transposed_convolution(isa: str, case: Any) -> None:
    layer = Layer(case)
    for activation in (0, 2, 5, 10):
        for added in (None, image(*layer.exact.shape)):
            want = ACTIVATIONS[activation](layer.exact if added is None else layer.exact + added)
            want = want.contiguous(memory_format=torch.channels_last)
            args = layer.args(added, activation)
            (got,) = run_op(layer.op, args, {}, want.float(), "optimized")
            close(got, want, layer.depth)
            torch.testing.assert_close(layer.op(*args), got, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("case", SIGNALS + CASES[-5:], ids=str)
def test_threads_change_nothing(isa: str, case: Any) -> None:
    layer = Layer(case)
    want = layer.exact.contiguous(memory_format=torch.channels_last)
    file = one_op_program(layer.op, layer.args(None, 0), {}, want.float())
    alone, *others = (
        penlight.load(file, libraries="optimized", threads=n)(layer.x, layer.packed)[0].clone()
        for n in (1, 2, 3, 8)
    )
    close(alone, want, layer.depth)
    assert all(torch.equal(other, alone) for other in others)


@pytest.mark.parametrize("number", [math.nan, math.inf])
def test_what_is_not_finite_reaches_its_window_alone(isa: str, number: float) -> None:
    x, weight = image(1, 20, 6, 6), torch.randn(20, 18, 3, 3)
    x[0, 3, 2, 4] = number
    want = functional.conv_transpose2d(x, weight, None, 2, 1, 1)
    packed = pack_transposed(Derived.of(weight), None, (2, 2)).tensor()
    args = [x, packed, None, [18, 3, 3], [2, 2], [1, 1], [1, 1], 0, 0.0, 0.0]
    op = overload_of("penlight::conv_transpose2d_packed")
    (got,) = run_op(op, args, {}, want.contiguous(memory_format=torch.channels_last), "optimized")
    torch.testing.assert_close(got, want, rtol=1e-4, atol=1e-4, equal_nan=True)


WRONG = {
    "output padding of a stride": ([8, 2, 2], [2, 2], [0, 0], [2, 0], "do not fit images"),
    "nothing is left": ([8, 2, 2], [1, 1], [4, 4], [0, 0], "do not fit images"),
    "a window of three numbers": ([8, 2, 2, 2], [2, 2], [0, 0], [0, 0], "do not fit images"),
    "a stride of zero": ([8, 2, 2], [0, 2], [0, 0], [0, 0], "do not fit images"),
    "other weights": ([8, 2, 3], [2, 2], [0, 0], [0, 0], "the other arguments need"),
    "a window past all memory": (
        [1 << 24, 1 << 24, 1 << 24],
        [2, 2],
        [0, 0],
        [0, 0],
        "is too large",
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_does_not_fit_is_refused(name: str) -> None:
    *numbers, message = WRONG[name]
    x = image(1, 4, 5, 5)
    packed = pack_transposed(Derived.of(torch.randn(4, 8, 2, 2)), None, (2, 2)).tensor()
    args = [x, packed, None, *numbers, 0, 0.0, 0.0]
    with pytest.raises(InvalidInput, match=message):
        run_op(overload_of("penlight::conv_transpose2d_packed"), args, {}, image(1, 8, 10, 10), "optimized")
