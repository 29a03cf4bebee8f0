"""penlight-runner: the C++ program, from the outside."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import penlight

ROOT = Path(__file__).resolve().parents[2]


def find_runner() -> str | None:
    beside = Path(sys.executable).with_name("penlight-runner")
    built = ROOT / "build" / "native" / "penlight-runner"
    places = [os.environ.get("PENLIGHT_RUNNER"), shutil.which("penlight-runner"), str(beside), str(built)]
    return next((place for place in places if place and Path(place).exists()), None)


RUNNER = find_runner()
pytestmark = pytest.mark.skipif(RUNNER is None, reason="penlight-runner is not built")


def run(*arguments: object, code: int = 0) -> subprocess.CompletedProcess[str]:
    command = [str(RUNNER), *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == code, done.stdout + done.stderr
    return done


def as_json(*arguments: object, code: int = 0) -> Any:
    return json.loads(run(*arguments, "--json", code=code).stdout)


def test_same_numbers_as_from_python(program_path: Callable[[str], Path], tmp_path: Path) -> None:
    path = program_path("linear")
    x = np.random.default_rng(0).standard_normal((2, 4)).astype(np.float32)
    want = penlight.load(path)(x)
    for saved in (x, np.asfortranarray(x), x.astype(">f4")):
        np.save(tmp_path / "x.npy", saved)
        run(path, "-i", tmp_path / "x.npy", "-o", tmp_path / "out")
        np.testing.assert_array_equal(np.load(tmp_path / "out.0.npy"), want)


def test_channels_last(program_path: Callable[[str], Path], tmp_path: Path) -> None:
    path = program_path("convolution")
    image = np.random.default_rng(0).standard_normal((1, 3, 5, 6)).astype(np.float32)
    np.save(tmp_path / "x.npy", image)
    run(path, "--input", tmp_path / "x.npy", "--output", tmp_path / "out")
    np.testing.assert_array_equal(np.load(tmp_path / "out.0.npy"), penlight.load(path)(image))


def test_bfloat16(program_path: Callable[[str], Path], tmp_path: Path) -> None:
    import ml_dtypes

    np.save(tmp_path / "x.npy", np.full((2, 3), 1.5, ml_dtypes.bfloat16))
    report = as_json(program_path("bfloat16"), "-i", tmp_path / "x.npy")
    assert report["outputs"][0]["dtype"] == "bfloat16"
    assert report["outputs"][0]["first"] == [3.0] * 6


def test_complex(program_path: Callable[[str], Path], tmp_path: Path) -> None:
    path = program_path("complex64")
    x = np.random.default_rng(0).standard_normal((2, 6)).astype(np.float32).view(np.complex64)
    for saved in (x, np.asfortranarray(x), x.astype(">c8")):
        np.save(tmp_path / "x.npy", saved)
        report = as_json(path, "-i", tmp_path / "x.npy", "-o", tmp_path / "out")["outputs"][0]
        np.testing.assert_array_equal(np.load(tmp_path / "out.0.npy"), x + x)
        np.testing.assert_array_equal(np.float32(report["first"]), 2 * x.reshape(6, 1).view(np.float32))
    made_up = np.array(as_json(path)["outputs"][0]["first"])
    assert len(np.unique(made_up)) == 12
    assert "first 2+0j 2+0j" in run(path, "--ones").stdout


def test_whole_numbers_keep_all_digits(program_path: Callable[[str], Path], tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.full((2, 3), 2**61 + 1))
    assert as_json(program_path("int64"), "-i", tmp_path / "x.npy")["outputs"][0]["first"] == [2**62 + 2] * 6
    np.save(tmp_path / "x.npy", np.full((2, 3), 1234567))
    text = run(program_path("int64"), "-i", tmp_path / "x.npy").stdout
    assert "min 2469134  max 2469134" in text
    assert "first 2469134 2469134" in text


def test_report(program_path: Callable[[str], Path]) -> None:
    report = as_json(program_path("linear"), "-n", 5, "--warm-up", 2, "--times", "--ones")
    assert report["method"] == "forward"
    assert report["outputs"][0]["sizes"] == [2, 3]
    assert 0 <= report["min_ms"] <= report["median_ms"]
    assert report["repeats"] == 5
    assert {step["runs"] for step in report["instructions"]} == {7}
    text = run(program_path("linear"), "-n", 5).stdout
    assert text.startswith("output 0: float32 [2, 3]  min ")
    assert "5 runs: median" in text


def test_list(program_path: Callable[[str], Path]) -> None:
    listed = as_json(program_path("dynamic"), "--list")["methods"]
    assert [method["name"] for method in listed] == ["forward"]
    expected = {"type": "tensor", "dtype": "float32", "dynamic": True, "sizes": [6, 4]}
    assert listed[0]["inputs"] == [expected]
    assert "input  0: float32 [<=6, <=4]" in run(program_path("dynamic"), "--list").stdout


def test_sizes_seed_and_methods(program_path: Callable[[str], Path]) -> None:
    assert as_json(program_path("dynamic"), "--sizes", "0=5,4")["outputs"][0]["sizes"] == [5, 3]
    first, again, other = (as_json(program_path("linear"), "--seed", seed)["outputs"] for seed in (1, 1, 2))
    assert first == again != other
    assert as_json(program_path("cache"), "-m", "read", "--zeros")["outputs"][0]["max"] == 0


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        ([], 2, "a program file is needed"),
        (["--fast"], 2, "there is no option --fast"),
        (["x.pte", "-n", "0"], 2, "option -n cannot be 0"),
        (["x.pte", "-m"], 2, "option -m needs a value"),
        (["x.pte", "y.pte"], 2, "one program at a time"),
        (["none.pte"], 1, "no such file: none.pte"),
        ([__file__], 1, "not a program file"),
        (["PROGRAM", "-m", "forwad"], 2, "did you mean forward?"),
        (["PROGRAM", "-i", "none.npy"], 2, "no such file: none.npy"),
        (["PROGRAM", "-i", __file__], 2, "is not a .npy file"),
        (["PROGRAM", "-i", "a", "-i", "b"], 2, "takes 1 input, 2 were given"),
        (["PROGRAM", "--sizes", "0=3,4"], 2, "size 2 in dimension 0, 3 was given"),
        (["PROGRAM", "--sizes", "3=1"], 2, "--sizes names input 3"),
        (["PROGRAM", "--libraries", "fast"], 2, "no kernel library of the name fast"),
        (["PROGRAM", "-o", "/nowhere/out"], 1, "cannot write /nowhere/out.0.npy"),
    ],
)
def test_what_is_wrong(
    program_path: Callable[[str], Path], arguments: list[str], code: int, message: str
) -> None:
    given = [str(program_path("linear")) if word == "PROGRAM" else word for word in arguments]
    assert message in run(*given, code=code).stderr
    if given:
        assert run("--help").stdout.startswith("usage: penlight-runner")


def test_damaged_npy(program_path: Callable[[str], Path], tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.ones((2, 4), np.float32))
    good = (tmp_path / "x.npy").read_bytes()
    for content, message in (
        (good[:-1], "truncated: 31 bytes of elements, 32 are needed"),
        (good.replace(b"(2, 4)", b"(2, x)"), "header that cannot be read"),
        (good.replace(b"<f4", b"<U1"), "elements of type <U1"),
        (good[:8] + b"\xff\xff" + good[10:], "header of 65535 bytes"),
    ):
        (tmp_path / "bad.npy").write_bytes(content)
        assert message in run(program_path("linear"), "-i", tmp_path / "bad.npy", code=2).stderr


def test_errors_as_json(program_path: Callable[[str], Path]) -> None:
    report = as_json("none.pte", code=1)
    assert report == {"error": "no such file: none.pte", "status": "AccessFailed"}
