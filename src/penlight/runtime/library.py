"""The runtime's C interface (runtime/hosted/c_api.h), seen through ctypes."""

from __future__ import annotations

import ctypes
import os
from ctypes import (
    POINTER,
    Structure,
    c_char,
    c_char_p,
    c_double,
    c_int32,
    c_int64,
    c_size_t,
    c_uint8,
    c_uint32,
    c_uint64,
    c_void_p,
)
from typing import Any

from penlight.errors import (
    FileMissing,
    InvalidInput,
    InvalidProgram,
    InvalidState,
    MethodNotFound,
    NoKernel,
    NotSupported,
    OutOfMemory,
    PenlightError,
    RuntimeFailure,
)

ABI = 2
MAX_DIM = 16
UNKNOWN_DIM = 0xFFFFFFFF  # of a result that a kernel is yet to give its sizes
ERROR_SIZE = 512

# Tags of a value, as in penlight/value.h.
(
    NONE,
    INT,
    BOOL,
    DOUBLE,
    TENSOR,
    STRING,
    INT_LIST,
    DOUBLE_LIST,
    BOOL_LIST,
    TENSOR_LIST,
    OPTIONAL_TENSOR_LIST,
) = range(11)
TAG_NAMES = (
    "None", "int", "bool", "float", "tensor", "str", "list of int", "list of float", "list of bool",
    "list of tensors", "list of tensors",
)  # fmt: skip


class Value(Structure):
    """A number, a tensor or a list."""

    _fields_ = (
        ("tag", c_uint32),
        ("dtype", c_int32),
        ("dim", c_uint32),
        ("reserved", c_uint32),
        ("data", c_void_p),
        ("size", c_uint64),
        ("integer", c_int64),
        ("real", c_double),
        ("sizes", c_int64 * MAX_DIM),
        ("strides", c_int64 * MAX_DIM),
    )


class Info(Structure):
    """What a program says of an input, an output or a state tensor."""

    _fields_ = (
        ("tag", c_uint32),
        ("dtype", c_int32),
        ("dim", c_uint32),
        ("dynamic", c_uint32),
        ("planned", c_uint32),
        ("reserved", c_uint32),
        ("size", c_uint64),
        ("integer", c_int64),
        ("real", c_double),
        ("sizes", c_int64 * MAX_DIM),
        ("dim_order", c_uint8 * MAX_DIM),
        ("name", c_char_p),
    )


class MethodInfo(Structure):
    """What a program says of a method."""

    _fields_ = (
        ("name", c_char_p),
        ("input_structure", c_char_p),
        ("output_structure", c_char_p),
        ("input_count", c_uint64),
        ("output_count", c_uint64),
        ("arena_count", c_uint64),
        ("instruction_count", c_uint64),
        ("delegate_count", c_uint64),
        ("value_count", c_uint64),
        ("method_bytes", c_uint64),
    )


class Options(Structure):
    """How a program is opened."""

    _fields_ = (
        ("libraries", c_char_p),
        ("data_paths", POINTER(c_char_p)),
        ("data_path_count", c_uint64),
        ("map", c_int32),
        ("threads", c_int32),
    )


class Call(Structure):
    """One call of a method, prepared once."""

    _fields_ = (
        ("method", c_void_p),
        ("inputs", POINTER(Value)),
        ("outputs", POINTER(Value)),
        ("lent", POINTER(c_void_p)),
        ("input_count", c_uint64),
        ("output_count", c_uint64),
        ("max_jumps", c_uint64),
        ("changed", c_uint32),
        ("status", c_int32),
        ("error", c_char * ERROR_SIZE),
    )


class Operator(Structure):
    """A kernel as its library lists it."""

    _fields_ = (
        ("name", c_char_p),
        ("library", c_char_p),
        ("signature", c_char_p),
        ("key", c_char_p),
        ("source", c_char_p),
    )


class PluginOperator(Structure):
    """One PENLIGHT_LIBRARY line of a plug-in."""

    _fields_ = (
        ("name", c_char_p),
        ("library", c_char_p),
        ("signature", c_char_p),
        ("schema", c_char_p),
        ("shapes", c_char_p),
        ("backward", c_char_p),
        ("source", c_char_p),
    )


