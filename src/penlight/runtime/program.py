"""A loaded program: its methods, their metadata, its state."""

from __future__ import annotations

import ctypes
import operator
import os
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, cast

from penlight.errors import InvalidInput, MethodNotFound

from . import library
from .debug import DebugInfo
from .method import LoadedMethod
from .nearest import nearest
from .opened import OpenedProgram
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
        self._copies = copy
        self._loaded: dict[str, LoadedMethod] = {}
        if isinstance(libraries, Iterable):
            libraries = [libraries] if isinstance(libraries, str) else list(libraries)
        are_names = isinstance(libraries, list) and all(isinstance(name, str) for name in libraries)
        if libraries is not None and not are_names:
            raise InvalidInput(
                "`libraries` takes names of kernel libraries",
                got=repr(libraries),
                do='give one or several: ["optimized", "portable"]',
            )
        if threads is not None and _whole(threads, 1, 1 << 31) is None:
            raise InvalidInput(
                "a program runs on one thread or more",
                got=f"threads={threads!r}",
                do="give 1, or None for all cores",
            )
        paths = [_encoded(_path_of_data(path)) for path in data]
        options = library.Options(
            libraries=",".join(libraries).encode() if libraries is not None else None,
            data_paths=(ctypes.c_char_p * max(1, len(paths)))(*paths),
            data_path_count=len(paths),
            map=map,
            threads=threads or 0,
        )
        lib, handle = library.library(), ctypes.c_void_p()
        error = ctypes.create_string_buffer(library.ERROR_SIZE)
        content = None if isinstance(source, (str, os.PathLike)) else _content(source)
        if content is not None:
            where = f"a program of {len(content)} bytes"
            status = lib.pl_open_bytes(content, len(content), options, handle, error, library.ERROR_SIZE)
        else:
            path = cast("str | os.PathLike[str]", source)
            where = os.fspath(path)
            status = lib.pl_open_path(_encoded(path), options, handle, error, library.ERROR_SIZE)
        if status == 6:
            raise InvalidInput(error.value.decode(errors="replace"), where="libraries")
        library.check(status, error, where)
        self._opened = OpenedProgram(lib, handle.value, where, error)
        self.methods = self._opened.method_names()
        self.program_size = int(lib.pl_program_size(handle.value))
        self.state = State(self._opened)
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
                raise MethodNotFound(f"the program has no method {name!r}", where=self._opened.where, do=do)
            with self._opened.lock:
                method = self._loaded.setdefault(name, LoadedMethod(self._opened, name, copies=self._copies))
        return method

    def __contains__(self, name: object) -> bool:
        return name in self.methods

    def __iter__(self) -> Iterator[str]:
        return iter(self.methods)

    def __repr__(self) -> str:
        return f"<program {self._opened.where}: {', '.join(self.methods)}>"

    def verify(self) -> None:
        """Prepare every method, so that whatever is wrong with one shows now."""
        opened = self._opened
        with opened.lock:
            opened.check(opened.library.pl_verify(opened.handle, opened.error, library.ERROR_SIZE))

    def reset(self) -> None:
        """Put the initial values of all state back."""
        opened = self._opened
        with opened.lock:
            opened.check(opened.library.pl_reset(opened.handle, opened.error, library.ERROR_SIZE))

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
        with self._opened.lock:
            self._opened.library.pl_seed(self._opened.handle, number)

    def named_data(self, key: str) -> bytes | None:
        """Bytes that the file keeps under a name; None when there are none."""
        return self._opened.named_data(key)

    @property
    def debug(self) -> DebugInfo:
        """Names and source lines that the file keeps."""
        return self._opened.debug

    def __reduce_ex__(self, protocol: Any) -> Any:
        return self._opened.__reduce_ex__(protocol)


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


def _encoded(path: str | os.PathLike[str]) -> bytes:
    name = os.fsencode(path)
    if b"\0" in name:  # where C takes it to end
        raise InvalidInput("no path has a zero byte in it", got=repr(os.fspath(path)))
    return name


def _whole(number: Any, first: int, end: int) -> int | None:
    """A whole number from `first` to before `end`; None for anything else."""
    try:
        found = operator.index(number)
    except TypeError:
        return None
    return found if first <= found < end else None
