"""Remove mutation: in-place operators become functional ones, writes through views become scatters.

torch's own functionalization re-traces the program, which takes longer than
exporting it. An exported graph says all that is needed: fake tensors that are
views of one another share a storage, and the node that made a view says how.

For each storage the pass keeps the current value of its root tensor. A write to
a view is scattered back along the chain of views to the root; a view made
before the write is made again when it is used after it.

Needs:  ATen dialect as exported, with the storages of the fake tensors.
Keeps:  every output's value, and the new values of inputs and buffers, which
        become results.
"""

from __future__ import annotations

import operator
from typing import Any

import torch
from torch._dispatch.python import enable_python_dispatcher
from torch._ops import OpOverload
from torch.fx import Graph, GraphModule, Node
from torch.fx.node import map_arg
from torch.utils import _pytree as pytree

from penlight.kernels.out_variants import parameters_of

aten = torch.ops.aten


class CannotFunctionalize(Exception):
    """A write through a kind of view that has no scatter; torch's functionalization can do it."""


class WritesInBody(CannotFunctionalize):
    """The body of control flow changes what it is given, which PyTorch does not run either."""


def functionalize_bodies(module: GraphModule) -> None:
    """The bodies of control flow inside `module`; they may write to tensors of their own only.

    Raises CannotFunctionalize.
    """
    for child in module.children():
        if isinstance(child, GraphModule):
            functionalize_bodies(child)
            if mutates(child.graph) and functionalize(child.graph):
                raise WritesInBody("the body of a cond or loop writes to what it is given")


def mutates(graph: Graph) -> bool:
    """Does any node write to a tensor?"""
    return any(_written(node) is not None or _is_hidden_write(node) for node in graph.nodes)


def functionalize(graph: Graph) -> dict[Node, Node]:
    """Rewrite `graph` in place; return the new value of each placeholder that was written.

    Raises CannotFunctionalize, leaving the graph half done, so hand in a copy.
    """
    return _Functionalizer(graph).run()


def _written(node: Node) -> Node | None:
    """The tensor a node writes to."""
    if (
        node.op != "call_function"
        or not isinstance(node.target, OpOverload)
        or not node.target._schema.is_mutable
    ):
        return None
    for index, argument in enumerate(node.target._schema.arguments):
        if argument.alias_info is not None and argument.alias_info.is_write:
            value = node.args[index] if index < len(node.args) else node.kwargs.get(argument.name)
            if isinstance(value, Node):
                return value
    return None


def _is_hidden_write(node: Node) -> bool:
    """Batch norm that updates its running statistics, which its schema does not say."""
    if node.target in (aten.batch_norm.default, aten.instance_norm.default):
        return bool(node.args[5]) and isinstance(node.args[3], Node)
    return False


