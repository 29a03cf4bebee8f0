"""What a build says of input that cannot be built."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from tests.build.models import Make

import penlight
from penlight.build.build import BuildOptions, build
from penlight.build.select import Selection, Use, select_from_list
from penlight.build.targets import find_target
from penlight.build.toolchain import find_toolchain
from penlight.errors import (
    BuildFailed,
    FileMissing,
    InvalidInput,
    InvalidProgram,
    InvalidState,
    NoKernel,
    NoToolchain,
    NotSupported,
    OutOfMemory,
)
from penlight.program import Program
from penlight.program.structs import EMPTY, Delegate, DelegateCall

Programs = Callable[[str], Path]


def test_nothing_to_build(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="there is nothing to build"):
        build(BuildOptions(output=tmp_path))


@pytest.mark.parametrize("level", ["-O9", "-O", "-Ofast", "-O2 -lm", "fast"])
def test_no_such_optimization(tmp_path: Path, level: str) -> None:
    with pytest.raises(InvalidInput, match="no such optimization"):
        build(BuildOptions(output=tmp_path, optimize=level))


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "../c", "/tmp/d", "a\\b", "a\0b"])
def test_a_name_that_is_no_file_s(tmp_path: Path, name: str) -> None:
    with pytest.raises(InvalidInput, match="that of a file"):
        build(BuildOptions(output=tmp_path, name=name))
    assert not list(tmp_path.iterdir())


def test_weights_in_another_file(make: Make, tmp_path: Path) -> None:
    path = tmp_path / "outside.pte"
    model = torch.nn.Linear(3, 2)
    penlight.compile(model, (torch.ones(1, 3),), target="portable", external=True).save(path)
    with pytest.raises(NotSupported, match=r"outside\.pte has weights in a \.ptd file"):
        make(path)
    assert make(path, library=True).files


def test_no_such_file(make: Make, tmp_path: Path) -> None:
    with pytest.raises(FileMissing, match=r"there is no file .*none\.pte"):
        make(tmp_path / "none.pte")
    with pytest.raises(FileMissing, match=r"there is no file .*none\.cpp"):
        make(sources=[tmp_path / "none.cpp"])


def test_operator_that_was_to_be_left_out(make: Make, programs: Programs) -> None:
    with pytest.raises(NoKernel) as raised:
        make(programs("keywords"), without=["aten::relu.out", "aten::mul.out"])
    assert raised.value.what == "aten::relu.out is needed, and the build was told to leave it out"
    assert raised.value.where == "keywords.pte, method forward"


def test_names_that_were_to_be_left_out(make: Make, programs: Programs) -> None:
    """Without an overload all of them are meant; a name that no operator has is an error."""
    with pytest.raises(NoKernel, match=r"^aten::relu\.out is needed"):
        make(programs("keywords"), without=["aten::relu"])
    with pytest.raises(NoKernel, match=r"there is no operator aten::rel\.out to leave out") as raised:
        make(programs("add"), without=["aten::rel.out"])
    assert raised.value.do and "aten::relu.out" in raised.value.do


def test_two_files_with_one_operator(make: Make, tmp_path: Path) -> None:
    text = """#include <penlight/kernel.h>
namespace {
using namespace penlight;
Tensor& f_out(KernelContext& ctx, const Tensor& x, Tensor& out) { return ctx.resize(out, x.sizes()), out; }
}  // namespace
PENLIGHT_LIBRARY(twice, "f(Tensor x) -> Tensor", f_out)
"""
    files = [tmp_path / "one.cpp", tmp_path / "two.cpp"]
    for file in files:
        file.write_text(text)
    with pytest.raises(InvalidState, match=r"two files have a kernel for twice::f") as raised:
        make(sources=files)
    assert raised.value.where == f"{files[0]} and {files[1]}"
    files[1].write_text(text.replace("PENLIGHT_LIBRARY", "// PENLIGHT_LIBRARY"))
    make(sources=files)


def test_operator_without_kernel(make: Make) -> None:
    with pytest.raises(NoKernel) as raised:
        make(operators=select_from_list(["aten::ad.out", "mylib::thing.out"]))
    assert raised.value.what == "aten::ad.out, mylib::thing.out have no kernel"
    assert raised.value.do and "aten::add.out" in raised.value.do


def test_unknown_kernel_library(make: Make, programs: Programs) -> None:
    with pytest.raises(InvalidInput, match="there is no kernel library fast"):
        make(programs("add"), kernel_libraries=["fast"])


def test_delegates_that_the_binary_lacks(make: Make, programs: Programs, tmp_path: Path) -> None:
    program = Program.read(programs("add"))
    method = program.contents.methods[0]
    method.delegates.append(Delegate("Npu", EMPTY))
    method.instructions.append(DelegateCall(0, (method.inputs[0], method.outputs[0])))
    path = tmp_path / "delegated.pte"
    program.save(path)
    with pytest.raises(NotSupported) as raised:
        make(path)
    assert raised.value.what == "backend Npu is not in this binary, and a program has delegates for it"
    assert raised.value.where == "delegated.pte, method forward"
    assert raised.value.got == "target host"


def test_arena_larger_than_ram(make: Make, programs: Programs) -> None:
    board = find_target("cortex-m3").with_memory(ram=4096)
    try:
        find_toolchain(board)
    except NoToolchain as error:
        pytest.skip(error.what)
    need = sum(Program.read(programs("keywords")).contents.methods[0].arenas)
    with pytest.raises(OutOfMemory) as raised:
        make(programs("keywords"), target=board)
    text = str(raised.value)
    assert f"the arena needs {need:,} bytes, cortex-m3 has 4,096 of RAM: {need - 4096:,} too many" in text
    assert "float32 [1, 16, 25, 5] of aten::convolution.out (instruction " in text


def test_own_file_that_does_not_compile(make: Make, programs: Programs, tmp_path: Path) -> None:
    source = tmp_path / "wrong.cpp"
    source.write_text("#include <penlight/kernel.h>\n\nint broken() { return nothing; }\n")
    for library in (False, True):
        with pytest.raises(BuildFailed) as raised:
            make(programs("add"), sources=[source], library=library)
        assert (raised.value.what, raised.value.where) == ("wrong.cpp does not compile", f"{source}:3")
        assert "int broken() { return nothing; }" in str(raised.value)
        assert "In f" not in str(raised.value)  # only the error, at the user's line


def test_a_file_that_is_no_program_is_named(make: Make, programs: Programs, tmp_path: Path) -> None:
    path = tmp_path / "none.pte"
    path.write_text("not a program, but long enough to be one")
    with pytest.raises(InvalidProgram, match="not a program file") as raised:
        make(programs("add"), path)
    assert raised.value.where == str(path)


def test_two_models_of_one_name(make: Make, programs: Programs, tmp_path: Path) -> None:
    other = tmp_path / "add.pte"
    other.write_bytes(programs("add").read_bytes())
    with pytest.raises(InvalidInput, match="two models are named add"):
        make(programs("add"), other)


def test_compiler_that_is_not_there(make: Make, programs: Programs) -> None:
    with pytest.raises(NoToolchain, match="there is no compiler no-such-compiler"):
        make(programs("add"), compiler="no-such-compiler")


def test_selections_keep_who_needs_what() -> None:
    selection = Selection({"aten::add.out": Use(needed_by=["a"])})
    selection.join(Selection({"aten::add.out": Use(needed_by=["a", "b"])}))
    assert selection.operators["aten::add.out"].needed_by == ["a", "b"]
