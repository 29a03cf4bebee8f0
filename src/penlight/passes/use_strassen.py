"""Let linear layers of many rows be multiplied by Strassen's algorithm, an eighth of the products less.

    linear_packed(x, packed, ...)   ->   linear_strassen(x, packed, ...)

The weights and their layout stay the same. Where a processor gains nothing by it, or a call has few
rows, the kernel multiplies directly.

The algorithm adds columns of weights to each other, each to the one 32 further on in a block of 64,
and what is rounded in one reaches the other. A column much smaller than its partner would lose the
digits by which it is smaller, so a layer that has such a pair is left as it is. Of the rows of the
input, which nobody knows yet, the kernel makes sure itself. What comes out then has an error of a
few units in the last place of the product of the norms of row and column, one to two times as large
as that of a direct product.

Needs:  linear layers over packed weights, with their epilogues.
Keeps:  outputs up to rounding.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor
from torch._ops import OpOverload
from torch.fx import Graph, Node

from penlight.ir.tensors import Derived
from penlight.passes.base import Leave, tensor_of
from penlight.passes.constants import Constants
from penlight.passes.packing import PANEL

# As kernels/optimized/product.cpp and vector/strassen.cpp have them: what is enough to multiply, steps
# and parts of k, columns of a block, and how much larger than its partner a column may be.
_ROWS, _CHANNELS, _OUTPUTS = 64, 64, 128
_STEP, _PART = 32, 384
_BLOCK = 64
_RATIO, _LARGEST = 16.0, 1e18


def use_strassen(linear: OpOverload, strassen: OpOverload) -> Callable[[Graph, Constants, Leave], int]:
    """The pass that puts `strassen` in place of `linear`."""
    alike: dict[str, bool] = {}  # packed weights; methods share them

    def use_strassen(graph: Graph, constants: Constants, leave: Leave) -> int:
        changed = 0
        for node in graph.find_nodes(op="call_function", target=linear):
            weight: Any = node.args[1]
            reason = _obstacle(node, constants.like(weight))
            if reason is None:
                name = constants.names[weight]
                if name not in alike:
                    alike[name] = _are_alike(constants.derived(weight), _depth(node), node.args[3])
                if alike[name]:
                    node.target = strassen
                    changed += 1
                    continue
                reason = (
                    f"of some outputs, the weights are more than {_RATIO:.0f} times as large as of others"
                )
            leave(node, reason)
        return changed

    return use_strassen


def _depth(node: Node) -> int:
    x: Any = tensor_of(node.args[0])
    return int(x.shape[-1])


def _obstacle(node: Node, packed: Tensor | None) -> str | None:
    if packed is None:
        return "its weight is not a constant"
    if packed.dtype != torch.float32:
        return "its weights are of 16 bits"
    x: Any = tensor_of(node.args[0])
    *sizes, depth = x.shape
    if all(isinstance(size, int) for size in sizes) and math.prod(sizes) < _ROWS:
        return f"it has less than {_ROWS} rows"
    outputs: Any = node.args[3]
    if outputs < _OUTPUTS or depth < _CHANNELS:
        return f"it has less than {_CHANNELS} inputs, or than {_OUTPUTS} outputs"
    return None if depth % _STEP == 0 else f"its inputs are not a multiple of {_STEP}"


def _are_alike(packed: Derived, depth: int, outputs: Any) -> bool:
    """Is every column of about the size of its partner, in every part of k?"""
    for block in itertools.islice(_blocks(packed, depth), outputs // _BLOCK):
        for part in block.abs().split(_part(depth), dim=1):
            left, right = part.sum(1, dtype=torch.float64).view(2, _BLOCK // 2)
            small, large = torch.minimum(left, right), torch.maximum(left, right)
            if not bool(((large <= _RATIO * small) & (large < _LARGEST)).all()):
                return False
    return True


def _part(depth: int) -> int:
    """As step_of() of the kernel."""
    parts = math.ceil(depth / _PART)
    return math.ceil(math.ceil(depth / parts) / _STEP) * _STEP


def _blocks(packed: Derived, depth: int) -> Iterator[Tensor]:
    """The weights of each block of columns that has all its panels: `[panels, depth, 16]`."""
    shape = _BLOCK // PANEL, 1 + depth, PANEL
    size, rest = math.prod(shape), torch.empty(0)
    for piece in packed.pieces():
        rest = torch.cat((rest, piece.flatten()))
        while len(rest) >= size:
            yield rest[:size].view(shape)[:, 1:]
            rest = rest[size:]
