"""Calling a kernel with torch tensors: what stands behind an operator in eager mode on the CPU.

Inputs are given to the kernel as they lie in memory when they are contiguous, and
as contiguous copies when not: a kernel sees row-major tensors here as it does in
programs. Results get the sizes of the shape rule; without one the kernel itself is
asked for them.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch._library.fake_impl import set_ctx_getter
from torch.utils import _pytree as pytree

from penlight.errors import InvalidInput, InvalidOperator, NotSupported, PenlightError
from penlight.ops.backward_rule import BackwardRule
from penlight.ops.shapes import ShapeRule, Spec, full_name
from penlight.ops.signature import Argument, Signature
from penlight.runtime import dtypes, library
from penlight.runtime.kernels import kernel_shapes
from penlight.runtime.library import Value

NUMBERS = {getattr(torch, name): number for number, name in dtypes.NAMES.items() if "complex" not in name}
_MEMORY_FORMATS = {
    torch.contiguous_format: 0,
    torch.preserve_format: 1,
    torch.channels_last: 2,
    torch.channels_last_3d: 3,
}
_LISTS: dict[str, tuple[int, Any]] = {
    "J": (library.INT_LIST, ctypes.c_int64),
    "D": (library.DOUBLE_LIST, ctypes.c_double),
    "C": (library.BOOL_LIST, ctypes.c_bool),
}


class Kernel:
    """One kernel of a plug-in, as torch calls it.

    Attributes:
        name: in programs, "myop::custom_linear.out".
        letters: types of the arguments, results last (penlight/boxing.h).
        source: file and line that define it.
        rule: for the sizes of its results, if it has one.
        checks: compare rule and kernel in every call (PENLIGHT_CHECK_OPS=1).
        fake_function: the user's, for sizes and dtypes of results where there is no rule.
        allowed: dtypes that the user said it takes; None when nothing was said.
        backward: the operators that give its gradients, where the file in C++ says so.
    """

    def __init__(
        self,
        name: str,
        signature: Signature,
        letters: str,
        source: str,
        rule: ShapeRule | None,
        backward: BackwardRule | None = None,
    ) -> None:
        self.backward = backward
        self.name, self.signature, self.letters = name, signature, letters
        self.source, self.rule = source, rule
        self._encoded = name.encode()
        self.checks = bool(os.environ.get("PENLIGHT_CHECK_OPS"))
        self.fake_function: Callable[..., Any] | None = None
        self.allowed: frozenset[str] | None = None
        self._defaults: dict[str, Any] = {}

    def learn_defaults(self, op: Any) -> None:
        """torch leaves out arguments that are as their default."""
        self._defaults = {
            argument.name: argument.default_value
            for argument in op._schema.arguments
            if argument.has_default_value()
        }

    def result_dtypes(self) -> list[int]:
        """Dtypes of the results by PyTorch's numbers: -1 for that of the first tensor, -2 - i for what
        argument i says."""
        if self.rule is None or not self.signature.outs:
            return [-1] * len(self.signature.outs)
        places = {argument.name: i for i, argument in enumerate(self.signature.arguments)}
        found: list[int] = []
        for result in self.rule.results:
            named = result.like or result.dtype
            if named is None:
                found.append(-1)
            elif named in places:
                found.append(-2 - places[named])
            else:
                found.append(NUMBERS[getattr(torch, full_name(named))])
        return found

    def bind(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> dict[str, Any]:
        """Arguments by name, in the schema's order; results that were given included."""
        names = [argument.name for argument in (*self.signature.arguments, *self.signature.outs)]
        given = {**self._defaults, **dict(zip(names, args, strict=False)), **kwargs}
        return {name: given[name] for name in names if name in given}

    def default_of(self, name: str) -> Any:
        """An argument's default, None when there is none."""
        return self._defaults.get(name)

    # --- eager -------------------------------------------------------------------------------------

    def functional(self, *args: Any, **kwargs: Any) -> Any:
        """The operator that returns new tensors."""
        arguments = self.bind(args, kwargs)
        specs = self.results(arguments)
        if self.checks and self.rule is not None:
            self.compare(arguments)
        return self.functional_of(arguments, specs)

    def functional_of(self, arguments: Mapping[str, Any], specs: Sequence[Spec | list[Spec]]) -> Any:
        """The same, of results that are like `specs`."""
        outs = [_allocate(spec) for spec in specs]
        self.call(arguments, outs)
        if self.signature.returns_written:
            return arguments[self.signature.written[0].name]
        return None if not outs else outs[0] if len(outs) == 1 else tuple(outs)

    def out(self, *args: Any, **kwargs: Any) -> Any:
        """The operator that writes to the tensors it is given."""
        arguments = self.bind(args, kwargs)
        return self.out_of(arguments, self.results(arguments))

    def out_of(self, arguments: Mapping[str, Any], specs: Sequence[Spec | list[Spec]]) -> Any:
        """The same, of results that are like `specs`."""
        names = [out.name for out in self.signature.outs]
        given = [arguments[name] for name in names]
        made: list[Any] = []
        for name, value, spec in zip(names, given, specs, strict=True):
            if isinstance(spec, list):
                if len(value) != len(spec):
                    raise wrong_count(self, name, len(spec), len(value))
                made.append([_fitting(self.name, name, v, s) for v, s in zip(value, spec, strict=True)])
            else:
                made.append(_fitting(self.name, name, value, spec))
        self.call(arguments, made)
        for value, result in zip(pytree.tree_leaves(given), pytree.tree_leaves(made), strict=True):
            if result is not value:
                value.copy_(result)
            else:
                torch.autograd.graph.increment_version(value)
        if self.signature.out_list:
            return None
        return given[0] if len(given) == 1 else tuple(given)

    def results(self, arguments: Mapping[str, Any]) -> list[Spec | list[Spec]]:
        """Sizes and dtypes of the results: by the rule, or as the kernel says.

        Raises:
            NotSupported: there is no rule and the kernel cannot be asked.
        """
        if not self.signature.outs:
            return []
        if self.rule is not None:
            return self.rule.apply(arguments)
        if self.fake_function is not None:
            specs, of_data = self.faked(arguments)
            return self.sized_by_data(arguments, specs) if of_data else specs
        return list(self.asked(arguments))

    def check_dtypes(self, arguments: Mapping[str, Any]) -> None:
        """Refuse tensors of dtypes that the user said it does not take."""
        if self.allowed is None:
            return
        allowed = self.allowed
        for argument in self.signature.tensors:
            for tensor in pytree.tree_leaves(arguments[argument.name]):
                if tensor is None or (name := str(tensor.dtype).removeprefix("torch.")) in allowed:
                    continue
                raise NotSupported(
                    f"{self.signature.qualified} does not take {name}",
                    where=self.source,
                    got=f"argument '{argument.name}'",
                    do=f"convert it; declared are {', '.join(sorted(allowed))}",
                )

    @property
    def asks_fake(self) -> bool:
        """Does a function in Python say what results are like?"""
        return self.rule is None and self.fake_function is not None and bool(self.signature.outs)

    def faked(self, arguments: Mapping[str, Any]) -> tuple[list[Spec | list[Spec]], bool]:
        """As the user's fake function says, for tensors without data; and do sizes depend on data?"""
        assert self.fake_function is not None
        outs = {out.name for out in self.signature.outs}
        arguments = {name: value for name, value in arguments.items() if name not in outs}
        given = pytree.tree_map_only(torch.Tensor, lambda t: torch.empty_like(t, device="meta"), arguments)
        own = [argument for argument in self.signature.arguments if not argument.keyword_only]
        named = {a.name: given[a.name] for a in self.signature.arguments if a.keyword_only}
        unknown = _SizesOfData()
        with set_ctx_getter(lambda: unknown):
            results = self.fake_function(*(given[argument.name] for argument in own), **named)
        if len(self.signature.outs) == 1:
            results = [results]
        specs = [
            [_spec_of(one) for one in r] if isinstance(r, list | tuple) else _spec_of(r) for r in results
        ]
        return specs, unknown.asked

    def sized_by_data(
        self, arguments: Mapping[str, Any], specs: Sequence[Spec | list[Spec]]
    ) -> list[Spec | list[Spec]]:
        """Sizes that depend on elements: the kernel runs as far as to say them, on the data itself."""
        values = (Value * len(self.letters))()
        keep: list[Any] = []
        for i, argument in enumerate(self.signature.arguments):
            value = arguments[argument.name]
            if argument.written:  # it will run again
                value = pytree.tree_map_only(torch.Tensor, torch.clone, value)
                keep.append(value)
            self._fill(values[i], value, self.letters[i], argument, keep, [])
        results = values[len(self.signature.arguments) :]
        for value, spec in zip(results, specs, strict=True):
            if isinstance(spec, list):
                raise NotSupported(
                    f"{self.name} returns a list of tensors whose sizes depend on data", where=self.source
                )
            value.tag, value.dim = library.TENSOR, library.UNKNOWN_DIM
            value.dtype = NUMBERS[getattr(torch, spec.dtype)]
        error = ctypes.create_string_buffer(library.ERROR_SIZE)
        status = library.library().pl_kernel_shapes(
            self._encoded, None, values, len(self.letters), error, library.ERROR_SIZE
        )
        library.check(status, error, self.source)
        return [
            Spec(tuple(value.sizes[: value.dim]), spec.dtype)
            for value, spec in zip(values[len(self.signature.arguments) :], specs, strict=True)
            if isinstance(spec, Spec)
        ]

    def asked(self, arguments: Mapping[str, Any], like: Sequence[Spec] | None = None) -> list[Spec]:
        """What the kernel says: its shape step is run, on tensors without data."""
        if self.signature.out_list:
            raise NotSupported(
                f"{self.name} returns a list of tensors and has no shape rule",
                where=self.source,
                do='add one behind the function: shapes("[n,k] -> [n][k]")',
            )
        given = [
            _plain(argument, arguments[argument.name], self.name) for argument in self.signature.arguments
        ]
        names = (
            [spec.dtype for spec in like]
            if like
            else [self._first_dtype(arguments)] * len(self.signature.outs)
        )
        shapes = kernel_shapes(self.name, given, dtypes_of_results=names)
        return [Spec(tuple(shape), name) for shape, name in zip(shapes, names, strict=True)]

    def _first_dtype(self, arguments: Mapping[str, Any]) -> str:
        for argument in self.signature.tensors:
            for leaf in pytree.tree_leaves(arguments[argument.name]):
                if hasattr(leaf, "shape"):
                    return str(leaf.dtype).removeprefix("torch.")
        return "float32"

    def compare(self, arguments: Mapping[str, Any], said: Sequence[Spec] | None = None) -> None:
        """Do shape rule and kernel agree for these arguments (as far as the kernel can be asked)?

        Args:
            arguments: of a call.
            said: what the fake function says of the results, where there is no rule.

        Raises:
            InvalidOperator: they do not; shows both.
        """
        if self.signature.out_list or not self.signature.outs or (self.rule is None and said is None):
            return
        specs = said or []
        if self.rule is not None:
            specs = [spec for spec in self.rule.apply(arguments) if isinstance(spec, Spec)]
        try:
            asked = self.asked(arguments, specs)
        except PenlightError as error:  # it takes no such arguments, or reads data first: a call will tell
            if error.what.endswith("ctx.resize(out, sizes) comes first"):
                raise InvalidOperator(error.what, where=self.source) from error
            return
        for out, want, have in zip(self.signature.outs, specs, asked, strict=True):
            if want.sizes != have.sizes:
                raise disagreement(self, out.name, self.inputs_text(arguments), want.sizes, have.sizes)

    def inputs_text(self, arguments: Mapping[str, Any]) -> str:
        """Sizes of a call's tensors, for messages."""
        sizes = ", ".join(
            f"{argument.name} {list(arguments[argument.name].shape)}"
            for argument in self.signature.tensors
            if hasattr(arguments[argument.name], "shape")
        )
        return f"for {sizes}"

    # --- the call ----------------------------------------------------------------------------------

    def call(self, arguments: Mapping[str, Any], outs: Sequence[Any]) -> None:
        """Run the kernel on real tensors; `outs` have the sizes that they should have."""
        self.check_dtypes(arguments)
        values = (Value * max(1, len(self.letters)))()
        keep: list[Any] = []
        back: list[tuple[torch.Tensor, torch.Tensor]] = []
        for i, argument in enumerate(self.signature.arguments):
            self._fill(values[i], arguments[argument.name], self.letters[i], argument, keep, back)
        start = len(self.signature.arguments)
        for i, out in enumerate(outs):
            value = values[start + i]
            if isinstance(out, list):
                items = (Value * max(1, len(out)))()
                for item, tensor in zip(items, out, strict=False):
                    _fill_tensor(item, tensor, self.name)
                value.tag, value.size, value.data = library.TENSOR_LIST, len(out), ctypes.addressof(items)
                keep.append(items)
            else:
                _fill_tensor(value, out, self.name)
        error = ctypes.create_string_buffer(library.ERROR_SIZE)
        status = library.library().pl_kernel_call(
            self._encoded, None, values, len(self.letters), error, library.ERROR_SIZE
        )
        if status:
            # Results of a wrong size are the likeliest reason.
            self.compare(
                arguments,
                [_spec_of(out) for out in outs] if self.asks_fake and not self.signature.out_list else None,
            )
            library.check(status, error, self.source)
        for i, (out, info) in enumerate(zip(outs, self.signature.outs, strict=True)):
            if not isinstance(out, list):
                value = values[start + i]
                sizes = tuple(value.sizes[: value.dim])
                if sizes != tuple(out.shape):
                    raise disagreement(self, info.name, "in this call", tuple(out.shape), sizes)
        for tensor, changed in back:
            tensor.copy_(changed)
        self._note_changes(arguments)

    def _note_changes(self, arguments: Mapping[str, Any]) -> None:
        """As torch's own operators do, so that a later backward sees that a tensor was changed."""
        for argument in self.signature.written:
            tensors = [leaf for leaf in pytree.tree_leaves(arguments[argument.name]) if leaf is not None]
            torch.autograd.graph.increment_version(tensors)

    def _fill(
        self,
        value: Value,
        given: Any,
        letter: str,
        argument: Argument,
        keep: list[Any],
        back: list[tuple[torch.Tensor, torch.Tensor]],
    ) -> None:
        kind = letter.upper()
        if given is None or kind == "G":
            value.tag = library.NONE
        elif kind in "TO":
            _fill_tensor(value, self._dense(given, argument, keep, back), self.name)
        elif kind in "LQ":
            items = (Value * max(1, len(given)))()
            for item, tensor in zip(items, given, strict=False):
                if tensor is None:
                    item.tag = library.NONE
                else:
                    _fill_tensor(item, self._dense(tensor, argument, keep, back), self.name)
            tag = library.TENSOR_LIST if kind == "L" else library.OPTIONAL_TENSOR_LIST
            value.tag, value.size, value.data = tag, len(given), ctypes.addressof(items)
            keep.append(items)
        elif kind in _LISTS:
            tag, item_type = _LISTS[kind]
            numbers = (item_type * max(1, len(given)))(*given)
            value.tag, value.size, value.data = tag, len(given), ctypes.addressof(numbers)
            keep.append(numbers)
        elif kind == "Z":
            data = given.encode()
            text = ctypes.create_string_buffer(data)
            value.tag, value.size, value.data = library.STRING, len(data), ctypes.addressof(text)
            keep.append(text)
        else:
            number = as_number(given, self.name)
            if isinstance(number, bool):
                value.tag, value.integer = library.BOOL, number
            elif isinstance(number, float):
                value.tag, value.real = library.DOUBLE, number
            elif kind == "F":
                value.tag, value.real = library.DOUBLE, float(number)
            else:
                value.tag, value.integer = library.INT, number

    def _dense(
        self, tensor: torch.Tensor, argument: Argument, keep: list[Any], back: list[Any]
    ) -> torch.Tensor:
        dense = tensor.contiguous()
        if dense is not tensor:
            keep.append(dense)
            if argument.written:
                back.append((tensor, dense))
        return dense


