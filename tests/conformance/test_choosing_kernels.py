"""Choosing the instruction set of the optimized kernels."""

from __future__ import annotations

import pytest
import torch
from instruction_sets import AVAILABLE
from run_op import run_op

from penlight.errors import NotSupported
from penlight.runtime.isa import INSTRUCTION_SETS, instruction_set, select_instruction_set


def test_the_first_one_is_always_there() -> None:
    assert AVAILABLE[0] == INSTRUCTION_SETS[0] == "base"
    assert instruction_set() in AVAILABLE


@pytest.mark.parametrize("name", [name for name in INSTRUCTION_SETS if name not in AVAILABLE])
def test_one_that_the_processor_has_not(name: str) -> None:
    best = instruction_set()
    with pytest.raises(NotSupported, match=f"cannot compute with '{name}'"):
        select_instruction_set(name)
    assert instruction_set() == best
    pytest.skip(f"this processor has no {name}: no test of a kernel computes with it")


@pytest.mark.parametrize("name", ["", "AVX2", "avx", "sse9"])
def test_one_that_there_is_not(name: str) -> None:
    best = instruction_set()
    with pytest.raises(NotSupported, match="choose one that the processor has, of base, avx2") as caught:
        select_instruction_set(name)
    assert f"kernels use {best}" in str(caught.value)
    assert instruction_set() == best


def test_each_computes(isa: str) -> None:
    assert instruction_set() == isa
    x = torch.randn(1000)
    (got,) = run_op(torch.ops.aten.exp.out, [x], {}, torch.empty(1000), "optimized")
    torch.testing.assert_close(got, x.exp())
