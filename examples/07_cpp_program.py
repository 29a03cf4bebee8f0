"""A C++ program around a model: examples/cpp, built with CMake, run on a file made here.

    python examples/07_cpp_program.py

The program is 30 lines of C++ over penlight/module.h; it links no Python and no torch.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import torch

import penlight

ROOT = Path(__file__).parents[1]
NATIVE = ROOT / "build" / "native"
BUILD = ROOT / "build" / "examples" / "cpp"


def build() -> Path:
    """The program's path; the first time this also builds the runtime and its kernels."""
    here = Path(sys.executable).parent
    cmake = shutil.which("cmake") or shutil.which("cmake", path=str(here))
    if cmake is None:
        raise SystemExit("needs CMake: pip install cmake")
    configure = [cmake, "-S", ROOT / "examples" / "cpp", "-B", BUILD, "-DCMAKE_BUILD_TYPE=Release"]
    if (NATIVE / "CMakeCache.txt").exists():  # `make build` made the libraries already
        configure.append(f"-DPENLIGHT_BUILT={NATIVE}")
    for command in (
        [*configure, f"-DPython_EXECUTABLE={sys.executable}"],
        [cmake, "--build", BUILD, "--target", "classify", "--parallel", "2"],
    ):
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode:
            raise SystemExit(done.stdout + done.stderr)
    return BUILD / "classify"


def main() -> None:
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.GELU(), torch.nn.Linear(16, 3)).eval()
    program = penlight.compile(model, (torch.randn(1, 8),))
    classify = build()
    file = program.save(BUILD / "model.pte")
    done = subprocess.run([classify, file], capture_output=True, text=True, check=True)
    got = torch.tensor([float(line) for line in done.stdout.split()])
    with torch.no_grad():
        want = model(torch.arange(8)[None] * 0.5)[0]
    torch.testing.assert_close(got, want, atol=1e-5, rtol=1e-5)
    print("C++ ", got.tolist())
    print("eager", [round(value, 6) for value in want.tolist()])
    megabytes = classify.stat().st_size / 1e6
    print(f"program {megabytes:.1f} MB with every kernel, model {file.stat().st_size} bytes")


if __name__ == "__main__":
    main()
