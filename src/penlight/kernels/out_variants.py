"""Functional operator -> the overload that writes its results to tensors it is given.

torch names out variants by no rule that holds for all (add.Tensor has add.out,
select.int has select_copy.int_out), so they are found by their arguments: an
overload takes the same ones and, besides, outputs. Views have no out variant;
their `_copy` twin has. Factories such as full() say dtype, layout, device and
pinning themselves; in the out variant the output says it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any

import torch
from torch._ops import OpOverload, OpOverloadPacket

_OPTIONS = {"dtype", "layout", "device", "pin_memory"}


@dataclass(frozen=True)
class Parameter:
    """One argument. `type` is the schema's, such as "Optional[List[int]]"; `length` that of int[2]."""

    name: str
    type: str
    length: int | None
    has_default: bool
    default: Any


@dataclass(frozen=True)
class OutVariant:
    """`op` is the name in programs ("aten::add.out"); `outs` the output arguments, a list if `out_list`."""

    op: str
    parameters: tuple[Parameter, ...]
    outs: tuple[str, ...]
    out_list: bool = False


@cache
def out_variant(op: OpOverload) -> OutVariant | None:
    """The out variant of a functional operator; None when there is none."""
    functional = parameters_of(op)
    # Options are overlooked only where no overload agrees in all: norm has one with a dtype and one without.
    for overlooked in ((), _OPTIONS):
        for packet in _packets(op):
            for overload in _overloads(packet):
                outs = [arg for arg in overload._schema.arguments if arg.is_out]
                inputs = parameters_of(overload)
                if outs and _same(inputs, functional, ignore=overlooked):
                    return _variant(overload, inputs, outs)
    # An overload may stand for two functional ones: arange.start_out has the step that arange.start has not.
    wanted = _kinds(functional, _OPTIONS)
    for packet in _packets(op):
        for overload in _overloads(packet):
            outs = [arg for arg in overload._schema.arguments if arg.is_out]
            inputs = parameters_of(overload)
            required = [parameter for parameter in inputs if not parameter.has_default]
            if outs and _kinds(required) <= wanted <= _kinds(inputs):
                return _variant(overload, inputs, outs)
    return None


def _variant(overload: OpOverload, inputs: tuple[Parameter, ...], outs: list[Any]) -> OutVariant:
    names = tuple(arg.name for arg in outs)
    return OutVariant(program_name(overload), inputs, names, str(outs[0].real_type).startswith("List"))


def by_naming_rule(op: OpOverload) -> OutVariant:
    """What the out variant must be called where torch knows none: `name.out`, `name.overload_out`."""
    name, overload = op._schema.name, op._schema.overload_name
    returns = op._schema.returns
    outs = ("out",) if len(returns) == 1 else tuple(f"out{i}" for i in range(len(returns)))
    out_list = len(returns) == 1 and str(returns[0].type).startswith("List")
    made = f"{overload}_out" if overload else "out"
    if made in op.overloadpacket.overloads():  # std.out is of std.dim, not of std
        made = f"{overload or 'default'}_functional_out"
    return OutVariant(f"{name}.{made}", parameters_of(op), outs, out_list)


def program_name(op: OpOverload) -> str:
    """Name and overload as in a program: the default overload has no name."""
    overload = op._schema.overload_name
    return f"{op._schema.name}.{overload}" if overload else str(op._schema.name)


def is_view(op: OpOverload) -> bool:
    """The result shares the memory of an argument (no matter that the graph treats it as a copy)."""
    return any(arg.alias_info is not None and not arg.alias_info.is_write for arg in op._schema.arguments)


# Views that torch marks to be read otherwise than their bytes say: a program has no such mark.
_MARKED = frozenset({"aten::_conj", "aten::_neg_view"})


def view_twin(op: OpOverload) -> OpOverload | None:
    """The operator without `_copy`, that gives a view: of view_copy, view.

    None where the view's elements are not the bytes that lie there.
    """
    if op._schema.name.removesuffix("_copy") in _MARKED:
        return None
    if is_view(op):
        return op
    namespace, name = op._schema.name.split("::")
    if not name.endswith("_copy") or namespace != "aten":
        return None
    packet = getattr(torch.ops.aten, name.removesuffix("_copy"), None)
    overload = op._schema.overload_name or "default"
    if packet is None or overload not in packet.overloads():
        return None
    twin: OpOverload = getattr(packet, overload)
    return twin if is_view(twin) else None


def _packets(op: OpOverload) -> Iterator[OpOverloadPacket]:
    namespace, name = op._schema.name.split("::")
    if is_view(op):
        copy = getattr(getattr(torch.ops, namespace), name + "_copy", None)
        if copy is not None:
            yield copy
    yield op.overloadpacket


def _overloads(packet: OpOverloadPacket) -> Iterator[OpOverload]:
    for name in packet.overloads():
        yield getattr(packet, name)


@cache
def parameters_of(op: OpOverload) -> tuple[Parameter, ...]:
    """The arguments of a schema that are not outputs."""
    return tuple(
        Parameter(
            name=arg.name,
            type=str(arg.real_type),
            length=getattr(arg, "N", None),
            has_default=arg.has_default_value(),
            default=arg.default_value if arg.has_default_value() else None,
        )
        for arg in op._schema.arguments
        if not arg.is_out
    )


def _same(left: Iterable[Parameter], right: Iterable[Parameter], ignore: Iterable[str] = ()) -> bool:
    """Same names and types, whatever the order of keyword arguments."""
    return _kinds(left, ignore) == _kinds(right, ignore)


def _kinds(parameters: Iterable[Parameter], ignore: Iterable[str] = ()) -> set[tuple[str, str]]:
    ignored = set(ignore)
    return {(parameter.name, parameter.type) for parameter in parameters if parameter.name not in ignored}
