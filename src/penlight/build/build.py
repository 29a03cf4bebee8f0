"""A binary with the kernels and dtypes that given programs use, and no others.

    programs, lists of operators  ->  selection  ->  kernel files with their dtypes
      ->  objects (kept by content)  ->  a program, or a library with one header

Nothing here knows a compiler (toolchain.py) or a board (bare.py).
"""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

from penlight.build import embed, vector
from penlight.build.checks import check_backends, check_left_out, check_memory, check_weights, own_operators
from penlight.build.embed import EmbeddedModel
from penlight.build.objects import Unit, compile_units
from penlight.build.registration import LibraryFiles
from penlight.build.select import ALL_DTYPES, Selection, select_from_contents
from penlight.build.size import Root, SizeReport, report_sizes
from penlight.build.sources import SourceTree, mask_of, needed_files
from penlight.build.strip import strip_elf
from penlight.build.table import LibraryTable, prims_header, tables_for
from penlight.build.targets import HOST, Target
from penlight.build.toolchain import Toolchain, find_toolchain, source_root
from penlight.build.user_libraries import read_user_libraries
from penlight.errors import FileMissing, InvalidInput, WriteFailed
from penlight.ir.dtypes import DType
from penlight.program import Contents, read

# For a GNU linker: no padding to pages between code and constants, no number of the build.
_COMPACT = (
    "-no-pie",
    "-Wl,-z,noseparate-code",
    "-Wl,-z,norelro",
    "-Wl,--build-id=none",
    "-Wl,--hash-style=gnu",
)


@dataclass
class BuildOptions:
    """What to build. Of `models`, `sources`, `libraries` and `operators` one must name something."""

    models: Sequence[Path] = ()
    sources: Sequence[Path] = ()  # the user's own kernels
    libraries: Sequence[LibraryFiles] = ()  # of theirs, by YAML; asked before Penlight's
    operators: Selection = field(default_factory=Selection)  # beside what the models need
    without: Sequence[str] = ()  # operators that must not be needed
    target: Target = HOST
    compiler: str | None = None
    toolchain_file: Path | None = None
    output: Path = Path("out")
    name: str | None = None
    library: bool = False
    embed: bool = True
    select_dtypes: bool = True
    messages: bool = True
    optimize: str = "-Os"
    kernel_libraries: Sequence[str] | None = None
    jobs: int | None = None


@dataclass
class Built:
    """What came out."""

    files: list[Path]  # the program or library first
    selection: Selection
    masks: dict[str, list[str]]  # kernel file -> dtypes it was compiled for
    sources: list[str]  # every file that was compiled, or had been before
    sizes: SizeReport
    compiled: int  # files; the others were in the store
    seconds: float
    compiler: str
    target: Target
    warnings: list[str] = field(default_factory=list)


_LEVELS = ("-Os", "-Oz", "-O0", "-O1", "-O2", "-O3", "-Og")


def _check_words(options: BuildOptions) -> None:
    if options.optimize not in _LEVELS:
        raise InvalidInput(
            "no such optimization",
            got=options.optimize,
            do=f"give one of {', '.join(_LEVELS)}; s is the default",
        )
    name = options.name
    if name is not None and (name in ("", ".", "..") or any(mark in name for mark in "/\\\0")):
        raise InvalidInput(
            "the name of what is built is that of a file",
            got=repr(name),
            do="give the folder for it by --output",
        )


