"""Targets by name, compilers for them, and what is said when there is none."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from penlight.build import toolchain as toolchains
from penlight.build.bare import linker_script
from penlight.build.image import read_sections, read_sizes, read_symbols
from penlight.build.strip import strip_elf
from penlight.build.targets import TARGETS, find_target
from penlight.build.toolchain import find_toolchain, zig_command
from penlight.errors import BuildFailed, FileMissing, InvalidInput, NoToolchain, NotSupported, TargetNotFound

ROOT = Path(__file__).resolve().parents[2]
SOURCE = "int table[100];\nconst int fixed[50] = {1};\nint answer() { return table[3] + 42; }\n"
needs_compiler = pytest.mark.skipif(
    not (shutil.which("c++") and shutil.which("ar")), reason="no C++ compiler"
)
needs_zig = pytest.mark.skipif(zig_command() is None, reason="ziglang is not installed")


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = tmp_path / "answer.cpp"
    path.write_text(SOURCE)
    return path


def test_names_aliases_and_triples_find_targets() -> None:
    assert find_target(" Cortex-M4 ").name == "cortex-m4f"
    assert find_target("aarch64-linux").name == "aarch64-linux-gnu"
    assert find_target("arm-linux-gnueabihf").name == "armv7-linux-gnueabihf"
    assert find_target("x86_64-w64-mingw32").name == "x86_64-windows"
    names = [target.name for target in TARGETS]
    assert len(set(names)) == len(names)
    words = [word for target in TARGETS for word in (target.name, *target.aliases)]
    assert len(set(words)) == len(words)


@pytest.mark.parametrize(
    "name, offered", [("cortex-m4ff", "cortex-m4f"), ("aarch64-linux-gnueabi", "aarch64-linux")]
)
def test_unknown_target_offers_the_nearest(name: str, offered: str) -> None:
    with pytest.raises(TargetNotFound, match=rf"no target '{name}'; did you mean .*{offered}") as raised:
        find_target(name)
    assert raised.value.do and all(target.name in raised.value.do for target in TARGETS)


def test_a_triple_of_several_boards_is_none_of_them() -> None:
    with pytest.raises(TargetNotFound):
        find_target("arm-none-eabi")


def test_memory_of_a_board() -> None:
    board = find_target("cortex-m3").with_memory(flash=128 << 10, ram=20 << 10, flash_at=0x08000000)
    script = linker_script(board)
    assert script and "ORIGIN = 0x08000000, LENGTH = 131072" in script
    assert "ORIGIN = 0x20000000, LENGTH = 20480" in script
    with pytest.raises(InvalidInput, match="ram of target cortex-m3 cannot be 1001"):
        board.with_memory(ram=1001)
    with pytest.raises(InvalidInput, match="a stack of 32768 bytes does not fit cortex-m3"):
        linker_script(board, stack=32 << 10)
    with pytest.raises(InvalidInput, match="target wasm32-wasi has no memory map to change"):
        find_target("wasm32-wasi").with_memory(ram=1 << 20)
    assert linker_script(find_target("wasm32-browser")) is None


def test_no_compiler_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(toolchains, "zig_command", lambda: None)
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(NoToolchain, match="no compiler for aarch64-linux-gnu") as raised:
        find_toolchain(find_target("aarch64-linux-gnu"))
    assert raised.value.got == "neither ziglang nor aarch64-linux-gnu-g++"
    assert raised.value.do and "pip install 'penlight[cross]'" in raised.value.do
    monkeypatch.delenv("CXX", raising=False)
    with pytest.raises(NoToolchain, match="no compiler for host"):
        find_toolchain(find_target("host"))


def test_given_compiler_that_is_not_there() -> None:
    with pytest.raises(NoToolchain, match="there is no compiler arm-nowhere-g\\+\\+"):
        find_toolchain(find_target("cortex-m3"), compiler="arm-nowhere-g++ -v")


@needs_compiler
def test_what_the_compiler_says(source: Path, tmp_path: Path) -> None:
    compiler = find_toolchain(find_target("host"))
    source.write_text("int answer() { return nothing; }\n")
    with pytest.raises(BuildFailed, match=r"compiling answer\.cpp for host failed") as raised:
        compiler.compile(source, tmp_path / "answer.o")
    assert raised.value.got and "answer.cpp:1:23: error" in raised.value.got
    assert raised.value.where == str(source)


@needs_compiler
def test_sizes_of_an_object(source: Path, tmp_path: Path) -> None:
    compiler = find_toolchain(find_target("host"))
    compiler.compile(source, tmp_path / "answer.o", depfile=True)
    assert "answer.cpp" in (tmp_path / "answer.o.d").read_text()
    compiler.archive([tmp_path / "answer.o"], tmp_path / "libanswer.a")
    assert (tmp_path / "libanswer.a").read_bytes().startswith(b"!<arch>\n")
    if sys.platform == "linux":
        sizes = read_sizes(tmp_path / "answer.o")
        assert sizes.bss == 400 and 0 < sizes.text < 64
    with pytest.raises(NotSupported, match="is no object or program that can be read"):
        read_sections(source)


@needs_zig
@pytest.mark.parametrize("name", ["cortex-m4f", "cortex-m7", "cortex-m55"])
def test_boards_with_an_fpu_use_it(name: str, tmp_path: Path) -> None:
    """A hard-float ABI alone leaves zig calling soft-float functions."""
    source, output = tmp_path / "scale.cpp", tmp_path / "scale.o"
    source.write_text("float scale(float x, float y) { return x * y + 1.5f; }\n")
    find_toolchain(find_target(name)).compile(source, output)
    names = output.read_bytes()
    assert b"__aeabi_fmul" not in names and b"__mulsf3" not in names
    find_toolchain(find_target("cortex-m3")).compile(source, output)
    assert b"__aeabi_fmul" in output.read_bytes()


@needs_zig
@pytest.mark.parametrize("target", [t for t in TARGETS if t.triple], ids=lambda t: t.name)
def test_every_target_compiles(target: object, source: Path, tmp_path: Path) -> None:
    compiler = find_toolchain(target)  # type: ignore[arg-type]
    compiler.compile(source, tmp_path / "answer.o")
    sections = read_sections(tmp_path / "answer.o")
    assert any(section.kind == "text" and section.size for section in sections)


@pytest.mark.parametrize("name", ["host", "cortex-m3"])
def test_a_program_without_its_names(name: str, tmp_path: Path) -> None:
    """As the linker's -s has it: the same in memory, no symbols, no larger."""
    target = find_target(name)
    if target.format != "elf" or (target.triple and zig_command() is None):
        pytest.skip("no ELF linker here")
    compiler = find_toolchain(target)
    source, output = tmp_path / "main.c", tmp_path / "main.o"
    source.write_text(
        "int table[9] = {1}; int zeros[50];\nint answer(int i) { return table[i] + zeros[i]; }\n"
        "int main(void) { return answer(0) + 41; }\n"
    )
    compiler.compile(source, output, flags=("-ffreestanding",))
    flags = ("-Wl,-e,main",) if target.triple else ()
    whole, linked, stripped = tmp_path / "whole", tmp_path / "linked", tmp_path / "stripped"
    compiler.link([output], whole, flags=flags, strip=False)
    compiler.link([output], linked, flags=flags)
    stripped.write_bytes(strip_elf(whole.read_bytes()))
    assert "main" in {symbol.name for symbol in read_symbols(whole)} and not read_symbols(stripped)
    loaded = [section for section in read_sections(whole) if section.kind != "other"]
    assert [section for section in read_sections(stripped) if section.kind != "other"] == loaded
    assert read_sizes(stripped) == read_sizes(whole)
    assert stripped.stat().st_size <= linked.stat().st_size
    if not target.triple:
        stripped.chmod(0o755)
        assert subprocess.run([stripped], check=False).returncode == 42


