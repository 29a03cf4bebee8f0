"""Which images are computed channels-last, so that as little as can be is copied from one order to the other.

Convolutions read and give channels-last images, transformers rows of pixels; many operators
compute in either order, and give what they read. A copy costs the bytes of its tensor. The
orders that cost least together are a minimum cut: of a graph whose nodes are the operators
that can do both, between one node for each order (Picard and Ratliff, "Minimum cuts and
related problems", 1975).
"""

from __future__ import annotations

import operator
from typing import Any, Literal

import torch
from torch._ops import OpOverload
from torch.fx import Node

from penlight.passes.base import tensor_of
from penlight.passes.image_copies import image_behind, is_to_channels_last
from penlight.passes.image_parts import order_of_parts, views_in_order
from penlight.passes.image_views import channels_last_layout, pixels_behind
from penlight.passes.layouts import Layout, equal, same_sizes, sizes_of
from penlight.passes.unread_indices import MAX_POOL, pools_values

aten = torch.ops.aten

# One image in, one image out; their other arguments are numbers.
_IMAGES = {
    *(aten.avg_pool2d.default, aten.adaptive_avg_pool2d.default, aten.upsample_nearest2d.default),
    *(aten.upsample_bilinear2d.default, aten.constant_pad_nd.default, aten.cat.default),
    *(aten.upsample_nearest2d.vec, aten.upsample_bilinear2d.vec, aten.slice_copy.Tensor),
    *(
        aten.upsample_bicubic2d.default,
        aten._upsample_bilinear2d_aa.default,
        aten._upsample_bicubic2d_aa.default,
    ),
    *(aten.reflection_pad2d.default, aten.replication_pad2d.default, aten.channel_shuffle.default),
    *(aten.pixel_shuffle.default, aten.pixel_unshuffle.default),
    *(aten._softmax.default, aten._log_softmax.default),
}
# One image in; several out, or one and numbers of its groups.
SEVERAL = {aten.split_copy.Tensor, aten.split_with_sizes_copy.default, aten.native_group_norm.default}
# They read an image in any order, and what they give is no image.
READERS = {
    *(aten.mean.dim, aten.sum.dim_IntList, aten.amax.default, aten.amin.default),
    *(aten.linalg_vector_norm.default, aten.var.correction, aten.var.dim),
}

_MORE_ELEMENTWISE = {aten._prelu_kernel.default, aten.hardswish.default, aten._to_copy.default}
_NOT_ELEMENTWISE = {aten.clone.default, aten.frexp.Tensor}


def is_elementwise(target: Any) -> bool:
    """Does it compute each element from those at the same place, broadcast?"""
    if not isinstance(target, OpOverload) or target.namespace != "aten" or target in _NOT_ELEMENTWISE:
        return False  # what an operator of the user's reads is what the model gives it
    if torch.Tag.nondeterministic_seeded in target.tags:  # its numbers come in row-major order
        return False
    return torch.Tag.pointwise in target.tags or target in _MORE_ELEMENTWISE


def in_any_order(source: Node) -> bool:
    """A number, a value for each channel, or one image pixel: the same bytes in either order."""
    value = tensor_of(source)
    if value is None:
        return True
    pixels = sizes_of(value)[-2:] if value.dim() in (3, 4) else sizes_of(value)
    return value.dim() <= 4 and all(equal(size, 1) for size in pixels)


End = Node | Literal["rows", "images"]


def channels_last_nodes(nodes: list[Node]) -> tuple[set[Node], dict[Node, int]]:
    """Which of `nodes`, all of a graph, are to compute on channels-last images of 4 dimensions.

    Returns:
        The nodes, and how many views each is the last of that takes one copy from either order.
    """
    free = {node for node in nodes if _is_free(node)}
    wanted: dict[Node, set[End]] = {}
    views: dict[Node, int] = {}
    for node in nodes:
        if node in views or image_behind(node) is not None:
            continue
        for source in node.all_input_nodes:
            value = tensor_of(source)
            if value is None or value.dim() != 4 or node.target in READERS:
                continue
            if node in free:
                result = tensor_of(node)
                broadcast = result is not None and not same_sizes(sizes_of(value), sizes_of(result))
                if result is None or not (broadcast and in_any_order(source)):
                    wanted.setdefault(source, set()).add(node)
            elif is_to_channels_last(node):
                wanted.setdefault(source, set()).add("images")
            elif node.target is not operator.getitem:
                end, count = _end_of_views(source, node)
                if isinstance(end, Node):
                    views[end] = count
                else:
                    wanted.setdefault(source, set()).add(end)
    free |= {view for view in views if tensor_of(view).dim() == 4}  # type: ignore[union-attr]
    ends = {source: _origin(source, free) for source in wanted}
    chosen, both = _of_one_order(ends, wanted)
    if both:
        chosen |= _cut(ends, wanted, both)
    return chosen & free, views


