"""The edge dialect: what the back half of the compiler accepts, and the verifier of it.

An edge graph has only
  * calls of functional operators (views as their `_copy` twins), of control
    flow (cond, map, scan, while_loop), of getitem, and of Python's arithmetic
    on sizes;
  * tensors whose dtype a program file can hold, contiguous except at inputs;
  * arguments of the type the schema names: no Python number where it has a
    tensor, and one dtype where ATen would promote.
"""

from __future__ import annotations

import operator
from typing import Any

import torch
from torch._ops import HigherOrderOperator, OpOverload
from torch.fx import Graph, GraphModule, Node

from penlight.errors import IllegalGraph
from penlight.ir.dtypes import DType
from penlight.ir.edge import CONTROL_FLOW, EdgeMethod, EdgeProgram, InputKind, OutputKind
from penlight.ir.source import describe
from penlight.kernels.prims import COMPOSITES, NAMED_PRIMS, PYTHON_PRIMS


def verify(program: EdgeProgram, after: str = "the last pass", *, edge: bool = True) -> None:
    """Check every graph of `program`.

    Args:
        after: name of the pass that ran last, for messages.
        edge: also check what only holds in the edge dialect, not yet in Core ATen.

    Raises:
        IllegalGraph: the first rule broken; names node, source line and pass.
    """
    for method in program.methods.values():
        _verify_specs(program, method, after)
        _verify_module(method.graph_module, after, edge)


def _verify_specs(program: EdgeProgram, method: EdgeMethod, after: str) -> None:
    nodes = [node for node in method.graph.nodes if node.op == "placeholder"]
    if len(nodes) != len(method.inputs):
        raise IllegalGraph(
            f"method '{method.name}' has {len(nodes)} inputs and {len(method.inputs)} specs after {after}"
        )
    for spec, node in zip(method.inputs, nodes, strict=True):
        if spec.kind is not InputKind.USER and spec.target not in program.tensors:
            raise IllegalGraph(
                f"input {node.name} stands for the tensor '{spec.target}', which is not there after {after}"
            )
    results: Any = method.graph.output_node().args[0]
    if len(results) != len(method.outputs):
        raise IllegalGraph(
            f"method '{method.name}' has {len(results)} results and {len(method.outputs)} specs after {after}"
        )
    states = {spec.target for spec in method.inputs if spec.kind is InputKind.STATE}
    for spec_out in method.outputs:
        if spec_out.kind is OutputKind.MUTATION and spec_out.target not in states:
            raise IllegalGraph(
                f"'{spec_out.target}' is written but is no state of method '{method.name}' after {after}"
            )


def _verify_module(module: GraphModule, after: str, edge: bool) -> None:
    _verify_order(module.graph, after)
    for node in module.graph.nodes:
        problem = _problem(node, module, edge)
        if problem:
            raise IllegalGraph(f"{problem}, after {after}", where=describe(node))
    for child in module.children():
        if isinstance(child, GraphModule):
            _verify_module(child, after, edge)


def _verify_order(graph: Graph, after: str) -> None:
    seen: set[Node] = set()
    for node in graph.nodes:
        for used in node.all_input_nodes:
            if used not in seen:
                raise IllegalGraph(
                    f"{node.name} uses {used.name} before it is defined, after {after}", where=describe(node)
                )
        seen.add(node)


def _problem(node: Node, module: GraphModule, edge: bool) -> str | None:
    if node.op in ("placeholder", "output"):
        return None
    if node.op == "get_attr":
        return (
            None if isinstance(getattr(module, str(node.target), None), GraphModule) else "a hidden constant"
        )
    if node.op != "call_function":
        return f"a node of kind {node.op}"
    if "val" not in node.meta:
        return "no value is known for the result"
    target = node.target
    if target is operator.getitem or target in PYTHON_PRIMS or _name(target) in NAMED_PRIMS:
        return None
    if _name(target).removeprefix("_") in COMPOSITES:
        return None
    if isinstance(target, HigherOrderOperator):
        return (
            None
            if target.name() in CONTROL_FLOW
            else f"the higher-order operator {target.name()} is not supported"
        )
    if not isinstance(target, OpOverload):
        return f"{_name(target)} is no operator"
    if target._schema.is_mutable:
        return f"{target} changes its input"
    if edge:
        return _edge_problem(node, target)
    return None


def _edge_problem(node: Node, target: OpOverload) -> str | None:
    if target.is_view:
        return f"{target} is a view, not a copy"
    for argument, value in zip(target._schema.arguments, node.args, strict=False):
        if str(argument.type) == "Tensor" and isinstance(value, bool | int | float):
            return f"{target} takes a tensor as '{argument.name}', not the number {value}"
    for value in _tensors(node.meta["val"]):
        if str(value.dtype).removeprefix("torch.") not in DType.__members__:
            return f"a program cannot hold {value.dtype}"
    return None


def _tensors(value: Any) -> list[torch.Tensor]:
    return [
        item
        for item in (value if isinstance(value, tuple | list) else (value,))
        if isinstance(item, torch.Tensor)
    ]


def _name(target: Any) -> str:
    return str(getattr(target, "__name__", target))
