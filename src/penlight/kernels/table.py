"""The table of operators and kernels: Penlight's own, from kernels/ops.yaml, and the user's libraries.

The compiler's kernel check, code generation, selective build and the support
page all ask this table. No torch here: a build from a list of operators needs none.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import lru_cache
from pathlib import Path

from penlight.kernels.library import find_duplicates, read_rows
from penlight.kernels.places import Faults
from penlight.kernels.rows import DTYPE_SETS, OpRow, parse_dtypes

__all__ = [
    "DTYPE_SETS",
    "OpRow",
    "OpTable",
    "default_table",
    "own_table",
    "parse_dtypes",
    "read_table",
    "register_rows",
    "table_path",
]


class OpTable:
    """Rows by operator name, such as `aten::add.out`."""

    def __init__(self, rows: Iterable[OpRow]) -> None:
        self._rows: dict[str, list[OpRow]] = {}
        for row in rows:
            self._rows.setdefault(row.op, []).append(row)

    def rows(self, op: str, libraries: Iterable[str] | None = None) -> list[OpRow]:
        """Kernels of `op` in any of `libraries` (all when None) and the user's own, in order."""
        found = self._rows.get(op, [])
        if libraries is None:
            return list(found)
        chosen = set(libraries)
        return [row for row in found if row.every_target or chosen.intersection(row.libraries)]

    def names(self) -> list[str]:
        return list(self._rows)

    def libraries(self) -> list[str]:
        return list(dict.fromkeys(library for row in self for library in row.libraries))

    def with_rows(self, rows: Iterable[OpRow], *, first: bool = False) -> OpTable:
        """This table and more rows, asked after those it has or before them."""
        return OpTable([*rows, *self] if first else [*self, *rows])

    def __contains__(self, op: object) -> bool:
        return op in self._rows

    def __iter__(self) -> Iterator[OpRow]:
        for rows in self._rows.values():
            yield from rows

    def __len__(self) -> int:
        return sum(len(rows) for rows in self._rows.values())


def read_table(path: Path) -> OpTable:
    """The table in a YAML file.

    Raises:
        InvalidTable: everything that is wrong in it.
    """
    faults = Faults()
    rows = read_rows(path, faults)
    find_duplicates(rows, faults)
    faults.check()
    return OpTable(rows)


def table_path() -> Path:
    """kernels/ops.yaml: in the installed package, else in the source tree."""
    packaged = Path(__file__).parents[1] / "share" / "kernels" / "ops.yaml"
    return packaged if packaged.exists() else Path(__file__).parents[3] / "kernels" / "ops.yaml"


@lru_cache(maxsize=1)
def own_table() -> OpTable:
    """Penlight's own kernels."""
    return read_table(table_path())


_registered: dict[str, tuple[OpRow, ...]] = {}
_default: OpTable | None = None


def register_rows(rows: Iterable[OpRow], *, library: str) -> None:
    """Add the kernels of a user's library, for this process; they count for every target.

    They are asked before Penlight's own. Registering a library of the same name again replaces its
    rows, so that a file can be loaded twice, or changed and loaded again; no rows remove it.

    Args:
        rows: one for each kernel. `libraries` and `every_target` of each are set here.
        library: the library's name, which is its key.
    """
    global _default
    found = tuple(replace(row, libraries=(library,), every_target=True) for row in rows)
    _registered.pop(library, None)
    if found:
        _registered[library] = found
    _default = None


def default_table() -> OpTable:
    """Every kernel this process knows: of the user's libraries, then Penlight's own."""
    global _default
    if _default is None:
        users = [row for rows in _registered.values() for row in rows]
        _default = own_table().with_rows(users, first=True) if users else own_table()
    return _default
