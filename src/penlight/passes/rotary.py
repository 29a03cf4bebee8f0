"""Find rotary position embeddings written out, and make them one operator.

    x * cosine + cat([-x[..., half:], x[..., :half]], -1) * sine

as models of the Llama family have it. Heads are read where a projection wrote
them, and written in rows again, where attention reads them.

Needs:  edge dialect, float32; a kernel of penlight::rotary for the target.
Keeps:  outputs up to rounding.
Runs:   before the views around attention are looked at.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch._ops import OpOverload
from torch.fx import Graph, Node

from penlight.passes.attention_rows import heads_in_place
from penlight.passes.base import Leave, add_node, tensor_of
from penlight.passes.layouts import Layout, equal, expressions, same_sizes, sizes_of, step_of

aten = torch.ops.aten


def fuse_rotary(rotary: OpOverload) -> Callable[[Graph, Leave], int]:
    """The pass that puts `rotary` in place of its parts."""

    def fuse_rotary(graph: Graph, leave: Leave) -> int:
        fused = 0
        for node in graph.find_nodes(op="call_function", target=aten.add.Tensor):
            parts = _match(node)
            if parts is None:
                continue
            reason = _obstacle(node, *parts)
            if reason is None:
                _replace(graph, node, parts, rotary)
                fused += 1
            else:
                leave(node, reason)
        return fused

    return fuse_rotary


def _match(node: Node) -> tuple[Node, Node, Node] | None:
    """x, cosine and sine of `node`, a sum."""
    if node.kwargs or not all(_is(arg, aten.mul.Tensor) for arg in node.args):
        return None
    for plain, turned in (node.args, reversed(node.args)):
        for half, sine in _both(turned):
            for x, cosine in _both(plain):
                if _is_turned(half, x):
                    return x, cosine, sine
    return None


def _is(node: Any, target: OpOverload) -> bool:
    return isinstance(node, Node) and node.target is target


def _both(product: Any) -> list[tuple[Node, Node]]:
    a, b = product.args
    return [(a, b), (b, a)] if isinstance(a, Node) and isinstance(b, Node) else []


def _is_turned(node: Node, x: Node) -> bool:
    """cat([-second half of x, first half], -1)"""
    value = tensor_of(x)
    if node.target is not aten.cat.default or value is None or value.dim() < 1 or node.kwargs:
        return False
    parts: Any = node.args[0]
    dim = node.args[1] if len(node.args) > 1 else 0
    if len(parts) != 2 or dim not in (-1, value.dim() - 1) or not _is(parts[0], aten.neg.default):
        return False
    width = sizes_of(value)[-1]
    if not isinstance(width, int) or width % 2:
        return False
    second: Any = parts[0].args[0]
    return _is_part(second, x, width // 2) and _is_part(parts[1], x, 0)


def _is_part(node: Node, x: Node, start: int) -> bool:
    """Is it half of x in its last dimension, from `start` on?"""
    step = step_of(node)
    if step is None or step[0] is not x:
        return False
    whole = Layout.dense(sizes_of(tensor_of(x)))  # type: ignore[arg-type]
    part = step[1](whole)
    wanted = whole.part(len(whole.dims) - 1, start, whole.sizes[-1] // 2)
    return part is not None and wanted is not None and part == wanted


def _obstacle(node: Node, x: Node, cosine: Node, sine: Node) -> str | None:
    value, result = tensor_of(x), tensor_of(node)
    assert value is not None and result is not None
    if value.dim() != 4 or not same_sizes(sizes_of(value), sizes_of(result)):
        return "what is turned has no batch and heads"
    batch, _, rows, width = sizes_of(value)
    for angles in (tensor_of(cosine), tensor_of(sine)):
        if angles is None or {angles.dtype, value.dtype} != {torch.float32}:
            return "it is not of float32"
        sizes = (1,) * (4 - angles.dim()) + sizes_of(angles)
        wanted = (batch, 1, rows, width)
        fits = [equal(size, 1) or equal(size, want) for size, want in zip(sizes, wanted, strict=True)]
        if not all(fits) or not equal(sizes[-1], width):
            return "its angles are not of rows"
    return None


def _replace(graph: Graph, node: Node, parts: tuple[Node, Node, Node], rotary: OpOverload) -> None:
    x, cosine, sine = parts
    value: Any = tensor_of(x)
    with graph.inserting_before(node):
        source, numbers = heads_in_place(graph, x)
        rows_first = bool(numbers and numbers[4])
        inner = (2, 0, 1, 3) if rows_first else (0, 2, 1, 3)
        sizes = _view_of(x, [value.shape[dim] for dim in inner]) if numbers else None
        if sizes is None:
            new = graph.call_function(rotary, (x, cosine, sine, []))
            new.meta = dict(node.meta)
        else:
            made = (*tensor_of(source).shape[:2], numbers[0] * numbers[1])  # type: ignore[union-attr]
            new = add_node(graph, rotary, (source, cosine, sine, numbers), made, node)
            shape = [value.shape[dim] for dim in inner]
            view = add_node(graph, aten.view_copy.default, (new, sizes), shape, node)
            back = [1, 2, 0, 3] if rows_first else [0, 2, 1, 3]
            new = graph.call_function(aten.permute_copy.default, (view, back))
            new.meta = dict(node.meta)
    node.replace_all_uses_with(new)


def _view_of(x: Node, shape: Sequence[Any]) -> list[Any] | None:
    """`shape` as an argument: numbers, or what a view of that shape before x was given."""
    if all(isinstance(size, int) for size in shape):
        return list(shape)
    wanted = list(expressions(shape))
    step = step_of(x)
    while step is not None:
        x = step[0]
        value = tensor_of(x)
        if x.target is aten.view_copy.default and value is not None and same_sizes(sizes_of(value), wanted):
            return list(x.args[1])  # type: ignore[arg-type]
        step = step_of(x)
    return None
