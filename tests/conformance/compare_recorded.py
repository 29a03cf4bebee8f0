"""Run a recorded call as a program, and judge the result by ATen's."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Any

import mpmath
import torch
from factors import FACTORS
from op_case import TOLERANCE
from opinfo import Recorded, copied, takes
from run_op import run_op
from torch.utils import _pytree as pytree

from penlight.errors import NoKernel

# Of equal elements, each picks one; which one ATen leaves open.
_PICKS = ("median", "nanmedian", "mode", "kthvalue", "topk", "sort")
# Functions that ATen's double precision is too coarse to judge: at poles, and where it loses digits.
_EXACT: dict[str, Callable[..., Any]] = {
    "polygamma": lambda order, x: mpmath.psi(order, x),
    "special_airy_ai": lambda x: mpmath.airyai(x),
    "special_bessel_j0": lambda x: mpmath.besselj(0, x),
    "special_bessel_j1": lambda x: mpmath.besselj(1, x),
    "special_bessel_y0": lambda x: mpmath.bessely(0, x),
    "special_bessel_y1": lambda x: mpmath.bessely(1, x),
}
_WIDE = {torch.complex64: torch.complex128, torch.complex32: torch.complex128}


class Result(Enum):
    PASSED = "passed"
    FAILED = "failed"
    UNTAKEN = "not taken"  # no kernel for these dtypes, which is told when a model is compiled
    REFUSED = "refused"  # by ATen, or not a tensor


@dataclass(frozen=True)
class Outcome:
    result: Result
    why: str = ""


def run_recorded(call: Recorded, run: Callable[..., list[torch.Tensor]] | None = None) -> Outcome:
    """What came of one call, here or by a `run` of which the table of kernels says nothing."""
    try:
        want = call.op(*copied(call.args), **copied(call.kwargs))
    except Exception as error:  # ATen has its own reasons
        return Outcome(Result.REFUSED, str(error))
    if not all(isinstance(leaf, torch.Tensor) for leaf in pytree.tree_leaves(want)):
        return Outcome(Result.REFUSED, "no tensor")
    if run is None and takes(call) is None:
        return Outcome(Result.UNTAKEN)
    want = copied(want)
    try:
        got = (run or run_op)(call.op, list(copied(call.args)), copied(call.kwargs), want)
    except NoKernel as error:
        return Outcome(Result.UNTAKEN, error.what)
    except Exception as error:
        return Outcome(Result.FAILED, f"{type(error).__name__}: {error}")
    why = _difference(call, pytree.tree_leaves(got), pytree.tree_leaves(want))
    return Outcome(Result.FAILED if why else Result.PASSED, why)


def _difference(call: Recorded, got: list[torch.Tensor], want: list[torch.Tensor]) -> str:
    """What is wrong with a result; "" when nothing is."""
    if len(got) != len(want):
        return f"{len(got)} results, wanted {len(want)}"
    factors = FACTORS.get(call.op._schema.name)
    if factors is not None and [leaf.shape for leaf in got] == [leaf.shape for leaf in want]:
        return " ".join(factors(call.args, got, want).split())
    for index, (have, expected) in enumerate(zip(got, want, strict=True)):
        why = _not_close(have, expected)
        if not why:
            continue
        floating = expected.is_floating_point() or expected.is_complex()
        if floating and have.shape == expected.shape and have.dtype == expected.dtype:
            truth = _truth(call)
            if truth is not None and _is_no_further(have, expected, truth[index]):
                continue
        picks = index == 1 and call.op._schema.name.split("::")[1] in _PICKS
        if picks and _picks_equal(call, have, expected):
            continue
        return f"result {index}: {' '.join(why.split())}"
    return ""


def _not_close(have: torch.Tensor, expected: torch.Tensor) -> str:
    rtol, atol = TOLERANCE.get(expected.dtype, (0.0, 0.0))
    if expected.dtype == torch.complex64:
        rtol, atol = TOLERANCE[torch.float32]
    try:
        torch.testing.assert_close(have, expected, rtol=rtol, atol=atol, equal_nan=True)
    except AssertionError as error:
        return str(error)
    return ""


def _truth(call: Recorded) -> list[torch.Tensor] | None:
    """The same in double precision, or to any number of digits."""
    exact = _EXACT.get(call.op._schema.name.removeprefix("aten::"))
    if exact is not None:
        return [_elementwise(exact, call.args)]

    def widen(leaf: Any) -> Any:
        if isinstance(leaf, torch.Tensor):
            return leaf.to(_wide(leaf.dtype))
        return _wide(leaf) if isinstance(leaf, torch.dtype) else leaf

    try:
        result = call.op(*pytree.tree_map(widen, call.args), **pytree.tree_map(widen, call.kwargs))
    except Exception:  # not for double precision
        return None
    return pytree.tree_leaves(result)


def _elementwise(function: Callable[..., Any], args: tuple[Any, ...]) -> torch.Tensor:
    """A function of numbers and one tensor, element by element."""
    *numbers, tensor = args
    found = []
    for value in tensor.double().flatten().tolist():
        try:
            found.append(float(function(*numbers, value)) if value == value else value)
        except (ZeroDivisionError, ValueError, TypeError):
            # No number: a pole, where the function goes to the same infinity from both sides or to none.
            found.append(float("inf") if numbers and numbers[0] % 2 else float("nan"))
    return torch.tensor(found, dtype=torch.float64).reshape(tensor.shape)


def _wide(dtype: torch.dtype) -> torch.dtype:
    return _WIDE.get(dtype, torch.float64 if dtype.is_floating_point else dtype)


def _is_no_further(have: torch.Tensor, expected: torch.Tensor, truth: torch.Tensor) -> bool:
    """Is `have` as near to the truth as ATen is, or as near as its dtype can be?"""
    if truth.shape != have.shape or not _not_close(have, truth.to(have.dtype)):
        return truth.shape == have.shape
    errors = []
    for result in (have, expected):
        same = (result == truth.to(result.dtype)) | (result.isnan() & truth.isnan())
        errors.append(torch.where(same, 0.0, (result.to(truth.dtype) - truth).abs()))
    if errors[0].isnan().any() or errors[1].isnan().any():
        return False
    return bool(errors[0].max() <= errors[1].max())


def _picks_equal(call: Recorded, have: torch.Tensor, expected: torch.Tensor) -> bool:
    """Do two indices of each place lead to the same value?"""
    names = [argument.name for argument in call.op._schema.arguments]
    given = {
        **{argument.name: argument.default_value for argument in call.op._schema.arguments},
        **dict(zip(names, call.args, strict=False)),
        **call.kwargs,
    }
    source, dim = given["self"], given["dim"]
    if have.shape != expected.shape or source.dim() == 0:
        return False
    if have.dim() < source.dim():
        have, expected = have.unsqueeze(dim), expected.unsqueeze(dim)
    if have.numel() and (have.min() < 0 or have.max() >= source.size(dim)):
        return False
    found, wanted = source.gather(dim, have), source.gather(dim, expected)
    return bool(((found == wanted) | ((found != found) & (wanted != wanted))).all())
