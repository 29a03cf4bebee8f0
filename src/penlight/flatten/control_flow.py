"""cond, map, scan and while_loop as jumps.

    cond                          while_loop
        jump ELSE unless p            carried = clones of what it starts with
        ... true graph              LOOP:
        jump END unless false         ... condition graph
    ELSE:                             jump END unless c
        ... false graph               ... body graph
    END:                              carried <- results
                                      jump LOOP unless false
                                    END:

map and scan count: they select row i of each input, run the body and copy each
result to row i of an output (`et_copy_index`, which sets how many rows that
output has). Tensors that change from one round to the next are copied, never
moved: a move would leave two rounds with one memory. A branch writes its results
straight to the results of the cond.
"""

from __future__ import annotations

import operator
from typing import TYPE_CHECKING, Any

import torch
from torch.fx import GraphModule, Node

from penlight.errors import NotSupported
from penlight.ir.plan import (
    JumpFalse,
    KernelCall,
    Kind,
    Label,
    Move,
    Number,
    NumberList,
    TensorValue,
    Value,
)
from penlight.ir.source import describe

if TYPE_CHECKING:
    from penlight.flatten.method import Env, MethodFlattener, Result

_SELECT = ("self", "dim", "index", "out")
_CLONE = ("self", "memory_format", "out")
_COPY = ("self", "src", "non_blocking")
_FULL = ("size", "fill_value", "out")


def higher_order(flat: MethodFlattener, module: GraphModule, node: Node, env: Env) -> Result:
    """Instructions of a higher-order operator."""
    name = str(node.target)
    form = _FORMS.get(name)
    if form is None:
        raise NotSupported(
            f"{name} has no form in a program",
            where=describe(node),
            do="supported are torch.cond, map, scan and while_loop; rewrite it with them, or leave it out",
        )
    return form(_Scope(flat, module, node, env))


class _Scope:
    """One higher-order operator, being written down."""

    def __init__(self, flat: MethodFlattener, module: GraphModule, node: Node, env: Env) -> None:
        self.flat, self.module, self.node, self.env = flat, module, node, env

    def value(self, item: Any) -> Value:
        return self.flat.value(item, self.env)

    def values(self, items: Any) -> list[Value]:
        return [self.value(item) for item in items]

    def graph(self, item: Any) -> GraphModule:
        assert isinstance(item, Node), "the sub-graph of a higher-order operator is an attribute"
        found = operator.attrgetter(str(item.target))(self.module)
        assert isinstance(found, GraphModule)
        return found

    def inline(self, graph: GraphModule, values: list[Value]) -> list[Value]:
        nodes = [node for node in graph.graph.nodes if node.op == "placeholder"]
        return self.flat.inline(graph, dict(zip(nodes, values, strict=True)))

    def results(self) -> list[Value]:
        """A new value for every result."""
        examples = self.node.meta["val"]
        return [self.result(i, item) for i, item in enumerate(examples)]

    def result(self, index: int, example: Any) -> Value:
        if isinstance(example, torch.Tensor):
            value = self.flat.tensor(self.node, example)
            value.name = value.buffer.name = f"{self.node.name}.{index}"
            return value
        return self.flat.number(self.node, example) if example is not None else None

    def label(self, name: str) -> Label:
        self.flat.labels += 1
        return Label(f"{name}{self.flat.labels}")

    def place(self, label: Label) -> None:
        self.flat.steps.append(label)

    def jump(self, condition: Value, target: Label) -> None:
        assert isinstance(condition, TensorValue | Number)
        self.flat.append(self.node, JumpFalse(condition, target))

    def always(self, target: Label) -> None:
        self.jump(Number(False), target)

    def move(self, source: Value, target: Number) -> None:
        assert isinstance(source, Number)
        self.flat.append(self.node, Move(source, target))

    def prim(self, name: str, args: list[Value], out: Number) -> Number:
        return self.flat.emit_prim(name, self.node, args, out)

    def call(self, op: str, args: list[Value], names: tuple[str, ...], out: TensorValue) -> TensorValue:
        self.flat.append(self.node, KernelCall(op, args, names, [out], again=[out]))
        return out

    def clone(self, source: TensorValue, out: TensorValue) -> TensorValue:
        return self.call("aten::clone.out", [source, None, out], _CLONE, out)

    def fresh(self, value: Value, name: str) -> Value:
        """A tensor or number that this operator may write, holding what `value` holds."""
        if isinstance(value, TensorValue):
            return self.clone(value, self.flat.like(value, f"{self.node.name}.{name}"))
        if isinstance(value, Number):
            number = Number(value.value, written=True, name=f"{self.node.name}.{name}")
            self.move(value, number)
            return number
        return value

    def assign(self, targets: list[Value], sources: list[Value]) -> None:
        """targets <- sources, all at once: a source may be another target."""
        written = {id(buffer_or_number(target)) for target in targets}
        staged = [
            self.fresh(source, f"next{i}")
            if source is not target and id(buffer_or_number(source)) in written
            else source
            for i, (target, source) in enumerate(zip(targets, sources, strict=True))
        ]
        for target, source in zip(targets, staged, strict=True):
            if source is target:
                continue
            if isinstance(target, TensorValue) and isinstance(source, TensorValue):
                self.clone(source, target)
            elif isinstance(target, Number):
                self.move(source, target)


