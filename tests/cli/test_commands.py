"""The command line: what it prints, where, and its exit codes."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any, NamedTuple
from xml.etree import ElementTree

import numpy as np
import pytest

MODEL = """
import torch

class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(8, 4)

    def forward(self, image, *, scale):
        return {"scores": torch.relu(self.linear(image)) * scale}

def build():
    torch.manual_seed(0)
    return Net().eval(), (torch.randn(2, 8),), {"kwargs": {"scale": torch.ones(1)}}

def dynamic():
    batch = torch.export.Dim("batch", max=16)
    return torch.nn.Linear(8, 4).eval(), (torch.randn(2, 8),), {"dynamic_shapes": ({0: batch},)}

def exported():
    model, args, options = build()
    return torch.export.export(model, args, options["kwargs"])

def missing():
    return torch.fft.rfft, ()

model = Net()

def cells():
    class Draw(torch.nn.Module):
        def forward(self, x):
            return torch._standard_gamma(x)
    return Draw(), (torch.randn(3, 3),)
"""


class Done(NamedTuple):
    stdout: str
    stderr: str


def penlight(*arguments: str, cwd: Path | None = None, code: int = 0) -> Done:
    """Run the command in this process, as its entry point does."""
    from penlight.cli import main

    stdout, stderr = io.StringIO(), io.StringIO()
    before, argv, path = os.getcwd(), sys.argv, list(sys.path)
    try:
        os.chdir(cwd or before)
        sys.argv = ["penlight", *arguments]
        with redirect_stdout(stdout), redirect_stderr(stderr):
            main()
        got = 0
    except SystemExit as done:
        got = int(done.code or 0)
    finally:
        os.chdir(before)
        sys.argv, sys.path[:] = argv, path
    assert got == code, stdout.getvalue() + stderr.getvalue()
    return Done(stdout.getvalue(), stderr.getvalue())


def as_json(*arguments: str, code: int = 0) -> Any:
    return json.loads(penlight(*arguments, "--json", code=code).stdout)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a model's source, and two programs made from it by the command itself."""
    path = tmp_path_factory.mktemp("cli")
    (path / "net.py").write_text(MODEL)
    done = penlight("compile", "net.py:build", "--explain", cwd=path)
    assert done.stdout.splitlines()[-1].startswith("wrote net.pte")
    assert "next: penlight run net.pte" in done.stderr
    assert "plan memory" in done.stdout
    penlight("compile", "net.py:dynamic", "-o", "dynamic.pte", cwd=path)
    return path


def test_compile_reports_as_json(folder: Path) -> None:
    report = as_json("compile", f"{folder}/net.py:build", "-o", f"{folder}/other.pte", "--target", "portable")
    assert report["file_bytes"] == (folder / "other.pte").stat().st_size
    assert report["arena_bytes"]["forward"] > 0
    assert report["stages"][0]["name"] == "torch export"


def test_compile_exported_programs(folder: Path) -> None:
    import torch

    penlight("compile", "net.py:exported", "-o", "exported.pte", cwd=folder)
    torch.export.save(torch.export.export(torch.nn.Linear(8, 4), (torch.randn(2, 8),)), folder / "linear.pt2")
    penlight("compile", "linear.pt2", "-m", "classify", cwd=folder)
    assert as_json("inspect", f"{folder}/linear.pte")["methods"][0]["name"] == "classify"


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["net.py:bild"], 2, "did you mean 'build'?"),
        (["net.py:model"], 2, "net.py:model is a model, of which the inputs are not known"),
        (["nett.py:build"], 1, "no such file: nett.py"),
        (["net.py"], 2, "net.py:build"),
        (["none.pt2"], 1, "no such file: none.pt2"),
        (["net.py"], 2, "a model is FILE.py:FUNCTION"),
        (["net.py:build", "--target", "toaster"], 2, "toaster"),
        (["net.py:build", "-o", "/nowhere/at/all.pte"], 1, "/nowhere/at"),
        (["net.py:cells"], 1, "_standard_gamma"),
    ],
)
def test_compile_says_what_is_wrong(folder: Path, arguments: list[str], code: int, message: str) -> None:
    assert message in penlight("compile", *arguments, cwd=folder, code=code).stderr


