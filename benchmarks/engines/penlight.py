"""Penlight, with no option given."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from . import Run


def warm() -> None:
    """Import what does not depend on the model."""
    import penlight.runtime.program  # noqa: F401
    from penlight.runtime.library import library

    library()


def make(module: Any, args: tuple[Any, ...], folder: Path, threads: int) -> None:
    import penlight

    penlight.compile(module, args).save(folder / "model.pte")


def load(folder: Path, inputs: list[Any], threads: int) -> Run:
    import penlight

    program = penlight.load(folder / "model.pte", threads=threads)
    method = program["forward"]
    program.verify()
    return lambda: method.call_flat(inputs)