def buffer_or_number(value: Value) -> Any:
    return value.buffer if isinstance(value, TensorValue) else value


# --- cond ----------------------------------------------------------------------------------------


def _cond(scope: _Scope) -> Result:
    predicate, true, false = scope.node.args[:3]
    operands = scope.values(scope.node.args[3])
    results = scope.results()
    otherwise, end = scope.label("else"), scope.label("end")
    scope.jump(scope.value(predicate), otherwise)
    _branch(scope, scope.graph(true), operands, results)
    scope.always(end)
    scope.place(otherwise)
    _branch(scope, scope.graph(false), operands, results)
    scope.place(end)
    return results


def _branch(scope: _Scope, graph: GraphModule, operands: list[Value], results: list[Value]) -> None:
    begin = len(scope.flat.steps)
    values = scope.inline(graph, list(operands))
    steps = scope.flat.steps[begin:]
    made = {id(out) for step in steps if isinstance(step, KernelCall) for out in step.outs}
    looped = any(isinstance(step, Label) for step in steps)
    left: list[tuple[Value, Value]] = []
    for result, value in zip(results, values, strict=True):
        direct = (
            isinstance(value, TensorValue)
            and isinstance(result, TensorValue)
            and id(value) in made
            and not looped
            and sum(other is value for other in values) == 1
            and value.buffer.tensors == [value]
            and value.same_layout(result)
        )
        if direct:
            assert isinstance(value, TensorValue) and isinstance(result, TensorValue)
            for step in steps:
                if isinstance(step, KernelCall):
                    step.replace({value: result})
        else:
            left.append((result, value))
    scope.assign([result for result, _ in left], [value for _, value in left])


# --- loops ---------------------------------------------------------------------------------------


def _while_loop(scope: _Scope) -> Result:
    condition, body = scope.node.args[:2]
    carried_in = scope.values(scope.node.args[2])
    additional = scope.values(scope.node.args[3] if len(scope.node.args) > 3 else ())
    carried = [scope.fresh(value, str(i)) for i, value in enumerate(carried_in)]
    loop, end = scope.label("loop"), scope.label("end")
    scope.place(loop)
    (go_on,) = scope.inline(scope.graph(condition), [*carried, *additional])
    scope.jump(go_on, end)
    scope.assign(carried, scope.inline(scope.graph(body), [*carried, *additional]))
    scope.always(loop)
    scope.place(end)
    return carried


def _map(scope: _Scope) -> Result:
    body, xs, constants = scope.node.args[:3]
    rows = scope.results()
    others = scope.values(constants)

    def step(selected: list[Value]) -> list[Value]:
        return scope.inline(scope.graph(body), [*selected, *others])

    _count(scope, scope.values(xs), step, rows)
    return rows


