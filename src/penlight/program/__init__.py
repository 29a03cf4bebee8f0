"""The program format: reading and writing .pte files. Needs no torch."""

from __future__ import annotations

from penlight.program.program import Program
from penlight.program.reader import from_bytes, read
from penlight.program.structs import Contents

__all__ = ["Contents", "Program", "from_bytes", "read"]
