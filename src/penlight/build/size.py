"""Where every byte of a binary went: runtime, each operator, models, the C library.

Objects are compiled with a section for each function, and relocations say which
section refers to which. What a kernel alone reaches is that operator's; what
several reach is shared by them; what the linker dropped is in no image. ELF only:
of other formats the sizes of sections are known, and nothing by operator.
"""

from __future__ import annotations

import struct
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from penlight.build.image import Sizes, read_sizes, read_symbols

Node = tuple[int, int]  # object, section


@dataclass(frozen=True)
class Part:
    """A share of the binary."""

    name: str
    nbytes: int


@dataclass
class SizeReport:
    """`parts` add up to `sizes.total`; `operators` say more of the part `kernels`."""

    file_bytes: int
    sizes: Sizes
    parts: list[Part] = field(default_factory=list)
    operators: list[Part] = field(default_factory=list)


@dataclass(frozen=True)
class Root:
    """The sections that make up the group `name`: of a kernel's functions, or of whole files."""

    name: str
    symbol: str  # part of the mangled name


@dataclass
class _Object:
    sections: list[tuple[str, int, bool]]  # name, size, is part of an image
    symbols: dict[str, int]  # global, defined -> section
    locals: dict[int, list[tuple[str, int]]]  # section -> named symbols of it and their sizes
    links: dict[int, set[int | str]]  # section -> sections, or names defined elsewhere


def report_sizes(
    image: Path,
    binary: Path,
    groups: Mapping[Path, str],
    roots: Sequence[Root],
) -> SizeReport:
    """Account for a binary.

    Args:
        image: the linked program before it was stripped, or an archive.
        binary: the file whose size counts.
        groups: object -> runtime, kernels, model, ...
        roots: the kernels, by the name of their operator.
    """
    sizes = _sizes(image, groups)
    report = SizeReport(binary.stat().st_size, sizes)
    paths = list(groups)
    if not paths or any(path.read_bytes()[:4] != b"\x7fELF" for path in paths):
        report.parts = [Part("code", sizes.text), Part("constants", sizes.rodata), Part("data", sizes.data)]
        return report
    objects = [_read_object(path) for path in paths]
    whole = image.read_bytes()[:4] != b"\x7fELF"
    kept = _reachable(objects, [groups[p] for p in paths]) if whole else _kept(objects, image)
    owners = _owners(objects, kept, roots)
    totals: dict[str, int] = defaultdict(int)
    alone: dict[str, int] = defaultdict(int)
    shared: dict[frozenset[str], int] = defaultdict(int)
    for number, path in enumerate(paths):
        for section in kept[number]:
            nbytes = objects[number].sections[section][1]
            totals[groups[path]] += nbytes
            if groups[path] != "kernels":
                continue
            who = owners.get((number, section), frozenset())
            if len(who) == 1:
                alone[next(iter(who))] += nbytes
            else:
                shared[who] += nbytes
    accounted = sum(totals.values())
    report.parts = [Part(name, nbytes) for name, nbytes in sorted(totals.items(), key=lambda item: -item[1])]
    rest = "what a linker drops" if whole else "C library, start-up, padding"
    report.parts.append(Part(rest, max(0, sizes.total - accounted)))
    names = dict.fromkeys(root.name for root in roots)  # two libraries may have kernels of one operator
    own = ((name, alone.get(name, 0)) for name in names)
    report.operators = [Part(name, nbytes) for name, nbytes in sorted(own, key=lambda item: -item[1])]
    for who, nbytes in sorted(shared.items(), key=lambda item: -item[1]):
        label = "shared by " + ", ".join(sorted(who)) if who else "shared"
        report.operators.append(Part(label, nbytes))
    return report


def _sizes(image: Path, groups: Mapping[Path, str]) -> Sizes:
    if image.read_bytes()[:8] != b"!<arch>\n":
        return read_sizes(image)
    each = [read_sizes(path) for path in groups]
    return Sizes(*(sum(getattr(s, name) for s in each) for name in ("text", "rodata", "data", "bss")))