def _scan(scope: _Scope) -> Result:
    body, start, xs = scope.node.args[:3]
    additional = scope.values(scope.node.args[3] if len(scope.node.args) > 3 else ())
    carried = [scope.fresh(value, str(i)) for i, value in enumerate(scope.values(start))]
    rows = scope.results()[len(carried) :]
    following: list[Value] = []

    def step(selected: list[Value]) -> list[Value]:
        results = scope.inline(scope.graph(body), [*carried, *selected, *additional])
        following[:] = results[: len(carried)]
        return results[len(carried) :]

    _count(scope, scope.values(xs), step, rows, after=lambda: scope.assign(carried, following))
    return [*carried, *rows]


def _count(scope: _Scope, xs: list[Value], step: Any, rows: list[Value], after: Any = None) -> None:
    """For each row i of `xs`: rows[k][i] = results of `step`; then `after`."""
    tensors = [x for x in xs if isinstance(x, TensorValue)]
    assert tensors, "a loop over the rows of nothing"
    static = isinstance(tensors[0].shape[0], int)
    count = Number(tensors[0].sizes[0])
    if static and count.value == 0:
        return
    name = scope.node.name
    i = Number(0, written=True, name=f"{name}.i")
    more = Number(False, written=True, name=f"{name}.more")
    loop, end = scope.label("loop"), scope.label("end")
    if not static:
        count = scope.prim("aten::sym_size.int", [tensors[0], Number(0)], Number(0, True, f"{name}.count"))
        for row in rows:
            _empty(scope, row, tensors)
    scope.move(Number(0), i)
    scope.place(loop)
    if not static:
        scope.prim("executorch_prim::lt.Scalar", [i, count], more)
        scope.jump(more, end)
    results = step([_row(scope, x, i, k) for k, x in enumerate(tensors)])
    for row, result in zip(rows, results, strict=True):
        assert isinstance(row, TensorValue) and isinstance(result, TensorValue)
        row.dynamic = True
        scope.flat.append(
            scope.node,
            KernelCall(
                "executorch_prim::et_copy_index.tensor",
                [row, result, i],
                ("copy_to", "copy_from", "index"),
                [row],
                out_args=0,
            ),
        )
    if after:
        after()
    scope.prim("executorch_prim::add.Scalar", [i, Number(1)], i)
    if static:
        scope.prim("executorch_prim::ge.Scalar", [i, count], more)
        scope.jump(more, loop)
    else:
        scope.always(loop)
        scope.place(end)


def _row(scope: _Scope, x: TensorValue, i: Number, index: int) -> TensorValue:
    out = scope.flat._make(
        f"{scope.node.name}.x{index}",
        x.dtype,
        x.sizes[1:],
        x.shape[1:],
        tuple(range(len(x.sizes) - 1)),
        Kind.ACTIVATION,
    )
    return scope.call("aten::select_copy.int_out", [x, Number(0), i, out], _SELECT, out)


def _empty(scope: _Scope, row: Value, xs: list[TensorValue]) -> None:
    """No rows, for the case that the loop is not entered."""
    assert isinstance(row, TensorValue)
    sizes = [Number(0), *(_size(scope, size, xs) for size in row.shape[1:])]
    scope.call("aten::full.out", [NumberList(tuple(sizes)), Number(0), row], _FULL, row)


def _size(scope: _Scope, size: Any, xs: list[TensorValue]) -> Number:
    """A symbolic size is read off `xs`, where one of them has it; else nothing tells what it would be."""
    if isinstance(size, int):
        return Number(size)
    for x in xs:
        for dim, other in enumerate(x.shape):
            if str(other) == str(size):
                result = Number(0, True, f"{scope.node.name}.size")
                return scope.prim("aten::sym_size.int", [x, Number(dim)], result)
    return Number(0)


_FORMS = {"cond": _cond, "map_impl": _map, "scan": _scan, "while_loop": _while_loop}
