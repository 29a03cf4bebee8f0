"""Keep rows in their batches around attention.

    x.transpose(0, 1) -> linear -> attention over [rows, batch] -> linear -> transpose(0, 1)

is what torch's own attention does with batches first. A linear layer takes rows in any
order, and attention reads and writes either: both transposes go, and what adds the
result to x finds it in the order of x.

Needs:  edge dialect, penlight::attention_in_rows in place.
Keeps:  outputs.
Runs:   after views around attention became its arguments.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch._ops import OpOverload
from torch.fx import Graph, Node

from penlight.passes.base import add_node, tensor_of
from penlight.passes.layouts import equal, sizes_of
from penlight.passes.merge_views import RESHAPES

aten = torch.ops.aten

# Arguments of attention in rows: query, key and value, their heads, and whether it writes rows first.
OPERANDS, HEADS, _ROWS_FIRST = (0, 1, 2), (4, 5, 6), 7


def keep_batches_first(in_rows: OpOverload) -> Callable[[Graph], int]:
    """The pass over `in_rows`, attention over heads that are columns of rows."""

    def keep_batches_first(graph: Graph) -> int:
        changed = 0
        for node in graph.find_nodes(op="call_function", target=in_rows):
            changed += _read(graph, node) + _write(graph, node)
        return changed

    return keep_batches_first


def _read(graph: Graph, node: Node) -> int:
    changed = 0
    args = list[Any](node.args)
    made: dict[Node, Node] = {}
    for place, heads in zip(OPERANDS, HEADS, strict=True):
        rows = args[place]
        if not args[heads] or not args[heads][4]:
            continue
        found = _layer_of_turned(rows, node)
        if found is None:
            continue
        layer, x = found
        if layer not in made:
            made[layer] = _layer_of(graph, layer, x, rows.meta["val"].shape[:2][::-1])
        args[place], args[heads] = made[layer], [*args[heads][:4], 0]
        changed += 1
    node.args = tuple(args)
    return changed


def _layer_of_turned(rows: Node, reader: Node) -> tuple[Node, Node] | None:
    """The linear layer that gave `rows`, which `reader` alone reads, and what its input is a transpose of."""
    layer, last = rows, reader
    while layer.target in RESHAPES:
        if list(layer.users) != [last]:
            return None
        layer, last = layer.args[0], layer  # type: ignore[assignment]
    if layer.target is not aten.linear.default or list(layer.users) != [last]:
        return None
    before: Any = layer.args[0]
    while before.target in RESHAPES and not _is_transpose(before):
        before = before.args[0]
    if not _is_transpose(before):
        return None
    # The same rows in the same order, whatever views are between: only the last dimension is the layer's.
    count = sizes_of(tensor_of(before))[:2]  # type: ignore[arg-type]
    wanted = sizes_of(tensor_of(rows))[:2]  # type: ignore[arg-type]
    width = sizes_of(tensor_of(before))[2], sizes_of(tensor_of(layer.args[0]))[-1]  # type: ignore[arg-type]
    same = all(map(equal, count, wanted)) and equal(*width)
    columns = sizes_of(tensor_of(rows))[2], sizes_of(tensor_of(layer))[-1]  # type: ignore[arg-type]
    return (layer, before.args[0]) if same and equal(*columns) else None


def _is_transpose(node: Node) -> bool:
    """[rows, batch, columns] of [batch, rows, columns], or the other way"""
    value = tensor_of(node)
    if node.target is not aten.permute_copy.default or value is None or value.dim() != 3:
        return False
    return [dim % 3 for dim in node.args[1]] == [1, 0, 2]  # type: ignore[union-attr,operator]


def _layer_of(graph: Graph, layer: Node, x: Node, rows: Any) -> Node:
    """`layer` of x, as [*rows, outputs]."""
    value: Any = tensor_of(layer)
    with graph.inserting_before(layer):
        return add_node(graph, aten.linear.default, (x, *layer.args[1:]), (*rows, value.shape[-1]), layer)


def _write(graph: Graph, node: Node) -> int:
    if not node.args[_ROWS_FIRST]:
        return 0
    layer = _only_reader(node)
    if layer is None or layer.target is not aten.linear.default:
        return 0
    final = _only_reader(layer)
    value, result = tensor_of(node), tensor_of(layer)
    if final is None or value is None or result is None or not _is_transpose(final):
        return 0
    width = sizes_of(tensor_of(layer.args[0]))[-1]  # type: ignore[arg-type]
    turned = sizes_of(tensor_of(final))  # type: ignore[arg-type]
    rows, batch, columns = sizes_of(value)
    if not equal(width, columns) or not all(map(equal, turned, (batch, rows, sizes_of(result)[-1]))):
        return 0
    args = list[Any](node.args)
    args[_ROWS_FIRST] = False
    node.args = tuple(args)
    with value.fake_mode:  # type: ignore[attr-defined]
        made = torch.empty((value.shape[1], value.shape[0], value.shape[2]), dtype=value.dtype)
    node.meta = {**node.meta, "val": made}
    new = _layer_of(graph, layer, node, made.shape[:2])
    final.replace_all_uses_with(new)
    return 1


def _only_reader(node: Node) -> Node | None:
    """What alone reads `node`, or views of it that keep its elements in order."""
    while len(node.users) == 1:
        (node,) = node.users
        if node.target not in RESHAPES:
            return node
    return None
