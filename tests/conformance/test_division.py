"""What a table of results cannot say of division: integers fail, or wrap; 16 bits are rounded once."""

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


@pytest.mark.parametrize("name", ["floor_divide", "fmod.Tensor", "remainder.Tensor"])
def test_numbers_of_more_than_32_bits(name: str) -> None:
    """And those next to the numbers of 32 bits, which are divided by another instruction."""
    ends = [2**31, 2**32, 2**33, 2**62, 2**63 - 2]
    numbers = torch.tensor([3, 7, 10**9, *(end + i for end in ends for i in (-1, 0, 1))])
    x, y = torch.cartesian_prod(torch.cat([numbers, -numbers]), torch.cat([numbers, -numbers])).unbind(1)
    # From Python's integers, as ATen may divide these as floats.
    pairs = list(zip(x.tolist(), y.tolist(), strict=True))
    floored = [a // b if name == "floor_divide" else a % b for a, b in pairs]
    wanted = [(a > 0 or -1) * (abs(a) % abs(b)) for a, b in pairs] if name == "fmod.Tensor" else floored
    (got,) = run_op(overload_of(f"aten::{name}"), [x.clone(), y.clone()], {}, x)
    assert got.tolist() == wanted


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("mode", ["floor", "trunc", None])
def test_a_divisor_of_more_digits_is_not_rounded(dtype: torch.dtype, mode: str | None) -> None:
    """A number of another dtype is used as it is, as ATen does: `x // 0.3` in a model is such."""
    x = torch.linspace(-6, 6, 2001).to(dtype)
    for divisor in (torch.tensor(0.3), torch.tensor(0.1), torch.tensor(0.3, dtype=dtype)):
        calls = [(overload_of("aten::div.Tensor_mode"), {"rounding_mode": mode})]
        calls += [(overload_of("aten::floor_divide"), {})] if mode == "floor" else []
        for op, kwargs in calls:
            want = op(x, divisor, **kwargs)
            (got,) = run_op(op, [x, divisor], kwargs, want)
            torch.testing.assert_close(got, want, rtol=0, atol=0)
