"""Measure what the project promises, with the peer's figure of the same run beside it.

    python -m benchmarks [FIGURE...] [--json]

ExecuTorch runs where `make peers` put it, in a process of its own; the two take
turns, and the median of the rounds counts. Machines differ: read the ratios.
The size of the runtime is `make size`; errors and times of all models are
`python -m benchmarks.model_table`.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from . import process
from .engine import ROOT, Engine, EngineFailed

BUILT = ROOT / "build" / "bench"
ROUNDS = 5


@dataclass
class Line:
    """One figure: smaller is better. `peer` is None where there is none or it failed."""

    figure: str
    unit: str
    value: float | None
    bar: float
    peer: float | None = None
    note: str = ""

    @property
    def passes(self) -> bool:
        return self.value is not None and self.value <= self.bar

    def __str__(self) -> str:
        value = "failed" if self.value is None else f"{self.value:.4g}"
        peer = "-" if self.peer is None else f"{self.peer:.4g}"
        ratio = "-" if not (self.peer and self.value) else f"{self.peer / self.value:.1f}x"
        verdict = "pass" if self.passes else "FAIL"
        numbers = f"{value:>8} {self.bar:>7g} {verdict:5} {peer:>10} {ratio:>6}"
        return f"{self.figure:42} {self.unit:5} {numbers}  {self.note}".rstrip()


class Bench:
    """The two engines, and the files they made."""

    def __init__(self) -> None:
        BUILT.mkdir(parents=True, exist_ok=True)
        self.ours = Engine(sys.executable, "benchmarks.engine_penlight")
        folder = Path(os.environ.get("PENLIGHT_PEERS") or ROOT / ".venv-peers")
        self.peer_python = folder / "bin" / "python"
        there = self.peer_python.exists()
        self.theirs = Engine(self.peer_python, "benchmarks.engine_executorch") if there else None
        self._seconds: dict[tuple[str, str], float] = {}

    def file(self, engine: str, name: str) -> str:
        """The path of a graph's file; made, and timed, when first asked for."""
        path = str(BUILT / f"{name.replace(':', '-')}-{engine}.pte")
        if (engine, name) not in self._seconds:
            side = self.ours if engine == "penlight" else self.theirs
            assert side is not None
            self._seconds[engine, name] = side("write", name, path)
        return path

    def seconds(self, engine: str, name: str) -> float:
        """How long a fresh process takes to compile a graph: nothing is warm but imports."""
        module, python = (
            f"benchmarks.engine_{engine}",
            sys.executable if engine == "penlight" else self.peer_python,
        )
        fresh = Engine(python, module)
        try:
            return float(fresh("write", name, str(BUILT / f"fresh-{engine}.pte")))
        finally:
            fresh.close()

    def turns(self, measure: Callable[[str], float], rounds: int = ROUNDS) -> tuple[float, float | None, str]:
        """Medians of both engines, which take turns; what went wrong with the peer, if anything."""
        ours, theirs, note = [], [], "" if self.theirs else "no peers: make peers"
        for _ in range(rounds):
            ours.append(measure("penlight"))
            if not note:
                try:
                    theirs.append(measure("executorch"))
                except EngineFailed as problem:
                    note = str(problem)
        return statistics.median(ours), statistics.median(theirs) if theirs else None, note

    def on(self, engine: str, measurement: str, *args: Any) -> Any:
        side = self.ours if engine == "penlight" else self.theirs
        assert side is not None
        return side(measurement, *args)


def tax(bench: Bench) -> list[Line]:
    lines = []
    for text, graph, bar in (
        ("framework tax, tiny add or multiply", "tiny", 12),
        ("framework tax, 4x4 product or softmax", "products", 60),
    ):

        def once(engine: str, graph: str = graph) -> float:
            many, few = (
                bench.on(engine, "run", f"{graph}:{n}", bench.file(engine, f"{graph}:{n}"))
                for n in (1000, 10)
            )
            return 1e9 * float(many - few) / 990

        ours, theirs, note = bench.turns(once)
        lines.append(Line(text, "ns", ours, bar, theirs, note))
    return lines


def loading(bench: Bench) -> list[Line]:
    lines = []
    for text, name, bar in (("MobileNetV2", "mobilenet_v2", 1.5), ("MiniLM", "minilm", 2)):

        def once(engine: str, name: str = name) -> float:
            return 1e3 * float(bench.on(engine, "load", bench.file(engine, name)))

        ours, theirs, note = bench.turns(once)
        lines.append(Line(f"load {text}, open to ready", "ms", ours, bar, theirs, note))
    return lines


def memory(bench: Bench) -> list[Line]:
    """Pages of the weights that a run touched are counted: they are mapped, and the system may drop them."""
    run = f"method = penlight.load({bench.file('penlight', 'minilm')!r}, threads=1)['forward']"
    words = "numpy.arange(1000, 1128)[None], numpy.ones((1, 128), numpy.int64)"
    found = process.cost(statement=f"{process.PENLIGHT}; import penlight; {run}; method.call_flat([{words}])")
    note = f"Python and numpy alone {found['numpy_mb']:.1f} MB"
    return [Line("peak of a process that runs MiniLM", "MB", found["peak_mb"], 82, note=note)]


