"""What is in a program file: methods, operators, memory, weights."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from penlight.program.structs import (
    Bool,
    Contents,
    DelegateCall,
    Double,
    Free,
    Int,
    JumpFalse,
    KernelCall,
    Method,
    Move,
    String,
    Tensor,
    TensorList,
    Value,
)


@dataclass(frozen=True)
class Buffer:
    """A planned tensor: its place, and the instructions between which it is alive, both included."""

    value: int
    arena: int  # memory id, from 1
    offset: int
    nbytes: int
    first: int
    last: int
    label: str


@dataclass
class MethodReport:
    """One method of a program."""

    name: str
    inputs: list[str]
    outputs: list[str]
    operators: dict[str, int]  # calls by operator or backend
    arenas: list[int]
    live_bytes: list[int]  # of all arenas, at each instruction
    buffers: list[Buffer]
    state: list[str]
    instructions: list[str]
    values: dict[str, int] = field(default_factory=dict)  # count by type

    @property
    def peak(self) -> int:
        """Most bytes that are alive at once; the arenas cannot be smaller."""
        return max(self.live_bytes, default=0)


def report_method(contents: Contents, method: Method) -> MethodReport:
    """Everything that `penlight inspect` shows of a method."""
    names = [_instruction_name(method, instruction) for instruction in method.instructions]
    buffers = lifetimes(method)
    return MethodReport(
        name=method.name,
        inputs=[describe(method.values[index]) for index in method.inputs],
        outputs=[describe(method.values[index]) for index in method.outputs],
        operators=dict(Counter(name for name in names if name).most_common()),
        arenas=method.arenas,
        live_bytes=live_bytes(method, buffers),
        buffers=buffers,
        state=[describe(value) for value in method.values if _is_state(value)],
        instructions=[_instruction_text(method, instruction) for instruction in method.instructions],
        values=dict(Counter(type(value).__name__ for value in method.values).most_common()),
    )


def describe(value: Value) -> str:
    """A value in one line: `float32 [1, <=64] name`."""
    if isinstance(value, Tensor):
        bound = "<=" if value.dynamism else ""
        text = f"{value.dtype.name} [{', '.join(f'{bound}{size}' for size in value.sizes)}]"
        if value.dim_order != tuple(range(len(value.sizes))):
            text += f" dim order {list(value.dim_order)}"
        return f"{text} {value.name}" if value.name else text
    if isinstance(value, (Int, Bool, Double, String)):
        return f"{type(value).__name__.lower()} {value.value!r}"
    return type(value).__name__


def lifetimes(method: Method) -> list[Buffer]:
    """Planned tensors and when they are alive.

    From the first to the last instruction that names a tensor; inputs from the
    start, outputs to the end, state always; over a loop that names it, as long as
    the loop.
    """
    end = max(0, len(method.instructions) - 1)
    first: dict[int, int] = dict.fromkeys(method.inputs, 0)
    last: dict[int, int] = dict.fromkeys(method.inputs, 0)
    for at, instruction in enumerate(method.instructions):
        for value in _named(method, instruction):
            first.setdefault(value, at)
            last[value] = at
    for output in method.outputs:
        for item in (output, *_items(method.values[output])):
            first.setdefault(item, end)
            last[item] = end
    for at, instruction in enumerate(method.instructions):
        if isinstance(instruction, JumpFalse) and instruction.target <= at:
            for value in first:
                # Made before the loop and used in it: needed in every round.
                if first[value] < instruction.target <= last[value] <= at:
                    last[value] = at
    buffers = []
    for index, tensor in enumerate(method.values):
        if not isinstance(tensor, Tensor) or tensor.allocation is None:
            continue
        state = _is_state(tensor) or tensor.data > 0
        buffers.append(
            Buffer(
                index,
                tensor.allocation.memory_id,
                tensor.allocation.offset,
                tensor.nbytes,
                0 if state else first.get(index, 0),
                end if state else last.get(index, 0),
                describe(tensor),
            )
        )
    return buffers


def live_bytes(method: Method, buffers: list[Buffer]) -> list[int]:
    """Bytes in use at each instruction; tensors that share bytes count once."""
    used = []
    for at in range(len(method.instructions)):
        alive = sorted(
            (buffer.arena, buffer.offset, buffer.offset + buffer.nbytes)
            for buffer in buffers
            if buffer.first <= at <= buffer.last
        )
        total, arena, reach = 0, 0, 0
        for buffer_arena, start, stop in alive:
            if buffer_arena != arena:
                arena, reach = buffer_arena, 0
            total += max(0, stop - max(start, reach))
            reach = max(reach, stop)
        used.append(total)
    return used


@dataclass(frozen=True)
class Part:
    """A share of the file."""

    name: str
    nbytes: int
    detail: str = ""


def constants_of(contents: Contents) -> list[Part]:
    """Stored bytes by constant, largest first: name or type of the tensor, and the operators that read it."""
    readers: dict[tuple[bool, int], tuple[Tensor, Counter[str]]] = {}
    for method in contents.methods:
        used: dict[int, Counter[str]] = {}
        for instruction in method.instructions:
            name = _instruction_name(method, instruction)
            for value in _named(method, instruction):
                used.setdefault(value, Counter())[name or type(instruction).__name__] += 1
        for index, tensor in enumerate(method.values):
            if isinstance(tensor, Tensor) and tensor.data and not tensor.external:
                key = (tensor.allocation is not None, tensor.data)
                _, counter = readers.setdefault(key, (tensor, Counter()))
                counter.update(used.get(index, {}))
    parts = []
    for (initial, index), (tensor, counter) in readers.items():
        blobs = contents.initial if initial else contents.constants
        nbytes = min(tensor.nbytes, blobs[index].nbytes) if index < len(blobs) else tensor.nbytes
        kind = "initial value of " if initial else ""
        name = tensor.name or f"{'initial' if initial else 'constant'} {index}"
        detail = f"{kind}{tensor.dtype.name} {list(tensor.sizes)}"
        if counter:
            detail += f", read by {', '.join(counter)}"
        parts.append(Part(name, nbytes, detail))
    return sorted(parts, key=lambda part: -part.nbytes)


def weights_by_operator(contents: Contents) -> list[Part]:
    """Stored bytes by the operator that reads them first, largest first."""
    totals: Counter[str] = Counter()
    counts: Counter[str] = Counter()
    for part in constants_of(contents):
        name = part.detail.partition("read by ")[2].split(", ")[0] or "no operator"
        totals[name] += part.nbytes
        counts[name] += 1
    return [Part(name, nbytes, f"{counts[name]} tensors") for name, nbytes in totals.most_common()]


def _is_state(value: Value) -> bool:
    return isinstance(value, Tensor) and value.allocation is not None and (value.data > 0 or bool(value.name))


def _items(value: Value) -> tuple[int, ...]:
    items: Any = getattr(value, "items", ())
    return tuple(item for item in items if item >= 0) if isinstance(value, TensorList) else ()


def _named(method: Method, instruction: Any) -> list[int]:
    """Values that an instruction names, items of lists included."""
    if isinstance(instruction, (KernelCall, DelegateCall)):
        direct: tuple[int, ...] = instruction.args
    elif isinstance(instruction, Move):
        direct = (instruction.source, instruction.target)
    elif isinstance(instruction, JumpFalse):
        direct = (instruction.condition,)
    else:
        direct = (instruction.value,) if isinstance(instruction, Free) else ()
    found = []
    for value in direct:
        if 0 <= value < len(method.values):
            found += [value, *_items(method.values[value])]
    return found


def _instruction_name(method: Method, instruction: Any) -> str | None:
    if isinstance(instruction, KernelCall):
        return str(method.operators[instruction.op])
    if isinstance(instruction, DelegateCall):
        return f"delegate {method.delegates[instruction.delegate].backend}"
    return None


def _instruction_text(method: Method, instruction: Any) -> str:
    if isinstance(instruction, (KernelCall, DelegateCall)):
        name = _instruction_name(method, instruction)
        return f"{name}({', '.join(_argument(method, value) for value in instruction.args)})"
    if isinstance(instruction, Move):
        return f"move %{instruction.source} to %{instruction.target}"
    if isinstance(instruction, JumpFalse):
        return f"jump to {instruction.target} unless %{instruction.condition}"
    return f"free %{instruction.value}"


def _argument(method: Method, index: int) -> str:
    value = method.values[index]
    if isinstance(value, (Int, Bool, Double, String)):
        return repr(value.value)
    if isinstance(value, Tensor):
        return f"%{index}"
    items: Any = getattr(value, "items", None)
    if items is None:
        return "None"
    if type(value).__name__ == "IntList":
        numbers = [method.values[item] for item in items]
        return (
            "["
            + ", ".join(
                str(n.value) if isinstance(n, Int) else f"%{i}" for n, i in zip(numbers, items, strict=True)
            )
            + "]"
        )
    if type(value).__name__ in ("TensorList", "OptionalTensorList"):
        return "[" + ", ".join("None" if item < 0 else f"%{item}" for item in items) + "]"
    return str(list(items))
