"""Run chains of elementwise operators as one: each element is computed at once.

    y = silu(a) * b + c        three kernels that each read and write whole tensors
    y = elementwise([a, b, c], program)

A chain ends in one result, of the shape that all its operators have; what is
broadcast, or a part of a tensor, is read so by the kernel. A value that something
outside the chain reads as well is computed before the chain. Memory never grows:
an operator is not taken into a chain that runs later if that keeps more bytes
alive than its result has.

Needs:  edge dialect.
Keeps:  shapes and dtypes; values, but for the rounding of exp, tanh and the like.
Runs:   last, when what layers can apply themselves is in them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch._ops import OpOverload
from torch.fx import Graph, Node

from penlight.kernels.elementwise import OPERANDS, REGISTERS, STEPS
from penlight.passes.base import Leave, tensor_of
from penlight.passes.constants import Constants
from penlight.passes.element_windows import Parts, bytes_of, slice_pieces
from penlight.passes.elementwise import ONLY_CHAINED, Step, steps_of
from penlight.passes.layouts import sizes_of

# Elements that a chain takes longer for than its operators do.
FEW = 16
# Operators that join a chain together, where one alone would keep what it is computed from.
_MOST_AT_ONCE = 8


def fuse_elementwise(op: OpOverload) -> Callable[[Graph, Constants, Leave], int]:
    """The pass over `op`, which runs a program: penlight::elementwise."""

    def fuse_elementwise(graph: Graph, constants: Constants, leave: Leave) -> int:
        slice_pieces(graph, _is_result)
        parts = Parts(graph, _is_result, constants.names)
        nodes, order = list(parts.nodes), parts.order
        fused = 0
        taken: set[Node] = set()
        for node in reversed(nodes):
            if node in taken or not _is_result(node):
                continue
            chain = _chain(node, nodes, parts, constants)
            if _is_of_bytes(chain):
                continue
            while len(chain) > 1 or (chain and _is_chain(chain[0], parts)):
                new = _replace(graph, op, chain, parts, constants)
                if new is not None:
                    nodes[order[node]], order[new] = new, order[node]
                    taken.update(chain)
                    fused += len(chain)
                    break
                chain.pop()  # too long for a program: without what was added last
        for node in nodes:
            if node not in taken and node.op == "call_function" and node.target is not op:
                reason = _obstacle(node, constants)
                if reason is not None:
                    leave(node, reason)
        return fused

    return fuse_elementwise


def _is_chain(node: Node, parts: Parts) -> bool:
    """Is one operator a chain already?"""
    return node.target in ONLY_CHAINED or any(source in parts for source in node.all_input_nodes)


def _is_of_bytes(chain: Sequence[Node]) -> bool:
    """Does a chain read and give nothing but bool? As bytes, operators one by one take less time."""
    read = {source for node in chain for source in node.all_input_nodes}.difference(chain)
    tensors = [tensor_of(node) for node in (*read, chain[0])]
    return all(tensor is not None and tensor.dtype is torch.bool for tensor in tensors)


def _obstacle(node: Node, constants: Constants) -> str | None:
    """Why an elementwise `node` is in no chain; None if it has no neighbour that could be."""
    if steps_of(node) is None:
        return None
    readers = [user for user in node.users if user.op == "call_function" and steps_of(user) is not None]
    if not readers:
        return None
    if any(user not in readers for user in node.users) or len(readers) > 1:
        return "its result is read in several places"
    if _sizes(node) != _sizes(readers[0]):
        return "its result is broadcast by what reads it"
    if not _is_result(readers[0]):
        return f"what reads it has fewer than {FEW} elements"
    return "a chain with it would be too long, or keep more memory alive"


def _is_result(node: Node) -> bool:
    value = tensor_of(node)
    if value is None or steps_of(node) is None:
        return False
    sizes: Sequence[Any] = value.shape
    return not all(isinstance(size, int) for size in sizes) or math.prod(sizes) >= FEW


# --- which operators --------------------------------------------------------------------------------


def _chain(root: Node, nodes: list[Node], parts: Parts, constants: Constants) -> list[Node]:
    """`root`, and before it what only the chain reads; the later ones in the graph come first."""
    chain, inside, refused = [root], {root}, set[Node]()
    while len(chain) <= STEPS:  # each takes a step or more
        candidates = _before(chain, root, inside, refused)
        if not candidates:
            break
        node = max(candidates, key=parts.order.__getitem__)
        group = _group(node, root, inside, nodes, parts, constants)
        chain += group
        inside.update(group)
        if not group:
            refused.add(node)
    return chain


def _group(
    node: Node, root: Node, inside: set[Node], nodes: list[Node], parts: Parts, constants: Constants
) -> list[Node]:
    """`node`, perhaps with some that it is computed from, if the chain to `root` can take it; or nothing."""
    group = [node]
    while not _keeps_memory(group, root, inside, nodes, parts, constants):
        more = _before(group, root, inside.union(group), set())
        if not more or len(group) == _MOST_AT_ONCE:
            return []
        group.append(max(more, key=parts.order.__getitem__))
    return group


def _before(chain: Sequence[Node], root: Node, inside: set[Node], refused: set[Node]) -> list[Node]:
    """Elementwise operators of the shape of `root` that `chain` reads, and nothing else."""
    around = {source for node in chain for source in node.all_input_nodes}
    return [
        node
        for node in around - inside - refused
        if all(user in inside for user in node.users)
        and steps_of(node) is not None
        and _sizes(node) == _sizes(root)
    ]


def _keeps_memory(
    group: list[Node], root: Node, inside: set[Node], nodes: list[Node], parts: Parts, constants: Constants
) -> bool:
    """Does computing a group with `root` keep no more bytes alive than the result of its first?"""
    order, end = parts.order, parts.order[root]
    own = inside.union(group)
    between = [
        node
        for node in nodes[min(map(order.__getitem__, group)) + 1 : end]
        if node.op == "call_function" and node not in own and node not in parts
    ]
    if not between:
        return True
    kept = 0
    for source in {source for node in group for source in parts.sources(node)}.difference(group):
        if source in constants.names:
            continue
        if source.op == "placeholder" and any(source in parts.sources(other) for other in between):
            return False  # state that is written in between, perhaps
        readers = set(parts.readers(source)).difference(group)
        if not readers & inside and all(order.get(reader, end) < end for reader in readers):
            kept += bytes_of(source)
    return kept <= bytes_of(group[0])


def _sizes(node: Node) -> tuple[Any, ...]:
    value: Any = tensor_of(node)
    return sizes_of(value)


# --- as a program -----------------------------------------------------------------------------------


def _replace(
    graph: Graph, op: OpOverload, chain: Sequence[Node], parts: Parts, constants: Constants
) -> Node | None:
    """Put one call in place of the chain; None if it does not fit a program."""
    made, order = Program(constants, parts), parts.order
    for node in sorted(chain, key=order.__getitem__):
        step = steps_of(node)
        assert step is not None
        made.add(node, step)
    root = chain[0]
    program = made.numbers()
    if program is None or not (made.inputs or made.parts):
        return None
    wholes = [parts.whole(part) for part in made.parts]
    windows = [
        number
        for place, part in enumerate(made.parts)
        for window in parts.windows_of(part)
        for number in (place, *window)
    ]
    with graph.inserting_before(root):
        new = graph.call_function(op, (list(made.inputs), wholes, windows, program, made.constants))
    new.meta = dict(root.meta)
    root.replace_all_uses_with(new)
    for node in sorted(chain, key=order.__getitem__, reverse=True):
        graph.erase_node(node)
    return new


class Program:
    """The steps of a chain in order, and what they read."""

    def __init__(self, constants: Constants, known_parts: Parts) -> None:
        self.known, self.known_parts = constants, known_parts
        self.inputs: dict[Node, int] = {}
        self.parts: dict[Node, int] = {}
        self.constants: list[float] = []
        self.places: dict[str, int] = {}  # of constants, by their digits: 0 and -0 are two
        self.steps: dict[Step, None] = {}  # in order
        self.results: dict[Node, Step] = {}

    def add(self, node: Node, step: Step) -> None:
        self._steps(step)
        self.results[node] = step

    def _steps(self, step: Step) -> None:
        if step in self.steps:  # several steps read it
            return
        for source in step.sources:
            if isinstance(source, Step):
                self._steps(source)
            elif not isinstance(source, Node):
                self._constant(float(source))
            elif source not in self.results:
                number = self._number(source)
                if number is None:
                    tensors = self.parts if source in self.known_parts else self.inputs
                    tensors.setdefault(source, len(tensors))
                else:
                    self._constant(number)
        self.steps[step] = None

    def _constant(self, number: float) -> None:
        if number.hex() not in self.places:
            self.places[number.hex()] = len(self.constants)
            self.constants.append(number)

    def _number(self, node: Node) -> float | None:
        """Of a tensor without dimensions that is known now."""
        like = self.known.like(node)
        if like is None or like.dim() != 0 or like.dtype is not torch.float32:
            return None
        value = self.known.get(node)
        return None if value is None else float(value.item())

    def numbers(self) -> list[int] | None:
        """As the kernel reads it; None if it has too many steps, operands or values at a time."""
        if len(self.steps) > STEPS or self._first_constant() - REGISTERS + len(self.constants) > OPERANDS:
            return None
        last: dict[Step, int] = {}
        for place, step in enumerate(self.steps):
            for source in self._of_steps(step):
                last[source] = place
        free, registers = list(range(REGISTERS)), dict[Step, int]()
        program: list[int] = []
        for place, step in enumerate(self.steps):
            sources = [self._place(source, registers) for source in step.sources]
            for source in dict.fromkeys(self._of_steps(step)):
                if last[source] == place:
                    free.append(registers[source])
            if not free:
                return None
            free.sort()
            registers[step] = free.pop(0)
            program += [int(step.op), registers[step], *sources, *[0] * (3 - len(sources))]
        return program

    def _of_steps(self, step: Step) -> list[Step]:
        """The sources that are results of steps before."""
        found = []
        for source in step.sources:
            if isinstance(source, Step):
                found.append(source)
            elif isinstance(source, Node) and source in self.results:
                found.append(self.results[source])
        return found

    def _place(self, source: Step | Node | float, registers: dict[Step, int]) -> int:
        if isinstance(source, Step):
            return registers[source]
        if not isinstance(source, Node):
            return self._first_constant() + self.places[float(source).hex()]
        if source in self.results:
            return registers[self.results[source]]
        if source in self.inputs:
            return REGISTERS + self.inputs[source]
        if source in self.parts:
            return REGISTERS + len(self.inputs) + self.parts[source]
        number = self._number(source)
        assert number is not None
        return self._first_constant() + self.places[number.hex()]

    def _first_constant(self) -> int:
        return REGISTERS + len(self.inputs) + len(self.parts)
