"""Calls of the user's operators that change arguments: their kernels write to copies.

In the graph such an operator returns the new values of what it changes
(dialects/user_operators.py). Its kernel changes them where they are, so each is
copied first; where a value goes back to state, the memory plan may drop the copy.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from torch._ops import OpOverload
from torch.fx import Node

from penlight.dialects.user_operators import kernel_name, written_arguments
from penlight.flatten.arguments import bind, to_value
from penlight.ir.plan import KernelCall, TensorList, TensorValue, Value
from penlight.kernels.out_variants import by_naming_rule, out_variant, parameters_of, program_name
from penlight.kernels.table import default_table

if TYPE_CHECKING:
    from penlight.flatten.method import Env, MethodFlattener


def written_call(
    method: MethodFlattener, op: OpOverload, node: Node, env: Env
) -> list[TensorValue | TensorList | None]:
    """Append the call of the kernel of `op`, whose twin `node` calls; its results, then what it changed."""
    variant = out_variant(op) or by_naming_rule(op)
    returns = op._schema.returns
    aliased = [returned for returned in returns if returned.alias_info is not None]
    outs = variant.outs if len(returns) > len(aliased) else ()
    parameters = variant.parameters if outs else parameters_of(op)
    arguments = bind(parameters, node.args, node.kwargs)
    values: list[Value] = [
        to_value(arguments[parameter.name], parameter, lambda n: method.value(n, env), method.scalar)
        for parameter in parameters
    ]
    names = {op._schema.arguments[place].name for place in written_arguments(op)}
    changed: list[Value] = []
    for index, parameter in enumerate(parameters):
        if parameter.name in names:
            values[index] = _copied(method, node, values[index])
            changed.append(values[index])
    examples: Any = node.meta["val"]
    count = len(outs) if not variant.out_list else 1
    results = [method.output(op, node, example, i, values) for i, example in enumerate(examples[:count])]
    tensors = [result for result in results if result is not None]
    writes = [t for value in changed for t in ([value] if isinstance(value, TensorValue) else _items(value))]
    call = KernelCall(
        op=kernel_name(op, default_table(), ()) or (variant.op if outs else program_name(op)),
        args=[*values, *method.out_arguments(variant, tensors)] if outs else values,
        names=(*(parameter.name for parameter in parameters), *outs),
        outs=[*tensors, *writes],
        again=list(tensors) if outs else [changed[0]] if aliased else [],
        out_args=len(outs),
    )
    method.append(node, call)
    return [*results, *changed]  # type: ignore[list-item]


def _items(value: Value) -> list[TensorValue]:
    return [item for item in value.items if item is not None] if isinstance(value, TensorList) else []


def _copied(method: MethodFlattener, node: Node, value: Value) -> Value:
    if isinstance(value, TensorList):
        items = tuple(None if item is None else _copied(method, node, item) for item in value.items)
        return TensorList(items, value.optional)  # type: ignore[arg-type]
    if not isinstance(value, TensorValue):
        return value
    copy = method.like(value, f"{node.name}.{value.name}")
    method.append(
        node,
        KernelCall(
            "aten::clone.out", [value, None, copy], ("self", "memory_format", "out"), [copy], again=[copy]
        ),
    )
    return copy
