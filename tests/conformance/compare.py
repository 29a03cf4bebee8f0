"""When a result counts as ATen's."""

from __future__ import annotations

from typing import Any

import torch
from op_case import TOLERANCE, Case
from torch._ops import OpOverload
from torch.utils import _pytree as pytree

_WIDER = {torch.float16: torch.float32, torch.bfloat16: torch.float32}
# ATen's AVX-512 kernel makes infinity of 2e38 and NaN of infinity, its others do not.
_DIFFERS_BY_CPU = ("aten::gelu",)


def assert_matches(case: Case, op: OpOverload, got: Any, want: Any) -> None:
    """`got` is `want`: dtype, sizes and values within the row's tolerance.

    ATen rounds some 16-bit results several times on the way. A kernel that computes
    in float32 and rounds once is not wrong for being closer, so what ATen makes of
    the same inputs in float32 counts as well; in float64 where ATen's own float32
    kernels do not agree.
    """
    to = torch.float64 if case.op.name in _DIFFERS_BY_CPU else _WIDER.get(case.dtype, case.dtype)
    if to is case.dtype:
        return _assert_close(case, got, want)
    try:
        _assert_close(case, got, want)
    except AssertionError:
        try:
            args, kwargs = _widen(case.arguments(), case.dtype, to)
            wider = op(*args, **kwargs)
        except Exception:
            wider = None
        if wider is None:
            raise
        types = [leaf.dtype for leaf in pytree.tree_leaves(want) if leaf is not None]
        rounded = [leaf.to(dtype) for leaf, dtype in zip(pytree.tree_leaves(wider), types, strict=True)]
        _assert_close(case, got, rounded)


def _assert_close(case: Case, got: Any, want: Any) -> None:
    actual = pytree.tree_leaves(got)
    expected = [leaf for leaf in pytree.tree_leaves(want) if leaf is not None]
    assert len(actual) == len(expected), f"{len(actual)} results, wanted {len(expected)}"
    for a, e in zip(actual, expected, strict=True):
        if not isinstance(e, torch.Tensor):
            assert a == e
            continue
        rtol, atol = (0.0, 0.0) if case.op.exact else TOLERANCE.get(e.dtype, (0.0, 0.0))
        if case.op.tol is not None and (e.dtype.is_floating_point or e.dtype.is_complex):
            rtol = atol = max(case.op.tol, rtol)
        torch.testing.assert_close(a, e, rtol=rtol, atol=atol, equal_nan=True)


def _widen(value: Any, dtype: torch.dtype, to: torch.dtype) -> Any:
    return pytree.tree_map(
        lambda leaf: leaf.to(to) if isinstance(leaf, torch.Tensor) and leaf.dtype is dtype else leaf, value
    )
