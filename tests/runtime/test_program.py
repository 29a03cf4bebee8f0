"""Loading, methods, metadata, threads."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from threading import Thread
from typing import Any

import numpy as np
import pytest

import penlight
from penlight.errors import FileMissing, InvalidInput, InvalidProgram, MethodNotFound, NoKernel

X = np.arange(8, dtype=np.float32).reshape(2, 4)


def test_from_path_bytes_and_in_parts(program_path: Callable[[str], Path]) -> None:
    path = program_path("linear")
    want = penlight.load(path)(X)
    for loaded in (
        penlight.load(str(path)),
        penlight.load(path.read_bytes()),
        penlight.load(path, map=False),
        penlight.load(penlight.Program.read(path)),
    ):
        np.testing.assert_array_equal(loaded(X), want)
        assert loaded.methods == ["forward"]
        loaded.verify()


def test_metadata(load: Any) -> None:
    method = load("dynamic")["forward"]
    (spec,) = method.inputs
    assert (spec.dtype, spec.shape, spec.dynamic) == ("float32", (6, 4), True)
    assert method.outputs[0].shape == (6, 3)
    assert method.instruction_count >= 1
    assert sum(method.arena_sizes) >= 6 * 7 * 4
    assert any("linear" in name or "addmm" in name for name in method.instruction_names())


def test_time_of_instructions(load: Any) -> None:
    method = load("linear")["forward"]
    times = method.times([X], repeats=3)
    assert len(times) == method.instruction_count
    assert sum(times) > 0


def test_unknown_method_offers_the_nearest(load: Any) -> None:
    with pytest.raises(MethodNotFound, match="no method 'raed'") as caught:
        load("cache")["raed"]
    assert caught.value.do == "did you mean 'read'? There are: read, write"
    with pytest.raises(MethodNotFound, match="no method 'forward'"):
        load("cache")(X)


@pytest.mark.parametrize("source", [None, 3, [b"ET12"]])
def test_what_is_no_program(source: Any) -> None:
    with pytest.raises(InvalidInput, match="this is no program") as caught:
        penlight.load(source)
    assert caught.value.got == type(source).__name__


def test_missing_file(tmp_path: Path) -> None:
    with pytest.raises(FileMissing, match="no such file"):
        penlight.load(tmp_path / "none.pte")
    with pytest.raises(FileNotFoundError):
        penlight.load(tmp_path / "none.pte")
    with pytest.raises(InvalidProgram, match="not a regular file"):
        penlight.load(tmp_path)


def test_kernel_libraries_are_chosen_by_name(program_path: Callable[[str], Path]) -> None:
    path = program_path("linear")
    np.testing.assert_array_equal(
        penlight.load(path, libraries=["portable", "optimized"])(X), penlight.load(path)(X)
    )
    with pytest.raises(NoKernel, match="linear_packed"):
        penlight.load(path, libraries="portable")(X)
    with pytest.raises(InvalidInput, match="no kernel library of the name portible; there are"):
        penlight.load(path, libraries="portible")


def test_threads_run_programs_of_their_own(program_path: Callable[[str], Path]) -> None:
    path = program_path("linear")
    want = penlight.load(path)(X)
    wrong: list[Any] = []

    def work() -> None:
        own = penlight.load(path)
        for _ in range(200):
            if not np.array_equal(own(X), want):
                wrong.append(1)

    threads = [Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_threads_share_a_program(load: Any) -> None:
    model = load("linear")
    inputs = [X * scale for scale in range(4)]
    wants = [model(x) for x in inputs]
    wrong: list[int] = []

    def work(index: int) -> None:
        for _ in range(200):
            if not np.array_equal(model(inputs[index]), wants[index]):
                wrong.append(index)

    threads = [Thread(target=work, args=(index,)) for index in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_import_is_light(program_path: Callable[[str], Path]) -> None:
    """At most 31 MB for a process that imported the runtime; its modules are few."""
    code = """
import sys
import numpy
before = set(sys.modules)
import penlight
penlight.load
from penlight.runtime import program
new = [name for name in set(sys.modules) - before if not name.startswith("penlight")]
assert len(new) <= 3, new
peak = next(line for line in open("/proc/self/status") if line.startswith("VmRSS"))
print(int(peak.split()[1]) / 1024)
"""
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert float(done.stdout) <= 31
