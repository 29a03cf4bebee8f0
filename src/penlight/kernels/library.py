"""Kernel libraries from YAML: three spellings, one model.

Penlight's compact rows (kernels/ops.yaml)::

    - {op: "aten::relu.out", kernel: relu_out, dtypes: real}

and ExecuTorch's functions.yaml and custom_ops.yaml, as they are::

    - op: add.out
      type_alias: {T0: [Float, Double]}
      dim_order_alias: {D0: [[0, 1]]}
      kernels:
        - arg_meta: null
          kernel_name: mylib::add_out
        - arg_meta: {self: [T0, D0], other: [T0, D0], out: [T0, D0]}
          kernel_name: mylib::add_contiguous_out
    - func: myop::twice.out(Tensor x, *, Tensor(a!) out) -> Tensor(a!)
      kernels: [{arg_meta: null, kernel_name: mylib::twice_out}]

all become `OpRow`s. Entries are told apart by their keys, so one file may mix them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from penlight.errors import InvalidInput
from penlight.ir.dtypes import DType
from penlight.kernels.arg_meta import Aliases
from penlight.kernels.places import Fault, Faults, Item, Place, nearest, read_list
from penlight.kernels.rows import OpRow, parse_dtypes
from penlight.kernels.schema import Schema, SchemaError, parse_schema


class Schemas(Protocol):
    """Knows operators that a file names without their schema; penlight.kernels.torch_schemas has torch's."""

    def schema(self, op: str) -> Schema | None:
        """Of "aten::add.out"; None where nothing is known of it.

        Raises:
            LookupError: there is no such operator; the text says so.
        """

    def is_aten(self, name: str) -> bool:
        """Has ATen an operator of that name, of any overload?"""


_COMPACT_KEYS = ("op", "kernel", "given", "in", "dtypes", "inplace", "schema")
_ENTRY_KEYS = ("op", "func", "kernels", "type_alias", "dim_order_alias")
_KERNEL_KEYS = ("arg_meta", "kernel_name")
# Of native_functions.yaml; they say nothing about kernels here.
_IGNORED_KEYS = ("variants", "tags", "python_module", "device_check", "device_guard", "autogen")


@dataclass
class Library:
    """The kernels of one library, in the order of their files."""

    name: str
    rows: list[OpRow]
    warnings: list[Fault] = field(default_factory=list)


def read_library(files: Iterable[Path], name: str, *, schemas: Schemas | None = None) -> Library:
    """One library from its YAML files.

    Args:
        files: functions.yaml, custom_ops.yaml or compact ones.
        name: the library's; a C++ identifier.
        schemas: knows the operators that a file names without their schema.

    Raises:
        InvalidTable: everything that is wrong in them, each with file, line and column.
    """
    faults = Faults()
    rows = [row for file in files for row in read_rows(file, faults, library=name, schemas=schemas)]
    find_duplicates(rows, faults)
    faults.check()
    return Library(name, rows, faults.warnings)


def read_rows(
    path: Path, faults: Faults, *, library: str | None = None, schemas: Schemas | None = None
) -> list[OpRow]:
    """The rows of a YAML file; what is wrong goes to `faults`, and the rest is read all the same.

    Args:
        path: a file of any of the spellings.
        faults: takes what is wrong.
        library: the library of rows that name none; "portable" when None.
        schemas: knows the operators that a file names without their schema.
    """
    reader = _Reader(faults, library or "portable", schemas)
    return [row for entry in read_list(path, faults) for row in reader.entry(entry)]


def find_duplicates(rows: Iterable[OpRow], faults: Faults) -> None:
    """One library may have one kernel for an operator and key: a second names both places."""
    seen: dict[tuple[str, str, str], OpRow] = {}
    for row in rows:
        for library in row.libraries:
            for key in row.keys or ("",):
                first = seen.setdefault((library, row.op, key), row)
                if first is row or row.place is None:
                    continue
                what = f"a kernel for {key}" if key else "a row" if first.signature is None else "a fallback"
                where = f"; first in {first.place}" if first.place else ""
                faults.add(row.place, f"{row.op} has {what} already in library {library}{where}")
                break


