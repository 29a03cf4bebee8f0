"""Core ATen: each of its operators has a kernel, or is computed by the runtime or the compiler."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch._ops import OpOverload

from penlight.kernels.out_variants import by_naming_rule, out_variant
from penlight.kernels.prims import PRIMS
from penlight.kernels.table import own_table

# Without a kernel of that name, and what becomes of them.
OTHERWISE = {
    "aten::sym_is_contiguous": "answered when the model is exported",
    "aten::sym_storage_offset": "answered when the model is exported: a program has no views of views",
    "aten::sym_stride.int": "calculated from the sizes when the model is exported",
    "aten::resize_": "aten::resize, which writes a tensor of its own",
}


def core() -> Iterator[OpOverload]:
    for schema in torch._C._jit_get_all_schemas():
        namespace, _, name = schema.name.partition("::")
        packet = getattr(torch.ops.aten, name, None) if namespace == "aten" else None
        op = getattr(packet, schema.overload_name or "default", None) if packet is not None else None
        if isinstance(op, OpOverload) and torch.Tag.core in op.tags:
            yield op


def test_every_core_operator_is_computed() -> None:
    found = {op.name(): op for op in core()}
    assert len(found) == 193  # of torch 2.13
    table, missing = own_table(), []
    for name, op in found.items():
        row = (out_variant(op) or by_naming_rule(op)).op
        if not (table.rows(row, ("portable",)) or name in PRIMS or name in OTHERWISE):
            missing.append(name)
    assert not missing
    assert set(OTHERWISE) <= set(found)