THEIRS = """
import torch

def needs(size):
    return torch.nn.Linear(size, size), (torch.ones(1, size),)

def raises():
    return helper(4)

def helper(size):
    raise ValueError(f"no such size: {size}")

def inside_torch():
    return torch.nn.Linear(2, 2)(torch.ones(3)), ()

def option():
    return torch.nn.Linear(2, 2), (torch.ones(1, 2),), {"dynamic_shape": None}

def ends():
    raise SystemExit(3)

def four():
    return torch.nn.Linear(2, 2), (torch.ones(1, 2),), {}, 3, 4
"""


@pytest.mark.parametrize(
    ("model", "messages"),
    [
        ("theirs.py:needs", ["theirs.py:needs needs arguments", "got     needs(size)"]),
        ("theirs.py:raises", ["theirs.py:raises cannot be run", "theirs.py:11 in helper: raise ValueError",
                              "got     ValueError: no such size: 4", "correct it there"]),
        ("theirs.py:inside_torch", ["theirs.py:14 in inside_torch", "got     RuntimeError: "]),
        ("theirs.py:option", ["no option 'dynamic_shape'", "did you mean 'dynamic_shapes'?"]),
        ("theirs.py:ends", ["theirs.py:20 in ends: raise SystemExit(3)", "got     SystemExit: 3"]),
        ("theirs.py:four", ["theirs.py:four returned 5 values"]),
        ("syntax.py:build", ["syntax.py cannot be read", "syntax.py:2: def build(:", "SyntaxError: "]),
        ("imports.py:build", ["imports.py cannot be run", "imports.py:1: import nowhere_at_all",
                              "No module named 'nowhere_at_all'"]),
        ("imports:build", ["imports cannot be run", "imports.py:1: import nowhere_at_all"]),
        ("nowhere_at_all:build", ["module nowhere_at_all cannot be imported"]),
    ],
)  # fmt: skip
def test_errors_in_code_of_the_users(tmp_path: Path, model: str, messages: list[str]) -> None:
    (tmp_path / "theirs.py").write_text(THEIRS)
    (tmp_path / "syntax.py").write_text("import torch\ndef build(:\n")
    (tmp_path / "imports.py").write_text("import nowhere_at_all\n")
    error = penlight("compile", model, cwd=tmp_path, code=2).stderr
    for message in messages:
        assert message in error
    assert "Traceback" not in error and len(error.splitlines()) <= 5
    sys.modules.pop("imports", None)


