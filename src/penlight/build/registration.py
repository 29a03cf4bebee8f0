"""Write the C++ registration tables of kernel libraries: Penlight's own, and the user's.

The build runs it as a script before the package is installed; it then takes the
package from the tree it lies in, and needs nothing but PyYAML::

    python registration.py kernels/ops.yaml portable -o portable_table.cpp

A kernel of Penlight's is found by its definition in a file of `kernels/<library>/`,
inside `namespace penlight::<library>`. The declaration in the table is the
definition's own text, and boxing.h derives from its type how arguments are read and
checked.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

if __name__ == "__main__":
    # Not the folder of this file, where modules may have the names of others.
    sys.path[0] = str(Path(__file__).resolve().parents[2])

from penlight.errors import InvalidInput, PenlightError, WriteFailed
from penlight.kernels.bind import Entry, Table, bind
from penlight.kernels.library import Schemas, find_duplicates, read_library, read_rows
from penlight.kernels.merge import Merged, merge
from penlight.kernels.places import Fault, Faults
from penlight.kernels.rows import OpRow
from penlight.kernels.sources import scan


@dataclass(frozen=True)
class LibraryFiles:
    """What the user gives for one library."""

    name: str
    files: tuple[Path, ...]


def own_library(ops: Path, library: str, *, only: Container[str] | None = None) -> tuple[Table, list[Fault]]:
    """The table of one of Penlight's libraries, and what does not fit.

    Args:
        ops: kernels/ops.yaml; the library's folder lies beside it.
        library: name of the library and of its folder.
        only: operators to register; all when None.
    """
    faults = Faults()
    rows = read_rows(ops, faults)
    find_duplicates(rows, faults)
    if faults.found:
        return Table(library, []), faults.found
    rows = [row for row in rows if library in row.libraries]
    folder = ops.parent / library
    definitions = scan(sorted(folder.glob("*.cpp")), faults, root=folder.parent.parent)
    namespace = f"penlight::{library}"
    for definition in definitions:
        if definition.namespace != namespace:
            faults.add(definition.place, f"{definition.name} is not in namespace {namespace}")
    named = {row.kernel for row in rows}
    for definition in definitions:
        if definition.name not in named:
            faults.add(definition.place, f"no row of {ops.name} names {definition.name}")
    chosen = [row for row in rows if only is None or row.op in only]
    return bind(library, chosen, definitions, faults), faults.found


def user_tables(
    libraries: Sequence[LibraryFiles],
    sources: Iterable[Path] | None = None,
    *,
    schemas: Schemas | None = None,
    own: Mapping[str, OpRow] | None = None,
    only: Container[str] | None = None,
) -> tuple[list[Table], Merged, list[Fault]]:
    """The tables of the user's libraries, in order of preference; each holds what is left for it.

    Args:
        libraries: their YAML files; the first is preferred.
        sources: C++ files with their kernels; None when there are none, and kernels are declared as
            their schemas ask.
        schemas: knows the operators that files name without their schema.
        own: Penlight's kernels by operator, which stand in for ExecuTorch's.
        only: operators to register; all when None.

    Returns: tables, who serves what, and warnings.

    Raises:
        InvalidTable: everything that is wrong, with its places.
    """
    faults = Faults()
    read = []
    for library in libraries:
        if not library.name.isidentifier():
            raise InvalidInput(
                f"{library.name!r} cannot name a kernel library",
                do="give it a name of letters, digits and _: NAME=functions.yaml",
            )
        read.append(read_library(library.files, library.name, schemas=schemas))
        faults.warnings += read[-1].warnings
    definitions = None if sources is None else scan(sources, faults)
    # Each library is checked in full; what another serves in its place need not be used.
    for lib in read:
        bind(lib.name, lib.rows, definitions, faults, own=own)
    faults.check()
    merged = merge(read, only=only)
    tables = [bind(lib.name, merged.rows(lib.name), definitions, faults, own=own) for lib in read]
    for op in merged.without_fallback():
        first = next(item.row for item in merged.served if item.op == op)
        if (own is None or op not in own) and first.place is not None:
            faults.warn(first.place, f"{op} has no fallback: calls that no key names will find no kernel")
    used = {entry.function for table in tables for entry in table.entries}
    for definition in definitions or ():
        if only is None and definition.qualified not in used:
            faults.warn(definition.place, f"nothing registers kernel {definition.qualified}")
    return tables, merged, faults.warnings


def render(tables: Sequence[Table], origin: str, dtypes: Mapping[str, int] | None = None) -> str:
    """The C++ source of tables.

    Args:
        tables: of one or more libraries.
        origin: the names of the files they were made of.
        dtypes: masks of the element types that operators were compiled for, where some were left out.
    """
    names = ", ".join(table.name for table in tables)
    lines = [
        f"// Kernel table of {names}: generated by penlight/build/registration.py",
        f"// from {origin}.",
        "#include <penlight/kernel.h>",
    ]
    if any(entry.foreign for table in tables for entry in table.entries):
        lines.append("#include <executorch/runtime/kernel/kernel_includes.h>")
    lines.append("")
    lines += _declarations([entry for table in tables for entry in table.entries])
    lines += ["namespace penlight {"]
    for table in tables:
        # Constants have internal linkage unless they are declared first.
        lines += ["", f"extern KernelLibrary {table.name}_library;"]
        if table.entries:
            lines += ["", f"static const Kernel {_array(table)}[] = {{"]
            lines += [_row(entry, (dtypes or {}).get(entry.op, 0)) for entry in table.entries]
            lines += ["};"]
        array = _array(table) if table.entries else "nullptr"
        content = f'{{"{table.name}", {array}, {len(table.entries)}, true, nullptr}}'
        lines += ["", f"KernelLibrary {table.name}_library = {content};"]
    return "\n".join([*lines, "", "}  // namespace penlight", ""])


def _declarations(entries: list[Entry]) -> list[str]:
    """Every kernel once, by namespace, then by the file that defines it."""
    spaces: dict[str, dict[str, dict[str, None]]] = {}
    for entry in entries:
        space = entry.function.rpartition("::")[0]
        spaces.setdefault(space, {}).setdefault(entry.source or "", {})[entry.declaration] = None
    lines = []
    for space, sources in sorted(spaces.items()):
        own = space == "penlight" or space.startswith("penlight::")
        if space:
            lines.append(f"namespace {space} {{")
        if not own:
            lines.append("using namespace penlight;")
        for source, declarations in sorted(sources.items()):
            lines += ["", *([f"// {source}"] if source else [])]
            lines += [f"{declaration};" for declaration in declarations]
        lines += ["", *([f"}}  // namespace {space}", ""] if space else [])]
    return lines


def _array(table: Table) -> str:
    return "k" + "".join(part[:1].upper() + part[1:] for part in table.name.split("_")) + "Kernels"


def _row(entry: Entry, dtypes: int) -> str:
    function = entry.function.removeprefix("penlight::")
    function = f"&{function}" if function != entry.function else f"&::{function}"
    if entry.foreign:
        function = f"executorch_kernel::adapted<{function}>"
    for value in entry.given:
        function = f"given<{function}, {value}>"
    key, source = (f'"{_escape(text)}"' if text else "nullptr" for text in (entry.key, entry.source))
    mask = f", {dtypes:#x}u" if dtypes else ""
    return f'    {{"{entry.op}", boxed<{function}>, signature<{function}>, {key}, {source}{mask}}},'


def _escape(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"')


def write(text: str, output: Path) -> None:
    """Write a table; an unchanged one keeps its time stamp, so that nothing is compiled again."""
    try:
        if output.exists() and output.read_text(encoding="utf-8") == text:
            return
        output.parent.mkdir(parents=True, exist_ok=True)
        output.write_text(text, encoding="utf-8")
    except OSError as error:
        raise WriteFailed(f"cannot write {output}: {error.strerror}") from error


def generate(ops: Path, library: str, output: Path, *, unfinished: bool = False) -> list[Fault]:
    """Write the table of one of Penlight's libraries.

    Args:
        ops: kernels/ops.yaml; the library's folder lies beside it.
        library: name of the library and of its folder.
        output: the C++ file to write.
        unfinished: leave out rows without a kernel, and kernels without a row.

    Returns: what was left out.

    Raises:
        InvalidTable: names every row and every kernel that do not fit.
    """
    table, found = own_library(ops, library)
    if not unfinished:
        Faults(found).check()
    write(render([table], f"{ops.parent.name}/{ops.name}"), output)
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description="Write the registration table of a kernel library.")
    parser.add_argument("ops", type=Path, help="kernels/ops.yaml")
    parser.add_argument("library", help="folder beside ops.yaml")
    parser.add_argument("-o", "--output", type=Path, required=True, help="C++ file to write")
    parser.add_argument(
        "--unfinished", action="store_true", help="warn, rather than fail, of what does not fit"
    )
    args = parser.parse_args()
    try:
        left_out = generate(args.ops, args.library, args.output, unfinished=args.unfinished)
    except PenlightError as error:
        for line in getattr(error, "faults", ()) or [error]:
            print(f"error: {line}", file=sys.stderr)
        return 1
    for fault in left_out:
        print(f"warning: {fault}", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
