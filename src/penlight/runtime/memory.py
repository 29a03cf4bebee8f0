"""Memory of a loaded program as numpy arrays."""

from __future__ import annotations

import ctypes
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