def _of_one_order(ends: dict[Node, End], wanted: dict[Node, set[End]]) -> tuple[set[Node], set[Node]]:
    """What is connected to images alone, and what to images and to rows."""
    beside: dict[End, set[End]] = {}
    for source, readers in wanted.items():
        for reader in readers:
            beside.setdefault(ends[source], set()).add(reader)
            beside.setdefault(reader, set()).add(ends[source])
    chosen: set[Node] = set()
    both: set[Node] = set()
    for start in beside:
        if isinstance(start, str) or start in chosen or start in both:
            continue
        found, left = {start}, [start]
        touched: set[End] = set()
        while left:
            for end in beside[left.pop()] - found:
                if isinstance(end, str):
                    touched.add(end)
                else:
                    found.add(end)
                    left.append(end)
        if "images" in touched:
            (both if "rows" in touched else chosen).update(found)
    return chosen, both


def _cut(ends: dict[Node, End], wanted: dict[Node, set[End]], nodes: set[Node]) -> set[Node]:
    """Of `nodes`, those on the side of images."""
    import networkx  # a third of a second where nothing else did, and most graphs need no cut

    flow = networkx.DiGraph()
    flow.add_nodes_from(("rows", "images"))
    for source, readers in wanted.items():
        end, cost = ends[source], _bytes(source)
        others = readers - {end}
        if not ({end, *readers} & nodes):
            continue
        # One copy serves all that want it: each of these two stands for a copy.
        if others and end != "images":
            flow.add_edge((source, "images"), end, capacity=cost)
            flow.add_edges_from((reader, (source, "images")) for reader in others)
        if others and end != "rows":
            flow.add_edge(end, (source, "rows"), capacity=cost)
            flow.add_edges_from(((source, "rows"), reader) for reader in others)
    # Of several minimum cuts, that with most images: activations after a convolution are part of it then.
    _, (found, _) = networkx.minimum_cut(flow, "images", "rows")
    return nodes & found  # type: ignore[no-any-return]


def _is_free(node: Node) -> bool:
    if node.op != "call_function":
        return False
    if node.target is MAX_POOL:
        return pools_values(node)
    if node.target in SEVERAL:
        value, wanted = tensor_of(node.args[0]), [user.args[1:] for user in node.users]
        return value is not None and value.dim() == 4 and bool(wanted) and () not in wanted
    value = tensor_of(node)
    if value is None or value.dim() != 4 or not (node.target in _IMAGES or is_elementwise(node.target)):
        return False
    tensors = [(source, tensor_of(source)) for source in node.all_input_nodes]
    return all(one is None or one.dim() == 4 or in_any_order(source) for source, one in tensors)


def _origin(source: Node, free: set[Node]) -> End:
    """What decides in which order `source` is there."""
    maker: Any = source.args[0] if source.target is operator.getitem else source
    if maker in free:
        return maker  # type: ignore[no-any-return]
    is_image = image_behind(source) is not None or pixels_behind(source) is not None
    return "images" if is_image else "rows"


def _end_of_views(source: Node, view: Node) -> tuple[End, int]:
    """What the reader `view` of `source`, and views of it, want.

    "images" if they are its pixels as rows. The last of so many views, if it takes one copy from
    either order.
    """
    lies, rows = channels_last_layout(source), Layout.dense(sizes_of(tensor_of(source)))  # type: ignore[arg-type]
    if equal(lies.sizes[1], 1):  # rows already
        return "rows", 0
    found: tuple[End, int] = "rows", 0
    both = zip(views_in_order(view, lies), views_in_order(view, rows), strict=False)
    for count, ((node, layout), (_, as_rows)) in enumerate(both, 1):
        if layout.is_dense():
            return "images", count
        if pixels_behind(node) is not None:  # an image as it is
            break
        moves = not as_rows.is_dense() and order_of_parts(source, layout, range(len(layout.dims)))
        found = (node, count) if moves else ("rows", 0)
    return found


def _bytes(source: Node) -> int:
    value: Any = tensor_of(source)
    count = value.element_size()
    for size in value.shape:
        hint = size.node.hint if isinstance(size, torch.SymInt) else size
        count *= hint or 64
    return int(count) + 4096  # and an operator more
