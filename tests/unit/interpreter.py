"""Runs a program's content with torch's own operators, in the memory that was planned for it.

A reference for tests of the compiler's back half: arenas are real bytes, so a
plan that lets two live tensors share some gives wrong numbers here. Arenas start
full of garbage, which shows reads of what was never written.
"""

from __future__ import annotations

from typing import Any

import torch
from torch.utils import _pytree as pytree

from penlight.ir.dtypes import DType
from penlight.program import structs
from penlight.program.structs import Contents, Method
from penlight.runtime.structure import parse

_GARBAGE = 0xA5


class _Slot:
    """A tensor value: sizes now, and the bytes it lives in."""

    def __init__(self, spec: structs.Tensor, memory: torch.Tensor | None) -> None:
        self.spec, self.memory = spec, memory
        self.sizes = list(spec.sizes)

    def read(self) -> torch.Tensor:
        strides = structs.strides_of(self.sizes, self.spec.dim_order)
        dtype = getattr(torch, self.spec.dtype.name)
        count = torch.Size(self.sizes).numel()
        flat = self.memory[: count * dtype.itemsize].clone().view(dtype)
        return flat.as_strided(self.sizes, strides) if count else torch.empty(self.sizes, dtype=dtype)

    def write(self, value: torch.Tensor) -> None:
        assert value.dtype == getattr(torch, self.spec.dtype.name), (value.dtype, self.spec)
        assert value.dim() == len(self.spec.sizes), (value.shape, self.spec.sizes)
        assert all(now <= most for now, most in zip(value.shape, self.spec.sizes, strict=True)), (
            value.shape,
            self.spec,
        )
        assert self.spec.dynamism or tuple(value.shape) == self.spec.sizes, (value.shape, self.spec.sizes)
        self.sizes = list(value.shape)
        ordered = value.permute(*self.spec.dim_order).contiguous() if value.dim() else value.contiguous()
        raw = ordered.reshape(-1).view(torch.uint8)
        self.memory[: raw.numel()] = raw


class Machine:
    """All methods of a program, sharing state (memory id 2)."""

    def __init__(self, contents: Contents) -> None:
        self.contents = contents
        sizes = [method.arenas[1] for method in contents.methods if len(method.arenas) > 1]
        self.state = torch.zeros(max(sizes, default=0), dtype=torch.uint8)
        for method in contents.methods:
            for value in method.values:
                if isinstance(value, structs.Tensor) and value.allocation and value.data:
                    raw = torch.frombuffer(bytearray(contents.bytes_of(value)), dtype=torch.uint8)
                    begin = value.allocation.offset
                    self.state[begin : begin + raw.numel()] = raw

    def run(self, name: str, *args: Any) -> Any:
        method = self.contents.method(name)
        leaves = _Run(self, method).run(pytree.tree_leaves((args, {})))
        return parse(method.out_structure).unflatten(iter(leaves))