class _SizesOfData:
    """What torch.library.get_ctx() gives a fake function in an eager call: any size within its bounds
    will do, as the kernel has the data to tell it."""

    asked = False

    def new_dynamic_size(self, *, min: int = 0, max: int | None = None) -> int:
        self.asked = True
        return min


def _fill_tensor(value: Value, tensor: torch.Tensor, name: str) -> None:
    number = NUMBERS.get(tensor.dtype)
    if number is None:
        raise NotSupported(f"{name} was given a tensor of {tensor.dtype}, which kernels cannot have")
    dim = tensor.dim()
    if dim > library.MAX_DIM:
        raise NotSupported(
            f"{name} was given a tensor of {dim} dimensions", got=f"at most {library.MAX_DIM} are possible"
        )
    value.tag, value.dtype, value.dim = library.TENSOR, number, dim
    value.size, value.data = tensor.numel() * tensor.element_size(), tensor.data_ptr()
    value.sizes[:dim] = tensor.shape
    value.strides[:dim] = _row_major(tensor.shape)


def _row_major(shape: Sequence[int]) -> list[int]:
    """torch leaves strides of sizes 0 and 1 as they come."""
    strides, stride = [], 1
    for size in reversed(shape):
        strides.append(stride)
        stride *= max(1, size)
    return strides[::-1]


