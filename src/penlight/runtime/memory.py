"""Memory of a loaded program as numpy arrays, and memory that its results are given away in."""

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


class ResultMemory:
    """Memory for the results of one output, which belong to the caller.

    New memory for large ones would cost more than a copy: the system clears each page of it. So
    memory that was given away is kept for the next result once no array over it is left.
    """

    _LARGE = 1 << 18  # bytes; copies of smaller ones are quick to have from malloc
    _KEPT = 2  # `y = program(x)` drops the last result when it has the next

    def __init__(self) -> None:
        self._free: deque[_Block] = deque(maxlen=self._KEPT)

    def take(self, size: int) -> Any:
        """So many bytes, aligned, as a ctypes array. They come back when nothing refers to it any more."""
        try:
            block = self._free.pop()
        except IndexError:
            block = None
        if block is None or not size <= block.size <= 2 * size:
            block = _Block(size)
        memory: Any = (ctypes.c_char * size).from_address(block.address)
        memory.lease = _Lease(block, self._free)
        return memory

    def copy(self, array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        """The same elements in row-major order."""
        if array.nbytes < self._LARGE:
            return array.copy()
        copy: np.ndarray[Any, Any] = np.ndarray(array.shape, array.dtype, self.take(array.nbytes))
        np.copyto(copy, array)
        return copy


class _Block:
    """Bytes from the heap, from a multiple of 64 on."""

    __slots__ = ("_memory", "address", "size")

    def __init__(self, size: int) -> None:
        self._memory = np.empty(size + 64, np.uint8)
        self.address = -(-self._memory.ctypes.data // 64) * 64
        self.size = size


class _Lease:
    """Lives as long as arrays over a block do, then leaves it to the next."""

    __slots__ = ("_block", "_free")

    def __init__(self, block: _Block, free: deque[_Block]) -> None:
        self._block, self._free = block, free

    def __del__(self) -> None:
        self._free.append(self._block)
