"""Reads schema/program.fbs into tables that the encoder and decoder follow.

A small part of the FlatBuffers schema language is understood: tables of
scalars, strings, vectors and tables, unions of tables, `force_align`. A field
of a union takes two field numbers, the first for the number of the member.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

SCALARS: Mapping[str, tuple[str, int]] = {  # name: struct code, bytes
    "bool": ("?", 1),
    "byte": ("b", 1),
    "ubyte": ("B", 1),
    "short": ("h", 2),
    "ushort": ("H", 2),
    "int": ("i", 4),
    "uint": ("I", 4),
    "long": ("q", 8),
    "ulong": ("Q", 8),
    "float": ("f", 4),
    "double": ("d", 8),
}


@dataclass(frozen=True)
class Field:
    """`type` is a scalar, `string`, or the name of a table or union; `number` its place in the vtable.

    The number of a union field is that of its member byte; the table follows.
    """

    name: str
    type: str
    number: int
    vector: bool = False
    align: int = 0


@dataclass(frozen=True)
class Schema:
    tables: Mapping[str, tuple[Field, ...]]
    unions: Mapping[str, tuple[str, ...]]  # members in order; their numbers start at 1


_FIELD = re.compile(r"(\w+)\s*:\s*(\[)?\s*(\w+)\s*\]?\s*(?:\(\s*force_align\s*:\s*(\d+)\s*\))?\s*;")


def parse_schema(text: str) -> Schema:
    """The tables and unions of a schema file."""
    text = re.sub(r"//[^\n]*", "", text)
    unions = {
        name: tuple(member.strip() for member in body.split(",") if member.strip())
        for name, body in re.findall(r"\bunion\s+(\w+)\s*\{([^}]*)\}", text)
    }
    tables = {
        name: tuple(_fields(body, unions))
        for name, body in re.findall(r"\btable\s+(\w+)\s*\{([^}]*)\}", text)
    }
    return Schema(tables, unions)


def _fields(body: str, unions: Mapping[str, tuple[str, ...]]) -> Iterator[Field]:
    number = 0
    for name, vector, type_name, align in _FIELD.findall(body):
        yield Field(name, type_name, number, bool(vector), int(align or 0))
        number += 2 if type_name in unions else 1


def schema_path() -> Path:
    """schema/program.fbs: in the installed package, else in the source tree."""
    packaged = Path(__file__).parents[1] / "share" / "schema" / "program.fbs"
    return packaged if packaged.exists() else Path(__file__).parents[3] / "schema" / "program.fbs"


@lru_cache(maxsize=1)
def program_schema() -> Schema:
    return parse_schema(schema_path().read_text(encoding="utf-8"))
