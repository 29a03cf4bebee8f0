"""Kernel libraries of the user's own, named by YAML, as tables of a selective build.

They are asked before Penlight's: an operator, or the keys of one, that a user's
library serves in full is not taken from Penlight's kernels at all.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from penlight.build.registration import LibraryFiles, user_tables
from penlight.build.select import Selection, Use
from penlight.build.table import LibraryTable
from penlight.build.toolchain import SOURCE_SUFFIXES
from penlight.errors import InvalidInput
from penlight.kernels.bind import Table
from penlight.kernels.library import Schemas
from penlight.kernels.merge import Merged
from penlight.kernels.places import Fault
from penlight.kernels.table import DTYPE_SETS, own_table

# Names of files that say nothing of whose kernels they hold; their folder's name does.
_GENERAL = ("functions", "custom_ops", "custom-ops", "ops", "operators", "kernels")


@dataclass
class UserLibraries:
    """What the user's YAML files give to a build."""

    tables: list[LibraryTable] = field(default_factory=list)
    served: set[str] = field(default_factory=set)  # operators that need no kernel of Penlight's
    sources: list[Path] = field(default_factory=list)  # to compile, beside those that were given
    warnings: list[Fault] = field(default_factory=list)


def is_table(name: str | Path) -> bool:
    """Is it a YAML file, or one with its library's name, NAME=FILE.yaml?"""
    return Path(str(name)).suffix in (".yaml", ".yml")


def library_files(names: Sequence[str]) -> list[LibraryFiles]:
    """The libraries of YAML files, [NAME=]FILE, in the order they were first named."""
    named: dict[str, list[Path]] = {}
    for given in names:
        name, _, path = given.rpartition("=")
        found = Path(path)
        if not name:
            name = found.resolve().parent.name if found.stem in _GENERAL else found.stem
            name = re.sub(r"\W", "_", name)
        named.setdefault(name, []).append(found)
    return [LibraryFiles(name, tuple(paths)) for name, paths in named.items()]


def sources_beside(libraries: Sequence[LibraryFiles]) -> list[Path]:
    """C++ files in the folders of the libraries' YAML files."""
    folders = dict.fromkeys(path.parent for library in libraries for path in library.files)
    return [path for folder in folders for path in sorted(folder.glob("*")) if path.suffix in SOURCE_SUFFIXES]


def torch_schemas() -> Schemas | None:
    """What torch knows of ATen's operators; None where it is not installed."""
    try:
        from penlight.kernels.torch_schemas import TorchSchemas
    except ImportError:
        return None
    return TorchSchemas()


def read_user_libraries(
    libraries: Sequence[LibraryFiles], sources: Sequence[Path], selection: Selection, taken: Sequence[str]
) -> UserLibraries:
    """Tables with the kernels that `selection` needs; all of them, added to it, when it is empty.

    Args:
        libraries: in order of preference.
        sources: files with their kernels; when there are none, those beside the YAML files.
        taken: names that a library cannot have.

    Raises:
        InvalidTable: everything that is wrong in the files, with line and column.
    """
    if not libraries:
        return UserLibraries()
    for library in libraries:
        if library.name in taken:
            raise InvalidInput(
                f"a kernel library cannot be called {library.name}: Penlight has one of that name",
                where=str(library.files[0]),
                do=f"give it another: my_{library.name}={library.files[0]}",
            )
    given = list(sources) or sources_beside(libraries)
    everything = not selection.operators
    tables, merged, warnings = user_tables(
        libraries,
        given or None,
        schemas=torch_schemas(),
        own={row.op: row for row in own_table()},
        only=None if everything else set(selection.operators),
    )
    found = UserLibraries(warnings=warnings)
    for table, library in zip(tables, libraries, strict=True):
        if everything:
            for entry in table.entries:
                selection.add(entry.op, Use.of_any(set(DTYPE_SETS["all"]), library.name))
        if table.entries:
            found.tables.append(_library_table(table, library, selection))
    stand_ins = {row.op for table in tables for row in table.stand_ins}
    found.served = {
        op for op in selection.operators if op not in stand_ins and _serves(merged, op, selection)
    }
    used = {path for table in found.tables for path in table.files}
    if not sources:
        found.sources = [path for path in given if path.resolve() in used]
    return found


def _library_table(table: Table, library: LibraryFiles, selection: Selection) -> LibraryTable:
    made = LibraryTable(table.name, table, ", ".join(path.name for path in library.files))
    for entry in table.entries:
        made.kernels[entry.op] = entry.function.rpartition("::")[2]
        if entry.source:
            path = made.sources[entry.op] = Path(entry.source).resolve()
            made.files.setdefault(path, set()).update(selection.operators[entry.op].dtypes)
    return made


def _serves(merged: Merged, op: str, selection: Selection) -> bool:
    """Do the user's kernels take every call of an operator that programs make?"""
    use = selection.operators[op]
    rows = [item for item in merged.served if item.op == op]
    if any(item.key is None and use.dtypes <= _dtypes(item.row.dtypes) for item in rows):
        return True
    keys = [item.key for item in rows if item.key is not None]
    return bool(use.keys) and all(any(_is_of(key, call) for key in keys) for call in use.keys)


def _is_of(key: str, call: str) -> bool:
    """Is a kernel's key that of a call, whose results programs name twice?"""
    parts, given = key.removeprefix("v1/").split("|"), call.removeprefix("v1/").split("|")
    more = len(given) - len(parts)
    return given[: len(parts)] == parts and (more == 0 or (more > 0 and given[len(parts) :] == parts[-more:]))


def _dtypes(sets: Mapping[str, frozenset[object]]) -> frozenset[object]:
    """The dtypes that a kernel takes in every argument."""
    return frozenset.intersection(*sets.values()) if sets else frozenset(DTYPE_SETS["all"])
