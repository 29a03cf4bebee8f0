"""From a row to the C++ function it names: found in the sources, or declared as its schema asks.

`kernel_name: mylib::add_out` finds `mylib::add_out`, or `mylib::native::add_out`, which
is where ExecuTorch puts it; a name without a namespace is found wherever it is, if there
is one only.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from penlight.kernels.places import Fault, Faults, Place, nearest
from penlight.kernels.rows import OpRow
from penlight.kernels.schema import Schema
from penlight.kernels.sources import Definition

# Kernels of this namespace that no source defines are ExecuTorch's own: Penlight's stand in for them.
_FOREIGN = "torch::executor"


@dataclass(frozen=True)
class Entry:
    """One line of a registration table."""

    op: str
    key: str | None
    function: str  # "mylib::native::add_out"
    declaration: str
    source: str | None  # file that defines it
    given: tuple[str, ...] = ()  # constants that its first arguments are
    foreign: bool = False  # written for ExecuTorch: its declaration needs the compatibility headers


@dataclass
class Table:
    """What is registered for one library."""

    name: str
    entries: list[Entry]
    stand_ins: list[OpRow] = field(default_factory=list)  # rows that Penlight's own kernels serve
    warnings: list[Fault] = field(default_factory=list)

    def sources(self) -> list[str]:
        """Files that define its kernels."""
        return sorted({entry.source for entry in self.entries if entry.source})


def bind(
    name: str,
    rows: Iterable[OpRow],
    definitions: Sequence[Definition] | None,
    faults: Faults,
    *,
    own: Mapping[str, OpRow] | None = None,
) -> Table:
    """The table of one library.

    Args:
        name: the library's.
        rows: of the library.
        definitions: every kernel of its sources; None when there are none, and each kernel is
            declared as its schema asks.
        faults: takes rows whose kernel is not there or does not fit.
        own: Penlight's kernels by operator.
    """
    table = Table(name, [])
    for row in rows:
        at = row.place or Place(name, 1)
        if _is_foreign(row, definitions, own):
            table.stand_ins.append(row)
            continue
        if definitions is None:
            if row.signature is None:
                faults.add(at, f"the schema of {row.op} is not known here: give the source of {row.kernel}")
                continue
            function, source, foreign = row.kernel.removeprefix("::"), None, False
            declaration = row.signature.declaration(function.rsplit("::", 1)[-1])
        else:
            found = find(row.kernel, definitions)
            if len(found) != 1:
                faults.add(at, _not_one(row, found, definitions))
                continue
            names = tuple(name for name, _ in row.given)
            if names != found[0].parameters[: len(names)]:
                faults.add(at, f"{row.op}: the first parameters of {row.kernel} are not {', '.join(names)}")
                continue
            if row.signature is not None and not agree(row.signature, found[0].letters[len(names) :]):
                faults.add(at, _disagreement(row.op, row.signature, found[0]))
                continue
            function, declaration = found[0].qualified, found[0].declaration
            source, foreign = found[0].source, found[0].foreign
        for key in row.keys or (None,):
            given = tuple(value for _, value in row.given)
            table.entries.append(Entry(row.op, key, function, declaration, source, given, foreign))
    # A fallback comes after what is specialised; both by name, for the registry to halve.
    table.entries.sort(key=lambda entry: (entry.op.encode(), entry.key is None, entry.key or ""))
    return table


def find(kernel: str, definitions: Iterable[Definition]) -> list[Definition]:
    """The functions that `kernel` may mean: one, if all is well."""
    namespace, _, name = kernel.removeprefix("::").rpartition("::")
    same = [definition for definition in definitions if definition.name == name]
    if not namespace:
        return [definition for definition in same if not definition.namespace] or same
    for place in (namespace, f"{namespace}::native"):
        if exact := [definition for definition in same if definition.namespace == place]:
            return exact
    return []


def agree(schema: Schema, letters: str, *, wider: bool = False) -> bool:
    """Does a C++ function take what the schema passes? "." is a type only the compiler knows.

    `wider`: as a kernel of several operators it may do without what the schema always passes, or
    take any number.
    """
    if len(schema.letters) != len(letters):
        return False
    for argument, wanted, got in zip(schema.arguments, schema.letters, letters, strict=True):
        # What the schema lets it write, a kernel need not.
        reads = "T" if argument.written and not argument.is_out else wanted
        fits = got in (wanted, reads, ".")
        if wider and not fits:
            fits = got == reads.lower() or (got in "Ss" and wanted in "FIB")
        if not fits:
            return False
    return True


def _is_foreign(
    row: OpRow, definitions: Sequence[Definition] | None, own: Mapping[str, OpRow] | None
) -> bool:
    if own is None or row.op not in own or row.kernel.rpartition("::")[0] != _FOREIGN:
        return False
    return not find(row.kernel, definitions or ())


def _not_one(row: OpRow, found: list[Definition], definitions: Sequence[Definition]) -> str:
    if found:
        places = " and ".join(f"{d.qualified} ({d.place})" for d in found)
        return f"{row.op}: kernel {row.kernel} is ambiguous: {places}; name its namespace"
    names = [definition.qualified for definition in definitions]
    hint = nearest(row.kernel, names)
    if not hint:
        short = {definition.name: definition.qualified for definition in definitions}
        close = nearest(row.kernel.rsplit("::", 1)[-1], short)
        hint = close and f"; did you mean {short[close.split(chr(39))[1]]!r}?"
    expected = (
        row.signature.declaration(row.kernel.rsplit("::", 1)[-1])
        if row.signature
        else (f"Tensor& {row.kernel.rsplit('::', 1)[-1]}(KernelContext& ctx, ...)")
    )
    return f"{row.op}: no kernel {row.kernel} in the sources{hint}\n  expected {expected}"


def _disagreement(op: str, schema: Schema, definition: Definition) -> str:
    return (
        f"{op}: its schema and its kernel disagree\n"
        f"  schema   {schema.text}\n"
        f"  C++      {definition.declaration}   ({definition.place})\n"
        f"  expected {schema.declaration(definition.name)}"
    )