def test_compile_without_torch(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text(
        "import importlib.util as u\nfind = u.find_spec\n"
        "u.find_spec = lambda name, *rest: None if name == 'torch' else find(name, *rest)\n"
    )
    environment = {**os.environ, "PYTHONPATH": f"{tmp_path}:{os.environ.get('PYTHONPATH', '')}"}
    done = subprocess.run(
        [sys.executable, "-m", "penlight", "compile", "net.py:build"],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert "needs PyTorch, which is not installed" in done.stderr


def test_run(folder: Path, tmp_path: Path) -> None:
    done = penlight("run", f"{folder}/net.pte", "-n", "3")
    assert done.stdout.startswith("output 0: float32 [2, 4]  min ")
    assert "3 runs: median" in done.stderr
    image = np.random.default_rng(0).standard_normal((2, 8)).astype(np.float32)
    np.save(tmp_path / "image.npy", image)
    report = as_json(
        "run", f"{folder}/net.pte", "-i", f"{tmp_path}/image.npy", "-i", "scale=2", "-o", f"{tmp_path}/out"
    )
    import penlight as package

    model = package.load(folder / "net.pte")
    want = model(image, scale=np.array([2], np.float32))["scores"]
    np.testing.assert_array_equal(np.load(tmp_path / "out.0.npy"), want)
    assert report["outputs"][0]["sizes"] == [2, 4]
    assert report["arena_bytes"] > 0


def test_run_with_dynamic_sizes(folder: Path) -> None:
    report = as_json("run", f"{folder}/dynamic.pte", "--sizes", "0=5,8")
    assert report["outputs"][0]["sizes"] == [5, 4]
    error = penlight("run", f"{folder}/dynamic.pte", "--sizes", "0=17,8", code=2).stderr
    assert "too large in dimension 0: 17, at most 16" in error


def test_run_is_repeatable_from_its_seed(folder: Path) -> None:
    runs = [as_json("run", f"{folder}/net.pte", "--seed", seed)["outputs"] for seed in "112"]
    assert runs[0] == runs[1] != runs[2]


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["none.pte"], 1, "FileMissing: no such file: none.pte"),
        (["net.py"], 1, "InvalidProgram: this is not a program file"),
        (["net.pte", "-m", "forwad"], 2, "did you mean 'forward'?"),
        (["net.pte", "-i", "none.npy"], 2, "no such file: none.npy"),
        (["net.pte", "-i", "net.py"], 2, "net.py is not a .npy file"),
        (["net.pte", "-i", "1", "-i", "2", "-i", "3"], 2, "takes 2 inputs"),
        (["net.pte", "--libraries", "fast"], 2, "no kernel library of the name fast"),
        (["net.pte", "--fill", "twos"], 2, "--fill is random, ones or zeros"),
        (["net.pte", "--repeats", "0"], 2, "repeats"),
        (["net.pte", "--seed", "-1"], 2, "--seed"),
        (["net.pte", "-i", "imag=3"], 2, "method forward has no input 'imag'"),
        (["net.pte", "-i", "imag=3"], 2, "there are: image, scale"),
        (["dynamic.pte", "--sizes", "0=-1,8"], 2, "a tensor of these sizes cannot be"),
        (["dynamic.pte", "--sizes", "0=2000000000,2000000000,2000000000"], 2, "these sizes cannot be"),
        (["dynamic.pte", "--sizes", "0=2000000000,8"], 2, "too large in dimension 0"),
        (["dynamic.pte", "--sizes", "0=2"], 2, "has 1 dimension, 2 are needed"),
    ],
)
def test_run_says_what_is_wrong(folder: Path, arguments: list[str], code: int, message: str) -> None:
    assert message in penlight("run", *arguments, cwd=folder, code=code).stderr


def test_errors_as_json(folder: Path) -> None:
    error = as_json("run", f"{folder}/net.pte", "-m", "forwad", code=2)["error"]
    assert error["type"] == "MethodNotFound"
    assert error["do"].startswith("did you mean 'forward'?")


def test_inspect(folder: Path) -> None:
    text = penlight("inspect", f"{folder}/net.pte", "--instructions", "--buffers").stdout
    assert "input  0  float32 [2, 8]" in text
    assert "█" in text
    report = as_json("inspect", f"{folder}/net.pte")
    (method,) = report["methods"]
    assert sum(method["arenas"]) >= method["peak"] == max(method["live_bytes"])
    assert sum(method["operators"].values()) == len(method["instructions"])
    assert report["constant_bytes"] >= (8 * 4 + 4) * 4
    assert (
        "did you mean 'forward'?" in penlight("inspect", f"{folder}/net.pte", "-m", "forwrd", code=2).stderr
    )


def test_inspect_names_what_it_cannot_read(folder: Path) -> None:
    error = penlight("inspect", "net.py", cwd=folder, code=1).stderr
    assert "not a program file" in error and "where   net.py" in error


def test_complex_outputs(folder: Path) -> None:
    (folder / "turn.py").write_text(
        "import torch\nclass Turn(torch.nn.Module):\n"
        "    def forward(self, x):\n        return x * 1j, x.long()\n"
        "def build():\n    return Turn(), (torch.ones(2),)\n"
    )
    penlight("compile", "turn.py:build", cwd=folder)
    text = penlight("run", "turn.pte", "-i", "1234567", cwd=folder).stdout
    assert "complex64 [2]  first 0+1.23457e+06j 0+1.23457e+06j" in text
    assert "int64 [2]  min 1234567  max 1234567" in text
    turned, whole = as_json("run", f"{folder}/turn.pte", "-i", "1234567")["outputs"]
    assert turned["first"] == [[0, 1234567]] * 2 and whole["first"] == [1234567] * 2


