"""The environment where the `executorch` wheel lives, driven from ours through one process."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
MISSING = "no peers' environment: `make peers` makes .venv-peers, PENLIGHT_PEERS names another"


def python() -> Path | None:
    """The interpreter of the peers' environment, None where there is none."""
    folder = Path(os.environ.get("PENLIGHT_PEERS") or ROOT / ".venv-peers")
    path = folder / "bin" / "python"
    return path if path.exists() else None


class PeerFailed(RuntimeError):
    """What the peer answered instead of a result."""


class Peer:
    """A server in the peers' environment; started by the first job, again if a job kills it."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[str] | None = None

    def __call__(self, **job: Any) -> dict[str, Any]:
        if self._process is None or self._process.poll() is not None:
            interpreter = python()
            if interpreter is None:
                raise PeerFailed(MISSING)
            script = Path(__file__).with_name("make_executorch.py")
            pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
            self._process = subprocess.Popen([interpreter, script, "serve"], text=True, **pipes)
        stdin, stdout = self._process.stdin, self._process.stdout
        assert stdin is not None and stdout is not None
        stdin.write(json.dumps(job) + "\n")
        stdin.flush()
        line = stdout.readline()
        if not line:
            raise PeerFailed(f"the peer's process died (exit code {self._process.wait()})")
        answer: dict[str, Any] = json.loads(line)
        if not answer["ok"]:
            raise PeerFailed(answer["error"])
        return answer

    def close(self) -> None:
        if self._process is not None and self._process.stdin is not None:
            self._process.stdin.close()
            self._process.wait(60)
