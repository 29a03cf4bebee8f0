"""How torch comes to a kernel: past autograd and into it, without Python on the way.

The C++ side of gradients (runtime/hosted/torch_autograd.cpp) stands at the Autograd
key. When a tensor asks for a gradient it calls the operator's Python function, which
is registered for a dispatch key that no tensor has. In the same way a kernel that
fails has its error raised here, as a class of ours. How torch keeps arguments on its
stack is looked at once, with operators made for that; where it is not as expected,
Python functions stand at Autograd itself, and kernels that fail raise RuntimeError.
"""

from __future__ import annotations

import ctypes
import functools
import os
from collections.abc import Callable
from typing import Any

import torch

from penlight.errors import InvalidInput, PenlightError
from penlight.ops.calls import NUMBERS, Kernel, disagreement
from penlight.ops.rule_program import rule_program
from penlight.ops.shapes import Spec
from penlight.runtime import dtypes, library, torch_bridge

_KEY = "PrivateUse3"
_PROBES = "penlight_probe"
_kernels: dict[str, Kernel] = {}  # by name
_with_gradients: set[str] = set()
_kept: list[torch.library.Library] = []


def register_kernel(kernel: Kernel, *, out_form: bool = False) -> bool:
    """Let torch call the kernel on the CPU. False when only Python can."""
    is_possible()  # before a call can fail
    signature = kernel.signature
    # With checks on every call is compared with what the kernel says before; a list of results has
    # no form in torch's interface for C.
    if kernel.checks or signature.out_list:
        return False
    if kernel.rule is None and kernel.fake_function is not None:
        return False  # a function in Python says sizes and dtypes
    program = rule_program(kernel.rule, kernel.letters) if kernel.rule is not None else []
    if program is None:
        return False
    _kernels[kernel.name] = kernel
    return torch_bridge.register_torch_operator(
        kernel.name,
        signature.kernel_name if out_form else signature.qualified,
        results=len(signature.outs),
        dtypes=kernel.result_dtypes(),
        rule=program,
        raises=True,
        given=out_form,
        allowed=[NUMBERS[getattr(torch, name)] for name in kernel.allowed or ()],
    )


def register_gradients(
    torch_library: torch.library.Library, qualified: str, lists: bool, run: Callable[..., Any]
) -> None:
    """Let `run(keyset, *args)` be called when a gradient is asked for, or always where that is not possible.

    Args:
        torch_library: that has the operator.
        qualified: its name, "myop::scale.overload".
        lists: it has lists of tensors among its arguments.
    """
    name = qualified.partition("::")[2]
    if is_possible() and (qualified in _with_gradients or _register(qualified, lists)):
        _with_gradients.add(qualified)
        torch_library.impl(name, _turned_on(run), _KEY)
    else:
        torch_library.impl(name, run, "Autograd", with_keyset=True)


def _turned_on(run: Callable[..., Any]) -> Callable[..., Any]:
    keys_of_call = library.library().pl_torch_autograd_keys

    def call(*args: Any, **kwargs: Any) -> Any:
        keys = torch._C.DispatchKeySet.from_raw_repr(keys_of_call())
        torch.set_grad_enabled(True)  # C++ turned it off for the moment
        return run(keys, *args, **kwargs)

    return call


# --- errors of kernels -------------------------------------------------------------------------------


def _raise(_: Any) -> None:
    failure = library.TorchFailure()
    library.library().pl_torch_failed(failure)
    kernel = _kernels.get(failure.kernel.decode())
    text = failure.text.decode(errors="replace")
    assert kernel is not None
    given = [_argument(word) for word in failure.arguments.decode().split()]
    if given:
        arguments = dict(zip((a.name for a in kernel.signature.arguments), given, strict=False))
        kernel.check_dtypes(arguments)
        if kernel.rule is not None:
            raise _misfit(kernel, arguments, given[len(arguments) :])
    raise library.failure(failure.status, f"{kernel.name}: {text}", kernel.source)


