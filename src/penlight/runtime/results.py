"""Results of a call: from what the runtime wrote to Python objects that belong to the caller."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np

from penlight.errors import NotSupported

from . import dtypes
from .library import BOOL, DOUBLE, INT, NONE, STRING, TAG_NAMES, TENSOR, Value
from .memory import ResultMemory, view

_SIGNED = {1: np.uint8, 2: np.int16, 4: np.int32}  # by their bytes: types that torch takes from numpy


class Result:
    """Reads one output of a call.

    What was found out about it (dtype, sizes, place) is kept until the runtime says that it changed.
    """

    __slots__ = (
        "_array",
        "_dtype",
        "_is_dynamic",
        "_lent",
        "_memory",
        "_name",
        "_owner",
        "_raw",
        "_shape",
        "_size",
        "_value",
    )

    def __init__(
        self, name: str, value: Value, owner: object, *, copies: bool, room: int, is_dynamic: bool
    ) -> None:
        """Of an output that the runtime describes in `value`.

        Args:
            name: of the output and its method, for messages.
            owner: what arrays over the program's memory keep alive.
            copies: whether the caller gets results that no later call changes.
            room: bytes that an output needs which can be written to memory of the caller, else 0.
            is_dynamic: whether that is the bound of it.
        """
        self._name, self._value, self._owner = name, value, owner
        self._memory = ResultMemory() if copies else None
        self._size, self._is_dynamic = room if copies else 0, is_dynamic
        self._lent: Any = None  # the memory that this call was given
        self._array: np.ndarray[Any, Any] | None = None  # over the program's memory
        self._shape: tuple[int, ...] | None = None  # of the last result, if it was a tensor
        self._dtype: Any = None
        self._raw: np.dtype[Any] | None = None  # of elements that numpy has no type for

    @property
    def is_lendable(self) -> bool:
        """Can a call write it to memory of the caller?"""
        return self._size > 0

    def lend(self) -> int | None:
        """Provide memory for the next call and return its address.

        None where most of it may be left empty: the last result, if there was one, had less than half of the
        bound's bytes.
        """
        if self._is_dynamic and 2 * self._value.size < self._size:
            return None
        assert self._memory is not None
        self._lent = self._memory.take(self._size)
        return ctypes.addressof(self._lent)

    def forget(self) -> None:
        """Let go of everything about calls so far."""
        self._lent = self._array = self._shape = None

    def look(self) -> None:
        """Find out about the last result, which is not as the one before."""
        value = self._value
        self._array = self._shape = None
        if value.tag == TENSOR:
            self._shape = tuple(value.sizes[: value.dim])
            self._dtype, self._raw = dtypes.numpy_dtype(value.dtype), dtypes.raw_dtype(value.dtype)

    def read(self) -> Any:
        """The last result: an array or a number."""
        return self._number() if self._shape is None else self._read_array()

    def read_torch(self, torch: Any) -> Any:
        """The last result: a tensor or a number."""
        if self._shape is None:
            return self._number()
        found, raw = self._read_array(), self._raw
        if raw is None:
            return torch.from_numpy(found)
        copied = found.copy() if self._memory is None else found
        return torch.from_numpy(copied.view(_SIGNED[raw.itemsize])).view(
            dtypes.torch_dtype(self._value.dtype)
        )

    def _read_array(self) -> np.ndarray[Any, Any]:
        lent, self._lent = self._lent, None
        if lent is not None and self._value.data == ctypes.addressof(lent):
            return np.ndarray(self._shape or (), self._dtype, lent)
        if self._array is None:
            self._array = view(self._value, self._owner)
        return self._array if self._memory is None else self._memory.copy(self._array)

    def _number(self) -> Any:
        value = self._value
        tag = value.tag
        if tag == INT:
            return value.integer
        if tag == DOUBLE:
            return value.real
        if tag == BOOL:
            return bool(value.integer)
        if tag == STRING:
            return ctypes.string_at(value.data, value.size).decode(errors="replace")
        if tag == NONE:
            return None
        raise NotSupported(
            f"{self._name} is a {TAG_NAMES[tag]}",
            do="have the model return its tensors one by one",
        )
