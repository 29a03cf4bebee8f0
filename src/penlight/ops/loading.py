"""One C++ file, one call: build it, load it, tell the runtime, the compiler and torch of its operators."""

from __future__ import annotations

import importlib.util
import keyword
import os
import re
import runpy
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from penlight.errors import FileMissing, InvalidInput, InvalidOperator, NotSupported
from penlight.kernels.table import OpRow, parse_dtypes, register_rows
from penlight.ops.backward_rule import BackwardRule
from penlight.ops.declared import declared, loading
from penlight.ops.shapes import ShapeRule
from penlight.ops.signature import Signature, parse
from penlight.runtime.plugin import OperatorInfo, load_plugin, undo_plugin

if TYPE_CHECKING:
    from penlight.ops.definition import Definition

Path_ = str | os.PathLike[str]
_libraries: dict[str, Library] = {}  # by the file that was given
_definitions: dict[str, Definition] = {}  # in torch, by kernel
_ran: dict[Path, int] = {}  # .py files that were run for their declarations, and their age then


class Library:
    """The operators of one file. With a single one, calling the library calls it.

    Attributes:
        path: the shared object.
        source: the .cpp file, or the shared object that was given.
        operators: what the plug-in says of each.
        definitions: their operators in torch, by name; empty where torch is not installed.
    """

    def __init__(self, source: Path) -> None:
        self.source = self.path = source
        self.operators: list[OperatorInfo] = []
        self.signatures: dict[str, Signature] = {}
        self.definitions: dict[str, Definition] = {}

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if len(self.definitions) == 1:
            return next(iter(self.definitions.values())).op(*args, **kwargs)  # type: ignore[misc]
        if len(self.signatures) != 1:
            raise InvalidInput(
                f"{self.source.name} has {len(self.signatures)} operators",
                do=f"call one of them: {', '.join(s.qualified for s in self.signatures.values())}",
            )
        return self[next(iter(self.signatures))](*args, **kwargs)

    def __getitem__(self, name: str) -> Any:
        """An operator in torch, by the name of its kernel or its own."""
        for kernel, signature in self.signatures.items():
            if name in (kernel, signature.qualified, signature.name):
                if kernel not in self.definitions:
                    raise NotSupported(
                        f"{signature.qualified} cannot be called here: torch is not installed",
                        do="run a program that uses it, or install torch",
                    )
                return self.definitions[kernel].op
        names = ", ".join(signature.qualified for signature in self.signatures.values())
        raise InvalidInput(f"{self.source.name} has no operator {name!r}", do=f"it has {names}")

    def __iter__(self) -> Iterator[str]:
        return iter(self.signatures)

    def __repr__(self) -> str:
        return f"<{self.source.name}: {', '.join(s.qualified for s in self.signatures.values())}>"


def load(
    *sources: Path_, flags: Sequence[str] = (), compiler: str | None = None, torch: bool | None = None
) -> Any:
    """Build and load operators; from then on programs, the compiler and torch know them.

    A file of the same stem that ends in .py is run first: it may hold what `penlight.op` says of
    the operators. A file that was changed since is built and loaded again.

    Args:
        sources: .cpp files with PENLIGHT_LIBRARY, or plug-ins that were built from such.
        flags: more for the compiler.
        compiler: command of a C++ compiler; by default CXX, the system's, or zig from PyPI.
        torch: register with torch as well; by default where torch is installed.

    Returns: a Library, or a list of them for several files.

    Raises:
        FileMissing, BuildFailed, NoToolchain: there is no plug-in.
        InvalidOperator: schema, function, and shape rule do not agree, or are not possible.
        InvalidState: another file has an operator of that name.
    """
    if not sources:
        raise InvalidInput("no file was given", do='call penlight.ops.load("operator.cpp")')
    for source in sources:
        if not isinstance(source, (str, os.PathLike)):
            do = 'call penlight.ops.load("operator.cpp")'
            raise InvalidInput("a path is a string", got=repr(source)[:100], do=do)
    with_torch = importlib.util.find_spec("torch") is not None if torch is None else torch
    loaded = [_load(Path(os.path.abspath(source)), flags, compiler, with_torch) for source in sources]
    return loaded[0] if len(loaded) == 1 else loaded


def _load(source: Path, flags: Sequence[str], compiler: str | None, with_torch: bool) -> Library:
    if not source.is_file():
        raise FileMissing("no such file", where=str(source), do="check the path")
    known = _libraries.get(str(source))
    path = source
    if source.suffix not in (".so", ".dylib", ".dll"):
        from penlight.build.plugin import build_plugin

        path = build_plugin(source, flags=flags, compiler=compiler)
    said_more = _is_new(source.with_suffix(".py"))
    same = known is not None and known.path == path and not said_more
    if known is not None and same and (known.definitions or not with_torch):
        return known
    library = Library(source)
    library.path = path
    try:
        library.operators = load_plugin(path)
    except InvalidOperator as error:
        if error.where != str(path) or path == source:
            raise
        do = 'name its function in a line PENLIGHT_LIBRARY(myop, "scale(Tensor x) -> Tensor", scale_out)'
        raise InvalidOperator(
            f"{source.name} defines no operator", where=str(source), got=error.got, do=do
        ) from None
    try:
        _register(library, known, with_torch)
    except BaseException:
        undo_plugin()  # another file, or this one corrected, may have these operators
        raise
    _libraries[str(source)] = library
    return library


