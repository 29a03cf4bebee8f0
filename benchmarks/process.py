"""What a fresh process pays for the runtime: time to import, memory to hold."""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
from typing import Any

from .engine import as_installed

_SCRIPT = """
import json, time, numpy
def resident(most=False):
    with open("/proc/self/status") as status:
        return int(next(line for line in status if line.startswith("VmHWM" if most else "VmRSS")).split()[1])
before, start = resident(), time.perf_counter()
{statement}
print(json.dumps([1e3 * (time.perf_counter() - start), before / 1e3, resident() / 1e3, resident(True) / 1e3]))
"""

PENLIGHT = "import penlight.runtime.library as found; found.library()"
EXECUTORCH = "from executorch.extension.pybindings import portable_lib"


def cost(interpreter: str = sys.executable, statement: str = PENLIGHT, rounds: int = 5) -> dict[str, Any]:
    """Medians: ms of the import with numpy already in, MB resident before and after it, and at most."""
    rows = []
    for _ in range(1 + rounds):
        command = [interpreter, "-W", "ignore", "-c", _SCRIPT.format(statement=statement)]
        done = subprocess.run(command, capture_output=True, text=True, check=True, env=as_installed())
        rows.append(json.loads(done.stdout.splitlines()[-1]))
    # The first may have written byte code.
    ms, before, after, most = (statistics.median(column) for column in zip(*rows[1:], strict=True))
    return {"ms": ms, "numpy_mb": before, "mb": after, "peak_mb": most}
