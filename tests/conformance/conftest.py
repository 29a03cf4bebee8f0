"""What the tests of the optimized kernels share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from instruction_sets import AVAILABLE, computing_with


@pytest.fixture(params=AVAILABLE)
def isa(request: pytest.FixtureRequest) -> Iterator[str]:
    """Kernels compute with this instruction set while the test runs."""
    with computing_with(request.param):
        yield request.param
