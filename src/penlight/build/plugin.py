"""Plug-ins: one C++ file with PENLIGHT_LIBRARY becomes a shared object, kept in the user's cache.

A plug-in is complete in itself. What inline code of the headers calls (runtime/plugin/plugin.cpp)
is compiled once for each compiler and linked in, hidden, so that a plug-in needs nothing of the
process that loads it.

A build is looked up twice. First by the request: a small record lists every file that the
compiler read then, with size and time of change, and nothing is read when all are as they were.
Then by content: what the files hold, the flags and the compiler name the result, so that a file
that was merely touched, or changed back, is not compiled again. What was not used for longest
goes when all of it is larger than 256 MiB.
"""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from penlight.build import diagnostics
from penlight.build.cache import cache_folder, drop_unused, looking, mark_used
from penlight.build.toolchain import SOURCE_SUFFIXES, Toolchain, find_toolchain, source_root
from penlight.errors import FileMissing, InvalidInput, NoToolchain, PenlightError, WriteFailed

_LIMIT = 256 << 20  # bytes; what is unused for longest beyond it is dropped
_FORMAT = "1"  # of records and results; changes when either does
_COMPILE = (
    "-std=c++17",
    "-O2",
    "-fPIC",
    "-fvisibility=hidden",
    "-fno-exceptions",
    "-fno-rtti",
    "-fno-threadsafe-statics",
    # As in the runtime itself: a kernel gives the same bits wherever it is built.
    "-ffp-contract=off",
    "-fno-math-errno",
    "-Wall",
    "-DPENLIGHT_PLUGIN=1",
)
_SUFFIX = ".dylib" if sys.platform == "darwin" else ".so"


def build_plugin(source: Path | str, *, flags: Sequence[str] = (), compiler: str | None = None) -> Path:
    """Compile a C++ file with PENLIGHT_LIBRARY to a plug-in that load_plugin() takes.

    Args:
        source: the file. It may include headers beside it.
        flags: more for the compiler, after ours: "-march=native", "-Ifolder".
        compiler: command of a C++ compiler; by default CXX, the system's, or zig from PyPI.

    Returns: the shared object, in the cache (PENLIGHT_CACHE, or the user's cache folder). The
        same content gives the same path.

    Raises:
        FileMissing: there is no such file.
        InvalidInput: its name does not end as that of a C++ file.
        BuildFailed: it does not compile; with the compiler's own words at the file's lines.
        NoToolchain: there is no compiler.
        WriteFailed: the cache folder cannot be written to.
    """
    source = Path(os.path.abspath(source))
    if not source.is_file():
        raise FileMissing("no such source file", where=str(source), do="check the path")
    root = source_root()
    if source.suffix not in SOURCE_SUFFIXES:
        raise InvalidInput(
            "this is no C++ file",
            where=str(source),
            got=source.suffix or "a name without an ending",
            do=f"give a file that ends in {', '.join(SOURCE_SUFFIXES)}, or a plug-in that was built from one",
        )
    request = _digest([_FORMAT, str(source), str(root), *flags, "\0", compiler or os.environ.get("CXX", "")])
    try:
        record = _folder() / f"{source.stem}-{request[:16]}.json"
        found = _find(record)
        if found is not None:
            return found
        made = _build(source, root, tuple(flags), compiler, record)
        drop_unused(_folder(), _LIMIT)
    except PenlightError:
        raise
    except OSError as error:
        raise WriteFailed(
            f"cannot keep the plug-in of {source.name}",
            where=str(cache_folder()),
            got=str(error),
            do="set PENLIGHT_CACHE to a folder that can be written to",
        ) from error
    return made


def _find(record: Path) -> Path | None:
    """What an earlier build made of the same, if it is still there."""
    with looking(record.parent):
        known = _read(record)
        if known is None or not _unchanged(known):
            return None
        try:
            mark_used([record, Path(known["output"])])
        except FileNotFoundError:
            return None
        return Path(known["output"])


