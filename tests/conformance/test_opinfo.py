"""PyTorch's own operator samples, run as programs: what its calls come to, operator by operator.

`make test` runs the first sample of every OpInfo with three dtypes; `make test-all` runs all of them, one
test an OpInfo. tests/conformance/report.py counts them.
"""

from __future__ import annotations

from collections.abc import Iterable

import pytest
import torch

pytest.importorskip("expecttest", reason="PyTorch's samples need it")

from compare_recorded import Result, run_recorded
from opinfo import DTYPES, Recorded, all_groups, op_infos, record


def failures(calls: Iterable[Recorded]) -> list[str]:
    """What went wrong, each with its operator and arguments."""
    outcomes = ((call, run_recorded(call)) for call in calls)
    return [f"{call.id}: {found.why}" for call, found in outcomes if found.result == Result.FAILED]


FAST = (torch.float32, torch.float16, torch.int64)


@pytest.mark.parametrize(
    "dtype",
    [
        pytest.param(
            dtype, id=str(dtype).removeprefix("torch."), marks=[] if dtype in FAST else pytest.mark.slow
        )
        for dtype in DTYPES
    ],
)
def test_first_samples(dtype: torch.dtype) -> None:
    """Of every operator and dtype of its arguments, the first call that any sample comes to."""
    seen: set[tuple[object, ...]] = set()
    chosen = []
    for name, _ in all_groups((dtype,)):
        for call in record(name, dtype, 1).found:
            if call.kind not in seen:
                seen.add(call.kind)
                chosen.append(call)
    assert len(chosen) > 100
    assert failures(chosen) == []


@pytest.mark.slow
@pytest.mark.parametrize("name", op_infos())
def test_all_samples(name: str) -> None:
    wrong = []
    for _, dtype in (group for group in all_groups() if group[0] == name):
        wrong += failures(record(name, dtype).found)
    assert wrong == []
