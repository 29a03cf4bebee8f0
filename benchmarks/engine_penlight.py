"""Penlight's side of each measurement; see engine.py."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from .engine import serve, shortest

_programs: dict[tuple[str, str | None, int], Any] = {}


def write(name: str, file: str, target: str = "cpu") -> float:
    """Compile a graph of graphs.build() to a file; seconds, export included."""
    import torch

    import penlight
    from penlight import pipeline  # noqa: F401  importing is not compiling

    from .graphs import build

    module, args = build(name)
    start = time.perf_counter()
    with torch.no_grad():
        penlight.compile(module, args, target=target).save(file)
    return time.perf_counter() - start


def run(name: str, file: str, libraries: str | None = None, threads: int = 1) -> float:
    """Seconds of one run, the quickest of several."""
    import penlight

    from .graphs import build

    key = (file, libraries, threads)
    if key not in _programs:
        _programs[key] = (
            penlight.load(file, libraries=libraries, threads=threads),
            [x.numpy() for x in build(name)[1]],
        )
    program, args = _programs[key]
    return shortest(lambda: program(*args))


def error(name: str, file: str) -> float:
    """Largest difference of the first output from eager, beside the range of it."""
    import numpy as np
    import torch

    import penlight

    from .graphs import build

    module, args = build(name)
    with torch.no_grad():
        want = module(*args)
    first = (want[0] if isinstance(want, tuple | list) else want).numpy()
    found = penlight.load(file)(*(x.numpy() for x in args))
    got = np.asarray(found[0] if isinstance(found, tuple | list) else found)
    return float(np.abs(got - first).max() / np.ptp(first))


def load(file: str) -> float:
    """Seconds from nothing to a method that can run, file cache warm."""
    import penlight

    return shortest(lambda: penlight.load(file).verify())


def shape(file: str) -> dict[str, int]:
    """What a file of either side holds, as our runtime sees it."""
    import penlight

    program = penlight.load(file)
    method = program["forward"]
    return {
        "file": Path(file).stat().st_size,
        "program": program.program_size,
        "arena": sum(method.arena_sizes),
        "instructions": method.instruction_count,
    }


if __name__ == "__main__":
    serve(write=write, run=run, error=error, load=load, shape=shape)
