"""The table of operators and kernels, read from kernels/ops.yaml.

The compiler's kernel check, code generation, selective build and the support
page all ask this table; nothing else parses the file. Its format is described
by its header. No torch here: a build from a list of operators needs none.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import yaml

from penlight.errors import InvalidInput
from penlight.ir.dtypes import DType

_FLOAT = frozenset({DType.float16, DType.bfloat16, DType.float32, DType.float64})
_INT = frozenset({DType.uint8, DType.int8, DType.int16, DType.int32, DType.int64})
_BOOL = frozenset({DType.bool})

DTYPE_SETS: Mapping[str, frozenset[DType]] = {
    "float": _FLOAT,
    "int": _INT,
    "real": _FLOAT | _INT,
    "bool": _BOOL,
    "all": _FLOAT | _INT | _BOOL,
    "index": frozenset({DType.int32, DType.int64}),
}

_KEYS = {"op", "kernel", "in", "dtypes", "inplace", "schema"}


def parse_dtypes(expression: str) -> frozenset[DType]:
    """The dtypes of an expression such as `float+int64`."""
    found: set[DType] = set()
    for word in expression.split("+"):
        word = word.strip()
        if word in DTYPE_SETS:
            found |= DTYPE_SETS[word]
        elif word in DType.__members__:
            found.add(DType[word])
        else:
            raise InvalidInput(
                f"unknown dtype or set of dtypes '{word}'",
                got=expression,
                do=f"use {', '.join(DTYPE_SETS)}, or a dtype by torch's name, joined with +",
            )
    return frozenset(found)


@dataclass(frozen=True)
class OpRow:
    """One kernel of one operator.

    `dtypes` maps an argument's name to what the kernel takes there; `rest`
    stands for the tensor arguments that are not named.
    """

    op: str
    kernel: str
    libraries: tuple[str, ...] = ("portable",)
    dtypes: Mapping[str, frozenset[DType]] = field(default_factory=lambda: {"rest": DTYPE_SETS["all"]})
    inplace: tuple[str, ...] = ()
    schema: str | None = None
    every_target: bool = False  # the user's own: there whatever libraries a target names

    def takes(self, argument: str, dtype: DType) -> bool:
        allowed = self.dtypes.get(argument)
        if allowed is None:
            allowed = self.dtypes.get("rest", DTYPE_SETS["all"])
        return dtype in allowed


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


def parse_row(entry: Mapping[str, Any]) -> OpRow:
    """One entry of the YAML list."""
    unknown = set(entry) - _KEYS
    if unknown or "op" not in entry or "kernel" not in entry:
        raise InvalidInput(
            "a row of the operator table needs 'op' and 'kernel'"
            if not unknown
            else f"unknown key {sorted(unknown)} in a row of the operator table",
            got=str(dict(entry)),
            do=f"keys are {', '.join(sorted(_KEYS))}",
        )
    dtypes = entry.get("dtypes", "all")
    if not isinstance(dtypes, Mapping):
        dtypes = {"rest": dtypes}
    inplace = entry.get("inplace", ())
    return OpRow(
        op=str(entry["op"]),
        kernel=str(entry["kernel"]),
        libraries=tuple(entry.get("in", ("portable",))),
        dtypes={str(name): parse_dtypes(str(value)) for name, value in dtypes.items()},
        inplace=(inplace,) if isinstance(inplace, str) else tuple(inplace),
        schema=entry.get("schema"),
    )


def read_table(path: Path) -> OpTable:
    """The table in a YAML file."""
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    entries = yaml.load(path.read_text(encoding="utf-8"), Loader=loader) or []
    return OpTable(parse_row(entry) for entry in entries)


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
