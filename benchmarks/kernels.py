"""Each operator of the models beside ATen and this machine's peak: `make bench-kernels`.

    python -m benchmarks.kernels [CASE...] [--threads 1,2] [--only WORD] [--rounds 3] [--json FILE]

The models of benchmarks.race are taken apart, and every different call is compiled alone and
timed by the runtime's own clock, without what converts layouts at the edges. ATen calls the
same with as many threads, images as they come and channels-last, whichever is quicker. The
share of the peak is the time that the arithmetic takes at the measured rate of multiply-adds,
or the bytes at that of a copy of the same size, whichever is longer, in percent of ours; that
of the memory is the time that the bytes take at the rate of a copy which no cache holds.
A round measures the machine and then every call; of each call the middle one of its rounds
counts, as the machine may be busier for a while.
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
MEMORY = COPIES[-1]


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
    shares = f"{row['percent']:>5.0f}{row['memory_percent']:>6.0f}"
    times = f"{row['us']:>9.1f}{row['aten_us']:>9.1f}{row['ratio']:>7.2f}"
    return f"{op:26.26}{times}{rate:>8.1f} {unit:8}{shares}  {row['shapes']:.70}"


def kind_of(spec: Row) -> str:
    """The operator; and of a convolution, whether each channel is a group of its own."""
    name, args = spec["op"].removeprefix("aten."), spec["args"]
    depthwise = "conv2d" in name and len(args) > 6 and args[6] > 1 and args[1]["shape"][1] == 1
    return f"{name}, depthwise" if depthwise else name


def summary(rows: list[Row]) -> list[str]:
    """By operator: how many calls, the geometric mean beside ATen, the least and the middle shares."""
    lines = []
    for kind in sorted({row["kind"] for row in rows}):
        own = [row for row in rows if row["kind"] == kind]
        ratio = math.exp(statistics.fmean(math.log(row["ratio"]) for row in own))
        text = f"{kind:44}{len(own):>5}{ratio:>7.2f}"
        for shares in ([row["percent"] for row in own], [row["memory_percent"] for row in own]):
            text += f"{min(shares):>8.0f}{statistics.median(shares):>7.0f}"
        lines.append(text)
    return lines


def run(row: Row, engines: dict[str, Engine], threads: int, peak: Peak) -> Row:
    """Time one call on both sides."""
    spec = row["spec"]
    ours = engines["penlight"]("time", spec, threads)
    aten_us = engines["aten"]("time", spec, threads)
    percent = 100 * peak.least_us(ours["flop"], ours["bytes"]) / ours["us"]
    return {
        "op": spec["op"], "shapes": shape_text(spec), "models": row["models"], "threads": threads,
        **ours, "aten_us": aten_us, "ratio": ours["us"] / aten_us, "percent": percent, "kind": kind_of(spec),
        "memory_percent": 100 * ours["bytes"] / peak.bandwidth(MEMORY) / 1e3 / ours["us"],
    }  # fmt: skip


def middle(rounds: list[Row]) -> Row:
    """One call: the middle one of what was measured of it, each number for itself."""
    numbers = ("us", "aten_us", "ratio", "percent", "memory_percent")
    return rounds[0] | {name: statistics.median(row[name] for row in rounds) for name in numbers}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.kernels", description=__doc__.splitlines()[0])
    parser.add_argument("cases", nargs="*", metavar="CASE", help="models to take apart; all eight by default")
    parser.add_argument("--threads", default="1", help="numbers of threads, one after the other")
    parser.add_argument("--only", default="", metavar="WORD", help="operators with this in their name")
    parser.add_argument("--rounds", type=int, default=3, help="how often everything is measured")
    parser.add_argument("--json", type=Path, help="write everything measured here")
    given = parser.parse_args()
    found = collect(given.cases or list(CASES), given.only)
    engines = {
        name: Engine(sys.executable, "benchmarks.engine_operators", name) for name in ("penlight", "aten")
    }
    results: list[Row] = []
    peaks: dict[str, list[Row]] = {}
    for threads in (int(number) for number in given.threads.split(",")):
        measured: dict[str, list[Row]] = {key: [] for key in found}
        for _ in range(max(given.rounds, 1)):
            peak = Peak(threads)
            peaks.setdefault(str(threads), []).append({"gflops": peak.gflops, "copy_gbps": peak.gbps})
            copies = ", ".join(f"{peak.bandwidth(size):.0f}" for size in COPIES)
            text = f"{threads} threads: {peak.gflops:.0f} GFLOP/s; copies of 16 KiB to 256 MiB: {copies} GB/s"
            print(text, flush=True)
            for key, row in found.items():
                try:
                    measured[key].append(run(row, engines, threads, peak))
                except EngineFailed as problem:
                    print(f"{row['spec']['op']} {shape_text(row['spec'])}: {problem}", file=sys.stderr)
        rows = [middle(rounds) for rounds in measured.values() if rounds]
        head = f"{'operator':26}{'us':>9}{'ATen us':>9}{'ratio':>7}{'rate':>8} {'':8}"
        print(f"{head}{'peak':>5}{'mem.':>6}  shapes")
        print("\n".join(line(row) for row in rows))
        print(f"\n{'operator':44}{'calls':>5}{'ratio':>7}{'peak %':>15}{'memory %':>15}, least and middle")
        print("\n".join(summary(rows)))
        results += rows
    for engine in engines.values():
        engine.close()
    if given.json:
        given.json.write_text(json.dumps({"peaks": peaks, "calls": results}, indent=1))


if __name__ == "__main__":
    main()
