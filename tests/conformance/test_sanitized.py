"""Every kernel under AddressSanitizer and UndefinedBehaviorSanitizer: the tables and the first samples.

The library is built once more, with sanitizers; the cases run in a process of their own, whose preloaded
runtime ends it at the first stray access or undefined operation.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
BUILD = ROOT / "build" / "sanitize-library"
RUNTIMES = ("libasan.so", "libubsan.so")


def sanitizers() -> list[str]:
    """The runtimes of gcc's sanitizers; none where there are none."""
    if sys.platform != "linux" or shutil.which("gcc") is None:
        return []
    found = [
        subprocess.run(["gcc", f"-print-file-name={name}"], capture_output=True, text=True).stdout.strip()
        for name in RUNTIMES
    ]
    return [path for path in found if os.path.isabs(path)]


@pytest.fixture(scope="module")
def library() -> Path:
    if shutil.which("cmake") is None or len(sanitizers()) != len(RUNTIMES):
        pytest.skip("needs cmake and gcc with its sanitizers")
    environment = {**os.environ, "CC": "gcc", "CXX": "g++", "MAKEFLAGS": ""}
    options = ["-DPENLIGHT_SANITIZE=ON", "-DCMAKE_BUILD_TYPE=None", f"-DPython_EXECUTABLE={sys.executable}"]
    for command in (
        ["cmake", "-S", str(ROOT), "-B", str(BUILD), *options],
        ["cmake", "--build", str(BUILD), "--parallel", "2", "--target", "penlight"],
    ):
        done = subprocess.run(command, capture_output=True, text=True, env=environment)
        assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    return BUILD / "libpenlight.so"


@pytest.mark.slow
def test_no_kernel_strays(library: Path, tmp_path: Path) -> None:
    results = tmp_path / "results.json"
    done = subprocess.run(
        [sys.executable, ROOT / "tests/conformance/report.py", "--samples", "1", "--results", str(results)],
        capture_output=True,
        text=True,
        env={
            **os.environ,
            "PENLIGHT_LIBRARY": str(library),
            "LD_PRELOAD": " ".join(sanitizers()),
            "ASAN_OPTIONS": "detect_leaks=0:allocator_may_return_null=1",
        },
    )
    # An aborted worker would also be seen by the pool that waits for it; look for what it says first.
    assert "ERROR: AddressSanitizer" not in done.stderr, done.stderr[-4000:]
    assert "runtime error:" not in done.stderr, done.stderr[-4000:]
    assert results.exists(), done.stderr[-4000:]
