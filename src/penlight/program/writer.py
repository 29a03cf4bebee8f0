"""Contents -> .pte file.

The program part is a FlatBuffer (schema/program.fbs). Stored bytes follow it in
segments: constants, initial values of state, delegates, named data. They are
copied straight from where they are to the file, so that writing a model needs
little more memory than the model. A file is written under another name in the
same folder and renamed when it is complete.
"""

from __future__ import annotations

import errno
import os
import struct
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, BinaryIO

from penlight.errors import WriteFailed
from penlight.program import structs
from penlight.program.flatbuffer import encode
from penlight.program.schema import program_schema
from penlight.program.structs import CACHE_LINE, EMPTY, Blob, Contents, align_up

IDENTIFIER = b"ET12"
HEADER_MAGIC = b"eh00"
HEADER_LENGTH = 32
SEGMENT_ALIGNMENT = 128
_LARGE = 1024  # constants of so many bytes are worth the gap before a line of the cache
_LARGE_PAGE = 2 << 20
_SMALL_PART = 64 << 10


@dataclass(frozen=True)
class Layout:
    """The program part, and each blob with its offset in the file."""

    program: bytes
    blobs: list[tuple[int, Blob]]
    size: int


class Segments:
    """Segments in file order; a segment is a list of blobs with offsets from its start."""

    def __init__(self) -> None:
        self.tables: list[dict[str, int]] = []
        self.blobs: list[tuple[int, Blob]] = []  # offsets from the first segment
        self.end = 0

    def add(self, parts: Iterable[tuple[int, Blob]], alignment: int) -> int:
        """Append a segment; return its index."""
        start = align_up(self.end, max(SEGMENT_ALIGNMENT, alignment))
        size = 0
        for offset, blob in parts:
            self.blobs.append((start + offset, blob))
            size = max(size, offset + blob.nbytes)
        self.tables.append({"offset": start, "size": size})
        self.end = start + size
        return len(self.tables) - 1

    def add_packed(self, blobs: list[Blob], aligned: bool) -> dict[str, Any] | None:
        """A segment of many blobs; None when none has bytes to store (index 0 is a placeholder)."""
        if len(blobs) < 2:
            return None
        offsets, end = [], 0
        for blob in blobs:
            offsets.append(align_up(end, _alignment(blob)) if aligned and blob.nbytes else end)
            end = offsets[-1] + blob.nbytes
        alignment = max(map(_alignment, blobs))
        return {"segment_index": self.add(zip(offsets, blobs, strict=True), alignment), "offsets": offsets}


def _alignment(blob: Blob) -> int:
    return max(blob.alignment, CACHE_LINE if blob.nbytes >= _LARGE else 1)


def plan_layout(contents: Contents) -> Layout:
    """The program part and where every blob goes."""
    segments = Segments()
    whole = contents.read_whole()
    constants = [replace(blob, read_whole=at in whole) for at, blob in enumerate(contents.constants)]
    constant_segment = segments.add_packed(constants, aligned=True)
    mutable_segment = segments.add_packed(contents.initial, aligned=False)
    stored: dict[bytes, int] = {}

    def segment_of(blob: Blob) -> int:
        content = blob.digest()
        if content not in stored:
            stored[content] = segments.add([(0, blob)], blob.alignment)
        return stored[content]

    plans = [
        _method_table(method, [segment_of(delegate.data) for delegate in method.delegates])
        for method in sorted(contents.methods, key=lambda method: method.name)
    ]
    named = [
        {"key": key, "segment_index": segment_of(blob)}
        for key, blob in contents.named_data.items()
        if blob.nbytes
    ]
    root = {
        "version": contents.version,
        "execution_plan": plans,
        "constant_buffer": [],
        "backend_delegate_data": [],
        "segments": segments.tables,
        "constant_segment": constant_segment or {"segment_index": 0, "offsets": [0]},
        "mutable_data_segments": [mutable_segment] if mutable_segment else [],
        "named_data": named,
    }
    program = encode(program_schema(), "Program", root, IDENTIFIER)
    if not segments.end:
        return Layout(program, [], len(program))
    alignment = max([16, *(blob.alignment for _, blob in segments.blobs)])
    return _with_header(program, segments, min(alignment, 32))


def _with_header(program: bytes, segments: Segments, alignment: int) -> Layout:
    """Insert the extended header behind the file identifier."""
    header_size = align_up(HEADER_LENGTH, alignment)
    root = struct.unpack_from("<I", program)[0] + header_size
    program_size = len(program) + header_size
    base = align_up(program_size, SEGMENT_ALIGNMENT)
    header = HEADER_MAGIC + struct.pack("<IQQQ", HEADER_LENGTH, program_size, base, segments.end)
    program = struct.pack("<I", root) + program[4:8] + header.ljust(header_size, b"\0") + program[8:]
    return Layout(program, [(base + offset, blob) for offset, blob in segments.blobs], base + segments.end)


def chunks(layout: Layout) -> Iterator[memoryview]:
    """The bytes of the file in order."""
    for chunk, _ in _chunks(layout):
        yield chunk


def _chunks(layout: Layout) -> Iterator[tuple[memoryview, bool]]:
    """The same, each with whether runs read what it is of as a whole."""
    yield memoryview(layout.program), False
    position = len(layout.program)
    for offset, blob in layout.blobs:
        if offset > position:
            yield memoryview(bytes(offset - position)), blob.read_whole
        position = offset
        for chunk in blob.chunks():
            yield chunk, blob.read_whole
            position += chunk.nbytes
        assert position == offset + blob.nbytes, f"blob of {blob.nbytes} bytes has {position - offset}"


def to_bytes(contents: Contents) -> bytes:
    return b"".join(chunks(plan_layout(contents)))


