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

from dataclasses import dataclass

from penlight.errors import InvalidOperator
from penlight.kernels import schema as kernels_schema
from penlight.kernels.schema import SchemaError, parse_schema

_TYPES = (
    *("Tensor", "Tensor[]", "Tensor?[]", "Scalar", "int", "SymInt", "float", "bool", "str"),
    *("int[]", "SymInt[]", "float[]", "bool[]", "ScalarType", "Layout", "MemoryFormat", "Device"),
)


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
    try:
        schema = parse_schema(text.strip().removesuffix(";"))
    except SchemaError as error:
        raise _wrong(str(error), text) from None
    if schema.namespace and namespace and schema.namespace != namespace:
        raise _wrong(f"the schema is of namespace {schema.namespace}, its library of {namespace}", text)
    arguments = tuple(_argument(argument, text) for argument in schema.arguments)
    returns, names = list(schema.returns), schema.return_names
    overload = schema.overload
    returns_written = False
    if overload == "out" or overload.endswith("_out"):
        outs = tuple(argument for argument in arguments if argument.written and argument.keyword_only)
        if not outs and arguments and arguments[-1].written:
            outs = arguments[-1:]  # some write it without the star
        if not outs:
            raise _wrong(
                f"'{schema.name}.{overload}' has no out argument",
                text,
                "end its arguments with '*, Tensor(a!) out', or name it without '.out'",
            )
        own = tuple(argument for argument in arguments if argument not in outs)
        is_list = outs[0].type == "Tensor[]"
        overload = "" if overload == "out" else overload.removesuffix("_out")
    else:
        own = arguments
        changed = [argument for argument in own if argument.written]
        returns_written = len(changed) == len(returns) == 1 and schema.returns_written
        if schema.returns_written and not returns_written:
            raise _wrong(
                "a result that is an argument, Tensor(a!), is the only one, of the only one changed", text
            )
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
        namespace or schema.namespace, schema.name, overload, own, outs, is_list, returns_written
    )


# --- text ------------------------------------------------------------------------------------------


def _argument(given: kernels_schema.Argument, text: str) -> Argument:
    if given.aliased:
        raise _wrong(
            f"argument '{given.name}': a result may not share the memory of an argument",
            text,
            "leave out the annotation; '(a!)' marks an argument that is changed",
        )
    if (given.type if given.type in _TYPES else given.type.removesuffix("?")) not in _TYPES:
        raise _wrong(
            f"the type '{given.type}' of argument '{given.name}' is not supported",
            text,
            f"use {', '.join(_TYPES)}, or one of them followed by ?",
        )
    if given.written and not given.type.startswith("Tensor"):
        raise _wrong(f"argument '{given.name}' is {given.type}: only tensors can be changed", text)
    return Argument(given.name, given.type, given.default, given.written, given.keyword_only, given.length)


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
        what,
        where="the operator's schema",
        got=text.strip(),
        do=do or "write it as name(Tensor x, Tensor? y, int n=1) -> Tensor",
    )