class _Reader:
    def __init__(self, faults: Faults, library: str, schemas: Schemas | None) -> None:
        self.faults, self.library, self.schemas = faults, library, schemas

    def entry(self, entry: Item) -> list[OpRow]:
        keys = entry.entries(self.faults)
        compact = (set(_COMPACT_KEYS) - {"op"}) & set(keys)
        if compact and not {"kernels", "func"} & set(keys):
            row = self.compact(entry, keys)
            return [row] if row else []
        return self.verbose(entry, keys)

    def check_keys(self, keys: Mapping[str, tuple[Item, Item]], known: Iterable[str]) -> None:
        known = list(known)
        for name, (key, _) in keys.items():
            if name not in known and name not in _IGNORED_KEYS:
                hint = nearest(name, known) or f"; keys are {', '.join(known)}"
                self.faults.add(key.place, f"unknown key {name!r}{hint}")

    def text_of(self, keys: Mapping[str, tuple[Item, Item]], name: str, owner: Item) -> Item | None:
        if name not in keys:
            self.faults.add(owner.place, f"an entry with no `{name}`")
            return None
        item = keys[name][1]
        if item.kind != "text" or not item.text.strip():
            self.faults.add(item.place, f"`{name}` must be a name")
            return None
        return item

    # --- compact rows ------------------------------------------------------------------------------

    def compact(self, entry: Item, keys: Mapping[str, tuple[Item, Item]]) -> OpRow | None:
        self.check_keys(keys, _COMPACT_KEYS)
        op, kernel = self.text_of(keys, "op", entry), self.text_of(keys, "kernel", entry)
        libraries: tuple[str, ...] = (self.library,)
        if "in" in keys:
            libraries = tuple(item.text for item in keys["in"][1].texts(self.faults, "`in`"))
        inplace: tuple[str, ...] = ()
        if "inplace" in keys:
            item = keys["inplace"][1]
            names = [item] if item.kind == "text" else item.texts(self.faults, "`inplace`")
            inplace = tuple(name.text for name in names)
        schema = self.text_of(keys, "schema", entry) if "schema" in keys else None
        if schema is not None:
            self.schema(schema)
        given = self.given(keys["given"][1]) if "given" in keys else ()
        dtypes = self.dtypes(keys["dtypes"][1]) if "dtypes" in keys else {"rest": parse_dtypes("all")}
        if op is None or kernel is None or not libraries:
            return None
        if "::" not in op.text:
            self.faults.add(op.place, f"operator {op.text!r} has no namespace: write aten::{op.text}")
            return None
        return OpRow(
            op=op.text,
            kernel=kernel.text,
            libraries=libraries,
            dtypes=dtypes,
            inplace=inplace,
            schema=schema.text if schema else None,
            given=given,
            place=op.place,
        )

    def given(self, item: Item) -> tuple[tuple[str, str], ...]:
        if item.kind != "mapping":
            self.faults.add(item.place, "`given` must be a mapping, such as {dims: 2}")
            return ()
        found = []
        for name, (_, value) in item.entries(self.faults).items():
            if not re.fullmatch(r"true|false|-?\d+", value.text):
                self.faults.add(value.place, f"{name} is given as a whole number, true or false")
            found.append((name, value.text))
        return tuple(found)

    def dtypes(self, item: Item) -> dict[str, frozenset[DType]]:
        pairs = [("rest", item)]
        if item.kind == "mapping":
            pairs = [(name, value) for name, (_, value) in item.entries(self.faults).items()]
        found = {}
        for name, value in pairs:
            try:
                if value.kind != "text":
                    raise InvalidInput("dtypes are an expression, such as float+int64")
                found[name] = parse_dtypes(value.text)
            except InvalidInput as error:
                self.faults.add(value.place, error.what + (f": {error.do}" if error.do else ""))
        return found

    # --- functions.yaml, custom_ops.yaml -----------------------------------------------------------

    def verbose(self, entry: Item, keys: Mapping[str, tuple[Item, Item]]) -> list[OpRow]:
        self.check_keys(keys, _ENTRY_KEYS)
        aliases = Aliases(keys, self.faults)
        if "op" in keys and "func" in keys:
            self.faults.add(keys["func"][0].place, "an entry has `op` or `func`, not both")
            return []
        if "op" not in keys and "func" not in keys:
            self.faults.add(entry.place, "an entry needs `op` (an operator's name) or `func` (its schema)")
            return []
        named = self.named(keys, entry)
        if named is None:
            return []
        op, signature, place = named
        if "kernels" not in keys:
            if set(keys) <= {*_ENTRY_KEYS, *_IGNORED_KEYS}:  # else that key was meant
                self.faults.add(entry.place, f"{op} has no `kernels`")
            return []
        kernels = keys["kernels"][1]
        if kernels.kind != "list" or not kernels.items():
            self.faults.add(
                kernels.place, "`kernels` must be a list of `- arg_meta: ...` with their `kernel_name`"
            )
            return []
        rows = []
        for item in kernels.items():
            if item.kind != "mapping":
                self.faults.add(item.place, "a kernel must be a mapping of `arg_meta` and `kernel_name`")
                continue
            parts = item.entries(self.faults)
            self.check_keys(parts, _KERNEL_KEYS)
            kernel = self.text_of(parts, "kernel_name", item)
            meta = parts["arg_meta"][1] if "arg_meta" in parts else None
            special = None
            if meta is not None and meta.kind != "null":
                special = aliases.specialisations(meta, op, signature)
                if special is None:
                    continue
            if kernel is None:
                continue
            keys_, dtypes = special or ((), {"rest": frozenset(DType)})
            rows.append(
                OpRow(op, kernel.text.strip(), (self.library,), dtypes, keys=keys_, signature=signature,
                      place=kernel.place if len(kernels.items()) > 1 else place)
            )  # fmt: skip
        return rows

    def named(
        self, keys: Mapping[str, tuple[Item, Item]], entry: Item
    ) -> tuple[str, Schema | None, Place] | None:
        """The operator of an entry, its schema where that is known, and where it is written."""
        if "func" in keys:
            item = self.text_of(keys, "func", entry)
            if item is None:
                return None
            if "(" not in item.text:  # a name alone, as older files have it
                return self.known(item)
            schema = self.schema(item)
            if schema is None:
                return None
            if not schema.namespace and not self.is_aten(schema, item):
                return None
            self.check_outs(schema, item)
            return schema.op, schema, item.place
        item = self.text_of(keys, "op", entry)
        return None if item is None else self.known(item)

    def known(self, item: Item) -> tuple[str, Schema | None, Place] | None:
        """An operator given by its name, which stands for ATen's where it has no namespace."""
        if "(" in item.text:
            self.faults.add(item.place, "`op` is a name; a whole schema goes under `func`")
            return None
        op = item.text.strip() if "::" in item.text else f"aten::{item.text.strip()}"
        try:
            schema = self.schemas.schema(op) if self.schemas else None
        except LookupError as error:
            self.faults.add(item.place, str(error.args[0]))
            return None
        if schema is not None:
            self.check_outs(schema, item)
        return op, schema, item.place

    def schema(self, item: Item) -> Schema | None:
        try:
            return parse_schema(item.text)
        except SchemaError as error:
            self.faults.add(item.inside(error.offset), f"the schema does not parse: {error}")
            return None

    def is_aten(self, schema: Schema, item: Item) -> bool:
        """May a schema go without a namespace? Only a form of an operator of ATen's may."""
        if self.schemas is None:
            self.faults.warn(item.place, f"`func` has no namespace: read as {schema.op}")
            return True
        if self.schemas.is_aten(schema.name):
            return True
        self.faults.add(
            item.place,
            f"`func` has no namespace, and ATen has no operator {schema.name}: "
            f"write {self.library}::{item.text.strip().split('(')[0]}(...)",
        )
        return False

    def check_outs(self, schema: Schema, item: Item) -> None:
        """A kernel writes to what it is given: `*, Tensor(a!) out` at the end."""
        if not schema.outs:
            base = schema.overload + "_out" if schema.overload else "out"
            self.faults.add(
                item.place,
                f"{schema.op} has no output argument: kernels implement the out variant, "
                f"{schema.name}.{base}(..., *, Tensor(a!) out) -> Tensor(a!)",
            )
            return
        if any(not argument.is_out for argument in schema.arguments[-len(schema.outs) :]):
            self.faults.add(item.place, f"{schema.op}: output arguments must be the last ones")
        if schema.returns and len(schema.returns) != len(schema.outs):
            self.faults.add(
                item.place,
                f"{schema.op} returns {len(schema.returns)} values and has {len(schema.outs)} outputs",
            )
        for argument in schema.arguments:
            if not argument.letter:
                self.faults.add(
                    item.place,
                    f"argument {argument.name} has type {argument.type}, which no kernel can take "
                    "(Tensor, Scalar, int, float, bool, str, ScalarType, Layout, MemoryFormat, Device, "
                    "lists [] and optional ? of them)",
                )