def write_files(layouts: Mapping[Path, Layout]) -> None:
    """Write each file under a temporary name beside its own, then rename all: never half a file.

    Raises:
        WriteFailed: nothing was changed, unless the very last step failed for a later file: what
            can be known before it (a folder of that name, no right to write) is looked at first.
    """
    temporary: dict[Path, str] = {}
    target = Path()
    try:
        for target, layout in layouts.items():
            place = Path(os.path.realpath(target))  # what a link points to is replaced, not the link
            if place.exists() and not place.is_file() and not place.is_dir():
                with place.open("wb") as file:  # a device or a pipe: nothing to put in its place
                    _write(file, layout)
                continue
            handle, temporary[place] = tempfile.mkstemp(
                dir=place.parent, prefix=f".{place.name}.", suffix=".part"
            )
            with os.fdopen(handle, "wb") as file:
                _write(file, layout)
            os.chmod(temporary[place], 0o666 & ~_umask())
        for target in temporary:
            if target.is_dir():
                raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
        for target in temporary:
            os.replace(temporary[target], target)
    except (OSError, ValueError) as error:  # ValueError: a path that no file can have
        raise WriteFailed(
            f"cannot write {target}".replace("\0", "\\0"),
            got=getattr(error, "strerror", None) or str(error),
            do="check that the folder exists and may be written to, and that "
            f"{sum(layout.size for layout in layouts.values()) / 1e6:.1f} MB are free there",
        ) from error
    finally:
        for name in temporary.values():
            if os.path.exists(name):
                os.unlink(name)


def _write(file: BinaryIO, layout: Layout) -> None:
    """Write what runs read whole in large pages, all else in small parts.

    Linux keeps in one piece what is written at once, and maps a piece as one, in a large page
    where it can: a product then reads its weights faster, but of an embedding, some rows of which
    are read, all would become resident.
    """
    position, pending = 0, bytearray()
    for chunk, read_whole in _chunks(layout):
        part = _LARGE_PAGE if read_whole else _SMALL_PART
        while chunk.nbytes:
            room = part - position % part
            taken, chunk = chunk[:room], chunk[room:]
            position += taken.nbytes
            pending += taken
            if position % part == 0 or not read_whole:
                file.write(pending)
                file.flush()
                pending = bytearray()
    file.write(pending)
    file.flush()


def _umask() -> int:
    """The process's mask; mkstemp makes files that only their owner can read."""
    mask = os.umask(0)
    os.umask(mask)
    return mask


# --- structs -> tables ---------------------------------------------------------------------------


def _method_table(method: structs.Method, delegate_segments: list[int]) -> dict[str, Any]:
    chain = {
        "inputs": [],
        "outputs": [],
        "instructions": [{"instr_args": _instruction(instruction)} for instruction in method.instructions],
    }
    delegates = [
        {
            "id": delegate.backend,
            "processed": {"location": 1, "index": segment}
            if delegate.data.nbytes
            else {"location": 0, "index": 0},
            "compile_specs": [{"key": key, "value": list(value)} for key, value in delegate.compile_specs],
        }
        for delegate, segment in zip(method.delegates, delegate_segments, strict=True)
    ]
    structure = {"encoded_inp_str": method.in_structure, "encoded_out_str": method.out_structure}
    return {
        "name": method.name,
        "container_meta_type": {key: text for key, text in structure.items() if text is not None},
        "values": [{"val": _value(value)} for value in method.values],
        "inputs": method.inputs,
        "outputs": method.outputs,
        "chains": [chain],
        "operators": [{"name": op.name, "overload": op.overload} for op in method.operators],
        "delegates": delegates,
        "non_const_buffer_sizes": [0, *method.arenas],
    }


def _value(value: structs.Value) -> tuple[str, dict[str, Any]]:
    match value:
        case structs.Null():
            return "Null", {}
        case structs.Int(number):
            return "Int", {"int_val": number}
        case structs.Bool(flag):
            return "Bool", {"bool_val": flag}
        case structs.Double(real):
            return "Double", {"double_val": real}
        case structs.String(text):
            return "String", {"string_val": text}
        case structs.Tensor():
            return "Tensor", _tensor(value)
    return type(value).__name__, {"items": value.items}


def _tensor(tensor: structs.Tensor) -> dict[str, Any]:
    table: dict[str, Any] = {
        "scalar_type": int(tensor.dtype),
        "sizes": tensor.sizes,
        "dim_order": tensor.dim_order,
        "requires_grad": tensor.requires_grad,
        "data_buffer_idx": tensor.data,
        "shape_dynamism": tensor.dynamism,
    }
    if tensor.allocation:
        offset = tensor.allocation.offset
        table["allocation_info"] = {
            "memory_id": tensor.allocation.memory_id,
            "memory_offset_low": offset & 0xFFFFFFFF,
            "memory_offset_high": offset >> 32,
        }
    if tensor.name is not None or tensor.external or tensor.in_state:
        table["extra_tensor_info"] = {"fully_qualified_name": tensor.name, "location": int(tensor.external)}
    return table


def _instruction(instruction: structs.Instruction) -> tuple[str, dict[str, Any]]:
    match instruction:
        case structs.KernelCall(op, args):
            return "KernelCall", {"op_index": op, "args": args}
        case structs.DelegateCall(delegate, args):
            return "DelegateCall", {"delegate_index": delegate, "args": args}
        case structs.Move(source, target):
            return "MoveCall", {"move_from": source, "move_to": target}
        case structs.JumpFalse(condition, target):
            return "JumpFalseCall", {"cond_value_index": condition, "destination_instruction": target}
        case structs.Free(value):
            return "FreeCall", {"value_index": value}


__all__ = ["EMPTY", "Layout", "plan_layout", "to_bytes", "write_files"]
