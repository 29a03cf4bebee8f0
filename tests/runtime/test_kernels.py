"""Kernels without a program: listed, and called by name."""

from __future__ import annotations

import numpy as np
import pytest

from penlight.errors import InvalidInput, NoKernel, PenlightError
from penlight.runtime.kernels import call_kernel, signature_of
from penlight.runtime.operators import operators


def test_operators_are_listed() -> None:
    listed = operators()
    of_add = {operator.library: operator for operator in listed if operator.name == "aten::add.out"}
    assert set(of_add) == {"optimized", "portable"}
    for library, add in of_add.items():
        assert (add.signature, add.key) == ("TTSO", "")
        assert add.source.startswith(f"kernels/{library}/")
    assert signature_of("aten::add.out", "portable") == "TTSO"


def test_call() -> None:
    a, out = np.arange(6, dtype=np.float32).reshape(2, 3), np.empty((2, 3), np.float32)
    assert call_kernel("aten::add.out", [a, a, 2, out]) == [(2, 3)] * 3
    np.testing.assert_array_equal(out, a * 3)


def test_lists_and_optional_arguments() -> None:
    a, out = np.arange(6, dtype=np.int64).reshape(2, 3), np.empty((4, 3), np.int64)
    call_kernel("aten::cat.out", [[a, a], 0, out])
    np.testing.assert_array_equal(out, np.concatenate([a, a]))
    total = np.empty(2, np.float32)
    call_kernel("aten::sum.IntList_out", [a.astype(np.float32), [1], False, None, total])
    np.testing.assert_array_equal(total, a.sum(1))
    low = np.empty((2, 3), np.int64)
    call_kernel("aten::clamp.out", [a, None, 3, low])
    np.testing.assert_array_equal(low, np.minimum(a, 3))
    call_kernel("aten::index.Tensor_out", [a, [None, np.array([2, 0])], out[:2, :2].copy()])


def test_an_output_that_becomes_smaller() -> None:
    a, out = np.array([0, 3, 0, 4]), np.empty((4, 1), np.int64)
    sizes = call_kernel("aten::nonzero.out", [a, out])
    assert sizes[-1] == (2, 1)
    np.testing.assert_array_equal(out[:2, 0], [1, 3])


def test_what_does_not_fit() -> None:
    a = np.ones(3, np.float32)
    with pytest.raises(NoKernel, match=r"no kernel for aten::ad\.out") as caught:
        call_kernel("aten::ad.out", [a, a, 1, a])
    assert "aten::add.out" in str(caught.value.do)
    with pytest.raises(InvalidInput, match="takes 4 arguments"):
        call_kernel("aten::add.out", [a, a])
    with pytest.raises(InvalidInput, match=r"argument 0 of aten::add\.out should be an array"):
        call_kernel("aten::add.out", [1, a, 1, a])
    with pytest.raises(InvalidInput, match="stride"):
        call_kernel("aten::add.out", [np.ones(6, np.float32)[::2], a, 1, a])
    with pytest.raises(PenlightError, match=r"\[5\]"):
        call_kernel("aten::add.out", [np.ones(5, np.float32), np.ones(5, np.float32), 1, a])