class TorchOperator(Structure):
    """A kernel as an operator of PyTorch."""

    _fields_ = (
        ("kernel", c_char_p),
        ("name", c_char_p),
        ("key", c_char_p),
        ("results", c_uint64),
        ("dtypes", POINTER(c_int32)),
        ("rule", POINTER(c_int64)),
        ("rule_size", c_uint64),
        ("raises", c_int32),
        ("given", c_int32),
        ("allowed", ctypes.c_uint32),
        ("prepared", c_int32),
        ("faked", c_int32),
        ("changed_lists", c_uint64),
    )


class TorchFailure(Structure):
    """What the kernel of such an operator failed of."""

    _fields_ = (("kernel", c_char_p), ("text", c_char_p), ("arguments", c_char_p), ("status", c_int32))


class TorchProbe(Structure):
    """What an operator of PyTorch was called with, as it lay on the stack."""

    _fields_ = (
        ("count", c_uint64),
        ("payloads", c_uint64 * 8),
        ("tags", ctypes.c_uint32 * 8),
        ("list_at", c_uint64),
        ("text_at", c_uint64),
        ("op", c_void_p * 2),
    )


class TorchFront(Structure):
    """What stands before an operator of PyTorch."""

    _fields_ = (
        ("name", c_char_p),
        ("op", c_void_p * 2),
        ("behind", c_void_p * 2),
        ("keys", c_uint64),
        ("count", c_uint64),
        ("numbers", c_uint64),
        ("faked", c_int32),
    )


OBSERVER = ctypes.CFUNCTYPE(None, c_void_p, c_uint32, c_char_p, POINTER(Value), c_uint64)

# Name, result and arguments of each function.
_ERROR = (c_char_p, c_size_t)
_FUNCTIONS: tuple[tuple[str, Any, tuple[Any, ...]], ...] = (
    ("pl_version", c_char_p, ()),
    ("pl_abi", c_int32, ()),
    ("pl_status_name", c_char_p, (c_int32,)),
    ("pl_open_path", c_int32, (c_char_p, POINTER(Options), POINTER(c_void_p), *_ERROR)),
    ("pl_open_bytes", c_int32, (c_void_p, c_size_t, POINTER(Options), POINTER(c_void_p), *_ERROR)),
    ("pl_close", None, (c_void_p,)),
    ("pl_method_count", c_uint64, (c_void_p,)),
    ("pl_method_name", c_char_p, (c_void_p, c_uint64)),
    ("pl_describe_method", c_int32, (c_void_p, c_char_p, POINTER(MethodInfo), *_ERROR)),
    ("pl_describe_input", c_int32, (c_void_p, c_char_p, c_uint64, POINTER(Info))),
    ("pl_describe_output", c_int32, (c_void_p, c_char_p, c_uint64, POINTER(Info))),
    ("pl_describe_arena", c_int32, (c_void_p, c_char_p, c_uint64, POINTER(c_uint64), POINTER(c_int32))),
    ("pl_program_size", c_uint64, (c_void_p,)),
    ("pl_named_data", c_int32, (c_void_p, c_char_p, POINTER(c_void_p), POINTER(c_uint64))),
    ("pl_load_method", c_int32, (c_void_p, c_char_p, POINTER(c_void_p), *_ERROR)),
    ("pl_verify", c_int32, (c_void_p, *_ERROR)),
    ("pl_run", c_int32, (c_void_p,)),
    ("pl_state_count", c_int32, (c_void_p, POINTER(c_uint64), *_ERROR)),
    ("pl_state", c_int32, (c_void_p, c_uint64, POINTER(Value), POINTER(c_char_p))),
    ("pl_reset", c_int32, (c_void_p, *_ERROR)),
    ("pl_seed", None, (c_void_p, c_uint64)),
    ("pl_trace_times", c_int32, (c_void_p, POINTER(c_uint64), POINTER(c_uint64), c_uint64)),
    ("pl_trace_values", c_int32, (c_void_p, OBSERVER, c_void_p)),
    ("pl_instruction_name", None, (c_void_p, c_uint64, c_char_p, c_size_t)),
    ("pl_operator_count", c_uint64, ()),
    ("pl_describe_operator", c_int32, (c_uint64, POINTER(Operator))),
    ("pl_load_plugin", c_int32, (c_char_p, POINTER(c_void_p), *_ERROR)),
    ("pl_undo_plugin", None, ()),
    ("pl_describe_plugin", c_int32, (c_void_p, c_uint64, POINTER(PluginOperator))),
    ("pl_kernel_call", c_int32, (c_char_p, c_char_p, POINTER(Value), c_uint64, *_ERROR)),
    ("pl_torch_connect", c_int32, (c_char_p, *_ERROR)),
    ("pl_torch_register", c_int32, (POINTER(TorchOperator), *_ERROR)),
    ("pl_torch_failed", None, (POINTER(TorchFailure),)),
    (
        "pl_torch_dispatch_connect",
        c_int32,
        (c_char_p, POINTER(c_uint64), c_void_p, POINTER(TorchProbe), *_ERROR),
    ),
    ("pl_torch_dispatch_probe", c_int32, (c_char_p, *_ERROR)),
    ("pl_torch_dispatch_probed", None, ()),
    ("pl_torch_autograd_register", c_int32, (c_char_p, *_ERROR)),
    ("pl_torch_autograd_keys", c_uint64, (POINTER(c_int32),)),
    ("pl_torch_front_register", c_int32, (POINTER(TorchFront), *_ERROR)),
    ("pl_torch_front_asked", c_uint64, (POINTER(c_uint8), c_uint64)),
    (
        "pl_torch_front_remember",
        None,
        (c_char_p, POINTER(c_uint8), c_uint64, POINTER(c_int64), c_uint64),
    ),
    ("pl_isa", c_char_p, ()),
    ("pl_select_isa", c_int32, (c_char_p,)),
    ("pl_kernel_shapes", c_int32, (c_char_p, c_char_p, POINTER(Value), c_uint64, *_ERROR)),
)

