"""A CMake project of your own: find_package(penlight), a model within the binary, your operator in it.

    python examples/08_cmake_project.py

examples/cmake_project holds all that a user writes: a CMakeLists.txt of ten lines, main.cpp, and the
operator. The first time this also builds runtime and kernels, inside the project's build folder.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import torch

import penlight
import penlight.ops

ROOT = Path(__file__).parents[1]
NATIVE = ROOT / "build" / "native"
PROJECT = ROOT / "examples" / "cmake_project"
BUILD = ROOT / "build" / "examples" / "cmake_project"


def run(*command: str | Path) -> str:
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(done.stdout + done.stderr)
    return done.stdout


def main() -> None:
    cmake = shutil.which("cmake", path=str(Path(sys.executable).parent)) or shutil.which("cmake")
    if cmake is None:
        raise SystemExit("needs CMake: pip install cmake")
    swing = penlight.ops.load(PROJECT / "swing.cpp")

    class Net(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.relu(swing(x))

    x = torch.tensor([[-2.0, -1.0, 1.0, 2.0]])
    BUILD.mkdir(parents=True, exist_ok=True)
    model = penlight.compile(Net(), (x,)).save(BUILD / "net.pte")

    package = run(sys.executable, "-m", "penlight", "--cmake-dir").strip()
    options = [f"-Dpenlight_DIR={package}", f"-DMODEL={model}", "-DCMAKE_BUILD_TYPE=Release"]
    if (NATIVE / "CMakeCache.txt").exists():  # `make build` made the libraries already
        options.append(f"-DPENLIGHT_BUILT={NATIVE}")
    run(cmake, "-S", PROJECT, "-B", BUILD, *options)
    run(cmake, "--build", BUILD, "--parallel", "2")
    printed = run(BUILD / "app", model)
    print(printed, end="")
    for line in printed.splitlines():
        got = torch.tensor([[float(number) for number in line.split()[1:]]])
        torch.testing.assert_close(got, Net()(x), atol=1e-5, rtol=1e-5)
    print("eager   ", *[f"{value:.6f}" for value in Net()(x)[0].tolist()])


if __name__ == "__main__":
    main()
