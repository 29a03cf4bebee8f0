"""What this machine can do at most: multiply-adds and copies, measured by peak.c."""

from __future__ import annotations

import subprocess

from .c_code import compiled

SMALLEST = 2**14  # bytes of a copy, both sides together


class Peak:
    """Of so many threads; copies are measured when they are asked for, each size once."""

    def __init__(self, threads: int) -> None:
        self.threads = threads
        self.gflops = self._run()[0]
        self.gbps: dict[int, float] = {}

    def bandwidth(self, count: int) -> float:
        """GB/s of a copy, done again and again, that reads and writes `count` bytes together."""
        count = max(SMALLEST, count)
        if count not in self.gbps:
            self.gbps[count] = self._run(count)[1]
        return self.gbps[count]

    def least_us(self, flop: int, count: int) -> float:
        """How long it takes at the least to do so much arithmetic and move so many bytes."""
        return max(flop / self.gflops, count / self.bandwidth(count)) / 1e3

    def _run(self, *sizes: int) -> list[float]:
        command = [compiled("peak", "-O3", "-march=native", "-pthread"), str(self.threads), *map(str, sizes)]
        found = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
        return [float(rate) for rate in found]
