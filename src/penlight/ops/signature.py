"""Schemas of operators: the forms a user may write, and the ones derived from them.

One kernel, the out variant, stands behind two operators: `name` returns new
tensors, `name.out` writes to tensors it is given. Whichever of the two the user
wrote, the other follows:

    custom_linear(Tensor weight, Tensor input, Tensor? bias) -> Tensor
    custom_linear.out(Tensor weight, Tensor input, Tensor? bias, *, Tensor(a!) out) -> Tensor(a!)

An argument that the operator changes is written `Tensor(a!) state`, and stays so
in both. Text only: needs no torch.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from penlight.errors import InvalidOperator

_TYPES = (
    *("Tensor", "Tensor[]", "Tensor?[]", "Scalar", "int", "SymInt", "float", "bool", "str"),
    *("int[]", "SymInt[]", "float[]", "bool[]", "ScalarType", "Layout", "MemoryFormat", "Device"),
)
_SCHEMA = re.compile(r"^\s*(?:(?P<ns>\w+)::)?(?P<name>\w+)(?:\.(?P<overload>\w+))?\s*\(", re.S)


@dataclass(frozen=True)
class Argument:
    """`type` without annotations, such as "Tensor?[]"; `default` as it was written."""

    name: str
    type: str
    default: str | None = None
    written: bool = False
    keyword_only: bool = False
    length: str = ""  # of int[2]: torch lets a single number stand for the list

    @property
    def holds_tensors(self) -> bool:
        return self.type.startswith("Tensor")

    def text(self, alias: str = "") -> str:
        """As torch wants it: sizes that are not known when a model is traced are SymInt."""
        type_ = self.type.replace("[]", f"[{self.length}]") if self.length else self.type
        type_ = "Sym" + type_.capitalize() if type_.startswith("int") else type_
        if self.written:
            type_ = f"Tensor({alias}!)" + type_.removeprefix("Tensor")
        return f"{type_} {self.name}" + (f"={self.default}" if self.default is not None else "")


@dataclass(frozen=True)
class Signature:
    """An operator: what it takes and gives. `outs` are its results, which the kernel takes as arguments.

    Attributes:
        overload: of the functional form, "" for the default one.
        out_list: the result is one list of tensors.
        returns_written: it returns what it changes, and nothing else: `-> Tensor(a!)`.
    """

    namespace: str
    name: str
    overload: str
    arguments: tuple[Argument, ...]
    outs: tuple[Argument, ...]
    out_list: bool = False
    returns_written: bool = False

    @property
    def qualified(self) -> str:
        """Name in torch: "myop::custom_linear", with its overload if it has one."""
        return f"{self.namespace}::{self.name}" + (f".{self.overload}" if self.overload else "")

    @property
    def out_overload(self) -> str:
        return f"{self.overload}_out" if self.overload else "out"

    @property
    def kernel_name(self) -> str:
        """Name of the kernel in programs. Without results, the operator and its kernel are one."""
        if not self.outs:
            return self.qualified
        return f"{self.namespace}::{self.name}.{self.out_overload}"

    @property
    def written(self) -> tuple[Argument, ...]:
        """Arguments that the operator changes."""
        return tuple(argument for argument in self.arguments if argument.written)

    @property
    def tensors(self) -> tuple[Argument, ...]:
        return tuple(argument for argument in self.arguments if argument.holds_tensors)

    def functional(self) -> str:
        """The schema that returns new tensors, without namespace."""
        returns = "Tensor[]" if self.out_list else ", ".join("Tensor" for _ in self.outs)
        if len(self.outs) != 1:
            returns = f"({returns})"
        if self.returns_written:
            returns = "Tensor(a!)"
        name = self.name + (f".{self.overload}" if self.overload else "")
        return f"{name}({_join(self.arguments)}) -> {returns}"

    def out(self) -> str:
        """The schema that writes to the tensors it is given, without namespace."""
        aliases = _aliases(self.arguments)
        free = [letter for letter in "abcdefghijklmnopqrstuvwxyz" if letter not in aliases.values()]
        names = [f"Tensor({letter}!)" for letter, _ in zip(free, self.outs, strict=False)]
        outs = [
            f"{type_}{'[]' if self.out_list else ''} {out.name}"
            for type_, out in zip(names, self.outs, strict=True)
        ]
        returns = names[0] if len(names) == 1 and not self.out_list else f"({', '.join(names)})"
        returns = "()" if self.out_list else returns
        own = [argument for argument in self.arguments if not argument.keyword_only]
        options = [argument for argument in self.arguments if argument.keyword_only]
        parts = [argument.text(aliases.get(argument.name, "")) for argument in own]
        parts += ["*"] if options or outs else []
        parts += [*(argument.text(aliases.get(argument.name, "")) for argument in options), *outs]
        return f"{self.name}.{self.out_overload}({', '.join(parts)}) -> {returns}"


def parse(text: str, namespace: str = "") -> Signature:
    """A schema in functional or out form.

    Raises:
        InvalidOperator: what is wrong with it, and how it should be written.
    """
    match = _SCHEMA.match(text)
    if match is None:
        raise _wrong("a schema begins with the operator's name and a parenthesis", text)
    if match["ns"] and namespace and match["ns"] != namespace:
        raise _wrong(f"the schema is of namespace {match['ns']}, its library of {namespace}", text)
    body, rest = _closing(text, match.end())
    arrow = re.match(r"\s*->\s*(.*?)\s*;?\s*$", rest, re.S)
    if arrow is None:
        raise _wrong("a schema ends with '-> Tensor', or whatever it returns", text)
    arguments = _arguments(body, text)
    returns, names = _returns(arrow[1])
    overload = match["overload"] or ""
    returns_written = False
    if overload == "out" or overload.endswith("_out"):
        outs = tuple(argument for argument in arguments if argument.written and argument.keyword_only)
        if not outs and arguments and arguments[-1].written:
            outs = arguments[-1:]  # some write it without the star
        if not outs:
            raise _wrong(
                f"'{match['name']}.{overload}' has no out argument",
                text,
                "end its arguments with '*, Tensor(a!) out', or name it without '.out'",
            )
        own = tuple(argument for argument in arguments if argument not in outs)
        is_list = outs[0].type == "Tensor[]"
        overload = "" if overload == "out" else overload.removesuffix("_out")
    else:
        own = arguments
        changed = [argument for argument in own if argument.written]
        returns_written = len(changed) == len(returns) == 1 and "!" in returns[0]
        returns = [] if returns_written else returns
        is_list = returns == ["Tensor[]"]
        for returned in returns:
            if returned not in ("Tensor", "Tensor[]") or (returned == "Tensor[]" and len(returns) > 1):
                raise _wrong(
                    f"the return type '{returned}' is not supported",
                    text,
                    "return Tensor, a tuple of Tensor, Tensor[], or () when arguments are changed",
                )
        if not returns and not changed:
            raise _wrong("the operator returns nothing and changes none of its arguments", text)
        default = ["out"] if len(returns) == 1 else [f"out{i}" for i in range(len(returns))]
        outs = tuple(
            Argument(name or other, "Tensor[]" if is_list else "Tensor", written=True, keyword_only=True)
            for name, other in zip(names, default, strict=False)
        )
    taken = {argument.name for argument in own}
    if taken & {out.name for out in outs}:
        raise _wrong(
            f"an argument and a result are both called '{min(taken & {o.name for o in outs})}'", text
        )
    return Signature(
        namespace or match["ns"] or "", match["name"], overload, own, outs, is_list, returns_written
    )


# --- text ------------------------------------------------------------------------------------------


def _arguments(body: str, text: str) -> tuple[Argument, ...]:
    found: list[Argument] = []
    keyword_only = False
    for part in _split(body):
        if part == "*":
            keyword_only = True
            continue
        found.append(_argument(part, keyword_only, text))
    names = [argument.name for argument in found]
    for name in names:
        if names.count(name) > 1:
            raise _wrong(f"two arguments are called '{name}'", text)
    return tuple(found)


def _argument(part: str, keyword_only: bool, text: str) -> Argument:
    declared, equals, default = part.partition("=")
    # "Tensor(?) bias" is what notes about schemas often say.
    declared = re.sub(r"\(\s*\?\s*\)", "?", declared)
    match = re.match(
        r"^\s*(?P<type>\w+)\s*(?P<alias>\([^)]*\))?\s*(?P<rest>[\[\]?\d\s]*?)\s+(?P<name>\w+)\s*$", declared
    )
    if match is None:
        raise _wrong(f"'{part}' is no argument", text, "write a type and a name, such as 'Tensor? bias'")
    rest = re.sub(r"\s", "", match["rest"])
    length = re.search(r"\[(\d+)\]", rest)
    type_ = match["type"] + re.sub(r"\[\d+\]", "[]", rest)
    alias = match["alias"] or ""
    if alias and "!" not in alias:
        raise _wrong(f"'{part}': a result may not share the memory of an argument", text,
                     "leave out the annotation; '(a!)' marks an argument that is changed")  # fmt: skip
    base = type_.removesuffix("?") if type_ not in _TYPES else type_
    if base not in _TYPES:
        raise _wrong(
            f"the type '{type_}' of argument '{match['name']}' is not supported", text,
            f"use {', '.join(_TYPES)}, or one of them followed by ?",
        )  # fmt: skip
    if alias and not type_.startswith("Tensor"):
        raise _wrong(f"'{part}': only tensors can be changed", text)
    return Argument(
        match["name"],
        type_,
        default.strip() if equals else None,
        bool(alias),
        keyword_only,
        length[1] if length else "",
    )


def _closing(text: str, start: int) -> tuple[str, str]:
    """What is inside the parenthesis that was opened before `start`, and what follows it."""
    depth, quoted = 1, ""
    for i in range(start, len(text)):
        char = text[i]
        if quoted:
            quoted = "" if char == quoted else quoted
        elif char in "\"'":
            quoted = char
        elif char in "([":
            depth += 1
        elif char in ")]":
            depth -= 1
            if depth == 0:
                return text[start:i], text[i + 1 :]
    raise _wrong("the parenthesis of the arguments is not closed", text)


def _split(text: str) -> list[str]:
    """Parts between commas that are in no bracket and no string."""
    parts, depth, quoted, current = [], 0, "", ""
    for char in text:
        if quoted:
            quoted = "" if char == quoted else quoted
        elif char in "\"'":
            quoted = char
        depth += (char in "([") - (char in ")]") if not quoted else 0
        if char == "," and depth == 0 and not quoted:
            parts.append(current.strip())
            current = ""
        else:
            current += char
    return [part for part in (*parts, current.strip()) if part]


def _returns(text: str) -> tuple[list[str], list[str]]:
    """Types and names of what is returned; "" for those without a name."""
    text = text.strip()
    parts = _split(text[1:].removesuffix(")")) if text.startswith("(") else [text]
    words = [part.split() for part in parts]
    return [w[0] for w in words], [w[1] if len(w) == 2 else "" for w in words]


def _aliases(arguments: tuple[Argument, ...]) -> dict[str, str]:
    written = [argument.name for argument in arguments if argument.written]
    return dict(zip(written, "abcdefghijklmnopqrstuvwxyz", strict=False))


def _join(arguments: tuple[Argument, ...]) -> str:
    aliases = _aliases(arguments)
    parts: list[str] = []
    star = False
    for argument in arguments:
        if argument.keyword_only and not star:
            parts.append("*")
            star = True
        parts.append(argument.text(aliases.get(argument.name, "")))
    return ", ".join(parts)


def _wrong(what: str, text: str, do: str | None = None) -> InvalidOperator:
    return InvalidOperator(
        what, where="the operator's schema", got=text.strip(),
        do=do or "write it as name(Tensor x, Tensor? y, int n=1) -> Tensor",
    )  # fmt: skip
