"""Core ATen: which operators stay whole, and what splits the others.

An operator is legal if torch tags it as core, or if a kernel of the chosen
libraries computes it whole; the table of kernels decides, not a second list.
The target `portable` may use only what ExecuTorch's CPU kernels have as well,
so there the list is data.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache, lru_cache
from typing import Any

import torch
from torch._decomp import core_aten_decompositions, decomposition_table
from torch._ops import OpOverload

from penlight.dialects.penlight_ops import twins
from penlight.ops.out_variants import by_naming_rule, out_variant
from penlight.ops.table import OpTable

aten = torch.ops.aten

# Not core, but ExecuTorch's CPU kernels have them: kept whole for target "portable".
PORTABLE_WHOLE = frozenset(
    {
        "aten::linear.out",
        "aten::glu.out",
        "aten::hardtanh.out",
        "aten::leaky_relu.out",
        "aten::native_group_norm.out",
        "aten::pixel_shuffle.out",
        "aten::pixel_unshuffle.out",
        "aten::upsample_bilinear2d.vec_out",
        "aten::upsample_nearest2d.vec_out",
        "aten::stack.out",
        "aten::unbind_copy.int_out",
    }
)

# Tagged core, yet better split for every target: their parts are views or numbers.
_SPLIT_ANYWAY = frozenset({aten.squeeze.default})

# Composites that would be kept for having a kernel row of the same name, but whose meaning is a view or
# a copy that later passes want to see.
_NEVER_WHOLE = frozenset(
    {"aten::reshape", "aten::contiguous", "aten::to", "aten::flatten", "aten::narrow", "aten::dropout"}
)


def _batch_norm(x, weight, bias, mean, var, training, momentum, eps, cudnn=False):  # type: ignore[no-untyped-def]
    """For inference; torch's own makes the form that also returns training statistics."""
    if training:
        if mean is None:
            return aten._native_batch_norm_legit.no_stats(x, weight, bias, True, momentum, eps)[0]
        return NotImplemented
    return aten._native_batch_norm_legit_no_training.default(x, weight, bias, mean, var, momentum, eps)[0]


# In place of torch's decompositions, which hide what a kernel or a pass wants.
_OWN_DECOMPOSITIONS: dict[OpOverload, Callable[..., Any]] = {
    aten.batch_norm.default: _batch_norm,
    aten._unsafe_view.default: aten.view.default,
}


def legal_for(target: str, table: OpTable, libraries: tuple[str, ...]) -> Callable[[OpOverload], bool]:
    """Does an operator stay as it is for `target`?"""
    splits = decompositions(target, table, libraries)

    @cache
    def legal(op: OpOverload) -> bool:
        if op.namespace not in ("aten", "prims"):
            return not _is_composite(op)  # the user's own operators, and Penlight's
        name = (out_variant(op) or by_naming_rule(op)).op
        if name.split(".")[0] in _NEVER_WHOLE or op in _SPLIT_ANYWAY:
            return False
        if torch.Tag.core in op.tags:
            # A core operator without a kernel is split if it can be.
            return op not in splits or has_kernel(name) or op.is_view
        return has_kernel(name)

    def has_kernel(name: str) -> bool:
        return name in PORTABLE_WHOLE if target == "portable" else bool(table.rows(name, libraries))

    return legal


def decompositions(
    target: str, table: OpTable, libraries: tuple[str, ...]
) -> Mapping[OpOverload, Callable[..., Any]]:
    """How each operator is split.

    Composites that a kernel of Penlight's computes whole become that operator,
    and behind torch's core table stands the rest of its decompositions, for what
    is not core.
    """
    splits = dict(_torch_decompositions())
    splits.update(_OWN_DECOMPOSITIONS)
    if target != "portable":
        splits.update(twins(table, libraries))
    return splits


@lru_cache(maxsize=1)
def _torch_decompositions() -> dict[OpOverload, Callable[..., Any]]:
    splits: dict[OpOverload, Callable[..., Any]] = {
        op: split
        for op, split in decomposition_table.items()
        if isinstance(op, OpOverload) and torch.Tag.core not in op.tags and op.namespace == "aten"
    }
    splits.update(core_aten_decompositions())
    return splits


def _is_composite(op: OpOverload) -> bool:
    return torch._C._dispatch_has_kernel_for_dispatch_key(op.name(), "CompositeImplicitAutograd")
