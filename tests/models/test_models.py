"""Real networks through the whole way: compiled, run in our runtime, equal to eager, and right.

The same numbers as a table: `python -m benchmarks.model_table`.
"""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2]))

from benchmarks.models import NAMES, load
from benchmarks.models.wheels import PackageMissing

BOUND = 1e-4  # of the output's range
SLOW = {"smollm2", "resnet50"}


@pytest.mark.parametrize("name", [pytest.param(n, marks=[pytest.mark.slow] * (n in SLOW)) for n in NAMES])
def test_runs_as_in_eager(name: str) -> None:
    pytest.importorskip("penlight.emitter")
    from benchmarks.models.compiled import Loaded, compiled, differences

    try:
        model = load(name)
    except (PackageMissing, ModuleNotFoundError) as missing:
        pytest.skip(str(missing))
    program = Loaded(compiled(name))
    for difference in differences(model, program):
        assert difference.error <= BOUND, (
            f"{name}.{difference.method} is off by {difference.error:.1e} of its range"
        )
    if model.check is not None:
        model.check(program)
