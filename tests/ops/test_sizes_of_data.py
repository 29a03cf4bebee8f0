"""Results whose sizes depend on elements: a fake function asks torch for them, the kernel says them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

import penlight
from penlight.ops.checks import check

KERNELS = Path(__file__).parent / "kernels"


@pytest.fixture(scope="module")
def library() -> Any:
    return penlight.ops.load(KERNELS / "nonzero.cpp")


class Places(torch.nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return torch.ops.testplaces.places(x) * 2


def test_eager(library: Any) -> None:
    op = torch.ops.testplaces.places
    x = torch.tensor([0.0, 2.0, 0.0, 5.0])
    assert op(x).tolist() == [1, 3] and op(x).dtype == torch.int64
    assert op(torch.zeros(3)).tolist() == [] and op(torch.zeros(0)).shape == (0,)
    out = torch.empty(0, dtype=torch.int64)
    assert op.out(x, out=out) is out and out.tolist() == [1, 3]


def test_a_tensor_is_changed_once(library: Any) -> None:
    runs = torch.tensor([0])
    assert torch.ops.testplaces.counted(runs, torch.ones(2)).tolist() == [0, 1]
    assert runs.tolist() == [1]


def test_program_with_dynamic_input(library: Any) -> None:
    x = torch.tensor([0.0, 2.0, 0.0, 5.0])
    program = penlight.compile(Places(), (x,), dynamic_shapes={"x": {0: torch.export.Dim("n", max=9)}})
    loaded = penlight.load(program.to_bytes())
    for count in (2, 4, 9):
        given = (torch.arange(count) % 3).float()
        assert torch.equal(torch.as_tensor(loaded(given)), Places()(given))


def test_checks(library: Any) -> None:
    found = check(library)
    assert all(c.passed is not False for c in found), [c for c in found if c.passed is False]
