"""Program: a compiled model, ready to be saved."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from penlight.errors import InvalidInput
from penlight.program import reader, weights, writer
from penlight.program.structs import Contents, Method


class Program:
    """What `penlight.compile` returns.

    `report` says what each stage of the compiler did; it is None for a program
    that was read from a file.
    """

    def __init__(self, contents: Contents, report: Any = None) -> None:
        self.contents = contents
        self.report = report

    @classmethod
    def read(cls, path: str | os.PathLike[str]) -> Program:
        """A program from a .pte file, checked."""
        return cls(reader.read(path))

    @property
    def methods(self) -> dict[str, Method]:
        return {method.name: method for method in self.contents.methods}

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write the .pte file, and external weights beside it as .ptd.

        Weights go straight from the model to the disk.

        Raises:
            WriteFailed: the folder is missing or read-only, or the disk full; no partial file remains.
        """
        if not isinstance(path, (str, os.PathLike)):
            raise InvalidInput("a path is a string", got=repr(path)[:100], do='save("model.pte")')
        target = Path(path)
        layouts = {target: writer.plan_layout(self.contents)}
        if self.contents.external:
            beside = target.with_suffix(".ptd")
            if beside == target:
                raise InvalidInput(
                    f"the program and its weights would both be {target}", do="name the program *.pte"
                )
            layouts[beside] = weights.plan_weights(self.contents.external, self.contents.read_whole())
        writer.write_files(layouts)
        return target

    def to_bytes(self) -> bytes:
        """The bytes of the .pte file, in memory."""
        return writer.to_bytes(self.contents)

    @property
    def buffer(self) -> bytes:
        return self.to_bytes()

    @property
    def program_size(self) -> int:
        """Bytes of the file before its segments: structure without weights."""
        return len(writer.plan_layout(self.contents).program)

    def __reduce__(self) -> Any:
        """Pickles and deep copies have the bytes of the files; the compiler's report stays behind."""
        outside = weights.weights_bytes(self.contents.external) if self.contents.external else None
        return _from_files, (self.to_bytes(), outside)

    def __copy__(self) -> Program:
        return Program(self.contents, self.report)

    def __repr__(self) -> str:
        methods = ", ".join(
            f"{method.name}: {len(method.instructions)} instructions, arena {sum(method.arenas)} bytes"
            for method in self.contents.methods
        )
        return f"Program({methods})"


def _from_files(content: bytes, outside: bytes | None) -> Program:
    contents = reader.from_bytes(content)
    if outside is not None:
        contents.external = weights.weights_from_bytes(outside)
    return Program(contents)
