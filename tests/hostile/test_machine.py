"""What a machine can refuse: paths that are no files, memory, disk. Each with its message.

In Python, on the command line, and in the runner in C++.
"""

from __future__ import annotations

import os
import resource
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import penlight
from penlight.errors import FileMissing, InvalidProgram, PenlightError
from penlight.program import Program

ROOT = Path(__file__).resolve().parents[2]
SEED = Path(__file__).parent / "seeds" / "weights_beside.pte"
PLAIN = Path(__file__).parent / "seeds" / "strings.pte"
RUNNER = Path(os.environ.get("PENLIGHT_RUNNER", ROOT / "build" / "native" / "penlight-runner"))

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="limits and files of Linux")


def missing(folder: Path) -> Path:
    return folder / "missing.pte"


def directory(folder: Path) -> Path:
    return folder


def pipe(folder: Path) -> Path:
    os.mkfifo(folder / "pipe.pte")
    return folder / "pipe.pte"


def device(folder: Path) -> Path:
    return Path("/dev/null")


def empty(folder: Path) -> Path:
    (folder / "empty.pte").touch()
    return folder / "empty.pte"


# What is at the path, the class of the error, what the message says.
PLACES: list[tuple[Callable[[Path], Path], type[PenlightError], str]] = [
    (missing, FileMissing, "no such file"),
    (directory, InvalidProgram, "not a regular file"),
    (pipe, InvalidProgram, "not a regular file"),
    (device, InvalidProgram, "not a regular file"),
    (empty, InvalidProgram, "0 bytes"),
]


@pytest.mark.parametrize("make, kind, message", PLACES)
def test_paths_that_are_no_program(
    make: Callable[[Path], Path], kind: type[PenlightError], message: str, tmp_path: Path
) -> None:
    path = make(tmp_path)
    for mapped in (True, False):
        with pytest.raises(kind, match=message):
            penlight.load(path, map=mapped)
    with pytest.raises(kind, match="is empty" if make is empty else message):
        Program.read(path)
    for command in commands(path):
        done = subprocess.run(command, capture_output=True, text=True, timeout=60)
        assert done.returncode == 1
        assert message in done.stderr and str(path) in done.stderr


def commands(path: Path, *more: str) -> list[list[str]]:
    """Those that run a program, in Python and in C++."""
    found = [[sys.executable, "-m", "penlight", "run", str(path), *more]]
    return [*found, [str(RUNNER), str(path), *more]] if RUNNER.exists() else found


def test_file_that_may_not_be_read(tmp_path: Path) -> None:
    path = shutil.copy(PLAIN, tmp_path / "secret.pte")
    path.chmod(0)
    if os.geteuid() != 0:
        with pytest.raises(InvalidProgram, match="Permission denied"):
            penlight.load(path)
        return
    # root may read it all the same; the runner is asked as nobody.
    if not RUNNER.exists():
        pytest.skip("penlight-runner is not built")
    runner = shutil.copy(RUNNER, tmp_path / "runner")
    for folder in (tmp_path, *tmp_path.parents[:-2]):
        if folder.stat().st_uid == os.geteuid() and len(folder.parts) > 2:
            folder.chmod(folder.stat().st_mode | 0o011)
    done = subprocess.run([runner, path], capture_output=True, text=True, user=65534)
    assert done.returncode == 1
    assert "Permission denied" in done.stderr and str(path) in done.stderr


def limit(which: int, size: int) -> Callable[[], None]:
    return lambda: resource.setrlimit(which, (size, size))


def test_arena_that_memory_does_not_hold(tmp_path: Path) -> None:
    contents = Program.read(PLAIN).contents
    method = replace(contents.methods[0], arenas=[3 << 30])
    path = Program(replace(contents, methods=[method])).save(tmp_path / "large.pte")
    for command in commands(path):
        done = subprocess.run(
            command, capture_output=True, text=True, preexec_fn=limit(resource.RLIMIT_AS, 3 << 30)
        )
        assert done.returncode == 1
        assert "forward needs planned memory that the machine does not give" in done.stderr
        assert str(3 << 30) in done.stderr


