"""Arguments of a call: checked against the program and handed to the runtime.

What was found out about an argument (dtype, sizes, layout) is kept, so that a
call with arguments like the last ones only writes their addresses.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from ctypes import addressof, c_char
from typing import TYPE_CHECKING, Any

import numpy as np

from penlight.errors import InvalidInput

from . import dtypes
from .library import BOOL, DOUBLE, INT, NONE, TAG_NAMES, TENSOR, Info, Value

if TYPE_CHECKING:
    from .method import LoadedMethod

_first_byte: Callable[[Any], c_char] = c_char.from_buffer


class TensorSpec:
    """What a method says of one tensor: dtype, shape and layout.

    `shape` holds upper bounds where `dynamic` is true. `dim_order` lists the
    dimensions from the outermost in memory, None for row-major.
    """

    __slots__ = ("dim_order", "dtype", "dtype_number", "dynamic", "name", "shape")

    def __init__(self, info: Info, name: str) -> None:
        self.name = name
        self.dtype_number = int(info.dtype)
        self.dtype = dtypes.name_of(self.dtype_number)
        self.shape = tuple(info.sizes[: info.dim])
        self.dynamic = bool(info.dynamic)
        order = tuple(info.dim_order[: info.dim])
        self.dim_order = None if order == tuple(range(info.dim)) else order

    def __repr__(self) -> str:
        sizes = ", ".join(f"<={size}" if self.dynamic else str(size) for size in self.shape)
        layout = f", dim order {list(self.dim_order)}" if self.dim_order else ""
        return f"{self.name}: {self.dtype} [{sizes}]{layout}"


class TensorArgument:
    """Writes one tensor argument of a call."""

    __slots__ = (
        "_dtype",
        "_has_buffer",
        "_shape",
        "_torch",
        "_torch_dtype",
        "is_written",
        "method",
        "not_yet",
        "plain",
        "spec",
        "value",
    )

    def __init__(self, spec: TensorSpec, value: Value, method: LoadedMethod | None = None) -> None:
        self.spec, self.value, self.method = spec, value, method
        value.tag, value.dtype, value.dim = TENSOR, spec.dtype_number, len(spec.shape)
        self.plain = spec.dim_order is None
        # Arrays of types that numpy itself does not know cannot be asked for their buffer.
        self._has_buffer = self.plain and dtypes.raw_dtype(spec.dtype_number) is None
        self._dtype = dtypes.numpy_dtype(spec.dtype_number)
        self._shape: tuple[int, ...] | None = None  # of the last argument
        self.is_written = False  # by a run, so that the caller sees it
        self.not_yet: tuple[Any, Any] | None = None  # an argument, and the copy of it that a run writes to
        self._torch: Any = None  # torch.Tensor, once torch is in the process
        self._torch_dtype: Any = None

    def set(self, given: Any) -> Any:
        """Describe `given` to the runtime. Returns what must stay alive during the call."""
        if type(given) is np.ndarray:
            if (
                self._has_buffer
                and given.shape == self._shape
                and given.dtype == self._dtype
                and given.flags.carray
                and given.size
            ):
                # Several times as fast as asking the array; the address is that of its first byte.
                self.value.data = addressof(_first_byte(given))
                return given
        elif (
            type(given) is self._torch
            and self.plain
            and given.dtype is self._torch_dtype
            and given.shape == self._shape
            and given.is_cpu
            and given.is_contiguous()
            and not given.is_neg()
            and not given.is_conj()
        ):
            self.value.data = given.data_ptr()
            return given
        return self._set_new(given)

    def array(self, given: Any) -> np.ndarray[Any, Any]:
        """`given` as a numpy array, once it is known to fit."""
        array = self._array(given)
        self._check(array)
        return array

    def _set_new(self, given: Any) -> Any:
        array = self.array(given)
        if self.spec.dim_order is not None:
            # Its bytes in the order that the program keeps the dimensions in.
            laid_out = np.require(array.transpose(self.spec.dim_order), requirements=["C", "A"])
        else:
            laid_out = np.require(array, requirements=["C", "A"])
        shape = array.shape
        if shape != self._shape:
            self.value.sizes[: len(shape)] = shape
            self._shape = shape
        self.value.data = laid_out.__array_interface__["data"][0]
        if self.is_written:
            self._check_writeable(given, array)
            if not np.shares_memory(laid_out, array):
                self.not_yet = array, laid_out
        return laid_out

    def write_back(self) -> None:
        """Give the caller what a run wrote to a copy of the argument."""
        if self.not_yet is None:
            return
        array, copied = self.not_yet
        self.not_yet = None
        if self.spec.dim_order is not None:
            array = array.transpose(self.spec.dim_order)
        array[...] = copied

    def _check_writeable(self, given: Any, array: np.ndarray[Any, Any]) -> None:
        # What is no array, a number, takes no part in it.
        if array.flags.writeable or isinstance(given, (bool, int, float, np.generic)):
            return
        raise self._error(
            "is read-only, and the program writes to it",
            type(given).__name__,
            "give a writeable copy: numpy.array(x)",
        )

    def _array(self, given: Any) -> np.ndarray[Any, Any]:
        """`given` as a numpy array that shares its memory where possible."""
        torch = sys.modules.get("torch")
        if torch is not None and isinstance(given, torch.Tensor):
            self._torch, self._torch_dtype = torch.Tensor, dtypes.torch_dtype(self.spec.dtype_number)
            return self._from_torch(given, torch)
        if isinstance(given, np.ndarray):
            return given
        if isinstance(given, (bool, int, float, np.generic)):
            return self._from_number(given)
        if hasattr(given, "__dlpack__"):
            try:
                return np.from_dlpack(given)
            except (BufferError, RuntimeError, TypeError, ValueError) as error:
                raise self._error("numpy cannot take it over through DLPack", str(error)) from error
        if hasattr(given, "__array__"):
            return np.asarray(given)
        raise self._error(
            "is no tensor",
            type(given).__name__,
            "give a numpy array, a torch tensor or any object with DLPack",
        )

    def _from_torch(self, given: Any, torch: Any) -> np.ndarray[Any, Any]:
        if given.layout is not torch.strided:
            raise self._error("is not a dense tensor", str(given.layout), "call .to_dense()")
        if given.is_meta:
            raise self._error("is on the meta device, where tensors have no values", "torch.device('meta')")
        tensor = given.detach().resolve_conj().resolve_neg().cpu()
        if tensor.dtype is not self._torch_dtype:
            got = f"{str(tensor.dtype).removeprefix('torch.')}, {self.spec.dtype} is needed"
            raise self._error("has another dtype", got, f"convert it: .to(torch.{self.spec.dtype})")
        raw = dtypes.raw_dtype(self.spec.dtype_number)
        if raw is not None:
            # numpy does not know the type: its bits do.
            signed = {1: torch.int8 if raw == np.int8 else torch.uint8, 2: torch.int16, 4: torch.int32}
            array: np.ndarray[Any, Any] = tensor.view(signed[raw.itemsize]).numpy()
            return array.view(raw)
        return tensor.numpy()  # type: ignore[no-any-return]

    def _from_number(self, given: Any) -> np.ndarray[Any, Any]:
        if isinstance(given, np.generic):
            return np.asarray(given)
        kind = self._dtype.kind
        fits = (
            kind == "b"
            if isinstance(given, bool)
            else kind in "iuf"
            if isinstance(given, int)
            else kind == "f"
        )
        # ml_dtypes' types have a kind of their own.
        if not fits and not (kind == "V" and not isinstance(given, bool)):
            raise self._error(
                "has another dtype", f"a Python {type(given).__name__}, {self.spec.dtype} is needed"
            )
        try:
            return np.asarray(given, dtype=self._dtype)
        except OverflowError as error:
            raise self._error(
                f"does not fit {self.spec.dtype}", f"{type(given).__name__} {_number_text(given)}"
            ) from error

    def _check(self, array: np.ndarray[Any, Any]) -> None:
        spec = self.spec
        raw = dtypes.raw_dtype(spec.dtype_number)
        if array.dtype != self._dtype and (raw is None or array.dtype != raw):
            do = f"convert it: .astype(numpy.{spec.dtype})" if raw is None else None
            raise self._error("has another dtype", f"{array.dtype}, {spec.dtype} is needed", do)
        if array.ndim != len(spec.shape):
            raise self._error(
                f"has {array.ndim} dimension{'s' * (array.ndim != 1)}, {len(spec.shape)} are needed",
                _shape_text(array.shape),
            )
        for dim, (size, bound) in enumerate(zip(array.shape, spec.shape, strict=True)):
            if spec.dynamic and size > bound:
                raise self._error(
                    f"is too large in dimension {dim}: {size}, at most {bound} is possible",
                    _shape_text(array.shape),
                    "export with a larger bound for this dimension, or give a smaller tensor",
                )
            if not spec.dynamic and size != bound:
                raise self._error(
                    f"has size {size} in dimension {dim}, {bound} is needed",
                    _shape_text(array.shape),
                    "export with dynamic_shapes to run with several sizes",
                )

    def _error(self, what: str, got: str, do: str | None = None) -> InvalidInput:
        if self.method is None:
            return InvalidInput(f"state {self.spec.name} {what}", where=repr(self.spec), got=got, do=do)
        self.method.name_inputs()
        where = f"method {self.method.name}, which takes {self.spec!r}"
        return InvalidInput(f"input {self.spec.name} {what}", where=where, got=got, do=do)


class NumberArgument:
    """Writes one argument that is a number, or None."""

    __slots__ = ("index", "method", "name", "tag", "value")

    def __init__(self, tag: int, value: Value, name: str, method: LoadedMethod, index: int) -> None:
        self.tag, self.value, self.name, self.method, self.index = tag, value, name, method, index
        value.tag = tag

    def set(self, given: Any) -> Any:
        """Describe `given` to the runtime."""
        if self.tag == NONE:
            if given is not None and not (isinstance(given, str) and given == self._text()):
                raise self._error(given)
            return None
        if (
            not isinstance(given, (bool, int, float))
            and hasattr(given, "item")
            and getattr(given, "ndim", 1) == 0
        ):
            given = given.item()
        if (self.tag == BOOL and isinstance(given, bool)) or (
            self.tag == INT
            and isinstance(given, int)
            and not isinstance(given, bool)
            and -(2**63) <= given < 2**63
        ):
            self.value.integer = given
        elif self.tag == DOUBLE and isinstance(given, (int, float)) and not isinstance(given, bool):
            try:
                self.value.real = given
            except OverflowError:
                raise self._error(given) from None
        else:
            raise self._error(given)
        return None

    @property
    def kind(self) -> str:
        return TAG_NAMES[self.tag]

    @property
    def given(self) -> bool | int | float:
        """What was set last."""
        if self.tag == DOUBLE:
            return float(self.value.real)
        return bool(self.value.integer) if self.tag == BOOL else int(self.value.integer)

    def _text(self) -> str | None:
        """The one string that can be given: what it was when the model was compiled."""
        return self.method.text_of(self.index)

    def _error(self, given: Any) -> InvalidInput:
        self.method.name_inputs()
        text = self._text() if self.tag == NONE else None
        expected = _article(TAG_NAMES[self.tag]) if text is None else repr(text)
        shape = getattr(given, "shape", None)
        what = f"of {_shape_text(shape)}" if isinstance(shape, tuple) else _number_text(given)
        return InvalidInput(
            f"input {self.name} should be {expected}"
            + (", which the program was compiled for" if self.tag == NONE else ""),
            where=f"method {self.method.name}",
            got=f"{type(given).__name__} {what}"[:100],
            do="compile another program with an example of it" if self.tag == NONE else None,
        )


def _number_text(given: Any) -> str:
    """What was given; of thousands of digits, which Python does not print, their size."""
    if isinstance(given, int) and given.bit_length() > 64:
        return f"of {given.bit_length()} bits"
    return repr(given)


def _article(word: str) -> str:
    return word if word == "None" else f"an {word}" if word == "int" else f"a {word}"


def _shape_text(shape: tuple[int, ...]) -> str:
    return "shape [" + ", ".join(map(str, shape)) + "]"
