from __future__ import annotations

import webbrowser
from pathlib import Path
from typing import Annotated

import typer

from penlight.cli.console import err, out, size_text


def view(
    program: Annotated[str, typer.Argument(help="A .pte file.")],
    output: Annotated[
        str | None,
        typer.Option("--output", "-o", help="The page; a name that ends in .svg is an image of the memory."),
    ] = None,
    method: Annotated[str | None, typer.Option("--method", "-m", help="Only this method.")] = None,
    show: Annotated[bool, typer.Option("--open", help="Open it in the browser.")] = False,
) -> None:
    """Draw a program as a page for the browser: instructions, their source lines, and the arena over time."""
    from penlight.devtools.contents import constants_of, report_method
    from penlight.devtools.page import memory_image, page
    from penlight.errors import InvalidInput, MethodNotFound
    from penlight.program import Program
    from penlight.runtime.debug import KEY, DebugInfo
    from penlight.runtime.nearest import nearest

    read = Program.read(program)
    if method is not None and method not in read.methods:
        raise MethodNotFound(
            f"the program has no method {method!r}", where=program, do=nearest(method, read.methods)
        )
    reports = [
        report_method(read.contents, one) for name, one in read.methods.items() if method in (None, name)
    ]
    path = Path(output) if output else Path(f"{Path(program).stem}.html")
    if path.suffix == ".svg":
        if len(reports) != 1:
            names = ", ".join(read.methods)
            raise InvalidInput(
                "an image shows one method", got=f"{len(reports)}: {names}", do="choose with --method"
            )
        text = memory_image(reports[0])
    else:
        blob = read.contents.named_data.get(KEY)
        debug = DebugInfo(bytes(blob.view()) if blob else None)
        constants = constants_of(read.contents)
        stored = size_text(sum(part.nbytes for part in constants))
        fact = f"program {size_text(read.program_size)}, {len(constants)} constants of {stored}"
        text = page(Path(program).name, [fact], reports, debug.place)
    _write(path, text)
    out.print(str(path), markup=False)
    if show and not webbrowser.open(path.resolve().as_uri()):
        err.print("no browser could be opened", markup=False)


def _write(path: Path, text: str) -> None:
    from penlight.errors import WriteFailed

    part = path.with_name(f".{path.name}.part")
    try:
        part.write_text(text, encoding="utf-8")
        part.replace(path)
    except OSError as error:
        part.unlink(missing_ok=True)
        raise WriteFailed(f"cannot write {path}", got=error.strerror or str(error)) from error
