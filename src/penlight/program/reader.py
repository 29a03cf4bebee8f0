""".pte file -> Contents; checks everything that it passes on.

Reads what ExecuTorch 1.5 and Penlight write, also without header (no segments)
and with constants inside the FlatBuffer, as old files have them. Stored bytes
stay where they are: they are views of the file.
"""

from __future__ import annotations

import mmap
import os
import stat
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any

from penlight.errors import FileMissing, InvalidProgram, PenlightError
from penlight.ir.dtypes import DType
from penlight.program import structs
from penlight.program.flatbuffer import decode
from penlight.program.schema import program_schema
from penlight.program.structs import Allocation, Blob, Contents, Tensor
from penlight.program.writer import HEADER_MAGIC, IDENTIFIER

MAX_RANK = 16
_NO_WAIT = getattr(os, "O_NONBLOCK", 0)


@dataclass(frozen=True)
class FileParts:
    """Where the parts of a .pte file are, in bytes."""

    program_size: int
    segment_base: int  # 0: there are no segments
    segment_size: int
    file_size: int


def read(path: str | os.PathLike[str]) -> Contents:
    """Read and check a file; its stored bytes are mapped, not loaded."""
    content = map_file(path)
    try:
        return from_bytes(content)
    except PenlightError as error:
        raise type(error)(error.what, where=error.where or str(path), got=error.got, do=error.do) from error


def map_file(path: str | os.PathLike[str]) -> memoryview:
    """The bytes of a file, fetched as they are looked at."""
    path = Path(path)
    try:
        # Without waiting: a pipe would block until somebody writes to it.
        file = os.open(path, os.O_RDONLY | _NO_WAIT)
        try:
            about = os.fstat(file)
            if not stat.S_ISREG(about.st_mode):
                raise InvalidProgram(f"not a regular file: {path}")
            if about.st_size == 0:
                raise InvalidProgram(f"{path} is empty")
            return memoryview(mmap.mmap(file, 0, access=mmap.ACCESS_READ))
        finally:
            os.close(file)
    except FileNotFoundError as error:
        raise FileMissing(f"no such file: {path}", do="check the path") from error
    except OSError as error:
        raise InvalidProgram(f"cannot read {path}", got=error.strerror or str(error)) from error


def from_bytes(data: bytes | bytearray | memoryview) -> Contents:
    """Read and check the bytes of a file."""
    view = memoryview(data).cast("B")
    parts = file_parts(view)
    root = decode(program_schema(), "Program", view[: parts.program_size])
    return _Reader(view, parts, root).contents()


def file_parts(data: memoryview) -> FileParts:
    """Identifier and header of a file."""
    if len(data) < 8:
        raise InvalidProgram(
            f"the file has {len(data)} bytes, a program has at least 8; not a program, or truncated"
        )
    identifier = bytes(data[4:8])
    if identifier != IDENTIFIER:
        if identifier[:2] == b"ET":
            raise InvalidProgram(f"format {identifier.decode('latin1')} is not supported, only ET12")
        raise InvalidProgram(f"not a program file: bytes 4 to 8 are {identifier!r}, expected {IDENTIFIER!r}")
    if bytes(data[8:12]) != HEADER_MAGIC:
        return FileParts(len(data), 0, 0, len(data))
    if len(data) < 32:
        raise InvalidProgram(f"the file ends at byte {len(data)}, inside its header; truncated")
    length, program_size, base = struct.unpack_from("<IQQ", data, 12)
    if length < 24:
        raise InvalidProgram(f"the header has {length} bytes, expected at least 24; file damaged")
    size = 0
    if length >= 32:
        if len(data) < 40:
            raise InvalidProgram(f"the file ends at byte {len(data)}, inside its header; truncated")
        size = struct.unpack_from("<Q", data, 32)[0]
    if program_size > len(data) or (base and base < program_size):
        raise InvalidProgram(
            f"the program part has {program_size} bytes and segments begin at {base}, "
            f"the file has {len(data)}; truncated or damaged"
        )
    if base + size > len(data):
        raise InvalidProgram(f"segments end at byte {base + size}, the file has {len(data)}; truncated")
    return FileParts(program_size, base, size or (len(data) - base if base else 0), len(data))


