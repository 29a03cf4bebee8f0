from __future__ import annotations

import time
from pathlib import Path
from statistics import median
from types import SimpleNamespace
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from penlight.cli.console import Data, Json, Libraries, err, out, print_json, size_text

if TYPE_CHECKING:
    from penlight.runtime.program import LoadedProgram

# Options of run, profile and bench.
Inputs = Annotated[
    list[str] | None,
    typer.Option("--input", "-i", help="FILE.npy or a number for the next input, or NAME=...; repeat."),
]
Sizes = Annotated[list[str] | None, typer.Option("--sizes", help="NAME=2,3 for an input of dynamic size.")]
Fill = Annotated[str, typer.Option("--fill", help="random, ones or zeros, for inputs that are not given.")]
Seed = Annotated[int, typer.Option("--seed", min=0, help="Of random numbers.")]
Threads = Annotated[
    int | None, typer.Option("--threads", min=1, help="For kernels; the physical cores when left out.")
]
MethodName = Annotated[
    str | None, typer.Option("--method", "-m", help="`forward`, or the only one, when left out.")
]


def run(
    program: Annotated[str, typer.Argument(help="A .pte file.")],
    method: MethodName = None,
    inputs: Inputs = None,
    sizes: Sizes = None,
    fill: Fill = "random",
    seed: Seed = 0,
    output: Annotated[
        str | None, typer.Option("--output", "-o", help="Save output K to PREFIX.K.npy.")
    ] = None,
    repeats: Annotated[int, typer.Option("--repeats", "-n", min=1)] = 1,
    warm_up: Annotated[int, typer.Option("--warm-up", min=0)] = 0,
    data: Data = None,
    libraries: Libraries = None,
    threads: Threads = None,
    plugins: Annotated[
        list[str] | None,
        typer.Option("--library", help="Operators of your own: a plug-in, or its C++ file; repeat."),
    ] = None,
    json: Json = False,
) -> None:
    """Run a method of a program with given or random inputs; print outputs and times."""
    from penlight.cli.inputs import make_inputs
    from penlight.runtime import load

    paths = [_built(path) for path in plugins or ()]
    start = time.perf_counter()
    chosen_libraries = libraries.split(",") if libraries else None
    loaded = load(program, data=data or (), libraries=chosen_libraries, plugins=paths, threads=threads)
    chosen = loaded[method or default_method(loaded)]
    load_ms = (time.perf_counter() - start) * 1e3
    leaves = make_inputs(chosen, inputs or (), sizes or (), check_fill(fill), seed)
    times = []
    for _ in range(warm_up + repeats):
        start = time.perf_counter()
        outputs = chosen.call_flat(leaves)
        times.append((time.perf_counter() - start) * 1e3)
    first_ms, measured = times[0], times[warm_up:]
    if output:
        _save(outputs, output)
    if json:
        print_json(
            {
                "method": chosen.name,
                "outputs": [describe(value) for value in outputs],
                "load_ms": round(load_ms, 4),
                "first_ms": round(first_ms, 4),
                "median_ms": round(median(measured), 4),
                "min_ms": round(min(measured), 4),
                "repeats": repeats,
                "arena_bytes": sum(chosen.arena_sizes),
                "method_bytes": chosen.method_bytes,
            }
        )
        return
    for index, value in enumerate(outputs):
        out.print(f"output {index}: {_text(describe(value))}", markup=False)
    spent = f"load {load_ms:.2f} ms, first run {first_ms:.3f} ms"
    if repeats > 1:
        spent += f", {repeats} runs: median {median(measured):.3f} ms, fastest {min(measured):.3f} ms"
    err.print(f"{chosen.name}: {spent}; arena {size_text(sum(chosen.arena_sizes))}", markup=False)


def _built(path: str) -> str:
    """A plug-in, or the one that a C++ file makes."""
    if not path.endswith((".cpp", ".cc", ".cxx")):
        return path
    from penlight.build.plugin import build_plugin

    return str(build_plugin(path))


def default_method(program: LoadedProgram) -> str:
    """`forward`, or the only method."""
    return program.methods[0] if len(program.methods) == 1 else "forward"


def check_fill(fill: str) -> str:
    from penlight.errors import InvalidInput

    if fill not in ("random", "ones", "zeros"):
        raise InvalidInput("--fill is random, ones or zeros", got=fill)
    return fill


def describe(value: Any) -> dict[str, Any]:
    """An output in a few numbers."""
    import numpy as np

    if not isinstance(value, np.ndarray):
        return {"type": type(value).__name__, "value": value}
    summary: dict[str, Any] = {"dtype": str(value.dtype), "sizes": list(value.shape)}
    if not value.size:
        return summary
    if value.dtype.kind == "c":  # they have no order, and JSON has none of them
        return summary | {"first": [[float(c.real), float(c.imag)] for c in value.reshape(-1)[:6]]}
    number = int if value.dtype.kind in "iub" else float
    return summary | {
        "min": number(value.min()),
        "max": number(value.max()),
        "mean": float(value.astype(np.float64).mean()),
        "first": [number(item) for item in value.reshape(-1)[:6]],
    }


def _text(summary: dict[str, Any]) -> str:
    if "dtype" not in summary:
        return f"{summary['type']} {summary['value']}"
    text = f"{summary['dtype']} {summary['sizes']}"
    text += "".join(f"  {name} {_spell(summary[name])}" for name in ("min", "max", "mean") if name in summary)
    if "first" in summary:
        text += "  first " + " ".join(map(_spell, summary["first"]))
    return text


def _spell(number: Any) -> str:
    """Whole numbers in full, others to six digits."""
    if isinstance(number, list):
        return f"{complex(*number):.6g}"
    return str(number) if isinstance(number, int) else f"{number:.6g}"


def _save(outputs: list[Any], prefix: str) -> None:
    import numpy as np

    from penlight.errors import WriteFailed

    for index, value in enumerate(outputs):
        path = Path(f"{prefix}.{index}.npy")
        # Under another name first: nobody finds half a file, and what was there stays if this fails.
        part = Path(f"{path}.part")
        try:
            with part.open("wb") as file:
                # numpy writes to a file itself, and then says only how much was not written.
                np.save(cast(Any, SimpleNamespace(write=file.write)), value)
            part.replace(path)
        except OSError as error:
            part.unlink(missing_ok=True)
            raise WriteFailed(f"cannot write {path}", got=error.strerror or str(error)) from error