def as_number(given: Any, name: str) -> int | float | bool:
    """A scalar, dtype, layout or memory format as the number that crosses to C."""
    match given:
        case bool() | int() | float():
            return given
        case torch.dtype():
            if given in NUMBERS:
                return NUMBERS[given]
        case torch.memory_format():
            return _MEMORY_FORMATS[given]
        case torch.layout():
            return 0 if given is torch.strided else 1
        case torch.SymInt() | torch.SymFloat() | torch.SymBool():
            number: int | float | bool = hint(given)
            return number
    raise NotSupported(f"{name} was given {given!r}, which kernels cannot have")


def hint(value: Any) -> Any:
    """The number that stands behind a symbolic size while a model is traced."""
    return value if isinstance(value, bool | int | float) else value.node.hint


def _plain(argument: Argument, given: Any, name: str) -> Any:
    """An argument for kernel_shapes: tensors as sizes and dtype."""
    if given is None or argument.type.startswith("Device"):
        return None
    if hasattr(given, "shape"):
        sizes = tuple(hint(size) for size in given.shape)
        return sizes, str(given.dtype).removeprefix("torch.")
    if isinstance(given, list | tuple):
        return [_plain(argument, item, name) for item in given]
    if isinstance(given, str):
        return given
    return as_number(given, name)


