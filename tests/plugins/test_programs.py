"""Programs that call operators of plug-ins: in Python, on the command line, in the C++ runner."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import penlight  # noqa: E402
import penlight.ops  # noqa: E402
from penlight.build.plugin import build_plugin  # noqa: E402
from penlight.errors import NoKernel  # noqa: E402

HERE = Path(__file__).parent
ROOT = HERE.parents[1]


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A program that calls testing::custom_linear."""
    penlight.ops.load(HERE / "custom_linear.cpp")

    class Model(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = torch.nn.Parameter(torch.arange(12.0).reshape(3, 4))

        def forward(self, x: Any) -> Any:
            return torch.ops.testing.custom_linear(self.weight, x, None) + 1

    path = tmp_path_factory.mktemp("programs") / "custom.pte"
    penlight.compile(Model(), (torch.ones(2, 4),)).save(path)
    return path


X = np.arange(8, dtype=np.float32).reshape(2, 4)
WANT = X @ np.arange(12, dtype=np.float32).reshape(3, 4).T + 1


def test_in_python(program: Path) -> None:
    plugin = build_plugin(HERE / "custom_linear.cpp")
    np.testing.assert_array_equal(penlight.load(program, plugins=plugin)(X), WANT)
    np.testing.assert_array_equal(penlight.load(program, plugins=[plugin], libraries="portable")(X), WANT)
    with pytest.raises(NoKernel, match=r"testing::custom_linear\.out"):
        penlight.load(program, libraries="portable")(X)


def run(command: list[Any], code: int = 0) -> str:
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True)
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout + done.stderr


def runner() -> str:
    built = ROOT / "build" / "native" / "penlight-runner"
    for place in (os.environ.get("PENLIGHT_RUNNER"), str(built), shutil.which("penlight-runner")):
        if place and Path(place).exists():
            return place
    pytest.skip("penlight-runner is not built")


def test_in_the_runner(program: Path, tmp_path: Path) -> None:
    plugin = build_plugin(HERE / "custom_linear.cpp")
    np.save(tmp_path / "x.npy", X)
    run([runner(), program, "--library", plugin, "-i", tmp_path / "x.npy", "-o", tmp_path / "out"])
    np.testing.assert_array_equal(np.load(tmp_path / "out.0.npy"), WANT)
    assert "testing::custom_linear.out" in run([runner(), program], code=1)
    assert "cannot be loaded" in run([runner(), program, "--library", tmp_path / "x.npy"], code=1)


def test_on_the_command_line(program: Path, tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", X)
    command = [sys.executable, "-m", "penlight", "run", program, "--library", HERE / "custom_linear.cpp"]
    run([*command, "-i", tmp_path / "x.npy", "-o", tmp_path / "out"])
    np.testing.assert_array_equal(np.load(tmp_path / "out.0.npy"), WANT)
