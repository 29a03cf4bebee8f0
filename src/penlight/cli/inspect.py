from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from penlight.cli.console import Json, out, print_json, size_text, table

if TYPE_CHECKING:
    from penlight.devtools.contents import MethodReport


def inspect(
    program: Annotated[str, typer.Argument(help="A .pte file.")],
    method: Annotated[str | None, typer.Option("--method", "-m", help="Only this method.")] = None,
    instructions: Annotated[bool, typer.Option("--instructions", help="List every instruction.")] = False,
    buffers: Annotated[bool, typer.Option("--buffers", help="List every planned tensor.")] = False,
    json: Json = False,
) -> None:
    """Show methods, inputs, outputs, operators, and the arena over time."""
    from penlight.devtools.contents import constants_of, report_method
    from penlight.errors import MethodNotFound
    from penlight.program import Program
    from penlight.runtime.nearest import nearest

    read = Program.read(program)
    if method is not None and method not in read.methods:
        raise MethodNotFound(
            f"the program has no method {method!r}", where=program, do=nearest(method, read.methods)
        )
    reports = [
        report_method(read.contents, one) for name, one in read.methods.items() if method in (None, name)
    ]
    constants = constants_of(read.contents)
    if json:
        print_json(
            {
                "program_bytes": read.program_size,
                "constant_bytes": sum(part.nbytes for part in constants),
                "constant_count": len(constants),
                "named_data": {key: blob.nbytes for key, blob in read.contents.named_data.items()},
                "methods": [asdict(report) | {"peak": report.peak} for report in reports],
            }
        )
        return
    stored = sum(part.nbytes for part in constants)
    weights = f"{len(constants)} constants of {size_text(stored)}"
    out.print(f"{program}: program {size_text(read.program_size)}, {weights}", markup=False)
    for report in reports:
        out.print(f"\n[bold]{report.name}[/bold]")
        for label, values in (("input", report.inputs), ("output", report.outputs), ("state", report.state)):
            for index, text in enumerate(values):
                out.print(f"  {label:<6} {index}  {text}", markup=False)
        shown = table("  operator", ">calls")
        for name, count in report.operators.items():
            shown.add_row(f"  {name}", str(count))
        out.print(shown)
        show_memory(report)
        if instructions:
            for at, text in enumerate(report.instructions):
                out.print(f"  {at:>5}  {text}", markup=False)
        if buffers:
            placed = table(">value", ">arena", ">offset", ">bytes", "alive", "tensor")
            for buffer in sorted(report.buffers, key=lambda one: (one.arena, one.offset, one.first)):
                placed.add_row(
                    str(buffer.value),
                    str(buffer.arena),
                    str(buffer.offset),
                    str(buffer.nbytes),
                    f"{buffer.first}-{buffer.last}",
                    buffer.label,
                )
            out.print(placed)


def show_memory(report: MethodReport) -> None:
    """Arenas of a method, and how much of them is in use over its instructions."""
    arenas = " + ".join(size_text(size) for size in report.arenas) or "none"
    peak = f"at most {size_text(report.peak)} alive at once"
    out.print(f"  {report.name}: {len(report.instructions)} instructions; arenas {arenas}; {peak}")
    _draw(report.live_bytes)


def _draw(live_bytes: list[int]) -> None:
    from penlight.devtools.chart import area_chart

    if not any(live_bytes):
        return
    lines = area_chart(live_bytes)
    peak = max(live_bytes)
    for row, line in enumerate(lines):
        label = size_text(peak) if row == 0 else ""
        out.print(f"  {label:>9} │{line}", markup=False)
    width = len(lines[0])
    out.print(f"  {'0':>9} └{'─' * width}")
    out.print(f"  {'':>9}  {'instruction 0':<{max(1, width - 6)}}{len(live_bytes) - 1:>6}")
