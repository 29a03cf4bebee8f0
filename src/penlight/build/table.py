"""The kernels chosen from each library, as C++ tables and as files to compile."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from pathlib import Path

from penlight.build import registration
from penlight.build.select import Selection
from penlight.build.sources import ALL_MASK, SourceTree, mask_of
from penlight.errors import InvalidInput, NoKernel
from penlight.ir.dtypes import DType
from penlight.kernels.bind import Table
from penlight.kernels.table import own_table

_PRIM = re.compile(r'\bPRIM\("([^"]+)", (.*?"\w*")\)')


@dataclass
class LibraryTable:
    """What one library contributes."""

    library: str
    table: Table
    origin: str  # the file it was read from
    files: dict[Path, set[DType]] = field(default_factory=dict)  # of the chosen kernels
    kernels: dict[str, str] = field(default_factory=dict)  # operator -> function
    sources: dict[str, Path] = field(default_factory=dict)  # operator -> file

    def render(self, masks: Mapping[Path, Collection[DType]]) -> str:
        """C++ source, given what each file is compiled for."""
        chosen = {operator: mask_of(masks[path]) for operator, path in self.sources.items()}
        partial = {operator: mask for operator, mask in chosen.items() if mask != ALL_MASK}
        return registration.render([self.table], self.origin, partial)


def tables_for(
    tree: SourceTree,
    selection: Selection,
    custom: Collection[str],
    libraries: Sequence[str] | None = None,
    *,
    small: bool = False,
) -> list[LibraryTable]:
    """The tables of the libraries that have any of the selected operators.

    Args:
        custom: operators that files of the user's own register.
        libraries: names to choose from, in this order of preference; all when None.
        small: of the libraries that have an operator take one alone, portable first.

    Raises:
        NoKernel: names every operator that nothing implements.
    """
    known = tree.libraries()
    for library in libraries or ():
        if library not in known:
            raise InvalidInput(f"there is no kernel library {library}", do=f"there are: {', '.join(known)}")
    ops = tree.root / "kernels" / "ops.yaml"
    tables: list[LibraryTable] = []
    found = set(custom)
    one_each = small and libraries is None
    order = libraries or sorted(known, key=lambda name: (name == "portable") != one_each)
    for library in order:
        wanted = set(selection.operators) - found if one_each else set(selection.operators)
        table, _ = registration.own_library(ops, library, only=wanted)
        if not table.entries:
            continue
        made = LibraryTable(library, table, f"{ops.parent.name}/{ops.name}")
        for entry in table.entries:
            if entry.source:
                path = made.sources[entry.op] = (tree.root / entry.source).resolve()
                made.files.setdefault(path, set()).update(selection.operators[entry.op].dtypes)
            made.kernels[entry.op] = entry.function.rpartition("::")[2]
        found.update(made.kernels)
        tables.append(made)
    missing = sorted(set(selection.operators) - found)
    if missing:
        needed = selection.operators[missing[0]].needed_by
        close = get_close_matches(missing[0], own_table().names(), 3, 0.7)
        raise NoKernel(
            f"{', '.join(missing)} {'has' if len(missing) == 1 else 'have'} no kernel",
            where=", ".join(needed),
            got=f"kernel libraries: {', '.join(libraries or known)}",
            do="give the .cpp file that registers it"
            + (f"; names like it: {', '.join(close)}" if close else ""),
        )
    return tables


def prims_header(tree: SourceTree, source: Path, prims: Collection[str]) -> str:
    """The rows of the runtime's own operators that programs use, as runtime/exec/prims.cpp has them."""
    rows = [row for row in _PRIM.findall(tree.text(source)) if row[0] in prims]
    lines = [f'PRIM("{name}", {rest})' for name, rest in rows]
    return " \\\n  ".join(["#define PENLIGHT_PRIMS(PRIM)", *lines]) + "\n"
