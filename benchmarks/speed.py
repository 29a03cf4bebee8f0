"""Latency of real models beside other engines, taking turns on the same machine.

    python -m benchmarks.speed [MODEL...] [--threads 1,2] [--rounds 5] [--json FILE]

Each engine runs in its own process; a round asks every engine once for its quickest
run of 0.3 seconds, and ratios are taken within a round, so that a machine that is
busier for a while is busier for all. The median of the rounds counts. `make engines`
installs the others; one that is missing is left out and said so.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import statistics
import sys
from pathlib import Path
from typing import Any

from .engine import ROOT, Engine, EngineFailed

MODELS = ("mobilenet_v2", "mobilenet_v3_small", "resnet18", "resnet50", "vit_tiny", "minilm")
PEERS = ("xnnpack", "onnxruntime", "openvino")
BUILT = ROOT / "build" / "speed"


class Race:
    """Penlight and the peers that are installed, each a process."""

    def __init__(self) -> None:
        BUILT.mkdir(parents=True, exist_ok=True)
        self.ours = Engine(sys.executable, "benchmarks.engine_penlight")
        folder = Path(os.environ.get("PENLIGHT_PEERS") or ROOT / ".venv-peers")
        python = folder / "bin" / "python"
        self.compiled: dict[str, float] = {}  # seconds
        self.peers: dict[str, Engine] = {}
        if python.exists():
            self.peers = {name: Engine(python, "benchmarks.engine_peers", name) for name in PEERS}
        else:
            print("no other engines: `make engines` installs them", file=sys.stderr)

    def measure(self, model: str, threads: int, rounds: int) -> dict[str, Any]:
        """Seconds by engine, the ratio to the best of them, and errors."""
        file = str(BUILT / f"{model}.pte")
        if model not in self.compiled:
            self.compiled[model] = self.ours("write", model, file)
        running = {}
        for name, peer in self.peers.items():
            try:
                peer("prepare", model, str(BUILT), threads)
                running[name] = peer
            except EngineFailed as problem:
                print(f"{name} does not run {model}: {problem}", file=sys.stderr)
        times: dict[str, list[float]] = {name: [] for name in ("penlight", *running)}
        for _ in range(rounds):
            times["penlight"].append(self.ours("run", model, file, None, threads))
            for name, peer in running.items():
                times[name].append(peer("run", model, threads))
        ratios = [
            times["penlight"][i] / min(times[name][i] for name in running) for i in range(rounds) if running
        ]
        return {
            "model": model,
            "threads": threads,
            "ms": {name: statistics.median(values) * 1e3 for name, values in times.items()},
            "ratio": statistics.median(ratios) if ratios else None,
            "errors": {
                "penlight": self.ours("error", model, file),
                **{name: peer("error", model, threads) for name, peer in running.items()},
            },
            "compile_s": self.compiled[model],
            "file_mb": Path(file).stat().st_size / 1e6,
        }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("models", nargs="*", default=MODELS)
    parser.add_argument("--threads", default="1,2")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    race, results = Race(), []
    head = "".join(f"{name:>13}" for name in ("penlight", *PEERS))
    print(
        f"{'model':22}{'threads':>7}{head}{'ratio':>8}{'error':>9}"
        "   (ms, quickest; ratio to the best other; our error against eager, of the range)"
    )
    for threads in (int(number) for number in options.threads.split(",")):
        ratios = []
        for model in options.models or MODELS:
            found = race.measure(model, threads, options.rounds)
            results.append(found)
            cells = "".join(
                f"{found['ms'][name]:13.3f}" if name in found["ms"] else f"{'-':>13}"
                for name in ("penlight", *PEERS)
            )
            ratio = f"{found['ratio']:8.2f}" if found["ratio"] else f"{'-':>8}"
            ratios += [found["ratio"]] if found["ratio"] else []
            error = f"{found['errors']['penlight']:9.1e}"
            print(f"{model:22}{threads:>7}{cells}{ratio}{error}", flush=True)
        if ratios:
            mean = math.exp(statistics.fmean(math.log(ratio) for ratio in ratios))
            print(f"{'geometric mean':22}{threads:>7}{'':>{13 * (1 + len(PEERS))}}{mean:8.2f}", flush=True)
    if options.json:
        options.json.write_text(json.dumps(results, indent=1))


if __name__ == "__main__":
    main()