def test_disk_that_is_full(tmp_path: Path) -> None:
    """A limit on the size of a file answers as a full disk does."""
    code = f"""
import penlight.program
from penlight.errors import WriteFailed
program = penlight.program.Program.read({str(PLAIN)!r})
try:
    program.save({str(tmp_path / "copy.pte")!r})
except WriteFailed as error:
    print(error)
"""
    full = limit(resource.RLIMIT_FSIZE, 1024)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, preexec_fn=full)
    assert "cannot write" in done.stdout and "copy.pte" in done.stdout, done.stderr
    assert "File too large" in done.stdout
    assert list(tmp_path.iterdir()) == []


def test_outputs_on_a_full_disk(tmp_path: Path) -> None:
    from penlight.ir.dtypes import DType
    from penlight.program.structs import Allocation, KernelCall, Operator, Tensor

    big = [Tensor(DType.float32, (4096,), (0,), allocation=Allocation(1, 16384 * i)) for i in range(2)]
    contents = Program.read(PLAIN).contents
    method = replace(
        contents.methods[0], values=[*big], inputs=[0], outputs=[1], arenas=[32768],
        instructions=[KernelCall(0, (0, 1, 1))], operators=[Operator("aten::abs", "out")],
    )  # fmt: skip
    path = Program(replace(contents, methods=[method])).save(tmp_path / "big.pte")
    (tmp_path / "out.0.npy").write_text("what was here before")
    for command in commands(path, "-o", str(tmp_path / "out")):
        full = limit(resource.RLIMIT_FSIZE, 1024)
        done = subprocess.run(command, capture_output=True, text=True, preexec_fn=full)
        assert done.returncode == 1
        assert f"cannot write {tmp_path / 'out.0.npy'}" in done.stderr, done.stderr
        assert "File too large" in done.stderr
        assert sorted(p.name for p in tmp_path.iterdir()) == ["big.pte", "out.0.npy"]
        assert (tmp_path / "out.0.npy").read_text() == "what was here before"


def test_outputs_where_nothing_can_be_written(tmp_path: Path) -> None:
    for command in commands(PLAIN, "-o", str(tmp_path / "no" / "such" / "out")):
        done = subprocess.run(command, capture_output=True, text=True)
        assert done.returncode == 1
        assert "cannot write" in done.stderr and "No such file or directory" in done.stderr


def test_file_that_shrinks_while_it_is_open(tmp_path: Path) -> None:
    """Read in parts, a file that another process truncates is an error. (Mapped, it is SIGBUS.)"""
    path = shutil.copy(PLAIN.with_name("constants_of_every_dtype.pte"), tmp_path / "model.pte")
    program = penlight.load(path, map=False)
    os.truncate(path, 2048)
    with pytest.raises(PenlightError, match="cannot be read"):
        program.verify()


def test_weights_that_are_not_there(tmp_path: Path) -> None:
    with pytest.raises(PenlightError, match=r"tensor w is external data; none was given"):
        penlight.load(SEED).verify()
    with pytest.raises(FileMissing, match=r"no such file: .*missing\.ptd"):
        penlight.load(SEED, data=tmp_path / "missing.ptd")
    short = tmp_path / "short.ptd"
    short.write_bytes(SEED.with_suffix(".ptd").read_bytes()[:-8])
    with pytest.raises(InvalidProgram, match="truncated"):
        penlight.load(SEED, data=short)
    with pytest.raises(InvalidProgram, match="not a data file"):
        penlight.load(SEED, data=SEED)
    program = penlight.load(SEED, data=SEED.with_suffix(".ptd"))
    np.testing.assert_array_equal(program(np.ones(4, np.float32)), np.zeros(4, np.float32))
