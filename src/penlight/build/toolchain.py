"""Compilers: from a target to objects, archives and programs.

Three kinds give one Toolchain: the compiler of this machine, zig (the package
`ziglang`, which has headers and libraries of every hosted target within it), and
whatever compiler the user names, by command or by CMake toolchain file. Nothing
is ever linked with a C++ standard library.
"""

from __future__ import annotations

import importlib.util
import os
import shlex
import shutil
import subprocess
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from penlight.build.image import Sizes, read_sizes
from penlight.build.targets import HOST, Target
from penlight.errors import BuildFailed, FileMissing, NoToolchain

# What results and sizes depend on, so every compiler gets it: no multiply and add are fused
# where another compiler would not, and sections can be left out one by one.
_COMMON = (
    "-ffunction-sections",
    "-fdata-sections",
    "-fvisibility=hidden",
    "-ffp-contract=off",
    "-fno-math-errno",
    "-fno-asynchronous-unwind-tables",
    "-fno-unwind-tables",
)
_CXX = ("-std=c++17", "-fno-exceptions", "-fno-rtti", "-fno-threadsafe-statics")
SOURCE_SUFFIXES = (".cpp", ".cc", ".cxx")  # of C++


@dataclass(frozen=True)
class Toolchain:
    """A compiler, ready to compile for one target. Safe to use from several threads."""

    target: Target
    label: str  # "ziglang 0.17.0"
    cc: tuple[str, ...]  # commands, with what selects the target
    cxx: tuple[str, ...]
    ar: tuple[str, ...]
    style: str  # "zig", "gcc" or "clang"
    compile_flags: tuple[str, ...] = ()
    link_flags: tuple[str, ...] = ()
    root: Path | None = None  # folder of platforms/, for bare targets
    cache: Path | None = None  # zig's

    def describe(self) -> str:
        return self.label

    @property
    def key(self) -> str:
        """Changes whenever an object compiled before is of no more use."""
        return "\0".join([self.label, *self.cc, *self.cxx, *self.compile_flags, *_COMMON, *_CXX])

    def compile(
        self,
        source: Path,
        output: Path,
        *,
        flags: Sequence[str] = (),
        defines: Sequence[str] = (),
        includes: Sequence[Path] = (),
        optimize: str = "-Os",
        depfile: bool = False,
    ) -> None:
        """Compile one C or C++ file to an object.

        Args:
            flags: after all others, so that they win.
            defines: NAME or NAME=VALUE.
            optimize: -Os, -O2, ...
            depfile: also write what the object depends on, in make's syntax, to `output` + ".d".

        Raises:
            BuildFailed: with the compiler's own words.
        """
        is_cxx = source.suffix in SOURCE_SUFFIXES
        command = [*(self.cxx if is_cxx else self.cc), *self.compile_flags, optimize, *_COMMON]
        command += _CXX if is_cxx else ("-std=c11",)
        command += [f"-D{define}" for define in defines]
        command += [f"-I{folder}" for folder in [*includes, *self._freestanding_includes()]]
        if depfile:
            command += ["-MMD", "-MF", f"{output}.d"]
        output.parent.mkdir(parents=True, exist_ok=True)
        self._run(
            [*command, *flags, "-c", str(source), "-o", str(output)], f"compiling {source.name}", source
        )

    def link(
        self,
        objects: Sequence[Path],
        output: Path,
        *,
        libraries: Sequence[str] = (),
        flags: Sequence[str] = (),
        script: Path | None = None,
        map_file: Path | None = None,
        strip: bool = True,
        exports: Sequence[str] = (),
    ) -> None:
        """Link a program. What nothing refers to is left out.

        Args:
            objects: objects and archives.
            libraries: names of system libraries, beside the C and math ones.
            script: linker script of a bare board.
            map_file: where the linker writes its map (ELF targets).
            exports: functions that a WebAssembly module shows.

        Raises:
            BuildFailed: with the linker's own words.
        """
        target = self.target
        command = [*self.cc, *self.compile_flags, *self.link_flags]
        if self.style == "zig":
            # Of the C library and compiler_rt, which it builds at this point; names go unless asked for.
            command += ["-Os"] if strip else ["-Os", "-g"]
        command += ["-Wl,-dead_strip"] if target.format == "macho" else ["-Wl,--gc-sections"]
        if target.kind == "bare":
            command.append("-nostdlib")
        if target.memory:
            command += ["-static", "-Wl,-e,Reset_Handler", *([f"-Wl,-T,{script}"] if script else [])]
        elif target.kind == "bare":
            command += ["-Wl,--no-entry", *(f"-Wl,--export={name}" for name in exports)]
        elif "musl" in target.name:
            command.append("-static")
        if map_file and target.format == "elf":
            command.append(f"-Wl,-Map={map_file}")
        if strip:
            command.append("-s")
        command += [*flags, *(str(path) for path in objects), *(f"-l{name}" for name in libraries)]
        if target.kind == "bare":
            # Integer division and soft floats come with the compiler.
            command.append("-lcompiler_rt" if self.style == "zig" else "-lgcc")
        elif target.format in ("elf", "wasm"):
            command.append("-lm")
        output.parent.mkdir(parents=True, exist_ok=True)
        self._run([*command, "-o", str(output)], f"linking {output.name}", output)

    def archive(self, objects: Sequence[Path], output: Path) -> None:
        """Make a static library of `objects`; one that was there is replaced."""
        output.parent.mkdir(parents=True, exist_ok=True)
        output.unlink(missing_ok=True)
        self._run([*self.ar, "rcs", str(output), *map(str, objects)], f"archiving {output.name}", output)

    def size(self, file: Path) -> Sizes:
        """Bytes of code, constants and data of an object or program."""
        return read_sizes(file)

    def _freestanding_includes(self) -> Iterable[Path]:
        if self.target.kind == "bare" and self.root:
            yield self.root / "platforms" / "freestanding" / "include"

    def _run(self, command: list[str], doing: str, where: Path) -> None:
        environment = {**os.environ, "LC_ALL": "C"}
        if self.style == "zig" and self.cache:
            environment["ZIG_GLOBAL_CACHE_DIR"] = environment["ZIG_LOCAL_CACHE_DIR"] = str(self.cache)
        try:
            done = subprocess.run(
                command, capture_output=True, text=True, errors="replace", env=environment, check=False
            )
        except OSError as error:
            raise NoToolchain(
                f"{command[0]} does not start: {error.strerror or error}",
                where=doing,
                do="give another compiler with --compiler",
            ) from error
        if done.returncode:
            said = (done.stderr or done.stdout).strip() or f"exit code {done.returncode}, without a word"
            raise BuildFailed(
                f"{doing} for {self.target.name} failed", where=str(where), got=said, do=_advice(said)
            )


