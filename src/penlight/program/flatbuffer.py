"""Encode and decode FlatBuffers by a schema: tables as dicts, unions as (member, dict).

The encoder writes equal strings, vectors and tables once and leaves out fields
that hold their default; that halves a program. The decoder trusts nothing: every
offset, count and string is checked against the buffer before it is used, and
each place is decoded once, however often it is referred to.
"""

from __future__ import annotations

import struct
from collections.abc import Hashable, Mapping
from typing import Any

import flatbuffers
import numpy as np

from penlight.errors import InvalidProgram
from penlight.program.schema import SCALARS, Field, Schema

Table = Mapping[str, Any]
_DTYPES = {"bool": np.bool_, "byte": np.int8, "ubyte": np.uint8, "short": np.int16, "ushort": np.uint16}
_DTYPES |= {"int": np.int32, "uint": np.uint32, "long": np.int64, "ulong": np.uint64}
_DTYPES |= {"float": np.float32, "double": np.float64}


# --- encode --------------------------------------------------------------------------------------


def encode(schema: Schema, root: str, table: Table, identifier: bytes) -> bytes:
    """The bytes of a FlatBuffer whose root is `table`."""
    encoder = _Encoder(schema)
    encoder.builder.Finish(encoder.table(root, table), file_identifier=identifier)
    return bytes(encoder.builder.Output())


class _Encoder:
    def __init__(self, schema: Schema) -> None:
        self.schema = schema
        self.builder = flatbuffers.Builder(4096)
        self.written: dict[Hashable, int] = {}  # content -> offset

    def table(self, name: str, table: Table) -> int:
        parts: list[tuple[int, int, str, Any]] = []  # size, number, kind, value
        for field in self.schema.tables[name]:
            value = table.get(field.name)
            if value is not None:
                self._field(field, value, parts)
        unknown = table.keys() - {field.name for field in self.schema.tables[name]}
        assert not unknown, f"{name} has no field {unknown}"
        key = (name, tuple(parts))
        if (offset := self.written.get(key)) is not None:
            return offset
        builder = self.builder
        builder.StartObject(max((number for _, number, _, _ in parts), default=-1) + 1)
        # Large fields first: the buffer grows downwards, so nothing needs padding between them.
        for _, number, kind, value in sorted(parts, key=lambda part: (-part[0], part[1])):
            if kind == "offset":
                builder.PrependUOffsetTRelativeSlot(number, value, 0)
            else:
                _PREPEND[kind](builder, number, value, 0)
        offset = self.written[key] = int(builder.EndObject())
        return offset

    def _field(self, field: Field, value: Any, parts: list[tuple[int, int, str, Any]]) -> None:
        if field.vector:
            parts.append((4, field.number, "offset", self._vector(field, value)))
        elif field.type == "string":
            parts.append((4, field.number, "offset", self._string(value)))
        elif field.type in self.schema.unions:
            member, content = value
            parts.append((1, field.number, "ubyte", self.schema.unions[field.type].index(member) + 1))
            parts.append((4, field.number + 1, "offset", self.table(member, content)))
        elif field.type in self.schema.tables:
            parts.append((4, field.number, "offset", self.table(field.type, value)))
        # A double of -0.0 equals the default 0.0 but is another value.
        elif value or (field.type == "double" and struct.pack("<d", value) != bytes(8)):
            parts.append((SCALARS[field.type][1], field.number, field.type, _exact(field.type, value)))

    def _vector(self, field: Field, items: Any) -> int:
        builder = self.builder
        if field.type in SCALARS:
            assert not field.align, "stored bytes go to segments"
            array: np.ndarray[Any, Any] = np.asarray(items, dtype=_DTYPES[field.type])
            key: Hashable = ("vector", field.type, array.tobytes())
            if key not in self.written:
                self.written[key] = int(builder.CreateNumpyVector(array))
            return self.written[key]
        write = self._string if field.type == "string" else lambda item: self.table(field.type, item)
        offsets = tuple(write(item) for item in items)
        key = ("vector", field.type, offsets)
        if key not in self.written:
            builder.StartVector(4, len(offsets), 4)
            for offset in reversed(offsets):
                builder.PrependUOffsetTRelative(offset)
            self.written[key] = int(builder.EndVector())
        return self.written[key]

    def _string(self, text: str) -> int:
        key = ("string", text)
        if key not in self.written:
            self.written[key] = int(self.builder.CreateString(text))
        return self.written[key]


class _Double(float):
    """Compares by bits, so that -0.0 and 0.0 (and NaNs) are told apart when content is compared."""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, float) and struct.pack("<d", self) == struct.pack("<d", other)

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __hash__(self) -> int:
        return hash(struct.pack("<d", self))


def _exact(kind: str, value: Any) -> Any:
    return _Double(value) if kind == "double" else value


def _prepend_double(builder: flatbuffers.Builder, number: int, value: float, default: float) -> None:
    builder.PrependFloat64(value)
    builder.Slot(number)


_PREPEND = {
    "bool": flatbuffers.Builder.PrependBoolSlot,
    "byte": flatbuffers.Builder.PrependInt8Slot,
    "ubyte": flatbuffers.Builder.PrependUint8Slot,
    "int": flatbuffers.Builder.PrependInt32Slot,
    "uint": flatbuffers.Builder.PrependUint32Slot,
    "long": flatbuffers.Builder.PrependInt64Slot,
    "ulong": flatbuffers.Builder.PrependUint64Slot,
    "double": _prepend_double,
}


