"""Without a C++17 compiler the build asks PyPI for one, and says so."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

BACKEND = Path(__file__).resolve().parents[2] / "cmake" / "build_backend.py"


def requires(compiler: str | None) -> subprocess.CompletedProcess[str]:
    environment = {name: value for name, value in os.environ.items() if name != "CXX"}
    if compiler:
        environment["CXX"] = compiler
    command = [sys.executable, str(BACKEND), "requires"]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=True)


def test_broken_compiler(tmp_path: Path) -> None:
    broken = tmp_path / "c++"
    broken.write_text("#!/bin/sh\nexit 1\n")
    broken.chmod(0o755)
    done = requires(str(broken))
    assert "ziglang" in done.stdout
    assert done.stderr == "penlight: no C++17 compiler found; building with ziglang from PyPI instead\n"


def test_no_compiler() -> None:
    assert "ziglang" in requires("no-such-compiler").stdout


def test_working_compiler() -> None:
    done = requires(None)
    if "ziglang" in done.stdout:
        pytest.skip("no C++ compiler on this machine")
    assert done.stderr == ""


def test_never_asks_for_torch() -> None:
    assert "torch" not in requires("no-such-compiler").stdout
    text = (BACKEND.parent.parent / "pyproject.toml").read_text()
    assert "torch" not in text.split("requires = ")[1].split("\n")[0]


def test_misuse_prints_how() -> None:
    done = subprocess.run([sys.executable, str(BACKEND), "other"], capture_output=True, text=True)
    assert done.returncode == 2
    assert "build_backend.py native" in done.stderr
