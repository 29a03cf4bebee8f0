"""From one C++ file to a plug-in: cache, compilers, and what is said when it does not compile."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from penlight.build.plugin import build_plugin
from penlight.build.toolchain import zig_command
from penlight.errors import BuildFailed, FileMissing, NoToolchain, WriteFailed
from penlight.runtime.plugin import load_plugin

HEADER = "#include <penlight/kernel.h>\nusing namespace penlight;\n"
KERNEL = (
    "Tensor& twice_out(KernelContext& ctx, const Tensor& x, Tensor& out) {\n"
    "  if (ctx.resize(out, x.sizes()))\n"
    "    for (dim_t i = 0; i < x.numel(); ++i) out.data_ptr<float>()[i] = FACTOR * x.data_ptr<float>()[i];\n"
    "  return out;\n"
    "}\n"
    'PENLIGHT_LIBRARY(built, "twice(Tensor x) -> Tensor", twice_out)\n'
)


def write(folder: Path, text: str, name: str = "kernel.cpp") -> Path:
    path = folder / name
    path.write_text(text)
    return path


def test_same_content_is_built_once(tmp_path: Path) -> None:
    source = write(tmp_path, "#define FACTOR 2\n" + HEADER + KERNEL)
    first = build_plugin(source)
    made = first.stat().st_ino
    os.utime(source)  # touched, not changed
    assert build_plugin(source) == first
    assert first.stat().st_ino == made
    assert not [path for path in first.parent.iterdir() if ".part" in path.name]


def test_a_second_build_comes_from_the_cache_at_once(tmp_path: Path) -> None:
    source = write(tmp_path, "#define FACTOR 2\n" + HEADER + KERNEL)
    build_plugin(source)
    times = []
    for _ in range(5):
        start = time.perf_counter()
        build_plugin(source)
        times.append(time.perf_counter() - start)
    assert min(times) < 0.02


def test_changes_of_source_header_and_flags_are_seen(tmp_path: Path) -> None:
    header = write(tmp_path, "#define FACTOR 2\n", "factor.h")
    source = write(tmp_path, HEADER + '#include "factor.h"\n' + KERNEL)
    first = build_plugin(source)
    header.write_text("#define FACTOR 3\n")
    second = build_plugin(source)
    assert second != first
    assert build_plugin(source, flags=["-O1"]) not in (first, second)
    header.write_text("#define FACTOR 2\n")
    assert build_plugin(source) == first  # changed back


def test_a_file_from_the_future_is_built(tmp_path: Path) -> None:
    source = write(tmp_path, "#define FACTOR 11\n" + HEADER + KERNEL)
    os.utime(source, (4e9, 4e9))
    assert build_plugin(source) == build_plugin(source)


def test_a_result_that_was_deleted_is_built_again(tmp_path: Path) -> None:
    source = write(tmp_path, "#define FACTOR 5\n" + HEADER + KERNEL)
    first = build_plugin(source)
    first.unlink()
    assert build_plugin(source) == first and first.exists()


def test_builds_at_the_same_time(tmp_path: Path) -> None:
    source = write(tmp_path, "#define FACTOR 7\n" + HEADER + KERNEL)
    program = f"from penlight.build.plugin import build_plugin; print(build_plugin({str(source)!r}))"
    environment = {**os.environ, "PENLIGHT_CACHE": str(tmp_path / "cache")}
    jobs = [
        subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True, env=environment)
        for _ in range(3)
    ]
    printed = {job.communicate()[0] for job in jobs}
    assert [job.returncode for job in jobs] == [0, 0, 0]
    assert len(printed) == 1 and Path(printed.pop().strip()).exists()


@pytest.mark.parametrize("compiler", ["g++", "clang++"])
def test_compilers(tmp_path: Path, compiler: str) -> None:
    if shutil.which(compiler) is None:
        pytest.skip(f"{compiler} is not installed")
    source = write(tmp_path, "#define FACTOR 2\n" + HEADER + KERNEL)
    assert build_plugin(source, compiler=compiler).exists()


@pytest.mark.slow  # the first time, zig builds a C library
def test_zig(tmp_path: Path) -> None:
    zig = zig_command()
    if zig is None:
        pytest.skip("ziglang is not installed")
    source = write(tmp_path, "#define FACTOR 2\n" + HEADER + KERNEL)
    plugin = build_plugin(source, compiler=f"{zig} c++")
    assert [info.name for info in load_plugin(plugin)] == ["built::twice.out"]


def test_a_plugin_needs_nothing_of_its_host(tmp_path: Path) -> None:
    if shutil.which("nm") is None or not sys.platform.startswith("linux"):
        pytest.skip("reads ELF symbols with nm")
    plugin = build_plugin(write(tmp_path, "#define FACTOR 2\n" + HEADER + KERNEL))
    shown = subprocess.run(["nm", "-D", "--defined-only", plugin], capture_output=True, text=True).stdout
    assert [line.split()[-1] for line in shown.splitlines()] == ["penlight_plugin"]
    needed = subprocess.run(["nm", "-D", "-u", plugin], capture_output=True, text=True).stdout
    assert "penlight" not in needed and "_Z" not in needed


def failure(tmp_path: Path, text: str) -> BuildFailed:
    with pytest.raises(BuildFailed) as caught:
        build_plugin(write(tmp_path, text))
    said = str(caught.value)
    for noise in (
        "-fvisibility",
        "In file included",
        "required from",
        "in expansion of",
        "/include/penlight",
    ):
        assert noise not in said, said
    return caught.value


def test_an_error_is_the_compilers_at_the_users_line(tmp_path: Path) -> None:
    error = failure(tmp_path, HEADER + KERNEL)
    assert error.what == "kernel.cpp does not compile"
    assert error.where == f"{tmp_path / 'kernel.cpp'}:5"
    assert error.got is not None
    assert "'FACTOR' was not declared" in error.got or "undeclared identifier 'FACTOR'" in error.got
    assert "out.data_ptr<float>()[i] = FACTOR" in error.got


def test_an_error_within_our_headers_is_told_at_the_users_line(tmp_path: Path) -> None:
    text = HEADER + (
        "void f_out(KernelContext&, const Tensor& x, float y, Tensor& out) {}\n"
        'PENLIGHT_LIBRARY(built, "f(Tensor x, float y) -> Tensor", f_out)\n'
    )
    error = failure(tmp_path, text)
    assert error.where == f"{tmp_path / 'kernel.cpp'}:4"
    assert error.got is not None and "a kernel cannot have a parameter of this type" in error.got


def test_a_kernel_that_returns_something_else(tmp_path: Path) -> None:
    text = HEADER + (
        "Tensor f_out(KernelContext&, const Tensor& x, Tensor& out) { return out; }\n"
        'PENLIGHT_LIBRARY(built, "f(Tensor x) -> Tensor", f_out)\n'
    )
    error = failure(tmp_path, text)
    assert error.where == f"{tmp_path / 'kernel.cpp'}:4"
    assert error.got is not None and "a kernel returns nothing, its Tensor&, or a tuple" in error.got


def test_a_kernel_without_a_context(tmp_path: Path) -> None:
    text = HEADER + (
        "Tensor& f_out(const Tensor& x, Tensor& out) { return out; }\n"
        'PENLIGHT_LIBRARY(built, "f(Tensor x) -> Tensor", f_out)\n'
    )
    error = failure(tmp_path, text)
    assert error.got is not None and "the first parameter of a kernel is KernelContext&" in error.got


def test_what_is_defined_nowhere(tmp_path: Path) -> None:
    text = HEADER + (
        "Tensor& f_out(KernelContext&, const Tensor& x, Tensor& out);\n"
        'PENLIGHT_LIBRARY(built, "f(Tensor x) -> Tensor", f_out)\n'
    )
    error = failure(tmp_path, text)
    assert error.what == "kernel.cpp uses what is defined nowhere"
    assert error.got is not None and error.got.startswith("f_out(")


def test_no_such_file_or_compiler(tmp_path: Path) -> None:
    with pytest.raises(FileMissing, match="no such source file"):
        build_plugin(tmp_path / "nothing.cpp")
    with pytest.raises(NoToolchain, match="no-such-compiler"):
        build_plugin(write(tmp_path, HEADER), compiler="no-such-compiler")


@pytest.mark.parametrize("left", [0, 100, 3000])
def test_a_result_that_was_cut_off_is_built_again(tmp_path: Path, left: int) -> None:
    """As a full disk or a copy leaves it: what it lacks would end the process that loads it."""
    source = write(tmp_path, f"#define FACTOR {left + 13}\n" + HEADER + KERNEL)
    built = build_plugin(source)
    whole = built.read_bytes()
    built.write_bytes(whole[:left])
    assert build_plugin(source) == built
    assert built.read_bytes() == whole


def test_what_cxx_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = write(tmp_path, "#define FACTOR 17\n" + HEADER + KERNEL)
    monkeypatch.setenv("CXX", "no-such-compiler -O2")
    with pytest.raises(NoToolchain, match="CXX names no-such-compiler"):
        build_plugin(source)
    silent = write(tmp_path, "#!/bin/sh\n", "silent-g++")
    silent.chmod(0o755)
    monkeypatch.setenv("CXX", str(silent))
    with pytest.raises(NoToolchain, match="left no object"):
        build_plugin(source)


def test_a_cache_that_cannot_be_written_to(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = write(tmp_path, "#define FACTOR 19\n" + HEADER + KERNEL)
    monkeypatch.setenv("PENLIGHT_CACHE", str(write(tmp_path, "", "a-file") / "cache"))
    with pytest.raises(WriteFailed, match="PENLIGHT_CACHE"):
        build_plugin(source)


def test_in_a_program_the_compiler_compares_schema_and_function(tmp_path: Path) -> None:
    text = HEADER + (
        "Tensor& f_out(KernelContext&, const Tensor& x, Tensor& out) { return out; }\n"
        'PENLIGHT_LIBRARY(built, "f(Tensor x, int n) -> Tensor", f_out)\n'
    )
    source = write(tmp_path, text)
    root = Path(__file__).resolve().parent.parent.parent
    command = [
        shutil.which("c++") or "c++",
        "-std=c++17",
        "-fsyntax-only",
        f"-I{root}/runtime/include",
        source,
    ]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode != 0 and "schema and function have different numbers of arguments" in done.stderr
