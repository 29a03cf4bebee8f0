"""A loaded program: its methods, their metadata, its state."""

from __future__ import annotations

import ctypes
import operator
import os
from collections.abc import Iterator, Sequence
from threading import Lock
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, cast

import numpy as np

from penlight.errors import InvalidInput, MethodNotFound, NoKernel, NotSupported

from . import library
from .debug import KEY, DebugInfo
from .library import Value
from .memory import view
from .method import LoadedMethod
from .nearest import nearest
from .state import State

if TYPE_CHECKING:
    from typing_extensions import Buffer


class Compiled(Protocol):
    """What penlight.compile returns, as far as the runtime knows it."""

    def to_bytes(self) -> bytes: ...


Source: TypeAlias = "str | os.PathLike[str] | Buffer | Compiled"


class LoadedProgram:
    """A program in memory, ready to run. Calling it runs the method `forward`, or its only one.

    State belongs to the loaded program: load twice for two independent copies (the
    weights are shared by the operating system). One call runs at a time; calls from
    other threads wait for it.

    Attributes:
        methods: names of the methods.
        state: mapping of state tensors by name, see State.
        program_size: bytes of the file without weights.
    """

    def __init__(
        self,
        source: Source,
        *,
        data: Sequence[str | os.PathLike[str]] = (),
        libraries: str | Sequence[str] | None = None,
        copy: bool = True,
        map: bool = True,
        threads: int | None = None,
    ) -> None:
        self._library = library.library()
        self._lock = Lock()
        self._copies = copy
        self._loaded: dict[str, LoadedMethod] = {}
        self._views_of_state: dict[str, list[tuple[np.ndarray[Any, Any], int]]] | None = None
        self._error = ctypes.create_string_buffer(library.ERROR_SIZE)
        if isinstance(libraries, str):
            libraries = [libraries]
        if threads is not None and _whole(threads, 1, 1 << 31) is None:
            raise InvalidInput(
                "a program runs on one thread or more",
                got=f"threads={threads!r}",
                do="give 1, or None for all cores",
            )
        paths = [os.fsencode(_path_of_data(path)) for path in data]
        options = library.Options(
            libraries=",".join(libraries).encode() if libraries is not None else None,
            data_paths=(ctypes.c_char_p * max(1, len(paths)))(*paths),
            data_path_count=len(paths),
            map=map,
            threads=threads or 0,
        )
        handle = ctypes.c_void_p()
        content = None if isinstance(source, (str, os.PathLike)) else _content(source)
        if content is not None:
            self._where = f"a program of {len(content)} bytes"
            status = self._library.pl_open_bytes(
                content, len(content), options, handle, self._error, library.ERROR_SIZE
            )
        else:
            path = cast("str | os.PathLike[str]", source)
            self._where = os.fspath(path)
            status = self._library.pl_open_path(
                os.fsencode(path), options, handle, self._error, library.ERROR_SIZE
            )
        if status == 6:
            raise InvalidInput(self._error.value.decode(errors="replace"), where="libraries")
        library.check(status, self._error, self._where)
        self._handle = handle.value
        self._opened = _Opened(self._library, handle.value)
        count = self._library.pl_method_count(self._handle)
        names = (self._library.pl_method_name(self._handle, index) for index in range(count))
        self.methods = [
            library.text_of(name, f"the name of method {i}", self._where) for i, name in enumerate(names)
        ]
        self.program_size = int(self._library.pl_program_size(self._handle))
        self.state = State(self)
        self._debug: DebugInfo | None = None
        self._default: LoadedMethod | None = None

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run `forward`, or the only method."""
        method = self._default
        if method is None:
            only = self.methods[0] if len(self.methods) == 1 else "forward"
            method = self._default = self[only]
        return method(*args, **kwargs)

    def __getitem__(self, name: str) -> LoadedMethod:
        """A method by its name."""
        method = self._loaded.get(name) if isinstance(name, str) else None
        if method is None:
            if name not in self.methods:
                do = nearest(str(name), self.methods)
                raise MethodNotFound(f"the program has no method {name!r}", where=self._where, do=do)
            with self._lock:
                method = self._loaded.setdefault(name, LoadedMethod(self, name))
        return method

    def __contains__(self, name: object) -> bool:
        return name in self.methods

    def __iter__(self) -> Iterator[str]:
        return iter(self.methods)

    def __repr__(self) -> str:
        return f"<program {self._where}: {', '.join(self.methods)}>"

    def verify(self) -> None:
        """Prepare every method, so that whatever is wrong with one shows now."""
        with self._lock:
            status = self._library.pl_verify(self._handle, self._error, library.ERROR_SIZE)
            self._check(status)

    def reset(self) -> None:
        """Put the initial values of all state back."""
        with self._lock:
            status = self._library.pl_reset(self._handle, self._error, library.ERROR_SIZE)
            library.check(status, self._error, self._where)

    def seed(self, seed: int) -> None:
        """Let random operators of all methods begin anew.

        A loaded program has seed 0. What it draws depends on the seed and on how many random
        operators have run since, and is the same on every machine; it is not torch's sequence.
        """
        number = _whole(seed, 0, 1 << 64)
        if number is None:
            raise InvalidInput(
                "a seed is a number of 64 bits", got=repr(seed), do="give one from 0 to 2**64 - 1"
            )
        with self._lock:
            self._library.pl_seed(self._handle, number)

    def named_data(self, key: str) -> bytes | None:
        """Bytes that the file keeps under a name; None when there are none."""
        data, size = ctypes.c_void_p(), ctypes.c_uint64()
        status = self._library.pl_named_data(self._handle, key.encode(), data, size)
        if status == 6:
            return None
        library.check_quietly(status, self._where)
        return ctypes.string_at(data.value or 0, size.value) if size.value else b""

    @property
    def debug(self) -> DebugInfo:
        """Names and source lines that the file keeps."""
        if self._debug is None:
            self._debug = DebugInfo(self.named_data(KEY))
        return self._debug

    def __reduce_ex__(self, protocol: Any) -> Any:
        # Also what copies go by: a copy would close the program that both hold.
        raise NotSupported(
            "a loaded program cannot be copied or pickled",
            where=self._where,
            do="load the file once more: penlight.load(...); the system keeps its weights in memory once",
        )

    def _check(self, status: int) -> None:
        """Raise what was reported; of a kernel or weights that are missing, say which file has them."""
        try:
            library.check(status, self._error, self._where)
        except InvalidInput as error:
            if not error.what.endswith("is external data; none was given"):
                raise
            raise InvalidInput(error.what, where=self._where, do=self._say_data()) from None
        except NoKernel as error:
            words = error.what.replace(",", " ").split()
            file = next((file for word in words if "::" in word and (file := self.debug.file_of(word))), None)
            if file is None:
                raise
            raise NoKernel(
                error.what, where=self._where, do=f"load it before the program: penlight.ops.load({file!r})"
            ) from None

    def _say_data(self) -> str:
        beside = os.path.splitext(self._where)[0] + ".ptd"
        if not os.path.isfile(beside):
            return "give the .ptd file that was written with the program: penlight.load(..., data=FILE)"
        return f"give the weights beside it: penlight.load(..., data={beside!r}), or --data {beside}"

    def _method_info(self, name: str) -> library.MethodInfo:
        info = library.MethodInfo()
        status = self._library.pl_describe_method(
            self._handle, name.encode(), info, self._error, library.ERROR_SIZE
        )
        library.check(status, self._error, self._where)
        return info

    def _arena_sizes(self, name: str, count: int) -> list[int]:
        size, is_state = ctypes.c_uint64(), ctypes.c_int32()
        sizes = []
        for index in range(count):
            status = self._library.pl_describe_arena(self._handle, name.encode(), index, size, is_state)
            library.check_quietly(status, self._where)
            sizes.append(size.value)
        return sizes

    def _load_method(self, name: str) -> int:
        method = ctypes.c_void_p()
        status = self._library.pl_load_method(
            self._handle, name.encode(), method, self._error, library.ERROR_SIZE
        )
        self._check(status)
        self._views_of_state = None
        return method.value or 0

    def _state_views(self) -> dict[str, list[tuple[np.ndarray[Any, Any], int]]]:
        if self._views_of_state is None:
            count = ctypes.c_uint64()
            status = self._library.pl_state_count(self._handle, count, self._error, library.ERROR_SIZE)
            library.check(status, self._error, self._where)
            views: dict[str, list[tuple[np.ndarray[Any, Any], int]]] = {}
            for index in range(count.value):
                value, name = Value(), ctypes.c_char_p()
                self._library.pl_state(self._handle, index, value, name)
                text = name.value.decode(errors="replace") if name.value else f"state {index}"
                views.setdefault(text, []).append((view(value, self._opened), int(value.dtype)))
            self._views_of_state = views
        return self._views_of_state


class _Opened:
    """What the runtime opened, closed when neither the program nor an array over its memory is left.

    It knows neither of them: Python's collector does not look into arrays, so that a program which they
    keep alive would never go away if it keeps them too.
    """

    __slots__ = ("_handle", "_library")

    def __init__(self, library: ctypes.CDLL, handle: int | None) -> None:
        self._library, self._handle = library, handle

    def __del__(self) -> None:
        self._library.pl_close(self._handle)


def _content(source: Any) -> bytes:
    """The bytes of a program: of anything that has a buffer, or of what can write itself."""
    try:
        content = bytes(memoryview(source))
    except TypeError:
        if isinstance(source, int) or not hasattr(source, "to_bytes"):
            raise InvalidInput(
                "this is no program",
                got=type(source).__name__,
                do="give the path of a .pte file, its bytes, or what penlight.compile returned",
            ) from None
        return cast(bytes, source.to_bytes())
    if content.endswith(b".pte"):
        raise InvalidInput(
            "these bytes are a path, not the content of a file",
            got=repr(content)[:200],
            do="give the path as a str: penlight.load(os.fsdecode(path))",
        )
    return content


def _path_of_data(path: Any) -> str | os.PathLike[str]:
    if not isinstance(path, (str, os.PathLike)):
        raise InvalidInput(
            "`data` takes paths of .ptd files",
            got=type(path).__name__,
            do="write the weights to a file and give its path",
        )
    return path


def _whole(number: Any, first: int, end: int) -> int | None:
    """A whole number from `first` to before `end`; None for anything else."""
    try:
        found = operator.index(number)
    except TypeError:
        return None
    return found if first <= found < end else None
