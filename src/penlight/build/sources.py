"""Which files of a kernel library hold the chosen kernels, and for which dtypes each is compiled.

Nothing says in a table which file calls which: a file that includes a header of
its own library needs the files that define what the header declares. One file too
many costs a moment of compiling, since the linker drops what nothing refers to.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from penlight.build.select import ALL_DTYPES
from penlight.ir.dtypes import DType
from penlight.kernels.table import DTYPE_SETS

ALL_MASK = 0xFFFFFFFF
RUNTIME_FOLDERS = ("core", "program", "kernel", "backend", "exec", "trace", "platform")

_INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]', re.MULTILINE)
_DECLARED = re.compile(r"\b(\w+)\s*\([^;{}]*\)\s*;")
_DEFINED = re.compile(r"^(?!static\b|using\b|namespace\b)\w[^;{}()=#]*?\b(\w+)(?:<\w+>)?\s*\(", re.MULTILINE)
_COMMENT = re.compile(r"/\*.*?\*/|//[^\n]*", re.DOTALL)


@dataclass(frozen=True)
class SourceTree:
    """The sources of runtime and kernels, read once."""

    root: Path
    _texts: dict[Path, str] = field(default_factory=dict, repr=False, compare=False)
    _includes: dict[Path, tuple[Path, ...]] = field(default_factory=dict, repr=False, compare=False)

    _closures: dict[Path, list[Path]] = field(default_factory=dict, repr=False, compare=False)

    @cached_property
    def include_folders(self) -> tuple[Path, ...]:
        runtime = self.root / "runtime"
        # Files written for ExecuTorch find their headers in the last one.
        return (runtime / "include", runtime, self.root, runtime / "compatible")

    def is_ours(self, path: Path) -> bool:
        """Is the file one of the sources, and not a user's?"""
        folders = ("runtime", "kernels", "platforms")
        return any(path.is_relative_to(self.root / folder) for folder in folders)

    def text(self, path: Path) -> str:
        if path not in self._texts:
            self._texts[path] = path.read_text(encoding="utf-8", errors="replace")
        return self._texts[path]

    def includes(self, path: Path) -> tuple[Path, ...]:
        """The files of ours that a file includes itself; headers of the C library are not."""
        if path not in self._includes:
            found = []
            for kind, name in _INCLUDE.findall(self.text(path)):
                folders = (*((path.parent,) if kind == '"' else ()), *self.include_folders)
                candidates = (folder / name for folder in folders)
                existing = next((candidate for candidate in candidates if candidate.is_file()), None)
                if existing:
                    found.append(existing.resolve())
            self._includes[path] = tuple(dict.fromkeys(found))
        return self._includes[path]

    def closure(self, path: Path) -> list[Path]:
        """A file and all it includes, directly or not, in a fixed order."""
        if path in self._closures:
            return self._closures[path]
        found: dict[Path, None] = {}
        waiting = [path.resolve()]
        while waiting:
            current = waiting.pop()
            if current not in found:
                found[current] = None
                waiting += self.includes(current)
        self._closures[path] = sorted(found)
        return self._closures[path]

    def runtime(self) -> list[Path]:
        """The core of the runtime, without what allocates."""
        return [
            path
            for folder in RUNTIME_FOLDERS
            for path in sorted((self.root / "runtime" / folder).glob("*.cpp"))
        ]

    def libraries(self) -> list[str]:
        """Folders of kernels that hold a library."""
        folders = sorted((self.root / "kernels").iterdir())
        return [f.name for f in folders if f.is_dir() and f.name != "common" and any(f.glob("*.cpp"))]


def needed_files(tree: SourceTree, chosen: Mapping[Path, Iterable[DType]]) -> dict[Path, frozenset[DType]]:
    """All kernel files to compile, with their dtypes.

    Args:
        chosen: the files of the chosen kernels, and what those are used with.

    Returns: those and the files that they call into. What libraries share is compiled for the
    dtypes of all, and for those that others are computed in.
    """
    masks = {path.resolve(): frozenset(dtypes) for path, dtypes in chosen.items()}
    waiting = list(masks)
    while waiting:
        path = waiting.pop()
        for helper in _implementations(tree, path):
            wider = masks.get(helper, frozenset()) | masks[path]
            if wider != masks.get(helper):
                masks[helper] = wider
                waiting.append(helper)
    everything = shared_dtypes(frozenset().union(*masks.values()))
    common = tree.root / "kernels" / "common"
    return {path: everything if path.parent == common else mask for path, mask in masks.items()}


def shared_dtypes(dtypes: frozenset[DType]) -> frozenset[DType]:
    """For the code that all kernels share: with the types that others are computed in."""
    wider = set(dtypes)
    if wider & {DType.float16, DType.bfloat16}:
        wider.add(DType.float32)
    if wider & {DType.complex64, DType.complex128}:
        wider.add(DType.complex128)
    if wider & (DTYPE_SETS["int"] | DTYPE_SETS["bool"]):
        wider.add(DType.int64)
    return frozenset(wider)


def mask_of(dtypes: Iterable[DType]) -> int:
    """PENLIGHT_DTYPES: bit (1 << number) for each dtype; all bits when nothing is left out."""
    chosen = set(dtypes)
    return ALL_MASK if chosen >= ALL_DTYPES else sum(1 << int(dtype) for dtype in chosen)


def _implementations(tree: SourceTree, path: Path) -> Iterator[Path]:
    """Files of kernel libraries that define what the headers of `path` declare."""
    kernels = (tree.root / "kernels").resolve()
    for header in tree.closure(path):
        if header.suffix != ".h" or kernels not in header.parents:
            continue
        declared = set(_DECLARED.findall(_COMMENT.sub("", tree.text(header))))
        if not declared:
            continue
        for candidate in sorted(header.parent.glob("*.cpp")):
            resolved = candidate.resolve()
            if resolved == path or header not in tree.closure(resolved):
                continue
            if declared.intersection(_DEFINED.findall(_COMMENT.sub("", tree.text(resolved)))):
                yield resolved
