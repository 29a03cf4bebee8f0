"""Build backend: scikit-build-core, with a C++ compiler from PyPI where the system has none.

Called by pip through the hooks of PEP 517 and 660, and by the Makefile as a script::

    python cmake/build_backend.py requires       what this build needs from PyPI, on one line
    python cmake/build_backend.py native [-D..]  build library, runner and tests in build/native

An editable install holds no native code of its own: the library is built into the
checkout (build/native -> src/penlight), where the next `native` brings it up to date.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from scikit_build_core import build as skbuild

ROOT = Path(__file__).resolve().parent.parent
NATIVE = ROOT / "build" / "native"
ZIG = "ziglang>=0.17"
_PROBE = "#include <stdint.h>\ntemplate <auto x> int f() { return x; }\nint main() { return f<0>(); }\n"

build_sdist = skbuild.build_sdist
get_requires_for_build_sdist = skbuild.get_requires_for_build_sdist
prepare_metadata_for_build_wheel = skbuild.prepare_metadata_for_build_wheel


def get_requires_for_build_wheel(config_settings: dict[str, Any] | None = None) -> list[str]:
    return skbuild.get_requires_for_build_wheel(config_settings) + _compiler_requirement()


def get_requires_for_build_editable(config_settings: dict[str, Any] | None = None) -> list[str]:
    return skbuild.get_requires_for_build_editable(config_settings) + _compiler_requirement()


def build_wheel(
    wheel_directory: str,
    config_settings: dict[str, Any] | None = None,
    metadata_directory: str | None = None,
) -> str:
    with tempfile.TemporaryDirectory() as folder:
        environment = _compiler_environment(Path(folder))
        os.environ.update(environment)
        return skbuild.build_wheel(wheel_directory, config_settings, metadata_directory)


def build_editable(
    wheel_directory: str,
    config_settings: dict[str, Any] | None = None,
    metadata_directory: str | None = None,
) -> str:
    build_native([])
    return skbuild.build_editable(wheel_directory, _editable(config_settings), metadata_directory)


def prepare_metadata_for_build_editable(
    metadata_directory: str, config_settings: dict[str, Any] | None = None
) -> str:
    return skbuild.prepare_metadata_for_build_editable(metadata_directory, _editable(config_settings))


def _editable(config_settings: dict[str, Any] | None) -> dict[str, Any]:
    return {**(config_settings or {}), "wheel.cmake": "false", "editable.mode": "inplace"}


def has_compiler() -> bool:
    """Whether the system's compiler, or the one CXX names, builds a C++17 program."""
    names = [os.environ["CXX"]] if os.environ.get("CXX") else ["c++", "g++", "clang++"]
    found = next((path for name in names if (path := shutil.which(name.split()[0]))), None)
    if found is None:
        return False
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder, "probe.cpp")
        source.write_text(_PROBE)
        command = [found, "-std=c++17", str(source), "-o", str(source.with_suffix(""))]
        return subprocess.run(command, capture_output=True).returncode == 0


def _compiler_requirement() -> list[str]:
    if has_compiler():
        return []
    print("penlight: no C++17 compiler found; building with ziglang from PyPI instead", file=sys.stderr)
    return [ZIG]


def _compiler_environment(folder: Path) -> dict[str, str]:
    """What makes CMake use zig, through scripts in `folder`; nothing where a compiler works."""
    if has_compiler():
        return {}
    if subprocess.run([sys.executable, "-m", "ziglang", "version"], capture_output=True).returncode != 0:
        raise SystemExit(f"penlight: no C++17 compiler works, and ziglang is missing: pip install '{ZIG}'")
    tools = {"CC": "cc", "CXX": "c++", "AR": "ar", "RANLIB": "ranlib"}
    paths = {}
    for variable, tool in tools.items():
        # Without -mcpu zig compiles for the very processor it runs on.
        flags = "-mcpu=baseline " if variable in ("CC", "CXX") else ""
        path = folder / f"zig-{tool}"
        path.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m ziglang {tool} {flags}"$@"\n')
        path.chmod(path.stat().st_mode | stat.S_IXUSR | stat.S_IXGRP | stat.S_IXOTH)
        paths[variable] = str(path)
    arguments = f"-DCMAKE_AR={paths['AR']} -DCMAKE_RANLIB={paths['RANLIB']}"
    return {**paths, "CMAKE_ARGS": f"{os.environ.get('CMAKE_ARGS', '')} {arguments}".strip()}


def build_native(options: list[str]) -> None:
    """Configure build/native where that is needed and bring it up to date."""
    NATIVE.mkdir(parents=True, exist_ok=True)
    cmake = _tool("cmake")
    if cmake is None:
        raise SystemExit("penlight: cmake is missing: pip install cmake")
    with _locked(NATIVE / ".lock"):
        if options or not _is_configured():
            zig = NATIVE / "zig"
            zig.mkdir(exist_ok=True)
            environment = {**os.environ, **_compiler_environment(zig)}
            command = [cmake, "-S", str(ROOT), "-B", str(NATIVE), f"-DPython_EXECUTABLE={sys.executable}"]
            command += ["-DPENLIGHT_INPLACE=ON", "-DPENLIGHT_BUILD_TESTS=ON"]
            command += ["-DPENLIGHT_WERROR=ON", *options] if os.environ.get("CI") else options
            command += environment.get("CMAKE_ARGS", "").split()
            ninja = _tool("ninja")
            if ninja and not (NATIVE / "CMakeCache.txt").exists():
                command += ["-G", "Ninja", f"-DCMAKE_MAKE_PROGRAM={ninja}"]
            subprocess.run(command, check=True, env=environment)
        subprocess.run([cmake, "--build", str(NATIVE), "--parallel", str(os.cpu_count() or 1)], check=True)


def _is_configured() -> bool:
    cache = NATIVE / "CMakeCache.txt"
    if not (NATIVE / "build.ninja").exists() and not (NATIVE / "Makefile").exists():
        return False
    return f"={sys.executable}\n" in cache.read_text()


def _tool(name: str) -> str | None:
    """A program of this Python's environment, or else of the system."""
    return shutil.which(name, path=str(Path(sys.executable).parent)) or shutil.which(name)


@contextlib.contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Two makes at once would ruin each other's build tree."""
    with path.open("w") as handle:
        if os.name == "posix":
            import fcntl

            fcntl.flock(handle, fcntl.LOCK_EX)
        yield


def main(arguments: list[str]) -> int:
    match arguments:
        case ["requires"]:
            print(*get_requires_for_build_editable())
        case ["native", *options]:
            try:
                build_native(options)
            except subprocess.CalledProcessError as error:
                return error.returncode
        case _:
            print(__doc__, file=sys.stderr)
            return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
