"""What a table of equal results cannot say of integer division: it fails, or wraps, and never traps."""

from __future__ import annotations

import pytest
import torch
from run_op import overload_of, run_op

from penlight.errors import RuntimeFailure

LOWEST = torch.tensor([-(2**63), 6])


@pytest.mark.parametrize("name", ["floor_divide", "fmod.Tensor", "remainder.Tensor"])
def test_division_by_zero_is_reported(name: str) -> None:
    with pytest.raises(RuntimeFailure, match="division by zero"):
        run_op(overload_of(f"aten::{name}"), [LOWEST, torch.tensor([1, 0])], {}, LOWEST)


def test_lowest_by_minus_one_wraps() -> None:
    minus_one = torch.tensor([-1, -1])
    (quotient,) = run_op(overload_of("aten::floor_divide"), [LOWEST, minus_one], {}, LOWEST)
    assert quotient.tolist() == [-(2**63), -6]
    (rest,) = run_op(overload_of("aten::remainder.Tensor"), [LOWEST, minus_one], {}, LOWEST)
    assert rest.tolist() == [0, 0]