def build(options: BuildOptions) -> Built:
    """Compile and link.

    Raises:
        NoKernel: an operator has no kernel, or the build was told to leave it out.
        NotSupported: a program has delegates that the binary would lack.
        OutOfMemory: the target's RAM does not hold the arenas.
        InvalidState: two files have an operator of the same name.
        WriteFailed: the folder for the files cannot be made.
        BuildFailed, NoToolchain, FileMissing, InvalidProgram, InvalidInput: of what was given.
    """
    start = time.perf_counter()
    _check_words(options)
    programs = {path: _read(path) for path in options.models}
    selection = Selection()
    for path, contents in programs.items():
        selection.join(select_from_contents(contents, path.name))
    selection.join(options.operators)
    tree = SourceTree(source_root().resolve())
    own = read_user_libraries(options.libraries, options.sources, selection, tree.libraries())
    options = replace(options, sources=[*options.sources, *own.sources])
    if not selection.operators and not options.sources and not programs:
        raise InvalidInput("there is nothing to build", do="give a .pte file, or operators with --ops")
    custom = own_operators(options.sources)
    check_left_out(selection, options.without)
    check_backends(selection, options.sources, options.target)
    if not options.library:
        check_weights(programs)
    toolchain = find_toolchain(
        None if options.toolchain_file else options.target,
        compiler=options.compiler,
        toolchain_file=options.toolchain_file,
    )
    target = toolchain.target
    if target.memory:
        check_memory(target, programs)
    used = selection if options.select_dtypes else selection.every_dtype()
    small = options.optimize in ("-Os", "-Oz")
    served = {*custom, *own.served}
    tables = [*own.tables, *tables_for(tree, used, served, options.kernel_libraries, small=small)]
    models = _models(options, programs)
    name = embed.identifier(options.name or (models[0].name if models else "penlight_kernels"))
    _make_folder(options.output)

    with tempfile.TemporaryDirectory(prefix="penlight-build-") as folder:
        job = _Job(options, toolchain, tree, tables, used, models, name, Path(folder).resolve())
        files, objects = job.library() if options.library else job.program()
        groups = {path: job.group_of(source) for path, source in objects.items()}
        sizes = report_sizes(job.unstripped, files[0], groups, job.roots())
    return Built(
        files=files,
        selection=used,
        masks={_name_of(tree, path): [d.name for d in sorted(m)] for path, m in job.masks.items()},
        sources=sorted({_name_of(tree, path) for path in objects.values()}),
        sizes=sizes,
        compiled=job.compiled,
        seconds=time.perf_counter() - start,
        compiler=toolchain.describe(),
        target=target,
        warnings=[str(fault) for fault in own.warnings],
    )


