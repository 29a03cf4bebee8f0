"""Sizes that a trace writes as expressions, and that are numbers.

Some are constant as they stand. Others only a view knows: of `x.reshape(-1, 3)` torch computes the last size
as s // (s // 3), which is 3 where the view can be made at all.
"""

from __future__ import annotations

from typing import Any

import sympy
import torch
from torch.fx import GraphModule, Node
from torch.utils import _pytree as pytree

from penlight.ir.sizes import said_by_view, with_numbers

aten = torch.ops.aten

# Where each has the sizes that its result is to have.
_SIZES: dict[Any, int] = {
    aten.view.default: 1,
    aten.reshape.default: 1,
    aten._unsafe_view.default: 1,
    aten.unflatten.int: 2,
}


def settle_sizes(module: GraphModule) -> None:
    """Write them as numbers in the shapes of fake tensors."""
    numbers: dict[sympy.Expr, int] = {}
    for node in module.graph.nodes:
        value = node.meta.get("val")
        if value is not None:
            value = pytree.tree_map(lambda leaf: with_numbers(leaf, numbers), value)
            found = said_by_view(value, *_asked(node))
            if found:
                numbers.update(found)
                value = with_numbers(value, numbers)
            node.meta["val"] = value
    for child in module.children():
        if isinstance(child, GraphModule):
            settle_sizes(child)


def _asked(node: Node) -> tuple[Any, int]:
    """The sizes that a view is asked for, and the dimension of the first."""
    place = _SIZES.get(node.target)
    if place is None or len(node.args) <= place:
        return (), 0
    args: Any = node.args
    first = args[1] if place == 2 else 0
    return args[place], first if first >= 0 else first + args[0].meta["val"].dim()