_FILE_NAMES = ("libpenlight.so", "libpenlight.dylib", "penlight.dll")
_loaded: ctypes.CDLL | None = None


def library_path() -> str:
    """Where the compiled runtime lies: PENLIGHT_LIBRARY, else beside this file."""
    chosen = os.environ.get("PENLIGHT_LIBRARY")
    folder = os.path.dirname(__file__)
    for path in (chosen,) if chosen else [os.path.join(folder, name) for name in _FILE_NAMES]:
        if path and os.path.exists(path):
            return path
    raise NotSupported(
        "the compiled runtime is not installed",
        where=chosen or folder,
        do="build it (`make build` in a checkout), or install the penlight package from a wheel",
    )


def library() -> ctypes.CDLL:
    """The loaded runtime; loads it at the first call."""
    global _loaded
    if _loaded is None:
        path = library_path()
        try:
            loaded = ctypes.CDLL(path)
            for name, result, arguments in _FUNCTIONS:
                function = getattr(loaded, name)
                function.restype = result
                function.argtypes = arguments
        except (OSError, AttributeError) as error:
            raise NotSupported("the compiled runtime cannot be loaded", where=path, got=str(error)) from error
        if loaded.pl_abi() != ABI:
            raise NotSupported(
                "the compiled runtime is of another version than the Python package",
                where=path,
                got=f"interface {loaded.pl_abi()}, {ABI} is needed",
                do="build or install both together",
            )
        _loaded = loaded
    return _loaded


_ERRORS: dict[int, type[PenlightError]] = {
    2: InvalidState,
    3: InvalidInput,
    4: InvalidProgram,
    5: NotSupported,
    6: MethodNotFound,
    7: NoKernel,
    8: NotSupported,
    9: OutOfMemory,
    10: InvalidProgram,
}
_ADVICE = {
    4: "the file is damaged or was not written by a compiler of programs: make or copy it again",
    7: "link a kernel library that has it, or load the plug-in that does",
    8: "link the backend, or compile the model without it",
}


def failure(status: int, text: str, where: str | None) -> PenlightError:
    """The error for a status of the runtime and the line it gave."""
    if status == 10 and text.startswith("no such file"):
        return FileMissing(text, do="check the path")
    do = _ADVICE.get(status)
    if text.startswith("sizes of inputs do not fit"):
        do = "compile another program with example inputs of these sizes"
    return _ERRORS.get(status, RuntimeFailure)(text, where=where, do=do)


def check(status: int, error: Any, where: str | None = None) -> None:
    """Raise what the runtime reported in the buffer `error`, unless all is well."""
    if status:
        raise failure(status, error.value.decode(errors="replace"), where)


def text_of(value: bytes | None, what: str, where: str | None) -> str:
    """Text that a file holds; what cannot be text shows that the file is damaged."""
    if value is None:
        raise failure(4, f"{what} is missing", where)
    try:
        return value.decode()
    except UnicodeDecodeError as error:
        raise failure(4, f"{what} is not text in UTF-8: byte {error.start} does not fit", where) from None


def check_quietly(status: int, where: str | None = None) -> None:
    """Raise for a status that came without a line of text."""
    if status:
        raise failure(status, library().pl_status_name(status).decode(), where)