class _Functionalizer:
    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.made_by: dict[int, Node] = {}  # storage -> the node that made it
        self.parent: dict[Node, Node] = {}  # view -> what it is a view of
        self.views: set[Node] = set()  # those that can be made again
        self.made: dict[
            Node, tuple[Any, tuple[Any, ...], dict[str, Any]]
        ] = {}  # target and arguments as exported
        self.in_place: set[Node] = set()  # nodes whose result is the tensor they wrote to
        self.version: dict[Node, int] = {}  # root -> how often it was written
        self.value: dict[Node, tuple[int, Node]] = {}  # node -> version of its root, and its value then

    def run(self) -> dict[Node, Node]:
        in_place: list[Node] = []
        for node in list(self.graph.nodes):
            if _is_hidden_write(node):
                raise CannotFunctionalize(f"{node.name} writes running statistics")
            if isinstance(node.target, OpOverload) and torch.Tag.inplace_view in node.target.tags:
                node.target = view_of(
                    node.target
                )  # changes the shape, which the graph follows, and no values
            written = _written(node)
            with self.graph.inserting_before(node):
                if written is None:
                    self.keep(node)
                else:
                    self.write(written, self.functional(node, written))
                    self.parent[node] = written
                    self.in_place.add(node)
                    in_place.append(node)
        for node in reversed(in_place):
            self.graph.erase_node(node)
        roots = [root for root in self.version if root.op == "placeholder"]
        return {root: self.current(root) for root in roots}

    def keep(self, node: Node) -> None:
        self.made[node] = target, args, _ = node.target, node.args, node.kwargs
        if node.op in ("call_function", "output"):
            node.args, node.kwargs = map_arg((node.args, node.kwargs), self.current)
        value = node.meta.get("val")
        if node.op == "output" or not isinstance(value, torch.Tensor):
            return
        if target is operator.getitem and isinstance(args[0], Node) and args[0].target in _UNSAFE:
            return
        storage = _storage(value)
        maker = self.made_by.setdefault(storage, node)
        if maker is node:
            return
        self.parent[node] = maker
        if target is operator.getitem and isinstance(args[0], Node):
            args = self.made[args[0]][1]
        inputs = [n for n in pytree.tree_leaves(args) if isinstance(n, Node) and _is_in(n, storage)]
        if isinstance(target, OpOverload) and _views_first(target):
            inputs = inputs[:1]  # `x.view_as(x)`: the others only say how
        if len(inputs) == 1:
            self.parent[node] = inputs[0]
            self.views.add(node)
        self.value[node] = (self.version.get(self.root(node), 0), node)

    # --- current values ----------------------------------------------------------------------------

    def root(self, node: Node) -> Node:
        while node in self.parent:
            node = self.parent[node]
        return node

    def current(self, node: Node) -> Node:
        """The node that has the value of `node` now."""
        if node in self.in_place:
            return self.current(self.parent[node])
        now = self.version.get(self.root(node), 0)
        version, value = self.value.get(node, (0, node))
        if version != now:
            value = self.again(node)
            self.value[node] = (now, value)
        return value

    def again(self, node: Node) -> Node:
        """The view `node`, made from what its parent is now."""
        if node not in self.views:
            raise CannotFunctionalize(f"{node.name} shares memory with a tensor that is written")
        target, args, kwargs = self.made[node]
        if target is operator.getitem:
            source = args[0]
            new_args, new_kwargs = map_arg(self.made[source][1:], self.current)
            parts = self.emit(source.target, new_args, new_kwargs, source)
            return self.emit(operator.getitem, (parts, args[1]), {}, node)
        new_args, new_kwargs = map_arg((args, kwargs), self.current)
        return self.emit(target, new_args, new_kwargs, node)

    def write(self, node: Node, new: Node) -> None:
        """Let `node`, and all that shares its memory, see the value `new`."""
        if node not in self.parent:
            self.version[node] = self.version.get(node, 0) + 1
        elif node in self.in_place:
            self.write(self.parent[node], new)
            return
        else:
            parent = self.parent[node]
            self.write(parent, self.scatter(node, self.current(parent), new))
        self.value[node] = (self.version[self.root(node)], new)

    def emit(self, target: Any, args: Any, kwargs: Any, like: Node, value: Any = None) -> Node:
        node = self.graph.call_function(target, tuple(args), kwargs)
        node.meta = dict(like.meta)
        if value is not None:
            node.meta["val"] = value
        return node

    # --- operators ---------------------------------------------------------------------------------

    def functional(self, node: Node, written: Node) -> Node:
        """The node that computes what an in-place operator leaves in `written`."""
        args, kwargs = map_arg((node.args, node.kwargs), self.current)
        before = self.current(written)
        if node.target in (aten.copy_.default, torch.ops.prims.copy_to.default):
            return self.cast(args[1], written, node, expand=True)
        if node.target in (aten.detach_.default, aten.requires_grad_.default, aten.resize_as_.default):
            return before
        assert isinstance(node.target, OpOverload)
        op = functional_of(node.target)
        if op is None:
            raise CannotFunctionalize(f"{node.target} has no functional form")
        outs = {argument.name for argument in node.target._schema.arguments if argument.is_out}
        if len(outs) > 1:
            raise CannotFunctionalize(f"{node.target} has several results")
        kwargs = {name: value for name, value in kwargs.items() if name not in outs}
        if op._overloadname != node.target._overloadname:  # its defaults need not be the other's
            kwargs = {p.name: p.default for p in parameters_of(node.target)[len(args) :]} | kwargs
        fake_args, fake_kwargs = map_arg((args, kwargs), lambda n: n.meta["val"])
        with torch.no_grad(), enable_python_dispatcher():  # symbolic sizes are for Python to work out
            value = op(*fake_args, **fake_kwargs)
        if not isinstance(value, torch.Tensor):
            raise CannotFunctionalize(f"{node.target} has several results")
        return self.cast(self.emit(op, args, kwargs, node, value), written, node)

    def cast(self, new: Any, written: Node, node: Node, expand: bool = False) -> Node:
        """`new` with the dtype (and the shape) of the tensor it is written to."""
        have, want = new.meta["val"], written.meta["val"]
        if have.dtype != want.dtype:
            new = self.emit(aten.to.dtype, (new, want.dtype), {}, node, have.to(want.dtype))
        if expand and (have.dim() != want.dim() or not _same_sizes(have, want)):
            new = self.emit(aten.expand_as.default, (new, self.current(written)), {}, node, want)
        return new  # type: ignore[no-any-return]

    def scatter(self, view: Node, base: Node, new: Node) -> Node:
        """`base` with the part that `view` shows replaced by `new`."""
        if view not in self.views:
            raise CannotFunctionalize(f"{view.name} is a view that cannot be written through")
        target, args, kwargs = self.made[view]
        shape = base.meta["val"]
        if target is operator.getitem:
            return self.scatter_part(args[0], args[1], base, new)

        def emit(op: Any, *rest: Any, **options: Any) -> Node:
            return self.emit(op, rest, options, view, shape)

        if target in _SAME_ORDER:
            if _have_same_sizes(new, base):
                return new
            return emit(aten.reshape_as.default, new, base)
        if target in _EXPANSIONS and _same_count(new, base):
            return emit(aten.reshape_as.default, new, base)  # nothing was repeated
        if target in (
            aten.transpose.int,
            aten.t.default,
            aten.swapaxes.default,
            aten.numpy_T.default,
            aten.mT.default,
        ):
            return emit(target, new, *args[1:], **kwargs)
        if target is aten.permute.default:
            dims = [d % len(args[1]) for d in args[1]]
            return emit(aten.permute.default, new, [dims.index(d) for d in range(len(dims))])
        scatter = _SCATTER.get(target)
        if scatter is not None:
            return emit(scatter, base, new, *args[1:], **kwargs)
        if target is aten.narrow.default and all(isinstance(a, int) for a in args[1:]):
            return emit(aten.slice_scatter.default, base, new, args[1], args[2], args[2] + args[3])
        raise CannotFunctionalize(f"a write through {target}")

    def scatter_part(self, source: Node, index: int, base: Node, new: Node) -> Node:
        """One part of split, chunk or unbind."""
        shape = base.meta["val"]
        parts = source.meta["val"]
        position = _PART_DIM.get(source.target)  # type: ignore[call-overload]
        if position is None:
            raise CannotFunctionalize(f"a write through {source.target}")
        args, kwargs = self.made[source][1:]
        dim = args[position] if len(args) > position else kwargs.get("dim", 0)
        if source.target is aten.unbind.int:
            return self.emit(aten.select_scatter.default, (base, new, dim, index), {}, source, shape)
        start = sum(part.shape[dim] for part in parts[:index])
        end = start + parts[index].shape[dim]
        if not isinstance(start, int) or not isinstance(end, int):
            raise CannotFunctionalize("a write through a split with symbolic sizes")
        return self.emit(aten.slice_scatter.default, (base, new, dim, start, end), {}, source, shape)


