"""What a build is refused for before anything is compiled."""

from __future__ import annotations

import re
from collections.abc import Sequence
from difflib import get_close_matches
from pathlib import Path

from penlight.build.memory import largest_tensors, memory_needs
from penlight.build.select import Selection
from penlight.build.targets import Target
from penlight.errors import FileMissing, InvalidState, NoKernel, NotSupported, OutOfMemory
from penlight.kernels.table import own_table
from penlight.program import Contents
from penlight.program.structs import Tensor

_CUSTOM = re.compile(r'\b(?:PENLIGHT|EXECUTORCH)_LIBRARY\s*\(\s*(\w+)\s*,\s*"([\w.]+)')
_COMMENT = re.compile(r"/\*.*?\*/|//[^\n]*", re.DOTALL)


def own_operators(sources: Sequence[Path]) -> dict[str, Path]:
    """Operators that the user's own files register, as far as their text says."""
    found: dict[str, Path] = {}
    for path in sources:
        if not path.is_file():
            raise FileMissing(f"there is no file {path}")
        for namespace, name in _CUSTOM.findall(_COMMENT.sub("", path.read_text(errors="replace"))):
            base, _, overload = name.partition(".")
            for spelled in (overload, f"{overload}_out" if overload else "out"):
                operator = f"{namespace}::{base}" + (f".{spelled}" if spelled else "")
                if found.setdefault(operator, path).resolve() != path.resolve():
                    raise InvalidState(
                        f"two files have a kernel for {operator}",
                        where=f"{found[operator]} and {path}",
                        do="give one of them, or another namespace or name to one of the operators",
                    )
    return found


def check_known(selection: Selection, sources: Sequence[Path]) -> None:
    """Operators that were asked for by name: Penlight's, or those of the user's own files."""
    own = own_operators(sources)
    names = own_table().names()
    for name in sorted(set(selection.operators) - {*names, *own}):
        close = get_close_matches(name, names, 3, 0.7)
        raise NoKernel(
            f"{name} has no kernel",
            where=", ".join(selection.operators[name].needed_by),
            do="give the .cpp file that registers it"
            + (f"; names like it: {', '.join(close)}" if close else ""),
        )


def check_left_out(selection: Selection, without: Sequence[str]) -> None:
    """An operator is named as in programs, aten::add.out, or without overload for all it has."""
    known = {*own_table().names(), *selection.operators}
    needed: list[str] = []
    for name in without:
        meant = [operator for operator in known if name in (operator, operator.partition(".")[0])]
        if not meant:
            close = get_close_matches(name, sorted(known), 3, 0.7)
            raise NoKernel(
                f"there is no operator {name} to leave out",
                where="--without",
                do=f"names like it: {', '.join(close)}" if close else "see `penlight build --list`",
            )
        needed += [operator for operator in sorted(meant) if operator in selection.operators]
    if not needed:
        return
    raise NoKernel(
        f"{', '.join(needed)} {'is' if len(needed) == 1 else 'are'} needed, and the build was told to leave "
        f"{'it' if len(needed) == 1 else 'them'} out",
        where=", ".join(selection.operators[needed[0]].needed_by),
        do="build without this --without, or without the model",
    )


def check_backends(selection: Selection, sources: Sequence[Path], target: Target) -> None:
    """A backend is in the binary when one of the user's own files names it."""
    texts = [path.read_text(errors="replace") for path in sources]
    for backend, needed_by in selection.backends.items():
        if not any(f'"{backend}"' in text for text in texts):
            raise NotSupported(
                f"backend {backend} is not in this binary, and a program has delegates for it",
                where=", ".join(needed_by),
                got=f"target {target.name}",
                do=f"compile the model without {backend}, or give the C++ file that registers it",
            )


def check_weights(programs: dict[Path, Contents]) -> None:
    """A program that was built reads no other file: all weights are in those of the models."""
    for path, contents in programs.items():
        names = {
            value.name or "?"
            for method in contents.methods
            for value in method.values
            if isinstance(value, Tensor) and value.external
        }
        if names:
            raise NotSupported(
                f"{path.name} has weights in a .ptd file, which the program that is built cannot read",
                where=str(path),
                got=", ".join(sorted(names)[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else ""),
                do="compile the model with its weights inside, or build with --lib and give a data map",
            )


def check_memory(target: Target, programs: dict[Path, Contents]) -> None:
    """The arenas of all programs against a board's RAM."""
    assert target.memory
    needs = memory_needs(programs)
    need, room = sum(needs.values()), target.memory.ram
    if need <= room:
        return
    listed = [f"{nbytes:>12,} bytes  {name}" for name, nbytes in largest_tensors(programs)]
    raise OutOfMemory(
        f"the arena needs {need:,} bytes, {target.name} has {room:,} of RAM: {need - room:,} too many",
        where=", ".join(needs),
        got="\n".join(["the largest tensors", *listed]),
        do="a smaller input or model, a board with more RAM (--ram), or a quantized model",
    )