def test_numbers_among_inputs_have_names(folder: Path) -> None:
    (folder / "times.py").write_text(
        "import torch\nfrom torch.export import Dim\nclass Times(torch.nn.Module):\n"
        "    def forward(self, x, k: int):\n        return x * k\n"
        'def build():\n    return Times(), (torch.ones(2), 2), {"dynamic_shapes": (None, Dim.AUTO(max=9))}\n'
    )
    penlight("compile", "times.py:build", cwd=folder)
    assert as_json("run", f"{folder}/times.pte", "-i", "k=3", "-i", "x=2")["outputs"][0]["first"] == [6, 6]
    (folder / "more.py").write_text("def build():\n    return print, (1,), (None,)\n")
    refused = penlight("compile", "more.py:build", cwd=folder, code=2)
    assert "returned 3 values: builtin_function_or_method, tuple, tuple" in refused.stderr
    refused = penlight("run", "times.pte", "-i", "j=3", cwd=folder, code=2)
    assert "there are: x, k" in refused.stderr


def test_size(folder: Path) -> None:
    assert "weights by operator" in penlight("size", f"{folder}/net.pte").stdout
    report = as_json("size", f"{folder}/net.pte")
    assert report["file_bytes"] == (folder / "net.pte").stat().st_size == sum(report["parts"].values())
    assert sum(part["nbytes"] for part in report["operators"]) == report["parts"]["weights"]
    penlight("size", f"{folder}/net.pte", "--top", "-1", code=2)


def test_profile(folder: Path) -> None:
    assert "slowest instructions" in penlight("profile", f"{folder}/net.pte", "-n", "2").stdout
    report = as_json("profile", f"{folder}/net.pte", "-n", "2", "--threads", "1")
    assert any("net.py" in step["where"] for step in report["instructions"])


def test_bench(folder: Path) -> None:
    programs = [f"{folder}/net.pte", f"{folder}/net.pte"]
    text = penlight("bench", *programs, "-n", "3", "--threads", "1").stdout
    assert "median ms" in text and text.count("forward") == 2
    for row in as_json("bench", *programs, "-n", "3"):
        assert row["repeats"] == 3 and 0 < row["min_ms"] <= row["median_ms"] <= row["p90_ms"]
        assert row["load_ms"] > 0 and row["first_ms"] > 0 and row["arena_bytes"] > 0
    (row,) = as_json("bench", f"{folder}/dynamic.pte", "--seconds", "0.01", "--sizes", "0=3,8")
    assert row["repeats"] >= 1
    assert "no such file" in penlight("bench", "missing.pte", code=1).stderr


def test_view(folder: Path, tmp_path: Path) -> None:
    assert penlight("view", f"{folder}/net.pte", cwd=tmp_path).stdout.strip() == "net.html"
    text = (tmp_path / "net.html").read_text()
    report = as_json("inspect", f"{folder}/net.pte")["methods"][0]
    assert text.count("<tr id=") == len(report["instructions"])
    assert text.count("<title>%") == sum(buffer["nbytes"] > 0 for buffer in report["buffers"])
    assert "net.py:" in text and "float32 [2, 8]" in text
    # A value leads to the instruction that made it.
    assert '<a href="#m0i0">' in text and 'id="m0i0"' in text
    assert "http" not in text.replace("http://www.w3.org/2000/svg", "")

    penlight("view", f"{folder}/net.pte", "-o", "memory.svg", cwd=tmp_path)
    drawn = ElementTree.parse(tmp_path / "memory.svg").getroot()
    boxes = [
        [float(box.get(side, 0)) for side in ("x", "y", "width", "height")]
        for box in drawn.iter()
        if len(box) and box.tag.endswith("rect")
    ]
    assert len(boxes) == text.count("<title>%")
    width, height = float(drawn.get("width", 0)), float(drawn.get("height", 0))
    assert all(x + w <= width + 0.1 and y + h <= height + 0.1 for x, y, w, h in boxes)

    assert "did you mean" in penlight("view", f"{folder}/net.pte", "-m", "forwrd", code=2).stderr
    lost = penlight("view", f"{folder}/net.pte", "-o", "no/such/page.html", cwd=tmp_path, code=1)
    assert "cannot write" in lost.stderr
    assert sorted(path.name for path in tmp_path.iterdir()) == ["memory.svg", "net.html"]


