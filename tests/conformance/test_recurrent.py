"""LSTM and GRU of the optimized library against float64, with every instruction set of this machine."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from run_op import one_op_program, overload_of
from torch.utils import _pytree as pytree

import penlight
from penlight.dialects.penlight_ops import twins
from penlight.kernels.table import default_table

assert twins(default_table(), ("optimized", "portable"))  # makes penlight::lstm and gru known to torch

pytestmark = pytest.mark.usefixtures("isa")
KINDS = ("lstm", "gru")


def arguments(
    kind: str,
    inputs: int,
    hidden: int,
    steps: int,
    batch: int,
    *,
    layers: int = 1,
    both: bool = False,
    batch_first: bool = False,
    bias: bool = True,
) -> list[Any]:
    """Of a call of penlight::lstm or penlight::gru, all of it at random."""
    gates, directions = (4 if kind == "lstm" else 3) * hidden, 2 if both else 1
    params: list[torch.Tensor] = []
    for layer in range(layers):
        for _ in range(directions):
            width = directions * hidden if layer else inputs
            params += [torch.randn(gates, width) / width**0.5, torch.randn(gates, hidden) / hidden**0.5]
            params += [torch.randn(gates), torch.randn(gates)] if bias else []
    states = [torch.randn(layers * directions, batch, hidden) for _ in range(2)]
    x = torch.randn(batch, steps, inputs) if batch_first else torch.randn(steps, batch, inputs)
    return [x, states if kind == "lstm" else states[0], params, bias, layers, 0.0, False, both, batch_first]


def eager(kind: str, args: list[Any], dtype: torch.dtype = torch.float64) -> tuple[torch.Tensor, ...]:
    """What ATen gives; it takes no sequence of no step, which leaves the states as they are."""
    args = pytree.tree_map_only(torch.Tensor, lambda tensor: tensor.to(dtype), args)
    if 0 in args[0].shape[:2]:
        states = args[1] if kind == "lstm" else [args[1]]
        width = states[0].shape[-1] * (2 if args[7] else 1)
        return (args[0].new_zeros((*args[0].shape[:2], width)), *states)
    result: tuple[torch.Tensor, ...] = getattr(torch.ops.aten, kind).input(*args)
    return result


def check(kind: str, args: list[Any], threads: int = 1) -> list[torch.Tensor]:
    want = eager(kind, args)
    like = tuple(value.float() for value in want)
    file = one_op_program(overload_of(f"penlight::{kind}"), args, {}, like)
    tensors = [leaf for leaf in pytree.tree_leaves(args) if isinstance(leaf, torch.Tensor)]
    got = penlight.load(file, libraries="optimized", threads=threads)(*tensors)
    for mine, exact in zip(got, want, strict=True):
        torch.testing.assert_close(mine.double(), exact, rtol=1e-5, atol=5e-6, equal_nan=True)
    result: list[torch.Tensor] = got
    return result


# Every number of units that a vector may be left with, and of rows that a tile may be left with;
# so few steps that weights are read where they lie, and so many that they are laid out.
@pytest.mark.parametrize("kind", KINDS)
def test_every_size(kind: str) -> None:
    for hidden in range(1, 71):
        batch, steps = 1 + hidden % 11, (1, 2, 7, 30)[hidden % 4]
        check(kind, arguments(kind, 1 + hidden * 7 % 70, hidden, steps, batch))
        check(kind, arguments(kind, 1 + hidden * 5 % 70, hidden, 71 - hidden, 1))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("batch_first", [False, True])
@pytest.mark.parametrize("both", [False, True])
def test_layers_and_directions(kind: str, both: bool, batch_first: bool) -> None:
    for layers in (1, 2, 3, 4):
        for bias in (True, False):
            for steps, batch in ((1, 1), (1, 5), (3, 2), (40, 1), (9, 13), (100, 3)):
                check(
                    kind,
                    arguments(
                        kind,
                        *(11, 19, steps, batch),
                        layers=layers,
                        both=both,
                        batch_first=batch_first,
                        bias=bias,
                    ),
                )


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("steps, batch", [(300, 1), (40, 9), (3, 200), (260, 2)])
def test_more_inputs_than_one_product_takes(kind: str, steps: int, batch: int) -> None:
    for both in (False, True):
        check(kind, arguments(kind, 21, 17, steps, batch, layers=2, both=both, batch_first=both))


@pytest.mark.parametrize("kind", KINDS)
def test_nothing_to_do(kind: str) -> None:
    for steps, batch in ((0, 3), (3, 0), (0, 0)):
        check(kind, arguments(kind, 5, 6, steps, batch, layers=2, both=True))


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_not_finite(kind: str) -> None:
    for steps in (3, 40):
        for value in (torch.nan, torch.inf, -torch.inf, 3e38, -3e38):
            args = arguments(kind, 7, 21, steps, 3, layers=2)
            args[0][1, 1, 2] = value
            check(kind, args)
            args = arguments(kind, 7, 21, steps, 3)
            (args[1][0] if kind == "lstm" else args[1])[0, 2, 20] = value
            check(kind, args)
            args = arguments(kind, 7, 21, steps, 3)
            args[2][3][20] = value
            check(kind, args)


@pytest.mark.parametrize("kind", KINDS)
def test_large_gates_saturate(kind: str) -> None:
    args = arguments(kind, 9, 33, 30, 2)
    # Sums of these are exact, so that what is left of large ones is as well.
    args[0] = torch.randint(-4, 5, args[0].shape) * 256.0
    args[2][0], args[2][2] = (torch.round(part * 16) / 16 for part in (args[2][0], args[2][2]))
    check(kind, args)


# Weights that are split between threads in each way: by direction, by row and by unit.
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "hidden, steps, batch, both",
    [(40, 30, 1, True), (64, 50, 7, False), (64, 50, 5, True), (300, 5, 1, False), (230, 30, 3, True)],
)
def test_threads_change_nothing(kind: str, hidden: int, steps: int, batch: int, both: bool) -> None:
    args = arguments(kind, 24, hidden, steps, batch, both=both)
    alone = check(kind, args)
    for threads in (2, 3, 5):
        for mine, theirs in zip(check(kind, args, threads), alone, strict=True):
            assert torch.equal(mine, theirs)
