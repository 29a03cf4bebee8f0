"""Compute at compile time what depends on constants alone.

The file must not grow for it, or not much: a result is folded if it is small for the
operators that go, not larger than the constants it replaces (which then die), read
from a table and small beside all weights, or takes much longer to compute than to read
and is not large beside them. Results that share constants replace them
together. So a transposed weight is folded, and the parts of one that is cut up, and an
expanded mask or a large `full` is not. Large results are computed when the file is
written. What is made like another tensor (`new_zeros`, `full_like`) depends on nothing
if its sizes are known.

Needs:  edge dialect; Keeps: every output.
"""

from __future__ import annotations

import operator
from collections.abc import Iterator
from typing import Any

import torch
from torch._ops import OpOverload
from torch.fx import Graph, Node
from torch.fx.node import map_arg
from torch.utils._python_dispatch import _disable_current_modes

from penlight.errors import InvalidInput
from penlight.ir.source import describe
from penlight.ir.tensors import PIECE, Derived
from penlight.kernels.out_variants import view_twin
from penlight.passes.base import tensor_of
from penlight.passes.constants import Constants

aten = torch.ops.aten

# Bytes for an operator that goes. Position tables and masks of a few thousand elements are worth
# their place in the file, and larger ones that take many operators to make.
_SMALL = 16 * 1024
# What is read from tables, as the bias of each pair of pixels by their distance, may take this part
# of the weights' bytes each time that this pass runs.
_SHARE = 50
# What takes much longer to compute than to read, as the attention that positions alone give, may take this
# part of what else there is, however often the pass runs: the names of such results tell.
_SHARE_OF_SLOW = 3
_COMPUTED = "computed."
_SLOW = {"mm", "bmm", "addmm", "baddbmm", "linear", "matmul", "convolution", "_softmax", "_log_softmax"}
_SLOW |= {"exp", "log", "sin", "cos", "tan", "tanh", "sigmoid", "erf", "gelu", "silu"}
_LOOKUPS = {aten.index.Tensor, aten.index_select.default, aten.embedding.default, aten.gather.default}


def fold_constants(graph: Graph, constants: Constants) -> int:
    """Replace nodes by constants; return how many."""
    if not constants.can_add():
        return 0
    folded = _fill_by_size(graph)
    known = set(constants.names)  # nodes that depend on constants alone
    for node in graph.nodes:
        if _can_fold(node) and known.issuperset(node.all_input_nodes):
            known.add(node)
    # Only what something else uses needs a value: the frontier.
    frontier = [
        node
        for node in graph.nodes
        if node in known and node.op != "placeholder" and not known.issuperset(node.users)
    ]
    values: dict[Node, Any] = {}  # small ones, computed once
    seen = set(frontier)
    joint = _Joint(frontier, known, constants)
    sizes = {one: _nbytes(like) for one in constants.names if (like := constants.like(one)) is not None}
    total, computed = sum(sizes.values()), sum(sizes[one] for one in sizes if _is_computed(one, constants))
    room, room_of_slow = total // _SHARE, (total - computed) // _SHARE_OF_SLOW - computed
    for node in frontier:
        value = _can_keep(node)
        worth = value is not None and (_is_worth(node, constants) or joint.is_worth(node))
        if value is not None and not worth and _reads_table(node) and _nbytes(value) <= room:
            worth, room = True, room - _nbytes(value)
        is_computed = worth and any(_is_computed(one, constants) for one in _sources(node, constants))
        if value is not None and not worth and _nbytes(value) <= room_of_slow and _is_slow(node, constants):
            worth = is_computed = True
            room_of_slow -= _nbytes(value)
        if value is None or not worth:
            # What it is made of may be smaller, as the places at which a table is read.
            more = [one for one in node.all_input_nodes if one.op != "placeholder" and one not in seen]
            seen.update(more)
            frontier += more
            continue
        name = (_COMPUTED if is_computed else "folded.") + node.name
        new = constants.add(name, _value(node, value, constants, values))
        node.replace_all_uses_with(new, delete_user_cb=lambda user: user not in known or user in seen)
        folded += 1
    return folded


def _can_keep(node: Node) -> torch.Tensor | None:
    """Its value if that is a tensor of known sizes with elements."""
    value = tensor_of(node)
    if value is None or not all(isinstance(size, int) for size in value.shape):
        return None
    # `full` makes what has none; not every runtime reads constants without bytes.
    return None if 0 in value.shape else value