def _spec_of(tensor: torch.Tensor) -> Spec:
    return Spec(tuple(tensor.shape), str(tensor.dtype).removeprefix("torch."))


def _allocate(spec: Spec | list[Spec]) -> Any:
    if isinstance(spec, list):
        return [_allocate(one) for one in spec]
    return torch.empty(spec.sizes, dtype=getattr(torch, spec.dtype))


def _fitting(operator: str, name: str, given: torch.Tensor, spec: Spec) -> torch.Tensor:
    """The tensor that the kernel writes: `given`, resized as torch does, or a temporary one."""
    dtype = getattr(torch, spec.dtype)
    if not torch.can_cast(dtype, given.dtype):
        raise InvalidInput(f"'{name}' of {operator} cannot hold {spec.dtype}", got=str(given.dtype))
    if tuple(given.shape) != spec.sizes:
        given.resize_(spec.sizes)
    if given.dtype == dtype and given.is_contiguous():
        return given
    return torch.empty(spec.sizes, dtype=dtype)


def wrong_count(kernel: Kernel, result: str, wanted: int, given: int) -> InvalidInput:
    return InvalidInput(f"'{result}' of {kernel.name} should have {wanted} tensors", got=str(given))


def disagreement(
    kernel: Kernel, result: str, case: str, rule: Sequence[Any], made: Sequence[Any]
) -> InvalidOperator:
    said = "fake function" if kernel.rule is None and kernel.fake_function is not None else "shape rule"
    word = "fake" if said == "fake function" else "rule"
    return InvalidOperator(
        f"the {said} of {kernel.name} and its kernel disagree about '{result}' {case}",
        where=kernel.source,
        got=f"{word:<6} {list(rule)}{'' if kernel.rule is None else f'   from {kernel.rule.text}'}\n"
        f"kernel {list(made)}",
        do=f"correct the {said.removeprefix('shape ')}, or the sizes given to ctx.resize()",
    )
