"""Walk a method's graph and write down one instruction after the other.

Every result gets a buffer of its own here; which of them can share memory is
decided by `penlight.memory`. Constants and state are named, not copied.
"""

from __future__ import annotations

import operator
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch._ops import HigherOrderOperator, OpOverload
from torch.fx import GraphModule, Node

from penlight.dialects.user_operators import original
from penlight.errors import NotSupported
from penlight.flatten.arguments import bind, to_value
from penlight.flatten.delegates import delegate_call
from penlight.flatten.input_guards import input_guards
from penlight.flatten.input_limits import input_limits
from penlight.flatten.shapes import Bounds, dim_order_of, dtype_of, strides_of
from penlight.flatten.structure import structure_json
from penlight.flatten.written import written_call
from penlight.ir.dtypes import DType
from penlight.ir.edge import IMAGE, EdgeMethod, EdgeProgram, InputKind, OutputKind
from penlight.ir.plan import (
    Buffer,
    KernelCall,
    Kind,
    Label,
    Mutation,
    Number,
    NumberList,
    Plan,
    PlanProgram,
    Step,
    TensorList,
    TensorValue,
    Text,
    Value,
    View,
)
from penlight.ir.sizes import expression
from penlight.ir.source import Source, describe, source_of
from penlight.ir.tensors import Tensors
from penlight.kernels.out_variants import (
    OutVariant,
    by_naming_rule,
    out_variant,
    parameters_of,
    program_name,
    view_twin,
)
from penlight.kernels.prims import COMPOSITES, NAMED_PRIMS, PRIMS, PYTHON_PRIMS

# What an environment maps a node to: one value, or those of an operator with several results.
Result = Value | list[Value]
Env = dict[Node, Result]

_FULL = ("size", "fill_value", "out")

# What passes mark as IMAGE.
_OF_IMAGES = (
    *(torch.ops.aten.permute_copy.default, torch.ops.aten.slice_copy.Tensor),
    *(torch.ops.aten.split_copy.Tensor, torch.ops.aten.split_with_sizes_copy.default),
)
_CLONES = (
    torch.ops.aten.clone.default,
    torch.ops.aten.alias_copy.default,
    torch.ops.aten.lift_fresh_copy.default,
)


def flatten(program: EdgeProgram) -> PlanProgram:
    """Every method as a flat list of instructions.

    Raises:
        UnboundedShape: a size has no upper bound; names it and the node.
        NotSupported: a node has no form that a program can hold.
    """
    tensors = Tensors(program.tensors)
    plans = [MethodFlattener(method, tensors).run() for method in program.methods.values()]
    return PlanProgram(plans, tensors, dict(program.constant_methods))


