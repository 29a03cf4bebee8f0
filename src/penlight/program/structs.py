"""A program as its file says it: methods of values and instructions, and stored bytes.

Everything refers to values, operators and stored bytes by index, as in the file.
`penlight.program.writer` and `.reader` turn it into a .pte file and back.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import TypeAlias

from penlight.ir.dtypes import DType

# In bytes. A vector that does not begin at one may span two, and take twice as long to read.
CACHE_LINE = 64
_CHUNK = 1 << 24


@dataclass(frozen=True)
class Blob:
    """Bytes that are fetched only when they are written or looked at.

    `stream` gives them part by part, for those that are computed and need not be in memory at once.
    `read_whole` says that each run reads all of them, not a few rows.
    """

    nbytes: int
    fetch: Callable[[], memoryview]
    alignment: int = 16
    stream: Callable[[], Iterator[memoryview]] | None = None
    read_whole: bool = False

    @classmethod
    def of(cls, data: bytes | bytearray | memoryview, alignment: int = 16) -> Blob:
        view = memoryview(data).cast("B")
        return cls(view.nbytes, lambda: view, alignment)

    def view(self) -> memoryview:
        return self.fetch()

    def chunks(self) -> Iterator[memoryview]:
        """The bytes in order, in parts of at most some megabytes if they need not be whole in memory."""
        if self.stream is not None:
            yield from self.stream()
            return
        view = self.view()
        for start in range(0, view.nbytes, _CHUNK):
            yield view[start : start + _CHUNK]

    def digest(self) -> bytes:
        """Equal for equal content."""
        digest = hashlib.blake2b(digest_size=20)
        for chunk in self.chunks():
            digest.update(chunk)
        return digest.digest()


EMPTY = Blob.of(b"")


# --- values --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Null:
    pass


@dataclass(frozen=True)
class Int:
    value: int


@dataclass(frozen=True)
class Bool:
    value: bool


@dataclass(frozen=True)
class Double:
    value: float


@dataclass(frozen=True)
class String:
    value: str


@dataclass(frozen=True)
class IntList:
    items: tuple[int, ...]  # indices of Int values


@dataclass(frozen=True)
class DoubleList:
    items: tuple[float, ...]


@dataclass(frozen=True)
class BoolList:
    items: tuple[bool, ...]


@dataclass(frozen=True)
class TensorList:
    items: tuple[int, ...]  # indices of Tensor values


@dataclass(frozen=True)
class OptionalTensorList:
    items: tuple[int, ...]  # the same; -1 is none


@dataclass(frozen=True)
class Allocation:
    """A place in planned memory: region `memory_id` (from 1) and bytes from its start."""

    memory_id: int
    offset: int


@dataclass(frozen=True)
class Tensor:
    """`data` is an index of `Contents.constants`, or of `.initial` when there is an allocation; 0 is none.

    State is planned and has a name. A planned tensor that shares the bytes of state, a view of it,
    is marked by `in_state`: in the file, extra information without a name.
    """

    dtype: DType
    sizes: tuple[int, ...]
    dim_order: tuple[int, ...]
    dynamism: int = 0  # 0 static, 1 bounded, 2 unbounded
    data: int = 0
    allocation: Allocation | None = None
    name: str | None = None
    in_state: bool = False
    external: bool = False  # bytes come from the user's data map, by name
    requires_grad: bool = False

    @property
    def nbytes(self) -> int:
        return prod(self.sizes) * self.dtype.itemsize


Value: TypeAlias = (
    Null
    | Int
    | Bool
    | Double
    | String
    | IntList
    | DoubleList
    | BoolList
    | TensorList
    | OptionalTensorList
    | Tensor
)


# --- instructions --------------------------------------------------------------------------------


@dataclass(frozen=True)
class KernelCall:
    op: int
    args: tuple[int, ...]


@dataclass(frozen=True)
class DelegateCall:
    delegate: int
    args: tuple[int, ...]


@dataclass(frozen=True)
class Move:
    source: int
    target: int


@dataclass(frozen=True)
class JumpFalse:
    """Goes on at instruction `target` when the value is false."""

    condition: int
    target: int


@dataclass(frozen=True)
class Free:
    value: int


Instruction: TypeAlias = KernelCall | DelegateCall | Move | JumpFalse | Free


# --- methods and the program ---------------------------------------------------------------------


@dataclass(frozen=True)
class Operator:
    name: str  # "aten::add"
    overload: str  # "out"; empty for the default overload

    def __str__(self) -> str:
        return f"{self.name}.{self.overload}" if self.overload else self.name


@dataclass(frozen=True)
class Delegate:
    backend: str
    data: Blob
    compile_specs: tuple[tuple[str, bytes], ...] = ()


@dataclass
class Method:
    """One entry point. `arenas[k]` is the size in bytes of the region with memory id k + 1."""

    name: str
    values: list[Value]
    inputs: list[int]
    outputs: list[int]
    instructions: list[Instruction]
    operators: list[Operator]
    delegates: list[Delegate] = field(default_factory=list)
    arenas: list[int] = field(default_factory=list)
    in_structure: str | None = None  # torch pytree, as JSON
    out_structure: str | None = None

    def operator_names(self) -> list[str]:
        """Operators in order of first call, for tools."""
        return [str(op) for op in self.operators]


@dataclass(frozen=True)
class StoredTensor:
    """A tensor in a .ptd file."""

    dtype: DType
    sizes: tuple[int, ...]
    dim_order: tuple[int, ...]
    data: Blob


@dataclass
class Contents:
    """What a program file holds. Index 0 of `constants` and of `initial` stands for "no bytes"."""

    methods: list[Method]
    constants: list[Blob] = field(default_factory=lambda: [EMPTY])
    initial: list[Blob] = field(default_factory=lambda: [EMPTY])
    named_data: dict[str, Blob] = field(default_factory=dict)
    version: int = 0
    external: dict[str, StoredTensor] = field(default_factory=dict)  # go to a .ptd file

    def method(self, name: str) -> Method:
        for method in self.methods:
            if method.name == name:
                return method
        raise KeyError(name)

    def read_whole(self) -> set[int | str]:
        """Constants, external ones by name, that calls of kernels read from end to end.

        Those are calls without integers to look rows up by.
        """
        whole: set[int | str] = set()
        for method in self.methods:
            for call in method.instructions:
                if not isinstance(call, KernelCall):
                    continue
                given = [method.values[at] for at in call.args if at < len(method.values)]
                tensors = [value for value in given if isinstance(value, Tensor)]
                if any(tensor.dtype in (DType.int32, DType.int64) for tensor in tensors):
                    continue
                for tensor in tensors:
                    if not tensor.allocation:
                        whole.add(tensor.name if tensor.external and tensor.name else tensor.data)
        return whole - {0}

    def bytes_of(self, tensor: Tensor) -> memoryview | None:
        """The stored bytes of a constant, or of a state tensor's initial value."""
        if not tensor.data or tensor.external:
            return None
        blob = (self.initial if tensor.allocation else self.constants)[tensor.data]
        return blob.view()[: tensor.nbytes]


def align_up(value: int, alignment: int) -> int:
    return -(-value // alignment) * alignment


def contiguous_order(rank: int) -> tuple[int, ...]:
    return tuple(range(rank))


def strides_of(sizes: Sequence[int], dim_order: Iterable[int]) -> tuple[int, ...]:
    """Strides in elements; sizes of 0 count as 1."""
    strides, step = [0] * len(sizes), 1
    for dim in reversed(tuple(dim_order)):
        strides[dim] = step
        step *= max(sizes[dim], 1)
    return tuple(strides)
