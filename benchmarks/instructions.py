"""Instructions that layers execute with vectors and without, for processors that are not here.

    python -m benchmarks.instructions [--json]

The same programs with the same kernels are compiled for NEON and for the processor without it, and
run under qemu's user mode, which counts (instructions.c). Counts are no times: an instruction on
four floats is rarely as quick as one on one. But they do not depend on the machine that counts.
"""

from __future__ import annotations

import argparse
import json
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import torch
from torch import Tensor, nn

import penlight
from penlight.build.build import BuildOptions, build
from penlight.build.targets import Target, find_target

PLUGIN = Path(__file__).with_suffix(".c")
# The same machines without vectors; scalar floats they keep.
SCALAR = {"aarch64-linux-musl": "generic-neon", "armv7-linux-musleabihf": "generic+v7a+vfp3d16-neon"}
COUNTED = re.compile(r"instructions executed: (\d+)")
_NEEDED = ("qemu-aarch64", "qemu-arm", "cc")


class Attention(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return nn.functional.scaled_dot_product_attention(x, x, x)


def layers() -> dict[str, tuple[nn.Module, Tensor]]:
    torch.manual_seed(0)
    image = torch.randn(1, 32, 28, 28)
    return {
        "convolution_3x3": (nn.Conv2d(32, 32, 3, padding=1), image),
        "convolution_1x1": (nn.Conv2d(32, 64, 1), image),
        "depthwise_3x3": (nn.Conv2d(32, 32, 3, padding=1, groups=32), image),
        "linear_one_row": (nn.Linear(256, 256), torch.randn(1, 256)),
        "linear": (nn.Linear(256, 256), torch.randn(32, 256)),
        "attention": (Attention(), torch.randn(1, 4, 48, 32)),
        "max_pool": (nn.MaxPool2d(2), image),
        "layer_norm": (nn.LayerNorm(256), torch.randn(32, 256)),
        "softmax": (nn.Softmax(-1), torch.randn(32, 256)),
        "gelu": (nn.GELU(), torch.randn(32, 256)),
    }


def programs(folder: Path) -> list[Path]:
    made = []
    for name, (module, x) in layers().items():
        path = folder / f"{name}.pte"
        penlight.compile(module.eval(), (x,)).save(path)
        made.append(path)
    return made


def plugin(folder: Path, qemu: str) -> Path:
    """Compiled for the version of the interface that this qemu speaks."""
    for version in range(1, 8):
        output = folder / f"instructions{version}.so"
        command = ["cc", "-O2", "-shared", "-fPIC", f"-DQEMU_PLUGIN_VERSION={version}"]
        subprocess.run([*command, str(PLUGIN), "-o", str(output)], check=True)
        probe = subprocess.run(
            [qemu, "-plugin", str(output), "/no-such-program"], capture_output=True, text=True
        )
        if "plugin" not in probe.stderr.lower():
            return output
    raise SystemExit(f"{qemu} takes no plug-ins: {probe.stderr.strip()}")


def count(command: list[str]) -> int:
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    found = COUNTED.search(done.stderr)
    assert found, done.stderr
    return int(found[1])


def measure(folder: Path) -> Iterator[dict[str, str | int]]:
    models = programs(folder)
    for name, cpu in SCALAR.items():
        vector = find_target(name)
        builds: dict[str, Target] = {
            "vector": vector,
            "scalar": replace(vector, name=f"{name}-scalar", cpu=cpu),
        }
        binaries = {
            kind: build(
                BuildOptions(models, target=target, optimize="-O2", output=folder / target.name)
            ).files[0]
            for kind, target in builds.items()
        }
        counter = plugin(folder, vector.runner[0])
        for model in models:
            row: dict[str, str | int] = {"target": name, "layer": model.stem}
            for kind, binary in binaries.items():
                run = [*vector.runner, "-plugin", str(counter), str(binary), "--model", model.stem, "-n"]
                row[kind] = (count([*run, "3"]) - count([*run, "1"])) // 2
            yield row


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.instructions", description=__doc__.split("\n")[0]
    )
    parser.add_argument("--json", action="store_true", help="one JSON object a line")
    given = parser.parse_args()
    missing = [tool for tool in _NEEDED if shutil.which(tool) is None]
    if missing:
        print(f"needs {', '.join(missing)} (Debian: qemu-user, gcc)", file=sys.stderr)
        return 1
    if not given.json:
        print(f"{'target':24} {'layer':16} {'vector':>12} {'scalar':>12} {'ratio':>6}")
    with tempfile.TemporaryDirectory() as folder:
        for row in measure(Path(folder)):
            if given.json:
                print(json.dumps(row), flush=True)
                continue
            vector, scalar = int(row["vector"]), int(row["scalar"])
            print(
                f"{row['target']:24} {row['layer']:16} {vector:>12,} {scalar:>12,} {scalar / vector:>5.1f}x",
                flush=True,
            )
    return 0


if __name__ == "__main__":
    sys.exit(main())
