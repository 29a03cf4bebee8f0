"""What stands before some operators on the CPU: those with numbers of any type, and with a fake function.

torch's interface for C has no form for a Scalar, and only Python can ask a fake
function. So the kernel serves another operator, behind the first, which has ints in
the place of Scalars; C++ calls it (runtime/hosted/torch_front.cpp) with the numbers'
bits, and with what the fake function said when it was last asked the same. It is the
function here that asks it, and that computes what C++ cannot pass on.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch

from penlight.ops.calls import NUMBERS, Kernel
from penlight.ops.shapes import Spec
from penlight.ops.signature import Signature
from penlight.runtime import library

PYTHON_KEY = "PrivateUse2"  # where operators have their function in Python; no tensor has it
_MAX_KEY = 1024
_standing: set[str] = set()  # operators that have one, for good


def is_needed(kernel: Kernel, name: str) -> bool:
    return "S" in kernel.letters.upper() or kernel.asks_fake or name in _standing


def define_behind(torch_library: torch.library.Library, signature: Signature, *, out_form: bool) -> str:
    """The name of the operator behind `signature`, or behind its out form; defined if it is not yet."""
    arguments = tuple(
        replace(argument, type=argument.type.replace("Scalar", "int"), default=None)
        if argument.type in ("Scalar", "Scalar?")
        else replace(argument, default=None)
        for argument in signature.arguments
    )
    behind = replace(signature, name=f"_behind_{signature.name}", arguments=arguments)
    name = behind.kernel_name if out_form else behind.qualified
    if _find(name) is None:
        torch_library.define(behind.out() if out_form else behind.functional())
    return name


def connect(
    torch_library: torch.library.Library, kernel: Kernel, name: str, behind: str, *, out_form: bool
) -> bool:
    """Let calls of `name` on the CPU come to `behind`. False where that is not possible."""
    count = len(kernel.letters) - (0 if out_form else len(kernel.signature.outs))
    described = library.TorchFront(name.encode(), handle_of(name), handle_of(behind))
    described.keys = torch._C.DispatchKeySet(torch._C.DispatchKey.CPU).raw_repr()
    described.count = count
    described.numbers = sum(1 << i for i, letter in enumerate(kernel.letters[:count]) if letter in "Ss")
    described.faked = kernel.asks_fake
    error = ctypes.create_string_buffer(library.ERROR_SIZE)
    if library.library().pl_torch_front_register(described, error, library.ERROR_SIZE):
        return False
    _standing.add(name)
    run = (
        _asking(kernel, name, out_form) if kernel.asks_fake else kernel.out if out_form else kernel.functional
    )
    torch_library.impl(name.partition("::")[2], run, PYTHON_KEY)
    return True


def handle_of(name: str) -> Any:
    """The two words of torch's handle of an operator, "myop::scale.overload"."""
    found = _find(name)
    assert found is not None
    # An object of pybind11's: behind the two words of every Python object a pointer to what it is of.
    at = ctypes.c_void_p.from_address(id(found) + object.__basicsize__).value
    assert at is not None
    return (ctypes.c_void_p * 2).from_buffer_copy((ctypes.c_void_p * 2).from_address(at))


def _find(name: str) -> Any:
    base, _, overload = name.partition(".")
    try:
        return torch._C._dispatch_find_schema_or_throw(base, overload)
    except RuntimeError:
        return None


def _asking(kernel: Kernel, name: str, out_form: bool) -> Callable[..., Any]:
    asked = library.library().pl_torch_front_asked
    encoded = name.encode()

    def run(*args: Any, **kwargs: Any) -> Any:
        key = (ctypes.c_uint8 * _MAX_KEY)()
        size = asked(key, _MAX_KEY)
        arguments = kernel.bind(args, kwargs)
        said, of_data = kernel.faked(arguments)
        specs = kernel.sized_by_data(arguments, said) if of_data else said
        compute = kernel.out_of if out_form else kernel.functional_of
        result = compute(arguments, specs)
        if size:
            codes = _codes(said, of_data)
            numbers = (ctypes.c_int64 * max(1, len(codes)))(*codes)
            library.library().pl_torch_front_remember(encoded, key, size, numbers, len(codes))
        return result

    return run


def _codes(specs: Any, of_data: bool) -> list[int]:
    """As pl_torch_front_remember() takes them."""
    codes: list[int] = []
    for spec in specs:
        tensors = [spec] if isinstance(spec, Spec) else spec
        codes.append(-1 if isinstance(spec, Spec) else len(tensors))
        for tensor in tensors:
            sizes = [] if of_data else list(tensor.sizes)
            codes += [NUMBERS[getattr(torch, tensor.dtype)], -1 if of_data else len(sizes), *sizes]
    return codes