class _Reader:
    def __init__(self, data: memoryview, parts: FileParts, root: dict[str, Any]) -> None:
        self.data = data
        self.parts = parts
        self.root = root
        self.segments = [self._segment(i, table) for i, table in enumerate(root["segments"] or [])]
        self.constant_sizes: dict[int, int] = {}
        self.initial_sizes: dict[int, int] = {}

    def _segment(self, index: int, table: dict[str, Any]) -> memoryview:
        offset, size = table["offset"], table["size"]
        if offset + size > self.parts.segment_size:
            raise InvalidProgram(
                f"segment {index} ends at byte {offset + size}, all segments have {self.parts.segment_size}; "
                "truncated or damaged"
            )
        start = self.parts.segment_base + offset
        return self.data[start : start + size]

    def segment(self, index: int, what: str) -> memoryview:
        if index >= len(self.segments):
            raise InvalidProgram(
                f"{what} is in segment {index}, the program has {len(self.segments)}; file damaged"
            )
        return self.segments[index]

    def contents(self) -> Contents:
        plans = self.root["execution_plan"]
        if plans is None:
            raise InvalidProgram("the program has no list of methods; file damaged")
        methods = [_method(self, table) for table in plans]
        names = [method.name for method in methods]
        if len(set(names)) < len(names):
            raise InvalidProgram(f"methods have the same name: {', '.join(sorted(names))}; file damaged")
        mutable = self.root["mutable_data_segments"] or []
        named = {
            table["key"]: Blob.of(self.segment(table["segment_index"], f"named data '{table['key']}'"))
            for table in self.root["named_data"] or []
            if table["key"] is not None
        }
        return Contents(
            methods,
            self._constants(),
            self._packed(mutable[0] if mutable else None, self.initial_sizes, "initial value"),
            named,
            self.root["version"],
        )

    def _constants(self) -> list[Blob]:
        table = self.root["constant_segment"]
        inline = self.root["constant_buffer"] or []
        if inline and not (table and table["offsets"]):
            blobs = [
                Blob.of(buffer["storage"] if buffer["storage"] is not None else b"") for buffer in inline
            ]
            for index, size in self.constant_sizes.items():
                if index >= len(blobs) or size > blobs[index].nbytes:
                    raise InvalidProgram(
                        f"constant {index} is missing or shorter than {size} bytes; file damaged"
                    )
            return blobs
        return self._packed(table, self.constant_sizes, "constant")

    def _packed(self, table: dict[str, Any] | None, sizes: dict[int, int], what: str) -> list[Blob]:
        """Blobs of a segment whose offsets are stored and whose sizes the tensors tell."""
        offsets = (table["offsets"] or []) if table else []
        for index in sizes:
            if index >= len(offsets):
                raise InvalidProgram(
                    f"{what} {index} is missing, the program stores {len(offsets)}; file damaged"
                )
        if not table or len(offsets) < 2:
            return [structs.EMPTY]
        data = self.segment(table["segment_index"], what + "s")
        blobs = [structs.EMPTY]
        for index, offset in enumerate(offsets[1:], start=1):
            size = sizes.get(index, 0)
            if offset + size > len(data):
                raise InvalidProgram(
                    f"{what} {index} ends at byte {offset + size}, its segment has {len(data)}; "
                    "truncated or damaged"
                )
            blobs.append(Blob.of(data[offset : offset + size]))
        return blobs

    def delegate_data(self, table: dict[str, Any] | None, what: str) -> Blob:
        if table is None:
            raise InvalidProgram(f"{what} has no data; file damaged")
        if table["location"] == 1:
            return Blob.of(self.segment(table["index"], what))
        inline = self.root["backend_delegate_data"] or []
        if table["location"] != 0 or table["index"] >= max(len(inline), 1):
            raise InvalidProgram(
                f"{what} has its data at {table['index']}, there are {len(inline)}; file damaged"
            )
        data = inline[table["index"]]["data"] if inline else None
        return Blob.of(data if data is not None else b"")


# --- tables -> structs, with every index checked -------------------------------------------------


def _require(table: dict[str, Any], key: str, what: str) -> Any:
    if table[key] is None:
        raise InvalidProgram(f"{what} has no {key}; file damaged")
    return table[key]