def functional_of(op: OpOverload) -> OpOverload | None:
    """aten.add.Tensor for aten.add_.Tensor and for aten.add.out; None where there is none."""
    name = op._schema.name.split("::")[1]
    if any(argument.is_out for argument in op._schema.arguments):
        packet, want = op.overloadpacket, parameters_of(op)
        others = (getattr(packet, overload) for overload in packet.overloads())
        return next((o for o in others if not o._schema.is_mutable and parameters_of(o) == want), None)
    if not name.endswith("_") or name.endswith("__"):
        return None
    packet = getattr(getattr(torch.ops, op.namespace), name[:-1], None)
    if packet is None:
        return None
    if op._overloadname in packet.overloads():
        same: OpOverload = getattr(packet, op._overloadname)
        if _first_type(same) == _first_type(op):
            return same
    # Of another name: bernoulli.p of bernoulli_.float; pow.Scalar is of a number, unlike pow_.Scalar.
    wanted = [(parameter.name, parameter.type) for parameter in parameters_of(op)]
    others = (getattr(packet, overload) for overload in packet.overloads())
    return next(
        (
            o
            for o in others
            if not o._schema.is_mutable and [(p.name, p.type) for p in parameters_of(o)] == wanted
        ),
        None,
    )


def _first_type(op: OpOverload) -> list[str]:
    return [str(argument.type) for argument in op._schema.arguments[:1]]


