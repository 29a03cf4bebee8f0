"""Which slices a chain of elementwise operators can read where they lie, inside of a whole tensor.

    y[:, 1:] - y[:, :-1]        reads y twice, and copies nothing
    a, b = x.chunk(2, -1)       a * sigmoid(b) reads both halves of x

A part is a slice or a select, or such a part of a part. It is read so if only elementwise
operators read it; if elements that lie apart are read once; and if no more is kept in
memory: the parts that go are as large as the whole, or nothing but elementwise operators
runs between the last that needs the whole and those that read parts.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Container, Iterator
from typing import Any

import torch
from torch._ops import OpOverload
from torch.fx import Graph, Node

from penlight.passes.base import tensor_of
from penlight.passes.layouts import sizes_of

aten = torch.ops.aten

Window = tuple[Any, Any, Any, int]  # dimension, start, end and step of a slice; step 0: of a select

_END = 2**63 - 1


class Parts:
    """The parts of a graph that its elementwise operators read where they lie."""

    def __init__(self, graph: Graph, is_element: Callable[[Node], bool], constants: Container[Node]) -> None:
        """`is_element`: is a node an operator whose chain may read parts?"""
        self.nodes, self.is_element, self.constants = list(graph.nodes), is_element, constants
        self.order = {node: place for place, node in enumerate(self.nodes)}
        self.windows: dict[Node, Window] = {}
        for node in reversed(self.nodes):
            window = _window_of(node)
            if window is not None and self._may_be_read(node, window):
                self.windows[node] = window
        self._drop_what_keeps_memory()

    def __contains__(self, node: Node) -> bool:
        return node in self.windows

    def whole(self, node: Node) -> Node:
        """What `node` is a part of; itself if it is none."""
        while node in self.windows:
            node = node.args[0]  # type: ignore[assignment]
        return node

    def windows_of(self, node: Node) -> list[Window]:
        """Those that make `node` of its whole, in order."""
        found: list[Window] = []
        while node in self.windows:
            found.insert(0, self.windows[node])
            node = node.args[0]  # type: ignore[assignment]
        return found

    def sources(self, node: Node) -> list[Node]:
        """What `node` reads, with wholes for parts."""
        return list(dict.fromkeys(map(self.whole, node.all_input_nodes)))

    def readers(self, node: Node) -> Iterator[Node]:
        """What reads `node`, or parts of it."""
        for user in node.users:
            if user in self.windows:
                yield from self.readers(user)
            else:
                yield user

    def _may_be_read(self, node: Node, window: Window) -> bool:
        value, whole = tensor_of(node), tensor_of(node.args[0])
        if value is None or whole is None or value.dtype not in (torch.float32, torch.bool):
            return False
        if not node.users or not all(user in self.windows or self.is_element(user) for user in node.users):
            return False
        dim, step = window[0], window[3]
        stride = whole.stride()[dim]
        if step == 1 or not (isinstance(stride, int) and stride == 1):
            return True
        readers = list(self.readers(node))
        return len(readers) == 1 and sizes_of(readers[0].meta["val"]) == sizes_of(value)

    def _drop_what_keeps_memory(self) -> None:
        groups: dict[Node, list[Node]] = {}
        for node in self.windows:
            if any(user not in self.windows for user in node.users):
                groups.setdefault(self.whole(node), []).append(node)
        for whole, parts in groups.items():
            last = max(self.order[reader] for part in parts for reader in self.readers(part))
            needed = max(self.order[node] for node in (whole, *whole.users) if node not in self.windows)
            between = (node for node in self.nodes[needed + 1 : last] if node.op == "call_function")
            if (
                whole not in self.constants
                and sum(map(bytes_of, parts)) < bytes_of(whole)
                and not all(node in self.windows or self.is_element(node) for node in between)
            ):
                for part in parts:
                    self._drop(part)

    def _drop(self, node: Node) -> None:
        """Compute `node` after all, and so what it is a part of."""
        if self.windows.pop(node, None) is not None:
            self._drop(node.args[0])  # type: ignore[arg-type]


def bytes_of(node: Node) -> int:
    """Of its tensor, with symbolic sizes as the example has them; 0 if it is none."""
    value = tensor_of(node)
    if value is None:
        return 0
    sizes = (size if isinstance(size, int) else int(size.node.hint or 1) for size in value.shape)
    return math.prod(sizes, start=value.element_size())


def _window_of(node: Node) -> Window | None:
    args = list[Any](node.args)
    if node.op != "call_function" or node.kwargs:
        return None
    if node.target is aten.select_copy.int:
        return args[1], args[2], 0, 0
    if node.target is aten.slice_copy.Tensor:
        dim, start, end, step = args[1:] + [0, None, None, 1][len(args) - 1 :]
        if isinstance(step, int):
            return dim, 0 if start is None else start, _END if end is None else end, step
    return None


# --- pieces of splits ----------------------------------------------------------------------------------


def slice_pieces(graph: Graph, is_element: Callable[[Node], bool]) -> None:
    """Make slices of all pieces of a split if elementwise operators alone read one of them."""
    for split in list(graph.nodes):
        window_at = _window_at(split)
        pieces = list(split.users)
        if window_at is None or not any(
            piece.users and all(map(is_element, piece.users)) for piece in pieces
        ):
            continue
        for piece in pieces:
            target, window = window_at(piece.args[1])
            with graph.inserting_before(piece):
                new = graph.call_function(target, (split.args[0], *window))
            new.meta = {**split.meta, **piece.meta}  # whether it is an image, the split knows
            piece.replace_all_uses_with(new)
            graph.erase_node(piece)
        graph.erase_node(split)


def _window_at(split: Node) -> Callable[[Any], tuple[OpOverload, tuple[Any, ...]]] | None:
    """For the index of a piece, what makes it alone, and its arguments; None if `split` is none."""
    args = [*split.args, 0]
    if split.op != "call_function" or split.kwargs:
        return None
    if split.target is aten.unbind_copy.int:
        return lambda index: (aten.select_copy.int, (args[1], index))
    starts: list[int] = []
    if split.target is aten.split_copy.Tensor and isinstance(args[1], int):
        starts = [i * args[1] for i in range(len(split.meta["val"]) + 1)]
    elif split.target is aten.split_with_sizes_copy.default:
        sizes: Any = args[1]
        if all(isinstance(size, int) for size in sizes):
            starts = [sum(sizes[:i]) for i in range(len(sizes) + 1)]
    if not starts:
        return None
    return lambda index: (aten.slice_copy.Tensor, (args[2], starts[index], starts[index + 1]))
