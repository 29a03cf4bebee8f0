"""Objects, compiled in parallel and kept by content.

An object is found again by everything it depends on: the compiler and its flags,
the file, and every file of ours that it includes. Two builds of different models
share what they have in common, and a build that changes nothing compiles nothing.
The store is in the user's cache folder, or where PENLIGHT_CACHE says.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from penlight.build import diagnostics
from penlight.build.cache import cache_folder, drop_unused, looking, mark_used
from penlight.build.sources import SourceTree
from penlight.build.toolchain import Toolchain
from penlight.errors import BuildFailed

_LIMIT = 512 << 20  # bytes; what is unused for longest beyond it is dropped
_FORMAT = "1"  # a change of what is stored forgets what was


@dataclass(frozen=True)
class Unit:
    """One file to compile."""

    source: Path
    defines: tuple[str, ...] = ()
    includes: tuple[Path, ...] = ()
    optimize: str = "-Os"
    flags: tuple[str, ...] = ()  # more for the compiler
    also: tuple[Path, ...] = ()  # files the compiler reads beside those that are included
    generated: bool = False  # its content counts, not where it lies


@dataclass(frozen=True)
class Compiled:
    """Objects in the order of their units, and how much there was to do."""

    objects: list[Path]
    made: int


def compile_units(
    toolchain: Toolchain, tree: SourceTree, units: Sequence[Unit], *, jobs: int | None = None
) -> Compiled:
    """Compile what the store does not have.

    Raises:
        BuildFailed: of the first file, in their order, that does not compile.
    """
    store = _store()
    digests: dict[Path, bytes] = {}
    paths = [store / f"{_key(toolchain, tree, unit, digests)}.o" for unit in units]
    with looking(store):
        missing = {path: unit for path, unit in zip(paths, units, strict=True) if not path.exists()}
        mark_used(path for path in paths if path not in missing)
    if missing:
        with ThreadPoolExecutor(jobs or os.cpu_count() or 1) as pool:
            waiting = [pool.submit(_compile, toolchain, tree, unit, path) for path, unit in missing.items()]
            try:
                for done in waiting:
                    done.result()
            except BaseException:
                pool.shutdown(cancel_futures=True)
                raise
        drop_unused(store, _LIMIT)
    return Compiled(paths, len(missing))


def _compile(toolchain: Toolchain, tree: SourceTree, unit: Unit, path: Path) -> None:
    part = path.with_name(f"{path.stem}.{os.getpid()}.part.o")  # whole files only, whoever else builds
    try:
        toolchain.compile(
            unit.source,
            part,
            flags=unit.flags,
            defines=unit.defines,
            includes=unit.includes,
            optimize=unit.optimize,
        )
        part.replace(path)
    except BuildFailed as error:
        if tree.is_ours(unit.source):
            raise
        fault = diagnostics.failure(unit.source, error.got or "", tree.root)
        file, _, line = (fault.where or "").rpartition(":")
        if unit.generated and line.isdigit():  # it includes the user's file, which has the fault
            fault = BuildFailed(f"{Path(file).name} does not compile", where=fault.where, got=fault.got)
        raise fault from None
    finally:
        part.unlink(missing_ok=True)


def _store() -> Path:
    store = cache_folder() / "objects"
    store.mkdir(parents=True, exist_ok=True)
    return store


def _key(toolchain: Toolchain, tree: SourceTree, unit: Unit, digests: dict[Path, bytes]) -> str:
    key = hashlib.blake2b(digest_size=20)
    flags = [_FORMAT, toolchain.key, str(toolchain.target), unit.optimize, *unit.defines, *unit.flags]
    key.update("\0".join(flags).encode())
    also = [file.resolve() for file in unit.also]
    for path in (*tree.closure(unit.source), *also):
        if path not in digests:
            digests[path] = hashlib.blake2b(path.read_bytes(), digest_size=20).digest()
        # Names as the tree has them: another checkout with the same files shares objects. A file of
        # the user's own keeps its place, which messages of its kernels name.
        name: Path | str = path.relative_to(tree.root) if path.is_relative_to(tree.root) else path
        if path in also or (unit.generated and path == unit.source):
            name = path.name
        key.update(f"\0{name}\0".encode() + digests[path])
    return key.hexdigest()
