"""Operator schemas, as torch writes them, without torch.

    myop::custom_linear.out(Tensor weight, Tensor? bias=None, *, Tensor(a!) out) -> Tensor(a!)

Each argument has the letter by which boxing.h checks the C++ type that takes it,
so a schema and a kernel are compared as two words.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

# Type without mark of aliasing -> letter of boxing.h; a lower-case letter is the optional form.
_LETTERS = {
    "Tensor": "T",
    "Tensor[]": "L",
    "Tensor?[]": "Q",
    "Scalar": "S",
    "int": "I",
    "int[]": "J",
    "float": "F",
    "float[]": "D",
    "bool": "B",
    "bool[]": "C",
    "str": "Z",
    "ScalarType": "E",
    "Layout": "Y",
    "MemoryFormat": "M",
    "Device": "G",
    "Generator": "R",
}
# Letter -> how a kernel takes it.
CPP_TYPES = {
    "T": "const Tensor&",
    "L": "TensorList",
    "Q": "ArrayRef<Optional<Tensor>>",
    "S": "const Scalar&",
    "I": "int64_t",
    "J": "ArrayRef<int64_t>",
    "F": "double",
    "D": "ArrayRef<double>",
    "B": "bool",
    "C": "ArrayRef<bool>",
    "Z": "StringView",
    "E": "ScalarType",
    "Y": "Layout",
    "M": "MemoryFormat",
    "G": "Device",
    "R": "Generator",
    "O": "Tensor&",
}

_NAME = re.compile(r"\s*(?:(\w+)::)?(\w+)(?:\.(\w+))?\s*")
_TYPE = re.compile(r"\s*([A-Za-z_]\w*)((?:\?|\[\d*\]|\([^()]*\))*)\s*")
_SUFFIX = re.compile(r"\?|\[\d*\]|\([^()]*\)")
_WORD = re.compile(r"\s*([A-Za-z_]\w*)?\s*")


class SchemaError(ValueError):
    """A schema does not parse; `offset` is the character at which it stops making sense."""

    def __init__(self, what: str, offset: int) -> None:
        super().__init__(what)
        self.offset = offset


@dataclass(frozen=True)
class Argument:
    """One argument. `type` is without its mark of aliasing: "Tensor", "int[]?"."""

    name: str
    type: str
    written: bool  # marked (a!)
    keyword_only: bool
    default: str | None
    letter: str  # "" for a type that no kernel can take
    length: str = ""  # of int[2]: torch lets a single number stand for the list
    aliased: bool = False  # marked (a): shares memory with a result

    @property
    def is_out(self) -> bool:
        return self.written and self.keyword_only

    @property
    def is_tensor(self) -> bool:
        """A tensor, given or not: what a kernel can be specialised by."""
        return self.type in ("Tensor", "Tensor?")


@dataclass(frozen=True)
class Schema:
    """An operator's signature. `namespace` is "" where none was written."""

    namespace: str
    name: str
    overload: str
    arguments: tuple[Argument, ...]
    returns: tuple[str, ...]
    text: str
    return_names: tuple[str, ...] = ()  # "" for those without
    returns_written: bool = False  # one of them is marked (a!)

    @property
    def op(self) -> str:
        """As programs name it: "aten::add.out"."""
        name = f"{self.name}.{self.overload}" if self.overload else self.name
        return f"{self.namespace or 'aten'}::{name}"

    @property
    def outs(self) -> list[Argument]:
        return [argument for argument in self.arguments if argument.is_out]

    @property
    def letters(self) -> str:
        return "".join(argument.letter or "." for argument in self.arguments)

    def declaration(self, kernel: str) -> str:
        """The C++ function that this schema asks for."""
        parameters = ["KernelContext& ctx"]
        for argument in self.arguments:
            letter = argument.letter
            if letter in CPP_TYPES:
                parameters.append(f"{CPP_TYPES[letter]} {argument.name}")
            elif letter == "t":
                parameters.append(f"const Optional<Tensor>& {argument.name}")
            else:
                inner = CPP_TYPES.get(letter.upper(), argument.type)
                parameters.append(f"Optional<{inner.removeprefix('const ').rstrip('&')}> {argument.name}")
        result = "Tensor&" if [argument.letter for argument in self.outs] == ["O"] else "void"
        return f"{result} {kernel}({', '.join(parameters)})"


def parse_schema(text: str) -> Schema:
    """Read a schema.

    Raises:
        SchemaError: what is wrong, and at which character.
    """
    return _Reader(text).schema()


def letter_of(type_: str, *, written: bool = False) -> str:
    """The letter of a schema's type, "" where no kernel can take it."""
    if written and type_ == "Tensor":
        return "O"
    required = type_.removesuffix("?")
    letter = _LETTERS.get(required, "")
    return letter.lower() if required != type_ else letter


