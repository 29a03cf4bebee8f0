"""A method of a loaded program: from Python arguments to the runtime and back."""

from __future__ import annotations

import ctypes
import re
import struct
import sys
import weakref
from collections.abc import Sequence
from typing import Any

import numpy as np

from penlight.errors import InvalidInput, InvalidState

from . import library
from .arguments import NumberArgument, TensorArgument, TensorSpec
from .library import BOOL, DOUBLE, INT, TENSOR, Value
from .opened import OpenedProgram
from .results import Result
from .structure import Structure, parse, parse_arguments

_UNLIMITED = 2**64 - 1


class LoadedMethod:
    """One entry point of a loaded program; call it like the model's own function.

    Attributes:
        name: of the method.
        inputs: a TensorSpec for each tensor input, the name of the type for numbers.
        outputs: the same of outputs.
        traced_values: what inputs that are numbers were when the model was exported, else None.
        arena_sizes: bytes of each planned region.
        instruction_count: how many instructions one run executes at least once.
    """

    def __init__(self, opened: OpenedProgram, name: str, *, copies: bool) -> None:
        self._opened = opened
        self.name = name
        info = opened.method_info(name)
        lib, handle, encoded = opened.library, opened.handle, name.encode()
        where = opened.where
        self._in_structure = _expected(parse_arguments(info.input_structure, where), info.input_count)
        self._out_structure = _expected(parse(info.output_structure, where), info.output_count)
        names = _input_names(self._in_structure, info.input_count)
        self._specs: list[TensorSpec | str] = []
        self._named = False
        self.outputs: list[TensorSpec | str] = []
        self.traced_values: list[Any] = []
        found = library.Info()
        tags = []
        unshared = _numbers(opened, "penlight.unshared-outputs:" + name)
        rooms: dict[int, int] = {}  # bytes of outputs that can be written to memory of the caller
        for index in range(info.input_count):
            library.check_quietly(lib.pl_describe_input(handle, encoded, index, found), where)
            tags.append(found.tag)
            self.traced_values.append(_number_of(found))
            tensor = found.tag == TENSOR
            self._specs.append(TensorSpec(found, names[index]) if tensor else library.TAG_NAMES[found.tag])
        for index in range(info.output_count):
            library.check_quietly(lib.pl_describe_output(handle, encoded, index, found), where)
            if found.tag != TENSOR:
                self.outputs.append(library.TAG_NAMES[found.tag])
                continue
            output = TensorSpec(found, f"output {index}")
            self.outputs.append(output)
            if index in unshared and output.dim_order is None:
                rooms[index] = int(found.size)
        self.instruction_count = int(info.instruction_count)
        self.method_bytes = int(info.method_bytes)
        self.arena_sizes = opened.arena_sizes(name, info.arena_count)

        self._input_values = (Value * max(1, info.input_count))()
        self._output_values = (Value * max(1, info.output_count))()
        self._arguments: list[TensorArgument | NumberArgument] = []
        method: Any = weakref.proxy(self)  # its arguments do not keep it
        for index, spec in enumerate(self._specs):
            value = self._input_values[index]
            if isinstance(spec, TensorSpec):
                self._arguments.append(TensorArgument(spec, value, method))
            else:
                self._arguments.append(NumberArgument(tags[index], value, names[index], method, index))
        self._written = [
            argument
            for index in _numbers(opened, "penlight.written:" + name)
            if index < len(self._arguments) and isinstance(argument := self._arguments[index], TensorArgument)
        ]
        for argument in self._written:
            argument.is_written = True
        self._count = len(self._arguments)
        self._setters = [argument.set for argument in self._arguments]
        # Positional leaves only: no containers to take apart.
        self._is_flat = self._in_structure is None or (
            self._in_structure.kind == "sequence"
            and len(self._in_structure.children) == 2
            and self._in_structure.children[0].is_flat
            and self._in_structure.children[1].leaf_count == 0
        )
        self._one_output = self._out_structure is not None and self._out_structure.kind == "leaf"
        self._call = library.Call(
            inputs=self._input_values,
            outputs=self._output_values,
            input_count=info.input_count,
            output_count=info.output_count,
            max_jumps=_UNLIMITED,
        )
        self._call_address = ctypes.addressof(self._call)
        self._run = lib.pl_run
        self._results = [
            Result(
                f"output {index} of method {name}",
                self._output_values[index],
                opened.memory,
                copies=copies,
                room=rooms.get(index, 0),
                is_dynamic=isinstance(output, TensorSpec) and output.dynamic,
            )
            for index, output in enumerate(self.outputs)
        ]
        self._is_known = False  # what the results are like
        self._is_called = False  # by this thread: others wait
        self._lenders = [(index, result) for index, result in enumerate(self._results) if result.is_lendable]
        self._lent = (ctypes.c_void_p * max(1, info.output_count))()
        if self._lenders:
            self._call.lent = self._lent

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run the method. Inputs and outputs have the containers the model was exported with."""
        leaves = (
            args if self._is_flat and not kwargs and len(args) == self._count else self._flatten(args, kwargs)
        )
        outputs = self.call_flat(leaves)
        if self._one_output:
            return outputs[0]
        if self._out_structure is not None:
            return self._out_structure.unflatten(iter(outputs))
        return outputs[0] if len(outputs) == 1 else tuple(outputs)

    @property
    def inputs(self) -> list[TensorSpec | str]:
        """What the method takes."""
        self.name_inputs()
        return self._specs

    @property
    def input_names(self) -> list[str]:
        """What errors call each input by: its name in the model's function, or its number."""
        self.name_inputs()
        named = (
            argument.spec if isinstance(argument, TensorArgument) else argument
            for argument in self._arguments
        )
        return [argument.name for argument in named]

    def name_inputs(self) -> None:
        """Give inputs the names that the model's function has, where the file keeps them."""
        if self._named:
            return
        self._named = True
        names = self._opened.debug.input_names(self.name, len(self._specs))
        for argument, spec, name in zip(self._arguments, self._specs, names or (), strict=False):
            if isinstance(spec, TensorSpec):
                spec.name = name
            elif isinstance(argument, NumberArgument):
                argument.name = name

    def text_of(self, index: int) -> str | None:
        """What a string among the inputs has to be; None where it is not known or no string."""
        return self._opened.debug.text(self.name, index)

    def call_flat(self, leaves: Sequence[Any]) -> list[Any]:
        """Run with the inputs one after the other, without containers; outputs likewise."""
        if len(leaves) != self._count:
            raise self._count_error(str(len(leaves)))
        with self._opened.lock:
            if not self._call.method:
                self._prepare()
            if self._is_called:
                raise self._called_again()
            self._is_called = True
            try:
                for argument in self._written:
                    argument.not_yet = None  # of a run that failed
                # As many as there are leaves; strict=True would cost as much as the rest of the line.
                keep = [set_leaf(leaf) for set_leaf, leaf in zip(self._setters, leaves)]  # noqa: B905
                for index, result in self._lenders:
                    self._lent[index] = result.lend()
                failed = self._run(self._call_address)
            finally:
                self._is_called = False
            if failed:
                self._is_known = False
                for result in self._results:
                    result.forget()
                self._fail()
            del keep
            for argument in self._written:
                argument.write_back()
            return self._read_outputs(leaves)

    def instruction_names(self) -> list[str]:
        """Operator or backend of each instruction."""
        with self._opened.lock:
            self._prepare()
            buffer = ctypes.create_string_buffer(160)
            names = []
            for index in range(self.instruction_count):
                self._opened.library.pl_instruction_name(self._call.method, index, buffer, 160)
                names.append(buffer.value.decode(errors="replace"))
            return names

    def times(self, leaves: Sequence[Any], repeats: int = 10) -> list[int]:
        """Run `repeats` times as call_flat() does; mean nanoseconds of each instruction in one run.

        Reading the clock is not counted.
        """
        count = self.instruction_count
        nanoseconds, runs = (ctypes.c_uint64 * max(1, count))(), (ctypes.c_uint64 * max(1, count))()
        lib = self._opened.library
        with self._opened.lock:
            self._prepare()
            status = lib.pl_trace_times(self._call.method, nanoseconds, runs, count)
            library.check_quietly(status, self._opened.where)
        try:
            for _ in range(repeats):
                self.call_flat(leaves)
        finally:
            lib.pl_trace_times(self._call.method, None, None, 0)
        return [nanoseconds[i] // max(1, repeats) for i in range(count)]

    def limit_jumps(self, count: int) -> None:
        """Let a run take at most `count` backward jumps: for programs that nobody trusts."""
        self._call.max_jumps = count

    def __repr__(self) -> str:
        inputs = ", ".join(map(repr, self.inputs))
        outputs = ", ".join(map(repr, self.outputs))
        return f"<method {self.name}({inputs}) -> {outputs}>"

    def __reduce_ex__(self, protocol: Any) -> Any:
        return self._opened.__reduce_ex__(protocol)

    def _prepare(self) -> None:
        if not self._call.method:
            self._call.method = self._opened.load_method(self.name)

    def _flatten(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Sequence[Any]:
        structure = self._in_structure
        if structure is None:
            if kwargs:
                raise self._count_error(f"keyword arguments {', '.join(kwargs)}")
            leaves = list(args)
            if len(leaves) != self._count:
                raise self._count_error(str(len(leaves)))
            return leaves
        positional, named = structure.children
        if len(args) != len(positional.children) or set(kwargs) != set(named.keys):
            args, kwargs = self._place_arguments(args, kwargs, positional, named)
        found: list[Any] = []
        for index, (child, item) in enumerate(zip(positional.children, args, strict=True)):
            child.flatten(item, f"input {index}", found)
        for key, child in zip(named.keys, named.children, strict=True):
            child.flatten(kwargs[key], f"input {key}", found)
        return found

    def _place_arguments(
        self, args: tuple[Any, ...], kwargs: dict[str, Any], positional: Structure, named: Structure
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Put positional arguments that were given by name in their place, or say what does not fit."""
        missing = [key for key in named.keys if key not in kwargs]
        extra = [key for key in kwargs if key not in named.keys]
        names = self._opened.debug.input_names(self.name, self._count) if positional.is_flat else None
        names = names[: len(positional.children)] if names else []
        fits = not missing and len(args) + len(extra) == len(positional.children)
        if fits and extra == names[len(args) :]:
            return (*args, *(kwargs[key] for key in extra)), {key: kwargs[key] for key in named.keys}
        if fits and set(extra) == set(names[len(args) :]):
            return self._place_arguments(
                args, {key: kwargs[key] for key in [*names[len(args) :], *named.keys]}, positional, named
            )
        got = f"{len(args)} positional"
        if missing:
            got += f"; missing {', '.join(missing)}"
        if extra:
            got += f"; not expected {', '.join(extra)}"
        takes = f"{len(positional.children)} positional argument{'s' * (len(positional.children) != 1)}"
        if names:
            takes += f" ({', '.join(names)})"
        if named.keys:
            takes += f" and the keyword{'s' * (len(named.keys) != 1)} {', '.join(named.keys)}"
        raise InvalidInput(f"method {self.name} takes {takes}", where=self._opened.where, got=got)

    def _called_again(self) -> InvalidState:
        return InvalidState(
            f"method {self.name} is called by one of its own arguments, which is asked for its values",
            where=self._opened.where,
            do="compute the argument before the call, and give the method an array",
        )

    def _count_error(self, got: str) -> InvalidInput:
        names = [spec.name if isinstance(spec, TensorSpec) else spec for spec in self.inputs]
        takes = f"{self._count} input{'s' * (self._count != 1)}"
        return InvalidInput(
            f"method {self.name} takes {takes}" + (f": {', '.join(names)}" if names else ""), got=got
        )

    def _fail(self) -> None:
        text = self._call.error.decode(errors="replace")
        where = f"method {self.name}, in {self._opened.where}"
        _, found, rest = text.partition("instruction ")
        number = rest.partition(" ")[0].rstrip(",:")
        if found and number.isdigit() and (place := self._opened.debug.place(self.name, int(number))):
            where = f"{place}; {where}"
        fixed = re.match(r"input (\d+) was fixed", text)
        if fixed is not None:
            raise self._fixed(int(fixed[1]), where)
        raise library.failure(self._call.status, self._with_names(text), where)

    def _fixed(self, index: int, where: str) -> InvalidInput:
        self.name_inputs()
        argument = self._arguments[index]
        assert isinstance(argument, NumberArgument)
        dynamic = (
            f'dynamic_shapes={{"{argument.name}": torch.export.Dim.AUTO(max=...)}}, or with '
            if argument.kind == "int"
            else ""
        )
        return InvalidInput(
            f"input {argument.name} was {self.traced_values[index]} when the model was exported, "
            "which became part of the program",
            where=where,
            got=str(argument.given),
            do=f"export with {dynamic}a tensor in place of the number",
        )

    def _with_names(self, text: str) -> str:
        """A line of the runtime, which knows inputs by their numbers."""
        if not text.startswith("input "):
            return text
        self.name_inputs()
        names = [
            argument.spec.name if isinstance(argument, TensorArgument) else argument.name
            for argument in self._arguments
        ]

        def name(found: re.Match[str]) -> str:
            number = int(found[1])
            return f"input {names[number]}" if number < len(names) else found[0]

        return re.sub(r"\binput (\d+)\b", name, text)

    def _read_outputs(self, leaves: Sequence[Any]) -> list[Any]:
        if self._call.changed or not self._is_known:
            for result in self._results:
                result.look()
            self._is_known = True
        torch = sys.modules.get("torch")
        if torch is not None:
            for leaf in leaves:
                # Asking a class of torch's takes longer than the rest: it does so in Python.
                if type(leaf) is not np.ndarray and isinstance(leaf, torch.Tensor):
                    return [result.read_torch(torch) for result in self._results]
        return [result.read() for result in self._results]


def _numbers(opened: OpenedProgram, key: str) -> list[int]:
    """A list of inputs or outputs that the file keeps under a name."""
    data = opened.named_data(key) or b""
    return [number for (number,) in struct.iter_unpack("<q", data[: len(data) // 8 * 8]) if number >= 0]


def _number_of(info: library.Info) -> Any:
    return {INT: info.integer, BOOL: bool(info.integer), DOUBLE: info.real}.get(info.tag)


def _expected(structure: Structure | None, count: int) -> Structure | None:
    """A structure with another number of leaves than the method has is of no use."""
    return structure if structure is not None and structure.leaf_count == count else None


def _input_names(structure: Structure | None, count: int) -> list[str]:
    """Keyword arguments by name, positional ones by number, items of containers by their path."""
    if structure is None:
        return [str(index) for index in range(count)]
    positional, named = structure.children
    names = [name for index, child in enumerate(positional.children) for name in child.paths(str(index))]
    return names + [
        name for key, child in zip(named.keys, named.children, strict=True) for name in child.paths(key)
    ]
