"""Kernel files that were written for ExecuTorch, built and called without a change."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from penlight.errors import InvalidInput
from penlight.runtime.kernels import call_kernel
from penlight.runtime.plugin import OperatorInfo

Load = Callable[[str], dict[str, OperatorInfo]]


def test_operators_by_name_and_by_schema(load: Load) -> None:
    infos = load("executorch_kernels")
    assert set(infos) == {"etop::custom_linear.out", "etop::min_max.out"}
    assert infos["etop::custom_linear.out"].schema == (
        "custom_linear.out(Tensor arg0, Tensor arg1, Tensor? arg2, *, Tensor(a!) out) -> Tensor(a!)"
    )
    # Registered twice, with EXECUTORCH_LIBRARY and with TORCH_LIBRARY; `Tensor(?)` is understood.
    (info,) = load("wrap_to_aten").values()
    assert info.schema == (
        "scaled_add.out(Tensor a, Tensor b, float scale, Tensor? bias, *, Tensor(a!) out) -> Tensor(a!)"
    )


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int32, np.int64, np.uint8])
def test_dtype_switch_and_optional(load: Load, dtype: Any) -> None:
    load("executorch_kernels")
    rng = np.random.default_rng(0)
    weight, x, bias = ((rng.random(shape) * 5).astype(dtype) for shape in ((3, 4), (2, 4), (3,)))
    out = np.empty((2, 3), dtype)
    call_kernel("etop::custom_linear.out", [weight, x, bias, out])
    np.testing.assert_allclose(out, x @ weight.T + bias, rtol=1e-5)
    call_kernel("etop::custom_linear.out", [weight, x, None, out])
    np.testing.assert_allclose(out, x @ weight.T, rtol=1e-5)


def test_scratch_and_two_results(load: Load) -> None:
    load("executorch_kernels")
    x = np.random.default_rng(0).random((3, 5)).astype(np.float16)
    low, high = np.empty((), np.float16), np.empty((), np.float16)
    call_kernel("etop::min_max.out", [x, low, high])
    assert (low, high) == (x.min(), x.max())


def test_wrapped_kernel(load: Load) -> None:
    load("wrap_to_aten")
    a = np.arange(6, dtype=np.float32).reshape(2, 3)
    out = np.empty((2, 3), np.float32)
    call_kernel("etwrapped::scaled_add.out", [a, a, 2.0, None, out])
    np.testing.assert_array_equal(out, a * 3)


def test_checks_are_errors_with_their_text(load: Load) -> None:
    load("executorch_kernels")
    a, out = np.ones((2, 3), np.float32), np.empty((2, 2), np.float32)
    with pytest.raises(InvalidInput, match="inner sizes 3 and 4 differ"):
        call_kernel("etop::custom_linear.out", [a, np.ones((2, 4), np.float32), None, out])
    with pytest.raises(InvalidInput, match=r"check failed: weight\.dim\(\) == 2"):
        call_kernel("etop::custom_linear.out", [a[0], a, None, out])
    with pytest.raises(InvalidInput, match=r"custom_linear\.out: element type bool is not supported"):
        call_kernel("etop::custom_linear.out", [a.astype(bool), a.astype(bool), None, out.astype(bool)])


@pytest.mark.parametrize(
    ("number", "seen"),
    [
        (3, [3, 3, 3, 3, 3, 1, 4]),
        (-2, [-2, -1, -2, -2, -2, 1, 4]),
        (200, [-1, 200, 200, 200, 200, 1, 4]),
        (0, [0, 0, 0, 0, 0, 0, 4]),
        (2.5, [-1, -1, 2.5, 2.5, 2.5, -1, 7]),
        (70000.0, [-1, -1, 70000, -1, 70000, -1, 7]),
        (1e300, [-1, -1, -1, -1, 1e300, -1, 7]),
        (float("inf"), [-1, -1, np.inf, np.inf, np.inf, -1, 7]),
        (float("nan"), [-1, -1, np.nan, np.nan, np.nan, -1, 7]),
        (True, [-1, -1, -1, -1, -1, 1, 11]),
        (False, [-1, -1, -1, -1, -1, 0, 11]),
    ],
)
def test_numbers_that_are_extracted(load: Load, number: Any, seen: list[float]) -> None:
    load("executorch_scalars")
    out = np.zeros(7)
    call_kernel("etscalars::seen.out", [number, out])
    np.testing.assert_array_equal(out, seen)


def test_the_macro_that_extracts(load: Load) -> None:
    load("executorch_scalars")
    for dtype, number in ((np.int8, -7), (np.int64, 2**62), (np.float32, 2.5), (np.float64, 4)):
        out = np.empty((2, 3), dtype)
        call_kernel("etscalars::filled.out", [np.empty((2, 3), dtype), number, out])
        assert (out == number).all()
