"""The out variant of a functional operator, by schema.

`aten.add.Tensor` is computed by `aten::add.out`: the overload of the same
operator whose arguments are the same and that writes its results to `out`
arguments. Views have none; their `_copy` twins do.
"""

from __future__ import annotations

from functools import lru_cache

import torch
from torch._C import Argument
from torch._ops import OpOverload


@lru_cache(maxsize=None)
def out_variant(op: OpOverload) -> OpOverload | None:
    """The overload that writes to out arguments, or None."""
    want = [_key(argument) for argument in op._schema.arguments]
    results = len(op._schema.returns)
    for packet in _packets(op):
        for name in packet.overloads():
            candidate = getattr(packet, name)
            outs = [a for a in candidate._schema.arguments if _is_out(a)]
            if len(outs) == results and outs and [
                _key(a) for a in candidate._schema.arguments if not _is_out(a)
            ] == want:
                return candidate  # type: ignore[no-any-return]
    # Creation operators (full, arange, zeros, ...) take dtype and layout that the out tensor has already.
    options = {"dtype", "layout", "device", "pin_memory"}
    short = [key for key in want if key[0] not in options]
    if len(short) == len(want):
        return None
    for packet in _packets(op):
        for name in packet.overloads():
            candidate = getattr(packet, name)
            arguments = candidate._schema.arguments
            if any(_is_out(a) for a in arguments) and [_key(a) for a in arguments if not _is_out(a)] == short:
                return candidate  # type: ignore[no-any-return]
    return None


def out_name(op: OpOverload) -> str | None:
    """`aten::add.out`, as programs and kernels/ops.yaml name it."""
    found = out_variant(op)
    return None if found is None else qualified_name(found)


def qualified_name(op: OpOverload) -> str:
    """`aten::add.Tensor`; the overload "default" is left out as in schemas."""
    overload = op._schema.overload_name
    return f"{op._schema.name}.{overload}" if overload else op._schema.name


def _packets(op: OpOverload) -> list[torch._ops.OpOverloadPacket]:
    return [op.overloadpacket]


def _key(argument: Argument) -> tuple[str, str]:
    return argument.name, str(argument.type)


def _is_out(argument: Argument) -> bool:
    return argument.alias_info is not None and argument.alias_info.is_write and argument.kwarg_only