class _Job:
    """One build: files written to a folder of its own, objects from the store."""

    def __init__(
        self,
        options: BuildOptions,
        toolchain: Toolchain,
        tree: SourceTree,
        tables: list[LibraryTable],
        selection: Selection,
        models: list[EmbeddedModel],
        name: str,
        folder: Path,
    ) -> None:
        self.options, self.toolchain, self.tree, self.tables = options, toolchain, tree, tables
        self.selection, self.models, self.name, self.folder = selection, models, name, folder
        self.masks: dict[Path, frozenset[DType]] = {}
        self.masks_of_own: dict[Path, frozenset[DType]] = {}  # of files that YAML names
        self.compiled = 0
        self.unstripped = folder / "whole"
        self.defines = (f"PENLIGHT_MESSAGES={int(options.messages)}", "PENLIGHT_TRACE=0")
        # On a board flash is short: kernels have one way through them unless speed is asked for.
        self.small = bool(toolchain.target.memory) and options.optimize in ("-Os", "-Oz")

    def program(self) -> tuple[list[Path], dict[Path, Path]]:
        """A program; returns its files, and the source of each object."""
        target, output = self.toolchain.target, self.options.output
        core = self._core() if self._has_backends() else self._without_backends(self._core())
        units = [*core, *self._kernels(), *self._generated(), *self._own()]
        script: Path | None = None
        exports: Sequence[str] = ()
        if target.kind == "bare":
            bare = import_module("penlight.build.bare")
            units += [self._unit(path) for path in bare.platform_sources(target, main=True)]
            script = self._script(bare)
            exports = getattr(bare, "EXPORTS", ()) if not target.memory else ()
        else:
            hosted = self.tree.root / "platforms" / "hosted"
            units += [self._unit(path) for path in sorted(hosted.glob("*.cpp"))]
        objects = self._compile(units)
        path = output / f"{self.options.name or self.name}{target.program_suffix}"
        flags = _COMPACT if self._has_gnu_linker() else ()
        self._link(list(objects), path, flags=flags, script=script, exports=exports)
        files = [path]
        if not self.options.embed:
            files += [_copy(model, output) for model in self.options.models]
        return files, objects

    def _link(self, objects: list[Path], path: Path, **more: Any) -> None:
        """Links once; the names of an ELF program are for the report alone."""
        is_elf = self.toolchain.target.format == "elf"
        self.toolchain.link(objects, path, strip=not is_elf, **more)
        if is_elf:
            shutil.copyfile(path, self.unstripped)
            path.write_bytes(strip_elf(path.read_bytes()))
        else:
            self.unstripped = path

    def _has_gnu_linker(self) -> bool:
        return self.toolchain.style == "gcc" and _is_linux(self.toolchain.target)

    def library(self) -> tuple[list[Path], dict[Path, Path]]:
        """A static library, its header and its CMake package."""
        target, output = self.toolchain.target, self.options.output
        registry = self._write("registry.cpp", embed.registry_source(self.name, len(self.options.sources)))
        wrapped = [
            self._write(f"custom_{number}.cpp", embed.custom_source(number, path.resolve()))
            for number, path in enumerate(self.options.sources)
        ]
        units = [*self._core(), *self._kernels(), *self._generated(), self._unit(registry)]
        units += [self._own_unit(*pair) for pair in zip(wrapped, self.options.sources, strict=True)]
        if target.kind == "bare":
            bare = import_module("penlight.build.bare")
            units += [self._unit(path) for path in bare.platform_sources(target, main=False)]
        objects = self._compile(units)
        archive = output / "lib" / f"lib{self.name}{target.library_suffix}"
        self.toolchain.archive(list(objects), archive)
        shutil.copyfile(archive, self.unstripped)
        header = output / "include" / f"{self.name}.h"
        header.parent.mkdir(parents=True, exist_ok=True)
        header.write_text(embed.header(self.tree, self.name, self.models, self.defines))
        config = output / "lib" / "cmake" / self.name / f"{self.name}Config.cmake"
        config.parent.mkdir(parents=True, exist_ok=True)
        links = ["m"] if _is_linux(target) else []
        options = ["-Wl,--gc-sections"] if target.format == "elf" else []
        config.write_text(embed.cmake_config(self.name, archive.name, links, options))
        files = [archive, header, config]
        if not self.options.embed:
            files += [_copy(model, output) for model in self.options.models]
        return files, objects

    def group_of(self, source: Path) -> str:
        """What a file is counted as."""
        if source.parent == self.folder:
            kind = source.stem
            if kind == "models":
                return "models"
            return "own operators" if kind.startswith("custom") else "tables"
        if not source.is_relative_to(self.tree.root):
            return "own operators"
        part = source.relative_to(self.tree.root).parts[0]
        return {"runtime": "runtime", "kernels": "kernels"}.get(part, "program around it")

    def roots(self) -> list[Root]:
        """The chosen kernels, as their names are mangled."""
        return [
            Root(operator, f"{len(kernel)}{kernel}E")
            for table in self.tables
            for operator, kernel in table.kernels.items()
        ]

    def _core(self) -> list[Unit]:
        units = [self._unit(path) for path in self.tree.runtime()]
        if not self.models:
            return units
        # Of the operators that the runtime computes itself those that the programs use.
        at = next(number for number, unit in enumerate(units) if unit.source.name == "prims.cpp")
        header = self._write(
            "selected_prims.h", prims_header(self.tree, units[at].source, self.selection.prims)
        )
        define = 'PENLIGHT_PRIMS_FILE="selected_prims.h"'
        prims = self._unit(units[at].source, define)
        units[at] = replace(prims, includes=(*prims.includes, self.folder), also=(header,))
        return units

    def _has_backends(self) -> bool:
        """Does a program have delegates, or a file of the user's bring a backend?"""
        texts = (path.read_text(errors="replace") for path in self.options.sources)
        return bool(self.selection.backends) or any("register_backend" in text for text in texts)

    def _without_backends(self, units: Sequence[Unit]) -> list[Unit]:
        """The runtime as it is where nothing can register one: delegates are refused by name."""
        return [
            replace(unit, defines=(*unit.defines, "PENLIGHT_BACKENDS=0"))
            if unit.source.name in ("method.cpp", "method_loader.cpp")
            else unit
            for unit in units
        ]

    def _kernels(self) -> list[Unit]:
        chosen: dict[Path, set[DType]] = {}
        for table in self.tables:
            for path, dtypes in table.files.items():
                if not path.is_relative_to(self.tree.root / "kernels"):
                    self.masks_of_own[path] = frozenset(dtypes)
                    continue
                chosen.setdefault(path, set()).update(dtypes)
        self.masks = needed_files(self.tree, chosen) if chosen else {}
        kernels = [self._kernel(path, mask) for path, mask in self.masks.items()]
        for library in {path.parent for path in self.masks}:
            kernels += self._vector_routines(library)
        tables = [
            self._write(f"{table.library}_table.cpp", table.render({**self.masks, **self.masks_of_own}))
            for table in self.tables
        ]
        return [*kernels, *(self._unit(path) for path in tables)]

    def _kernel(self, path: Path, dtypes: frozenset[DType]) -> Unit:
        defines = ["PENLIGHT_SMALL=1"] if self.small else []
        if (path.parent / "vector").is_dir():
            defines += vector.wider_defines(self._instruction_sets())
            defines += vector.chosen_defines(self.selection)
            defines += vector.caller_defines(self.options.optimize)
        return self._unit(path, f"PENLIGHT_DTYPES={mask_of(dtypes):#x}u", *defines)

    def _vector_routines(self, library: Path) -> Iterator[Unit]:
        files, defines = vector.vector_files(library, self.masks, self.options.optimize)
        defines += vector.chosen_defines(self.selection)
        for name in self._instruction_sets():
            for path in files:
                unit = self._unit(path, f"PENLIGHT_ISA={name}", *defines)
                yield replace(unit, flags=vector.vector_flags(name, path.stem))

    def _instruction_sets(self) -> list[str]:
        return vector.instruction_sets(self.toolchain.target, self.options.optimize)

    def _generated(self) -> list[Unit]:
        text = embed.models_source(self.models, [table.library for table in self.tables])
        inside = tuple(model.path for model in self.models if model.path)
        return [replace(self._unit(self._write("models.cpp", text)), also=inside)]

    def _own(self) -> list[Unit]:
        return [self._own_unit(path.resolve(), path) for path in self.options.sources]

    def _own_unit(self, source: Path, path: Path) -> Unit:
        """`source` is, or includes, the user's file `path`, compiled for what its operators are used with."""
        uses = [
            self.selection.operators[operator]
            for operator in own_operators([path])
            if operator in self.selection.operators
        ]
        by_table = self.masks_of_own.get(path.resolve(), frozenset())
        dtypes = by_table.union(*(use.dtypes for use in uses)) or ALL_DTYPES
        return self._unit(source, f"PENLIGHT_DTYPES={mask_of(dtypes):#x}u")

    def _unit(self, path: Path, *defines: str) -> Unit:
        includes = (*self.tree.include_folders, self.tree.root / "platforms" / "include")
        generated = path.parent == self.folder
        return Unit(path, (*self.defines, *defines), includes, self.options.optimize, generated=generated)

    def _compile(self, units: Sequence[Unit]) -> dict[Path, Path]:
        compiled = compile_units(self.toolchain, self.tree, units, jobs=self.options.jobs)
        self.compiled += compiled.made
        return {path: unit.source for path, unit in zip(compiled.objects, units, strict=True)}

    def _script(self, bare: ModuleType) -> Path | None:
        text = bare.linker_script(self.toolchain.target)
        return self._write("link.ld", text) if isinstance(text, str) else text

    def _write(self, name: str, text: str) -> Path:
        path = self.folder / name
        path.write_text(text)
        return path