class MethodFlattener:
    """The instructions of one method, in the making."""

    def __init__(self, method: EdgeMethod, tensors: Tensors) -> None:
        self.method = method
        self.tensors = tensors
        self.bounds = Bounds(method.bounds)
        self.steps: list[Step] = []
        self.shared: dict[str, TensorValue] = {}  # constants and state by name
        self.labels = 0
        self.around: Source | None = None  # of the control flow that is being written down

    def run(self) -> Plan:
        env: Env = {}
        inputs: list[Value] = []
        names: list[str] = []
        texts: dict[int, str] = {}
        examples: list[Any] = []
        by_name: dict[str, Value] = {}
        for spec, node in self.method.placeholders():
            if spec.kind is InputKind.USER:
                value = self.user_input(node)
                if isinstance(text := node.meta.get("val"), str):
                    texts[len(inputs)] = text
                examples.append(node.meta.get("val"))
                inputs.append(value)
                names.append(spec.parameter or spec.name)
                by_name[node.name] = by_name[spec.name] = value
            else:
                assert spec.target is not None
                value = self.stored(spec.target, spec.kind)
            env[node] = value
        results = self.inline(self.method.graph_module, env)
        plan = Plan(
            name=self.method.name,
            steps=self.steps,
            inputs=inputs,
            outputs=[],
            input_names=names,
            texts=texts,
            limits=input_limits(examples, self.bounds),
            guards=input_guards(self.method.guards, examples, names),
            in_structure=structure_json(self.method.in_spec),
            out_structure=structure_json(self.method.out_spec),
        )
        for output, value in zip(self.method.outputs, results, strict=True):
            if output.kind is OutputKind.USER:
                plan.outputs.append(value)
                continue
            target: Value
            if output.kind is OutputKind.MUTATION:
                assert output.target is not None
                target = self.stored(output.target, InputKind.STATE)
            else:
                target = by_name[output.target or ""]
            assert isinstance(target, TensorValue) and isinstance(value, TensorValue)
            if target.buffer.kind is Kind.INPUT:
                target.buffer.planned = False  # the caller's own memory, where the change is seen
                plan.written.append(inputs.index(target))
            if not _fits(value, target):
                raise NotSupported(
                    f"the model gives '{target.name}' another shape than it has",
                    where=f"method {self.method.name}",
                    got=f"{value} for {target}",
                    do="write a result of the same shape, or return it instead",
                )
            if target is not value:
                plan.mutations.append(Mutation(value, target))
        plan.state = [value for value in self.shared.values() if value.buffer.kind is Kind.STATE]
        return plan

    # --- values ----------------------------------------------------------------------------------

    def user_input(self, node: Node) -> Value:
        example = node.meta.get("val")
        if isinstance(example, torch.Tensor):
            return self.tensor(node, example, Kind.INPUT, dim_order_of(example))
        if isinstance(example, torch.SymInt | torch.SymFloat | torch.SymBool):
            return Number(example.node.hint or 0, written=True, name=node.name)
        return (
            Number(example, written=True, name=node.name) if isinstance(example, bool | int | float) else None
        )

    def stored(self, key: str, kind: InputKind) -> TensorValue:
        """The constant or state tensor `key`; one value however often it is asked for."""
        if key not in self.shared:
            tensor = self.tensors.like(key)
            kinds = {InputKind.CONSTANT: Kind.CONSTANT, InputKind.STATE: Kind.STATE}
            order = dim_order_of(tensor)
            value = self._make(
                key, dtype_of(tensor), tuple(tensor.shape), tuple(tensor.shape), order, kinds[kind]
            )
            value.buffer.key = key
            self.shared[key] = value
        return self.shared[key]

    def tensor(
        self,
        node: Node,
        example: torch.Tensor,
        kind: Kind = Kind.ACTIVATION,
        order: Sequence[int] | None = None,
    ) -> TensorValue:
        """A value with the dtype and shape of a node's fake tensor."""
        sizes = tuple(
            self.bounds.upper(size, f"dimension {i} of {describe(node)}")
            for i, size in enumerate(example.shape)
        )
        shape = tuple(expression(size) for size in example.shape)
        return self._make(
            node.name, dtype_of(example), sizes, shape, order or tuple(range(example.dim())), kind
        )

    def scalar(self, number: bool | int | float | complex) -> TensorValue:
        """A number as the 0-d tensor that takes part in type promotion as the number does."""
        key = f"scalar.{type(number).__name__}.{number!r}"
        if key not in self.tensors:
            self.tensors[key] = torch.tensor(
                number, dtype=torch.float32 if isinstance(number, float) else None
            )
        return self.stored(key, InputKind.CONSTANT)

    def _make(
        self,
        name: str,
        dtype: Any,
        sizes: tuple[int, ...],
        shape: tuple[Any, ...],
        order: Sequence[int],
        kind: Kind,
    ) -> TensorValue:
        buffer = Buffer(kind, name, 0)
        dynamic = any(not isinstance(size, int) and not size.is_Integer for size in shape)
        value = TensorValue(name, dtype, sizes, tuple(order), buffer, shape, dynamic)
        buffer.nbytes = value.nbytes
        buffer.tensors.append(value)
        return value

    def like(self, value: TensorValue, name: str) -> TensorValue:
        """A new activation of the same dtype and shape."""
        made = self._make(name, value.dtype, value.sizes, value.shape, value.dim_order, Kind.ACTIVATION)
        made.dynamic = value.dynamic
        return made

    def number(self, node: Node, example: Any) -> Number:
        first: int | bool | float = 0
        if isinstance(example, bool | torch.SymBool):
            first = False
        elif isinstance(example, float | torch.SymFloat):
            first = 0.0
        return Number(first, written=True, name=node.name)

    # --- graphs ----------------------------------------------------------------------------------

    def inline(self, module: GraphModule, env: Env) -> list[Value]:
        """Append the instructions of a graph whose placeholders are in `env`; return its results."""
        for node in module.graph.nodes:
            if node.op == "output":
                results = node.args[0]
                items = results if isinstance(results, list | tuple) else [results]
                return [self.value(item, env) for item in items]
            if node.op == "get_attr":
                self.attribute(module, node, env)
            elif node.op == "call_module":
                env[node] = delegate_call(self, module, node, env)
            elif node.op == "call_function":
                env[node] = self.call(module, node, env)
        raise AssertionError("a graph without output")

    def value(self, item: Any, env: Mapping[Node, Result]) -> Value:
        """What an argument stands for: the value of a node, or a number as it is."""
        if isinstance(item, Node):
            found = env[item]
            assert not isinstance(found, list), f"{item.name} has several results and is used as one"
            return found
        if isinstance(item, str):
            return Text(item)
        return Number(item) if isinstance(item, bool | int | float) else None

    def attribute(self, module: GraphModule, node: Node, env: Env) -> None:
        """A tensor kept in the graph module; sub-graphs are looked up where they are called."""
        found = operator.attrgetter(str(node.target))(module)
        if isinstance(found, torch.Tensor):
            key = f"{self.method.name}.{id(module)}.{node.target}"
            self.tensors[key] = found
            env[node] = self.stored(key, InputKind.CONSTANT)

    def call(self, module: GraphModule, node: Node, env: Env) -> Result:
        from penlight.flatten.control_flow import higher_order

        target = node.target
        if target is operator.getitem:
            results = env[node.args[0]]  # type: ignore[index]
            if isinstance(results, TensorList):
                results = list(results.items)
            assert isinstance(results, list)
            return results[node.args[1]]  # type: ignore[index]
        if isinstance(target, HigherOrderOperator):
            before, self.around = self.around, self.around or _source(node)
            result = higher_order(self, module, node, env)
            self.around = before
            return result
        example = node.meta.get("val")
        if isinstance(example, bool | int | float):
            return Number(example)  # a size that turned out static
        if isinstance(target, OpOverload):
            name = program_name(target)
            if name in PRIMS:
                return self.prim(name, node, env)
            if (changing := original(target)) is not None:
                return written_call(self, changing, node, env)  # type: ignore[return-value]
            return self.operator(target, node, env)
        name = PYTHON_PRIMS.get(target) or NAMED_PRIMS.get(  # type: ignore[arg-type]
            getattr(target, "__name__", "").removeprefix("_"), ""
        )
        if name:
            return self.prim(name, node, env)
        return self.composite_number(target, node, env)

    # --- operators -------------------------------------------------------------------------------

    def append(self, node: Node, step: Step) -> None:
        """Add an instruction. In the body of control flow torch keeps no lines: the operator's own serves."""
        assert not isinstance(step, Label)
        step.node = node.name
        step.source = _source(node) or self.around
        self.steps.append(step)

    def prim(self, name: str, node: Node, env: Env) -> Number:
        """An operator of the runtime on numbers."""
        given = node.args
        if name == "executorch_prim::round.Scalar" and len(given) == 2 and given[1] is None:
            given = given[:1]  # round(x, None): to a whole number
        if len(given) != len(PRIMS[name]) - 1:
            raise self.no_number(node, name.split("::")[1].removesuffix(".Scalar") + " with these arguments")
        args = [self.value(arg, env) for arg in given]
        return self.emit_prim(name, node, args, self.number(node, node.meta.get("val")))

    def no_number(self, node: Node, what: str) -> NotSupported:
        return NotSupported(
            f"a program cannot calculate {what} of sizes",
            where=describe(node),
            do="make the dimension static, or calculate it with + - * // % min max",
        )

    def emit_prim(self, name: str, node: Node, args: list[Value], out: Number) -> Number:
        names = tuple(argument.rstrip("!") for argument in PRIMS[name])
        self.append(node, KernelCall(name, [*args, out], names, [out]))
        return out

    def composite_number(self, target: Any, node: Node, env: Env) -> Number:
        """Calculations with numbers that are made of several prims."""
        args = [self.value(arg, env) for arg in node.args]
        name = getattr(target, "__name__", str(target)).removeprefix("_")
        prim = "executorch_prim::{}.Scalar".format
        if name in ("floor", "sym_floor"):
            real = self.emit_prim(
                prim("floordiv"), node, [*args, Number(1)], Number(0, True, node.name + "_floor")
            )
            return self.emit_prim(prim("sym_int"), node, [real], self.number(node, 0))
        if name == "ne":
            equal = self.emit_prim(prim("eq"), node, args, Number(False, True, node.name + "_eq"))
            return self.emit_prim(prim("sym_not"), node, [equal], self.number(node, False))
        if name == "pow" and isinstance(args[1], Number) and not args[1].written and 1 <= args[1].value <= 8:
            product = args[0]
            for i in range(int(args[1].value) - 1):
                product = self.emit_prim(
                    prim("mul"), node, [product, args[0]], Number(0, True, f"{node.name}_{i}")
                )
            assert isinstance(product, Number)
            return product
        if COMPOSITES.get(name):
            return self.real_function(COMPOSITES[name], node, args)
        raise self.no_number(node, name)

    def real_function(self, op: str, node: Node, args: list[Value]) -> Number:
        """A function of real numbers, by its kernel on 0-d tensors."""
        tensors: list[TensorValue] = []
        for place, arg in enumerate([*args, None]):  # one more for the result
            tensor = self._make(f"{node.name}.{place}", DType.float64, (), (), (), Kind.ACTIVATION)
            if arg is not None:
                call = KernelCall(
                    "aten::full.out", [NumberList(()), arg, tensor], _FULL, [tensor], again=[tensor]
                )
                self.append(node, call)
            tensors.append(tensor)
        out = tensors[-1]
        names = ("self", "exponent")[: len(args)]
        self.append(node, KernelCall(op, list(tensors), (*names, "out"), [out], again=[out]))
        result = self.number(node, node.meta.get("val"))
        real = result if isinstance(result.value, float) else Number(0.0, True, f"{node.name}_real")
        self.emit_prim("aten::_local_scalar_dense", node, [out], real)
        if real is not result:
            self.emit_prim("executorch_prim::sym_int.Scalar", node, [real], result)
        return result

    def operator(self, op: OpOverload, node: Node, env: Env) -> Result:
        """A call of the operator's out variant, on new outputs."""
        variant = out_variant(op) or by_naming_rule(op)
        arguments = bind(parameters_of(op), node.args, node.kwargs)
        args = [
            to_value(
                arguments.get(parameter.name, parameter.default),  # which the functional form may not have
                parameter,
                lambda n: self.value(n, env),
                self.scalar,
            )
            for parameter in variant.parameters
        ]
        example = node.meta["val"]
        if isinstance(example, list | tuple):
            outs = [self.output(op, node, item, i, args) for i, item in enumerate(example)]
        else:
            outs = [self.output(op, node, example, None, args)]
        tensors = [out or self.unused(node, i, outs) for i, out in enumerate(outs)]
        call = KernelCall(
            op=variant.op,
            args=[*args, *self.out_arguments(variant, tensors)],
            names=(*(parameter.name for parameter in variant.parameters), *variant.outs),
            outs=list(tensors),
            again=_again(variant, tensors),
            out_args=len(variant.outs),
        )
        _name_layout_change(call)
        self.note_views(op, node, call, env, arguments)
        self.append(node, call)
        return list(outs) if isinstance(example, list | tuple) else outs[0]

    def out_arguments(self, variant: OutVariant, outs: list[TensorValue]) -> list[Value]:
        return [TensorList(tuple(outs))] if variant.out_list else list(outs)

    def output(
        self, op: OpOverload, node: Node, example: Any, index: int | None, args: Sequence[Value]
    ) -> TensorValue | None:
        if not isinstance(example, torch.Tensor):
            return None
        out = self.tensor(node, example, order=self.order_of(op, node, example, args))
        if index is not None:
            out.name = out.buffer.name = f"{node.name}.{index}"
        return out

    def unused(self, node: Node, index: int, outs: Sequence[TensorValue | None]) -> TensorValue:
        """In the place of a result that was not asked for: kernels have an argument for each."""
        dtype = next((out.dtype for out in outs if out is not None), DType.float32)
        return self._make(f"{node.name}.{index}", dtype, (0,), (0,), (0,), Kind.ACTIVATION)

    def order_of(
        self, op: OpOverload, node: Node, example: torch.Tensor, args: Sequence[Value]
    ) -> tuple[int, ...]:
        """Channels-last where torch says so and a tensor argument is that too, or the node asks for it.

        Strides alone do not tell: those of a view (a permute) can look channels-last, and the
        program's copy of it is row-major, unless a pass made it an image. Nor do arguments: what has
        one channel, or one pixel, lies the same in both orders.
        """
        plain, order, is_image = tuple(range(example.dim())), dim_order_of(example), IMAGE in node.meta
        if order == plain or op in _OF_IMAGES or view_twin(op) is not None:
            return order if is_image and op in _OF_IMAGES else plain
        asked = is_image or node.kwargs.get("memory_format") in (torch.channels_last, torch.channels_last_3d)
        # Penlight's own have one layout each, whatever their arguments have; but chains are as ATen's.
        asked |= op.namespace == "penlight" and program_name(op) != "penlight::elementwise"
        given = any(tensor.dim_order == order for arg in args for tensor in _tensors_of(arg))
        return order if asked or given else plain

    # --- views -----------------------------------------------------------------------------------

    def note_views(
        self, op: OpOverload, node: Node, call: KernelCall, env: Env, arguments: Mapping[str, Any]
    ) -> None:
        """Note where outputs would be the very bytes of an input."""
        twin = view_twin(op)
        source = call.args[0] if call.args else None
        if not isinstance(source, TensorValue):
            return
        outs = [out for out in call.outs if isinstance(out, TensorValue)]
        if op in _CLONES:
            if source.same_layout(outs[0]):
                call.views = [View(source, outs[0])]
        elif twin is not None and source.dynamic | any(out.dynamic for out in outs):
            self.note_dynamic_view(twin, call, source, outs[0])
        elif twin is not None:
            call.views = _static_views(twin, source, outs, node)

    def note_dynamic_view(
        self, twin: OpOverload, call: KernelCall, source: TensorValue, out: TensorValue
    ) -> None:
        """Views that only change sizes: the sizes are those of the operator, or all but one are known."""
        name = twin._schema.name
        if len(call.outs) != 1 or source.dtype != out.dtype:
            return
        if name == "aten::permute" and _lies_as(source, out, call.args[1]):
            _view_under_sizes(call, source, out)
        plain = source.dim_order == tuple(range(len(source.sizes))) and out.dim_order == tuple(
            range(len(out.sizes))
        )
        if not plain:
            return
        if name in ("aten::alias", "aten::detach") or (source.shape == out.shape and name == "aten::view"):
            call.views = [View(source, out)]
        if name in ("aten::view", "aten::_unsafe_view", "aten::reshape") and isinstance(
            call.args[1], NumberList
        ):
            call.views = [View(source, out)]
            call.view_sizes = call.args[1]
        elif name in ("aten::unsqueeze", "aten::squeeze", "aten::alias", "aten::detach"):
            _view_under_sizes(call, source, out)


