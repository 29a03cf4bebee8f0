"""Plug-ins built once a session, in a cache of their own."""

from __future__ import annotations

import functools
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from penlight.build.plugin import build_plugin
from penlight.runtime.plugin import OperatorInfo, load_plugin

HERE = Path(__file__).parent


@pytest.fixture(scope="session", autouse=True)
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("cache")
    patch = pytest.MonkeyPatch()
    patch.setenv("PENLIGHT_CACHE", str(folder))
    if not any(shutil.which(name) for name in ("c++", "g++", "clang++")):
        pytest.skip("no C++ compiler")
    return folder


@functools.cache
def loaded(name: str) -> dict[str, OperatorInfo]:
    """Operators of tests/plugins/NAME.cpp, by name; loaded into this process."""
    return {info.name: info for info in load_plugin(build_plugin(HERE / f"{name}.cpp"))}


@pytest.fixture
def load(cache: Path) -> Callable[[str], dict[str, OperatorInfo]]:
    return loaded
