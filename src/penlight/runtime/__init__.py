"""Run programs: loading, calling, state. Needs numpy; neither torch nor the compiler."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .program import LoadedProgram

__all__ = ["load"]


def load(
    source: str | os.PathLike[str] | bytes,
    *,
    data: Sequence[str | os.PathLike[str]] | str | os.PathLike[str] | None = None,
    libraries: str | Sequence[str] | None = None,
    copy: bool = True,
    map: bool = True,
) -> LoadedProgram:
    """Load a program from a file or from bytes.

    Args:
        source: path of a .pte file, or its content.
        data: .ptd files that hold weights of the program.
        libraries: kernel libraries to use, asked in this order; None for all there are.
        copy: give outputs as copies. False gives views of the program's memory, which
            the next call overwrites.
        map: map the file instead of reading it in parts.

    Returns: the program; call it, or a method: ``program["decode"](x)``.

    Raises:
        InvalidProgram: the file is missing, damaged, or not a program.
        NotSupported: it has a version that this runtime does not read.
    """
    from .program import LoadedProgram

    if data is None:
        data = ()
    elif isinstance(data, (str, os.PathLike)):
        data = (data,)
    return LoadedProgram(source, data=data, libraries=libraries, copy=copy, map=map)
