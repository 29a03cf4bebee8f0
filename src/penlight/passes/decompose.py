"""ATen to Core ATen: copy a functional graph, splitting the operators that are not legal.

Re-tracing a whole program through torch's dispatcher takes longer than exporting
it did, and most nodes do not change. So legal nodes are copied with the fake
tensor they already have, and only the others are run, on their fake arguments,
under a mode that writes what their decomposition calls into the new graph (and
splits that in turn). Sizes that a decomposition computes from symbols become
nodes again.

Needs:  no mutation (functionalize.py runs before).
Keeps:  every output's shape, dtype and value; source lines of the nodes split.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from typing import Any

import torch
from torch._dispatch.python import enable_python_dispatcher
from torch._ops import HigherOrderOperator, OpOverload
from torch._prims_common import suggest_memory_format
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.fx import Graph, GraphModule, Node
from torch.fx.experimental.symbolic_shapes import GuardOnDataDependentSymNode, rebind_unbacked
from torch.fx.node import map_arg
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import (
    TorchDispatchMode,
    _get_current_dispatch_mode,
    _pop_mode_temporarily,
)

from penlight.errors import NotSupported, PenlightError
from penlight.ir.edge import EdgeMethod
from penlight.ir.sizes import said_by_view, with_numbers
from penlight.ir.source import describe
from penlight.ir.tensors import Tensors
from penlight.passes.constants import Constants
from penlight.passes.functionalize import CannotFunctionalize, functionalize
from penlight.passes.symbols import SymbolNodes

Legal = Callable[[OpOverload], bool]
Table = Mapping[Any, Callable[..., Any]]
# What splits a call of an operator, legal or not, for what it is given; None where nothing does.
OfCall = Callable[[OpOverload, Any, Any], Callable[..., Any] | None]


def decompose(graph_module: GraphModule, legal: Legal, table: Table, of_call: OfCall) -> GraphModule:
    """A new graph module whose operators are legal, or have no decomposition."""
    return _Decomposer(graph_module, legal, table, of_call).run()


def scan(
    body: Callable[..., Sequence[torch.Tensor]],
    carried: Sequence[torch.Tensor],
    rows: Sequence[torch.Tensor],
    constants: Sequence[torch.Tensor],
) -> list[torch.Tensor]:
    """For decompositions: a loop over the first dimension of `rows`, as torch's `scan` is one.

    `body` takes what is carried, a row of each of `rows`, and `constants`; it gives what is
    carried on, then results. Returns what is carried in the end, then each result for all rows.
    """
    mode = _get_current_dispatch_mode()
    assert isinstance(mode, _Decomposer), "for use in a decomposition"
    return mode.scan(body, carried, rows, constants)


def whole(op: OpOverload, *args: Any) -> Any:
    """For decompositions: the operator as it is, which dies where nothing reads its results."""
    mode = _get_current_dispatch_mode()
    assert isinstance(mode, _Decomposer), "for use in a decomposition"
    with _pop_mode_temporarily():
        return mode.emit(op, args, {})


def fake_mode_of(graph: Graph) -> FakeTensorMode | None:
    """The mode that made the graph's fake tensors."""
    for node in graph.nodes:
        for value in pytree.tree_leaves(node.meta.get("val")):
            if isinstance(value, FakeTensor):
                return value.fake_mode
    return None


def lift_constants(method: EdgeMethod, tensors: Tensors) -> None:
    """Tensors that implementations brought along become constants of the method."""
    module = method.graph_module
    _hoist(module)
    constants = Constants(module.graph, method, tensors, fake_mode_of(module.graph))
    for node in list(module.graph.find_nodes(op="get_attr")):
        value = _attribute(module, str(node.target))
        if isinstance(value, torch.Tensor) and constants.can_add():
            node.replace_all_uses_with(constants.add(f"{method.name}.{node.target}", value.detach()))
            module.graph.erase_node(node)


