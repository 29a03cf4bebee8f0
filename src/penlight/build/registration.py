"""Write the registration table of a kernel library from kernels/ops.yaml.

Stands alone: the build runs it as a script before the package exists, with
nothing but the standard library and PyYAML::

    python registration.py kernels/ops.yaml portable -o portable_table.cpp

A kernel is found by its definition at the start of a line in a file of
`kernels/<library>/`, inside `namespace penlight::<library>`::

    Tensor& relu_out(KernelContext& ctx, const Tensor& x, Tensor& out) {

Templates, `static` functions and anonymous namespaces hold what kernels share,
so they are passed over. The declaration in the table is the definition's own
text, and boxing.h derives from its type how arguments are read and checked.
"""

from __future__ import annotations

import argparse
import re
import sys
from dataclasses import dataclass
from pathlib import Path

import yaml

_DEFINITION = re.compile(r"^(Tensor&|void) (\w+)\(\s*(KernelContext& [^;{]*?)\)\s*\{", re.MULTILINE)
_NAMESPACE = re.compile(r"^(?:namespace\s*([\w:]*)\s*\{|\}\s*// namespace.*)", re.MULTILINE)
_COMMENT = re.compile(r"/\*.*?\*/|//[^\n]*", re.DOTALL)


class TableError(Exception):
    """ops.yaml and the kernel files do not fit together; one line for each fault."""


@dataclass(frozen=True)
class Definition:
    """A kernel as its source file defines it."""

    name: str
    declaration: str  # "Tensor& relu_out(KernelContext& ctx, ...)"
    source: str  # "kernels/portable/activation.cpp"
    line: int


def read_rows(ops: Path, library: str) -> list[dict[str, object]]:
    """The rows of ops.yaml that are in `library`."""
    try:
        rows = yaml.safe_load(ops.read_text()) or []
    except yaml.YAMLError as error:
        raise TableError(f"{ops.name} is not YAML: {error}") from error
    for row in rows:
        if not isinstance(row, dict) or not row.get("op") or not row.get("kernel"):
            raise TableError(f"{ops.name}: a row needs `op` and `kernel`, got {row}")
    return [row for row in rows if library in row.get("in", ["portable"])]


def find_definitions(folder: Path) -> list[Definition]:
    """Every kernel that the files of a library define, in order."""
    root = folder.parent.parent
    return [
        found
        for path in sorted(folder.glob("*.cpp"))
        for found in _definitions_of(path, path.relative_to(root).as_posix(), folder.name)
    ]


def _definitions_of(path: Path, source: str, library: str) -> list[Definition]:
    text = path.read_text()
    # Where namespaces open and close; the innermost one decides.
    scopes: list[tuple[int, str | None]] = [(m.start(), m[1]) for m in _NAMESPACE.finditer(text)]
    found = []
    for match in _DEFINITION.finditer(text):
        stack: list[str] = []
        for start, name in scopes:
            if start > match.start():
                break
            if name is None:
                if stack:
                    stack.pop()
            else:
                stack.append(name)
        before = text[: match.start()].rstrip()
        if "" in stack or before.rsplit("\n", 1)[-1].lstrip().startswith("template"):
            continue
        line = text.count("\n", 0, match.start()) + 1
        if "::".join(stack) != f"penlight::{library}":
            raise TableError(f"{source}:{line}: {match[2]} is not in namespace penlight::{library}")
        parameters = " ".join(_COMMENT.sub("", match[3]).split())
        found.append(Definition(match[2], f"{match[1]} {match[2]}({parameters})", source, line))
    return found


def match_rows(
    rows: list[dict[str, object]], definitions: list[Definition], library: str
) -> tuple[list[tuple[str, Definition]], list[str]]:
    """Pair each row's operator with its kernel, sorted by operator; and what does not fit."""
    faults = []
    kernels: dict[str, Definition] = {}
    for definition in definitions:
        first = kernels.setdefault(definition.name, definition)
        if first is not definition:
            faults.append(
                f"kernel {definition.name} is defined twice: "
                f"{first.source}:{first.line} and {definition.source}:{definition.line}"
            )
    table: dict[str, Definition] = {}
    for row in rows:
        op, kernel = str(row["op"]), str(row["kernel"])
        if op in table:
            faults.append(f"{op} has two rows in library {library}")
        elif kernel in kernels:
            table[op] = kernels[kernel]
        else:
            faults.append(
                f"{op}: no kernel {kernel} in kernels/{library}/*.cpp "
                f"(expected `Tensor& {kernel}(KernelContext& ctx, ...) {{` at the start of a line)"
            )
    named = {str(row["kernel"]) for row in rows}
    for definition in definitions:
        if definition.name not in named:
            faults.append(
                f"{definition.source}:{definition.line}: no row of ops.yaml names {definition.name}"
            )
    return sorted(table.items(), key=lambda item: item[0].encode()), faults


def render(table: list[tuple[str, Definition]], library: str) -> str:
    """The C++ source of the table."""
    lines = [
        f"// Kernel table of the {library} library: generated from kernels/ops.yaml by",
        "// src/penlight/build/registration.py when the library is built.",
        "#include <penlight/kernel.h>",
        "#include <penlight/libraries.h>",
        "",
        f"namespace penlight::{library} {{",
    ]
    source = ""
    for definition in sorted({d for _, d in table}, key=lambda d: (d.source, d.line)):
        if definition.source != source:
            source = definition.source
            lines += ["", f"// {source}"]
        lines.append(f"{definition.declaration};")
    lines += ["", f"}}  // namespace penlight::{library}", "", "namespace penlight {"]
    if table:
        lines += ["namespace {", "", "const Kernel kKernels[] = {"]
        for op, definition in table:
            function = f"&{library}::{definition.name}"
            lines.append(
                f'    {{"{op}", boxed<{function}>, signature<{function}>, nullptr, "{definition.source}"}},'
            )
        lines += ["};", "", "}  // namespace"]
    kernels = "kKernels" if table else "nullptr"
    lines += [
        "",
        f'KernelLibrary {library}_library = {{"{library}", {kernels}, {len(table)}, true, nullptr}};',
    ]
    return "\n".join([*lines, "", "}  // namespace penlight", ""])


def generate(ops: Path, library: str, output: Path, *, unfinished: bool = False) -> list[str]:
    """Write the table of one library; an unchanged table keeps its time stamp.

    Args:
        ops: kernels/ops.yaml; the library's folder lies beside it.
        library: name of the library and of its folder.
        output: the C++ file to write.
        unfinished: leave out rows without a kernel, and kernels without a row.

    Returns: what was left out.

    Raises:
        TableError: names every row and every kernel that do not fit.
    """
    table, faults = match_rows(read_rows(ops, library), find_definitions(ops.parent / library), library)
    if faults and not unfinished:
        raise TableError("\n".join(faults))
    text = render(table, library)
    if not output.exists() or output.read_text() != text:
        output.parent.mkdir(parents=True, exist_ok=True)
        output.write_text(text)
    return faults


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
    except TableError as error:
        for line in str(error).splitlines():
            print(f"error: {line}", file=sys.stderr)
        return 1
    for line in left_out:
        print(f"warning: {line}", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
