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
import struct
from collections.abc import Callable
from typing import Any

import torch

from penlight.errors import InvalidInput, PenlightError
from penlight.ops import fronts
from penlight.ops.calls import NUMBERS, Kernel, disagreement, wrong_count
from penlight.ops.rule_program import rule_program
from penlight.runtime import dtypes, library, torch_bridge

_KEY = "PrivateUse3"
_PROBES = "penlight_probe"
_TEXT = "a text that tells where texts are"
_kernels: dict[str, Kernel] = {}  # by name
_with_gradients: set[str] = set()
_kept: list[torch.library.Library] = []


def register_kernel(kernel: Kernel, torch_library: torch.library.Library, *, out_form: bool = False) -> bool:
    """Let torch call the kernel on the CPU. False when only Python can."""
    possible = is_possible()  # before a call can fail
    signature = kernel.signature
    if kernel.checks:  # every call is compared with what the kernel says before
        return False
    if signature.out_list and kernel.rule is None and not kernel.asks_fake:
        return False  # nothing says how many
    program = rule_program(kernel.rule, kernel.letters) if kernel.rule is not None else []
    if program is None:
        return False
    name = signature.kernel_name if out_form else signature.qualified
    fronted = fronts.is_needed(kernel, name)
    if fronted and not possible:
        return False
    behind = fronts.define_behind(torch_library, signature, out_form=out_form) if fronted else name
    _kernels[kernel.name] = kernel
    registered = torch_bridge.register_torch_operator(
        kernel.name,
        behind,
        results=len(signature.outs),
        dtypes=kernel.result_dtypes(),
        rule=program,
        raises=True,
        given=out_form,
        allowed=[NUMBERS[getattr(torch, name)] for name in kernel.allowed or ()],
        prepared=fronted,
        faked=kernel.asks_fake,
        changed_lists=sum(
            1 << i for i, a in enumerate(signature.arguments) if a.written and a.type == "Tensor[]"
        ),
    )
    if registered and fronted:
        return fronts.connect(torch_library, kernel, name, behind, out_form=out_form)
    return registered


def register_gradients(torch_library: torch.library.Library, qualified: str, run: Callable[..., Any]) -> None:
    """Let `run(keyset, *args)` be called when a gradient is asked for, or always where that is not possible.

    Args:
        torch_library: that has the operator.
        qualified: its name, "myop::scale.overload".
    """
    name = qualified.partition("::")[2]
    if is_possible() and (qualified in _with_gradients or _register_gradients(qualified)):
        _with_gradients.add(qualified)
        torch_library.impl(name, _turned_on(run), _KEY)
    else:
        torch_library.impl(name, run, "Autograd", with_keyset=True)


def _turned_on(run: Callable[..., Any]) -> Callable[..., Any]:
    keys_of_call = library.library().pl_torch_autograd_keys

    def call(*args: Any, **kwargs: Any) -> Any:
        enabled = ctypes.c_int32()
        keys = torch._C.DispatchKeySet.from_raw_repr(keys_of_call(enabled))
        torch.set_grad_enabled(bool(enabled.value))  # C++ turned it off for the moment
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
        count, results = len(kernel.signature.outs), given[len(arguments) :]
        if error := _misfit(kernel, arguments, results[:count], results[count:]):
            raise error
    raise library.failure(failure.status, f"{kernel.name}: {text}", kernel.source)


def _misfit(
    kernel: Kernel, arguments: dict[str, Any], made: list[Any], wanted: list[Any]
) -> PenlightError | None:
    """What is wrong with arguments, or results, that are not as the rule or the fake function says."""
    case = kernel.inputs_text(arguments)
    if not wanted and kernel.rule is not None:
        try:
            kernel.rule.apply(arguments)
        except PenlightError as error:
            return error
        return InvalidInput(f"the sizes of a call of {kernel.name} do not fit its shape rule", got=case)
    for out, want, have in zip(kernel.signature.outs, wanted, made, strict=False):
        if isinstance(want, list):
            if len(have) != len(want):
                return wrong_count(kernel, out.name, len(want), len(have))
            for k, (one, item) in enumerate(zip(want, have, strict=True)):
                if one is not None and one.shape != item.shape:
                    return disagreement(kernel, f"{out.name}[{k}]", case, one.shape, item.shape)
        elif want is not None and want.shape != have.shape:
            return disagreement(kernel, out.name, case, want.shape, have.shape)
    return None


