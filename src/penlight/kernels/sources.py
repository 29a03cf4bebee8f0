"""Kernels in C++ files: found by their definitions, without a compiler.

A kernel is a function of a named namespace, or of none, that returns its result or
nothing and whose first parameter is the kernel context::

    Tensor& relu_out(KernelContext& ctx, const Tensor& x, Tensor& out) {

or what a macro of the file, or of a header that it includes, makes such a function of. Templates,
`static` functions and anonymous namespaces hold what kernels share, so they are passed over. Types of
ExecuTorch's are read as those of Penlight's that stand for them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from penlight.errors import FileMissing
from penlight.kernels.places import Faults, Place
from penlight.kernels.schema import letter_of

# Kernels written for ExecuTorch have types of their own, which the compatibility headers define.
_FOREIGN_CONTEXTS = {"KernelRuntimeContext", "RuntimeContext"}
_FOREIGN_FILE = re.compile(r"^\s*#\s*include\s*[<\"]executorch/", re.MULTILINE)
_FOREIGN_NAMES = {
    **dict.fromkeys(_FOREIGN_CONTEXTS, "::executorch::runtime::KernelRuntimeContext"),
    "Optional": "::executorch::aten::optional",
    "StringView": "::executorch::aten::string_view",
    "tuple": "::std::tuple",
    **{
        name: f"::executorch::aten::{name}"
        for name in (
            "Tensor",
            "TensorList",
            "ArrayRef",
            "Scalar",
            "ScalarType",
            "Layout",
            "MemoryFormat",
            "Device",
        )
    },
}

# What can hide a brace or a semicolon, then those themselves.
_TOKEN = re.compile(
    r"""//[^\n]*|/\*.*?\*/                                  # comments
      |^[ \t]*\#(?:[^\n]*\\\r?\n)*[^\n]*                    # a directive with its continued lines
      |R"([^\s()\\]{0,16})\(.*?\)\1"                         # raw strings
      |"(?:[^"\\\n]|\\.)*"|(?<![0-9a-fA-F])'(?:[^'\\\n]|\\.)*'
      |[{};]""",
    re.DOTALL | re.MULTILINE | re.VERBOSE,
)
_MACRO = re.compile(r"^[ \t]*#[ \t]*define[ \t]+(\w+)\(([^)]*)\)((?:[^\n]*\\\r?\n)*[^\n]*)", re.MULTILINE)
_INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*"([^"\n]+)"', re.MULTILINE)
_NAMESPACE = re.compile(r"(?:^|\s)namespace\s*((?:\w+(?:\s*::\s*(?:inline\s+)?\w+)*)?)\s*$")
_FUNCTION = re.compile(r"(?:^|[\s&*>\]])(\w+)\s*$")
_QUALIFIER = re.compile(
    r"(?<!\w)(?:::\s*)?(?:(?!(?:const|volatile)\b)\b\w+\s*::\s*)+(?=\w)|(?<!\w)::\s*(?=\w)"
)
_ATTRIBUTE = re.compile(r"\[\[.*?\]\]|__attribute__\s*\(\(.*?\)\)|__declspec\s*\(.*?\)")
_TRAILER = re.compile(r"(?:\bnoexcept|\boverride|\bfinal|\bconst)\s*$")

# Other names of types that kernels take.
_ALIASES = {
    "optional": "Optional",
    "string_view": "StringView",
    "IntArrayRef": "ArrayRef<int64_t>",
    "TensorOptList": "ArrayRef<Optional<Tensor>>",
}
# Type without const and & -> the schema's, by which it has its letter.
_SCHEMA_TYPES = {
    "Tensor": "Tensor",
    "TensorList": "Tensor[]",
    "ArrayRef<Tensor>": "Tensor[]",
    "ArrayRef<Optional<Tensor>>": "Tensor?[]",
    "Scalar": "Scalar",
    "int64_t": "int",
    "ArrayRef<int64_t>": "int[]",
    "double": "float",
    "ArrayRef<double>": "float[]",
    "bool": "bool",
    "ArrayRef<bool>": "bool[]",
    "StringView": "str",
    **{name: name for name in ("ScalarType", "Layout", "MemoryFormat", "Device", "Generator")},
}


@dataclass(frozen=True)
class Definition:
    """A kernel as its source file defines it.

    `letters` has one for each argument, as in boxing.h; "." for a type that is not known.
    `declaration` spells Penlight's types without a namespace. `foreign`: written for ExecuTorch.
    """

    namespace: str  # "mylib::native"
    name: str
    declaration: str  # "Tensor& relu_out(KernelContext& ctx, ...)"
    letters: str
    parameters: tuple[str, ...]  # names; "" where there is none
    place: Place
    foreign: bool = False

    @property
    def qualified(self) -> str:
        return f"{self.namespace}::{self.name}" if self.namespace else self.name

    @property
    def source(self) -> str:
        return self.place.file


def scan(files: Iterable[Path], faults: Faults, *, root: Path | None = None) -> list[Definition]:
    """Every kernel that the files define, in order. A name defined twice is a fault.

    Args:
        files: C++ sources.
        faults: takes what is wrong.
        root: files are named as seen from here, in messages and in the table.
    """
    found: dict[str, Definition] = {}
    for path in files:
        name = path.resolve().relative_to(root.resolve()).as_posix() if root else str(path)
        try:
            text = path.read_text(encoding="utf-8", errors="replace")
        except FileNotFoundError as error:
            raise FileMissing(f"there is no file {path}") from error
        for definition in definitions_in(_expanded(text, tuple(path.resolve().parents)), name):
            first = found.setdefault(definition.qualified, definition)
            # Branches of one #if may each define it.
            same = first.source == definition.source and first.declaration == definition.declaration
            if first is not definition and not same:
                faults.add(
                    definition.place,
                    f"kernel {definition.qualified} is defined twice; first in {first.place}"
                    + (" (give overloads names of their own)" if first.letters != definition.letters else ""),
                )
    return list(found.values())


Macro = tuple[tuple[str, ...], str]  # parameters and body


def _kernel_macros(text: str, folders: tuple[Path, ...]) -> dict[str, Macro]:
    """The macros that make kernels, by name: of a text, and of headers that it includes."""
    found: dict[str, Macro] = {}
    for name in _INCLUDE.findall(text):
        header = next((folder / name for folder in folders if (folder / name).is_file()), None)
        if header is not None:
            found |= _macros_of_header(header)
    for name, parameters, body in _MACRO.findall(text):
        if "Context&" in body:
            found[name] = (tuple(part.strip() for part in parameters.split(",")), body.replace("\\\n", " "))
    return found


@lru_cache(maxsize=256)
def _macros_of_header(header: Path) -> dict[str, Macro]:
    text = header.read_text(encoding="utf-8", errors="replace")
    return _kernel_macros(text, tuple(header.parents))


def _expanded(text: str, folders: tuple[Path, ...]) -> str:
    """With the kernels that macros make written out, on the lines where the macros are used."""
    for name, (parameters, body) in _kernel_macros(text, folders).items():
        pieces, at = [], 0
        for use in re.finditer(rf"^{name}\(", text, re.MULTILINE):
            arguments, end = _arguments(text, use.end())
            fixed = len(parameters) - (parameters[-1] == "...")
            values = dict(zip(parameters, arguments[:fixed], strict=False))
            values["__VA_ARGS__"] = ", ".join(arguments[fixed:])
            words = re.split(r"(\w+)", body)
            written = "".join(values.get(word, word) for word in words)
            lines = "\n" * text.count("\n", use.start(), end)
            pieces += [text[at : use.start()], re.sub(r"\s*##\s*", "", written), lines]
            at = end
        text = "".join([*pieces, text[at:]])
    return text


def _arguments(text: str, start: int) -> tuple[list[str], int]:
    """The arguments of a macro, whose bracket opens before `start`, and where they end."""
    found, depth, begin = [], 1, start
    for at in range(start, len(text)):
        depth += (text[at] == "(") - (text[at] == ")")
        if depth == 0 or (depth == 1 and text[at] == ","):
            found.append(" ".join(text[begin:at].split()))
            begin = at + 1
        if depth == 0:
            return found, at + 1
    return found, len(text)


def definitions_in(text: str, source: str) -> Iterator[Definition]:
    """The kernels that one file defines."""
    # One entry for each open brace: a namespace's name ("" for extern "C"), "(" inside of
    # parameters, None for anything else.
    scopes: list[str | None] = []
    hidden = 0  # how many of them are of the last two kinds
    head: list[tuple[int, str]] = []  # pieces of text since the last statement, with their places
    at = 0
    for token in _TOKEN.finditer(text):
        kind = token[0]
        if hidden == 0:
            head.append((at, text[at : token.start()]))
        at = token.end()
        if kind == "{":
            opened: str | None = None
            if hidden == 0:
                statement = "".join(piece for _, piece in head)
                if statement.count("(") > statement.count(")"):  # a default value: `= {}`
                    scopes.append("(")
                    hidden += 1
                    continue
                namespace = _NAMESPACE.search(statement)
                if namespace is not None and namespace[1]:
                    opened = re.sub(r"\s+|\binline\b", "", namespace[1])
                elif re.search(r"\bextern\s*$", statement):
                    opened = ""
                elif namespace is None:
                    here = "::".join(name for name in scopes if name)
                    definition = _definition(statement, head, text, source, here)
                    if definition is not None:
                        yield definition
            scopes.append(opened)
            hidden += opened is None
            head = []
        elif kind == "}":
            closed = scopes.pop() if scopes else ""
            hidden -= closed is None or closed == "("
            if closed != "(":
                head = []
        elif kind == ";":
            head = []
        elif kind[0] in "\"'R" and hidden == 0:
            head.append((token.start(), " "))


def _definition(
    statement: str, head: list[tuple[int, str]], text: str, source: str, namespace: str
) -> Definition | None:
    """The kernel that a statement before a `{` begins, if it begins one."""
    body = _ATTRIBUTE.sub(lambda match: " " * len(match[0]), statement).rstrip()
    while match := _TRAILER.search(body):
        body = body[: match.start()].rstrip()
    if not body.endswith(")"):
        return None
    depth, open_at = 0, len(body)
    for index in range(len(body) - 1, -1, -1):
        depth += (body[index] == ")") - (body[index] == "(")
        if depth == 0:
            open_at = index
            break
    name = _FUNCTION.search(body[:open_at])
    if name is None:
        return None
    parameters = _split(body[open_at + 1 : -1])
    # What a macro or a label before it leaves behind ends with ')' or ':'.
    result = re.split(r"\)|(?<!:):(?!:)", body[: name.start(1)])[-1].strip()
    if not parameters or not result or "template" in body[: name.start(1)].split():
        return None
    if {"static", "return", "else", "new"} & set(result.split()) or not re.search(r"\bvoid$|Tensor", result):
        return None
    types = [_parameter(parameter) for parameter in parameters]
    has_context = types[0][1] == "KernelContext" or types[0][1] in _FOREIGN_CONTEXTS
    foreign = types[0][1] in _FOREIGN_CONTEXTS or (not has_context and bool(_FOREIGN_FILE.search(text)))
    # Theirs may go without a context; what writes to its last argument is then taken for a kernel.
    if not has_context and not (foreign and types[-1][:2] == (True, "Tensor")):
        return None
    arguments = types[1:] if has_context else types
    result = re.sub(r"\b(?:inline|extern|constexpr|PENLIGHT_\w+)\s+", "", result)
    spelled = [item[2] for item in arguments]
    if has_context:
        spelled.insert(0, types[0][2] if types[0][3] else f"{types[0][2]} ctx")
    declaration = f"{' '.join(_canonical(result).split())} {name[1]}({', '.join(spelled)})"
    if foreign:
        declaration = re.sub(r"\w+", lambda word: _FOREIGN_NAMES.get(word[0], word[0]), declaration)
    letters = "".join(_letter(written, core) for written, core, _, _ in arguments)
    return Definition(
        namespace,
        name[1],
        declaration,
        letters,
        tuple(item[3] for item in arguments),
        Place(source, text.count("\n", 0, _place(head, name.start(1))) + 1),
        foreign,
    )


def _place(head: list[tuple[int, str]], offset: int) -> int:
    """Where in the file a character of a statement is."""
    for start, piece in head:
        if offset < len(piece):
            return start + offset
        offset -= len(piece)
    return head[-1][0]


def _split(parameters: str) -> list[str]:
    """At commas that no bracket holds."""
    parts, depth, start = [], 0, 0
    for index, char in enumerate(parameters):
        depth += (char in "<([{") - (char in ">)]}")
        if char == "," and depth == 0:
            parts.append(parameters[start:index])
            start = index + 1
    parts.append(parameters[start:])
    return [" ".join(part.split()) for part in parts if part.strip()]


def _parameter(parameter: str) -> tuple[bool, str, str, str]:
    """Whether it is written through, its type without const and &, its text, its name."""
    text = _canonical(parameter.split("=")[0].replace("&&", "&")).strip()
    name = re.search(r"(?<=[\s&>*])(\w+)$", text)
    if name is not None and name[1] not in ("const",) and _bare(text[: name.start()]):
        type_, called = text[: name.start()].strip(), name[1]
    else:
        type_, called = text, ""
    core = _bare(type_)
    written = "&" in type_ and "const" not in re.split(r"<", type_)[0].split()
    spelled = re.sub(r"\s*&\s*", "& ", type_).strip()
    return written, core, f"{spelled} {called}".strip(), called


def _canonical(text: str) -> str:
    """Without namespaces, and by the names Penlight has for types."""
    plain = _QUALIFIER.sub("", text)
    return re.sub(r"\w+", lambda word: _ALIASES.get(word[0], word[0]), plain)


def _bare(type_: str) -> str:
    return re.sub(r"\bconst\b|\bvolatile\b|[&\s]", "", type_)


def _letter(written: bool, core: str) -> str:
    if core in _SCHEMA_TYPES:
        return letter_of(_SCHEMA_TYPES[core], written=written)
    inner = re.fullmatch(r"Optional<(.+)>", core)
    if inner and inner[1] in _SCHEMA_TYPES:
        return letter_of(_SCHEMA_TYPES[inner[1]] + "?")
    return "."
