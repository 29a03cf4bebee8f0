"""Have layers of many rows multiplied by Strassen's algorithm: an eighth of the products less.

    linear_packed(x, packed, ...)   ->   linear_strassen_packed(x, packed, ..., direct, ...)
    conv2d_packed(x, packed, ...)   ->   conv2d_strassen_packed(x, packed, ..., direct, ...), by windows of
                                         one pixel

The weights and their layout stay the same. Where a processor gains nothing by it, or a call has few
rows, the kernel multiplies directly.

The algorithm adds columns of weights to each other, each to the one 32 further on in a block of 64,
and what is rounded in one reaches the other. A column much smaller than its partner would lose the
digits by which it is smaller: `direct` names the blocks that have such a pair. Of the rows of the
input, which nobody knows yet, the kernel makes sure itself. What comes out then has an error of a
few units in the last place of the product of the norms of row and column, about twice that of a
direct product.

Needs:  layers over packed weights, with their epilogues.
Keeps:  outputs up to rounding.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch._ops import OpOverload
from torch.fx import Graph, Node

from penlight.ir.tensors import Derived
from penlight.passes.base import Leave, tensor_of
from penlight.passes.constants import Constants
from penlight.passes.packing import PANEL

# As kernels/optimized/product.cpp and vector/strassen.cpp have them: what is enough to multiply, columns
# of a block, its most k, a multiple of which it has, and limits of sums of squares of columns.
_ROWS, _CHANNELS, _OUTPUTS = 32, 64, 128
_BLOCK = 64
_PART, _STEP = 256, 32
_RATIO, _SMALLEST, _LARGEST = 16.0, 1e-30, 1e36
# With more blocks that are direct, the rest is not worth its overhead.
_MOST_DIRECT = 0.5


def use_strassen(*choices: tuple[OpOverload, OpOverload]) -> Callable[[Graph, Constants, Leave], int]:
    """The pass that puts the second operator of a choice in place of the first: of linear layers, and of
    convolutions.
    """
    known: dict[str, list[bool]] = {}  # of packed weights, which methods share

    def use_strassen(graph: Graph, constants: Constants, leave: Leave) -> int:
        changed = 0
        for direct, strassen in choices:
            for node in graph.find_nodes(op="call_function", target=direct):
                weight: Any = node.args[1]
                layer = _layer(node)
                if not _is_worth_it(layer):
                    continue  # nothing is lost
                reason = _obstacle(layer, constants.like(weight))
                if reason is not None:
                    leave(node, reason)
                    continue
                name = constants.names[weight]
                if name not in known:
                    known[name] = _unlike(constants.derived(weight), layer.depth, layer.outputs)
                if sum(known[name]) > _MOST_DIRECT * len(known[name]):
                    leave(node, "its weights of some outputs are much larger than of others")
                    continue
                node.target = strassen
                node.args = (
                    *node.args[:-3],
                    [i for i, one in enumerate(known[name]) if one],
                    *node.args[-3:],
                )
                changed += 1
        return changed

    return use_strassen


@dataclass(frozen=True)
class _Layer:
    """Every row of `depth` numbers gives one of `outputs`."""

    rows: Sequence[Any]  # sizes whose product is their count
    depth: Any
    outputs: Any
    is_product: bool = True  # and of the numbers of no other row


def _layer(node: Node) -> _Layer:
    x: Any = tensor_of(node.args[0])
    _, _, _, shape, *rest = list[Any](node.args)
    if isinstance(shape, int):
        return _Layer(x.shape[:-1], x.shape[-1], shape)
    outputs, *taps = shape
    stride, padding, _, groups, *_ = rest
    plain = [*taps, *stride] == [1] * 4 and not any(padding) and groups == 1
    return _Layer((x.shape[0], *x.shape[2:]), x.shape[1], outputs, plain)


def _is_worth_it(layer: _Layer) -> bool:
    is_dynamic = not all(isinstance(size, int) for size in layer.rows)
    is_large = layer.outputs >= _OUTPUTS and layer.depth >= _CHANNELS
    return layer.is_product and is_large and (is_dynamic or math.prod(layer.rows) >= _ROWS)


def _obstacle(layer: _Layer, packed: Tensor | None) -> str | None:
    if packed is None:
        return "its weight is not a constant"
    if packed.dtype != torch.float32:
        return "its weights are of 16 bits"
    return "its inputs are an odd number" if layer.depth % 2 else None


def _unlike(packed: Derived, depth: int, outputs: int) -> list[bool]:
    """Of each block, those of all columns for the first part of k first: is a column unlike its partner?"""
    parts = math.ceil(depth / _PART)
    part = math.ceil(math.ceil(depth / parts) / _STEP) * _STEP
    panels = itertools.islice(_panels(packed, depth), outputs // _BLOCK * _BLOCK // PANEL)
    sums = torch.stack([torch.stack([k.square().sum(0) for k in panel.split(part)]) for panel in panels])
    left, right = sums.view(-1, 2, _BLOCK // 2 // PANEL, sums.shape[1], PANEL).unbind(1)
    small, large = torch.minimum(left, right), torch.maximum(left, right)
    alike = (large <= _RATIO * small) & (small > _SMALLEST) & (large < _LARGEST)
    found: list[bool] = alike.all(3).all(1).logical_not().T.flatten().tolist()
    return found


def _panels(packed: Derived, depth: int) -> Iterator[Tensor]:
    """The weights of 16 outputs at a time, `[depth, 16]`."""
    size, rest = (1 + depth) * PANEL, torch.empty(0)
    for piece in packed.pieces():
        flat = torch.cat((rest, piece.flatten())) if len(rest) else piece.flatten()
        whole = len(flat) // size * size
        yield from flat[:whole].view(-1, 1 + depth, PANEL)[:, 1:]
        rest = flat[whole:]
