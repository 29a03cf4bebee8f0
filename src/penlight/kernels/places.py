"""YAML with the place of everything in it, and the faults found on the way.

A file is read as nodes, not as values: a fault names file, line and column, and
a key given twice is seen. Reading goes on after a fault, so that one run tells
all of them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from difflib import get_close_matches
from pathlib import Path

import yaml

from penlight.errors import FileMissing, InvalidTable


@dataclass(frozen=True, order=True)
class Place:
    """Where something is written; lines and columns count from 1, and column 0 is the whole line."""

    file: str
    line: int
    column: int = 0

    def __str__(self) -> str:
        return f"{self.file}:{self.line}" + (f":{self.column}" if self.column else "")


@dataclass(frozen=True, order=True)
class Fault:
    """One thing that is wrong."""

    place: Place
    what: str

    def __str__(self) -> str:
        return f"{self.place}: {self.what}"


@dataclass
class Faults:
    """What was found wrong so far, and what is only worth a word."""

    found: list[Fault] = field(default_factory=list)
    warnings: list[Fault] = field(default_factory=list)

    def add(self, place: Place, what: str) -> None:
        self.found.append(Fault(place, what))

    def warn(self, place: Place, what: str) -> None:
        self.warnings.append(Fault(place, what))

    def check(self) -> None:
        """Raise InvalidTable for what was found, if anything was."""
        if self.found:
            raise table_error(self.found)


def table_error(faults: list[Fault]) -> InvalidTable:
    """The error for a list of faults, each with its place."""
    ordered = list(dict.fromkeys(sorted(faults, key=lambda fault: fault.place)))
    if len(ordered) == 1:
        error = InvalidTable(ordered[0].what, where=str(ordered[0].place))
    else:
        files = list(dict.fromkeys(fault.place.file for fault in ordered))
        error = InvalidTable(
            f"{len(ordered)} faults in {', '.join(files)}", where="\n".join(str(fault) for fault in ordered)
        )
    error.faults = tuple(ordered)
    return error


def nearest(name: str, names: object) -> str:
    """`; did you mean 'x'?`, or nothing where no name is near."""
    close = get_close_matches(name, [str(other) for other in names], 1, 0.6)  # type: ignore[attr-defined]
    return f"; did you mean {close[0]!r}?" if close else ""


@dataclass(frozen=True)
class Item:
    """One node of a YAML file."""

    node: yaml.Node
    file: str

    @property
    def place(self) -> Place:
        mark = self.node.start_mark
        return Place(self.file, mark.line + 1, mark.column + 1)

    @property
    def kind(self) -> str:
        """ "list", "mapping", "null" or "text": numbers and booleans are text, as they were written."""
        if isinstance(self.node, yaml.SequenceNode):
            return "list"
        if isinstance(self.node, yaml.MappingNode):
            return "mapping"
        return "null" if self.node.tag == "tag:yaml.org,2002:null" else "text"

    @property
    def text(self) -> str:
        return str(self.node.value)

    def inside(self, offset: int) -> Place:
        """The place of one character of a text; of its start where the text is not as it was written."""
        place = self.place
        if self.node.end_mark.line != self.node.start_mark.line:
            return place
        quoted = 1 if getattr(self.node, "style", None) in ("'", '"') else 0
        return Place(place.file, place.line, place.column + quoted + offset)

    def items(self) -> list[Item]:
        return [Item(node, self.file) for node in self.node.value]

    def entries(self, faults: Faults) -> dict[str, tuple[Item, Item]]:
        """Of a mapping: the key's text -> key, value. A key given twice is a fault."""
        found: dict[str, tuple[Item, Item]] = {}
        for key_node, value_node in self.node.value:
            key, value = Item(key_node, self.file), Item(value_node, self.file)
            if key.kind != "text":
                faults.add(key.place, "a key must be a name")
            elif key.text in found:
                first = found[key.text][0].place
                faults.add(key.place, f"{key.text!r} is given twice; first in line {first.line}")
            else:
                found[key.text] = (key, value)
        return found

    def texts(self, faults: Faults, what: str) -> list[Item]:
        """Of a list of names: its items. Anything else is a fault, and left out."""
        if self.kind != "list":
            faults.add(
                self.place,
                f"{what} must be a list, such as [{self.text}]"
                if self.kind == "text"
                else f"{what} must be a list",
            )
            return []
        items = []
        for item in self.items():
            if item.kind == "text":
                items.append(item)
            else:
                faults.add(item.place, f"{what} holds a {item.kind} where a name is expected")
        return items


def read_root(path: Path, faults: Faults) -> Item | None:
    """What a YAML file holds; None when that is nothing, or no YAML.

    Raises:
        FileMissing: there is no such file.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError as error:
        raise FileMissing(f"there is no file {path}") from error
    except (UnicodeDecodeError, IsADirectoryError) as error:
        faults.add(Place(str(path), 1), f"is not a text file: {error}")
        return None
    try:
        root = yaml.compose(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        place = Place(str(path), mark.line + 1, mark.column + 1) if mark else Place(str(path), 1)
        faults.add(place, f"is not YAML: {getattr(error, 'problem', None) or error}")
        return None
    return None if root is None else Item(root, str(path))


def read_list(path: Path, faults: Faults) -> Iterator[Item]:
    """The entries of a YAML file that holds one list.

    Raises:
        FileMissing: there is no such file.
    """
    top = read_root(path, faults)
    if top is None:
        return
    if top.kind != "list":
        faults.add(top.place, f"the file must be a list of operators (`- op: ...`), not a {top.kind}")
        return
    for entry in top.items():
        if entry.kind == "mapping":
            yield entry
        else:
            faults.add(entry.place, f"an operator must be a mapping (`op: ...`), not a {entry.kind}")
