"""Programs for every target: complete, and by their headers what they should be."""

from __future__ import annotations

import struct
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.build.models import Make

from penlight.build.targets import TARGETS, Target
from penlight.build.toolchain import zig_command

pytestmark = [
    pytest.mark.slow,  # zig builds a C library for Windows first
    pytest.mark.skipif(zig_command() is None, reason="ziglang is not installed"),
]


def machine_of(data: bytes) -> tuple[str, int]:
    """Format of a program, and the processor in that format's numbers."""
    if data[:4] == b"\x7fELF":
        assert struct.unpack_from("<H", data, 16)[0] in (2, 3), "no program"
        return "elf", struct.unpack_from("<H", data, 18)[0]
    if data[:2] == b"MZ":
        (start,) = struct.unpack_from("<I", data, 60)
        assert data[start : start + 4] == b"PE\0\0"
        assert struct.unpack_from("<H", data, start + 22)[0] & 2, "no program"
        return "coff", struct.unpack_from("<H", data, start + 4)[0]
    if data[:4] == b"\0asm":
        return "wasm", struct.unpack_from("<I", data, 4)[0]
    magic, cpu, _, kind = struct.unpack_from("<IIII", data)
    assert magic == 0xFEEDFACF and kind == 2, "no program"
    return "macho", cpu


# What the header of each target's program says; every target has a row.
HEADERS = {
    "x86_64-linux-gnu": ("elf", 62),
    "x86_64-linux-musl": ("elf", 62),
    "aarch64-linux-gnu": ("elf", 183),
    "aarch64-linux-musl": ("elf", 183),
    "riscv64-linux-gnu": ("elf", 243),
    "riscv64-linux-musl": ("elf", 243),
    "armv7-linux-gnueabihf": ("elf", 40),
    "armv7-linux-musleabihf": ("elf", 40),
    "wasm32-wasi": ("wasm", 1),
    "wasm32-browser": ("wasm", 1),
    "x86_64-windows": ("coff", 0x8664),
    "aarch64-macos": ("macho", 0x0100000C),
    "x86_64-macos": ("macho", 0x01000007),
    "cortex-m3": ("elf", 40),
    "cortex-m4f": ("elf", 40),
    "cortex-m7": ("elf", 40),
    "cortex-m55": ("elf", 40),
}


@pytest.mark.parametrize("target", [t for t in TARGETS if t.triple], ids=lambda target: target.name)
def test_programs_by_their_headers(make: Make, programs: Callable[[str], Path], target: Target) -> None:
    model = programs("keywords")
    built = make(model, target=target)
    data = built.files[0].read_bytes()
    assert built.files[0].suffix == target.program_suffix and machine_of(data) == HEADERS[target.name]
    assert model.read_bytes() in data, "the model is within"
    assert built.sizes.sizes.total > 40_000
