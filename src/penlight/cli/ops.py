from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperGroup

from penlight.cli.console import Json, err, out, print_json, show_error, table

if TYPE_CHECKING:
    from penlight.build.registration import LibraryFiles
    from penlight.kernels.bind import Table
    from penlight.kernels.library import Schemas
    from penlight.kernels.merge import Merged
    from penlight.kernels.places import Fault


class _Ops(TyperGroup):
    """`penlight ops`, `penlight ops relu` and `penlight ops --json` list."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if not args or (args[0] not in self.commands and args[0] not in ("-h", "--help")):
            args = ["list", *args]
        return list(super().parse_args(ctx, args))


ops = typer.Typer(
    cls=_Ops,
    name="ops",
    help="List operators that have a kernel; check and register kernels from YAML.",
    add_completion=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)

Files = Annotated[
    list[str],
    typer.Argument(
        help="YAML files, the preferred library first, and C++ sources. NAME=FILE.yaml names a library; "
        "without sources, those beside the YAML files are taken.",
        metavar="[NAME=]FILE.yaml... [SOURCE.cpp...]",
    ),
]


@ops.command("list")
def list_operators(
    pattern: Annotated[str, typer.Argument(help="Part of the operators' names.")] = "",
    library: Annotated[str | None, typer.Option(help="Only this kernel library.")] = None,
    json: Json = False,
) -> None:
    """List operators that have a kernel, with the dtypes it takes."""
    every = _rows()
    known = sorted({name for row in every for name in row["libraries"]})
    if library and library not in known:
        from penlight.errors import InvalidInput
        from penlight.runtime.nearest import nearest

        raise InvalidInput(f"there is no kernel library {library}", do=nearest(library, known))
    rows = [row for row in every if pattern in row["op"] and (not library or library in row["libraries"])]
    if json:
        print_json(rows)
        return
    if not rows:
        _say_nearest(pattern, library)
        raise typer.Exit(1)
    shown = table("operator", "libraries", "dtypes")
    for row in rows:
        shown.add_row(row["op"], ", ".join(row["libraries"]), row["dtypes"])
    out.print(shown)
    out.print(f"[dim]{len(rows)} operators[/dim]")


@ops.command()
def check(files: Files, json: Json = False) -> None:
    """Check functions.yaml, custom_ops.yaml and the kernels they name; show who serves what."""
    tables, merged, warnings = _read(files, json)
    served = _served(merged, tables)
    if json:
        print_json({"ok": True, "served": served, "warnings": [_as_json(fault) for fault in warnings]})
        return
    _warn(warnings)
    shown = table("operator", "for", "library", "kernel")
    for item in served:
        shown.add_row(item["op"], item["for"], item["library"], item["kernel"])
    out.print(shown)
    operators = len({item["op"] for item in served})
    out.print(f"[dim]{len(served)} kernels for {operators} operators, no faults[/dim]")


@ops.command("table")
def write_table(
    files: Files,
    output: Annotated[
        Path | None, typer.Option("-o", "--output", help="C++ file to write; printed when left out.")
    ] = None,
    json: Json = False,
) -> None:
    """Write the C++ registration table of kernels named by YAML files."""
    from penlight.build.registration import render, write
    from penlight.build.user_libraries import is_table

    tables, merged, warnings = _read(files, json)
    names = [file for file in files if is_table(file)]
    text = render(tables, ", ".join(name.split("=", 1)[-1] for name in names))
    if output is not None:
        write(text, output)
    if json:
        print_json(
            {
                "output": str(output) if output else None,
                "libraries": {made.name: len(made.entries) for made in tables},
                "sources": sorted({source for made in tables for source in made.sources()}),
                "served": _served(merged, tables),
                "warnings": [_as_json(fault) for fault in warnings],
            }
        )
        return
    _warn(warnings)
    if output is None:
        typer.echo(text, nl=False)
        return
    counts = ", ".join(f"{len(made.entries)} kernels of {made.name}" for made in tables)
    adds = " ".join(f"registry.add({made.name}_library);" for made in tables)
    out.print(f"wrote {output}: {counts}; compile it with the kernels, and call {adds}")


def _read(files: list[str], json: bool) -> tuple[list[Table], Merged, list[Fault]]:
    from penlight.build.registration import user_tables
    from penlight.errors import InvalidTable
    from penlight.kernels.table import own_table

    libraries, sources = _sort_out(files)
    own = {row.op: row for row in own_table()}
    try:
        return user_tables(libraries, sources, schemas=_schemas(), own=own)
    except InvalidTable as error:
        if json:
            print_json({"ok": False, "faults": [_as_json(fault) for fault in error.faults]})
        else:
            show_error(error, as_json=False)
        raise typer.Exit(1) from None


def _sort_out(files: list[str]) -> tuple[list[LibraryFiles], list[Path] | None]:
    """Libraries in the order they were first named, and the sources; None where there are none."""
    from penlight.build.user_libraries import is_table, library_files, sources_beside
    from penlight.errors import InvalidInput

    libraries = library_files([file for file in files if is_table(file)])
    if not libraries:
        raise InvalidInput("no YAML file is given", got=", ".join(files), do="name a .yaml file first")
    sources = [Path(file) for file in files if not is_table(file)]
    return libraries, sources or sources_beside(libraries) or None


def _schemas() -> Schemas | None:
    from penlight.build.user_libraries import torch_schemas

    found = torch_schemas()
    if found is None:
        err.print(
            "[yellow]warning[/yellow]: torch is not installed, so arguments of ATen's operators go unchecked"
        )
    return found


def _served(merged: Merged, tables: list[Table]) -> list[dict[str, Any]]:
    from penlight.kernels.rows import describe_key
    from penlight.kernels.table import own_table

    # ExecuTorch's own kernels, for which Penlight's stand in.
    theirs = {(row.op, row.kernel): own_table().rows(row.op)[0] for made in tables for row in made.stand_ins}
    rows = [
        {
            "op": item.op,
            "key": item.key,
            "for": describe_key(item.key)
            if item.key
            else "any other"
            if _has_keys(merged, item.op)
            else "any",
            "library": own.libraries[0] if own else item.library,
            "kernel": own.kernel if own else item.row.kernel,
        }
        for item in merged.served
        for own in [theirs.get((item.op, item.row.kernel))]
    ]
    return sorted(rows, key=lambda row: (str(row["op"]), row["key"] is None, str(row["key"])))


def _has_keys(merged: Merged, op: str) -> bool:
    return any(item.op == op and item.key for item in merged.served)


def _as_json(fault: Fault) -> dict[str, Any]:
    place = fault.place
    return {"file": place.file, "line": place.line, "column": place.column, "what": fault.what}


def _warn(warnings: list[Fault]) -> None:
    for fault in warnings:
        err.print(f"[yellow]warning[/yellow]: {fault}")


def _rows() -> list[dict[str, Any]]:
    from penlight.kernels.table import default_table

    merged: dict[str, dict[str, Any]] = {}
    for row in default_table():
        libraries = merged.setdefault(row.op, {"op": row.op, "libraries": [], "dtypes": _dtypes(row.dtypes)})
        libraries["libraries"] += [name for name in row.libraries if name not in libraries["libraries"]]
    return sorted(merged.values(), key=lambda row: str(row["op"]))


def _dtypes(sets: Any) -> str:
    from penlight.kernels.rows import describe_dtypes

    parts = {name: describe_dtypes(value) for name, value in sets.items()}
    return ", ".join(text if name == "rest" else f"{name}: {text}" for name, text in parts.items())


def _say_nearest(pattern: str, library: str | None) -> None:
    from difflib import get_close_matches

    names = [row["op"] for row in _rows()]
    short = {name.split("::")[-1].split(".")[0]: name for name in names}
    close = get_close_matches(pattern, [*names, *short], 1)
    hint = f"; did you mean {short.get(close[0], close[0])}?" if close else ""
    place = f" in the library {library}" if library else ""
    err.print(f"no operator with {pattern!r} in its name has a kernel{place}{hint}")
