"""CMake toolchain files: CMake itself is asked what they mean.

A project of one language is configured with the file, and writes down the compiler
and flags that came out. So whatever a toolchain file does (include others, search for
compilers, compute flags) is understood.
"""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from dataclasses import replace
from pathlib import Path

from penlight.build.targets import Format, Target
from penlight.build.toolchain import Toolchain, given_compiler
from penlight.errors import BuildFailed, FileMissing, NoToolchain

_NAMES = (
    "CMAKE_SYSTEM_NAME",
    "CMAKE_SYSTEM_PROCESSOR",
    "CMAKE_SIZEOF_VOID_P",
    "CMAKE_C_COMPILER",
    "CMAKE_CXX_COMPILER",
    "CMAKE_CXX_COMPILER_ID",
    "CMAKE_CXX_COMPILER_TARGET",
    "CMAKE_CXX_COMPILER_EXTERNAL_TOOLCHAIN",
    "CMAKE_AR",
    "CMAKE_SYSROOT",
    "CMAKE_CXX_FLAGS",
    "CMAKE_EXE_LINKER_FLAGS",
)
_PROJECT = """cmake_minimum_required(VERSION 3.18)
set(CMAKE_TRY_COMPILE_TARGET_TYPE STATIC_LIBRARY)
project(probe LANGUAGES C CXX)
set(text "")
foreach(name IN ITEMS {names})
  string(APPEND text "${{name}}\\t${{${{name}}}}\\n")
endforeach()
foreach(name IN ITEMS COMPILE_OPTIONS COMPILE_DEFINITIONS LINK_OPTIONS)
  get_directory_property(value ${{name}})
  string(APPEND text "${{name}}\\t${{value}}\\n")
endforeach()
file(WRITE "{output}" "${{text}}")
"""


def read_toolchain_file(path: Path, target: Target | None = None) -> Toolchain:
    """The compiler and flags of a CMake toolchain file.

    Args:
        target: a board's memory map and the like; made from what the file says when None.

    Raises:
        FileMissing: there is no such file.
        NoToolchain: CMake is not installed.
        BuildFailed: CMake refuses the file, or its compiler does not work.
    """
    if not path.is_file():
        raise FileMissing(f"no toolchain file at {path}", do="give the path of a CMake toolchain file")
    found = _ask_cmake(path.resolve())
    target = target or _target_of(found, path)
    flags = [*found["CMAKE_CXX_FLAGS"].split(), *_list(found["COMPILE_OPTIONS"])]
    flags += [f"-D{define}" for define in _list(found["COMPILE_DEFINITIONS"])]
    if found["CMAKE_SYSROOT"]:
        flags.append(f"--sysroot={found['CMAKE_SYSROOT']}")
    if found["CMAKE_CXX_COMPILER_TARGET"]:
        flags.append(f"--target={found['CMAKE_CXX_COMPILER_TARGET']}")
    if found["CMAKE_CXX_COMPILER_EXTERNAL_TOOLCHAIN"]:
        flags.append(f"--gcc-toolchain={found['CMAKE_CXX_COMPILER_EXTERNAL_TOOLCHAIN']}")
    toolchain = given_compiler(
        # The file's flags select the processor, not the target's.
        replace(target, flags=()),
        _list(found["CMAKE_CXX_COMPILER"]),
        c_command=_list(found["CMAKE_C_COMPILER"]),
        ar=_list(found["CMAKE_AR"]),
        compile_flags=flags,
        link_flags=[*found["CMAKE_EXE_LINKER_FLAGS"].split(), *_list(found["LINK_OPTIONS"])],
    )
    return replace(toolchain, target=target)


def _list(text: str) -> list[str]:
    return [item for item in text.split(";") if item]


def _ask_cmake(path: Path) -> dict[str, str]:
    cmake = shutil.which("cmake")
    if cmake is None:
        raise NoToolchain(
            "cmake is missing, which reads toolchain files", where=str(path), do="pip install cmake"
        )
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        output = folder / "found"
        text = _PROJECT.format(names=" ".join(_NAMES), output=output.as_posix())
        (folder / "CMakeLists.txt").write_text(text)
        command = [cmake, "-S", name, "-B", str(folder / "build"), f"-DCMAKE_TOOLCHAIN_FILE={path}"]
        done = subprocess.run(command, capture_output=True, text=True, errors="replace", check=False)
        if done.returncode or not output.exists():
            raise BuildFailed(
                "CMake refuses the toolchain file",
                where=str(path),
                got=(done.stderr or done.stdout).strip(),
                do="make it work with `cmake -DCMAKE_TOOLCHAIN_FILE=...` on any project first",
            )
        return dict(line.split("\t", 1) for line in output.read_text().splitlines())


def _target_of(found: dict[str, str], path: Path) -> Target:
    system, processor = found["CMAKE_SYSTEM_NAME"], found["CMAKE_SYSTEM_PROCESSOR"] or "unknown"
    shapes: dict[str, Format] = {"Darwin": "macho", "Windows": "coff", "WASI": "wasm", "Emscripten": "wasm"}
    return Target(
        path.stem,
        f"{processor}, {system}, by {path.name}",
        triple=found["CMAKE_CXX_COMPILER_TARGET"] or f"{processor}-{system.lower()}",
        zig="",
        kind="bare" if system == "Generic" else "hosted",
        word=8 * int(found["CMAKE_SIZEOF_VOID_P"] or 4),
        format=shapes.get(system, "elf"),
    )
