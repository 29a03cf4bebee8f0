"""Plug-ins: shared objects that bring operators of the user's own (penlight/library.h)."""

from __future__ import annotations

import ctypes
import os
import re
from dataclasses import dataclass

from penlight.errors import FileMissing, InvalidOperator, InvalidState, NotSupported, PenlightError

from . import library

# Letters of a kernel's signature as types of a schema; lower-case letters are the optional forms.
_TYPES = {
    "T": "Tensor", "L": "Tensor[]", "Q": "Tensor?[]", "S": "Scalar", "I": "int", "F": "float", "B": "bool",
    "J": "int[]", "D": "float[]", "C": "bool[]", "Z": "str", "E": "ScalarType", "Y": "Layout",
    "M": "MemoryFormat", "G": "Device", "R": "Generator",
}  # fmt: skip
_ERRORS: dict[int, type[PenlightError]] = {2: InvalidState, 3: InvalidOperator, 5: NotSupported}
_LONG_ERROR = 8192


@dataclass(frozen=True)
class OperatorInfo:
    """One operator of a plug-in.

    Attributes:
        name: of its kernel, which is the out variant: "myop::linear.out". An operator that has
            no results and writes to arguments keeps its own name.
        library: its namespace.
        schema: as it was written, without the namespace. Where only a name was given, the out
            variant's schema as the C++ types say it, with arguments named arg0, arg1, ...
        shapes: the rule for sizes, "[o,i], [n,i] -> [n,o]"; None when there is none.
        backward: the operators that give gradients, "linear_backward(grad, x) -> x"; None when not said.
        signature: types of the arguments, results last, a letter each (penlight/boxing.h).
        source: file and line of its definition.
        is_name_only: the schema was made of the types.
    """

    name: str
    library: str
    schema: str
    shapes: str | None
    backward: str | None
    signature: str
    source: str
    is_name_only: bool


def load_plugin(path: str | os.PathLike[str]) -> list[OperatorInfo]:
    """Load a plug-in; its operators are there for every program that is opened from now on.

    They stay for the life of the process. Loading a plug-in again changes nothing; loading one
    that was built anew from the same file puts its kernels in place of the old ones.

    Raises:
        FileMissing: there is no such file.
        InvalidOperator: a schema and its function do not agree, or break the out convention.
        InvalidState: another file defines a kernel of the same name; both are named.
        NotSupported: not a plug-in, or one for another version of the runtime.
    """
    path = os.path.abspath(path)
    if not os.path.isfile(path):
        raise FileMissing("no such plug-in", where=path, do="check the path")
    lib, handle = library.library(), ctypes.c_void_p()
    error = ctypes.create_string_buffer(_LONG_ERROR)
    status = lib.pl_load_plugin(os.fsencode(path), handle, error, _LONG_ERROR)
    if status:
        what, where, got = [*error.value.decode(errors="replace").split("\n", 2), "", ""][:3]
        raise _ERRORS.get(status, NotSupported)(what, where=where or path, got=got or None)
    found = library.PluginOperator()
    operators: dict[str, OperatorInfo] = {}
    index = 0
    while lib.pl_describe_plugin(handle, index, found) == 0:
        info, index = _info(found), index + 1
        # A function may be named twice, by its name alone and with its schema.
        before = operators.get(info.name)
        if before is not None and not before.is_name_only and not info.is_name_only:
            undo_plugin()
            raise InvalidState(
                f"{info.name} has two kernels in one file",
                where=info.source,
                got=f"another one at {before.source}",
                do="give one of them another name",
            )
        if before is None or before.is_name_only:
            operators[info.name] = info
    return list(operators.values())


def undo_plugin() -> None:
    """Take back what the last load_plugin() added, before any of it is used: it was found wrong."""
    library.library().pl_undo_plugin()


def _info(found: library.PluginOperator) -> OperatorInfo:
    name, schema, letters = found.name.decode(), found.schema.decode().strip(), found.signature.decode()
    namespace = found.library.decode()
    is_name_only = "(" not in schema
    if is_name_only:
        schema = out_schema(name.removeprefix(f"{namespace}::"), letters)
    else:
        schema = re.sub(r"\bTensor\(\?\)", "Tensor?", schema)
        schema = re.sub(r"^\w+::", "", schema)
    shapes = found.shapes.decode() if found.shapes else None
    backward = found.backward.decode() if found.backward is not None else None
    source = found.source.decode()
    return OperatorInfo(name, namespace, schema, shapes, backward, letters, source, is_name_only)


def out_schema(name: str, letters: str) -> str:
    """The schema of an out variant as its kernel's letters say it."""
    results = len(letters) - len(letters.rstrip("O"))
    arguments, marks = [], iter("abcdefghijklmnopqrstuvwxyz")
    returned = []
    for index, letter in enumerate(letters):
        is_result = index >= len(letters) - results
        if letter == "O":
            kind = f"Tensor({next(marks)}!)"
            if is_result:
                returned.append(kind)
        else:
            kind = _TYPES[letter.upper()] + "?" * letter.islower()
        if is_result and results == len(letters) - index:
            arguments.append("*")
        number = index - (len(letters) - results)
        arguments.append(f"{kind} " + ("out" + str(number) * (results > 1) if is_result else f"arg{index}"))
    back = returned[0] if len(returned) == 1 else f"({', '.join(returned)})"
    return f"{name}({', '.join(arguments)}) -> {back}"
