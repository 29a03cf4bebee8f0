"""Operators of the user: those that change their arguments, and those that exist only in Python.

An operator that changes an argument (`step(Tensor(a!) state, Tensor x) -> Tensor`)
becomes one that returns the argument's new value beside its results, and a
`copy_` of that to where it belongs, which functionalize.py knows how to treat.

An operator without a kernel, whose implementation is a Python function, is
split by running that function on fake tensors: what it calls takes its place.
That makes a program of any `torch.library.custom_op` over tensor operations.
"""

from __future__ import annotations

import operator
import os
import re
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import torch
from torch._ops import OpOverload
from torch.fx import Graph, Node
from torch.utils import _pytree as pytree

from penlight.dialects import grouped
from penlight.errors import NotSupported, PenlightError
from penlight.kernels.out_variants import by_naming_rule, out_variant, program_name
from penlight.kernels.table import OpTable
from penlight.passes.decompose import WritesInside

aten = torch.ops.aten
_OURS = ("aten", "prims", "prim", "penlight", "higher_order", "_operator")
_TWINS = "penlight_written"
# Frames in these folders are not the user's.
_NOT_USERS = (str(Path(__file__).resolve().parents[1]), os.path.dirname(torch.__file__))
_original: dict[OpOverload, OpOverload] = {}  # operator that returns what it changed -> the user's


def is_users(op: OpOverload) -> bool:
    return op.namespace not in _OURS


def original(op: OpOverload) -> OpOverload | None:
    """The operator that changes its arguments, of the twin that returns them."""
    return _original.get(op)


def kernel_name(op: OpOverload, table: OpTable, libraries: tuple[str, ...]) -> str | None:
    """The name of the kernel that computes an operator of the user; None when there is none."""
    op = _original.get(op, op)
    names = [(out_variant(op) or by_naming_rule(op)).op, program_name(op)]
    return next((name for name in names if table.rows(name, libraries)), None)


# --- operators that change their arguments ---------------------------------------------------------


def written_arguments(op: OpOverload) -> list[int]:
    """Positions in the schema."""
    return [
        index
        for index, argument in enumerate(op._schema.arguments)
        if argument.alias_info is not None and argument.alias_info.is_write
    ]


def _returns_itself(op: OpOverload) -> bool:
    """Does the operator return the one argument that it changes, as in-place operators do?"""
    returns = op._schema.returns
    return len(returns) == 1 and returns[0].alias_info is not None


def return_written(graph: Graph) -> int:
    """Let operators of the user return what they change; a copy_ brings it where it belongs."""
    changed = 0
    for node in list(graph.nodes):
        op = node.target
        if node.op != "call_function" or not isinstance(op, OpOverload) or not is_users(op):
            continue
        if op._schema.is_mutable and not any(argument.is_out for argument in op._schema.arguments):
            _return_written(graph, node, op)
            changed += 1
    return changed


def _return_written(graph: Graph, node: Node, op: OpOverload) -> None:
    twin = twin_of(op)
    results = node.meta.get("val")
    several = isinstance(results, tuple | list) and len(op._schema.returns) != 1
    itself = _returns_itself(op)
    values: list[Any] = [] if itself or not op._schema.returns else [*results] if several else [results]  # type: ignore[misc]
    with graph.inserting_before(node):
        call = graph.call_function(twin, node.args, node.kwargs)
        call.meta = dict(node.meta)
        copies = []
        for position in written_arguments(op):
            given = _given(node, op, position)
            leaves = [leaf for leaf in pytree.tree_leaves(given) if isinstance(leaf, Node)]
            new = [_fresh(leaf.meta["val"]) for leaf in leaves]
            is_list = isinstance(given, list | tuple)
            copies.append((len(values), leaves, new, is_list))
            values.append(new if is_list else new[0] if new else _nothing(node))
        call.meta["val"] = tuple(values)

        def part(source: Node, index: int, value: Any) -> Node:
            made = graph.call_function(operator.getitem, (source, index))
            made.meta = {**node.meta, "val": value}
            return made

        for index, leaves, new, is_list in copies:
            if not leaves:
                continue
            parts = part(call, index, values[index])
            for i, leaf in enumerate(leaves):
                source = part(parts, i, new[i]) if is_list else parts
                copy = graph.call_function(aten.copy_.default, (leaf, source))
                copy.meta = {**node.meta, "val": leaf.meta["val"]}
        if itself:
            node.replace_all_uses_with(copies[0][1][0])
        elif op._schema.returns:
            node.replace_all_uses_with(call if several else part(call, 0, values[0]))
    graph.erase_node(node)


