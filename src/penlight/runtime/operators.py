"""Kernels that the compiled runtime has, those of loaded plug-ins included."""

from __future__ import annotations

from typing import NamedTuple

from . import library


class Operator(NamedTuple):
    """One kernel: the operator it computes, its library, and its key ("" for any dtype)."""

    name: str
    library: str
    signature: str
    key: str
    source: str


def operators() -> list[Operator]:
    """Every kernel, library by library in the order they are asked."""
    lib, found = library.library(), library.Operator()
    listed = []
    for index in range(lib.pl_operator_count()):
        library.check_quietly(lib.pl_describe_operator(index, found))
        fields = (found.name, found.library, found.signature, found.key, found.source)
        listed.append(Operator(*((text or b"").decode() for text in fields)))
    return listed
