"""What the tests of the optimized kernels share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from penlight.errors import NotSupported
from penlight.runtime.isa import INSTRUCTION_SETS, instruction_set, select_instruction_set


@pytest.fixture(params=INSTRUCTION_SETS)
def isa(request: pytest.FixtureRequest) -> Iterator[str]:
    """Kernels compute with this instruction set while the test runs."""
    best = instruction_set()
    try:
        select_instruction_set(request.param)
    except NotSupported:
        pytest.skip(f"this processor has no {request.param}")
    yield request.param
    select_instruction_set(best)