def source_root() -> Path:
    """The folder that has runtime/, kernels/ and platforms/: the checkout, or what the wheel ships."""
    package = Path(__file__).resolve().parent.parent
    for root in (package / "share", package.parent.parent):
        if (root / "runtime").is_dir() and (root / "platforms").is_dir():
            return root
    raise FileMissing(
        "the sources of runtime and kernels are not where Penlight is installed",
        where=str(package),
        do="reinstall penlight",
    )


def find_toolchain(
    target: Target | None,
    *,
    compiler: str | None = None,
    toolchain_file: Path | None = None,
    cache: Path | None = None,
) -> Toolchain:
    """The compiler for a target.

    Args:
        target: None only with a toolchain file, which then says what it compiles for.
        compiler: command of a C++ compiler, gcc or clang, arguments included.
        toolchain_file: a CMake toolchain file, read by CMake itself.
        cache: zig's cache; by default ZIG_GLOBAL_CACHE_DIR, or one in the user's cache folder.

    Raises:
        NoToolchain: there is no compiler; says what to install.
        FileMissing, BuildFailed: of the toolchain file.
    """
    if toolchain_file is not None:
        from penlight.build.toolchain_file import read_toolchain_file

        return read_toolchain_file(toolchain_file, target)
    target = target or HOST
    if compiler is not None:
        return given_compiler(target, shlex.split(compiler))
    if not target.triple:
        named = shlex.split(os.environ.get("CXX", ""))
        if named and not shutil.which(named[0]):
            raise NoToolchain(
                f"CXX names {named[0]}, which is not there",
                do="have CXX name a C++ compiler, or unset it: then c++, g++, clang++ and zig are looked for",
            )
        for words in [named] if named else [["c++"], ["g++"], ["clang++"]]:
            if shutil.which(words[0]):
                return given_compiler(target, words)
    zig = zig_command()
    if zig:
        return _zig(target, zig, cache)
    for suffix in ("g++", "clang++"):
        if target.triple and (found := shutil.which(f"{target.triple}-{suffix}")):
            return given_compiler(target, [found])
    raise NoToolchain(
        f"no compiler for {target.name}",
        got="neither ziglang" + (f" nor {target.triple}-g++" if target.triple else " nor c++, g++, clang++"),
        do="pip install 'penlight[cross]' for ziglang, which compiles for every target; "
        "or give a compiler with --compiler or a CMake toolchain file with --toolchain-file",
    )