def test_ops() -> None:
    assert "aten::add.out" in penlight("ops", "add").stdout
    assert all("softmax" in row["op"] for row in as_json("ops", "softmax"))
    assert "did you mean" in penlight("ops", "softmaxx", code=1).stderr


def test_ops_says_what_is_wrong() -> None:
    assert "there is no kernel library portble" in penlight("ops", "--library", "portble", code=2).stderr
    assert "did you mean 'portable'?" in penlight("ops", "--library", "portble", code=2).stderr
    error = penlight("ops", "list", "rellu", "--library", "portable", code=1).stderr
    assert "no operator with 'rellu' in its name has a kernel in the library portable" in error


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--ops", "aten::reluu.out"], "names like it: aten::relu.out"),
        (
            ["--ops", "aten::relu.out", "--without", "aten::zzz"],
            "there is no operator aten::zzz to leave out",
        ),
        (["--ops", "aten::relu.out", "--without", "aten::relu"], "told to leave it out"),
    ],
)
def test_a_list_of_operators_that_cannot_be_built(arguments: list[str], message: str) -> None:
    assert message in penlight("build", "--list", *arguments, code=1).stderr


def test_build_to_no_folder(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "taken").write_text("a file")
    error = penlight("build", f"{folder}/net.pte", "-o", f"{tmp_path}/taken/out", code=1).stderr
    assert error.startswith(f"WriteFailed: cannot write to the folder {tmp_path}/taken/out")


def test_op_takes_cpp_files(tmp_path: Path) -> None:
    (tmp_path / "op.py").write_text("")
    error = penlight("op", "build", "op.py", cwd=tmp_path, code=2).stderr
    assert error.startswith("InvalidInput: this is no C++ file")
    assert "give a file that ends in .cpp, .cc, .cxx" in error


def test_doctor_and_version() -> None:
    import penlight as package

    assert as_json("doctor")["ok"]
    assert "runtime" in penlight("doctor").stdout
    assert penlight("version").stdout.strip() == package.__version__


def test_demo_names_the_examples() -> None:
    assert "photo" in as_json("demo", "list")
    assert "did you mean 'photo'?" in penlight("demo", "phto", code=2).stderr


def test_as_a_process(folder: Path) -> None:
    """The same through the interpreter: result on stdout, the rest on stderr, an exit code."""
    command = [sys.executable, "-m", "penlight", "run", "net.pte"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True)
    assert done.stdout.startswith("output 0: ") and done.stderr.startswith("forward: load")
    done = subprocess.run([*command, "-m", "x"], cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 2 and not done.stdout
    assert done.stderr.startswith("MethodNotFound") and "Traceback" not in done.stderr


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full here: a file that is always full")
@pytest.mark.parametrize("options", [[], ["--json"]])
def test_output_that_cannot_be_written(folder: Path, options: list[str]) -> None:
    """One named error, whether it is found while printing or at the end of the process."""
    command = [sys.executable, "-m", "penlight", "inspect", "net.pte", *options]
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            command, cwd=folder, stdout=full, stderr=subprocess.PIPE, text=True, check=False
        )
    assert done.returncode == 1
    assert done.stderr.startswith("WriteFailed: the results cannot be written")
    assert "No space left" in done.stderr and "Traceback" not in done.stderr and "ignored" not in done.stderr


def test_misuse() -> None:
    assert "did you mean 'inspect'?" in penlight("inspct", code=2).stderr
    assert "Commands:" in penlight("--help").stdout
    assert "Usage: penlight run" in penlight("run", "--help").stdout
    assert penlight("run", code=2).stderr
    assert "--repeat" in penlight("run", "x.pte", "--repeat", "2", code=2).stderr
