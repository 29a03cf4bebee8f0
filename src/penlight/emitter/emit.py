"""Write down a planned program: number its values, operators and constants.

No decisions are taken here. Values are numbered when something refers to them;
equal constants, numbers, lists and tensors at one place get one number.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Callable, Hashable, Sequence
from typing import Any

import torch
from torch.utils import _pytree as pytree

from penlight.emitter.debug import debug_data
from penlight.emitter.stored import Store, blob_of
from penlight.errors import NotSupported
from penlight.flatten.structure import structure_json
from penlight.ir import plan as ir
from penlight.ir.dtypes import DType
from penlight.ir.plan import Kind, Plan, PlanProgram
from penlight.ir.tensors import bytes_of
from penlight.program import structs
from penlight.program.program import Program
from penlight.program.structs import Blob, Contents

DEBUG_KEY = "penlight.debug"
LIMITS_KEY = "penlight.limits:"  # and the name of a method
GUARDS_KEY = "penlight.guards:"  # the same
WRITTEN_KEY = "penlight.written:"
UNSHARED_KEY = "penlight.unshared:"
UNSHARED_OUTPUTS_KEY = "penlight.unshared-outputs:"


def emit(
    program: PlanProgram,
    *,
    debug: bool = True,
    external: bool | Callable[[str], bool] = False,
    report: Any = None,
) -> Program:
    """The program file's content for a planned program.

    Args:
        external: whether constants go to a .ptd file beside the program; or a function that
            says so of each, by its name.
        debug: keep, beside the program, which node, module and source line each
            instruction comes from, and the names of inputs.
    """
    constants, initial = Store(), Store()
    goes_out = external if callable(external) else lambda _: bool(external)
    outside: dict[str, structs.StoredTensor] = {}
    emitters = [
        _MethodEmitter(plan, program, constants, initial, goes_out, outside) for plan in program.plans
    ]
    methods = [emitter.run() for emitter in emitters]
    methods += [_constant_method(name, value, constants) for name, value in program.constant_methods.items()]
    contents = Contents(methods, constants.blobs, initial.blobs, external=outside)
    for plan in program.plans:
        if plan.limits:
            contents.named_data[LIMITS_KEY + plan.name] = Blob.of(b"".join(map(_limit_record, plan.limits)))
        if plan.guards:
            contents.named_data[GUARDS_KEY + plan.name] = Blob.of(b"".join(map(_guard_record, plan.guards)))
        for key, numbers in (
            (WRITTEN_KEY, plan.written),
            (UNSHARED_KEY, plan.unshared_inputs),
            (UNSHARED_OUTPUTS_KEY, plan.unshared_outputs),
        ):
            if numbers:
                packed = struct.pack(f"<{len(numbers)}q", *numbers)
                contents.named_data[key + plan.name] = Blob.of(packed)
    if debug:
        contents.named_data[DEBUG_KEY] = Blob.of(
            debug_data(program, [emitter.sources for emitter in emitters])
        )
    return Program(contents, report)


class _MethodEmitter:
    def __init__(
        self,
        plan: Plan,
        program: PlanProgram,
        constants: Store,
        initial: Store,
        external: Callable[[str], bool],
        outside: dict[str, structs.StoredTensor],
    ) -> None:
        self.plan, self.program, self.constants, self.initial = plan, program, constants, initial
        self.external, self.outside = external, outside
        self.values: list[structs.Value] = []
        self.numbers: dict[Hashable, int] = {}  # identity or content -> number of the value
        self.operators: dict[structs.Operator, int] = {}
        self.delegates: dict[int, int] = {}
        self.delegate_structs: list[structs.Delegate] = []
        self.sources: list[ir.Instruction] = []  # what each instruction was made from

    def run(self) -> structs.Method:
        plan = self.plan
        self.sources = [step for step in plan.steps if not isinstance(step, ir.Label)]
        # Inputs and outputs are told apart from all else: the caller may set or resize them.
        inputs = [self.own(value) for value in plan.inputs]
        for tensor in plan.state:
            self.own(tensor)
        labels = self.label_places()
        outputs = [self.own(value) for value in plan.outputs]
        instructions = [self.instruction(step, labels) for step in self.sources]
        return structs.Method(
            name=plan.name,
            values=self.values,
            inputs=inputs,
            outputs=outputs,
            instructions=instructions,
            operators=list(self.operators),
            delegates=self.delegate_structs,
            arenas=plan.arenas or [0],
            in_structure=plan.in_structure,
            out_structure=plan.out_structure,
        )

    def label_places(self) -> dict[ir.Label, int]:
        places, at = {}, 0
        for step in self.plan.steps:
            if isinstance(step, ir.Label):
                places[step] = at
            else:
                at += 1
        return places

    # --- instructions ----------------------------------------------------------------------------

    def instruction(self, step: ir.Instruction, labels: dict[ir.Label, int]) -> structs.Instruction:
        match step:
            case ir.KernelCall():
                args = [self.value(arg) for arg in [*step.args, *step.again]]
                return structs.KernelCall(self.operator(step.op), tuple(args))
            case ir.DelegateCall():
                args = [self.value(arg) for arg in [*step.inputs, *step.outs]]
                return structs.DelegateCall(self.delegate(step.delegate), tuple(args))
            case ir.Move():
                return structs.Move(self.value(step.from_), self.value(step.to))
            case ir.JumpFalse():
                return structs.JumpFalse(self.value(step.condition), labels[step.target])

    def operator(self, op: str) -> int:
        name, _, overload = op.partition(".")
        return self.operators.setdefault(structs.Operator(name, overload), len(self.operators))

    def delegate(self, delegate: ir.Delegate) -> int:
        if id(delegate) not in self.delegates:
            self.delegates[id(delegate)] = len(self.delegates)
            self.delegate_structs.append(
                structs.Delegate(delegate.backend, Blob.of(delegate.data), delegate.compile_specs)
            )
        return self.delegates[id(delegate)]

    # --- values ----------------------------------------------------------------------------------

    def value(self, value: ir.Value) -> int:
        """The number of a value, a new one unless there is its equal."""
        if isinstance(value, ir.TensorValue | ir.Number) and id(value) in self.numbers:
            return self.numbers[id(value)]
        # What a run changes (numbers, and the sizes of dynamic tensors) is never shared.
        if (isinstance(value, ir.Number) and value.written) or (
            isinstance(value, ir.TensorValue) and value.dynamic
        ):
            return self.own(value)
        encoded = self.encode(value)
        key = _content(encoded)
        if key not in self.numbers:
            self.numbers[key] = self.append(encoded)
        return self.numbers[key]

    def own(self, value: ir.Value) -> int:
        """A number that no equal value shares, but every mention of this one does."""
        key: Hashable = id(value) if value is not None else "null"
        if key not in self.numbers:
            self.numbers[key] = self.append(self.encode(value))
        return self.numbers[key]

    def append(self, encoded: structs.Value) -> int:
        self.values.append(encoded)
        return len(self.values) - 1

    def encode(self, value: ir.Value) -> structs.Value:
        match value:
            case None:
                return structs.Null()
            case ir.Number(number):
                return number_struct(number)
            case ir.Text(text):
                return structs.String(text)
            case ir.NumberList(numbers):
                return structs.IntList(tuple(self.value(number) for number in numbers))
            case ir.DoubleList(doubles):
                return structs.DoubleList(doubles)
            case ir.BoolList(bools):
                return structs.BoolList(bools)
            case ir.TensorList(tensors, optional):
                items = tuple(-1 if tensor is None else self.value(tensor) for tensor in tensors)
                return structs.OptionalTensorList(items) if optional else structs.TensorList(items)
            case ir.TensorValue():
                return self.tensor(value)
        raise AssertionError(f"no form for {value}")

    def tensor(self, tensor: ir.TensorValue) -> structs.Tensor:
        buffer = tensor.buffer
        data = 0
        name = None
        outside = buffer.kind is Kind.CONSTANT and self.external(buffer.key or "")
        if outside:
            name = self.send_outside(tensor)
        elif buffer.kind is Kind.CONSTANT:
            data = self.constants.add(self.program.tensors.kept(buffer.key or ""), self.order_of(buffer))
        elif buffer.kind is Kind.STATE and tensor in self.plan.state:
            name = buffer.key
            first = self.program.tensors[buffer.key or ""]
            if torch.count_nonzero(bytes_of(first)):
                data = self.initial.add(first, tensor.dim_order)
        place = (
            structs.Allocation(buffer.memory_id, buffer.offset + tensor.offset)
            if buffer.planned and buffer.kind is not Kind.CONSTANT
            else None
        )
        return structs.Tensor(
            dtype=tensor.dtype,
            sizes=tensor.sizes,
            dim_order=tensor.dim_order,
            dynamism=int(tensor.dynamic),
            data=data,
            allocation=place,
            name=name,
            in_state=buffer.kind is Kind.STATE and name is None,
            external=outside,
        )

    def send_outside(self, tensor: ir.TensorValue) -> str:
        """The name of a constant in the .ptd file. A view is another entry over the same bytes."""
        key = tensor.buffer.key or ""
        name = key if tensor.name == key else f"{key}:{'x'.join(map(str, tensor.sizes))}"
        data = blob_of(self.program.tensors.kept(key), self.order_of(tensor.buffer))
        self.outside[name] = structs.StoredTensor(tensor.dtype, tensor.sizes, tensor.dim_order, data)
        return name

    def order_of(self, buffer: ir.Buffer) -> Sequence[int]:
        """The dim order in which a constant is stored: that of the tensor itself, not of a view of it."""
        return next(tensor.dim_order for tensor in buffer.tensors if tensor.name == buffer.key)


def _limit_record(limit: ir.Limit) -> bytes:
    """As runtime/exec/input_limits.cpp reads it."""
    dim, like = (-1 if number is None else number for number in (limit.dim, limit.like))
    return struct.pack("<7q", limit.input, dim, limit.least, limit.most, limit.factor, limit.offset, like)


def _guard_record(guard: ir.Guard) -> bytes:
    """As runtime/exec/input_guards.cpp reads it: how many words and bytes of text, which ends with a zero."""
    text = guard.text.encode() + b"\0"
    text += b"\0" * (-len(text) % 8)
    words = [len(guard.words), len(text), *guard.words]
    return struct.pack(f"<{len(words)}q", *words) + text


def number_struct(number: bool | int | float) -> structs.Value:
    if isinstance(number, bool):
        return structs.Bool(number)
    return structs.Int(number) if isinstance(number, int) else structs.Double(number)


def _content(value: structs.Value) -> Hashable:
    """Equal for values that are interchangeable; tells -0.0 from 0.0."""
    if isinstance(value, structs.Double):
        return "double", struct.pack("<d", value.value)
    if isinstance(value, structs.DoubleList):
        return "doubles", struct.pack(f"<{len(value.items)}d", *value.items)
    return type(value), value


# --- methods that only return a value ------------------------------------------------------------


def _constant_method(name: str, value: Any, constants: Store) -> structs.Method:
    leaves, spec = pytree.tree_flatten(value)
    values = [_constant(name, leaf, constants) for leaf in leaves]
    return structs.Method(
        name=name,
        values=values,
        inputs=[],
        outputs=list(range(len(values))),
        instructions=[],
        operators=[],
        arenas=[],
        in_structure=structure_json(pytree.tree_flatten(((), {}))[1]),
        out_structure=structure_json(spec),
    )


def _constant(name: str, leaf: Any, constants: Store) -> structs.Value:
    makers: list[tuple[Any, Callable[[Any], structs.Value]]] = [
        ((bool, int, float), number_struct),
        (str, structs.String),
        (type(None), lambda _: structs.Null()),
    ]
    for kind, make in makers:
        if isinstance(leaf, kind):
            return make(leaf)
    if isinstance(leaf, torch.Tensor):
        order = tuple(range(leaf.dim()))
        dtype = DType[str(leaf.dtype).removeprefix("torch.")]
        return structs.Tensor(dtype, tuple(leaf.shape), order, data=constants.add(leaf, order))
    raise NotSupported(
        f"constant method '{name}' returns a {type(leaf).__name__}",
        got=json.dumps(leaf, default=str)[:80],
        do="return tensors, numbers, strings, None, or lists, tuples and dicts of them",
    )
