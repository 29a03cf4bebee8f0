"""One engine's process: python -m benchmarks.engines NAME, asked by benchmarks.race; see engine.py."""

from __future__ import annotations

import logging
import os
import statistics
import sys
import time
from pathlib import Path

# Weights of the models, after everything of this environment itself.
sys.path += os.environ.get("PENLIGHT_PACKAGES", "").split(os.pathsep)

import numpy as np

from benchmarks.case import Case, difference
from benchmarks.engine import serve
from benchmarks.fresh import newest_source

from . import OURS, Run, engine_module, files, is_stateless

logging.disable(logging.WARNING)
SLOT, WARM = 0.3, 2  # seconds of runs a turn; runs before them


def main(name: str) -> None:
    engine = engine_module(name)
    runs: dict[tuple[str, int], Run] = {}

    def case_of(case: str) -> Case:
        return Case(case, is_stateless(name))

    def make(case: str, root: str, threads: int) -> float | None:
        """Seconds to compile, or None where the files are there and up to date."""
        import torch

        chosen = case_of(case)
        chosen.write(Path(root))
        folder = files(name, Path(root) / chosen.folder, threads)
        if folder.exists() and (name != OURS or folder.stat().st_mtime >= newest_source()):
            return None
        module, args = chosen.build()
        part = folder.with_name(f"{folder.name}.part")
        remove(part)
        part.mkdir(parents=True)
        start = time.perf_counter()
        with torch.no_grad():
            engine.make(module, args, part, threads)
        seconds = time.perf_counter() - start
        remove(folder)
        part.rename(folder)
        return seconds

    def load(case: str, root: str, threads: int) -> dict[str, float]:
        """Open a file and run it once; the ms of both, and the MB of the file."""
        chosen = case_of(case)
        folder = files(name, Path(root) / chosen.folder, threads)
        inputs = chosen.inputs(Path(root))
        engine.warm()
        start = time.perf_counter()
        run = engine.load(folder, inputs, threads)
        opened = time.perf_counter()
        run()
        ran = time.perf_counter()
        runs[case, threads] = run
        size = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
        return {"load_ms": 1e3 * (opened - start), "first_ms": 1e3 * (ran - opened), "file_mb": size / 1e6}

    def start(case: str, root: str, threads: int) -> dict[str, float]:
        """What a process costs that opens a file and runs it: asked of a process that did nothing else."""
        engine.warm()
        before = peak_mb()
        found = load(case, root, threads)
        for _ in range(3):
            runs[case, threads]()
        return found | {"idle_mb": before, "peak_mb": peak_mb()}

    def run(case: str, threads: int, seconds: float = SLOT) -> dict[str, float]:
        """The median and the quickest ms of as many runs as fit in `seconds`."""
        action = runs[case, threads]
        for _ in range(WARM):
            action()
        times: list[float] = []
        until = time.perf_counter() + seconds
        while len(times) < 3 or time.perf_counter() < until:
            begin = time.perf_counter()
            action()
            times.append(1e3 * (time.perf_counter() - begin))
        return {"median": statistics.median(times), "least": min(times)}

    def error(case: str, root: str, threads: int) -> tuple[float, float]:
        """How far the first output is from eager's, after all those runs; see case.difference."""
        got = np.asarray(runs[case, threads]()[0])
        return difference(got, case_of(case).expected(Path(root)))

    def forget(case: str, threads: int) -> None:
        del runs[case, threads]

    serve(make=make, load=load, start=start, run=run, error=error, forget=forget)


def remove(folder: Path) -> None:
    import shutil

    if folder.exists():
        shutil.rmtree(folder)


def peak_mb() -> float:
    """Most memory this process ever held: its own pages and touched pages of mapped files."""
    with open("/proc/self/status") as status:
        return int(next(line for line in status if line.startswith("VmHWM")).split()[1]) / 1e3


if __name__ == "__main__":
    main(sys.argv[1])
