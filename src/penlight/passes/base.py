"""Runs passes: names them, times them, removes what died, verifies after each.

A pass is a function of a graph, or of a graph and its constants, that returns
how many places it changed. It sees every graph of the program: each method's,
and the bodies of control flow inside it. One with a parameter `leave` calls it
with a node that it looked at and left as it was, and why.
"""

from __future__ import annotations

import inspect
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch._ops import HigherOrderOperator, OpOverload
from torch.fx import Graph, GraphModule, Node

from penlight.errors import IllegalGraph
from penlight.ir.edge import IMAGE, EdgeMethod, EdgeProgram, InputKind
from penlight.ir.source import source_of
from penlight.passes.constants import Constants
from penlight.passes.contiguous import dense
from penlight.passes.decompose import fake_mode_of

Pass = Callable[..., int | None]
Verifier = Callable[[EdgeProgram, str], None]
Leave = Callable[[Node, str], None]


@dataclass(frozen=True)
class Left:
    """A place that an optimisation looked at and left as it was."""

    stage: str
    node: str
    operator: str
    reason: str
    source: str  # the user's line, or nothing

    def __str__(self) -> str:
        where = f", {self.source}" if self.source else ""
        return f"{self.node} ({self.operator}{where})"


@dataclass
class Stage:
    """One line of the report: a pass, the nodes it left, the places it changed, its time."""

    name: str
    nodes: int
    changed: int
    milliseconds: float


@dataclass
class Report:
    """What each stage of a compilation did; `str` prints it as a table.

    `left` has what optimisations looked at and left as it was. `memory` has, for each
    method, what its memory holds over its steps (MemoryReport).
    """

    stages: list[Stage] = field(default_factory=list)
    left: list[Left] = field(default_factory=list)
    memory: list[Any] = field(default_factory=list)

    def add(self, name: str, nodes: int, changed: int, start: float) -> None:
        """Record a stage that began at `start`, a time of time.perf_counter."""
        self.stages.append(Stage(name, nodes, changed, (time.perf_counter() - start) * 1e3))

    def __str__(self) -> str:
        rows = [f"{s.name:<28}{s.nodes:>8}{s.changed:>9}{s.milliseconds:>9.1f}" for s in self.stages]
        return "\n".join([f"{'stage':<28}{'nodes':>8}{'changed':>9}{'ms':>9}", *rows])

    def explain_left(self) -> str:
        """What was left as it was and why: a line for each stage and reason, with the first place."""
        places: dict[tuple[str, str], list[Left]] = {}
        for one in self.left:
            places.setdefault((one.stage, one.reason), []).append(one)
        if not places:
            return ""
        rows = []
        for (stage, reason), found in places.items():
            more = f" and {len(found) - 1} more" if len(found) > 1 else ""
            rows.append(f"{stage:<28}{reason}: {found[0]}{more}")
        return "\n".join(["left as it was", *rows])


def run(
    program: EdgeProgram, passes: Iterable[Pass], report: Report, verify: Verifier | None = None
) -> EdgeProgram:
    """Run `passes` in order over every graph of `program`, in place."""
    for function in passes:
        start = time.perf_counter()
        changed, known = 0, _fixed_sizes(program)
        name = function.__name__.replace("_", " ")
        wanted = list(inspect.signature(function).parameters)
        for graph, constants in graphs_of(program):
            notes = _Notes(name)
            given: dict[str, Any] = {"leave": notes} if "leave" in wanted else {}
            positional = (graph, constants) if len(wanted) - len(given) > 1 else (graph,)
            changed += int(function(*positional, **given) or 0)
            remaining = {node.name for node in graph.nodes}  # some were taken by another after all
            report.left += [one for name, one in notes.left.items() if name in remaining]
        if _fixed_sizes(program) != known:
            raise IllegalGraph(
                f"{name} asked what a dynamic size is, which ties it to the example's",
                do="compare sizes as expressions (layouts.sizes_of), or leave the pass out",
            )
        if changed:
            remove_dead(program)
        report.add(name, count_nodes(program), changed, start)
        if changed and verify is not None:
            verify(program, name)
    return program


def _fixed_sizes(program: EdgeProgram) -> int:
    """How many symbols for sizes have become a number, or another symbol."""
    modes = (fake_mode_of(method.graph) for method in program.methods.values())
    environments = {
        id(mode.shape_env): mode.shape_env for mode in modes if mode is not None and mode.shape_env
    }
    return sum(len(env.replacements) for env in environments.values())


class _Notes:
    """What a pass leaves of one graph: of a node that it looks at again, the last reason."""

    def __init__(self, stage: str) -> None:
        self.stage = stage
        self.left: dict[str, Left] = {}

    def __call__(self, node: Node, reason: str) -> None:
        operator, source = str(node.target).removesuffix(".default"), source_of(node)
        self.left[node.name] = Left(self.stage, node.name, operator, reason, str(source or ""))


def graphs_of(program: EdgeProgram) -> Iterator[tuple[Graph, Constants]]:
    """Each graph with its constants: methods first, then the bodies inside them."""
    specs = [spec for method in program.methods.values() for spec in method.inputs]
    readers = Counter(str(spec.target) for spec in specs if spec.kind is InputKind.CONSTANT)
    for method in program.methods.values():
        mode = fake_mode_of(method.graph)
        yield method.graph, Constants(method.graph, method, program.tensors, mode, readers)
        for body in bodies(method.graph_module):
            yield body.graph, Constants(body.graph, None, program.tensors, mode)