def test_toolchain_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(FileMissing, match="no toolchain file at"):
        find_toolchain(None, toolchain_file=tmp_path / "none.cmake")


needs_cmake = pytest.mark.skipif(shutil.which("cmake") is None, reason="cmake is not installed")


@needs_cmake
def test_toolchain_file_that_is_broken(tmp_path: Path) -> None:
    path = tmp_path / "broken.cmake"
    path.write_text("set(CMAKE_CXX_COMPILER /nowhere/g++)\n")
    with pytest.raises(BuildFailed, match="CMake refuses the toolchain file") as raised:
        find_toolchain(None, toolchain_file=path)
    assert raised.value.got and "/nowhere/g++" in raised.value.got


@needs_cmake
@needs_compiler
def test_toolchain_file(source: Path, tmp_path: Path) -> None:
    path = tmp_path / "board.cmake"
    path.write_text(
        "set(CMAKE_SYSTEM_NAME Generic)\nset(CMAKE_SYSTEM_PROCESSOR x86_64)\n"
        f'set(CMAKE_CXX_COMPILER "{shutil.which("c++")}")\n'
        "set(CMAKE_CXX_FLAGS_INIT -DFROM_FILE=7)\nadd_compile_options(-ffreestanding)\n"
    )
    compiler = find_toolchain(None, toolchain_file=path)
    assert compiler.target.name == "board" and compiler.target.kind == "bare"
    assert compiler.target.word == 64 and compiler.target.format == "elf"
    assert "-DFROM_FILE=7" in compiler.compile_flags and "-ffreestanding" in compiler.compile_flags
    source.write_text("static_assert(FROM_FILE == 7);\nint answer() { return FROM_FILE; }\n")
    compiler.compile(source, tmp_path / "answer.o")
    # A board by name, compiled by the file's compiler: its memory map is the board's.
    named = find_toolchain(find_target("cortex-m3"), toolchain_file=path)
    assert named.target.memory == find_target("cortex-m3").memory


def test_docs_list_every_target() -> None:
    """docs/how-to/targets.md has a row for each, and none for what there is not."""
    text = (ROOT / "docs" / "how-to" / "targets.md").read_text()
    rows = [line.split("|")[1].strip(" `") for line in text.splitlines() if line.startswith("| `")]
    assert [name for name in rows if name] == [target.name for target in TARGETS]
