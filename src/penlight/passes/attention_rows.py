"""Let attention read its heads where projections wrote them, and write them where the next one reads.

    q = view(x, [batch, rows, heads, width]).transpose(1, 2)      and so for keys and values
    y = scaled_dot_product_attention(q, k, v).transpose(1, 2).view([batch, rows, heads * width])

needs no copy: a head is columns of rows, whether queries, keys and values are
products of their own or parts of one. Keys and values that were repeated for
several query heads are read once each.

Needs:  edge dialect; a kernel of penlight::attention_in_rows for the target.
Keeps:  outputs up to rounding.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch._ops import OpOverload
from torch.fx import Graph, Node

from penlight.passes.base import Leave, add_node, add_view, tensor_of
from penlight.passes.layouts import Layout, equal, expressions, layout_of, same_sizes, sizes_of, step_of

aten = torch.ops.aten


def fuse_attention_views(attention: OpOverload, in_rows: OpOverload) -> Callable[[Graph, Leave], int]:
    """The pass that puts `in_rows` in place of `attention`, which has ATen's schema."""

    def fuse_attention_views(graph: Graph, leave: Leave) -> int:
        fused = 0
        for node in graph.find_nodes(op="call_function", target=attention):
            reason = _obstacle(node)
            if reason is None and not _rewrite(graph, node, in_rows):
                reason = "its result is not brought back to rows"
            if reason is None:
                fused += 1
            else:
                leave(node, reason)
        return fused

    return fuse_attention_views


def _obstacle(node: Node) -> str | None:
    args = list[Any](node.args)
    values = [tensor_of(arg) for arg in args[:3]]
    if any(value is None or value.dtype != torch.float32 for value in values):
        return "it is not of float32"
    if any(value is None or value.dim() != 4 for value in values):
        return "its operands have no batch and heads"
    if len(args) > 4 and args[4]:
        return "it drops scores"
    mask = tensor_of(args[3]) if len(args) > 3 else None
    if mask is not None and (mask.dtype not in (torch.float32, torch.bool) or not 1 <= mask.dim() <= 4):
        return "its mask is neither float32 nor bool"
    key = values[1]
    if key is not None and not isinstance(key.shape[-1], int):
        return "the width of its heads is dynamic"
    return None


def _rewrite(graph: Graph, node: Node, in_rows: OpOverload) -> bool:
    missing: tuple[Any, ...] = (None, 0.0, False)
    query, key, value, mask, _, causal = list[Any](node.args) + list(missing[len(node.args) - 3 :])
    result: Any = tensor_of(node)
    found = _rows_after(node)
    if found is None:
        return False
    final, rows_first = found
    heads = tensor_of(query).shape[1]  # type: ignore[union-attr]
    with graph.inserting_before(node):
        operands = [heads_in_place(graph, _unrepeated(graph, part, heads)) for part in (query, key, value)]
        lists = [numbers for _, numbers in operands]
        args = (*(tensor for tensor, _ in operands), mask, *lists, rows_first, bool(causal))
        options = node.kwargs
        named = (options.get("scale"), options.get("safe_softmax", True), options.get("hidden_score"))
        batch, _, rows, width = result.shape
        sizes = (rows, batch, heads * width) if rows_first else (batch, rows, heads * width)
        new = add_node(graph, in_rows, (*args, *named), sizes, node)
    after = _as(graph, new, final)
    final.replace_all_uses_with(after)
    return True


def _rows_after(node: Node) -> tuple[Node, bool] | None:
    """What views of the result come to, and whether rows are before batches there."""
    batch, heads, rows, width = sizes_of(tensor_of(node))  # type: ignore[arg-type]
    if not isinstance(heads, int) or not isinstance(width, int):
        return None
    # Where each head of each row is, if a kernel writes rows with their heads in them.
    orders = {
        False: (rows * heads * width, width, heads * width, 1),
        True: (heads * width, width, batch * heads * width, 1),
    }
    for rows_first, strides in orders.items():
        layout: Layout | None = Layout.of((batch, heads, rows, width), strides)
        at = node
        while layout is not None and len(at.users) == 1:
            (user,) = at.users
            step = step_of(user)
            if step is None or step[0] is not at:
                break
            layout, at = step[1](layout), user
            if layout is not None and layout.is_dense() and equal(layout.offset, 0) and _can_be(at):
                return at, rows_first
    return None


def _can_be(node: Node) -> bool:
    """Can it be made as a view of other sizes, known ones or those it was given?"""
    return node.target is aten.view_copy.default or all(
        isinstance(size, int)
        for size in tensor_of(node).shape  # type: ignore[union-attr]
    )