def importing(bench: Bench) -> list[Line]:
    ours = process.cost()
    theirs: dict[str, Any] = {}
    if bench.theirs:
        theirs = process.cost(str(bench.peer_python), process.EXECUTORCH, rounds=3)
    note = f"peer's bindings bring torch; Python and numpy alone {ours['numpy_mb']:.1f} MB"
    return [
        Line("import the runtime, numpy already in", "ms", ours["ms"], 10, theirs.get("ms"), note),
        Line("memory of a process with the runtime", "MB", ours["mb"], 31, theirs.get("mb"), note),
    ]


def files(bench: Bench) -> list[Line]:
    ours = bench.ours("shape", bench.file("penlight", "mobilenet_v2"))
    theirs: dict[str, float] = {}
    if bench.theirs:
        theirs = bench.ours("shape", bench.file("executorch", "mobilenet_v2"))
    note = f"{ours['instructions']} instructions" + (f", peer {theirs['instructions']}" if theirs else "")
    program, arena = (_scaled(theirs, key, by) for key, by in (("program", 1e3), ("arena", 1e6)))
    return [
        Line("MobileNetV2, program part of the file", "KB", ours["program"] / 1e3, 30, program, note),
        Line("MobileNetV2, arena", "MB", ours["arena"] / 1e6, 6.1, arena),
    ]


def _scaled(shape: dict[str, float], key: str, by: float) -> float | None:
    return shape[key] / by if shape else None


def compiling(bench: Bench) -> list[Line]:
    lines = []
    for text, name, bar in (
        ("compile MobileNetV2, export included", "mobilenet_v2", 3),
        ("compile MiniLM, export included", "minilm", 3),
        ("compile 1,000 tiny operators", "tiny:1000", 6),
    ):
        ours, theirs, note = bench.turns(lambda engine, name=name: bench.seconds(engine, name), rounds=3)
        lines.append(Line(text, "s", ours, bar, theirs, note or "peer undelegated"))
    return lines


def latency(bench: Bench) -> list[Line]:
    portable = str(BUILT / "mobilenet_v2-portable.pte")
    bench.ours("write", "mobilenet_v2", portable, "portable")

    def once(engine: str) -> float:
        if engine == "penlight":
            return 1e3 * float(bench.on(engine, "run", "mobilenet_v2", portable, "portable"))
        return 1e3 * float(bench.on(engine, "run", "mobilenet_v2", bench.file(engine, "mobilenet_v2")))

    ours, theirs, note = bench.turns(once, rounds=3)
    return [Line("MobileNetV2, portable library, 1 thread", "ms", ours, 150, theirs, note)]


def operators(bench: Bench) -> list[Line]:
    from .custom_ops import measure, measure_kinds

    found, kinds = measure(), measure_kinds()
    beside = "torch.library.custom_op {python:.2f}, aten.add {aten:.2f}".format(**found)
    text = "torch.library.custom_op {python_inference:.2f}, aten.add {aten_inference:.2f}"
    inference = text.format(**found)
    dtype = f"aten.sum {kinds.pop('aten.sum'):.2f}, with a dtype {kinds.pop('aten.sum with a dtype'):.2f}"
    plain = "torch.library.custom_op {python_grad:.2f}, aten.add {aten_grad:.2f}".format(**found)
    return [
        Line("build an operator's plug-in, first time", "s", found["cold"], 2),
        Line("build an operator's plug-in, cached", "ms", 1e3 * found["cached"], 20),
        Line("call it on 16 elements, plain eager", "us", found["call_grad"], 5, note=plain),
        Line("call it on 16 elements, no_grad", "us", found["call"], 5, note=beside),
        Line("call it on 16 elements, inference mode", "us", found["call_inference"], 5, note=inference),
        *(
            Line(f"call one with {name}", "us", took, 5, note=dtype if name == "a ScalarType" else "")
            for name, took in kinds.items()
        ),
    ]


FIGURES = {
    "tax": tax,
    "files": files,
    "load": loading,
    "memory": memory,
    "import": importing,
    "compile": compiling,
    "latency": latency,
    "operators": operators,
}


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__.split("\n")[0])
    parser.add_argument(
        "figures", nargs="*", metavar="FIGURE", help=f"of {', '.join(FIGURES)}; all by default"
    )
    parser.add_argument("--json", action="store_true", help="one JSON object a line")
    given = parser.parse_args()
    unknown = set(given.figures) - set(FIGURES)
    if unknown:
        parser.error(f"no figure {min(unknown)!r}; there are {', '.join(FIGURES)}")
    if not given.json:
        print(f"{'figure':42} {'unit':5} {'ours':>8} {'bar':>7} {'':5} {'ExecuTorch':>10} {'ratio':>6}")
    bench, passed = Bench(), True
    for name in given.figures or FIGURES:
        try:
            lines = FIGURES[name](bench)
        except Exception as problem:
            lines = [Line(name, "", None, 0, note=f"{type(problem).__name__}: {problem}")]
        for line in lines:
            passed = passed and line.passes
            print(json.dumps(asdict(line) | {"passes": line.passes}) if given.json else line, flush=True)
    return 0 if passed else 1


if __name__ == "__main__":
    sys.exit(main())
