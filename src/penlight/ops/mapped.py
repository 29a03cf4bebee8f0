"""torch.func.vmap over an operator: a call for each row, the results side by side.

torch's own register_vmap refuses operators with tensors among their keyword-only
arguments. Here every argument goes through its helper by position.
"""

from __future__ import annotations

from typing import Any

import torch
from torch._functorch.autograd_function import custom_function_call_vmap_helper
from torch._functorch.pyfunctorch import retrieve_current_functorch_interpreter
from torch._library.utils import fill_defaults
from torch._ops import OpOverload
from torch.utils import _pytree as pytree

from penlight.errors import NotSupported


def register_rows(library: torch.library.Library, op: OpOverload, name: str) -> None:
    """Let vmap call `op`, whose name in its namespace is `name`, once for each row."""
    arguments = op._schema.arguments
    keyword_only = [argument.name for argument in arguments if argument.kwarg_only]
    positional = len(arguments) - len(keyword_only)
    returns_written = any(result.alias_info is not None for result in op._schema.returns)

    def call(*given: Any) -> Any:
        return op(*given[:positional], **dict(zip(keyword_only, given[positional:], strict=True)))

    def rows(info: Any, in_dims: Any, *given: Any) -> Any:
        if not info.batch_size:
            raise NotSupported(f"{op._schema.name} cannot be mapped over no rows at all")
        for argument, value, dims in zip(arguments, given, in_dims, strict=True):
            if argument.is_write and value is not None and dims is None:
                raise NotSupported(
                    f"{op._schema.name} changes '{argument.name}', of which vmap has one for all rows",
                    do="map over it, too: in_dims has a number for it",
                )
        results = [
            call(*(_row(arg, dim, row) for arg, dim in zip(given, in_dims, strict=True)))
            for row in range(info.batch_size)
        ]
        if results[0] is None:
            return None, None
        for argument, value, dims in zip(arguments, given, in_dims, strict=True):
            if argument.is_write and returns_written:
                return value, dims  # the same tensor, as of an operator that is not mapped
        stacked = pytree.tree_map(lambda *parts: torch.stack(parts), *results)
        return stacked, pytree.tree_map(lambda _: 0, results[0])

    def run(keyset: Any, *args: Any, **kwargs: Any) -> Any:
        args, kwargs = fill_defaults(op._schema, args, kwargs)
        interpreter = retrieve_current_functorch_interpreter()
        given = [*args, *(kwargs[word] for word in keyword_only)]
        return custom_function_call_vmap_helper(interpreter, rows, call, *given)  # type: ignore[arg-type]

    library.impl(name, run, "FuncTorchBatched", with_keyset=True)


def _row(arg: Any, dims: Any, row: int) -> Any:
    """What one row of a mapped call is called with; `dims` are None, a number, or a list like `arg`."""
    if isinstance(arg, list | tuple):
        listed = dims if isinstance(dims, list | tuple) else [dims] * len(arg)
        return [_row(item, dim, row) for item, dim in zip(arg, listed, strict=True)]
    return arg.select(dims, row) if isinstance(arg, torch.Tensor) and dims is not None else arg
