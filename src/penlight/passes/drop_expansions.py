"""Let elementwise operators broadcast what was expanded for them.

    x / expand(norm, [8, 384])   ->   x / norm        with norm of [8, 1]

They read a stretched operand where it lies; the expansion would write it out.

Needs:  edge dialect; what is left of the operands still broadcasts to the result.
Keeps:  every output's shape, dtype and value.
"""

from __future__ import annotations

from typing import Any

import torch
from torch.fx import Graph, Node

from penlight.passes.base import tensor_of
from penlight.passes.elementwise import steps_of
from penlight.passes.layouts import equal, sizes_of

aten = torch.ops.aten


def drop_expansions(graph: Graph) -> int:
    """Rewrite `graph` in place; return how many operands are read as they were before."""
    changed = 0
    for node in graph.nodes:
        if steps_of(node) is None:
            continue
        for place, source in enumerate(node.args):
            if not isinstance(source, Node) or source.target is not aten.expand_copy.default:
                continue
            before: Any = source.args[0]
            operands = (*node.args[:place], before, *node.args[place + 1 :])
            others = [operand for operand in operands if tensor_of(operand) is not None]
            if _broadcast_to(others, sizes_of(tensor_of(node))):  # type: ignore[arg-type]
                node.update_arg(place, before)
                changed += 1
    return changed


def _broadcast_to(operands: list[Any], sizes: tuple[Any, ...]) -> bool:
    """Do they have each of `sizes` between them?"""
    shapes = [sizes_of(tensor_of(operand)) for operand in operands]  # type: ignore[arg-type]
    return all(
        any(len(shape) >= d and equal(shape[-d], sizes[-d]) for shape in shapes)
        or (equal(sizes[-d], 1) and any(len(shape) >= d for shape in shapes))
        for d in range(1, len(sizes) + 1)
    )