def _check(indices: Sequence[int], count: int, what: str, *, none: bool = False) -> tuple[int, ...]:
    for index in indices:
        if not (0 <= index < count or (none and index == -1)):
            raise InvalidProgram(f"{what} refers to {index}, there are {count}; file damaged")
    return tuple(indices)


def _method(reader: _Reader, table: dict[str, Any]) -> structs.Method:
    name = _require(table, "name", "a method")
    where = f"method '{name}'"
    tables = _require(table, "values", where)
    count = len(tables)
    sizes = _require(table, "non_const_buffer_sizes", where)
    if any(size < 0 for size in sizes):
        raise InvalidProgram(f"{where} has an arena of {min(sizes)} bytes; file damaged")
    values = [
        _value(reader, entry["val"], count, sizes, f"value {i} of {where}") for i, entry in enumerate(tables)
    ]
    for i, value in enumerate(values):
        _check_items(value, values, f"value {i} of {where}")
    operators = [
        structs.Operator(_require(op, "name", f"an operator of {where}"), op["overload"] or "")
        for op in table["operators"] or []
    ]
    delegates = [
        _delegate(reader, entry, f"delegate {i} of {where}")
        for i, entry in enumerate(_require(table, "delegates", where))
    ]
    chains = _require(table, "chains", where)
    if not chains:
        raise InvalidProgram(f"{where} has no chain of instructions; file damaged")
    if len(chains) > 1:
        raise InvalidProgram(f"{where} has {len(chains)} chains of instructions, supported is one")
    entries = _require(chains[0], "instructions", where)
    limits = (len(operators), len(delegates), count, len(entries))
    structure = table["container_meta_type"] or {}
    return structs.Method(
        name=name,
        values=values,
        inputs=list(_check(_require(table, "inputs", where), count, f"an input of {where}")),
        outputs=list(_check(_require(table, "outputs", where), count, f"an output of {where}")),
        instructions=[
            _instruction(entry["instr_args"], limits, f"instruction {i} of {where}")
            for i, entry in enumerate(entries)
        ],
        operators=operators,
        delegates=delegates,
        arenas=sizes[1:],
        in_structure=structure.get("encoded_inp_str"),
        out_structure=structure.get("encoded_out_str"),
    )


def _value(
    reader: _Reader, union: tuple[str, dict[str, Any]] | None, count: int, arenas: list[int], what: str
) -> structs.Value:
    if union is None:
        return structs.Null()
    kind, table = union
    match kind:
        case "Null":
            return structs.Null()
        case "Int":
            return structs.Int(table["int_val"])
        case "Bool":
            return structs.Bool(table["bool_val"])
        case "Double":
            return structs.Double(table["double_val"])
        case "String":
            return structs.String(_require(table, "string_val", what))
        case "Tensor":
            return _tensor(reader, table, arenas, what)
    items = _require(table, "items", what)
    if kind == "IntList":
        return structs.IntList(_check(items, count, what))
    if kind == "TensorList":
        return structs.TensorList(_check(items, count, what))
    if kind == "OptionalTensorList":
        return structs.OptionalTensorList(_check(items, count, what, none=True))
    return structs.DoubleList(tuple(items)) if kind == "DoubleList" else structs.BoolList(tuple(items))


def _check_items(value: structs.Value, values: list[structs.Value], what: str) -> None:
    kind: type[structs.Value]
    if isinstance(value, structs.IntList):
        kind = structs.Int
    elif isinstance(value, structs.TensorList | structs.OptionalTensorList):
        kind = structs.Tensor
    else:
        return
    for index in value.items:
        optional = isinstance(value, structs.OptionalTensorList) and index == -1
        if not optional and not isinstance(values[index], kind | structs.Null if optional else kind):
            raise InvalidProgram(
                f"{what} lists value {index}, a {type(values[index]).__name__}, as a {kind.__name__}; "
                "file damaged"
            )