def bodies(module: GraphModule) -> Iterator[GraphModule]:
    """Graph modules of control flow, at any depth."""
    for child in module.children():
        if isinstance(child, GraphModule):
            yield child
            yield from bodies(child)


def count_nodes(program: EdgeProgram) -> int:
    """Operators of all graphs; inputs and outputs are not counted."""
    return sum(1 for graph, _ in graphs_of(program) for node in graph.nodes if node.op == "call_function")


def remove_dead(program: EdgeProgram) -> None:
    """Drop nodes without users, constants that no method uses, and state that nothing reads or writes."""
    for method in program.methods.values():
        _remove_dead_nodes(method.graph)
        for body in bodies(method.graph_module):
            _remove_dead_nodes(body.graph)
        _remove_dead_inputs(method)
        _remove_dead_bodies(method.graph_module)
    used = {spec.target for method in program.methods.values() for spec in method.inputs}
    for name in [name for name in program.tensors if name not in used]:
        del program.tensors[name]


def _remove_dead_nodes(graph: Graph) -> None:
    for node in reversed(graph.nodes):
        if not node.users and node.op in ("call_function", "get_attr") and not has_effect(node):
            graph.erase_node(node)


def has_effect(node: Node) -> bool:
    """Must the node stay although nothing uses its result?"""
    if isinstance(node.target, OpOverload):
        if node.target.namespace in ("aten", "prims"):
            return node.target._schema.is_mutable
        return node.target._schema.is_mutable or not node.target._schema.returns
    return False


def _remove_dead_inputs(method: EdgeMethod) -> None:
    kept = []
    written = {spec.target for spec in method.outputs}
    for spec, node in list(method.placeholders()):
        dead = not node.users and (
            spec.kind is InputKind.CONSTANT or (spec.kind is InputKind.STATE and spec.target not in written)
        )
        if dead:
            method.graph.erase_node(node)
        else:
            kept.append(spec)
    method.inputs[:] = kept


def _remove_dead_bodies(module: GraphModule) -> None:
    used = {str(node.target) for node in module.graph.nodes if node.op == "get_attr"}
    for name, child in list(module.named_children()):
        if isinstance(child, GraphModule):
            if name in used:
                _remove_dead_bodies(child)
            else:
                delattr(module, name)


def add_node(
    graph: Graph,
    target: Callable[..., Any],
    args: tuple[Any, ...],
    shape: Iterable[Any],
    like: Node,
    *,
    kwargs: dict[str, Any] | None = None,
    dtype: torch.dtype | None = None,
    order: torch.memory_format = torch.contiguous_format,
) -> Node:
    """A call of `target` where `graph` inserts, for (part of) what `like` is for.

    Its result is dense, of `shape`, and has the dtype of `like` unless another is given.
    """
    node = graph.call_function(target, args, kwargs or {})
    value: Any = tensor_of(like)
    with value.fake_mode:
        made = dense(tuple(shape), dtype or value.dtype, order)
    node.meta = {**like.meta, "val": made}
    node.meta.pop(IMAGE, None)  # that is of `like` alone
    return node


def replace_call(graph: Graph, node: Node, target: Callable[..., Any], args: tuple[Any, ...]) -> None:
    """Put a call of `target`, whose result is the same, in place of `node`."""
    with graph.inserting_before(node):
        new = graph.call_function(target, args)
    new.meta = dict(node.meta)
    node.replace_all_uses_with(new)
    graph.erase_node(node)


def add_view(graph: Graph, x: Node, sizes: Iterable[Any], like: Node | None = None) -> Node:
    """`x` under other sizes, of which one may be symbolic; itself where they are its own."""
    sizes = tuple(sizes)
    wanted = [size if isinstance(size, int) else -1 for size in sizes]
    if wanted.count(-1) > 1:
        raise IllegalGraph(f"a view of {x.name} with several dynamic sizes, {sizes}")
    if is_static(x) and list(tensor_of(x).shape) == wanted:  # type: ignore[union-attr]
        return x
    return add_node(graph, torch.ops.aten.view_copy.default, (x, wanted), sizes, like or x)


def add_permute(
    graph: Graph,
    x: Node,
    dims: Sequence[int],
    like: Node | None = None,
    order: torch.memory_format = torch.contiguous_format,
) -> Node:
    """`x` with its dimensions in the order of `dims`."""
    sizes = tensor_of(x).shape  # type: ignore[union-attr]
    args = (x, list(dims))
    shape = [sizes[dim] for dim in dims]
    return add_node(graph, torch.ops.aten.permute_copy.default, args, shape, like or x, order=order)


def is_static(*nodes: Node) -> bool:
    """Are all sizes of these tensors known?"""
    return all(isinstance(size, int) for node in nodes for size in tensor_of(node).shape)  # type: ignore[union-attr]


def is_control_flow(node: Node) -> bool:
    """cond, map, scan, while_loop."""
    return node.op == "call_function" and isinstance(node.target, HigherOrderOperator)


def tensor_of(node: Any) -> torch.Tensor | None:
    """The fake tensor of a node; None for other values and for arguments that are no nodes."""
    value = node.meta.get("val") if isinstance(node, Node) else None
    return value if isinstance(value, torch.Tensor) else None