# What makes a tensor like another one -> where its arguments have the number that fills it.
_FILLS: dict[Any, int | float] = {
    aten.new_zeros.default: 0,
    aten.new_ones.default: 1,
    aten.zeros_like.default: 0,
    aten.ones_like.default: 1,
}
_FILLS_WITH = {aten.new_full.default: 2, aten.full_like.default: 1}


def _fill_by_size(graph: Graph) -> int:
    """Make what is filled with one number, of known sizes, without the tensor it is made like."""
    changed = 0
    for node in graph.nodes:
        if node.op != "call_function" or node.target not in (*_FILLS, *_FILLS_WITH):
            continue
        value: Any = tensor_of(node)
        place = _FILLS_WITH.get(node.target)
        number = _FILLS[node.target] if place is None else node.args[place]
        if not all(isinstance(size, int) for size in value.shape) or not isinstance(number, int | float):
            continue
        node.target, node.args = aten.full.default, ([*value.shape], number)
        node.kwargs = {"dtype": value.dtype}
        changed += 1
    return changed


def _value(node: Node, like: torch.Tensor, constants: Constants, values: dict[Node, Any]) -> Any:
    """A tensor, or what computes it when its bytes are wanted if they are many."""
    if _nbytes(like) <= _SMALL:
        return _compute(node, constants, values)
    chain = _views(node)
    if chain is not None:
        # Views of one constant: the bytes are there, in another order.
        kept = constants.kept(chain[0])
        source = kept.source if isinstance(kept, Derived) else kept
        if source is not None:
            for view in chain[1:]:
                source = _view(view, source)
            return Derived.of(source)
    steps = _steps(node, constants)
    inputs = {one: constants.kept(one) for one in _sources(node, constants)}
    program = [(step, step.target, step.args, step.kwargs) for step in steps]

    def pieces() -> Iterator[torch.Tensor]:
        known = {n: t.tensor() if isinstance(t, Derived) else t for n, t in inputs.items()}
        for step, target, args, kwargs in program[:-1]:
            known[step] = _run(target, args, kwargs, known)
        _, target, args, kwargs = program[-1]
        for rows in _row_ranges(like) if _is_by_element(target) else [None]:
            part = known if rows is None else {n: _rows_of(t, like, rows) for n, t in known.items()}
            result = _run(target, args, kwargs, part)
            assert isinstance(result, torch.Tensor)
            yield result

    return Derived(like, pieces)


def _is_by_element(target: Any) -> bool:
    return isinstance(target, OpOverload) and torch.Tag.pointwise in target.tags


