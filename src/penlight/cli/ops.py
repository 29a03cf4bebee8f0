from __future__ import annotations

from typing import Annotated, Any

import typer

from penlight.cli.console import Json, out, print_json, table


def ops(
    pattern: Annotated[str, typer.Argument(help="Part of the operators' names.")] = "",
    library: Annotated[str | None, typer.Option(help="Only this kernel library.")] = None,
    json: Json = False,
) -> None:
    """List operators that have a kernel, with the dtypes it takes."""
    rows = [row for row in _rows() if pattern in row["op"] and (not library or library in row["libraries"])]
    if json:
        print_json(rows)
        return
    if not rows:
        _say_nearest(pattern)
        raise typer.Exit(1)
    shown = table("operator", "libraries", "dtypes")
    for row in rows:
        shown.add_row(row["op"], ", ".join(row["libraries"]), row["dtypes"])
    out.print(shown)
    out.print(f"[dim]{len(rows)} operators[/dim]")


def _rows() -> list[dict[str, Any]]:
    from penlight.kernels.table import default_table

    merged: dict[str, dict[str, Any]] = {}
    for row in default_table():
        libraries = merged.setdefault(row.op, {"op": row.op, "libraries": [], "dtypes": _dtypes(row.dtypes)})
        libraries["libraries"] += [name for name in row.libraries if name not in libraries["libraries"]]
    return sorted(merged.values(), key=lambda row: str(row["op"]))


def _dtypes(sets: Any) -> str:
    from penlight.kernels.table import DTYPE_SETS

    def text(dtypes: frozenset[Any]) -> str:
        for name in ("all", "real", "float", "int", "index", "bool"):
            if dtypes == DTYPE_SETS[name]:
                return name
        return "+".join(sorted(dtype.name for dtype in dtypes))

    return ", ".join(text(value) if key == "rest" else f"{key}: {text(value)}" for key, value in sets.items())


def _say_nearest(pattern: str) -> None:
    from difflib import get_close_matches

    from penlight.cli.console import err

    names = [row["op"] for row in _rows()]
    short = {name.split("::")[-1].split(".")[0]: name for name in names}
    close = get_close_matches(pattern, [*names, *short], 1)
    hint = f"; did you mean {short.get(close[0], close[0])}?" if close else ""
    err.print(f"no operator with {pattern!r} in its name has a kernel{hint}")
