"""Kernels as operators of eager PyTorch, called without Python in between.

The runtime finds the functions it needs of torch in the process, so torch is imported by
whoever asks, never here.
"""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Sequence

from penlight.errors import InvalidState, NotSupported

from . import library

_NAMES = ("libtorch_cpu.so", "libtorch_cpu.dylib", "torch_cpu.dll")
# Dimensions are shared with torch, so they must be as wide.
IS_POSSIBLE = ctypes.sizeof(ctypes.c_void_p) == 8 and os.name == "posix"


def register_torch_operator(
    kernel: str,
    name: str,
    *,
    key: str = "CPU",
    results: int = 0,
    dtypes: Sequence[int] | None = None,
    rule: Sequence[int] = (),
    raises: bool = False,
    given: bool = False,
    allowed: Sequence[int] = (),
    prepared: bool = False,
    faked: bool = False,
    changed_lists: int = 0,
) -> bool:
    """Let a kernel serve an operator of torch on one dispatch key.

    Torch has the operator's schema already. Tensors reach the kernel where they lie, those with
    gaps between their elements as dense copies.

    Args:
        kernel: its name, "myop::linear.out".
        name: the operator: the out variant "myop::linear.out", or the functional "myop::linear",
            whose results are allocated when the kernel gives them their sizes.
        key: dispatch key of tensors whose data lies in this process's memory.
        results: how many are allocated, or given; 0 for what works in place.
        dtypes: of those, PyTorch's numbers; -1 for that of the first tensor, -2 - i for what argument i
            says; None for the first tensor's.
        rule: that sizes of every call are held against, in numbers (ops/rule_program.py).
        raises: ops/dispatch.py raises the errors of calls; else they are RuntimeErrors.
        given: the out variant, whose results are resized and converted to as torch does; without it
            they are written to as they are.
        allowed: dtypes of tensors that the kernel takes, PyTorch's numbers; all when empty.
        prepared: calls come by a front (ops/fronts.py), and numbers of any type (Scalar) as ints.
        faked: the front says what results are like.
        changed_lists: a bit for each argument that is a list of tensors which are changed.

    Returns: False when only a Python function can serve the operator, because of arguments that
        torch's stable interface does not carry (Generator; Scalar without a front), or because this
        build of torch lacks that interface.

    Raises:
        InvalidState: torch is not imported, or refused; or there is no such kernel.
    """
    if not IS_POSSIBLE or not _connect():
        return False
    described = library.TorchOperator(kernel.encode(), name.encode(), key.encode(), results)
    if dtypes is not None:
        described.dtypes = (ctypes.c_int32 * (results + 1))(*dtypes)
    described.raises, described.given = raises, given
    described.prepared, described.faked, described.changed_lists = prepared, faked, changed_lists
    described.allowed = sum(1 << number for number in set(allowed))
    if rule:
        described.rule, described.rule_size = (ctypes.c_int64 * len(rule))(*rule), len(rule)
    error = ctypes.create_string_buffer(library.ERROR_SIZE)
    status = library.library().pl_torch_register(described, error, library.ERROR_SIZE)
    if status == 5:
        return False
    if status:
        raise InvalidState(error.value.decode(errors="replace"), where=name)
    return True


def torch_library_path() -> str | None:
    """The libtorch_cpu of this process.

    Raises:
        InvalidState: torch is not imported.
    """
    torch = sys.modules.get("torch")
    if torch is None:
        raise InvalidState("torch is not imported in this process", do="import torch first")
    folder = os.path.join(os.path.dirname(str(torch.__file__)), "lib")
    return next((path for name in _NAMES if os.path.exists(path := os.path.join(folder, name))), None)


def _connect() -> bool:
    path = torch_library_path()
    if path is None:
        return False
    error = ctypes.create_string_buffer(library.ERROR_SIZE)
    try:
        library.check(library.library().pl_torch_connect(os.fsencode(path), error, library.ERROR_SIZE), error)
    except NotSupported:
        return False
    return True
