from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from penlight.cli.console import Json, err, out, print_json, progress, table
from penlight.cli.user_code import running

op = typer.Typer(help="Build and test operators of your own.", no_args_is_help=True)


@op.callback()
def _commands() -> None:
    """Build and test operators of your own."""


@op.command()
def build(
    files: Annotated[list[Path], typer.Argument(help="C++ files with PENLIGHT_LIBRARY.")],
    test: Annotated[bool, typer.Option("--test", help="Test the operators everywhere they work.")] = False,
    flag: Annotated[
        list[str] | None, typer.Option("--flag", help="One more for the compiler; repeat.")
    ] = None,
    compiler: Annotated[str | None, typer.Option(help="Command of a C++ compiler.")] = None,
    json: Json = False,
) -> None:
    """Build operators, say what they are, and with --test whether they do what they should."""
    from penlight.ops import load

    results: list[dict[str, Any]] = []
    failed = False
    for file in files:
        with progress(f"building {file.name}", quiet=json), running(str(file)):
            library: Any = load(file, flags=flag or (), compiler=compiler, torch=None if test else False)
        entry: dict[str, Any] = {"file": str(file), "plugin": str(library.path), "operators": []}
        for info in library.operators:
            entry["operators"].append(
                {
                    "kernel": info.name,
                    "schema": info.schema,
                    "shapes": info.shapes,
                    "backward": info.backward,
                    "source": info.source,
                }
            )
            if not json:
                rule = f"   {info.shapes}" if info.shapes else ""
                out.print(f"{info.library}::{info.schema}{rule}", markup=False)
        if not json:
            err.print(f"built {library.path}", markup=False)
        if test:
            checks = _test(library, file, json)
            entry["checks"] = [vars(check) for check in checks]
            failed |= any(check.passed is False for check in checks)
        results.append(entry)
    if json:
        print_json(results)
    if failed:
        raise typer.Exit(1)


def _test(library: Any, file: Path, json: bool) -> list[Any]:
    from penlight.ops.apart import check_apart

    with progress(f"testing {file.name}", quiet=json):
        checks = check_apart(library)
    if json:
        return checks
    shown = table("operator", "check", "", "")
    marks = {True: "[green]ok[/green]", False: "[red]FAILED[/red]", None: "[dim]-[/dim]"}
    from rich.markup import escape

    for one in checks:
        shown.add_row(one.operator, one.name, marks[one.passed], escape(one.detail))
    out.print(shown)
    bad = sum(one.passed is False for one in checks)
    out.print(f"{len(checks) - bad} of {len(checks)} checks without fault")
    return checks
