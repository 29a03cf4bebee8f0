from __future__ import annotations

from typing import Annotated

import typer

from penlight.cli.console import Data, Json, Libraries, out, print_json, table
from penlight.cli.run import Fill, Inputs, MethodName, Seed, Sizes, Threads, check_fill, default_method


def profile(
    program: Annotated[str, typer.Argument(help="A .pte file.")],
    method: MethodName = None,
    inputs: Inputs = None,
    sizes: Sizes = None,
    fill: Fill = "random",
    seed: Seed = 0,
    repeats: Annotated[int, typer.Option("--repeats", "-n", min=1)] = 10,
    data: Data = None,
    libraries: Libraries = None,
    threads: Threads = None,
    top: Annotated[int, typer.Option(min=0, help="How many instructions to show; 0 for all.")] = 20,
    json: Json = False,
) -> None:
    """Show the time of each instruction and of each operator, mean of several runs."""
    import penlight
    from penlight.cli.inputs import make_inputs

    chosen_libraries = libraries.split(",") if libraries else None
    loaded = penlight.load(program, data=data, libraries=chosen_libraries, threads=threads)
    chosen = loaded[method or default_method(loaded)]
    leaves = make_inputs(chosen, inputs or (), sizes or (), check_fill(fill), seed)
    chosen.call_flat(leaves)
    times = chosen.times(leaves, repeats=repeats)
    names = chosen.instruction_names()
    total = max(1, sum(times))
    places = [loaded.debug.place(chosen.name, index) or "" for index in range(len(times))]
    operators: dict[str, list[int]] = {}
    for name, time in zip(names, times, strict=True):
        operators.setdefault(name, []).append(time)
    if json:
        print_json(
            {
                "method": chosen.name,
                "total_us": total / 1e3,
                "operators": {
                    name: {"calls": len(own), "us": sum(own) / 1e3} for name, own in operators.items()
                },
                "instructions": [
                    {"name": name, "us": time / 1e3, "where": place}
                    for name, time, place in zip(names, times, places, strict=True)
                ],
            }
        )
        return
    shown = table("operator", ">calls", ">us", ">%", title=f"{chosen.name}: {total / 1e6:.3f} ms")
    for name, own in sorted(operators.items(), key=lambda item: -sum(item[1])):
        shown.add_row(name, str(len(own)), f"{sum(own) / 1e3:.1f}", f"{sum(own) * 100 / total:.1f}")
    out.print(shown)
    detail = table(">instruction", "operator", ">us", ">%", "where", title="\nslowest instructions")
    for index in sorted(range(len(times)), key=lambda i: -times[i])[: top or None]:
        share = f"{times[index] * 100 / total:.1f}"
        detail.add_row(str(index), names[index], f"{times[index] / 1e3:.1f}", share, places[index])
    out.print(detail)