class _Sized:
    """A tensor of which sizes and dtype are known."""

    def __init__(self, shape: tuple[int, ...], dtype: str) -> None:
        self.shape, self.dtype = shape, dtype


def _argument(word: str) -> Any:
    """One of pl_torch_failure's arguments: t6:2,3  n  i4  b1  f0x1p-1  z6162  j1,2  lt6:2,3;n."""
    kind, rest = word[0], word[1:]
    if kind == "l":
        return [_argument(item) for item in rest.split(";") if item]
    if kind == "t":
        number, _, sizes = rest.partition(":")
        return _Sized(_numbers(sizes), dtypes.NAMES[int(number)])
    if kind == "j":
        return list(_numbers(rest))
    if kind == "f":
        return float.fromhex(rest)
    if kind == "z":
        return bytes.fromhex(rest).decode(errors="replace")
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
    probes.define("look(Tensor a, Tensor? b, int c, Tensor d, float e, bool f, Tensor?[] g, str h) -> Tensor")
    probes.define("fail(Tensor? none) -> ()")
    plain, other = torch.ones(1), torch.ones(2, requires_grad=True)
    reached: list[bool] = []

    given = (plain, None, 77, other, 0.5, True, [plain, None, other], _TEXT)

    def look(*arguments: Any) -> Any:
        same = [have is want or have == want for have, want in zip(arguments[:6], given, strict=False)]
        listed = [have is want for have, want in zip(arguments[6], [plain, None, other], strict=True)]
        reached.append(all(same) and all(listed) and arguments[7] == _TEXT)
        return torch.empty(0)

    def nothing(_: Any) -> None:
        reached.append(True)

    probes.impl("look", look, _KEY)
    probes.impl("fail", lambda none: nothing(none) if len(reached) < 2 else _raise(none), _KEY)
    error = ctypes.create_string_buffer(library.ERROR_SIZE)
    keys = [
        torch._C.DispatchKeySet(getattr(torch._C.DispatchKey, key)).raw_repr()
        for key in (_KEY, fronts.PYTHON_KEY)
    ]
    seen = library.TorchProbe()
    if library.library().pl_torch_dispatch_connect(
        os.fsencode(path), (ctypes.c_uint64 * 2)(*keys), plain._cdata, seen, error, library.ERROR_SIZE
    ):
        return False
    for name in ("look", "fail"):
        if library.library().pl_torch_dispatch_probe(f"{_PROBES}::{name}".encode(), error, len(error)):
            return False
    with torch.no_grad():
        torch.ops.penlight_probe.look(*given)
        tags, payloads = list(seen.tags), list(seen.payloads)
        as_expected = (
            seen.count == len(given)
            and payloads[0] == plain._cdata
            and payloads[2:5] == [77, other._cdata, struct.unpack("<Q", struct.pack("<d", 0.5))[0]]
            and payloads[5] & 0xFF == 1
            and tags[0] == tags[3]
            and len({*tags[:3], *tags[4:]}) == 7
            and seen.list_at
            and seen.text_at
        )
        torch.ops.penlight_probe.fail(plain)
    if reached != [True, True] or not as_expected:
        return False
    if list(fronts.handle_of(f"{_PROBES}::fail")) != list(seen.op):
        return False
    library.library().pl_torch_dispatch_probed()
    return True


def _register_gradients(qualified: str) -> bool:
    error = ctypes.create_string_buffer(library.ERROR_SIZE)
    status = library.library().pl_torch_autograd_register(qualified.encode(), error, library.ERROR_SIZE)
    return int(status) == 0