def _lies_as(source: TensorValue, out: TensorValue, dims: Value) -> bool:
    """Has `out`, whose dimensions are `dims` of `source`, its elements in the same places?"""
    if not isinstance(dims, NumberList) or not all(isinstance(item.value, int) for item in dims.items):
        return False
    rank = len(source.sizes)
    places = [dims.items[dim].value % rank for dim in out.dim_order]
    return tuple(places) == tuple(source.dim_order)


def _view_under_sizes(call: KernelCall, source: TensorValue, out: TensorValue) -> None:
    """Note that `out` is `source` under other sizes, if all but one of them are known."""
    unknown = [size for size in out.shape if not isinstance(size, int) and not size.is_Integer]
    if len(unknown) == 1 and 0 not in out.sizes:
        call.views = [View(source, out)]
        call.view_sizes = NumberList(
            tuple(Number(-1 if size in unknown else int(size)) for size in out.shape)
        )


def _source(node: Node) -> Source | None:
    """The user's line; torch traces control flow through files that do not exist."""
    source = source_of(node)
    return None if source is None or source.file.startswith("<") else source


def _fits(new: TensorValue, target: TensorValue) -> bool:
    """Not so when `out=` names a tensor that PyTorch would resize."""
    if len(new.shape) != len(target.shape):
        return False
    pairs = zip(new.shape, target.shape, strict=True)
    return all(a == b or not (isinstance(a, int) and isinstance(b, int)) for a, b in pairs)


