"""Small programs in both directions between Penlight and ExecuTorch; see programs.py.

The same as a table, with the models: `python tests/compat/table.py`.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from exchange import ours_in_theirs, theirs_in_ours
from peer import Peer
from programs import PROGRAMS, make


@pytest.mark.parametrize("name", PROGRAMS)
def test_our_file_runs_in_theirs(name: str, peer: Peer, tmp_path: Path) -> None:
    exchange = make(name)
    assert ours_in_theirs(peer, name, exchange, tmp_path) <= exchange.tolerance


@pytest.mark.parametrize("name", PROGRAMS)
def test_their_file_runs_in_ours(name: str, peer: Peer, tmp_path: Path) -> None:
    exchange = make(name)
    assert theirs_in_ours(peer, name, exchange, tmp_path) <= exchange.tolerance
