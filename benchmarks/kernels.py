"""Each operator of the models beside ATen and this machine's peak: `make bench-kernels`.

    python -m benchmarks.kernels [CASE...] [--threads 1,2] [--only WORD] [--json FILE]

The models of benchmarks.race are taken apart, and every different call is compiled alone and
timed by the runtime's own clock, without what converts layouts at the edges. ATen calls the
same with as many threads, images as they come and channels-last, whichever is quicker. The
last column is the share of the peak: the time that the arithmetic takes at the measured rate
of multiply-adds, or the bytes at that of a copy of the same size, whichever is longer, in
percent of ours.
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
import sys
from pathlib import Path
from typing import Any

from .case import Case
from .engine import Engine, EngineFailed
from .peak import Peak
from .race import CASES

Row = dict[str, Any]
COPIES = [2**power for power in range(14, 29, 2)]  # bytes of copies to be shown, read and written


def collect(cases: list[str], only: str) -> dict[str, Row]:
    """Different calls of the models, and which of them has each."""
    from .calls import calls_of

    found: dict[str, Row] = {}
    for case in cases:
        for spec in calls_of(*Case(case).build()):
            if only in spec["op"]:
                found.setdefault(json.dumps(spec), {"spec": spec, "models": []})["models"].append(case)
    return found


def shape_text(spec: Row) -> str:
    """conv2d 1x64x56x56 64x64x3x3 1,1 1,1 1,1 1"""

    def text(value: Any) -> str:
        if isinstance(value, dict):
            return "x".join(map(str, value["shape"])) or "scalar"
        return ",".join(map(text, value)) if isinstance(value, list) else str(value)

    options = [f"{key}={text(value)}" for key, value in spec["kwargs"].items()]
    return " ".join([*map(text, spec["args"]), *options])


def line(row: Row) -> str:
    rate = row["flop"] / row["us"] / 1e3 if row["flop"] else row["bytes"] / row["us"] / 1e3
    unit = "GFLOP/s" if row["flop"] else "GB/s"
    op = row["op"].split(".")[1]
    times = f"{row['us']:>9.1f}{row['aten_us']:>9.1f}{row['us'] / row['aten_us']:>7.2f}"
    return f"{op:26.26}{times}{rate:>8.1f} {unit:8}{row['percent']:>5.0f}  {row['shapes']:.70}"


def summary(rows: list[Row]) -> list[str]:
    """By operator: how many calls, the geometric mean beside ATen, the least and the middle share."""
    lines = []
    for op in sorted({row["op"] for row in rows}):
        own = [row for row in rows if row["op"] == op]
        ratio = math.exp(statistics.fmean(math.log(row["us"] / row["aten_us"]) for row in own))
        shares = [row["percent"] for row in own]
        text = f"{ratio:>7.2f}{min(shares):>8.0f}{statistics.median(shares):>8.0f}"
        lines.append(f"{op.removeprefix('aten.'):44}{len(own):>5}{text}")
    return lines


def run(row: Row, engines: dict[str, Engine], threads: int, peak: Peak) -> Row:
    """Time one call on both sides."""
    spec = row["spec"]
    ours = engines["penlight"]("time", spec, threads)
    aten_us = engines["aten"]("time", spec, threads)
    percent = 100 * peak.least_us(ours["flop"], ours["bytes"]) / ours["us"]
    return {
        "op": spec["op"], "shapes": shape_text(spec), "models": row["models"], "threads": threads,
        **ours, "aten_us": aten_us, "percent": percent,
    }  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.kernels", description=__doc__.splitlines()[0])
    parser.add_argument("cases", nargs="*", metavar="CASE", help="models to take apart; all eight by default")
    parser.add_argument("--threads", default="1", help="numbers of threads, one after the other")
    parser.add_argument("--only", default="", metavar="WORD", help="operators with this in their name")
    parser.add_argument("--json", type=Path, help="write everything measured here")
    given = parser.parse_args()
    found = collect(given.cases or list(CASES), given.only)
    engines = {
        name: Engine(sys.executable, "benchmarks.engine_operators", name) for name in ("penlight", "aten")
    }
    results: list[Row] = []
    peaks: dict[int, Peak] = {}
    for threads in (int(number) for number in given.threads.split(",")):
        peaks[threads] = peak = Peak(threads)
        copies = ", ".join(f"{peak.bandwidth(size):.0f}" for size in COPIES)
        print(f"{threads} threads: {peak.gflops:.0f} GFLOP/s; copies of 16 KiB to 256 MiB: {copies} GB/s")
        print(f"{'operator':26}{'us':>9}{'ATen us':>9}{'ratio':>7}{'rate':>8} {'':8}{'peak %':>5}  shapes")
        rows = []
        for row in found.values():
            try:
                rows.append(run(row, engines, threads, peak))
                print(line(rows[-1]), flush=True)
            except EngineFailed as problem:
                print(f"{row['spec']['op']} {shape_text(row['spec'])}: {problem}", file=sys.stderr)
        results += rows
        print(f"\n{'operator':44}{'calls':>5}{'ratio':>7}{'least %':>8}{'mid %':>8}")
        print("\n".join(summary(rows)))
    for engine in engines.values():
        engine.close()
    if given.json:
        machine = {str(n): {"gflops": peak.gflops, "copy_gbps": peak.gbps} for n, peak in peaks.items()}
        given.json.write_text(json.dumps({"peaks": machine, "calls": results}, indent=1))


if __name__ == "__main__":
    main()
