"""What every test shares: repeatable random numbers, one thread each, no deadlines."""

from __future__ import annotations

import gc
import os
import random
import sys
from collections.abc import Iterator

import pytest
from hypothesis import settings

# Before torch or numpy is imported: each worker of pytest -n has one core.
os.environ.setdefault("OMP_NUM_THREADS", "1")

# Times say nothing on a shared machine; CI must not find new failures at random.
settings.register_profile("penlight", deadline=None, derandomize=bool(os.environ.get("CI")))
settings.load_profile("penlight")


def pytest_collection_finish() -> None:
    """Leave out of garbage collections what stays: torch, all modules of tests, and all tests."""
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True)
def seeded() -> Iterator[None]:
    """Every test starts from the same random state, whatever ran before it."""
    random.seed(0)
    if "numpy" in sys.modules:
        sys.modules["numpy"].random.seed(0)
    if "torch" in sys.modules and hasattr(sys.modules["torch"], "manual_seed"):
        sys.modules["torch"].manual_seed(0)
    yield
