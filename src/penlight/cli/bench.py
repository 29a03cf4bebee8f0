from __future__ import annotations

import time
from statistics import median, quantiles
from typing import TYPE_CHECKING, Annotated, Any

import typer

from penlight.cli.console import Data, Json, Libraries, out, print_json, size_text, table
from penlight.cli.run import Fill, Inputs, MethodName, Seed, Sizes, Threads, check_fill, default_method

if TYPE_CHECKING:
    from penlight.runtime.method import LoadedMethod


def bench(
    programs: Annotated[list[str], typer.Argument(help=".pte files, timed in turns.")],
    method: MethodName = None,
    inputs: Inputs = None,
    sizes: Sizes = None,
    fill: Fill = "random",
    seed: Seed = 0,
    seconds: Annotated[float, typer.Option(min=0, help="How long to run each program.")] = 1.0,
    repeats: Annotated[
        int | None, typer.Option("--repeats", "-n", min=1, help="How often, instead of how long.")
    ] = None,
    threads: Threads = None,
    data: Data = None,
    libraries: Libraries = None,
    json: Json = False,
) -> None:
    """Time programs side by side: load, first run, and many runs after it."""
    import penlight
    from penlight.cli.inputs import make_inputs

    chosen_libraries = libraries.split(",") if libraries else None
    rows: list[dict[str, Any]] = []
    ready: list[tuple[LoadedMethod, list[Any]]] = []
    for path in programs:
        start = time.perf_counter()
        loaded = penlight.load(path, data=data, libraries=chosen_libraries, threads=threads)
        chosen = loaded[method or default_method(loaded)]
        loaded.verify()
        load_ms = (time.perf_counter() - start) * 1e3
        leaves = make_inputs(chosen, inputs or (), sizes or (), check_fill(fill), seed)
        first_ms = _timed(chosen, leaves)
        ready.append((chosen, leaves))
        rows.append(
            {
                "program": path,
                "method": chosen.name,
                "load_ms": load_ms,
                "first_ms": first_ms,
                "arena_bytes": sum(chosen.arena_sizes),
            }
        )
    times = measure(ready, seconds, repeats)
    for row, own in zip(rows, times, strict=True):
        tenths = quantiles(own, n=10) if len(own) > 1 else own * 9
        row |= {"min_ms": min(own), "median_ms": median(own), "p90_ms": tenths[8], "repeats": len(own)}
    if json:
        print_json(rows)
        return
    columns = ("load ms", "first ms", "fastest ms", "median ms", "9 of 10 below", "runs", "arena")
    shown = table("program", "method", *(f">{name}" for name in columns))
    for row in rows:
        numbers = [f"{row[key]:.3f}" for key in ("load_ms", "first_ms", "min_ms", "median_ms", "p90_ms")]
        shown.add_row(
            row["program"], row["method"], *numbers, str(row["repeats"]), size_text(row["arena_bytes"])
        )
    out.print(shown)


def measure(
    ready: list[tuple[LoadedMethod, list[Any]]], seconds: float, repeats: int | None
) -> list[list[float]]:
    """Milliseconds of each run of each program, in turns: what disturbs one disturbs all."""
    times: list[list[float]] = [[] for _ in ready]
    until = time.perf_counter() + seconds * len(ready)
    while True:
        for own, (method, leaves) in zip(times, ready, strict=True):
            own.append(_timed(method, leaves))
        if len(times[0]) >= repeats if repeats is not None else time.perf_counter() >= until:
            return times


def _timed(method: LoadedMethod, leaves: list[Any]) -> float:
    start = time.perf_counter()
    method.call_flat(leaves)
    return (time.perf_counter() - start) * 1e3
