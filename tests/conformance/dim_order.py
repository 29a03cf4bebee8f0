"""The operators by which files of other exporters change a tensor's memory order.

torch does not define them, so they are defined here, for the tests: a dim order
lists dimensions outermost first.
"""

from __future__ import annotations

import torch

_OPTIONS = "ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None"
_REST = "bool non_blocking=False, int[]? dim_order=None"

_library = torch.library.Library("dim_order_ops", "FRAGMENT")


def _ordered(tensor: torch.Tensor, dim_order: list[int] | None) -> torch.Tensor:
    if dim_order is None:
        return tensor.clone()
    back = [dim_order.index(d) for d in range(len(dim_order))]
    return tensor.permute(dim_order).contiguous().permute(back)


def _to_dim_order_copy(
    self: torch.Tensor,
    *,
    dtype: torch.dtype | None = None,
    layout: object = None,
    device: object = None,
    pin_memory: object = None,
    non_blocking: bool = False,
    dim_order: list[int] | None = None,
) -> torch.Tensor:
    return _ordered(self.to(dtype) if dtype else self, dim_order)


def _clone_dim_order(
    self: torch.Tensor, *, non_blocking: bool = False, dim_order: list[int] | None = None
) -> torch.Tensor:
    return _ordered(self, dim_order)


if not hasattr(torch.ops.dim_order_ops, "_to_dim_order_copy"):
    for name, options, function in (
        ("_to_dim_order_copy", f"{_OPTIONS}, {_REST}", _to_dim_order_copy),
        ("_clone_dim_order", _REST, _clone_dim_order),
    ):
        _library.define(f"{name}(Tensor self, *, {options}) -> Tensor")
        _library.define(f"{name}.out(Tensor self, *, {_REST}, Tensor(a!) out) -> Tensor(a!)")
        _library.impl(name, function, "CompositeExplicitAutograd")
