"""One process an engine, asked by JSON lines, so that engines take turns on the same machine.

An engine file defines measurements, plain functions of JSON values, and calls
`serve`. The asking side is `Engine`.
"""

from __future__ import annotations

import json
import os
import site
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]


def as_installed() -> dict[str, str]:
    """An environment in which a checkout's Python files are kept as byte code, as those of a wheel are."""
    return {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}


class EngineFailed(RuntimeError):
    """What an engine answered instead of a number."""


class Engine:
    """A running engine; call it with the name of a measurement and its arguments."""

    def __init__(self, interpreter: Path | str, module: str, *arguments: str) -> None:
        environment = as_installed() | {
            "OMP_NUM_THREADS": "1",
            "MKL_NUM_THREADS": "1",
            "PYTHONPATH": str(ROOT),
        }
        # Where the models' weights are installed, for an engine whose environment has none.
        environment["PENLIGHT_PACKAGES"] = os.pathsep.join(site.getsitepackages())
        self._process = subprocess.Popen(
            [interpreter, "-W", "ignore", "-m", module, *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            cwd=ROOT,
            env=environment,
        )

    def __call__(self, measurement: str, *args: Any) -> Any:
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write(json.dumps([measurement, *args]) + "\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        if not line:
            raise EngineFailed(f"the engine died with exit code {self._process.wait()}")
        answer = json.loads(line)
        if "error" in answer:
            raise EngineFailed(answer["error"])
        return answer["value"]

    def close(self) -> None:
        if self._process.stdin is not None:
            self._process.stdin.close()
        self._process.wait()


def serve(**measurements: Callable[..., Any]) -> None:
    """Answer until there are no more questions. Whatever libraries print does not reach the answers."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    for line in sys.stdin:
        name, *args = json.loads(line)
        try:
            answer = {"value": measurements[name](*args)}
        except Exception as problem:
            answer = {"error": f"{type(problem).__name__}: {problem}".split("\n")[0][:200]}
        print(json.dumps(answer), file=answers, flush=True)


def shortest(action: Callable[[], Any], seconds: float = 0.3, least: int = 3) -> float:
    """Seconds of the quickest of as many runs as fit in `seconds`, after one to warm up."""
    action()
    times: list[float] = []
    until = time.perf_counter() + seconds
    while len(times) < least or time.perf_counter() < until:
        start = time.perf_counter()
        action()
        times.append(time.perf_counter() - start)
    return min(times)