class _Reader:
    def __init__(self, text: str) -> None:
        self.text, self.at = text, 0

    def schema(self) -> Schema:
        name = _NAME.match(self.text)
        if name is None:
            raise SchemaError("a schema starts with the operator's name", 0)
        self.at = name.end()
        if self.next() != "(":
            raise SchemaError(
                f"expected '(' after the operator's name, got {self.rest()}: "
                "write the whole schema, such as ns::name.out(Tensor x, *, Tensor(a!) out) -> Tensor(a!)",
                self.at,
            )
        arguments = self.arguments()
        returns, return_names, written = self.returns()
        if self.text[self.at :].strip():
            raise SchemaError(f"did not expect {self.rest()} after the returns", self.at)
        names = [argument.name for argument in arguments]
        for argument in names:
            if names.count(argument) > 1:
                raise SchemaError(f"argument {argument!r} is given twice", self.text.rfind(argument))
        text = " ".join(self.text.split())
        return Schema(name[1] or "", name[2], name[3] or "", arguments, returns, text, return_names, written)

    def next(self) -> str:
        while self.at < len(self.text) and self.text[self.at].isspace():
            self.at += 1
        return self.text[self.at : self.at + 1]

    def rest(self) -> str:
        text = self.text[self.at :].strip()
        return repr(text[:24] + ("..." if len(text) > 24 else "")) if text else "the end"

    def arguments(self) -> tuple[Argument, ...]:
        found: list[Argument] = []
        keyword_only = False
        self.at += 1
        if self.next() == ")":
            self.at += 1
            return ()
        while True:
            if self.next() == "*":
                if keyword_only:
                    raise SchemaError("a second '*'", self.at)
                keyword_only = True
                self.at += 1
            else:
                found.append(self.argument(keyword_only))
            separator = self.next()
            if separator not in (",", ")"):
                raise SchemaError(f"expected ',' or ')' after an argument, got {self.rest()}", self.at)
            self.at += 1
            if separator == ")":
                return tuple(found)

    def argument(self, keyword_only: bool) -> Argument:
        type_, mark, length, start = self.type()
        name = self.name()
        if not name:
            raise SchemaError(f"argument of type {type_} has no name", start)
        default = self.default() if self.next() == "=" else None
        written = "!" in mark
        letter = letter_of(type_, written=written)
        return Argument(
            name, type_, written, keyword_only, default, letter, length, bool(mark) and not written
        )

    def name(self) -> str:
        """The name that stands here, if one does."""
        word = _WORD.match(self.text, self.at)
        assert word is not None
        self.at = word.end()
        return word[1] or ""

    def type(self) -> tuple[str, str, str, int]:
        """A type without its mark of aliasing; the mark, the length of a list, and where it stands."""
        match = _TYPE.match(self.text, self.at)
        if match is None:
            raise SchemaError(f"expected a type, got {self.rest()}", self.at)
        start = match.start(1)
        self.at = match.end()
        base = {"SymInt": "int", "SymBool": "bool", "SymFloat": "float"}.get(match[1], match[1])
        suffix, mark, length = "", "", ""
        for part in _SUFFIX.findall(match[2]):
            if part.replace(" ", "") == "(?)":  # as documents about custom operators have it
                suffix += "?"
            elif part.startswith("("):
                mark += part
            elif part.startswith("["):
                suffix, length = suffix + "[]", part[1:-1]
            else:
                suffix += part
        return base + suffix, mark, length, start

    def default(self) -> str:
        self.at += 1
        start, depth, quote = self.at, 0, ""
        while self.at < len(self.text):
            char = self.text[self.at]
            if quote and char == "\\":
                self.at += 1
            elif quote:
                quote = "" if char == quote else quote
            elif char in "\"'":
                quote = char
            elif char in "[(":
                depth += 1
            elif char in "])" and depth:
                depth -= 1
            elif char in ",)" and not depth:
                break
            self.at += 1
        default = self.text[start : self.at].strip()
        if not default:
            raise SchemaError("a default value is missing after '='", start)
        return default

    def returns(self) -> tuple[tuple[str, ...], tuple[str, ...], bool]:
        """Types and names of what is returned, and whether any of it is marked (a!)."""
        if self.next() != "-" or self.text[self.at : self.at + 2] != "->":
            raise SchemaError(f"expected '->' and what is returned, got {self.rest()}", self.at)
        self.at += 2
        types: list[str] = []
        names: list[str] = []
        marks = ""
        several = self.next() == "("
        self.at += several
        while not several or self.next() != ")":
            type_, mark, _, _ = self.type()
            types.append(type_)
            names.append(self.name())
            marks += mark
            if not several:
                return tuple(types), tuple(names), "!" in marks
            if self.next() not in (",", ")"):
                raise SchemaError(f"expected ',' or ')' in the returns, got {self.rest()}", self.at)
            self.at += self.next() == ","
        self.at += 1
        return tuple(types), tuple(names), "!" in marks