def _as(graph: Graph, new: Node, final: Node) -> Node:
    """`new` with the sizes of `final`."""
    made, wanted = sizes_of(tensor_of(new)), sizes_of(tensor_of(final))  # type: ignore[arg-type]
    if same_sizes(made, wanted):
        return new
    sizes: Any = final.args[1] if final.target is aten.view_copy.default else list(wanted)
    with graph.inserting_before(final):
        view = graph.call_function(aten.view_copy.default, (new, sizes))
    view.meta = dict(final.meta)
    return view


def _unrepeated(graph: Graph, node: Node, heads: Any) -> Node:
    """Keys or values before each of their heads was repeated for several query heads."""
    view = node
    while view.target is aten.clone.default and isinstance(view.args[0], Node):
        view = view.args[0]
    expand: Any = view.args[0] if view.target is aten.view_copy.default else None
    while isinstance(expand, Node) and expand.target is aten.clone.default:
        expand = expand.args[0]
    if not isinstance(expand, Node) or expand.target is not aten.expand_copy.default:
        return node
    single: Any = expand.args[0]
    value, wide = tensor_of(single), tensor_of(expand)
    if value is None or wide is None or (value.dim(), wide.dim()) != (5, 5):
        return node
    batch, shared, _, rows, width = sizes_of(value)
    result = sizes_of(tensor_of(node))  # type: ignore[arg-type]
    if not isinstance(shared, int) or not isinstance(heads, int) or not shared or heads % shared:
        return node
    if not same_sizes(sizes_of(value), (batch, shared, 1, rows, width)):
        return node
    if not same_sizes(sizes_of(wide), (batch, shared, heads // shared, rows, width)):
        return node
    if not same_sizes(result, (batch, heads, rows, width)):
        return node
    sizes = (*value.shape[:2], *value.shape[3:])
    return add_node(graph, aten.squeeze_copy.dims, (single, [2]), sizes, node)


def heads_in_place(graph: Graph, node: Node) -> tuple[Node, list[int]]:
    """The rows that hold the heads of an operand, and where; the operand itself if none do."""
    found = layout_of(node)
    if found is None or found[0] is node:
        return node, []
    base, layout = found
    if any(stride is None for stride in layout.strides):
        return node, []
    (_, heads, _, width), (*_, head_step, _, step) = layout.sizes, layout.strides
    numbers = heads, width, layout.offset, head_step
    if not all(isinstance(n, int) for n in numbers) or not (equal(step, 1) or width == 1):
        return node, []
    end = layout.offset + (heads - 1) * head_step + width
    batch, _, rows, _ = tensor_of(node).shape  # type: ignore[union-attr]
    for rows_first in (False, True):
        row_pitch = _row_pitch(base, layout, rows_first)
        if row_pitch is None or end > row_pitch:
            continue
        shape = (rows, batch, row_pitch) if rows_first else (batch, rows, row_pitch)
        whole = _in_rows(graph, node, base, shape)
        if whole is not None:
            return whole, [*numbers, int(rows_first)]
    return node, []


def _in_rows(graph: Graph, node: Node, base: Node, shape: tuple[Any, ...]) -> Node | None:
    """`base` with other sizes. Several dynamic ones are those of a view on the way to `node`."""
    wanted = expressions(shape)
    if same_sizes(sizes_of(tensor_of(base)), wanted):  # type: ignore[arg-type]
        return base
    known = [size for size in shape if isinstance(size, int)]
    if len(known) == len(shape) or (len(known) == len(shape) - 1 and 0 not in known):
        return add_view(graph, base, shape)
    sizes: Any = None
    while node is not base:
        value, source = tensor_of(node), step_of(node)
        if node.target is not aten.view_copy.default:
            sizes = None
        elif value is not None and same_sizes(sizes_of(value)[:2], wanted[:2]):
            sizes = [*list[Any](node.args[1])[:2], shape[2]]  # type: ignore[arg-type]
        node = source[0]  # type: ignore[index]
    return add_node(graph, aten.view_copy.default, (base, sizes), shape, base) if sizes else None


def _row_pitch(base: Node, layout: Layout, rows_first: bool) -> int | None:
    """Columns of `base` as [batch, rows, columns], or [rows, batch, columns], if `layout` fits that."""
    batch, _, rows, _ = layout.sizes
    batch_step, _, row_step, _ = layout.strides
    count: Any = 1
    for size in sizes_of(tensor_of(base)):  # type: ignore[arg-type]
        count = count * size
    outer, inner = (rows, batch) if rows_first else (batch, rows)
    outer_step, inner_step = (row_step, batch_step) if rows_first else (batch_step, row_step)
    if not equal(inner, 1):
        columns = inner_step
    elif not equal(outer, 1):
        columns = outer_step
    else:
        columns = count
    fits = equal(outer, 1) or equal(outer_step, inner * columns)
    whole = isinstance(columns, int) and columns > 0 and equal(count, outer * inner * columns)
    return columns if fits and whole else None
