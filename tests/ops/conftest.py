from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import penlight

KERNELS = Path(__file__).parent / "kernels"


@pytest.fixture(scope="session")
def linear() -> Any:
    return penlight.ops.load(KERNELS / "linear.cpp")


@pytest.fixture(scope="session")
def state() -> Any:
    return penlight.ops.load(KERNELS / "state.cpp")


@pytest.fixture(scope="session")
def arguments() -> Any:
    return penlight.ops.load(KERNELS / "arguments.cpp")
