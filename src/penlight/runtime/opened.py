"""What the runtime opened for a program: shared by the program, its methods and its state.

None of these knows another, and arrays over a program's memory know only that memory. So all of it goes
away with the last one who has it, without the help of Python's collector, which does not look into arrays.
"""

from __future__ import annotations

import ctypes
import os
from threading import RLock
from typing import Any

import numpy as np

from penlight.errors import InvalidInput, NoKernel, NotSupported

from . import library
from .debug import KEY, DebugInfo
from .library import Value
from .memory import view


class OpenedProgram:
    """A program that the runtime has open.

    Attributes:
        where: the file, or what else the program came from, for messages.
        lock: for whoever calls the runtime with it; one call runs at a time. Arguments of a call may ask the
            program for something else.
        memory: what arrays over memory of the program keep.
        error: where the runtime leaves what went wrong.
    """

    def __init__(
        self, library: ctypes.CDLL, handle: int | None, where: str, error: ctypes.Array[ctypes.c_char]
    ) -> None:
        self.library, self.handle, self.where, self.error = library, handle, where, error
        self.memory = _Memory(library, handle)
        self.lock = RLock()
        self._debug: DebugInfo | None = None
        self._views_of_state: dict[str, list[tuple[np.ndarray[Any, Any], int]]] | None = None

    def check(self, status: int) -> None:
        """Raise what was reported; of a kernel or weights that are missing, say which file has them."""
        try:
            library.check(status, self.error, self.where)
        except InvalidInput as error:
            if not error.what.endswith("is external data; none was given"):
                raise
            raise InvalidInput(error.what, where=self.where, do=self._say_data()) from None
        except NoKernel as error:
            words = error.what.replace(",", " ").split()
            file = next((file for word in words if "::" in word and (file := self.debug.file_of(word))), None)
            if file is None:
                raise
            raise NoKernel(
                error.what, where=self.where, do=f"load it before the program: penlight.ops.load({file!r})"
            ) from None

    def named_data(self, key: str) -> bytes | None:
        """Bytes that the file keeps under a name; None when there are none."""
        data, size = ctypes.c_void_p(), ctypes.c_uint64()
        status = self.library.pl_named_data(self.handle, key.encode(), data, size)
        if status == 6:
            return None
        library.check_quietly(status, self.where)
        return ctypes.string_at(data.value or 0, size.value) if size.value else b""

    @property
    def debug(self) -> DebugInfo:
        """Names and source lines that the file keeps."""
        if self._debug is None:
            self._debug = DebugInfo(self.named_data(KEY))
        return self._debug

    def method_names(self) -> list[str]:
        """Of all methods, in the order of the file."""
        count = self.library.pl_method_count(self.handle)
        names = (self.library.pl_method_name(self.handle, index) for index in range(count))
        return [library.text_of(name, f"the name of method {i}", self.where) for i, name in enumerate(names)]

    def method_info(self, name: str) -> library.MethodInfo:
        """What the file says of a method."""
        info = library.MethodInfo()
        status = self.library.pl_describe_method(
            self.handle, name.encode(), info, self.error, library.ERROR_SIZE
        )
        library.check(status, self.error, self.where)
        return info

    def arena_sizes(self, name: str, count: int) -> list[int]:
        """Bytes of each of the `count` regions that are planned for a method."""
        size, is_state = ctypes.c_uint64(), ctypes.c_int32()
        sizes = []
        for index in range(count):
            status = self.library.pl_describe_arena(self.handle, name.encode(), index, size, is_state)
            library.check_quietly(status, self.where)
            sizes.append(size.value)
        return sizes

    def load_method(self, name: str) -> int:
        """Prepare a method for runs. Returns its address."""
        method = ctypes.c_void_p()
        status = self.library.pl_load_method(
            self.handle, name.encode(), method, self.error, library.ERROR_SIZE
        )
        self.check(status)
        self._views_of_state = None
        return method.value or 0

    def state_views(self) -> dict[str, list[tuple[np.ndarray[Any, Any], int]]]:
        """Arrays over the tensors of state with the numbers of their dtypes, by the tensors' names."""
        if self._views_of_state is None:
            count = ctypes.c_uint64()
            status = self.library.pl_state_count(self.handle, count, self.error, library.ERROR_SIZE)
            library.check(status, self.error, self.where)
            views: dict[str, list[tuple[np.ndarray[Any, Any], int]]] = {}
            for index in range(count.value):
                value, name = Value(), ctypes.c_char_p()
                self.library.pl_state(self.handle, index, value, name)
                text = name.value.decode(errors="replace") if name.value else f"state {index}"
                views.setdefault(text, []).append((view(value, self.memory), int(value.dtype)))
            self._views_of_state = views
        return self._views_of_state

    def __reduce_ex__(self, protocol: Any) -> Any:
        # Also what copies go by: two of a kind would share buffers and state.
        raise NotSupported(
            "a loaded program cannot be copied or pickled",
            where=self.where,
            do="load the file once more: penlight.load(...); the system keeps its weights in memory once",
        )

    def _say_data(self) -> str:
        beside = os.path.splitext(self.where)[0] + ".ptd"
        if not os.path.isfile(beside):
            return "give the .ptd file that was written with the program: penlight.load(..., data=FILE)"
        return f"give the weights beside it: penlight.load(..., data={beside!r}), or --data {beside}"


class _Memory:
    """Closes a program once neither it nor an array over its memory is left."""

    __slots__ = ("_handle", "_library")

    def __init__(self, library: ctypes.CDLL, handle: int | None) -> None:
        self._library, self._handle = library, handle

    def __del__(self) -> None:
        self._library.pl_close(self._handle)
