"""What the tests of the optimized kernels share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from penlight.errors import NotSupported
from penlight.runtime.isa import INSTRUCTION_SETS, instruction_set, select_instruction_set


# "avx512-intel" is the code of "avx512" by other choices, which tests of those choices select themselves.
@pytest.fixture(params=[name for name in INSTRUCTION_SETS if name != "avx512-intel"])
def isa(request: pytest.FixtureRequest) -> Iterator[str]:
    """Kernels compute with this instruction set while the test runs."""
    best = instruction_set()
    try:
        select_instruction_set(request.param)
    except NotSupported:
        pytest.skip(f"this processor has no {request.param}")
    yield request.param
    select_instruction_set(best)
