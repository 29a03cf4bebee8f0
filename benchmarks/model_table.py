"""Print one line a model: error against eager, file, arena, time, and what it answered.

python -m benchmarks.model_table [NAME...] [--target portable] [--json]
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from typing import Any

import torch

from .models import NAMES, load
from .models.compiled import BUILT, Loaded, compile_model, differences


def measure(name: str, target: str) -> dict[str, Any]:
    model = load(name)
    start = time.perf_counter()
    program = compile_model(model, target)
    path = BUILT / f"{name}-{target}.pte"
    path.parent.mkdir(parents=True, exist_ok=True)
    program.save(path)
    seconds = time.perf_counter() - start
    del program
    run = Loaded(path)
    first = list(differences(model, run))
    times = [first] if max(d.ms for d in first) > 500 else [list(differences(model, run)) for _ in range(5)]
    answer = model.check(run) if model.check else ""
    last = {method: index for index, (method, _) in enumerate(model.calls)}
    return {
        "model": name,
        "target": target,
        "error": max(d.error for d in first),
        "compile_s": seconds,
        "file_bytes": path.stat().st_size,
        "program_bytes": run.program.program_size,
        "arena_bytes": {m: sum(run.program[m].arena_sizes) for m in model.methods},
        "instructions": {m: run.program[m].instruction_count for m in model.methods},
        "ms": {m: statistics.median(row[i].ms for row in times) for m, i in last.items()},
        "answer": answer,
    }


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.model_table", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(NAMES)}; all by default")
    parser.add_argument("--target", default="cpu")
    parser.add_argument("--json", action="store_true", help="one JSON object a line")
    given = parser.parse_args()
    torch.set_num_threads(1)
    failed = 0
    if not given.json:
        print(
            f"{'model':19} {'method':8} {'error':>8} {'compile s':>9} {'file MB':>8} {'program KB':>10} "
            f"{'instr':>5} {'arena MB':>8} {'ms':>8}  answer"
        )
    for name in given.names or NAMES:
        try:
            row = measure(name, given.target)
        except Exception as problem:
            failed += 1
            text = f"{type(problem).__name__}: {problem}"
            print(json.dumps({"model": name, "failed": text}) if given.json else f"{name:19} FAILED {text}")
            continue
        print(json.dumps(row) if given.json else _text(row), flush=True)
    return 1 if failed else 0


def _text(row: dict[str, Any]) -> str:
    lines = []
    for index, (method, ms) in enumerate(row["ms"].items()):
        file_mb, program_kb = row["file_bytes"] / 1e6, row["program_bytes"] / 1e3
        whole = f"{row['error']:8.1e} {row['compile_s']:9.1f} {file_mb:8.2f} {program_kb:10.1f}"
        lines.append(
            f"{row['model'] if index == 0 else '':19} {method:8} {whole if index == 0 else '':38} "
            f"{row['instructions'][method]:5} {row['arena_bytes'][method] / 1e6:8.2f} {ms:8.1f}  "
            f"{row['answer'] if index == 0 else ''}".rstrip()
        )
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
