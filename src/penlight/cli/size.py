from __future__ import annotations

import os
from typing import Annotated

import typer

from penlight.cli.console import Json, out, print_json, size_text, table


def size(
    program: Annotated[str, typer.Argument(help="A .pte file.")],
    top: Annotated[int, typer.Option(min=0, help="How many weights to show; 0 for all.")] = 15,
    json: Json = False,
) -> None:
    """Show what is in a program file: the program part, weights by operator, the largest weights."""
    from penlight.devtools.contents import constants_of, weights_by_operator
    from penlight.program import Program

    read = Program.read(program)
    contents = read.contents
    constants, operators = constants_of(contents), weights_by_operator(contents)
    total = os.path.getsize(program)
    stored = sum(part.nbytes for part in constants)
    delegates = sum(delegate.data.nbytes for method in contents.methods for delegate in method.delegates)
    named = sum(blob.nbytes for blob in contents.named_data.values())
    parts = {
        "program": read.program_size,
        "weights": stored,
        "delegates": delegates,
        "named data": named,
        "padding and tables": max(0, total - read.program_size - stored - delegates - named),
    }
    if json:
        print_json(
            {
                "file_bytes": total,
                "parts": parts,
                "operators": [vars(part) for part in operators],
                "weights": [vars(part) for part in constants],
            }
        )
        return

    def share(nbytes: int) -> tuple[str, str]:
        return f"{nbytes:,}", f"{nbytes * 100 / max(1, total):.1f}"

    shown = table("part", ">bytes", ">%", title=f"{program}: {size_text(total)}")
    for name, nbytes in parts.items():
        if nbytes:
            shown.add_row(name, *share(nbytes))
    out.print(shown)
    if not constants:
        return
    for title, listed in (("weights by operator", operators), ("largest weights", constants[: top or None])):
        shown = table("read by" if listed is operators else "weight", ">bytes", ">%", "", title=f"\n{title}")
        for part in listed:
            shown.add_row(part.name, *share(part.nbytes), part.detail)
        out.print(shown)
