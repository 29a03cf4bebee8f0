"""Give one image its batch before its elements are computed, not after.

    x.permute(2, 0, 1) ... .unsqueeze(0)    ->    x.unsqueeze(0).permute(0, 3, 1, 2) ...

where ... are functions of elements, as a model has them that normalises a picture itself. The pixels
of a picture have their channels side by side, which is the order that convolutions read: of the four
dimensions of an image that is seen, and the permutation need not be made.

Needs:  edge dialect; sizes that are known, as those of views are to be that cost nothing.
Keeps:  every output's shape, dtype and value.
Runs:   before images are kept channels-last.
"""

from __future__ import annotations

from typing import Any

import torch
from torch.fx import Graph, Node

from penlight.passes.base import add_permute, add_view, is_static, tensor_of
from penlight.passes.contiguous import dense
from penlight.passes.image_order import is_elementwise
from penlight.passes.layouts import same_sizes, sizes_of
from penlight.passes.merge_views import RESHAPES

aten = torch.ops.aten


def batch_single_images(graph: Graph) -> int:
    """Rewrite `graph` in place; return how many images got their batch earlier."""
    changed = 0
    for view in list(graph.nodes):
        nodes = _image_before(view)
        if not nodes:
            continue
        for node in nodes:
            if node.target is aten.permute_copy.default:
                _permute_batch(graph, node)
            else:
                value: Any = tensor_of(node)
                with value.fake_mode:
                    made = dense((1, *value.shape), value.dtype, torch.contiguous_format)
                node.meta = {**node.meta, "val": made}
        view.replace_all_uses_with(view.args[0])
        graph.erase_node(view)
        changed += 1
    return changed


def _permute_batch(graph: Graph, node: Node) -> None:
    source: Any = node.args[0]
    with graph.inserting_before(node):
        batch = add_view(graph, source, (1, *source.meta["val"].shape))
        new = add_permute(graph, batch, [0, 3, 1, 2], node)
    node.replace_all_uses_with(new)
    graph.erase_node(node)


def _image_before(view: Node) -> list[Node]:
    """What computes the image that `view` makes a batch of: permutations, and functions of their elements."""
    if view.target not in RESHAPES or not _adds_batch(view):
        return []
    found: set[Node] = set()
    left: list[Any] = [view.args[0]]
    while left:
        node = left.pop()
        value = tensor_of(node)
        if node in found:
            continue
        if value is None:
            return []
        found.add(node)
        if _is_permuted_picture(node):
            continue
        # What is broadcast stays as it is, with a dimension less: sizes are compared from the last on.
        wide = [source for source in node.all_input_nodes if _is_alike(source, value)]
        if not is_elementwise(node.target) or not wide:
            return []
        left += wide
    readers = {user for node in found for user in node.users}
    return [node for node in view.graph.nodes if node in found] if readers <= {*found, view} else []


def _adds_batch(view: Node) -> bool:
    before, after = tensor_of(view.args[0]), tensor_of(view)
    if before is None or after is None or before.dim() != 3 or not is_static(view):
        return False
    return list(after.shape) == [1, *before.shape]


def _is_permuted_picture(node: Node) -> bool:
    return node.target is aten.permute_copy.default and [dim % 3 for dim in node.args[1]] == [2, 0, 1]  # type: ignore[union-attr,operator]


def _is_alike(source: Node, value: torch.Tensor) -> bool:
    other = tensor_of(source)
    return other is not None and same_sizes(sizes_of(other), sizes_of(value))