class _Run:
    def __init__(self, machine: Machine, method: Method) -> None:
        self.machine, self.method = machine, method
        activations = method.arenas[0] if method.arenas else 0
        self.arenas = [torch.full((activations,), _GARBAGE, dtype=torch.uint8), machine.state]
        self.values = [self.initial(value) for value in method.values]

    def initial(self, value: structs.Value) -> Any:
        if not isinstance(value, structs.Tensor):
            return getattr(value, "value", value)
        if place := value.allocation:
            return _Slot(value, self.arenas[place.memory_id - 1][place.offset : place.offset + value.nbytes])
        if value.data:
            return _Slot(
                value,
                torch.frombuffer(
                    bytearray(self.machine.contents.bytes_of(value)) or bytearray(1), dtype=torch.uint8
                ),
            )
        return _Slot(value, None)

    def run(self, args: list[Any]) -> list[Any]:
        for index, arg in zip(self.method.inputs, args, strict=True):
            slot = self.values[index]
            if not isinstance(slot, _Slot):
                self.values[index] = arg
                continue
            if slot.memory is None:
                slot.memory = torch.full((slot.spec.nbytes,), _GARBAGE, dtype=torch.uint8)
            slot.write(arg)
        for index in self.method.outputs:
            slot = self.values[index]
            if isinstance(slot, _Slot) and slot.memory is None:
                slot.memory = torch.full((slot.spec.nbytes,), _GARBAGE, dtype=torch.uint8)
        at = steps = 0
        while at < len(self.method.instructions):
            at = self.step(at)
            steps += 1
            assert steps < 100_000, "does not end"
        return [self.result(index) for index in self.method.outputs]

    def result(self, index: int) -> Any:
        value = self.values[index]
        if isinstance(value, structs.Null):
            return None
        return value.read() if isinstance(value, _Slot) else value

    def step(self, at: int) -> int:
        match self.method.instructions[at]:
            case structs.Move(source, target):
                assert not isinstance(self.values[target], _Slot)
                self.values[target] = self.values[source]
            case structs.JumpFalse(condition, target):
                value = self.values[condition]
                if not (bool(value.read().all()) if isinstance(value, _Slot) else value):
                    return target
            case structs.KernelCall(op, args):
                self.call(str(self.method.operators[op]), args)
        return at + 1

    # --- operators -------------------------------------------------------------------------------

    def call(self, op: str, args: tuple[int, ...]) -> None:
        if op.startswith("executorch_prim::") or op in ("aten::sym_size.int", "aten::sym_numel"):
            self.prim(op, args)
            return
        if op == "aten::_local_scalar_dense":
            self.values[args[1]] = self.values[args[0]].read().item()
            return
        if op == "dim_order_ops::_to_dim_order_copy.out":  # torch declares it, but runs it only while tracing
            out = self.values[args[3]]
            out.write(self.values[args[0]].read().to(getattr(torch, out.spec.dtype.name)))
            return
        namespace, _, rest = op.partition("::")
        name, _, overload = rest.partition(".")
        target = getattr(getattr(getattr(torch.ops, namespace), name), overload or "default")
        if op == "aten::copy_":
            value = self.values[args[0]].read().clone().copy_(self.values[args[1]].read())
            self.values[args[0]].write(value)
            return
        schema = target._schema.arguments
        outs = [i for i, argument in enumerate(schema) if argument.is_out]
        keywords, positional = {}, []
        for index, argument in enumerate(schema):
            if index in outs:
                continue
            value = self.argument(args[index], str(argument.real_type))
            if argument.kwarg_only:
                keywords[argument.name] = value
            else:
                positional.append(value)
        self.write_outs(target, schema, outs, args, positional, keywords)

    def write_outs(
        self, target: Any, schema: Any, outs: list[int], args: Any, positional: Any, keywords: Any
    ) -> None:
        fresh = []
        for index in outs:
            value = self.values[args[index]]
            slots = (
                [self.values[i] for i in value.items] if isinstance(value, structs.TensorList) else [value]
            )
            # torch resizes a single output, but not those of a list.
            several = isinstance(value, structs.TensorList)
            made = [
                torch.empty(slot.spec.sizes if several else 0, dtype=getattr(torch, slot.spec.dtype.name))
                for slot in slots
            ]
            keywords[schema[index].name] = made if several else made[0]
            fresh += zip(slots, made, strict=True)
        target(*positional, **keywords)
        for slot, made in fresh:
            slot.write(made)

    def argument(self, index: int, kind: str) -> Any:
        value = self.values[index]
        match value:
            case _Slot():
                return value.read()
            case structs.Null():
                return None
            case structs.TensorList(items) | structs.OptionalTensorList(items):
                return [None if i < 0 else self.values[i].read() for i in items]
            case structs.IntList(items):
                return [self.values[i] for i in items]
            case structs.DoubleList(items) | structs.BoolList(items):
                return list(items)
        if "MemoryFormat" in kind:
            return [torch.contiguous_format, torch.preserve_format, torch.channels_last][value]
        if "ScalarType" in kind and isinstance(value, int):
            return next(getattr(torch, d.name) for d in DType if d == value)
        return value

    def prim(self, op: str, args: tuple[int, ...]) -> None:
        values = [self.values[i] for i in args]
        name = op.partition("::")[2].partition(".")[0]
        if name == "et_view":
            sizes = [self.values[i] for i in values[1].items]
            values[2].memory = values[0].memory
            values[2].sizes = list(values[0].read().reshape(sizes).shape)
        elif name == "et_copy_index":
            out, row, index = values
            sizes = [index + 1, *row.sizes]
            old = out.read()[:index].reshape(index, *row.sizes) if index else row.read()[None][:0]
            out.write(torch.cat([old, row.read()[None]]))
            assert out.sizes == sizes
        elif name == "sym_size":
            self.values[args[2]] = values[0].sizes[values[1]]
        elif name == "sym_numel":
            self.values[args[1]] = torch.Size(values[0].sizes).numel()
        else:
            self.values[args[-1]] = _PRIMS[name](*values[:-1])


_PRIMS = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "floordiv": lambda a, b: a // b,
    "truediv": lambda a, b: a / b,
    "mod": lambda a, b: a % b,
    "eq": lambda a, b: a == b,
    "lt": lambda a, b: a < b,
    "le": lambda a, b: a <= b,
    "gt": lambda a, b: a > b,
    "ge": lambda a, b: a >= b,
    "neg": lambda a: -a,
    "sym_not": lambda a: not a,
    "sym_float": float,
    "sym_int": int,
    "sym_max": max,
    "sym_min": min,
}
