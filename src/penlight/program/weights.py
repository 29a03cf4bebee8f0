"""Weights beside a program: .ptd files.

A program whose tensors are external names them; the bytes come from a .ptd file
(or any other map from names to bytes) when the method is loaded, so that several
programs can share them. The file is a FlatBuffer behind a header, then segments.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Collection, Mapping
from dataclasses import replace
from math import prod
from pathlib import Path
from typing import Any

from penlight.errors import InvalidProgram
from penlight.ir.dtypes import DType
from penlight.program.flatbuffer import decode, encode
from penlight.program.reader import map_file
from penlight.program.schema import program_schema
from penlight.program.structs import Blob, StoredTensor, align_up
from penlight.program.writer import SEGMENT_ALIGNMENT, Layout, Segments, chunks, write_files

IDENTIFIER = b"FT01"
HEADER_MAGIC = b"FH01"
HEADER_LENGTH = 40
HEADER_SIZE = 48  # padded, so that what follows keeps its alignment


def plan_weights(tensors: Mapping[str, StoredTensor], read_whole: Collection[int | str] = ()) -> Layout:
    """The file's bytes; `read_whole` has the names of tensors that each run reads from end to end."""
    segments = Segments()
    stored: dict[bytes, int] = {}
    entries = []
    for name, tensor in tensors.items():
        content = tensor.data.digest()
        if content not in stored:
            blob = replace(tensor.data, read_whole=name in read_whole)
            stored[content] = segments.add([(0, blob)], blob.alignment)
        layout = {"scalar_type": int(tensor.dtype), "sizes": tensor.sizes, "dim_order": tensor.dim_order}
        entries.append({"key": name, "segment_index": stored[content], "tensor_layout": layout})
    root = {"version": 0, "segments": segments.tables, "named_data": entries}
    buffer = encode(program_schema(), "FlatTensor", root, IDENTIFIER)
    base = align_up(HEADER_SIZE + len(buffer), SEGMENT_ALIGNMENT)
    header = HEADER_MAGIC + struct.pack("<IQQQQ", HEADER_LENGTH, HEADER_SIZE, len(buffer), base, segments.end)
    start = struct.pack("<I", struct.unpack_from("<I", buffer)[0] + HEADER_SIZE)
    program = start + buffer[4:8] + header.ljust(HEADER_SIZE, b"\0") + buffer[8:]
    return Layout(program, [(base + offset, blob) for offset, blob in segments.blobs], base + segments.end)


def weights_bytes(tensors: Mapping[str, StoredTensor]) -> bytes:
    return b"".join(chunks(plan_weights(tensors)))


def save_weights(tensors: Mapping[str, StoredTensor], path: str | os.PathLike[str]) -> None:
    """Write a .ptd file."""
    write_files({Path(path): plan_weights(tensors)})


def read_weights(path: str | os.PathLike[str]) -> dict[str, StoredTensor]:
    """The tensors of a .ptd file by name; their bytes are mapped, not loaded."""
    return weights_from_bytes(map_file(path))


def weights_from_bytes(data: bytes | memoryview) -> dict[str, StoredTensor]:
    view = memoryview(data).cast("B")
    if len(view) < 48 or bytes(view[4:8]) != IDENTIFIER or bytes(view[8:12]) != HEADER_MAGIC:
        raise InvalidProgram("not a file of weights: it does not begin with FT01 and FH01, or is truncated")
    _, offset, size, base, total = struct.unpack_from("<IQQQQ", view, 12)
    if offset + size > len(view) or base + total > len(view):
        raise InvalidProgram(
            f"weights end at byte {max(offset + size, base + total)}, the file has {len(view)}; truncated"
        )
    root = decode(program_schema(), "FlatTensor", view[: offset + size])
    segments = root["segments"] or []
    for index, segment in enumerate(segments):
        if segment["offset"] + segment["size"] > total:
            raise InvalidProgram(f"segment {index} ends outside the file; truncated or damaged")
    return dict(_tensor(entry, segments, view, base) for entry in root["named_data"] or [])


def _tensor(
    entry: dict[str, Any], segments: list[Any], view: memoryview, base: int
) -> tuple[str, StoredTensor]:
    name, index = entry["key"], entry["segment_index"]
    if name is None or index >= len(segments):
        raise InvalidProgram(
            f"tensor '{name}' is in segment {index}, there are {len(segments)}; file damaged"
        )
    start = base + segments[index]["offset"]
    data = view[start : start + segments[index]["size"]]
    layout = entry["tensor_layout"]
    if layout is None:  # bytes without a shape
        return name, StoredTensor(DType.uint8, (len(data),), (0,), Blob.of(data))
    sizes, order = tuple(layout["sizes"] or ()), tuple(layout["dim_order"] or ())
    known = layout["scalar_type"] in DType.__members__.values()
    if not known or sorted(order) != list(range(len(sizes))) or min(sizes, default=0) < 0:
        raise InvalidProgram(f"tensor '{name}' has an impossible shape or dtype; file damaged")
    dtype = DType(layout["scalar_type"])
    if prod(sizes) * dtype.itemsize > len(data):
        raise InvalidProgram(f"tensor '{name}' of {list(sizes)} has {len(data)} bytes; file damaged")
    return name, StoredTensor(dtype, sizes, order, Blob.of(data))
