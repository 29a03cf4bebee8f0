"""Resolve layouts: every tensor of a program is contiguous, or channels-last where a node says so.

Programs store a dim order, not strides. Views become copies (`*_copy`, which the
memory plan later turns into aliases), so no result has strides of its own;
`memory_format` arguments are dropped, except on the one node that brings an
input given as channels-last into the contiguous order.

Needs:  functional operators only.
Keeps:  shapes, dtypes, values; not the strides of eager results.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from typing import Any

import sympy
import torch
from torch._ops import OpOverload
from torch._subclasses.fake_tensor import FakeTensor
from torch.fx import Graph, Node
from torch.utils import _pytree as pytree
from torch.utils._sympy.functions import Max

from penlight.ir.sizes import expression

aten = torch.ops.aten

_DROPPED = ("device", "layout", "pin_memory", "memory_format", "non_blocking")


def resolve_layouts(graph: Graph) -> int:
    """Turn views into copies and set every value's layout; return how many nodes changed."""
    changed = 0
    for node in list(graph.nodes):  # the copies of inputs keep what they are told
        if node.op == "call_function" and isinstance(node.target, OpOverload):
            copy = copy_of_view(node.target)
            if copy is not None:
                node.target = copy
                changed += 1
            if node.target.namespace not in ("aten", "prims"):
                node.meta["val"] = pytree.tree_map(contiguous, node.meta["val"])
                continue  # an operator of the user means what it is given
            dropped = [name for name in _DROPPED if name in node.kwargs]
            if dropped:
                node.kwargs = {name: value for name, value in node.kwargs.items() if name not in dropped}
                changed += 1
            changed += _drop_memory_format(node)
        if node.op == "placeholder":
            changed += _enter(graph, node)
        elif "val" in node.meta:
            node.meta["val"] = pytree.tree_map(contiguous, node.meta["val"])
    return changed


def copy_of_view(op: OpOverload) -> OpOverload | None:
    """aten.view_copy.default for aten.view.default."""
    if not op.is_view:
        return None
    name = op._schema.name.split("::")[1]
    packet = getattr(getattr(torch.ops, op.namespace), f"{name}_copy", None)
    return getattr(packet, op._overloadname, None)


def _drop_memory_format(node: Node) -> int:
    names = [argument.name for argument in node.target._schema.arguments]  # type: ignore[union-attr]
    if "memory_format" not in names or len(node.args) <= names.index("memory_format"):
        return 0
    node.args = node.args[: names.index("memory_format")]
    return 1


def _enter(graph: Graph, node: Node) -> int:
    """A user input that is not contiguous keeps its layout; what follows reads a contiguous copy."""
    value = node.meta.get("val")
    if not isinstance(value, torch.Tensor) or is_contiguous(value):
        return 0
    if not is_channels_last(value):
        node.meta["val"] = contiguous(value)
        return 1
    with graph.inserting_after(_last_placeholder(graph)):
        copy = graph.call_function(aten.clone.default, (node,), {"memory_format": torch.contiguous_format})
    node.replace_all_uses_with(copy, delete_user_cb=lambda user: user is not copy)
    copy.meta = {**node.meta, "val": contiguous(value)}
    return 1


def _last_placeholder(graph: Graph) -> Node:
    nodes: list[Node] = [node for node in graph.nodes if node.op == "placeholder"]
    return nodes[-1]


def contiguous(value: Any) -> Any:
    """A fake tensor like `value` with contiguous strides; other values as they are."""
    if not isinstance(value, torch.Tensor) or is_contiguous(value):
        return value
    mode = value.fake_mode if isinstance(value, FakeTensor) else nullcontext()
    with mode:
        return torch.empty(value.shape, dtype=value.dtype)


def dense(sizes: Sequence[Any], dtype: torch.dtype, order: torch.memory_format) -> torch.Tensor:
    """A tensor whose strides say the order, in whatever mode is active.

    torch leaves those of symbolic sizes as they are where the example has none but sizes of 1.
    """
    if order is not torch.channels_last or all(isinstance(size, int) for size in sizes):
        return torch.empty(sizes, dtype=dtype).contiguous(memory_format=order)
    return torch.empty_strided(sizes, _strides_of_image(sizes), dtype=dtype)


def is_contiguous(value: torch.Tensor) -> bool:
    """Without adding a guard on symbolic sizes."""
    if not any(isinstance(size, torch.SymInt) for size in (*value.shape, *value.stride())):
        return value.is_contiguous()
    expected: Any = 1
    for size, stride in zip(reversed(value.shape), reversed(value.stride()), strict=True):
        if isinstance(size, int) and size == 1:
            continue
        if not _is_stride(stride, expected):
            return False
        expected = expected * size
    return True


def is_channels_last(value: torch.Tensor) -> bool:
    """Of images; without adding a guard on symbolic sizes."""
    if value.dim() != 4:
        return False
    pairs = zip(value.shape, value.stride(), _strides_of_image(value.shape), strict=True)
    return all(_is_stride(a, b) for size, a, b in pairs if not (isinstance(size, int) and size == 1))


def _strides_of_image(sizes: Sequence[Any]) -> tuple[Any, ...]:
    _, c, h, w = sizes
    return c * h * w, 1, c * w, c


def _is_stride(stride: Any, product: Any) -> bool:
    """Is it that product of sizes? torch takes those that may be 0 for at least 1."""
    found, wanted = expression(stride), expression(product)
    if found == wanted or isinstance(found, int):
        return bool(found == wanted)
    least = {most: Max(*(a for a in most.args if a != 1)) for most in found.atoms(Max) if 1 in most.args}
    return bool(sympy.expand(found.xreplace(least) - wanted) == 0)
