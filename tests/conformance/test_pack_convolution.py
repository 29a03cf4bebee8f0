"""Weights packed in a run lie as those that were packed when the program was made."""

from __future__ import annotations

import pytest
import torch
from run_op import overload_of, run_op

from penlight.dialects.packed_ops import packed_ops
from penlight.errors import InvalidInput
from penlight.ir.tensors import Derived
from penlight.kernels.table import default_table
from penlight.passes.packing import pack_depthwise, pack_panels, pack_transposed

assert packed_ops(default_table(), ("optimized", "portable"))  # makes the operators known to torch

KERNELS = ("penlight::pack_convolution.out",)

# Sizes of the weight, groups.
CASES = [
    ((1, 1, 1, 1), 1),
    ((16, 4, 3, 3), 1),
    ((33, 5, 2, 3), 1),
    ((7, 40, 1), 1),
    ((20, 3, 9), 1),
    ((48, 5, 3, 3), 3),
    ((34, 7, 1, 5), 2),
    ((20, 1, 3, 3), 20),
    ((48, 1, 5, 5), 16),
    ((17, 1, 7), 17),
    ((70, 300, 3, 3), 1),  # enough for several threads
]


def pack(weight: torch.Tensor, bias: torch.Tensor | None, groups: int, *stride: int) -> torch.Tensor:
    op = overload_of("penlight::pack_convolution")
    args = [weight, bias, groups, list(stride)]
    want = op(*args)
    (got,) = run_op(op, args, {}, torch.empty_like(want), "optimized")
    assert torch.equal(got, want)
    return got


@pytest.mark.parametrize("sizes, groups", CASES, ids=str)
def test_panels_and_taps(sizes: tuple[int, ...], groups: int) -> None:
    bias = torch.randn(sizes[0])
    order = (*range(2, len(sizes)), 1, 0)  # as it may lie after a permutation
    lying = torch.randn([sizes[dim] for dim in order]).permute(
        [order.index(dim) for dim in range(len(sizes))]
    )
    for weight in (torch.randn(sizes), lying):
        for one in (bias, None):
            source = Derived.of(weight)
            depthwise = groups > 1 and sizes[1] == 1
            want = pack_depthwise(source, one) if depthwise else pack_panels(source, one, groups)
            assert torch.equal(pack(weight, one, groups), want.tensor())


def test_negative_zeros_as_biases() -> None:
    """Panels have none, whoever packs them."""
    weight, bias = torch.randn(20, 3, 3, 3), torch.full((20,), -0.0)
    made = pack_panels(Derived.of(weight), bias).tensor()
    assert torch.equal(pack(weight, bias, 1).view(torch.int32), made.view(torch.int32))
    assert not made[:16].signbit().any()


@pytest.mark.parametrize("stride", [(1, 1), (2, 2), (3, 2), (5, 7)])
@pytest.mark.parametrize("sizes", [(4, 20, 3, 3), (3, 16, 2, 5), (33, 1, 4, 4)])
def test_phases(sizes: tuple[int, ...], stride: tuple[int, int]) -> None:
    weight = torch.randn(sizes)
    for bias in (torch.randn(sizes[1]), None):
        want = pack_transposed(Derived.of(weight), bias, stride).tensor()
        assert torch.equal(pack(weight, bias, 1, *stride), want)
    signal = torch.randn(*sizes[:2], 6)
    want = pack_transposed(Derived.of(signal), None, (1, stride[1])).tensor()
    assert torch.equal(pack(signal, None, 1, 1, stride[1]), want)


@pytest.mark.parametrize(
    "args, message",
    [
        ((torch.randn(4, 4), None, 1, []), "3 or 4 dimensions"),
        ((torch.randn(4, 4, 3), None, 3, []), "in 3 groups"),
        ((torch.randn(4, 4, 3), None, 0, []), "in 0 groups"),
        ((torch.randn(4, 4, 3), None, 2, [1, 1]), "in 2 groups"),
        ((torch.randn(4, 4, 3), None, 1, [1]), "in 1 groups"),
        ((torch.randn(4, 4, 3), None, 1, [0, 2]), "in 1 groups"),
        ((torch.randn(4, 4, 3), torch.randn(5), 1, []), "no row|not a row"),
    ],
)
def test_what_is_no_weight(args: tuple[object, ...], message: str) -> None:
    op = overload_of("penlight::pack_convolution")
    with pytest.raises(InvalidInput, match=message):
        run_op(op, list(args), {}, torch.empty(1000), "optimized")