def _reachable(objects: Sequence[_Object], groups: Sequence[str]) -> list[set[int]]:
    """Of an archive: what a program is linked with that uses all of it but kernels nobody chose."""
    everything = [{i for i, (_, size, stays) in enumerate(o.sections) if stays and size} for o in objects]
    defined: dict[str, Node] = {}
    for number, item in enumerate(objects):
        for name, section in item.symbols.items():
            defined.setdefault(name, (number, section))
    waiting = [(n, i) for n, found in enumerate(everything) if groups[n] != "kernels" for i in found]
    visited = set(waiting)
    while waiting:
        number, section = waiting.pop()
        for link in objects[number].links.get(section, ()):
            node = defined.get(link) if isinstance(link, str) else (number, link)
            if node and node not in visited:
                visited.add(node)
                waiting.append(node)
    return [{i for i in found if (number, i) in visited} for number, found in enumerate(everything)]


def _kept(objects: Sequence[_Object], image: Path) -> list[set[int]]:
    """The sections that are in a program: those with a symbol that it has."""
    present = {(symbol.name, symbol.size) for symbol in read_symbols(image) if symbol.defined}
    kept = []
    seen: set[str] = set()
    for item in objects:
        found = set()
        for section, symbols in item.locals.items():
            if not item.sections[section][2]:
                continue
            # A template's code lies in several objects, and once in the image.
            global_here = [name for name, at in item.symbols.items() if at == section]
            if any(name in seen for name in global_here):
                continue
            if any(symbol in present for symbol in symbols):
                found.add(section)
                seen.update(global_here)
        kept.append(found)
    return kept


def _owners(
    objects: Sequence[_Object], kept: Sequence[set[int]], roots: Iterable[Root]
) -> dict[Node, frozenset[str]]:
    """For each section, the operators whose kernels reach it."""
    defined: dict[str, Node] = {}
    for number, item in enumerate(objects):
        for name, section in item.symbols.items():
            if section in kept[number]:
                defined.setdefault(name, (number, section))
    reached: dict[Node, set[str]] = defaultdict(set)
    for root in roots:
        waiting = [node for name, node in defined.items() if root.symbol in name]
        visited = set(waiting)
        while waiting:
            number, section = waiting.pop()
            reached[number, section].add(root.name)
            for link in objects[number].links.get(section, ()):
                node = defined.get(link) if isinstance(link, str) else (number, link)
                if node and node not in visited and node[1] in kept[node[0]]:
                    visited.add(node)
                    waiting.append(node)
    return {node: frozenset(names) for node, names in reached.items()}


def _read_object(path: Path) -> _Object:
    data = path.read_bytes()
    wide = data[4] == 2
    table, step, count = (
        (struct.unpack_from("<Q", data, 40)[0], *struct.unpack_from("<HH", data, 58))
        if wide
        else (struct.unpack_from("<I", data, 32)[0], *struct.unpack_from("<HH", data, 46))
    )
    layout = "<IIQQQQIIQQ" if wide else "<IIIIIIIIII"
    headers = [struct.unpack_from(layout, data, table + i * step) for i in range(count)]
    names = headers[struct.unpack_from("<H", data, 62 if wide else 50)[0]][4]

    def text(at: int) -> str:
        return data[at : data.index(b"\0", at)].decode(errors="replace")

    # Bytes of zeros take no room in a file or in flash.
    sections = [(text(names + h[0]), h[5], bool(h[2] & 2) and h[1] != 8) for h in headers]
    result = _Object(sections, {}, defaultdict(list), defaultdict(set))
    where: list[int | str | None] = []  # of each symbol
    for header in headers:
        if header[1] != 2:  # SHT_SYMTAB
            continue
        strings, size = headers[header[6]][4], 24 if wide else 16
        for at in range(header[4], header[4] + header[5], size):
            if wide:
                name, info, _, index, _, length = struct.unpack_from("<IBBHQQ", data, at)
            else:
                name, _, length, info, _, index = struct.unpack_from("<IIIBBH", data, at)
            label = text(strings + name)
            inside = 0 < index < count
            # A name that several objects may define is found by name, so that one is enough.
            where.append(label if not inside or info >> 4 else index)
            if inside and label and length and info & 15 in (0, 1, 2):
                result.locals[index].append((label, length))
                if info >> 4:
                    result.symbols[label] = index
    for header in headers:
        if header[1] not in (4, 9):  # SHT_RELA, SHT_REL
            continue
        size = (24 if header[1] == 4 else 16) if wide else (12 if header[1] == 4 else 8)
        for at in range(header[4], header[4] + header[5], size):
            info = struct.unpack_from("<Q" if wide else "<I", data, at + (8 if wide else 4))[0]
            target = where[info >> 32 if wide else info >> 8]
            if target is not None:
                result.links[header[7]].add(target)
    return result