def _make_folder(path: Path) -> None:
    """The folder to write to, made before anything is compiled for it."""
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise WriteFailed(
            f"cannot write to the folder {path}",
            got=error.strerror or str(error),
            do="give another folder with --output",
        ) from error


def _read(path: Path) -> Contents:
    if not path.exists():
        raise FileMissing(f"there is no file {path}", do="give a program that penlight compile wrote")
    return read(path)


def _models(options: BuildOptions, programs: dict[Path, Contents]) -> list[EmbeddedModel]:
    models: list[EmbeddedModel] = []
    for path in programs:
        name = embed.identifier(path.stem)
        if any(model.name == name for model in models):
            raise InvalidInput(f"two models are named {name}", got=str(path), do="rename one of the files")
        inside = path.resolve() if options.embed else None
        models.append(EmbeddedModel(name, inside, path.stat().st_size))
    return models


def _is_linux(target: Target) -> bool:
    return target.kind == "hosted" and target.format == "elf"


def _name_of(tree: SourceTree, path: Path) -> str:
    return path.relative_to(tree.root).as_posix() if path.is_relative_to(tree.root) else str(path)


def _copy(model: Path, output: Path) -> Path:
    copy = output / model.name
    if copy.resolve() != model.resolve():
        shutil.copyfile(model, copy)
    return copy