def _hoist(module: GraphModule) -> None:
    """Tensors inside the bodies of control flow become operands, given from the graph around."""
    for node in [node for node in module.graph.nodes if isinstance(node.target, HigherOrderOperator)]:
        bodies = [
            (arg, getattr(module, str(arg.target)))
            for arg in node.args
            if isinstance(arg, Node) and arg.op == "get_attr"
        ]
        for attribute, body in bodies:
            _hoist(body)
            for inner in list(body.graph.find_nodes(op="get_attr")):
                value = getattr(body, str(inner.target))
                if not isinstance(value, torch.Tensor):
                    continue
                name = f"{attribute.target}_{inner.target}"
                module.register_buffer(name, value, persistent=False)
                with module.graph.inserting_before(node):
                    outer = module.graph.get_attr(name)
                outer.meta = dict(inner.meta)
                node.args = (*node.args[:-1], [*node.args[-1], outer])
                for _, other in bodies:  # they all take the same operands
                    last = other.graph.find_nodes(op="placeholder")[-1:]
                    with other.graph.inserting_after(*last) if last else other.graph.inserting_before():
                        given = other.graph.placeholder(name)
                    given.meta = dict(inner.meta)
                    if other is body:
                        inner.replace_all_uses_with(given)
                body.graph.erase_node(inner)


class WritesInside(Exception):
    """A decomposition wrote to a tensor."""


class _AsksForNumbers(Exception):
    """A decomposition in C++ asked a tensor for sizes that are symbols."""


class _NoKernel(Exception):
    """A decomposition ends in a primitive of torch's that nothing computes: the operator stays whole."""


