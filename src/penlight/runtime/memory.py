"""Memory of a loaded program as numpy arrays."""

from __future__ import annotations

import ctypes
from collections import deque
from typing import Any

import numpy as np

from . import dtypes
from .library import Value


def view(value: Value, owner: object) -> np.ndarray[Any, Any]:
    """An array over a tensor's memory, which keeps `owner` alive."""
    dtype = dtypes.numpy_dtype(value.dtype)
    shape = tuple(value.sizes[: value.dim])
    if not value.size or not value.data:
        return np.empty(shape, dtype)
    memory = (ctypes.c_char * value.size).from_address(value.data)
    memory.owner = owner
    strides = tuple(stride * dtype.itemsize for stride in value.strides[: value.dim])
    return np.ndarray(shape, dtype, memory, 0, strides)


class Copies:
    """Copies of one output.

    New memory for large ones would cost more than the copy: the system clears each page of it. So
    memory that was given away is kept for the next copy once no array over it is left.
    """

    _LARGE = 1 << 18  # bytes; smaller ones are quick to have from malloc
    _ALIGNMENT = 64
    _KEPT = 2  # `y = program(x)` drops the last result when it has the next

    def __init__(self) -> None:
        self._free: deque[np.ndarray[Any, Any]] = deque(maxlen=self._KEPT)

    def of(self, array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        """A copy in row-major order, which belongs to the caller."""
        size = array.nbytes
        if size < self._LARGE:
            return array.copy()
        try:
            given = self._free.pop()
        except IndexError:
            given = None
        if given is None or not size <= given.nbytes - self._ALIGNMENT <= 2 * size:
            given = np.empty(size + self._ALIGNMENT, np.uint8)
        memory: Any = (ctypes.c_char * size).from_address(
            -(-given.ctypes.data // self._ALIGNMENT) * self._ALIGNMENT
        )
        memory.owner = _Lease(given, self._free)
        copy: np.ndarray[Any, Any] = np.ndarray(array.shape, array.dtype, memory)
        np.copyto(copy, array)
        return copy


class _Lease:
    """Lives as long as arrays over the memory do, then leaves it to the next."""

    __slots__ = ("_free", "_memory")

    def __init__(self, memory: np.ndarray[Any, Any], free: deque[np.ndarray[Any, Any]]) -> None:
        self._memory, self._free = memory, free

    def __del__(self) -> None:
        self._free.append(self._memory)
