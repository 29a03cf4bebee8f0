"""What a compiler says of a user's file, without the rest.

Compilers report a fault where they met it, which may be deep in a header, and tell on many lines
how they came there. Here each error becomes its text at the line of the user's own file.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path

from penlight.errors import BuildFailed

_PLACED = re.compile(r"^(?P<file>[^\s:][^:\n]*):(?P<line>\d+):(?:(?P<column>\d+):)?\s+(?P<text>.*)$")
_KIND = re.compile(r"^(fatal error|error|warning|note): (.*)$")
_UNDEFINED = re.compile(r"undefined (?:reference to|symbol:?) [`'\"]?(.+?)[`'\"]?$")
_EXCERPT = re.compile(r"^\s*(\d+)?\s*\|")
_MOST = 5


@dataclass
class _Fault:
    file: str
    line: str
    text: str
    excerpt: list[str] = field(default_factory=list)
    via: tuple[str, str] | None = None  # the user's file and line, when the fault is in a header


def failure(source: Path, said: str, root: Path) -> BuildFailed:
    """The error for a file that did not compile or link.

    Args:
        said: all that the compiler wrote.
        root: of our own headers, in which no user's fault lies.
    """
    faults = _faults(said, source, root)
    if not faults:
        missing = list(
            dict.fromkeys(match[1] for line in said.splitlines() if (match := _UNDEFINED.search(line)))
        )
        if missing:
            return BuildFailed(
                f"{source.name} uses what is defined nowhere",
                where=str(source),
                got="\n".join(missing[:_MOST]),
                do="define it in this file: a plug-in is linked with nothing but the C library",
            )
        return BuildFailed(f"{source.name} does not compile", where=str(source), got=said.strip() or None)
    where, got = "", []
    for fault in faults[:_MOST]:
        file, line = fault.via or (fault.file, fault.line)
        where = where or f"{file}:{line}"
        place = "" if Path(file) == source else f"{Path(file).name}:"
        got.append(f"{place}{line}: {fault.text}" if len(faults) > 1 or place else fault.text)
        got += fault.excerpt if fault.via is None else _line_of(Path(file), int(line))
    return BuildFailed(f"{source.name} does not compile", where=where, got="\n".join(got))


def _faults(said: str, source: Path, root: Path) -> list[_Fault]:
    faults: list[_Fault] = []
    came_by: tuple[str, str] | None = None  # the user's line, from the lines before an error
    open_fault: _Fault | None = None

    def is_users(file: str) -> bool:
        path = Path(file)
        return path == source or path.parent == source.parent or _is_below(path, source.parent, root)

    for line in said.splitlines():
        if line.startswith("In file included from"):
            came_by = open_fault = None
            continue
        placed = _PLACED.match(line)
        if placed is None:
            if open_fault is not None and _EXCERPT.match(line):
                open_fault.excerpt.append(line.rstrip())
            elif not _EXCERPT.match(line) and not line.startswith(" "):
                open_fault = None  # "file: In function ...:"
            elif open_fault is not None and open_fault.via is None and not _EXCERPT.match(line):
                open_fault.excerpt.append(line.rstrip())  # clang's source line and caret
            continue
        kind = _KIND.match(placed["text"])
        users = (placed["file"], placed["line"]) if is_users(placed["file"]) else None
        if kind and kind[1].endswith("error"):
            open_fault = _Fault(placed["file"], placed["line"], f"{kind[1]}: {kind[2]}")
            if users is None:
                open_fault.via = came_by
            faults.append(open_fault)
            came_by = None
        elif kind and kind[1] == "warning":
            open_fault = came_by = None
        else:
            # A note, or "required from here": how the compiler came to the error before or after.
            if users and faults and kind and faults[-1].via is None and not is_users(faults[-1].file):
                faults[-1].via = users
            if users and not kind:
                came_by = users
            open_fault = None
    return faults


def _is_below(path: Path, folder: Path, root: Path) -> bool:
    return path.is_relative_to(folder) and not path.is_relative_to(root / "runtime")


def _line_of(path: Path, number: int) -> list[str]:
    try:
        return [f"{number:5} | {path.read_text(errors='replace').splitlines()[number - 1]}"]
    except (OSError, IndexError):
        return []
