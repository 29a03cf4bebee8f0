"""The optimized kernels of every machine against sums in double, on that machine (tests/cpp/isas)."""

from __future__ import annotations

import re
import signal
import subprocess
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from tests.targets import machines

from penlight.build import vector
from penlight.build.objects import Unit, compile_units
from penlight.build.registration import own_library, render
from penlight.build.sources import SourceTree
from penlight.build.targets import Target, find_target
from penlight.build.toolchain import find_toolchain, zig_command

ROOT = Path(__file__).resolve().parents[2]
ROUNDS = "8"  # an emulator is a hundred times slower than a processor

# Each compiles the kernels for another machine, half a minute.
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(zig_command() is None, reason="ziglang is not installed"),
]

_ARM = find_target("armv7-linux-musleabihf")
_WASI = find_target("wasm32-wasi")
X86 = find_target("x86_64-linux-musl")
OTHERS = {
    "aarch64": find_target("aarch64-linux-musl"),
    "riscv64": find_target("riscv64-linux-musl"),
    "armv7-neon": _ARM,
    "armv7-no-neon": replace(_ARM, name="armv7-linux-musleabihf-vfp", cpu="generic+v7a+vfp3d16-neon"),
    "wasm-simd": _WASI,
    "wasm-no-simd": replace(_WASI, name="wasm32-wasi-mvp", cpu="baseline"),
}
# Processors of qemu's, and the widest set that each has.
PROCESSORS = {
    "qemu64": "base",
    "core2duo": "base",
    "Nehalem": "base",
    "SandyBridge": "base",
    "Haswell": "avx2",
}


def compile_program(target: Target, folder: Path) -> Path:
    """tests/cpp/isas with the optimized kernels, for all sets of the target."""
    compiler = find_toolchain(target)
    tree = SourceTree(compiler.root or ROOT)
    library = tree.root / "kernels" / "optimized"
    sets = vector.instruction_sets(target, "-O2")
    table, faults = own_library(tree.root / "kernels" / "ops.yaml", "optimized")
    assert not faults
    written = folder / "optimized_table.cpp"
    written.write_text(render([table], "ops.yaml"))
    includes = (*tree.include_folders, ROOT / "tests" / "cpp")

    def units(files: list[Path], *defines: str, flags: tuple[str, ...] = ()) -> list[Unit]:
        return [Unit(file, defines, includes, "-O2", flags, generated=file == written) for file in files]

    shared = [
        p
        for name in ("core", "kernel", "platform")
        for p in sorted((tree.root / "runtime" / name).glob("*.cpp"))
    ]
    shared += sorted((tree.root / "kernels" / "common").glob("*.cpp"))
    everything = units([*shared, written, *sorted((ROOT / "tests" / "cpp" / "isas").glob("*.cpp"))])
    everything += units(sorted(library.glob("*.cpp")), *vector.wider_defines(sets))
    for name in sets:
        for file in sorted((library / "vector").glob("*.cpp")):
            everything += units([file], f"PENLIGHT_ISA={name}", flags=vector.vector_flags(name, file.stem))
    program = folder / f"isas{target.program_suffix}"
    compiler.link(compile_units(compiler, tree, everything).objects, program)
    return program


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Callable[[Target], Path]:
    made: dict[str, Path] = {}

    def get(target: Target) -> Path:
        if target.name not in made:
            made[target.name] = compile_program(target, tmp_path_factory.mktemp(target.name))
        return made[target.name]

    return get


def run(command: list[str], *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*command, *words], capture_output=True, text=True, timeout=900, check=False)


def passed(text: str) -> None:
    assert re.search(r"^[1-9]\d* passed, 0 failed$", text, re.MULTILINE), text


@pytest.mark.parametrize("name", OTHERS)
def test_kernels_of(name: str, program: Callable[[Target], Path], tmp_path: Path) -> None:
    target = OTHERS[name]
    if target.runner[0] == "wasmtime":
        machines.run_wasi(program(target), ["isas", "--rounds", ROUNDS], tmp_path)
        passed((tmp_path / "stdout").read_text())
        return
    done = run([machines.need(target.runner[0]), str(program(target))], "--rounds", ROUNDS)
    passed(done.stdout)
    assert done.returncode == 0


def faults_of_qemu() -> list[str]:
    """7.2 reads 16 bytes where a fused multiply-add of one float asks for 4, and takes one element for
    all of a gather whose places are in ymm4. Older ones are taken for as faulty, newer ones are not."""
    version = run([machines.need("qemu-x86_64")], "--version").stdout
    found = re.search(r"version (\d+)", version)
    assert found, version
    return ["--guards", "0", "--gathers", "0"] if int(found[1]) < 8 else []


@pytest.mark.parametrize("name", PROCESSORS)
def test_one_program_for_old_and_new_processors(name: str, program: Callable[[Target], Path]) -> None:
    """The widest set that the processor has is chosen; others, and what it has not, are never run."""
    command = [machines.need("qemu-x86_64"), "-cpu", name, str(program(X86))]
    widest = PROCESSORS[name]
    done = run(command, "--rounds", ROUNDS, *faults_of_qemu())
    passed(done.stdout)
    assert ("avx2: here" in done.stdout) == (widest == "avx2")
    assert "avx512: not here" in done.stdout
    refused = run(command, "--isa", "avx512")
    assert refused.returncode == 2 and "cannot compute with avx512" in refused.stdout


def test_an_old_processor_stops_at_what_it_has_not(tmp_path: Path) -> None:
    """That the emulator knows what a processor lacks is what the test above rests on."""
    emulator = machines.need("qemu-x86_64")
    compiler = find_toolchain(X86)
    source, output = tmp_path / "wide.cpp", tmp_path / "wide.o"
    source.write_text('int main() { __asm__ volatile("vpaddd %ymm0, %ymm0, %ymm0"); return 0; }\n')
    compiler.compile(source, output, flags=("-mavx2",))
    compiler.link([output], tmp_path / "wide")
    assert run([emulator, "-cpu", "Haswell", str(tmp_path / "wide")]).returncode == 0
    stopped = run([emulator, "-cpu", "Nehalem", str(tmp_path / "wide")])
    assert stopped.returncode in (-signal.SIGILL, 128 + signal.SIGILL)


@pytest.mark.skipif(X86.runner != ("native",), reason="not a machine with x86-64 and Linux")
def test_this_processor(program: Callable[[Target], Path]) -> None:
    """What a compiler other than the wheel's makes of the same kernels."""
    done = run([str(program(X86))])
    passed(done.stdout)
