"""Run programs: loading, calling, state. Needs numpy; neither torch nor the compiler."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, cast

if TYPE_CHECKING:
    from .program import LoadedProgram, Source

__all__ = ["load"]


def load(
    source: Source,
    *,
    data: Sequence[str | os.PathLike[str]] | str | os.PathLike[str] | None = None,
    libraries: str | Sequence[str] | None = None,
    plugins: Sequence[str | os.PathLike[str]] | str | os.PathLike[str] = (),
    copy: bool = True,
    map: bool = True,
    threads: int | None = None,
) -> LoadedProgram:
    """Load a program from a file, from bytes, or as it was compiled.

    Args:
        source: path of a .pte file, its content (bytes or any object with a buffer), or what
            penlight.compile returned.
        data: .ptd files that hold weights of the program.
        libraries: kernel libraries to use, asked in this order; None for all there are.
        plugins: shared objects with operators of your own, loaded first. With `libraries`, their
            kernels are asked before those.
        copy: give outputs as copies. False gives views of the program's memory, which
            the next call overwrites.
        map: map the file instead of reading it in parts.
        threads: how many a kernel may use, this one included; None for one on each physical
            core. All programs of a process share them. Results do not depend on it.

    Returns: the program; call it, or a method: ``program["decode"](x)``.

    Raises:
        InvalidProgram: the file is missing, damaged, or not a program.
        NotSupported: it has a version that this runtime does not read.
        FileMissing, InvalidOperator, InvalidState: of a plug-in; see load_plugin().
    """
    from .program import LoadedProgram

    several = isinstance(data, Sequence) and not isinstance(data, (str, bytes, bytearray, memoryview))
    files = () if data is None else cast("Sequence[str]", data if several else (data,))
    if isinstance(plugins, (str, os.PathLike)):
        plugins = (plugins,)
    if plugins:
        from .plugin import load_plugin

        names = dict.fromkeys(info.library for path in plugins for info in load_plugin(path))
        if libraries is not None:
            libraries = [*names, *((libraries,) if isinstance(libraries, str) else libraries)]
    return LoadedProgram(source, data=files, libraries=libraries, copy=copy, map=map, threads=threads)