def _register(library: Library, known: Library | None, with_torch: bool) -> None:
    library.signatures = {info.name: _signature(info) for info in library.operators}
    rules = {
        info.name: ShapeRule(info.shapes, library.signatures[info.name])
        for info in library.operators
        if info.shapes
    }
    backward = {
        info.name: BackwardRule(info.backward, library.signatures[info.name], info.source)
        for info in library.operators
        if info.backward is not None
    }
    _run_declarations(library.source.with_suffix(".py"), library)
    rows = [_row(info, library.signatures[info.name]) for info in library.operators]
    if with_torch:
        _define(library, rules, backward, known)
    register_rows(rows, library=str(library.source))


def loaded() -> list[Library]:
    """All libraries of this process."""
    return list(_libraries.values())


def _signature(info: OperatorInfo) -> Signature:
    text = info.schema
    if info.is_name_only:
        text = _with_names(text, info)
    return parse(text, info.library)


def _with_names(schema: str, info: OperatorInfo) -> str:
    """Where the user gave only a name, arguments are called as in the C++ function, if it can be found."""
    file = info.source.rpartition(":")[0]
    try:
        text = Path(file).read_text(encoding="utf-8")
    except OSError:
        return schema
    wanted = info.name.split("::")[1]
    given = re.search(
        rf'(?:PENLIGHT|EXECUTORCH)_LIBRARY\s*\(\s*\w+\s*,\s*"(?:\w+::)?{re.escape(wanted)}"\s*,\s*([\w:]+)',
        text,
    )
    if given is None:
        return schema
    function = given[1].split("::")[-1]
    for match in re.finditer(rf"\b{function}\s*\(([^)]*)\)", text):
        parameters = _parameters(match[1])
        if re.search(r"\bKernel(Runtime)?Context\s*&", parameters[0]):
            parameters = parameters[1:]
        words = [re.fullmatch(r".*[\s&>](\w+)", part.strip(), re.S) for part in parameters]
        if all(words):  # else a call
            break
    else:
        return schema
    names = [word[1] for word in words if word]
    for index, name in enumerate(names):
        if keyword.iskeyword(name):
            continue
        schema = re.sub(rf"\barg{index}\b", name, schema)
    return schema


def _parameters(text: str) -> list[str]:
    parts, depth, current = [], 0, ""
    for char in text:
        depth += (char == "<") - (char == ">")
        if char == "," and depth == 0:
            parts.append(current)
            current = ""
        else:
            current += char
    return [*parts, current]


def _row(info: OperatorInfo, signature: Signature) -> OpRow:
    from penlight.ir.dtypes import DType

    said = declared(signature.qualified)
    allowed = parse_dtypes(said.dtype_set) if said.dtype_set else frozenset(DType)
    return OpRow(
        op=info.name,
        kernel=info.name,
        dtypes={"rest": allowed},
        schema=f"{info.library}::{signature.functional()}",
    )


def _define(
    library: Library,
    rules: dict[str, ShapeRule],
    backward: dict[str, BackwardRule],
    known: Library | None,
) -> None:
    from penlight.ops.autograd import find_operator
    from penlight.ops.calls import Kernel
    from penlight.ops.definition import Definition

    for name in set(known.definitions if known is not None else ()) - set(library.signatures):
        _definitions.pop(name).remove()  # the edited file has it no more
    made: list[str] = []
    try:
        for info in library.operators:
            name, signature = info.name, library.signatures[info.name]
            kernel = Kernel(name, signature, info.signature, info.source, rules.get(name), backward.get(name))
            definition = _definitions.get(name)
            if definition is None:
                definition = Definition(kernel)
                definition.define()
                _definitions[name] = definition
                made.append(name)
            else:
                definition.replace(kernel)
            library.definitions[name] = definition
        for rule in backward.values():
            rule.check(find_operator)
    except BaseException:
        for name in made:
            _definitions.pop(name).remove()
        raise


# --- the Python file beside it -----------------------------------------------------------------------


def _is_new(path: Path) -> bool:
    return path.is_file() and _ran.get(path) != path.stat().st_mtime_ns and not _is_running(path)


def _is_running(path: Path) -> bool:
    """Is the file one that Python runs or has imported anyway?"""
    files = (getattr(module, "__file__", None) for module in list(sys.modules.values()))
    return any(file and os.path.abspath(file) == str(path) for file in files)


def _run_declarations(path: Path, library: Library) -> None:
    if not path.is_file() or _is_running(path):
        return
    names = {signature.qualified for signature in library.signatures.values()}
    loading.update(names)
    try:
        runpy.run_path(str(path), run_name=path.stem)
    finally:
        loading.difference_update(names)
    _ran[path] = path.stat().st_mtime_ns
