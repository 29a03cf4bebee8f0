"""Arguments of a node -> values, by the types of the operator's schema."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch.fx import Node

from penlight.errors import NotSupported
from penlight.ir.dtypes import DType
from penlight.ir.plan import BoolList, DoubleList, Number, NumberList, TensorList, TensorValue, Text, Value
from penlight.kernels.out_variants import Parameter

# torch.memory_format and torch.layout by their numbers in the C++ enums, as programs carry them.
_MEMORY_FORMATS = {
    torch.contiguous_format: 0,
    torch.preserve_format: 1,
    torch.channels_last: 2,
    torch.channels_last_3d: 3,
}
_LAYOUTS = {torch.strided: 0, torch.sparse_coo: 1}

Lookup = Callable[[Node], Value]
Constant = Callable[[bool | int | float | complex], TensorValue]


def bind(parameters: Sequence[Parameter], args: Sequence[Any], kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """Arguments by name with defaults written out."""
    bound = {parameter.name: value for parameter, value in zip(parameters, args, strict=False)}
    bound.update(kwargs)
    for parameter in parameters:
        if parameter.name not in bound:
            bound[parameter.name] = parameter.default
    return bound


def to_value(argument: Any, parameter: Parameter, lookup: Lookup, constant: Constant) -> Value:
    """One argument as the value that the operator's kernel expects; `constant` makes a tensor of a number."""
    kind = parameter.type
    if kind.startswith("Optional["):
        if argument is None:
            return None
        kind = kind[len("Optional[") : -1]
    if kind.startswith("List["):
        return _list(argument, kind[len("List[") : -1], parameter.length, lookup)
    if kind == "Tensor" and isinstance(argument, bool | int | float | complex):
        return constant(argument)
    return _single(argument, kind, lookup)


def _single(argument: Any, kind: str, lookup: Lookup) -> Value:
    if isinstance(argument, Node):
        value = lookup(argument)
        # A constant float argument may be given as an int; a computed one is read as it comes.
        constant = isinstance(value, Number) and not value.written
        return Number(float(value.value)) if constant and kind == "float" else value  # type: ignore[union-attr]
    match argument:
        case torch.dtype():
            return Number(int(DType[str(argument).removeprefix("torch.")]))
        case torch.memory_format():
            return Number(_MEMORY_FORMATS[argument])
        case torch.layout():
            return Number(_LAYOUTS[argument])
        case torch.device() | torch.Generator() | None:
            return None
        case str():
            return None if kind == "Device" else Text(argument)
        case bool() | int() | float():
            return Number(
                float(argument) if kind == "float" else bool(argument) if kind == "bool" else argument
            )
    raise NotSupported(
        f"an argument of type {type(argument).__name__} has no place in a program", got=str(argument)
    )


def _list(argument: Any, item: str, length: int | None, lookup: Lookup) -> Value:
    if isinstance(argument, Node):
        value = lookup(argument)
        if isinstance(value, TensorList | NumberList):
            return value
        argument = [argument]
    if not isinstance(argument, list | tuple):
        argument = [argument] * (length or 1)
    if item in ("Tensor", "Optional[Tensor]"):
        tensors = [None if entry is None else lookup(entry) for entry in argument]
        assert all(tensor is None or isinstance(tensor, TensorValue) for tensor in tensors)
        return TensorList(tuple(tensors), optional=item != "Tensor")  # type: ignore[arg-type]
    values = [_single(entry, item, lookup) for entry in argument]
    numbers = [value for value in values if isinstance(value, Number)]
    assert len(numbers) == len(values), f"a list of {item} holds {argument}"
    if item in ("float", "number"):
        return DoubleList(tuple(float(number.value) for number in numbers))
    if item == "bool":
        return BoolList(tuple(bool(number.value) for number in numbers))
    return NumberList(tuple(numbers))
