"""Several libraries as one: each operator and key is served by the first library that has it.

The order is the one in which the libraries are given to a registry at run time, and
what it decides here is what the registry decides there: for one operator, a kernel
for exactly these dtypes and dim orders comes before one for any, and of each kind
the first library's is taken. So a later library fills the holes of an earlier one:
operators, and keys of operators.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Sequence
from dataclasses import dataclass, replace

from penlight.kernels.library import Library
from penlight.kernels.rows import DTYPE_SETS, OpRow


@dataclass(frozen=True)
class Served:
    """Who computes an operator; `key` None is for every dtype and dim order that no key names."""

    op: str
    key: str | None
    library: str
    row: OpRow


@dataclass
class Merged:
    """The kernels that are used, and those that an earlier library's stand in front of."""

    served: list[Served]
    shadowed: list[Served]

    def rows(self, library: str) -> list[OpRow]:
        """What is left of one library, to register."""
        keys: dict[int, list[str]] = {}
        rows: dict[int, OpRow] = {}
        for item in self.served:
            if item.library == library:
                rows[id(item.row)] = item.row
                if item.key is not None:
                    keys.setdefault(id(item.row), []).append(item.key)
        return [replace(row, keys=tuple(keys.get(number, ()))) for number, row in rows.items()]

    def find(self, op: str, key: str | None = None) -> Served | None:
        """Who serves a call, as the registry would decide."""
        for wanted in (key, None):
            for item in self.served:
                if item.op == op and item.key == wanted:
                    return item
        return None

    def without_fallback(self) -> list[str]:
        """Operators that have kernels for some keys only."""
        general = {item.op for item in self.served if item.key is None}
        return list(dict.fromkeys(item.op for item in self.served if item.op not in general))


def merge(libraries: Sequence[Library], *, only: Container[str] | None = None) -> Merged:
    """Decide who serves what.

    Args:
        libraries: in order of preference.
        only: operators to keep, as programs name them; all when None.
    """
    merged = Merged([], [])
    first: dict[tuple[str, str], Served] = {}
    general: dict[str, list[Served]] = {}
    for library in libraries:
        for row in library.rows:
            if only is not None and row.op not in only:
                continue
            for key in row.keys:
                item = Served(row.op, key, library.name, row)
                kept = first.setdefault((row.op, key), item)
                (merged.served if kept is item else merged.shadowed).append(item)
            if not row.keys:
                item = Served(row.op, None, library.name, row)
                before = general.setdefault(row.op, [])
                hidden = any(_covers(other.row, row) for other in before)
                (merged.shadowed if hidden else merged.served).append(item)
                before.append(item)
    return merged


def _covers(first: OpRow, second: OpRow) -> bool:
    """Does one fallback take every dtype that another does?"""
    return all(_at(second, argument) <= _at(first, argument) for argument in _arguments((first, second)))


def _arguments(rows: Iterable[OpRow]) -> set[str]:
    return {argument for row in rows for argument in row.dtypes} | {"rest"}


def _at(row: OpRow, argument: str) -> frozenset[object]:
    return frozenset(row.dtypes.get(argument, row.dtypes.get("rest", DTYPE_SETS["all"])))