def _row_ranges(like: torch.Tensor) -> Iterator[slice]:
    """Rows that make about a piece each."""
    count = max(1, PIECE * like.shape[0] // _nbytes(like))
    return (slice(start, start + count) for start in range(0, like.shape[0], count))


def _rows_of(value: Any, like: torch.Tensor, rows: slice) -> Any:
    """What these rows of a result like `like` are made of."""
    whole = isinstance(value, torch.Tensor) and value.dim() == like.dim() and value.shape[0] == like.shape[0]
    return value[rows] if whole else value


def _can_fold(node: Node) -> bool:
    if node.op != "call_function":
        return False
    if node.target is operator.getitem:
        return True
    if node.kwargs.get("memory_format") is torch.channels_last:
        return False  # constants are stored in row-major order
    if not isinstance(node.target, OpOverload) or node.target.namespace not in ("aten", "prims"):
        return False
    return (
        torch.Tag.nondeterministic_seeded not in node.target.tags
        and not node.target._schema.is_mutable
        and "empty" not in node.target._schema.name
    )


def _reads_table(node: Node) -> bool:
    """Is it what is found at some places of a tensor, seen in some order?"""
    while _is_view(node.target):
        node = node.all_input_nodes[0]
    return node.target in _LOOKUPS


def _is_computed(constant: Node, constants: Constants) -> bool:
    return constants.names[constant].startswith(_COMPUTED)


def _is_slow(node: Node, constants: Constants) -> bool:
    """Is there among what it is made of a slow operator, for half as many elements at least?"""
    value = tensor_of(node)
    assert value is not None
    return any(
        isinstance(step.target, OpOverload)
        and step.target._schema.name.removeprefix("aten::") in _SLOW
        and (made := tensor_of(step)) is not None
        and 2 * made.numel() >= value.numel()
        for step in _steps(node, constants)
    )


def _is_view(target: Any) -> bool:
    return isinstance(target, OpOverload) and (view_twin(target) is not None or target is aten.clone.default)


def _is_worth(node: Node, constants: Constants) -> bool:
    value = tensor_of(node)
    assert value is not None
    if _nbytes(value) <= _SMALL:
        return True
    seen, todo = {node}, [node]
    while todo:
        more = [source for source in todo.pop().all_input_nodes if source not in seen]
        seen.update(more)
        todo += more
    sources = seen - {node}
    replaced = _SMALL * (1 + sum(_takes_time(one) for one in sources if one.op != "placeholder"))
    return _nbytes(value) <= replaced + _bytes_that_go(seen, constants)


def _bytes_that_go(seen: set[Node], constants: Constants) -> int:
    """Of constants that nothing but these nodes reads."""
    gone = [constants.like(one) for one in seen if seen.issuperset(one.users)]
    return sum(_nbytes(like) for like in gone if like is not None)


class _Joint:
    """Results of constants that are worth their place only together, as the parts of a weight are."""

    def __init__(self, frontier: list[Node], known: set[Node], constants: Constants) -> None:
        self.frontier = set(frontier)
        self.known = known  # that depend on constants alone
        self.constants = constants
        self.verdicts: dict[Node, bool] = {}

    def is_worth(self, node: Node) -> bool:
        if node not in self.frontier:
            return False
        if node not in self.verdicts:
            seen = self._connected(node)
            together = seen & self.frontier
            values = [value for one in together if (value := _can_keep(one)) is not None]
            size = sum(map(_nbytes, values))
            worth = len(values) == len(together) and size <= _bytes_that_go(seen, self.constants)
            self.verdicts.update(dict.fromkeys(together, worth))
        return self.verdicts[node]

    def _connected(self, node: Node) -> set[Node]:
        """What these results are made of, and the others that are made of that, and so on."""
        seen, todo = {node}, [node]
        while todo:
            one = todo.pop()
            inner = one not in self.frontier and self.known.issuperset(one.users)
            beside = one.users if inner else ()
            more = [other for other in (*one.all_input_nodes, *beside) if other not in seen]
            seen.update(more)
            todo += more
        return seen


def _takes_time(node: Node) -> bool:
    """Does it when a program runs? Views, and what picks one of several results, do not."""
    return isinstance(node.target, OpOverload) and view_twin(node.target) is None


def _nbytes(tensor: torch.Tensor) -> int:
    return tensor.numel() * tensor.element_size()


# --- values ----------------------------------------------------------------------------------------


def _steps(node: Node, constants: Constants) -> list[Node]:
    """What has to run for `node`, in order, without recursion."""
    order: dict[Node, None] = {}
    todo = [node]
    while todo:
        current = todo[-1]
        waiting = [n for n in current.all_input_nodes if n not in order and n not in constants.names]
        if waiting:
            todo.extend(waiting)
            continue
        todo.pop()
        order[current] = None
    return list(order)


def _sources(node: Node, constants: Constants) -> set[Node]:
    """The constants that it is made of."""
    return {one for step in _steps(node, constants) for one in step.all_input_nodes if one in constants.names}


def _compute(node: Node, constants: Constants, values: dict[Node, Any]) -> Any:
    for step in _steps(node, constants):
        if step not in values:
            for source in step.all_input_nodes:
                if source in constants.names:
                    values[source] = constants.get(source)
            try:
                values[step] = _run(step.target, step.args, step.kwargs, values)
            except (RuntimeError, IndexError, ValueError, NotImplementedError) as error:
                raise InvalidInput(
                    f"{step.target} of constants of the model fails, in every run of it",
                    where=describe(step),
                    got=f"{type(error).__name__}: {error}",
                    do="mend the numbers that it is given in the model",
                ) from error
    return values[node].detach()


def _run(target: Any, args: Any, kwargs: Any, known: dict[Node, Any]) -> Any:
    args, kwargs = map_arg((args, kwargs), lambda n: known[n])
    with torch.no_grad(), _disable_current_modes():
        return target(*args, **kwargs)


def _views(node: Node) -> list[Node] | None:
    """The constant and the views of it that lead to `node`, if there is nothing else."""
    chain = [node]
    while chain[-1].op == "call_function":
        if not _is_view(chain[-1].target) or len(chain[-1].all_input_nodes) != 1:
            return None
        chain.append(chain[-1].all_input_nodes[0])
    return chain[::-1]


def _view(node: Node, source: torch.Tensor) -> torch.Tensor:
    """A copy only where the view cannot be had of these strides."""
    assert isinstance(node.target, OpOverload)
    twin = view_twin(node.target)
    if twin is None:
        return source
    with torch.no_grad(), _disable_current_modes():
        try:
            result = twin(source, *node.args[1:], **node.kwargs)
        except RuntimeError:
            result = twin(source.contiguous(), *node.args[1:], **node.kwargs)
    assert isinstance(result, torch.Tensor)
    return result