@contextmanager
def functionalized_by_torch() -> Iterator[None]:
    """While torch re-traces a program: changed arguments take the form that take_over() reads."""
    from torch._export import config as export_config
    from torch._inductor import config

    with (
        config.patch(enable_auto_functionalized_v2=False),
        export_config.patch(enable_auto_functionalized_v2_for_export=False),
    ):
        yield


def take_over(graph: Graph) -> int:
    """What torch made of operators that change arguments, as their twins."""
    changed = 0
    for node in list(graph.find_nodes(op="call_function", target=torch.ops.higher_order.auto_functionalized)):
        op: OpOverload = node.args[0]
        names = [argument.name for argument in op._schema.arguments]
        missing = {a.name: a.default_value for a in op._schema.arguments if a.has_default_value()}
        given = {**missing, **node.kwargs}
        options = {a.name for a in op._schema.arguments if a.kwarg_only}
        with graph.inserting_before(node):
            call = graph.call_function(
                twin_of(op),
                tuple(given[name] for name in names if name not in options),
                {name: given[name] for name in names if name in options},
            )
        values = node.meta["val"]
        # torch puts a None in front where there are no results.
        skipped = 0 if op._schema.returns else 1
        call.meta = {**node.meta, "val": tuple(values[skipped:])}
        for user in list(node.users):
            user.args = (call, user.args[1] - skipped)
        graph.erase_node(node)
        changed += 1
    return changed


def _given(node: Node, op: OpOverload, position: int) -> Any:
    if position < len(node.args):
        return node.args[position]
    return node.kwargs.get(op._schema.arguments[position].name)


def _fresh(value: Any) -> Any:
    """A fake tensor like `value` with memory of its own."""
    with value.fake_mode:
        return torch.empty(value.shape, dtype=value.dtype)


def _nothing(node: Node) -> Any:
    leaf = next(leaf for leaf in pytree.tree_leaves(node.meta.get("val")) if isinstance(leaf, torch.Tensor))
    with leaf.fake_mode:  # type: ignore[attr-defined]
        return torch.empty(0)


@cache
def twin_of(op: OpOverload) -> OpOverload:
    """The operator that returns its results and the new values of what `op` changes."""
    schema = op._schema
    name = f"{schema.name.replace('::', '__')}" + (
        f"__{schema.overload_name}" if schema.overload_name else ""
    )
    places = written_arguments(op)
    text = re.sub(r"\(\w+!(?: -> \w+!?)?\)", "", str(schema)).split("(", 1)[1].rpartition(" -> ")[0]
    lists = [
        "[]" in str(schema.arguments[place].type) or "List" in str(schema.arguments[place].type)
        for place in places
    ]
    returns = [str(returned.type).replace("List[Tensor]", "Tensor[]") for returned in schema.returns]
    returns = [] if _returns_itself(op) else returns
    returns += ["Tensor[]" if is_list else "Tensor" for is_list in lists]
    library = _library()
    library.define(f"{name}({text} -> ({', '.join(returns)})")

    def run(*args: Any, **kwargs: Any) -> Any:
        return returning_written(op, op, args, kwargs)

    library.impl(name, run, "CompositeExplicitAutograd")
    torch.library.register_fake(f"{_TWINS}::{name}", run, lib=library)
    twin: OpOverload = getattr(getattr(torch.ops, _TWINS), name).default
    _original[twin] = op
    return twin


@cache
def _library() -> torch.library.Library:
    return torch.library.Library(_TWINS, "FRAGMENT")


