"""What Penlight compiles for: one list, which the command line, the docs and CI read.

A target is data alone; toolchain.py turns it into compiler calls. Hosted targets
have an operating system (or WASI) and the C library that comes with it. Bare ones
have neither: start-up code, memory functions and output come from `platforms/`.
"""

from __future__ import annotations

import platform
import sys
from dataclasses import dataclass, replace
from difflib import get_close_matches
from typing import Literal

from penlight.errors import InvalidInput, TargetNotFound

Format = Literal["elf", "macho", "coff", "wasm"]

_SUFFIX = {"elf": "", "macho": "", "coff": ".exe", "wasm": ".wasm"}


@dataclass(frozen=True)
class Memory:
    """Memory map of a bare board: addresses and sizes in bytes."""

    flash_at: int
    flash: int
    ram_at: int
    ram: int


@dataclass(frozen=True)
class Target:
    """One machine to compile for."""

    name: str
    about: str  # one line for lists of targets
    triple: str  # as gcc and clang spell it; empty for the host
    zig: str  # as zig spells it
    cpu: str = "baseline"  # zig's -mcpu: processor+features
    flags: tuple[str, ...] = ()  # what gcc and clang need beside the triple
    kind: Literal["hosted", "bare"] = "hosted"
    word: int = 64  # bits of a pointer
    format: Format = "elf"
    memory: Memory | None = None  # of a bare board
    runner: tuple[str, ...] = ()  # what runs its programs on a Linux host; () where nothing does
    aliases: tuple[str, ...] = ()

    @property
    def program_suffix(self) -> str:
        return ".elf" if self.memory else _SUFFIX[self.format]

    @property
    def library_suffix(self) -> str:
        return ".a"

    def with_memory(
        self,
        *,
        flash: int | None = None,
        ram: int | None = None,
        flash_at: int | None = None,
        ram_at: int | None = None,
    ) -> Target:
        """The same processor on a board with another memory map; addresses and sizes in bytes."""
        if self.memory is None:
            raise InvalidInput(
                f"target {self.name} has no memory map to change",
                do=f"flash and RAM are given for boards: {', '.join(t.name for t in TARGETS if t.memory)}",
            )
        given = {"flash": flash, "ram": ram, "flash_at": flash_at, "ram_at": ram_at}
        changed = {name: value for name, value in given.items() if value is not None}
        for name, value in changed.items():
            smallest = 0 if name.endswith("_at") else 1024
            if value % 8 or not smallest <= value < 1 << self.word:
                raise InvalidInput(
                    f"{name} of target {self.name} cannot be {value}",
                    do=f"give bytes: a multiple of 8, at least {smallest}, less than 2^{self.word}",
                )
        return replace(self, memory=replace(self.memory, **changed))


def _machine() -> str:
    return {"AMD64": "x86_64", "arm64": "aarch64"}.get(platform.machine(), platform.machine())


def _host() -> Target:
    shapes: dict[str, Format] = {"darwin": "macho", "win32": "coff"}
    return Target(
        "host",
        f"this machine: {_machine()}, {platform.system()}",
        triple="",
        zig="native",
        word=64 if sys.maxsize > 1 << 32 else 32,
        format=shapes.get(sys.platform, "elf"),
        runner=("native",),
        aliases=("native",),
    )


def _linux(name: str, about: str, runner: str, aliases: tuple[str, ...] = ()) -> Target:
    return Target(name, about, triple=name, zig=name, runner=(runner,), aliases=aliases)


def _arm_linux(abi: str, about: str, aliases: tuple[str, ...] = ()) -> Target:
    # The FPU is named for both: a triple alone leaves it to the compiler's own idea of the least ARMv7.
    return Target(
        f"armv7-linux-{abi}",
        about,
        triple=f"arm-linux-{abi}",
        zig=f"arm-linux-{abi}",
        cpu="generic+v7a+vfp3+neon",
        flags=("-march=armv7-a", "-mfpu=neon-vfpv3", "-mfloat-abi=hard"),
        word=32,
        runner=("qemu-arm",),
        aliases=(f"arm-linux-{abi}", *aliases),
    )


def _cortex_m(
    name: str,
    about: str,
    cpu: str,
    flags: tuple[str, ...],
    machine: str,
    flash_kib: int,
    ram_kib: int,
    aliases: tuple[str, ...] = (),
) -> Target:
    # All Cortex-M have code from 0 and RAM from 0x20000000; the sizes are a common board's. A
    # hard-float ABI does not make zig use the FPU: the processor's features have to name it.
    hard = "-mfloat-abi=hard" in flags
    return Target(
        name,
        f"{about}; {flash_kib} KiB flash, {ram_kib} KiB RAM",
        triple="arm-none-eabi",
        zig="thumb-freestanding-eabihf" if hard else "thumb-freestanding-eabi",
        cpu=cpu,
        flags=("-mthumb", *flags),
        kind="bare",
        word=32,
        memory=Memory(0, flash_kib << 10, 0x20000000, ram_kib << 10),
        runner=("qemu-system-arm", "-M", machine),
        aliases=aliases,
    )


