from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parents[2])]

from peer import MISSING, Peer, python  # noqa: E402


@pytest.fixture(scope="session")
def peer() -> Iterator[Peer]:
    if python() is None:
        pytest.skip(MISSING)
    server = Peer()
    yield server
    server.close()
