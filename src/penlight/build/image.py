"""What lies in an object or program: sections and symbols of ELF, Mach-O, PE and WebAssembly files.

Enough to say where every byte went, without binutils of each target. Only files that
a toolchain of ours has just written are read.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from penlight.errors import NotSupported

Kind = Literal["text", "rodata", "data", "bss", "other"]


@dataclass(frozen=True)
class Section:
    name: str
    address: int
    size: int  # bytes
    kind: Kind


@dataclass(frozen=True)
class Symbol:
    name: str
    address: int
    size: int  # bytes
    section: str  # empty when undefined
    defined: bool


@dataclass(frozen=True)
class Sizes:
    """Bytes by what they are for. `data` is initialised, so it takes both flash and RAM."""

    text: int
    rodata: int
    data: int
    bss: int

    @property
    def total(self) -> int:
        """Bytes stored: in flash, or in the file without its headers."""
        return self.text + self.rodata + self.data

    @property
    def ram(self) -> int:
        return self.data + self.bss


def read_sizes(path: Path) -> Sizes:
    """Bytes of a file's sections, summed by kind."""
    sections = read_sections(path)
    text, rodata, data, bss = (sum(s.size for s in sections if s.kind == kind) for kind in _KINDS)
    return Sizes(text, rodata, data, bss)


_KINDS: tuple[Kind, ...] = ("text", "rodata", "data", "bss")


def read_sections(path: Path) -> list[Section]:
    """The sections of a file, in its order.

    Raises:
        NotSupported: it is in none of the four formats.
    """
    data = path.read_bytes()
    if data[:4] == b"\x7fELF":
        return [section for section, _ in _elf_sections(data)]
    if data[:4] == b"\0asm":
        return list(_wasm_sections(data))
    if data[:4] == b"\xcf\xfa\xed\xfe":
        return list(_macho_sections(data))
    if data[:2] == b"MZ":
        return list(_coff_sections(data, struct.unpack_from("<I", data, 0x3C)[0] + 4))
    if data[:2] in (b"\x64\x86", b"\x64\xaa"):
        return list(_coff_sections(data, 0))
    raise NotSupported(f"{path.name} is no object or program that can be read", got=data[:4].hex() or "empty")


def read_symbols(path: Path) -> list[Symbol]:
    """The symbols of an ELF file; none when it was stripped.

    Raises:
        NotSupported: it is not ELF.
    """
    data = path.read_bytes()
    if data[:4] != b"\x7fELF":
        raise NotSupported(f"{path.name} is not an ELF file", do="symbols are read from ELF files alone")
    sections = _elf_sections(data)
    wide = data[4] == 2
    found: list[Symbol] = []
    for _, (kind, offset, size, link, _) in sections:
        if kind != 2:  # SHT_SYMTAB
            continue
        strings = sections[link][1][1]
        step = 24 if wide else 16
        for at in range(offset + step, offset + size, step):
            if wide:
                name, _, _, index, address, bytes_ = struct.unpack_from("<IBBHQQ", data, at)
            else:
                name, address, bytes_, _, _, index = struct.unpack_from("<IIIBBH", data, at)
            text = _string(data, strings + name)
            if text:
                section = sections[index][0].name if 0 < index < len(sections) else ""
                found.append(Symbol(text, address, bytes_, section, index != 0))
    return found


def _string(data: bytes, at: int) -> str:
    return data[at : data.index(b"\0", at)].decode(errors="replace")


_Raw = tuple[int, int, int, int, int]  # type, offset, size, link, flags


def _elf_sections(data: bytes) -> list[tuple[Section, _Raw]]:
    wide = data[4] == 2
    table, step, count, names = (
        (*struct.unpack_from("<Q", data, 40), *struct.unpack_from("<HHH", data, 58))
        if wide
        else (*struct.unpack_from("<I", data, 32), *struct.unpack_from("<HHH", data, 46))
    )
    raw = []
    for i in range(count):
        layout = "<IIQQQQI" if wide else "<IIIIIII"
        name, kind, flags, address, offset, size, link = struct.unpack_from(layout, data, table + i * step)
        raw.append((name, kind, flags, address, offset, size, link))
    strings = raw[names][4] if count else 0
    found = []
    for name, kind, flags, address, offset, size, link in raw:
        section = Section(_string(data, strings + name), address, size, _elf_kind(kind, flags))
        found.append((section, (kind, offset, size, link, flags)))
    return found


def _elf_kind(kind: int, flags: int) -> Kind:
    write, allocated, execute = flags & 1, flags & 2, flags & 4
    if not allocated:
        return "other"
    if kind == 8:  # SHT_NOBITS
        return "bss"
    return "text" if execute else "data" if write else "rodata"


def _macho_sections(data: bytes) -> Iterator[Section]:
    commands, at = struct.unpack_from("<I", data, 16)[0], 32
    for _ in range(commands):
        command, size = struct.unpack_from("<II", data, at)
        if command == 0x19:  # LC_SEGMENT_64
            for i in range(struct.unpack_from("<I", data, at + 64)[0]):
                name, segment, address, length = struct.unpack_from("<16s16sQQ", data, at + 72 + 80 * i)
                flags = struct.unpack_from("<I", data, at + 72 + 80 * i + 64)[0]
                label, part = (word.rstrip(b"\0").decode() for word in (name, segment))
                kind: Kind = "rodata"
                if flags & 0xFF in (1, 12):  # zero-filled
                    kind = "bss"
                elif flags & 0x80000400:  # instructions
                    kind = "text"
                elif part in ("__DATA", "__LD"):
                    kind = "data" if part == "__DATA" else "other"
                yield Section(f"{part},{label}", address, length, kind)
        at += size


def _coff_sections(data: bytes, header: int) -> Iterator[Section]:
    count, _, symbols, symbol_count, optional = struct.unpack_from("<HIIIH", data, header + 2)
    strings = symbols + 18 * symbol_count
    for i in range(count):
        at = header + 20 + optional + 40 * i
        name, virtual, address, stored = struct.unpack_from("<8sIII", data, at)
        flags = struct.unpack_from("<I", data, at + 36)[0]
        label = name.rstrip(b"\0").decode()
        if label.startswith("/") and label[1:].isdigit():
            label = _string(data, strings + int(label[1:]))
        kind: Kind = "rodata"
        if flags & 0x80:
            kind = "bss"
        elif flags & 0x20:
            kind = "text"
        elif flags & 0x80000000:
            kind = "data"
        elif flags & 0x02000000 or label.startswith(".debug"):  # discardable
            kind = "other"
        yield Section(label, address, max(virtual, stored) if kind == "bss" else (virtual or stored), kind)


def _wasm_sections(data: bytes) -> Iterator[Section]:
    names = {0: "custom", 1: "type", 2: "import", 3: "function", 4: "table", 5: "memory", 6: "global"}
    names |= {7: "export", 8: "start", 9: "element", 10: "code", 11: "data", 12: "datacount"}
    at = 8
    while at < len(data):
        kind = data[at]
        size, body = _leb128(data, at + 1)
        part: Kind = "data" if kind == 11 else "other" if kind == 0 else "text"
        yield Section(names.get(kind, str(kind)), 0, size, part)
        at = body + size


def _leb128(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        value |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            return value, at
