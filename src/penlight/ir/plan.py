"""The flat program: values and a list of instructions, control flow as jumps.

A Plan is made from an EdgeMethod by `penlight.flatten`, given addresses by
`penlight.memory`, and written down by `penlight.emitter`. Values are objects, told
apart by identity; they get numbers only when they are emitted, so that what no
instruction uses is never written.

Tensor values live in buffers. Two values in one buffer share bytes: a view and
its source, or an output that takes over the memory of an input that has died.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Any, TypeAlias

from penlight.ir.dtypes import DType

if TYPE_CHECKING:
    from penlight.ir.source import Source
    from penlight.ir.tensors import Tensors


class Kind(Enum):
    CONSTANT = "constant"  # bytes in the file, never written
    STATE = "state"  # keeps its content between calls
    INPUT = "input"
    ACTIVATION = "activation"


@dataclass(eq=False)
class Buffer:
    """Bytes that tensor values share. `memory_id` is 0 until a planner has placed it.

    Attributes:
        key: of `PlanProgram.tensors`, for constants and state.
        planned: False when the caller brings the memory (an input or output that is not copied).
    """

    kind: Kind
    name: str
    nbytes: int
    key: str | None = None
    planned: bool = True
    memory_id: int = 0
    offset: int = 0
    tensors: list[TensorValue] = field(default_factory=list, repr=False)

    def absorb(self, other: Buffer, shift: int = 0) -> None:
        """Take over the tensors of `other`, `shift` bytes from the start of this buffer."""
        for tensor in other.tensors:
            tensor.buffer = self
            tensor.offset += shift
        self.tensors += other.tensors
        other.tensors = []


@dataclass(eq=False)
class TensorValue:
    """`sizes` are upper bounds; `shape` has the symbols, to compare sizes at run time."""

    name: str
    dtype: DType
    sizes: tuple[int, ...]
    dim_order: tuple[int, ...]
    buffer: Buffer = field(repr=False)
    shape: tuple[Any, ...] = ()
    dynamic: bool = False
    offset: int = 0  # bytes from the start of the buffer

    @property
    def nbytes(self) -> int:
        return numel(self.sizes) * self.dtype.itemsize

    def same_layout(self, other: TensorValue) -> bool:
        """Equal dtype, sizes at run time and order of the elements in memory."""
        return (
            self.dtype == other.dtype
            and self.shape == other.shape
            and self.sizes == other.sizes
            and self.dim_order == other.dim_order
        )

    def __str__(self) -> str:
        bound = "<=" if self.dynamic else ""
        return f"%{self.name}:{self.dtype.name}[{', '.join(f'{bound}{size}' for size in self.sizes)}]"


@dataclass(eq=False)
class Number:
    """An int, bool or float. `written`: computed at run time, the value here is the first one."""

    value: int | bool | float
    written: bool = False
    name: str = ""

    def __str__(self) -> str:
        return f"%{self.name}" if self.written else str(self.value)


@dataclass(frozen=True)
class Text:
    value: str

    def __str__(self) -> str:
        return repr(self.value)


@dataclass(frozen=True)
class NumberList:
    """Ints that may be computed at run time."""

    items: tuple[Number, ...]

    def __str__(self) -> str:
        return f"[{', '.join(map(str, self.items))}]"


@dataclass(frozen=True)
class DoubleList:
    items: tuple[float, ...]


@dataclass(frozen=True)
class BoolList:
    items: tuple[bool, ...]


@dataclass(frozen=True)
class TensorList:
    """`optional`: items may be None."""

    items: tuple[TensorValue | None, ...]
    optional: bool = False

    def __str__(self) -> str:
        return f"[{', '.join(map(str, self.items))}]"


# None stands for the null value.
Value: TypeAlias = TensorValue | Number | Text | NumberList | DoubleList | BoolList | TensorList | None


def tensors_in(value: Value) -> Iterator[TensorValue]:
    if isinstance(value, TensorValue):
        yield value
    elif isinstance(value, TensorList):
        yield from (item for item in value.items if item is not None)


def _replaced(value: Value, mapping: Mapping[TensorValue, TensorValue]) -> Value:
    if isinstance(value, TensorList):
        items = tuple(None if item is None else mapping.get(item, item) for item in value.items)
        return TensorList(items, value.optional)
    return mapping.get(value, value) if isinstance(value, TensorValue) else value


# --- instructions --------------------------------------------------------------------------------


@dataclass(eq=False)
class Label:
    """A place to jump to; no instruction of its own."""

    name: str


@dataclass(frozen=True)
class View:
    """The output holds the bytes of `source` from byte `offset` on, in the same order."""

    source: TensorValue
    output: TensorValue
    offset: int = 0


@dataclass(eq=False)
class KernelCall:
    """One operator. `args` in the order of its out variant, outputs included, results not repeated.

    Attributes:
        op: name with overload, "aten::add.out".
        names: of the arguments, in the schema.
        outs: tensors and numbers the call writes.
        views: outputs that could share the memory of an input instead of being computed.
        inplace: tensors whose memory the first output may take over (from the kernel's row).
        again: what follows the arguments in the program: the results.
        out_args: how many of the last arguments are outputs.
        view_sizes: for a view with dynamic sizes, the size argument of a run-time view.
    """

    op: str
    args: list[Value]
    names: tuple[str, ...]
    outs: list[TensorValue | Number]
    again: list[Value] = field(default_factory=list)
    out_args: int = 1
    views: list[View] = field(default_factory=list)
    inplace: list[TensorValue] = field(default_factory=list)
    view_sizes: NumberList | None = None
    node: str = ""
    source: Source | None = None

    def reads(self) -> Iterator[TensorValue]:
        """Tensor arguments that are not outputs, or not only."""
        for arg in self.args[: len(self.args) - self.out_args]:
            yield from tensors_in(arg)

    def writes(self) -> Iterator[TensorValue]:
        yield from (out for out in self.outs if isinstance(out, TensorValue))

    def replace(self, mapping: Mapping[TensorValue, TensorValue]) -> None:
        """Use the new values wherever the old ones were, as arguments or outputs."""
        self.args = [_replaced(arg, mapping) for arg in self.args]
        self.again = [_replaced(arg, mapping) for arg in self.again]
        self.outs = [mapping.get(out, out) if isinstance(out, TensorValue) else out for out in self.outs]
        self.inplace = [mapping.get(tensor, tensor) for tensor in self.inplace]
        self.views = [
            View(mapping.get(view.source, view.source), mapping.get(view.output, view.output), view.offset)
            for view in self.views
        ]

    def __str__(self) -> str:
        outs = ", ".join(map(str, self.outs))
        named = (
            f"{name}={arg}" for name, arg in zip(self.names, self.args, strict=False) if name not in ("out",)
        )
        return f"{outs} = {self.op}({', '.join(named)})"


@dataclass(eq=False)
class DelegateCall:
    """Inputs, then outputs."""

    delegate: Delegate
    inputs: list[Value]
    outs: list[TensorValue | Number]
    node: str = ""
    source: Source | None = None

    def reads(self) -> Iterator[TensorValue]:
        for value in self.inputs:
            yield from tensors_in(value)

    def replace(self, mapping: Mapping[TensorValue, TensorValue]) -> None:
        self.inputs = [_replaced(value, mapping) for value in self.inputs]
        self.outs = [mapping.get(out, out) if isinstance(out, TensorValue) else out for out in self.outs]

    def writes(self) -> Iterator[TensorValue]:
        yield from (out for out in self.outs if isinstance(out, TensorValue))

    def __str__(self) -> str:
        outs = ", ".join(map(str, self.outs))
        return f"{outs} = delegate {self.delegate.backend}({', '.join(map(str, self.inputs))})"


@dataclass(eq=False)
class Move:
    """Give a number that changes at run time the value of another."""

    from_: Number
    to: Number
    node: str = ""
    source: Source | None = None

    def reads(self) -> Iterator[TensorValue]:
        yield from ()

    def replace(self, mapping: Mapping[TensorValue, TensorValue]) -> None:
        pass

    def writes(self) -> Iterator[TensorValue]:
        yield from ()

    def __str__(self) -> str:
        return f"{self.to} = {self.from_}"


@dataclass(eq=False)
class JumpFalse:
    """Go on at `target` when the condition is false (a tensor: when any element is)."""

    condition: TensorValue | Number
    target: Label
    node: str = ""
    source: Source | None = None

    def reads(self) -> Iterator[TensorValue]:
        yield from tensors_in(self.condition)

    def replace(self, mapping: Mapping[TensorValue, TensorValue]) -> None:
        if isinstance(self.condition, TensorValue):
            self.condition = mapping.get(self.condition, self.condition)

    def writes(self) -> Iterator[TensorValue]:
        yield from ()

    def __str__(self) -> str:
        return f"jump {self.target.name} unless {self.condition}"


Instruction: TypeAlias = KernelCall | DelegateCall | Move | JumpFalse
Step: TypeAlias = KernelCall | DelegateCall | Move | JumpFalse | Label


# --- methods and program -------------------------------------------------------------------------


@dataclass(eq=False)
class Delegate:
    """A sub-graph that a backend has prepared."""

    backend: str
    data: bytes
    compile_specs: tuple[tuple[str, bytes], ...] = ()


@dataclass
class Mutation:
    """After the run, `target` (state, or a user's input) holds what `new` holds."""

    new: TensorValue
    target: TensorValue


@dataclass
class Limit:
    """What one size of an input may be, or an input that is an int (`dim` is None)."""

    input: int
    dim: int | None
    least: int
    most: int
    factor: int = 1  # the size is factor * symbol + offset
    offset: int = 0
    like: int | None = None  # position of an earlier limit with the same symbol


@dataclass
class Guard:
    """A condition on sizes of inputs: `words` as runtime/exec/input_guards.cpp reads them, and as a text."""

    words: list[int]
    text: str


@dataclass
class Plan:
    """One method. `arenas[k]` is the size of the region with memory id k + 1, once planned.

    `in_structure` and `out_structure` are torch pytrees in JSON.
    """

    name: str
    steps: list[Step]
    inputs: list[Value]
    outputs: list[Value]
    input_names: list[str]
    limits: list[Limit] = field(default_factory=list, kw_only=True)
    guards: list[Guard] = field(default_factory=list, kw_only=True)
    written: list[int] = field(default_factory=list, kw_only=True)  # inputs whose values a run changes
    unshared_inputs: list[int] = field(default_factory=list, kw_only=True)  # that need not be copied
    unshared_outputs: list[int] = field(default_factory=list, kw_only=True)  # the same
    texts: dict[int, str] = field(
        default_factory=dict, kw_only=True
    )  # inputs that are strings: null in the file
    in_structure: str
    out_structure: str
    mutations: list[Mutation] = field(default_factory=list)
    state: list[TensorValue] = field(default_factory=list)
    arenas: list[int] = field(default_factory=list)

    def calls(self) -> Iterator[KernelCall]:
        yield from (step for step in self.steps if isinstance(step, KernelCall))

    def __str__(self) -> str:
        lines = [f"method {self.name}({', '.join(map(str, self.inputs))})"]
        for step in self.steps:
            lines.append(f"{step.name}:" if isinstance(step, Label) else f"    {step}")
        lines += [f"    {mutation.target} <- {mutation.new}" for mutation in self.mutations]
        lines.append(f"    return {', '.join(map(str, self.outputs))}")
        return "\n".join([*lines, *self._places()])

    def _places(self) -> list[str]:
        """Where each planned tensor lies, in the order in which they are written."""
        lines = [f"arena {number}: {size} bytes" for number, size in enumerate(self.arenas, 1)]
        written = [tensor for step in self.steps if not isinstance(step, Label) for tensor in step.writes()]
        given = [value for value in self.inputs if isinstance(value, TensorValue)]
        for tensor in dict.fromkeys([*self.state, *given, *written]):
            buffer = tensor.buffer
            if buffer.planned and buffer.memory_id:
                start = buffer.offset + tensor.offset
                where = f"arena {buffer.memory_id}, bytes {start} to {start + tensor.nbytes}"
                lines.append(f"    %{tensor.name}: {where}")
        return lines


@dataclass
class PlanProgram:
    """All methods, with the constants and initial state they share.

    `tensors` are those of the edge program; they are looked at only when they are emitted.
    """

    plans: list[Plan]
    tensors: Tensors
    constant_methods: dict[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        return "\n\n".join(map(str, self.plans))


def numel(sizes: tuple[int, ...]) -> int:
    count = 1
    for size in sizes:
        count *= size
    return count
