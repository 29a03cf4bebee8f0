"""Sizes of inputs that are within their bounds and wrong all the same: Python, command line, C++."""

from __future__ import annotations

import os
import struct
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import penlight
from penlight.errors import InvalidInput, InvalidProgram

torch = pytest.importorskip("torch")
ROOT = Path(__file__).resolve().parents[2]
RUNNER = Path(os.environ.get("PENLIGHT_RUNNER", ROOT / "build" / "native" / "penlight-runner"))


class Pair(torch.nn.Module):
    """Its rows come in pairs, at least three of them; `y` has one for each."""

    def forward(self, x: Any, y: Any) -> Any:
        pairs = x.reshape(-1, 2, x.shape[1]).sum(1)
        return pairs + y if y.shape[0] > 2 else pairs - y


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    rows = torch.export.Dim("rows", min=3, max=8)
    built = penlight.compile(
        Pair(), (torch.ones(8, 2), torch.ones(4, 2)), dynamic_shapes=({0: 2 * rows}, {0: rows})
    )
    return built.save(tmp_path_factory.mktemp("limits") / "pair.pte")


# Rows of x and y, and what must be said; `x` and `y` are 0 and 1 to C++.
WRONG = [
    (4, 2, "input {x} is too small in dimension 0: 4, at least 6 is needed"),
    (7, 3, "input {x} has size 7 in dimension 0, a multiple of 2 is needed"),
    (8, 2, "input {y} is too small in dimension 0: 2, at least 3 is needed"),
    (8, 5, "input {y} has size 5 in dimension 0, 4 is needed: input {x} has 8 in dimension 0"),
    (18, 8, "dimension 0"),  # over the bound, which the file itself has
]


def rows(count: int, width: int = 2) -> np.ndarray[Any, Any]:
    return np.arange(width * count, dtype=np.float32).reshape(count, width)


def command(program: Path, first: int, second: int, tmp_path: Path, *start: str) -> list[str]:
    for name, count in (("x", first), ("y", second)):
        np.save(tmp_path / f"{name}.npy", rows(count))
    return [*start, str(program), "-i", str(tmp_path / "x.npy"), "-i", str(tmp_path / "y.npy")]


def test_right_sizes(program: Path, tmp_path: Path) -> None:
    loaded = penlight.load(program)
    for count in (3, 5, 8):
        x, y = rows(2 * count), rows(count)
        np.testing.assert_allclose(loaded(x, y), x.reshape(count, 2, 2).sum(1) + y)
    done = subprocess.run(command(program, 10, 5, tmp_path, str(RUNNER)), capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("first, second, message", WRONG)
def test_python(program: Path, first: int, second: int, message: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        penlight.load(program)(rows(first), rows(second))
    assert message.format(x="x", y="y") in str(caught.value)


@pytest.mark.parametrize("first, second, message", WRONG)
def test_command_line(program: Path, first: int, second: int, message: str, tmp_path: Path) -> None:
    start = [sys.executable, "-m", "penlight", "run"]
    done = subprocess.run(command(program, first, second, tmp_path, *start), capture_output=True, text=True)
    assert done.returncode == 2
    assert message.format(x="x", y="y") in " ".join(done.stderr.split())


@pytest.mark.skipif(not RUNNER.exists(), reason="penlight-runner is not built")
@pytest.mark.parametrize("first, second, message", WRONG)
def test_runner(program: Path, first: int, second: int, message: str, tmp_path: Path) -> None:
    done = subprocess.run(
        command(program, first, second, tmp_path, str(RUNNER)), capture_output=True, text=True
    )
    assert done.returncode == 2
    assert message.format(x=0, y=1) in done.stderr


def test_fixed_size_beside_a_dynamic_one(program: Path) -> None:
    """In the file it is a bound like the other."""
    with pytest.raises(InvalidInput, match="input x has size 1 in dimension 1, 2 is needed"):
        penlight.load(program)(rows(8, 1), rows(4))
    with pytest.raises(InvalidInput, match="input y has size 0 in dimension 1, 2 is needed"):
        penlight.load(program)(rows(8), rows(4, 0))


# Words of the first record: input, dimension, least, most, factor, offset, an earlier record.
@pytest.mark.parametrize(
    "word, value",
    [(0, 2), (0, -1), (1, 7), (1, -1), (4, 0), (4, 1 << 60), (5, -(1 << 60)), (6, 0), (6, 1 << 40)],
)
def test_damaged_limits(program: Path, word: int, value: int) -> None:
    contents = bytearray(program.read_bytes())
    record = struct.pack("<4q", 0, 0, 6, 16)
    assert contents.count(record) == 1
    struct.pack_into("<q", contents, contents.index(record) + 8 * word, value)
    with pytest.raises(InvalidProgram, match="the limits of inputs of method forward are damaged"):
        penlight.load(bytes(contents))(rows(8), rows(4))


@pytest.mark.parametrize(("least", "given", "wanted"), [(1, 0, 1), (3, 2, 3)])
def test_least_size_that_the_user_gave(least: int, given: int, wanted: int) -> None:
    dim = torch.export.Dim("rows", min=least, max=8)
    built = penlight.compile(torch.nn.ReLU(), (torch.ones(4, 2),), dynamic_shapes=({0: dim},))
    running = penlight.load(built.to_bytes())
    for count in (least, 8):
        np.testing.assert_array_equal(running(rows(count)), rows(count))
    with pytest.raises(InvalidInput, match=f"too small in dimension 0: {given}, at least {wanted} is needed"):
        running(rows(given))


def test_nothing_at_all_where_no_least_was_given() -> None:
    built = penlight.compile(
        torch.nn.ReLU(), (torch.ones(4, 2),), dynamic_shapes=({0: torch.export.Dim("rows", max=8)},)
    )
    running = penlight.load(built.to_bytes())
    for count in (0, 1, 8):
        np.testing.assert_array_equal(running(rows(count)), rows(count))
