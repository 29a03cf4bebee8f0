"""Real models on Penlight and other engines, taking turns on the same machine: `make bench-models`.

    python -m benchmarks.race [CASE...] [--threads 1,2] [--rounds 5] [--engines a,b] [--json FILE]

A CASE is a model, `NAME@16` for a sequence of 16 or `NAME@b8` for a batch of 8. Each engine
compiles a case once (kept under build/race) and runs it in a process of its own. A round asks
every engine in turn for the median of as many runs as fit in 0.3 s; ratios are taken within a
round, so that a machine that is busier for a while is busier for all, and the median of the
rounds counts. Time to load, time of the first run and peak memory come from fresh processes.
`make engines` installs the others; one that is missing is left out and said so.

`--isa avx2` lets all engines compute as on a processor without AVX-512: without_avx512.py.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import platform
import statistics
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from .engine import ROOT, Engine, EngineFailed
from .engines import OURS, PEERS
from .without_avx512 import hide_avx512

CASES = (
    "mobilenet_v2",
    "mobilenet_v3_small",
    "resnet18",
    "resnet50",
    "vit_tiny",
    "minilm",
    "llama_prefill",
    "llama_decode",
)
MORE = (
    "mobilenet_v2@b8",
    "resnet18@b8",
    "vit_tiny@b8",
    "minilm@b8",
    "minilm@16",
    "minilm@512",
    "llama_prefill@16",
)
BUILT = ROOT / "build" / "race"
FRESH = ("load_ms", "first_ms", "peak_mb")
Row = dict[str, Any]


class Race:
    """Penlight and the peers that are installed, each a process."""

    def __init__(self, engines: tuple[str, ...], isa: str | None = None) -> None:
        self.root = BUILT.with_name(f"race-{isa}") if isa else BUILT
        self.root.mkdir(parents=True, exist_ok=True)
        environment = Path(os.environ.get("PENLIGHT_PEERS") or ROOT / ".venv-peers")
        peers = environment / "bin" / "python"
        if isa:
            hide_avx512((environment / "lib", ROOT / "src"))
        self.pythons = {name: Path(sys.executable) if name == OURS else peers for name in engines}
        if not peers.exists():
            _say("no other engines: `make engines` installs them")
            self.pythons = {OURS: Path(sys.executable)}
        self.running: dict[str, Engine] = {}

    def process(self, name: str) -> Engine:
        return Engine(self.pythons[name], "benchmarks.engines", name)

    def make(self, name: str, case: str, threads: int) -> None:
        """Compile in a process that ends afterwards: compilers hold much memory."""
        process = self.process(name)
        try:
            seconds = process("make", case, str(self.root), threads)
            if seconds is not None:
                _say(f"{name} compiled {case} in {seconds:.1f} s")
        finally:
            process.close()

    def ready(self, case: str, threads: int) -> dict[str, Row]:
        """Engines that can run the case, with what loading it told."""
        found: dict[str, Row] = {}
        for name in self.pythons:
            try:
                self.make(name, case, threads)
                if name not in self.running:
                    self.running[name] = self.process(name)
                found[name] = {
                    "file_mb": self.running[name]("load", case, str(self.root), threads)["file_mb"]
                }
            except EngineFailed as problem:
                self.running.pop(name, None)
                _say(f"{name} does not run {case}: {problem}")
        return found

    def fresh(self, name: str, case: str, threads: int, times: int) -> Row:
        """Medians of what new processes pay to open the file and run it."""
        rows = []
        for _ in range(times):
            process = self.process(name)
            try:
                rows.append(process("start", case, str(self.root), threads))
            finally:
                process.close()
        return {key: statistics.median(row[key] for row in rows) for key in rows[0]} if rows else {}

    def measure(self, case: str, threads: int, rounds: int, fresh: int) -> Row:
        """Of each engine: ms, error, and what fresh processes pay; the ratio to the best other."""
        engines = self.ready(case, threads)
        turns: dict[str, list[dict[str, float]]] = {name: [] for name in engines}
        for _ in range(rounds):
            for name in engines:
                turns[name].append(self.running[name]("run", case, threads))
        for name, row in engines.items():
            row["ms"] = statistics.median(turn["median"] for turn in turns[name])
            row["least_ms"] = min(turn["least"] for turn in turns[name])
            row["error"], row["cosine"] = self.running[name]("error", case, str(self.root), threads)
            self.running[name]("forget", case, threads)
            row |= self.fresh(name, case, threads, fresh)
        return {"case": case, "threads": threads, "engines": engines, **_ratio(turns)}

    def close(self) -> None:
        for process in self.running.values():
            process.close()


def _ratio(turns: dict[str, list[dict[str, float]]]) -> Row:
    """Ours beside the best other of the same round: the median of the rounds."""
    peers = [name for name in turns if name != OURS]
    if not peers or OURS not in turns:
        return {"ratio": None, "best": None}
    ratios = [
        ours["median"] / min(turns[name][i]["median"] for name in peers) for i, ours in enumerate(turns[OURS])
    ]
    best = min(peers, key=lambda name: statistics.median(turn["median"] for turn in turns[name]))
    return {"ratio": statistics.median(ratios), "ratios": ratios, "best": best}


def lines(found: Row) -> Iterator[str]:
    """The table of one case."""
    ratio = f"{found['ratio']:.3f} of {found['best']}" if found["ratio"] else "no other engine"
    threads = f"{found['threads']} thread{'s' * (found['threads'] != 1)}"
    yield f"{found['case']}, {threads}: {ratio}"
    for name, row in found["engines"].items():
        cells = "".join(f"{row[key]:>10.1f}" if key in row else f"{'-':>10}" for key in (*FRESH, "file_mb"))
        yield f"  {name:14}{row['ms']:>10.3f}{cells}{row['error']:>10.1e}{1 - row['cosine']:>10.1e}"


def summary(results: list[Row]) -> Iterator[str]:
    """A line a case, and the geometric means."""
    for threads in sorted({found["threads"] for found in results}):
        of = [found for found in results if found["threads"] == threads and found["ratio"]]
        for found in of:
            ours, best = (found["engines"][name]["ms"] for name in (OURS, found["best"]))
            row = f"{found['case']:22}{threads:>3} {ours:>10.3f} {best:>10.3f} {found['best']:14}"
            yield f"{row}{found['ratio']:>7.3f}"
        if of:
            mean = math.exp(statistics.fmean(math.log(found["ratio"]) for found in of))
            yield f"{'geometric mean':22}{threads:>3} {'':36}{mean:>7.3f}"


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.race", description=__doc__.splitlines()[0])
    parser.add_argument(
        "cases", nargs="*", metavar="CASE", help="all eight by default; `more` for other sizes"
    )
    parser.add_argument("--threads", default="1,2", help="numbers of threads, one after the other")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--fresh", type=int, default=3, help="new processes for load, first run and memory")
    parser.add_argument("--engines", default=",".join((OURS, *PEERS)), help="which take part")
    parser.add_argument("--isa", choices=["avx2"], help="as on a processor without AVX-512")
    parser.add_argument("--make", action="store_true", help="compile only")
    parser.add_argument("--json", type=Path, help="write everything measured here")
    given = parser.parse_args()
    cases = [name for case in given.cases or CASES for name in (MORE if case == "more" else (case,))]
    race, results = Race(tuple(given.engines.split(",")), given.isa), []
    if not given.make:
        head = "".join(
            f"{text:>10}" for text in ("ms", "load ms", "first ms", "peak MB", "file MB", "error", "1-cosine")
        )
        print(f"{'':16}{head}")
    for threads in (int(number) for number in given.threads.split(",")):
        for case in cases:
            if given.make:
                race.ready(case, threads)
                continue
            found = race.measure(case, threads, given.rounds, given.fresh)
            results.append(found)
            print("\n".join(lines(found)), flush=True)
            if given.json:
                machine = {"machine": platform.processor() or platform.machine(), "cpus": os.cpu_count()}
                given.json.write_text(json.dumps(machine | {"results": results}, indent=1))
    print("\n".join(summary(results)))
    race.close()


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
