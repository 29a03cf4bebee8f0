"""The programs of the README print what stands below them."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
NATIVE = ROOT / "build" / "native"
BLOCK = re.compile(r"```(\w+)\n(.*?)```", re.DOTALL)

# In the order of a linker's command line.
LIBRARIES = ("hosted", "optimized", "portable", "kernel_common", "core")


def program_and_output(language: str) -> tuple[str, str]:
    blocks = BLOCK.findall((ROOT / "README.md").read_text())
    at = next(i for i, (name, _) in enumerate(blocks) if name == language)
    return blocks[at][1], blocks[at + 1][1]


def run(command: list[str], folder: Path) -> str:
    return subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True).stdout


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the Python program has run."""
    folder = tmp_path_factory.mktemp("readme")
    program, output = program_and_output("python")
    assert run([sys.executable, "-c", program], folder) == output
    return folder


def test_python(folder: Path) -> None:
    assert (folder / "model.pte").stat().st_size < 10_000


def test_cpp(folder: Path) -> None:
    compiler = shutil.which("c++")
    if compiler is None:
        pytest.skip("no C++ compiler")
    libraries = [NATIVE / f"libpenlight_{name}.a" for name in LIBRARIES]
    if not all(path.exists() for path in libraries):
        pytest.skip("the libraries are not built (make build)")
    cache = (NATIVE / "CMakeCache.txt").read_text()
    if "/zig-" in cache or "PENLIGHT_SANITIZE:BOOL=ON" in cache:
        pytest.skip("the libraries were built by another compiler, or with sanitizers")
    program, output = program_and_output("cpp")
    (folder / "app.cpp").write_text(program)
    include = ROOT / "runtime" / "include"
    run(
        [compiler, "-std=c++17", f"-I{include}", "app.cpp", *map(str, libraries), "-ldl", "-o", "app"], folder
    )
    assert run(["./app"], folder) == output
