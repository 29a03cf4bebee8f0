"""Random modules that view, overwrite and keep each other's tensors, against eager over several calls."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

import pytest
import torch
from random_programs import SIZES, Program, write
from running import compare
from torch import Tensor

import penlight
from penlight.errors import ExportError, NotSupported

KINDS: dict[str, dict[str, Any]] = {
    "static": {},
    "dynamic": {"dynamic": True},
    "control flow": {"control": True},
}

# What one call leaves: its results, the arguments it may have changed, the buffers.
Left = tuple[list[Tensor], list[Tensor], dict[str, Tensor]]


class TooLarge(Exception):
    """Numbers that the narrowest dtypes do not hold exactly, or not alike on all machines."""


def run_eager(model: torch.nn.Module, calls: Sequence[Sequence[Tensor]]) -> list[Left]:
    left: list[Left] = []
    for given in copy.deepcopy(calls):
        with torch.no_grad():
            results = [value.clone() for value in model(*given)]
        buffers = {name: value.clone() for name, value in model.named_buffers()}
        left.append((results, list(given), buffers))
        for value in (*results, *given, *buffers.values()):
            limit = {torch.bfloat16: 2**8, torch.float16: 2**11}.get(value.dtype, 2**20)
            if value.numel() and not value.double().abs().max() < limit:
                raise TooLarge
    return left


def exported_alike(program: Program, calls: Sequence[Sequence[Tensor]], left: list[Left]) -> bool:
    """Is the program that torch.export makes the same as the module? Some views and states confuse it."""
    shapes = program.dynamic_shapes(2)
    try:
        exported = torch.export.export(program.module(), tuple(calls[0]), dynamic_shapes=shapes)
        again = run_eager(exported.module(), calls)
        compare([left[:2] for left in again], [one[:2] for one in left])
    except Exception:
        return False
    return True


def check(program: Program, target: str) -> bool:
    """Compare; False where eager or torch.export alone cannot say what is right."""
    dynamic = program.dynamic_shapes(2) is not None
    calls = [program.arguments(size, i) for i, size in enumerate(SIZES if dynamic else SIZES[:3])]
    try:
        left = run_eager(program.module(), calls)
    except TooLarge:
        return False
    try:
        compiled = penlight.compile(
            program.module(), calls[0], dynamic_shapes=program.dynamic_shapes(2), target=target
        )
        running = penlight.load(compiled.to_bytes())
        for number, (given, (results, after, buffers)) in enumerate(
            zip(copy.deepcopy(calls), left, strict=True)
        ):
            where = f"{target} call {number}"
            compare(running(*given), results, where=where)
            compare(list(given), after, where=f"{where} arguments")
            kept = [name for name in buffers if name in running.state]
            compare([running.state[n] for n in kept], [buffers[n] for n in kept], where=f"{where} {kept}")
    except ExportError:
        return False
    except Exception as error:
        if isinstance(error, NotSupported) or not exported_alike(program, calls, left):
            return False
        error.add_note(f"program {program.seed}: {program.states}, {program.inputs}\n{program.text}")
        raise
    return True


@pytest.mark.parametrize("target", ["cpu", "portable"])
@pytest.mark.parametrize(("kind", "count"), [("static", 24), ("dynamic", 12), ("control flow", 5)])
def test_first_programs(kind: str, count: int, target: str) -> None:
    compared = sum(check(write(seed, **KINDS[kind]), target) for seed in range(count))
    assert compared >= count * 0.6, "too many programs said nothing"


@pytest.mark.slow
@pytest.mark.parametrize("start", range(100, 700, 100))
@pytest.mark.parametrize("kind", KINDS)
def test_many_programs(kind: str, start: int) -> None:
    number = 40 if kind == "control flow" else 100
    compared = sum(
        check(write(seed, **KINDS[kind]), ("cpu", "portable")[seed % 2])
        for seed in range(start, start + number)
    )
    assert compared >= number * 0.6, "too many programs said nothing"