# --- decode --------------------------------------------------------------------------------------


def decode(schema: Schema, root: str, buffer: memoryview) -> dict[str, Any]:
    """The root table of the FlatBuffer that begins at byte 0 of `buffer`.

    Missing scalars are given as 0, missing strings, vectors and tables as None.
    Vectors of numbers are lists, of bytes memoryviews.
    """
    decoder = _Decoder(schema, buffer)
    return decoder.table(root, decoder.number("I", 0, "root offset"))


class _Decoder:
    def __init__(self, schema: Schema, buffer: memoryview) -> None:
        self.schema = schema
        self.buffer = buffer
        self.size = len(buffer)
        self.seen: dict[Hashable, Any] = {}

    def number(self, code: str, at: int, what: str) -> Any:
        size = struct.calcsize("<" + code)
        if at < 0 or at + size > self.size:
            raise InvalidProgram(f"{what} is at byte {at}, the program part has {self.size}; file damaged")
        return struct.unpack_from("<" + code, self.buffer, at)[0]

    def follow(self, at: int, what: str) -> int:
        """The target of the offset at `at`."""
        return at + int(self.number("I", at, what))

    def table(self, name: str, at: int) -> dict[str, Any]:
        key = (name, at)
        if key not in self.seen:
            self.seen[key] = self._table(name, at)
        found: dict[str, Any] = self.seen[key]
        return found

    def _table(self, name: str, at: int) -> dict[str, Any]:
        vtable = at - int(self.number("i", at, f"table {name}"))
        vtable_size = int(self.number("H", vtable, f"vtable of {name}"))
        table_size = int(self.number("H", vtable + 2, f"vtable of {name}"))
        if vtable_size < 4 or vtable_size % 2 or vtable + vtable_size > self.size:
            raise InvalidProgram(f"vtable of {name} at byte {vtable} has {vtable_size} bytes; file damaged")
        if table_size < 4 or at + table_size > self.size:
            raise InvalidProgram(f"table {name} at byte {at} has {table_size} bytes; file damaged")

        def place(number: int, size: int) -> int:
            slot = 4 + 2 * number
            offset = int(self.number("H", vtable + slot, name)) if slot + 2 <= vtable_size else 0
            if offset and (offset < 4 or offset + size > table_size):
                raise InvalidProgram(
                    f"field {number} of {name} at byte {at} is outside its table; file damaged"
                )
            return at + offset if offset else 0

        return {field.name: self._field(name, field, place) for field in self.schema.tables[name]}

    def _field(self, name: str, field: Field, place: Any) -> Any:
        what = f"{name}.{field.name}"
        if field.type in self.schema.unions and not field.vector:
            return self._union(field, place, what)
        if not field.vector and field.type in SCALARS:
            code, size = SCALARS[field.type]
            at = place(field.number, size)
            return self.number(code, at, what) if at else struct.unpack("<" + code, bytes(size))[0]
        at = place(field.number, 4)
        if not at:
            return None
        target = self.follow(at, what)
        if field.vector:
            return self._vector(field, target, what)
        return self._string(target, what) if field.type == "string" else self.table(field.type, target)

    def _union(self, field: Field, place: Any, what: str) -> tuple[str, dict[str, Any]] | None:
        type_at, at = place(field.number, 1), place(field.number + 1, 4)
        member = self.number("B", type_at, what) if type_at else 0
        if not member:
            return None
        members = self.schema.unions[field.type]
        if member > len(members) or not at:
            raise InvalidProgram(
                f"{what} has type {member}, known are 1 to {len(members)}; file damaged or too new"
            )
        return members[member - 1], self.table(members[member - 1], self.follow(at, what))

    def _vector(self, field: Field, at: int, what: str) -> Any:
        key = (field.type, "vector", at)
        if key in self.seen:
            return self.seen[key]
        count = int(self.number("I", at, what))
        code, size = SCALARS.get(field.type, ("I", 4))
        if at + 4 + count * size > self.size:
            raise InvalidProgram(f"{what} has {count} items, past the end of the program part; file damaged")
        data = self.buffer[at + 4 : at + 4 + count * size]
        items: Any
        if field.type == "ubyte":
            items = data
        elif field.type in SCALARS:
            items = list(struct.unpack(f"<{count}{code}", data))
        elif field.type == "string":
            items = [self._string(self.follow(at + 4 + 4 * i, what), what) for i in range(count)]
        else:
            items = [self.table(field.type, self.follow(at + 4 + 4 * i, what)) for i in range(count)]
        self.seen[key] = items
        return items

    def _string(self, at: int, what: str) -> str:
        length = int(self.number("I", at, what))
        if at + 4 + length + 1 > self.size:
            raise InvalidProgram(
                f"string {what} has {length} bytes, past the end of the program part; file damaged"
            )
        try:
            return str(self.buffer[at + 4 : at + 4 + length], "utf-8")
        except UnicodeDecodeError:
            raise InvalidProgram(f"string {what} at byte {at} is not UTF-8; file damaged") from None
