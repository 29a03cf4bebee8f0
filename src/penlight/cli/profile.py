from __future__ import annotations

from typing import Annotated

import typer

from penlight.cli.console import Data, Json, Libraries, out, print_json, table
from penlight.cli.run import Fill, Inputs, MethodName, Seed, Sizes, check_fill, default_method


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
    top: Annotated[int, typer.Option(help="How many instructions to show; 0 for all.")] = 20,
    json: Json = False,
) -> None:
    """Show the time of each instruction and of each operator, mean of several runs."""
    import penlight
    from penlight.cli.inputs import make_inputs

    loaded = penlight.load(program, data=data, libraries=libraries.split(",") if libraries else None)
    chosen = loaded[method or default_method(loaded)]
    leaves = make_inputs(chosen, inputs or (), sizes or (), check_fill(fill), seed)
    chosen.call_flat(leaves)
    times = chosen.times(leaves, repeats=repeats)
    names = chosen.instruction_names()
    total = sum(times) or 1
    rows = [
        {"instruction": index, "name": name, "us": time / 1e3, "share": time / total}
        for index, (name, time) in enumerate(zip(names, times, strict=True))
    ]
    operators: dict[str, dict[str, float]] = {}
    for row in rows:
        one = operators.setdefault(str(row["name"]), {"us": 0.0, "count": 0})
        one["us"] += float(row["us"])
        one["count"] += 1
    if json:
        print_json(
            {"method": chosen.name, "total_us": total / 1e3, "instructions": rows, "operators": operators}
        )
        return
    shown = table(
        "operator", ">calls", ">us", ">%", title=f"{chosen.name}: {total / 1e6:.3f} ms in instructions"
    )
    for name, one in sorted(operators.items(), key=lambda item: -item[1]["us"]):
        shown.add_row(name, str(int(one["count"])), f"{one['us']:.1f}", f"{one['us'] * 1e5 / total:.1f}")
    out.print(shown)
    slowest = sorted(rows, key=lambda row: -float(row["us"]))[: top or None]
    detail = table(">instruction", "operator", ">us", ">%", title="\nslowest instructions")
    for row in slowest:
        detail.add_row(
            str(row["instruction"]), str(row["name"]), f"{row['us']:.1f}", f"{float(row['share']) * 100:.1f}"
        )
    out.print(detail)