def zig_command() -> str | None:
    """The zig of the `ziglang` package, else the one on PATH."""
    found = importlib.util.find_spec("ziglang")
    if found and found.submodule_search_locations:
        for name in ("zig", "zig.exe"):
            path = Path(found.submodule_search_locations[0], name)
            if path.exists():
                return str(path)
    return shutil.which("zig")


def _zig(target: Target, zig: str, cache: Path | None) -> Toolchain:
    version = _first_line([zig, "version"])
    select = ("-target", target.zig) if target.triple else ()
    # Without -mcpu zig compiles for the very processor it runs on; checks of undefined behaviour,
    # which it adds of its own accord, are for tests.
    flags = (f"-mcpu={target.cpu}", "-fno-sanitize=all")
    if cache is None and not os.environ.get("ZIG_GLOBAL_CACHE_DIR"):
        folder = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
        cache = folder / "penlight" / "zig"
    return Toolchain(
        target,
        f"ziglang {version}",
        cc=(zig, "cc", *select),
        cxx=(zig, "c++", *select),
        ar=(zig, "ar"),
        style="zig",
        compile_flags=flags,
        root=source_root(),
        cache=cache,
    )


def given_compiler(
    target: Target,
    command: Sequence[str],
    *,
    c_command: Sequence[str] | None = None,
    ar: Sequence[str] | None = None,
    compile_flags: Sequence[str] = (),
    link_flags: Sequence[str] = (),
) -> Toolchain:
    """A Toolchain around a gcc or clang that the user, or the system, names."""
    found = shutil.which(command[0]) if command else None
    if found is None:
        raise NoToolchain(
            f"there is no compiler {shlex.join(command) or '(empty)'}",
            where=f"building for {target.name}",
            do="give the command of a C++ compiler that is installed, such as --compiler arm-none-eabi-g++",
        )
    label = _first_line([found, *command[1:], "--version"])
    style = "zig" if "zig" in Path(found).name else "clang" if "clang" in label.lower() else "gcc"
    flags = list(compile_flags)
    if target.triple and not compile_flags:
        flags += [f"--target={target.triple}"] if style == "clang" else []
        flags += target.flags
    if style == "gcc" and target.kind == "bare":
        flags.append("-fno-tree-loop-distribute-patterns")  # memcpy() must not become a call of memcpy
    c_command = c_command or _c_driver(found, command[1:])
    archiver = ar or [_archiver(found)]
    return Toolchain(
        target,
        label,
        tuple(c_command),
        (found, *command[1:]),
        tuple(archiver),
        style,
        tuple(flags),
        tuple(link_flags),
        source_root(),
    )


def _c_driver(compiler: str, arguments: Sequence[str]) -> list[str]:
    """The C compiler beside a C++ one: as linker it adds no C++ library."""
    folder, name = os.path.split(compiler)
    for cxx, cc in (("clang++", "clang"), ("g++", "gcc"), ("c++", "cc")):
        if cxx in name:
            candidate = os.path.join(folder, name.replace(cxx, cc))
            if os.path.exists(candidate):
                return [candidate, *arguments]
    return [compiler, *arguments]


def _archiver(compiler: str) -> str:
    """The ar of a compiler's family: arm-none-eabi-ar for arm-none-eabi-g++."""
    folder, name = os.path.split(compiler)
    prefix = name.rpartition("g++")[0] if "g++" in name and "clang" not in name else ""
    for candidate in (f"{prefix}ar", "llvm-ar", "ar"):
        path = os.path.join(folder, candidate)
        if found := (path if os.path.exists(path) else shutil.which(candidate)):
            return found
    raise NoToolchain(f"{name} has no ar beside it", do="install binutils, or llvm-ar")


def _first_line(command: list[str]) -> str:
    try:
        done = subprocess.run(command, capture_output=True, text=True, errors="replace", check=False)
    except OSError as error:
        raise NoToolchain(f"{command[0]} does not start: {error.strerror or error}") from error
    return (done.stdout or done.stderr).strip().partition("\n")[0] or Path(command[0]).name


def _advice(said: str) -> str | None:
    """What to do about the faults that users meet most."""
    if "will not fit in region" in said or "overflowed by" in said:
        return "the program is larger than the board's memory: give its real sizes, or a smaller model"
    if "fatal error: 'math.h'" in said or "math.h: No such file" in said:
        return "the compiler has no C library for this target: install it, or leave out --compiler"
    return None
