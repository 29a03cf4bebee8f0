"""State of a loaded program: what it keeps between calls."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from penlight.errors import StateNotFound

from .arguments import TensorArgument, TensorSpec
from .library import Info, Value
from .nearest import nearest
from .opened import OpenedProgram


class State(Mapping[str, Any]):
    """The tensors that a program keeps between calls, by name.

    Reading gives a copy; assigning writes all of a tensor. Names are those of the
    model's buffers; a tensor that the file does not name is called "state N".
    """

    def __init__(self, opened: OpenedProgram) -> None:
        self._opened = opened

    def __getitem__(self, name: str) -> np.ndarray[Any, Any]:
        with self._opened.lock:
            return self._find(name)[0][0].copy()

    def __setitem__(self, name: str, given: Any) -> None:
        with self._opened.lock:
            for view, number in self._find(name):
                info = Info(dtype=number, dim=view.ndim)
                info.sizes[: view.ndim] = view.shape
                info.dim_order[: view.ndim] = range(view.ndim)
                spec = TensorSpec(info, name)
                view[...] = TensorArgument(spec, Value()).array(given)

    def __iter__(self) -> Iterator[str]:
        with self._opened.lock:
            return iter(list(self._opened.state_views()))

    def __len__(self) -> int:
        with self._opened.lock:
            return len(self._opened.state_views())

    def _find(self, name: str) -> list[tuple[np.ndarray[Any, Any], int]]:
        views = self._opened.state_views()
        if name not in views:
            raise StateNotFound(f"the program has no state {name!r}", do=nearest(name, views))
        return views[name]