def view_of(op: OpOverload) -> OpOverload:
    """aten.transpose.int for aten.transpose_.default: an operator that changes only the shape."""
    packet = getattr(getattr(torch.ops, op.namespace), op._schema.name.split("::")[1][:-1])
    candidates = [getattr(packet, overload) for overload in packet.overloads()]
    return next(c for c in candidates if parameters_of(c) == parameters_of(op))


def _views_first(op: OpOverload) -> bool:
    """Is the first argument, and no other, what the result is a view of?"""
    marked = [argument.alias_info is not None for argument in op._schema.arguments]
    return marked[:1] == [True] and not any(marked[1:])


def _storage(value: torch.Tensor) -> int:
    return int(value.untyped_storage()._cdata)


def _is_in(node: Node, storage: int) -> bool:
    value = node.meta.get("val")
    return isinstance(value, torch.Tensor) and _storage(value) == storage


def _same_sizes(a: torch.Tensor, b: torch.Tensor) -> bool:
    return all(str(x) == str(y) for x, y in zip(a.shape, b.shape, strict=True))


def _have_same_sizes(a: Node, b: Node) -> bool:
    x, y = a.meta["val"], b.meta["val"]
    return x.dim() == y.dim() and _same_sizes(x, y)


def _same_count(a: Node, b: Node) -> bool:
    x, y = a.meta["val"], b.meta["val"]
    return str(x.numel()) == str(y.numel())


_EXPANSIONS = (aten.expand.default, aten.expand_as.default, aten.broadcast_to.default)

# Views that keep the order of the elements: undone by another reshape.
_SAME_ORDER = {
    aten.view.default,
    aten.reshape.default,
    aten.flatten.using_ints,
    aten.unflatten.int,
    aten._unsafe_view.default,
    aten.view_as.default,
    aten.reshape_as.default,
    aten.squeeze.default,
    aten.squeeze.dim,
    aten.squeeze.dims,
    aten.unsqueeze.default,
    aten.alias.default,
    aten.detach.default,
    aten.contiguous.default,
    aten.ravel.default,
    aten.to.dtype,
    aten.to.dtype_layout,
    aten.to.device,
    aten.to.other,
    aten.type_as.default,
    aten.lift_fresh.default,
}

_SCATTER = {
    aten.select.int: aten.select_scatter.default,
    aten.slice.Tensor: aten.slice_scatter.default,
    aten.diagonal.default: aten.diagonal_scatter.default,
    aten.as_strided.default: aten.as_strided_scatter.default,
}

# Their parts count as tensors of their own: who writes to one promises that nobody reads the others.
_UNSAFE = (
    aten.unsafe_split.Tensor,
    aten.unsafe_split_with_sizes.default,
    aten.unsafe_chunk.default,
)
_PART_DIM = {
    aten.split.Tensor: 2,
    aten.split.sizes: 2,
    aten.split_with_sizes.default: 2,
    aten.chunk.default: 2,
    aten.unbind.int: 1,
}
