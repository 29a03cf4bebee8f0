"""Call one kernel by its operator's name, outside any program."""

from __future__ import annotations

import ctypes
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from penlight.errors import InvalidInput, NoKernel

from . import dtypes, library
from .library import Value
from .nearest import nearest
from .operators import operators

# Letters of lists of numbers: the tag, and how an item lies in memory.
_LISTS: dict[str, tuple[int, Any]] = {
    "J": (library.INT_LIST, ctypes.c_int64),
    "D": (library.DOUBLE_LIST, ctypes.c_double),
    "C": (library.BOOL_LIST, ctypes.c_bool),
}


def signature_of(name: str, libraries: str | None = None) -> str:
    """The kernel's argument types, one letter each (penlight/boxing.h)."""
    chosen = libraries.split(",") if libraries else None
    names = []
    for operator in operators():
        if chosen is None or operator.library in chosen:
            if operator.name == name:
                return operator.signature
            names.append(operator.name)
    raise NoKernel(f"there is no kernel for {name}", do=nearest(name, names).split("?")[0])


def call_kernel(
    name: str, arguments: Sequence[Any], *, libraries: str | None = None
) -> list[tuple[int, ...]]:
    """Call a kernel; it writes to the arrays that are its outputs.

    Args:
        name: of the operator, "aten::add.out".
        arguments: in the order of its schema, outputs last: contiguous or channels-last
            numpy arrays, numbers, strings, None, lists of them, dtypes as PyTorch's numbers.
        libraries: kernel libraries to ask, "optimized,portable"; None for all.

    Returns: the sizes of the tensor arguments after the call, as kernels may make
        their outputs smaller than the memory they were given.
    """
    letters = signature_of(name, libraries)
    if len(arguments) != len(letters):
        raise InvalidInput(f"{name} takes {len(letters)} arguments", got=str(len(arguments)))
    values = (Value * max(1, len(arguments)))()
    keep: list[Any] = []
    for index, (argument, letter) in enumerate(zip(arguments, letters, strict=True)):
        _fill(values[index], argument, letter, keep, f"argument {index} of {name}")
    _run(library.library().pl_kernel_call, name, libraries, values, len(letters))
    return [tuple(value.sizes[: value.dim]) for value in values if value.tag == library.TENSOR]


def kernel_shapes(
    name: str,
    arguments: Sequence[Any],
    *,
    dtypes_of_results: Sequence[str] | None = None,
    libraries: str | None = None,
) -> list[tuple[int, ...]]:
    """Sizes of a kernel's results, from the kernel itself, which stops once it has given them.

    Args:
        name: of the operator, "aten::add.out".
        arguments: as for call_kernel, without the results. A tensor may also be a pair of its
            sizes and its dtype, ``((2, 3), "float32")``; the kernel then sees zeros.
        dtypes_of_results: for kernels that ask; by default all have that of the first tensor.
        libraries: kernel libraries to ask; None for all.

    Raises:
        InvalidInput: the kernel does not take these arguments.
        RuntimeFailure: it returned without giving its results their sizes.
    """
    letters = signature_of(name, libraries)
    results = len(letters) - len(arguments)
    if results < 1 or letters[-results:].strip("O"):
        raise InvalidInput(f"{name} takes other arguments", got=f"{len(arguments)}, signature {letters}")
    values = (Value * len(letters))()
    keep: list[Any] = []
    for index, (argument, letter) in enumerate(zip(arguments, letters, strict=False)):
        _fill(values[index], argument, letter, keep, f"argument {index} of {name}")
    first = next((value.dtype for value in values if value.tag == library.TENSOR), 6)
    numbers = [_number_of(dtype) for dtype in dtypes_of_results or ()] or [first] * results
    for value, number in zip(values[-results:], numbers, strict=True):
        value.tag, value.dtype, value.dim = library.TENSOR, number, library.UNKNOWN_DIM
    _run(library.library().pl_kernel_shapes, name, libraries, values, len(letters))
    return [tuple(value.sizes[: value.dim]) for value in values[-results:]]


def _run(function: Any, name: str, libraries: str | None, values: Any, count: int) -> None:
    error = ctypes.create_string_buffer(library.ERROR_SIZE)
    chosen = libraries.encode() if libraries else None
    status = function(name.encode(), chosen, values, count, error, library.ERROR_SIZE)
    library.check(status, error, f"operator {name}")


def _fill(value: Value, given: Any, letter: str, keep: list[Any], where: str) -> None:
    kind = letter.upper()
    if given is None:
        value.tag = library.NONE
    elif kind in "TO":
        _fill_tensor(value, given, keep, where)
    elif kind in "LQ":
        items = (Value * max(1, len(given)))()
        for item, tensor in zip(items, given, strict=False):
            if tensor is not None:
                _fill_tensor(item, tensor, keep, where)
        _fill_list(
            value, library.TENSOR_LIST if kind == "L" else library.OPTIONAL_TENSOR_LIST, items, len(given)
        )
        keep.append(items)
    elif kind in _LISTS:
        tag, item_type = _LISTS[kind]
        numbers = (item_type * max(1, len(given)))(*given)
        _fill_list(value, tag, numbers, len(given))
        keep.append(numbers)
    elif kind == "Z":
        text = ctypes.create_string_buffer(given.encode())
        _fill_list(value, library.STRING, text, len(text.value))
        keep.append(text)
    elif isinstance(given, bool) or kind == "B":
        value.tag, value.integer = library.BOOL, bool(given)
    elif isinstance(given, float) or kind == "F":
        value.tag, value.real = library.DOUBLE, float(given)
    else:
        value.tag, value.integer = library.INT, int(given)


def _fill_list(value: Value, tag: int, items: Any, count: int) -> None:
    value.tag, value.size, value.data = tag, count, ctypes.addressof(items)


def _fill_tensor(value: Value, given: Any, keep: list[Any], where: str) -> None:
    if isinstance(given, tuple) and len(given) == 2:
        sizes, dtype = given
        value.tag, value.dtype, value.dim, value.size = library.TENSOR, _number_of(dtype), len(sizes), 0
        value.sizes[: len(sizes)] = sizes
        value.strides[: len(sizes)] = [
            math.prod(max(1, n) for n in sizes[d + 1 :]) for d in range(len(sizes))
        ]
        return
    if not isinstance(given, np.ndarray):
        raise InvalidInput(f"{where} should be an array", got=type(given).__name__)
    number = dtypes.number_of(given.dtype)
    if number is None:
        raise InvalidInput(f"{where} has a dtype that tensors cannot have", got=str(given.dtype))
    value.tag, value.dtype, value.dim, value.size = library.TENSOR, number, given.ndim, given.nbytes
    value.data = given.__array_interface__["data"][0]
    value.sizes[: given.ndim] = given.shape
    value.strides[: given.ndim] = [stride // max(1, given.itemsize) for stride in given.strides]
    keep.append(given)


def _number_of(dtype: str) -> int:
    for number, name in dtypes.NAMES.items():
        if name == dtype:
            return number
    raise InvalidInput("tensors cannot have this dtype", got=dtype, do=nearest(dtype, dtypes.NAMES.values()))
