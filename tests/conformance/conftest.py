"""What the tests of the optimized kernels share."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from penlight.errors import NotSupported
from penlight.runtime.isa import INSTRUCTION_SETS, instruction_set, select_instruction_set


@contextmanager
def computing_with(name: str) -> Iterator[None]:
    """Kernels compute with this instruction set meanwhile; a test that they cannot is skipped."""
    best = instruction_set()
    try:
        select_instruction_set(name)
    except NotSupported:
        pytest.skip(f"this processor has no {name}")
    yield
    select_instruction_set(best)


@pytest.fixture(params=INSTRUCTION_SETS)
def isa(request: pytest.FixtureRequest) -> Iterator[str]:
    """Kernels compute with this instruction set while the test runs."""
    with computing_with(request.param):
        yield request.param