HOST = _host()
_X86 = "native" if sys.platform == "linux" and _machine() == "x86_64" else "qemu-x86_64"

# zig links glibc's stubs within seconds; it builds musl once, in half a minute, and then gives
# programs that need nothing of the system they run on.
TARGETS: tuple[Target, ...] = (
    HOST,
    _linux("x86_64-linux-gnu", "Linux on x86-64, glibc", _X86, ("x86_64-linux",)),
    _linux("x86_64-linux-musl", "Linux on x86-64, static", _X86),
    _linux("aarch64-linux-gnu", "Linux on 64-bit Arm, glibc", "qemu-aarch64", ("aarch64-linux",)),
    _linux("aarch64-linux-musl", "Linux on 64-bit Arm, static", "qemu-aarch64"),
    _linux("riscv64-linux-gnu", "Linux on 64-bit RISC-V, glibc", "qemu-riscv64", ("riscv64-linux",)),
    _linux("riscv64-linux-musl", "Linux on 64-bit RISC-V, static", "qemu-riscv64"),
    _arm_linux("gnueabihf", "Linux on ARMv7 with NEON, glibc", ("armv7-linux",)),
    _arm_linux("musleabihf", "Linux on ARMv7 with NEON, static"),
    Target(
        "wasm32-wasi",
        "WebAssembly with files and clock (WASI)",
        triple="wasm32-wasi",
        zig="wasm32-wasi",
        cpu="baseline+simd128",
        flags=("-msimd128",),
        word=32,
        format="wasm",
        runner=("wasmtime",),
    ),
    Target(
        "wasm32-browser",
        "WebAssembly module of exported functions, which imports nothing",
        triple="wasm32-unknown-unknown",
        zig="wasm32-freestanding",
        cpu="baseline+simd128",
        flags=("-msimd128",),
        kind="bare",
        word=32,
        format="wasm",
        runner=("wasmtime",),
        aliases=("wasm32",),
    ),
    Target(
        "x86_64-windows",
        "Windows on x86-64",
        triple="x86_64-w64-mingw32",
        zig="x86_64-windows-gnu",
        format="coff",
        runner=("wine",),
        aliases=("x86_64-windows-gnu",),
    ),
    Target(
        "aarch64-macos",
        "macOS on Apple silicon",
        triple="arm64-apple-macos11",
        zig="aarch64-macos",
        format="macho",
    ),
    Target(
        "x86_64-macos",
        "macOS on x86-64",
        triple="x86_64-apple-macos11",
        zig="x86_64-macos",
        format="macho",
    ),
    _cortex_m("cortex-m3", "Cortex-M3", "cortex_m3", ("-mcpu=cortex-m3",), "mps2-an385", 1024, 256),
    _cortex_m(
        "cortex-m4f",
        "Cortex-M4 with FPU",
        "cortex_m4+vfp4d16sp",
        ("-mcpu=cortex-m4", "-mfpu=fpv4-sp-d16", "-mfloat-abi=hard"),
        "mps2-an386",
        1024,
        256,
        ("cortex-m4",),
    ),
    _cortex_m(
        "cortex-m7",
        "Cortex-M7 with single-precision FPU",
        "cortex_m7+fp_armv8d16sp",
        ("-mcpu=cortex-m7", "-mfpu=fpv5-sp-d16", "-mfloat-abi=hard"),
        "mps2-an500",
        2048,
        512,
    ),
    _cortex_m(
        "cortex-m55",
        "Cortex-M55 with FPU",
        "cortex_m55+fp_armv8d16",
        ("-mcpu=cortex-m55+nomve", "-mfloat-abi=hard"),
        "mps3-an547",
        512,
        512,
    ),
)


def find_target(name: str) -> Target:
    """The target of a name, an alias or a triple.

    Raises:
        TargetNotFound: offers the nearest names.
    """
    wanted = name.strip().lower()
    known: dict[str, Target] = {}
    for target in TARGETS:
        for word in (target.name, *target.aliases):
            known[word] = target
    for target in TARGETS:
        # A triple that several boards share names none of them.
        if target.triple and sum(other.triple == target.triple for other in TARGETS) == 1:
            known.setdefault(target.triple, target)
    if wanted in known:
        return known[wanted]
    names = [target.name for target in TARGETS]
    close = list(dict.fromkeys(known[word].name for word in get_close_matches(wanted, known, 4, 0.5)))
    raise TargetNotFound(
        f"no target {name!r}" + (f"; did you mean {' or '.join(close[:3])}?" if close else ""),
        got=name or "an empty name",
        do=f"use one of {', '.join(names)}; or give a CMake toolchain file for another machine",
    )