def _tensor(reader: _Reader, table: dict[str, Any], arenas: list[int], what: str) -> Tensor:
    try:
        dtype = DType(table["scalar_type"])
    except ValueError:
        raise InvalidProgram(
            f"{what} has scalar type {table['scalar_type']}, unknown; file damaged"
        ) from None
    sizes = tuple(_require(table, "sizes", what))
    dim_order = tuple(_require(table, "dim_order", what))
    if len(sizes) > MAX_RANK or min(sizes, default=0) < 0 or prod(sizes) > 1 << 48:
        raise InvalidProgram(f"{what} has sizes {list(sizes)}; file damaged")
    if sorted(dim_order) != list(range(len(sizes))):
        raise InvalidProgram(f"{what} has rank {len(sizes)} and dim order {list(dim_order)}; file damaged")
    if table["storage_offset"] != 0:
        raise InvalidProgram(f"{what} has storage offset {table['storage_offset']}, only 0 is possible")
    if table["layout"] != 0 or not 0 <= table["shape_dynamism"] <= 2:
        raise InvalidProgram(
            f"{what} has layout {table['layout']}, dynamism {table['shape_dynamism']}; file damaged"
        )
    marked = table["extra_tensor_info"] is not None
    extra = table["extra_tensor_info"] or {"location": 0, "fully_qualified_name": None}
    tensor = Tensor(
        dtype=dtype,
        sizes=sizes,
        dim_order=dim_order,
        dynamism=table["shape_dynamism"],
        data=table["data_buffer_idx"],
        allocation=_allocation(table["allocation_info"]),
        name=extra["fully_qualified_name"],
        in_state=marked and extra["location"] == 0 and extra["fully_qualified_name"] is None,
        external=extra["location"] == 1,
        requires_grad=table["requires_grad"],
    )
    _check_place(reader, tensor, arenas, what)
    return tensor


def _allocation(table: dict[str, Any] | None) -> Allocation | None:
    if table is None:
        return None
    return Allocation(table["memory_id"], table["memory_offset_low"] | table["memory_offset_high"] << 32)


def _check_place(reader: _Reader, tensor: Tensor, arenas: list[int], what: str) -> None:
    """The tensor lies inside its arena; remember how many stored bytes it needs."""
    if place := tensor.allocation:
        if not 0 < place.memory_id < len(arenas):
            raise InvalidProgram(
                f"{what} is in memory {place.memory_id}, there are {len(arenas) - 1}; file damaged"
            )
        if place.offset + tensor.nbytes > arenas[place.memory_id]:
            raise InvalidProgram(
                f"{what} ends at byte {place.offset + tensor.nbytes}, "
                f"arena {place.memory_id} has {arenas[place.memory_id]}; file damaged"
            )
    if tensor.data and not tensor.external:
        sizes = reader.initial_sizes if tensor.allocation else reader.constant_sizes
        sizes[tensor.data] = max(sizes.get(tensor.data, 0), tensor.nbytes)


def _delegate(reader: _Reader, table: dict[str, Any], what: str) -> structs.Delegate:
    return structs.Delegate(
        backend=_require(table, "id", what),
        data=reader.delegate_data(table["processed"], what),
        compile_specs=tuple(
            (_require(spec, "key", what), bytes(spec["value"] if spec["value"] is not None else b""))
            for spec in table["compile_specs"] or []
        ),
    )


def _instruction(
    union: tuple[str, dict[str, Any]] | None, limits: tuple[int, int, int, int], what: str
) -> structs.Instruction:
    if union is None:
        raise InvalidProgram(f"{what} is empty; file damaged")
    kind, table = union
    operators, delegates, values, instructions = limits

    def index(key: str, count: int) -> int:
        return _check([table[key]], count, what)[0]

    make: dict[str, Callable[[], structs.Instruction]] = {
        "KernelCall": lambda: structs.KernelCall(
            index("op_index", operators), _check(_require(table, "args", what), values, what)
        ),
        "DelegateCall": lambda: structs.DelegateCall(
            index("delegate_index", delegates), _check(_require(table, "args", what), values, what)
        ),
        "MoveCall": lambda: structs.Move(index("move_from", values), index("move_to", values)),
        "JumpFalseCall": lambda: structs.JumpFalse(
            index("cond_value_index", values), index("destination_instruction", instructions + 1)
        ),
        "FreeCall": lambda: structs.Free(index("value_index", values)),
    }
    return make[kind]()
