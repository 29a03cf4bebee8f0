"""Engines that compute as on a processor without AVX-512: `python -m benchmarks.race --isa avx2`.

Libraries ask CPUID what the processor has, each by itself and most in their constructors. Here
these instructions are found, by disassembling what is installed, and the dynamic linker replaces them
when it has opened a library: without_avx512.c. What a C library chooses for itself stays.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from .c_code import compiled
from .engine import ROOT

CPUID = b"\x0f\xa2"
COMPILERS = ("cc", "c++", "gcc", "g++", "clang", "clang++")  # what is native they ask CPUID


def hide_avx512(folders: Iterable[Path]) -> None:
    """From compilers and libraries in `folders`, in processes started from now on. Minutes the first time.

    Ends the program where objdump is missing, or it is no Linux.
    """
    processor = Path("/proc/cpuinfo")
    if not processor.exists():
        raise SystemExit("`--isa avx2` hides AVX-512 from engines on Linux only")
    if "avx512f" not in processor.read_text():
        return
    paths = {Path(found).resolve() for name in COMPILERS if (found := shutil.which(name))}
    files = {_name(path): path for path in paths.union(*map(_libraries, folders))}
    known = ROOT / "build" / "cpuid.json"
    places: dict[str, list[str]] = json.loads(known.read_text()) if known.exists() else {}
    new = [name for name in files if name not in places]
    with ThreadPoolExecutor(os.cpu_count()) as workers:
        places |= zip(new, workers.map(_places, (files[name] for name in new)), strict=True)
    _write(known, json.dumps({name: places[name] for name in files}, indent=1))
    listed = known.with_suffix(".places")
    _write(listed, "".join(f"{at} {path}\n" for name, path in files.items() for at in places[name]))
    os.environ["CPUID_PLACES"] = str(listed)
    os.environ["LD_AUDIT"] = str(compiled("without_avx512", "-O2", "-shared", "-fPIC"))


def _libraries(folder: Path) -> set[Path]:
    """Each once, by the name that is no link."""
    return {path.resolve() for path in folder.rglob("*.so*") if path.is_file()}


def _name(path: Path) -> str:
    """A file and which one it is, for what was found in it stays true of no other."""
    file = path.stat()
    return f"{path}:{file.st_size}:{file.st_mtime_ns}"


def _places(path: Path) -> list[str]:
    """Where a program or library has CPUID: addresses within it, hexadecimal."""
    if CPUID not in path.read_bytes():
        return []
    disassembler = shutil.which("objdump")
    if disassembler is None:
        raise SystemExit("`--isa avx2` needs objdump, of binutils, to find what asks for AVX-512")
    command = [disassembler, "--disassemble", "--no-show-raw-insn", path]
    found = []
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as lines:
        assert lines.stdout is not None
        for line in lines.stdout:
            address, _, instruction = line.partition(b":\t")
            if instruction.startswith(b"cpuid"):
                found.append(address.strip().decode())
    if lines.returncode != 0:
        raise SystemExit(f"objdump cannot read {path}, which may use AVX-512: `--isa avx2` needs to know")
    return found


def _write(path: Path, text: str) -> None:
    part = path.with_name(f"{path.name}.part")
    part.parent.mkdir(exist_ok=True)
    part.write_text(text)
    part.replace(path)