def _build(
    source: Path, root: Path, flags: tuple[str, ...], compiler: str | None, record: Path, again: bool = True
) -> Path:
    started = time.time_ns()
    toolchain = find_toolchain(None, compiler=compiler)
    command = [*toolchain.cxx, *_target_flags(toolchain), *_COMPILE]
    # Files written for ExecuTorch find their headers in the second folder.
    folders = (root / "runtime" / "include", root / "runtime" / "compatible")
    command += [*(f"-I{folder}" for folder in folders), *flags]
    identity = [_FORMAT, toolchain.label, *_COMPILE, *_target_flags(toolchain), *flags]
    support_source = root / "runtime" / "plugin" / "plugin.cpp"
    support = _folder() / f"core-{_digest([*identity, *_contents(_core_files(root))])[:24]}.o"
    part = f".{os.getpid()}.{threading.get_ident()}.part"
    object_file, depfile = record.with_suffix(f"{part}.o"), record.with_suffix(f"{part}.d")
    made = record.with_suffix(f"{part}{_SUFFIX}")
    support_part = support.with_suffix(f"{part}.o")
    try:
        jobs = [
            _start(
                [*command, "-MD", "-MF", str(depfile), "-c", str(source), "-o", str(object_file)], toolchain
            )
        ]
        if not _is_there(support):
            core = [*command, f"-I{root / 'runtime'}", "-c", str(support_source), "-o", str(support_part)]
            jobs.append(_start(core, toolchain))
        said = [job.communicate()[1] for job in jobs]
        for index, job in enumerate(jobs):
            if job.returncode:
                raise diagnostics.failure(source if index == 0 else support_source, said[index], root)
            wanted = (object_file, support_part)[index]
            if not wanted.exists():
                raise NoToolchain(
                    f"{command[0]} compiled {source.name} and left no object",
                    got=said[index].strip() or "no word",
                    do="name a C++ compiler, gcc or clang, by CXX or --compiler",
                )
        if len(jobs) > 1:
            support_part.replace(support)
        read = _dependencies(depfile)
        if again and any(_state(path)[0] >= started for path in read):
            # Somebody wrote to a file meanwhile: what was compiled may not be what it holds now.
            return _build(source, root, flags, compiler, record, again=False)
        name = _digest([*identity, str(source), *_contents(read), support.name])
        output = _folder() / f"{source.stem}-{name[:24]}{_SUFFIX}"
        if not _is_there(output) or _size(output) != (_read(record) or {}).get("size", _size(output)):
            _link(toolchain, [object_file, support], made, source, root)
            made.replace(output)
    finally:
        for path in (object_file, depfile, made, support_part):
            path.unlink(missing_ok=True)
    files = [*read, *_core_files(root), Path(os.path.realpath(toolchain.cxx[0]))]
    entry = {
        "output": str(output),
        "size": _size(output),
        "files": [[str(path), *_state(path)] for path in dict.fromkeys(files)],
    }
    written = record.with_suffix(part)
    written.write_text(json.dumps(entry))
    written.replace(record)
    return output


def _link(toolchain: Toolchain, objects: Sequence[Path], output: Path, source: Path, root: Path) -> None:
    # Where the C++ driver adds its library, it is left out unless the file uses it. Building
    # zig's takes minutes, so zig links without.
    driver: Sequence[str] = toolchain.cxx
    if toolchain.style == "zig":
        driver = ["cc" if word == "c++" else word for word in toolchain.cxx]
    command = [*driver, *_target_flags(toolchain), "-shared", *map(str, objects), "-o", str(output)]
    if sys.platform != "darwin":
        command += ["-Wl,--as-needed", "-Wl,--no-undefined", "-lm"]
    job = _start(command, toolchain)
    said = job.communicate()[1]
    if job.returncode:
        raise diagnostics.failure(source, said, root)


def _start(command: Sequence[str], toolchain: Toolchain) -> subprocess.Popen[str]:
    environment = {**os.environ, "LC_ALL": "C"}
    if toolchain.style == "zig" and toolchain.cache:
        environment["ZIG_GLOBAL_CACHE_DIR"] = environment["ZIG_LOCAL_CACHE_DIR"] = str(toolchain.cache)
    try:
        return subprocess.Popen(
            command,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
            env=environment,
        )
    except OSError as error:
        raise NoToolchain(f"{command[0]} does not start: {error.strerror or error}") from error


def _target_flags(toolchain: Toolchain) -> tuple[str, ...]:
    quiet = ("-fdiagnostics-color=never", "-fmax-errors=5", "-ftrack-macro-expansion=0")
    if toolchain.style != "gcc":
        quiet = ("-fno-color-diagnostics", "-ferror-limit=5", "-fmacro-backtrace-limit=1")
    return (*toolchain.compile_flags, *quiet)


def _folder() -> Path:
    folder = cache_folder() / "plugins"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def _core_files(root: Path) -> list[Path]:
    runtime = root / "runtime"
    folders = (runtime / "core", runtime / "plugin", runtime / "include" / "penlight")
    return sorted(path for folder in folders for path in folder.iterdir() if path.suffix in (".cpp", ".h"))


def _is_there(path: Path) -> bool:
    with looking(path.parent):
        try:
            mark_used([path])
        except FileNotFoundError:
            return False
        return True


def _dependencies(depfile: Path) -> list[Path]:
    """What make's rule in `depfile` lists, the source first."""
    text = depfile.read_text().replace("\\\n", " ").partition(": ")[2]
    names = text.replace("\\ ", "\0").split()
    return [Path(os.path.abspath(name.replace("\0", " "))) for name in names]


def _state(path: Path) -> tuple[int, int]:
    status = os.stat(path)
    return status.st_mtime_ns, status.st_size


def _size(path: Path | str) -> int:
    return os.stat(path).st_size


def _unchanged(known: dict[str, Any]) -> bool:
    try:
        if _size(known["output"]) != known["size"]:  # a part of it: loaded, it would end the process
            return False
        for path, time, size in known["files"]:
            status = os.stat(path)
            if status.st_mtime_ns != time or status.st_size != size:
                return False
    except (OSError, KeyError, TypeError, ValueError):
        return False
    return True


def _read(record: Path) -> dict[str, Any] | None:
    try:
        known = json.loads(record.read_bytes())
    except (OSError, ValueError):
        return None
    return known if isinstance(known, dict) else None


def _contents(paths: Iterable[Path]) -> list[str]:
    return [hashlib.blake2b(path.read_bytes(), digest_size=16).hexdigest() for path in paths]


def _digest(parts: Iterable[str]) -> str:
    return hashlib.blake2b("\0".join(parts).encode(), digest_size=20).hexdigest()
