"""Where commands write: results, progress, errors."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from penlight.errors import PenlightError

# A pipe has no width: lines stay whole.
out = Console(highlight=False, soft_wrap=True, width=None if sys.stdout.isatty() else 160)
err = Console(stderr=True, highlight=False, soft_wrap=True)

# Options that several commands have.
Json = Annotated[bool, typer.Option("--json", help="Print the result as JSON.")]
Data = Annotated[list[str] | None, typer.Option("--data", help="A .ptd file with weights; repeat.")]
Libraries = Annotated[
    str | None, typer.Option("--libraries", help="Kernel libraries to use, asked in this order: 'a,b'.")
]


def print_json(value: Any) -> None:
    """One JSON document on standard output."""
    sys.stdout.write(json.dumps(value, indent=2, default=str) + "\n")


def show_error(error: PenlightError, *, as_json: bool) -> None:
    """What went wrong, without a traceback."""
    kind = type(error).__name__
    if as_json:
        print_json({"error": {"type": kind, "what": error.what, "where": error.where, "got": error.got,
                              "do": error.do}})  # fmt: skip
    first, *rest = str(error).split("\n")
    err.print(Text.assemble((f"{kind}: ", "bold red"), first))
    for line in rest:
        err.print(Text(line))


def table(*columns: str, title: str | None = None) -> Table:
    """A plain table; columns whose name starts with ">" are right-aligned."""
    made = Table(title=title, title_justify="left", box=None, pad_edge=False, header_style="bold")
    for column in columns:
        made.add_column(column.lstrip(">"), justify="right" if column.startswith(">") else "left")
    return made


def size_text(count: float) -> str:
    """Bytes in the unit that reads best."""
    for unit, factor in (("GB", 1e9), ("MB", 1e6), ("KB", 1e3)):
        if count >= factor:
            return f"{count / factor:.1f} {unit}"
    return f"{count:.0f} B"


@contextmanager
def progress(text: str, *, quiet: bool = False) -> Iterator[None]:
    """Say on a terminal what takes long, and how long it took."""
    start = time.perf_counter()
    if quiet or not err.is_terminal:
        yield
        return
    with err.status(text):
        yield
    err.print(f"[dim]{text}: {time.perf_counter() - start:.1f} s[/dim]")
