"""What this machine can do at most: multiply-adds and copies, measured by peak.c."""

from __future__ import annotations

import bisect
import os
import subprocess
from dataclasses import dataclass
from pathlib import Path

from .engine import ROOT

SIZES = [2**power for power in range(14, 29, 2)]  # bytes of a copy, both sides together


@dataclass(frozen=True)
class Peak:
    """GFLOP/s, and GB/s of of copies that move SIZES bytes."""

    gflops: float
    gbps: list[float]

    def bandwidth(self, count: int) -> float:
        """GB/s of a copy that reads and writes `count` bytes: the next smaller size's, cached as it is."""
        return self.gbps[max(0, bisect.bisect_right(SIZES, count) - 1)]

    def least_us(self, flop: int, count: int) -> float:
        """How long it takes at the least to do so much arithmetic and move so many bytes."""
        return max(flop / self.gflops, count / self.bandwidth(count)) / 1e3


def measure(threads: int) -> Peak:
    program = ROOT / "build" / "peak"
    source = Path(__file__).with_name("peak.c")
    if not program.exists() or program.stat().st_mtime < source.stat().st_mtime:
        program.parent.mkdir(exist_ok=True)
        compiler = os.environ.get("CC", "cc")
        subprocess.run([compiler, "-O3", "-march=native", "-pthread", source, "-o", program], check=True)
    command = [program, str(threads), *map(str, SIZES)]
    found = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
    return Peak(float(found[0]), [float(rate) for rate in found[1:]])