def _name_layout_change(call: KernelCall) -> None:
    """A clone into another dim order is an operator of its own in the file's dialect.

    ExecuTorch's clone refuses tensors of different dim orders.
    """
    source, out = call.args[0], call.outs[0] if call.outs else None
    if (
        call.op != "aten::clone.out"
        or not isinstance(source, TensorValue)
        or not isinstance(out, TensorValue)
    ):
        return
    if source.dim_order != out.dim_order:
        call.op = "dim_order_ops::_to_dim_order_copy.out"
        call.args = [source, Number(False), NumberList(tuple(Number(d) for d in out.dim_order)), out]
        call.names = ("self", "non_blocking", "dim_order", "out")


def _again(variant: OutVariant, outs: list[TensorValue]) -> list[Value]:
    """The results, repeated after the arguments."""
    return [TensorList(tuple(outs))] if variant.out_list or len(outs) > 1 else list(outs)


def _static_views(twin: OpOverload, source: TensorValue, outs: list[TensorValue], node: Node) -> list[View]:
    """Run the view on a tensor without data and see where in the source each result begins.

    Returns nothing unless every result is a dense part of the source in its own dim order.
    """
    strides = strides_of(source.sizes, source.dim_order)
    probe = torch.empty_strided(source.sizes, strides, dtype=getattr(torch, source.dtype.name), device="meta")
    try:
        results = twin(probe, *node.args[1:], **node.kwargs)
    except Exception:  # the view exists only as a copy, for this layout
        return []
    if isinstance(results, torch.Tensor):
        results = [results]
    views = []
    for result, out in zip(results, outs, strict=True):
        dense = strides_of(out.sizes, out.dim_order)
        if 0 not in out.sizes and any(
            have != want
            for have, want, size in zip(result.stride(), dense, out.sizes, strict=True)
            if size != 1
        ):
            return []
        # An empty part may be said to begin after the end of what it is part of.
        start = int(result.storage_offset()) * out.dtype.itemsize if out.nbytes else 0
        views.append(View(source, out, start))
    return views


def _tensors_of(argument: Value) -> Sequence[TensorValue]:
    if isinstance(argument, TensorList):
        return [tensor for tensor in argument.items if tensor is not None]
    return [argument] if isinstance(argument, TensorValue) else []
