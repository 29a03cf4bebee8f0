"""Have one linear layer compute the queries, keys and values that attention reads.

    attention_in_rows(linear(x, q), linear(x, k), linear(x, v), ...)
        ->   y = linear(x, cat([q, k, v]));  attention_in_rows(y, y, y, ...)

A head is columns of rows, whichever; what a layer does for its input, it does once. Of
cross-attention keys and values become one.

Needs:  edge dialect, penlight::attention_in_rows in place; constant weights that nothing else reads.
Keeps:  outputs up to rounding.
Runs:   after views around attention became its arguments.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch._ops import OpOverload
from torch.fx import Graph, Node

from penlight.ir.tensors import Derived, recipe
from penlight.passes.base import add_node, tensor_of
from penlight.passes.batches_first import HEADS, OPERANDS
from penlight.passes.constants import Constants

aten = torch.ops.aten


def merge_projections(in_rows: OpOverload) -> Callable[[Graph, Constants], int]:
    """The pass over `in_rows`, attention over heads that are columns of rows."""

    def merge_projections(graph: Graph, constants: Constants) -> int:
        if not constants.can_add():
            return 0
        merged = 0
        for node in graph.find_nodes(op="call_function", target=in_rows):
            layers: dict[Any, list[Node]] = {}
            for place, heads in zip(OPERANDS, HEADS, strict=True):
                layer: Any = node.args[place]
                key = _key(layer, node, constants) if node.args[heads] else None
                if key is not None and layer not in layers.setdefault(key, []):
                    layers[key].append(layer)
            for together in layers.values():
                if len(together) > 1:
                    _merge(graph, constants, node, together)
                    merged += len(together)
        return merged

    return merge_projections


def _key(layer: Any, reader: Node, constants: Constants) -> Any:
    """What layers have in common that can be one: their input, and their weights' types. None for others."""
    if layer.target is not aten.linear.default or list(layer.users) != [reader] or layer.kwargs:
        return None
    x, weight, *bias = layer.args
    given = [one for one in (weight, *bias) if one is not None]
    if not all(one in constants.names and constants.is_read_once(one) for one in given):
        return None
    dtypes = {constants.like(one).dtype for one in given}  # type: ignore[union-attr]
    return (x, *dtypes) if len(dtypes) == 1 else None


def _merge(graph: Graph, constants: Constants, attention: Node, layers: Sequence[Node]) -> None:
    weights: Any = [layer.args[1] for layer in layers]
    biases: Any = [layer.args[2] if len(layer.args) > 2 else None for layer in layers]
    outputs = [constants.like(weight).shape[0] for weight in weights]  # type: ignore[union-attr]
    name = constants.names[weights[0]]
    first = layers[0]
    weight = constants.add(f"{name}.merged", _cat([constants.derived(one) for one in weights]))
    args: list[Any] = [first.args[0], weight]
    if any(bias is not None for bias in biases):
        like = constants.like(weights[0])
        parts = [
            Derived.of(torch.zeros(count, dtype=like.dtype)) if one is None else constants.derived(one)  # type: ignore[union-attr]
            for one, count in zip(biases, outputs, strict=True)
        ]
        args.append(constants.add(f"{name}.merged_bias", _cat(parts)))
    sizes = (*tensor_of(first).shape[:-1], sum(outputs))  # type: ignore[union-attr]
    with graph.inserting_before(attention):
        rows = add_node(graph, aten.linear.default, tuple(args), sizes, first)
    starts = {layer: sum(outputs[:place]) for place, layer in enumerate(layers)}
    new = list[Any](attention.args)
    for place, heads in zip(OPERANDS, HEADS, strict=True):
        if new[place] in starts:
            count, width, offset, *rest = new[heads]
            new[place], new[heads] = rows, [count, width, offset + starts[new[place]], *rest]
    attention.args = tuple(new)


def _cat(parts: Sequence[Derived]) -> Derived:
    """Their rows, one after the other."""

    def pieces() -> Iterator[torch.Tensor]:
        for part in parts:
            yield from part.pieces()

    sizes = (sum(part.like.shape[0] for part in parts), *parts[0].like.shape[1:])
    like = torch.empty(sizes, dtype=parts[0].like.dtype, device="meta")
    return Derived(like, pieces, recipe("rows of several", *parts))