def returning_written(
    op: OpOverload, function: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> tuple[Any, ...]:
    """Run `function` on copies of what `op` changes; its results, and the copies after it."""
    given, named = list(args), dict(kwargs)
    copies = []
    for place in written_arguments(op):
        name = op._schema.arguments[place].name
        value = given[place] if place < len(given) else named.get(name)
        copied = pytree.tree_map(lambda leaf: leaf.clone() if isinstance(leaf, torch.Tensor) else leaf, value)
        if place < len(given):
            given[place] = copied
        elif name in named:
            named[name] = copied
        copies.append(torch.empty(0) if copied is None else copied)
    results = function(*given, **named)
    if not op._schema.returns or _returns_itself(op):
        return tuple(copies)
    return (
        *(results if isinstance(results, tuple | list) and len(op._schema.returns) > 1 else [results]),
        *copies,
    )


# --- operators in Python ---------------------------------------------------------------------------


class Splits(dict[Any, Callable[..., Any]]):
    """A table of decompositions that knows the user's operators in Python as well."""

    def __init__(self, known: Mapping[Any, Callable[..., Any]], table: OpTable, libraries: tuple[str, ...]):
        super().__init__(known)
        self.kernels, self.libraries = table, libraries

    def get(self, op: Any, default: Any = None) -> Any:
        if op in self.keys() or not isinstance(op, OpOverload) or not is_users(op):
            return super().get(op, default)
        if kernel_name(op, self.kernels, self.libraries) is not None:
            return default
        same = grouped.BY_NAME.get(op._schema.name)
        return split_of(op) or default if same is None else super().get(same)

    def __contains__(self, op: object) -> bool:
        return self.get(op) is not None


@cache
def split_of(op: OpOverload) -> Callable[..., Any] | None:
    """What runs in place of an operator whose implementation is a Python function."""
    users = _original.get(op, op)
    function = implementation_of(users)
    if function is None:
        return None

    def split(*args: Any, **kwargs: Any) -> Any:
        try:
            if users is not op:
                return returning_written(users, function, args, kwargs)
            results = function(*args, **kwargs)
        except (PenlightError, WritesInside):
            raise
        except Exception as error:
            raise _untraceable(users, error) from error
        return _agreed(users, results, args, kwargs)

    return split


def implementation_of(op: OpOverload) -> Callable[..., Any] | None:
    """The Python function behind an operator on the CPU; None for operators in C++."""
    from torch._library.custom_ops import OPDEFS

    name = op._schema.name
    defined = OPDEFS.get(name)
    if defined is not None and op._overloadname == "default":
        function = defined._backend_fns.get("cpu")
        if function is None and None in defined._backend_fns:
            function = defined._init_fn
        return function  # type: ignore[no-any-return]
    listed = torch._C._dispatch_dump(op.name()).splitlines()
    for key in ("CPU", "CompositeExplicitAutograd"):
        for line in listed:
            if re.match(rf"{key}(\[alias\])?: registered at .*\.py:\d+ ", line):
                keys = torch._C.DispatchKeySet(torch._C.DispatchKey.CPU)
                return lambda *args, **kwargs: op.redispatch(keys, *args, **kwargs)
    return None


def _untraceable(op: OpOverload, error: Exception) -> NotSupported:
    frames = [
        frame
        for frame in traceback.extract_tb(error.__traceback__)
        if not frame.filename.startswith(_NOT_USERS) and frame.lineno
    ]
    where = f"{frames[-1].filename}:{frames[-1].lineno} in {frames[-1].name}" if frames else None
    reason = " ".join(str(error).split())[:200]
    return NotSupported(
        f"the operator {op._schema.name} has no kernel, and its Python implementation cannot be traced",
        where=where,
        got=f"{type(error).__name__}: {reason}",
        do="write it with tensor operations only (no numpy, .item() or if on values), "
        "or give it a kernel: penlight.ops.load('operator.cpp')",
    )


def _agreed(op: OpOverload, results: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
    """What follows was traced with the sizes that the operator's fake function gave."""
    entry = torch._library.simple_registry.singleton.find(op._schema.name)
    fake = entry.fake_impl.kernel
    if fake is None:
        return results
    try:
        wanted = fake.func(*args, **kwargs)
    except Exception:  # it needs the context that torch gives it while it traces
        return results
    pairs = zip(pytree.tree_leaves(results), pytree.tree_leaves(wanted), strict=False)
    for have, want in pairs:
        if isinstance(have, torch.Tensor) and isinstance(want, torch.Tensor):
            same = have.dtype == want.dtype and list(map(str, have.shape)) == list(map(str, want.shape))
            if not same:
                made = f"implementation {have.dtype} {list(have.shape)}"
                raise NotSupported(
                    f"the fake function of {op._schema.name} disagrees with its implementation",
                    got=f"fake {want.dtype} {list(want.shape)}, {made}",
                    do="let the function given to register_fake return what the implementation does",
                )
    return results