class _Decomposer(TorchDispatchMode):
    def __init__(self, source: GraphModule, legal: Legal, table: Table, of_call: OfCall) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.source, self.legal, self.table, self.of_call = source, legal, table, of_call
        self.graph = Graph()
        self.symbols = SymbolNodes(self.graph)
        self.env: dict[Node, Any] = {}  # old node -> new node, or a tuple of them
        self.node_of: dict[int, Node] = {}  # id of a fake tensor -> its node in the new graph
        self.alive: list[Any] = []  # keeps the ids above unique
        self.current: Node | None = None
        self.submodules: dict[str, Any] = {}
        self.mode: FakeTensorMode | None = None
        self.depth = 0  # of decompositions within decompositions

    def run(self) -> GraphModule:
        mode = self.mode = fake_mode_of(self.source.graph)
        with mode or nullcontext(), torch.no_grad():
            for node in self.source.graph.nodes:
                self.current = node
                self.env[node] = self.convert(node)
        self.graph.lint()
        return GraphModule(self.submodules, self.graph)

    def inside(self, body: GraphModule) -> GraphModule:
        return _Decomposer(body, self.legal, self.table, self.of_call).run()

    # --- old nodes ---------------------------------------------------------------------------------

    def convert(self, node: Node) -> Any:
        if node.op == "get_attr":
            value = _attribute(self.source, str(node.target))
            if isinstance(value, GraphModule):
                value = self.inside(value)
            self.submodules[str(node.target)] = value
            return self.copy(node)
        if node.op != "call_function":
            return self.copy(node)
        if node.target is operator.getitem and isinstance(self.env[node.args[0]], (tuple, list)):  # type: ignore[index]
            return self.env[node.args[0]][node.args[1]]  # type: ignore[index]
        if node.target is torch.ops.aten.item.default:
            # Run again it would give another symbol than the one that later sizes have.
            copied = self.copy(node)
            copied.target = torch.ops.aten._local_scalar_dense.default
            return copied
        if not isinstance(node.target, OpOverload) or (self.keeps(node.target) and not self.splits(node)):
            return self.copy(node)
        args, kwargs = _plain(map_arg((node.args, node.kwargs), self.value))
        fixed = set(self.fixed_sizes())
        try:
            result = self.lower(node.target, args, kwargs)
        except _AsksForNumbers:
            raise NotSupported(
                f"the parts of {node.target} are known only for static sizes",
                where=describe(node),
                got="a dynamic dimension",
                do="make the dimension static, or write the operator out in the model",
            ) from None
        except GuardOnDataDependentSymNode as error:
            raise NotSupported(
                f"the parts of {node.target} are known only for sizes that do not depend on values",
                where=describe(node),
                got=str(error).split("\n")[0][:200],
                do="compile for a target with a kernel of the whole operator, as cpu has",
            ) from None
        except PenlightError:
            raise
        except (ArithmeticError, LookupError, RuntimeError, TypeError, ValueError) as error:
            raise NotSupported(
                f"{node.target} cannot be made of others for these arguments",
                where=describe(node),
                got=f"{type(error).__name__}: {error}".split("\n")[0][:200],
                do="write the operator out in the model, or give it arguments of other types or sizes",
            ) from error
        if self.mode is not None and self.mode.shape_env is not None:
            # Sizes that depend on values got symbols anew: later nodes know them by the old ones.
            rebind_unbacked(self.mode.shape_env, node, result)
            for leaf in pytree.tree_leaves(result):
                if isinstance(leaf, torch.Tensor):
                    self.symbols.see(self.argument(leaf))
        for symbol in set(self.fixed_sizes()) - fixed:
            raise NotSupported(
                f"the parts of {node.target} are known only for one size of a dynamic dimension",
                where=describe(node),
                got=f"{symbol} would have to be {self.fixed_sizes()[symbol]}",
                do="make the dimension static, or compile for a target with a kernel of the whole operator",
            )
        return pytree.tree_map(lambda leaf: self.argument(leaf), result)

    def copy(self, node: Node) -> Node:
        copied = self.graph.node_copy(node, self.new)
        copied.meta = dict(node.meta)
        self.symbols.see(copied)
        return copied

    def new(self, node: Node) -> Node:
        found = self.env[node]
        assert isinstance(found, Node | int | float | tuple | list), found
        return found  # type: ignore[return-value]

    def value(self, node: Node) -> Any:
        """What a node stands for, registered so that uses of it find the new node."""
        value = node.meta.get("val")
        for leaf, new in zip(pytree.tree_leaves(value), pytree.tree_leaves(self.env[node]), strict=False):
            if isinstance(leaf, torch.Tensor) and isinstance(new, Node):
                self.node_of[id(leaf)] = new
                self.alive.append(leaf)
        return value

    def fixed_sizes(self) -> dict[Any, Any]:
        """Symbols that something has asked to be a number."""
        env = getattr(self.mode, "shape_env", None)
        return {} if env is None else {s: n for s, n in env.replacements.items() if n.is_number}

    # --- operators under the mode ------------------------------------------------------------------

    def keeps(self, op: OpOverload) -> bool:
        return self.legal(op) or (op not in self.table and not _is_composite(op))

    def splits(self, node: Node) -> bool:
        args, kwargs = map_arg((node.args, node.kwargs), lambda n: n.meta.get("val"))
        return self.of_call(node.target, args, kwargs) is not None  # type: ignore[arg-type]

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func.namespace == "prim":  # a question such as "which device?"
            return func(*args, **(kwargs or {}))
        if func in _SIZES:
            raise _AsksForNumbers
        return self.lower(func, args, kwargs or {})

    def lower(self, op: OpOverload, args: Any, kwargs: Any) -> Any:
        if self.depth and any(argument.is_out for argument in op._schema.arguments):
            raise WritesInside(op)
        split = None if op._schema.is_mutable else self.of_call(op, args, kwargs)
        if split is None and not self.legal(op):
            split = self.table.get(op)
            if op._schema.is_mutable and (split is None or op._schema.name.endswith("_")):
                raise WritesInside(op)
            if split is None and _is_composite(op):
                split = op.decompose
            elif split is None and op.namespace == "prims" and self.depth:
                raise _NoKernel(op)
        result = NotImplemented if split is None else self.run_split(split, args, kwargs)
        return self.emit(op, args, kwargs) if result is NotImplemented else result

    def run_split(self, split: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        """Run a decomposition; if it writes to tensors of its own, again with the writes taken out.

        What the first attempt left in the graph has no users and dies.
        """
        self.depth += 1
        try:
            with self:
                return split(*args, **kwargs)
        except _NoKernel:
            return NotImplemented
        except WritesInside:
            recorded = _Recorder(args, kwargs)
            with recorded:
                result = split(*args, **kwargs)
            recorded.finish(result)
            return self.replay(recorded)
        finally:
            self.depth -= 1

    def replay(self, recorded: _Recorder) -> Any:
        try:
            functionalize(recorded.graph)
        except CannotFunctionalize:
            return NotImplemented  # such as torch.complex: it stays whole, and the kernel check has the word
        values: dict[Node, Any] = dict(
            zip(recorded.graph.find_nodes(op="placeholder"), recorded.inputs, strict=True)
        )
        for node in recorded.graph.nodes:
            args, kwargs = _plain(map_arg((node.args, node.kwargs), lambda n: values[n]))
            if node.op == "output":
                return args[0]
            if node.op == "call_function":
                is_op = isinstance(node.target, OpOverload)
                values[node] = (
                    self.lower(node.target, args, kwargs) if is_op else node.target(*args, **kwargs)
                )
        raise AssertionError("a graph without output")

    def scan(
        self,
        body: Callable[..., Sequence[torch.Tensor]],
        carried: Sequence[torch.Tensor],
        rows: Sequence[torch.Tensor],
        constants: Sequence[torch.Tensor],
    ) -> list[torch.Tensor]:
        """See the function `scan`."""
        with _pop_mode_temporarily():
            given = [torch.empty_like(value) for value in carried]
            given += [torch.empty(row.shape[1:], dtype=row.dtype) for row in rows]
            given += [torch.empty_like(value) for value in constants]
            recorded = _Recorder(given, {})
            with recorded:
                made = body(*given)
            recorded.finish(tuple(made))
            module = self.inside(GraphModule({}, recorded.graph))
            results = [torch.empty_like(value) for value in made[: len(carried)]]
            results += [
                torch.empty((rows[0].shape[0], *value.shape), dtype=value.dtype)
                for value in made[len(carried) :]
            ]
        name = f"scan_{len(self.submodules)}"
        self.submodules[name] = module
        operands = [[self.argument(value) for value in group] for group in (carried, rows, constants)]
        node = self.graph.call_function(torch.ops.higher_order.scan, (self.graph.get_attr(name), *operands))
        self.describe(node, tuple(results))
        self.parts(node, results)
        return results

    def emit(self, op: OpOverload, args: Any, kwargs: Any) -> Any:
        with enable_python_dispatcher():  # symbolic sizes are for Python to work out
            result = _SHAPES.get(op, op)(*args, **kwargs)
        if op is torch.ops.aten.view.default:
            result = with_numbers(result, said_by_view(result, args[1]))
        if isinstance(result, bool | int | float) or result is None:
            return result
        new_args, new_kwargs = pytree.tree_map(self.argument, (args, kwargs))
        node = self.graph.call_function(op, tuple(new_args), new_kwargs)
        self.describe(node, result)
        if isinstance(result, tuple | list):
            self.parts(node, result)
        elif isinstance(result, torch.Tensor):
            self.node_of[id(result)] = node
        return result

    def parts(self, node: Node, results: Sequence[Any]) -> None:
        """A node for every tensor of a node that has several."""
        for index, item in enumerate(results):
            if isinstance(item, torch.Tensor):
                part = self.graph.call_function(operator.getitem, (node, index))
                self.describe(part, item)
                self.node_of[id(item)] = part

    def describe(self, node: Node, value: Any) -> None:
        if self.current is not None:
            node.meta = {key: self.current.meta[key] for key in _KEPT_META if key in self.current.meta}
        node.meta["val"] = value
        self.alive.append(value)
        self.symbols.see(node)

    def constant(self, value: torch.Tensor) -> Node:
        """A tensor that a Python implementation brings along, as an attribute of the new graph."""
        kept = value.constant if isinstance(value, FakeTensor) else value
        if kept is None or kept.layout is not torch.strided or kept.device.type != "cpu":
            raise NotSupported(
                "a decomposition uses a tensor that is no node of the graph",
                where=describe(self.current) if self.current else None,
            )
        name = f"constant_{len(self.submodules)}"
        self.submodules[name] = kept  # detached later: here that would give a fake tensor
        node = self.graph.get_attr(name)
        self.node_of[id(value)] = node
        self.describe(node, torch.empty(kept.shape, dtype=kept.dtype))
        self.alive.append(value)
        return node

    def argument(self, value: Any) -> Any:
        """A value as an argument in the new graph."""
        if isinstance(value, torch.Tensor):
            node = self.node_of.get(id(value))
            return self.constant(value) if node is None else node
        if isinstance(value, torch.SymInt | torch.SymFloat | torch.SymBool):
            meta = (
                {}
                if self.current is None
                else {k: self.current.meta[k] for k in _KEPT_META if k in self.current.meta}
            )
            return self.symbols.node(value, meta)
        return value


def _padded(x: torch.Tensor, pad: Sequence[Any], value: Any = 0) -> torch.Tensor:
    sizes = [*x.shape]
    for i in range(len(pad) // 2):
        sizes[-1 - i] = sizes[-1 - i] + pad[2 * i] + pad[2 * i + 1]
    return torch.empty(sizes, dtype=x.dtype, memory_format=suggest_memory_format(x))


# What a result looks like, where torch may take symbolic sizes for numbers: after an export that recorded
# gradients, it asks C++ about this operator.
_SHAPES: dict[OpOverload, Callable[..., Any]] = {torch.ops.aten.constant_pad_nd.default: _padded}

# What a composite in C++ asks that knows no symbols.
_SIZES = frozenset({torch.ops.aten.size.default, torch.ops.aten.stride.default, torch.ops.aten.numel.default})
_KEPT_META = ("stack_trace", "nn_module_stack", "source_fn_stack", "torch_fn")


class _Recorder(TorchDispatchMode):
    """Writes down the operators that a function calls, writes and views as they come."""

    def __init__(self, args: Any, kwargs: Any) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.graph = Graph()
        self.node_of: dict[int, Node] = {}
        self.alive: list[Any] = []
        self.inputs = [leaf for leaf in pytree.tree_leaves((args, kwargs)) if isinstance(leaf, torch.Tensor)]
        for index, tensor in enumerate(self.inputs):
            self.note(self.graph.placeholder(f"input_{index}"), tensor)

    def note(self, node: Node, value: Any) -> None:
        # A later write may change the shape of the tensor object itself; the node keeps what it is now.
        node.meta["val"] = pytree.tree_map(lambda v: v.detach() if isinstance(v, torch.Tensor) else v, value)
        self.alive.append(value)
        if isinstance(value, torch.Tensor):
            self.node_of[id(value)] = node

    def argument(self, value: Any) -> Any:
        if not isinstance(value, torch.Tensor):
            return value
        if id(value) not in self.node_of:  # one that the function brings along
            self.inputs.append(value)
            self.note(self.graph.placeholder(f"input_{len(self.inputs)}"), value)
        return self.node_of[id(value)]

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if func.namespace == "prim":
            return func(*args, **kwargs)
        new_args, new_kwargs = pytree.tree_map(self.argument, (args, kwargs))
        result = func(*args, **kwargs)
        node = self.graph.call_function(func, tuple(new_args), new_kwargs)
        self.note(node, result)
        if isinstance(result, tuple | list):
            for index, item in enumerate(result):
                self.note(self.graph.call_function(operator.getitem, (node, index)), item)
        return result

    def finish(self, result: Any) -> None:
        self.graph.output(pytree.tree_map(self.argument, result))


def _is_composite(op: OpOverload) -> bool:
    return torch._C._dispatch_has_kernel_for_dispatch_key(op.name(), "CompositeImplicitAutograd")


def _plain(value: Any) -> Any:
    """Arguments with ordinary lists and dicts: a decomposition may change its own."""
    if isinstance(value, list):
        return [_plain(item) for item in value]
    if isinstance(value, tuple):
        return tuple(_plain(item) for item in value)
    if isinstance(value, dict):
        return {name: _plain(item) for name, item in value.items()}
    return value


def _attribute(module: Any, path: str) -> Any:
    for name in path.split("."):
        module = getattr(module, name)
    return module
