"""Loading, methods, metadata, threads."""

from __future__ import annotations

import array
import copy
import gc
import mmap
import os
import pickle
import subprocess
import sys
import weakref
from collections.abc import Callable
from pathlib import Path
from threading import Thread
from typing import Any

import numpy as np
import pytest

import penlight
from penlight.errors import (
    FileMissing,
    InvalidInput,
    InvalidProgram,
    MethodNotFound,
    NoKernel,
    NotSupported,
    WriteFailed,
)

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


def test_anything_with_a_buffer_is_a_program(program_path: Callable[[str], Path]) -> None:
    content = program_path("linear").read_bytes()
    want = penlight.load(content)(X)
    with program_path("linear").open("rb") as file:
        mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    pairs = np.repeat(np.frombuffer(content, np.uint8), 2)
    for source in (mapped, pairs[::2], array.array("B", content), memoryview(pairs)[::2]):
        np.testing.assert_array_equal(penlight.load(source)(X), want)


def test_a_path_in_bytes_is_no_content(program_path: Callable[[str], Path]) -> None:
    with pytest.raises(InvalidInput, match="these bytes are a path") as caught:
        penlight.load(os.fsencode(program_path("linear")))
    assert "penlight.load(os.fsdecode(path))" in (caught.value.do or "")


def test_a_loaded_program_is_not_copied(load: Any) -> None:
    program = load("linear")
    want = program(X)
    for make in (copy.copy, copy.deepcopy, pickle.dumps):
        for one in (program, program["forward"]):
            with pytest.raises(NotSupported, match="cannot be copied or pickled") as caught:
                make(one)
            assert "load the file once more" in (caught.value.do or "")
    np.testing.assert_array_equal(program(X), want)


@pytest.mark.parametrize("external", [False, True])
def test_a_compiled_program_is_pickled(external: bool, tmp_path: Path) -> None:
    import torch

    made = penlight.compile(torch.nn.Linear(4, 3), (torch.ones(2, 4),), external=external)
    for again in (pickle.loads(pickle.dumps(made)), copy.deepcopy(made), copy.copy(made)):
        for name in "ab":
            (tmp_path / name).mkdir(exist_ok=True)
        files = [one.save(tmp_path / name / "it.pte") for one, name in ((made, "a"), (again, "b"))]
        for name in ("it.pte", "it.ptd") if external else ("it.pte",):
            assert files[0].with_name(name).read_bytes() == files[1].with_name(name).read_bytes()
    assert copy.copy(made).report is made.report


def test_paths_that_no_file_can_have(tmp_path: Path) -> None:
    import torch

    made = penlight.compile(torch.nn.ReLU(), (torch.ones(2),))
    with pytest.raises(WriteFailed, match=r"cannot write model\\0.pte"):
        made.save("model\0.pte")
    for path in (None, 3, b"model.pte"):
        with pytest.raises(InvalidInput, match="a path is a string"):
            made.save(path)  # type: ignore[arg-type]


def test_arguments_of_another_type(program_path: Callable[[str], Path]) -> None:
    path = program_path("linear")
    for threads in ("2", 1.5, 0, [1]):
        with pytest.raises(InvalidInput, match="one thread or more"):
            penlight.load(path, threads=threads)  # type: ignore[arg-type]
    program = penlight.load(path, threads=np.int64(2))  # type: ignore[arg-type]
    for seed in (1.5, "1", -1, 1 << 64):
        with pytest.raises(InvalidInput, match="a seed is a number of 64 bits"):
            program.seed(seed)  # type: ignore[arg-type]
    with pytest.raises(MethodNotFound, match="no method 0"):
        program[0]  # type: ignore[index]
    for data in (b"weights", 3, [b"weights.ptd"]):
        with pytest.raises(InvalidInput, match=r"`data` takes paths of \.ptd files"):
            penlight.load(path, data=data)  # type: ignore[arg-type]
    assert penlight.load(path, libraries=iter(["optimized", "portable"])).methods  # type: ignore[arg-type]
    for libraries in (3, [b"portable"], [None], {"portable": 1, 2: 3}):
        with pytest.raises(InvalidInput, match="`libraries` takes names"):
            penlight.load(path, libraries=libraries)  # type: ignore[arg-type]
    for zero in ({"source": f"{path}\0.pte"}, {"source": path, "data": f"{path}\0.ptd"}):
        with pytest.raises(InvalidInput, match="zero byte"):
            penlight.load(**zero)  # type: ignore[arg-type]


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


@pytest.mark.parametrize("name", ["linear", "counter"])
@pytest.mark.parametrize("copies", [True, False])
def test_what_nobody_has_goes_away(name: str, copies: bool, program_path: Callable[[str], Path]) -> None:
    """At once, with its memory, after runs and looks at its state; not before arrays over that memory."""
    program = penlight.load(program_path(name), copy=copies)
    result = program(*example(program))
    want = np.array(result)
    dict(program.state)
    before, gone = program._opened.memory, weakref.ref(program._opened)
    gc.disable()
    try:
        del program
        assert gone() is None
    finally:
        gc.enable()
    np.testing.assert_array_equal(result, want)
    del result
    assert sys.getrefcount(before) == 2


def example(program: Any) -> list[Any]:
    """Inputs of a program's only method."""
    (method,) = (program[name] for name in program.methods)
    return [np.ones(spec.shape, spec.dtype) for spec in method.inputs]


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
    """At most 31 MB for a process that imported the runtime, or 4 more than a large numpy; few modules."""
    code = """
import sys
import numpy

def resident():
    size = next(line for line in open("/proc/self/status") if line.startswith("VmRSS"))
    return int(size.split()[1]) / 1024

before, without = set(sys.modules), resident()
import penlight
penlight.load
from penlight.runtime import program
new = [name for name in set(sys.modules) - before if not name.startswith("penlight")]
assert len(new) <= 3, new
print(without, resident())
"""
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    without, size = map(float, done.stdout.split())
    assert size <= max(31, without + 4)