def _misfit(kernel: Kernel, arguments: dict[str, Any], made: list[Any]) -> PenlightError:
    """What is wrong with sizes that do not fit the rule."""
    assert kernel.rule is not None
    try:
        specs = kernel.rule.apply(arguments)
    except PenlightError as error:
        return error
    for out, spec, have in zip(kernel.signature.outs, specs, made, strict=True):
        if isinstance(spec, Spec) and spec.sizes != have.shape:
            return disagreement(kernel, out.name, kernel.inputs_text(arguments), spec.sizes, have.shape)
    what = f"the sizes of a call of {kernel.name} do not fit its shape rule"
    return InvalidInput(what, got=kernel.inputs_text(arguments))


class _Sized:
    """A tensor of which sizes and dtype are known."""

    def __init__(self, shape: tuple[int, ...], dtype: str) -> None:
        self.shape, self.dtype = shape, dtype


def _argument(word: str) -> Any:
    """One of pl_torch_failure's arguments: t6:2,3  n  i4  b1  j1,2  lt6:2,3;n."""
    kind, rest = word[0], word[1:]
    if kind == "l":
        return [_argument(item) for item in rest.split(";") if item]
    if kind == "t":
        number, _, sizes = rest.partition(":")
        return _Sized(_numbers(sizes), dtypes.NAMES[int(number)])
    if kind == "j":
        return list(_numbers(rest))
    return None if kind == "n" else bool(int(rest)) if kind == "b" else int(rest)


def _numbers(text: str) -> tuple[int, ...]:
    return tuple(int(number) for number in text.split(",") if number)


# --- is torch as we think? ---------------------------------------------------------------------------


@functools.cache
def is_possible() -> bool:
    """May C++ stand at Autograd, and raise errors of Python's?"""
    path = torch_bridge.torch_library_path() if torch_bridge.IS_POSSIBLE else None
    if path is None or not torch.__version__.startswith("2.13."):  # others have not been looked at
        return False
    probes = torch.library.Library(_PROBES, "DEF")
    _kept.append(probes)
    probes.define("look(Tensor a, Tensor? b, int c, Tensor d, float e, int[] f) -> Tensor")
    probes.define("fail(Tensor? none) -> ()")
    plain, other = torch.ones(1), torch.ones(2, requires_grad=True)
    reached: list[bool] = []

    def look(a: Any, b: Any, c: int, d: Any, e: float, f: Any) -> Any:
        reached.append(a is plain and b is None and c == 77 and d is other and e == 0.5 and list(f) == [3])
        return torch.empty(0)

    def nothing(_: Any) -> None:
        reached.append(True)

    probes.impl("look", look, _KEY)
    probes.impl("fail", lambda none: nothing(none) if len(reached) < 2 else _raise(none), _KEY)
    error = ctypes.create_string_buffer(library.ERROR_SIZE)
    key = torch._C.DispatchKeySet(getattr(torch._C.DispatchKey, _KEY)).raw_repr()
    seen = library.TorchProbe()
    if library.library().pl_torch_autograd_connect(
        os.fsencode(path), key, plain._cdata, seen, error, library.ERROR_SIZE
    ):
        return False
    if not all(_register(f"{_PROBES}::{name}", lists=False) for name in ("look", "fail")):
        return False
    with torch.no_grad():
        torch.ops.penlight_probe.look(plain, None, 77, other, 0.5, [3])
        tags = list(seen.tags)
        as_expected = (
            seen.count == 6
            and (seen.payloads[0], seen.payloads[2], seen.payloads[3]) == (plain._cdata, 77, other._cdata)
            and tags[0] == tags[3]
            and tags[0] not in (tags[1], tags[2], tags[4], tags[5])
        )
        torch.ops.penlight_probe.fail(plain)
    if reached != [True, True] or not as_expected:
        return False
    library.library().pl_torch_autograd_probed(tags[0], tags[1])
    return True


def _register(qualified: str, lists: bool) -> bool:
    error = ctypes.create_string_buffer(library.ERROR_SIZE)
    status = library.library().pl_torch_autograd_register(
        qualified.encode(), lists, error, library.ERROR_SIZE
    )
    return int(status) == 0
