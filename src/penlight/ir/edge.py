"""EdgeProgram: what the front half of the compiler hands to the back half.

A method is a functional `torch.fx` graph whose nodes carry `meta["val"]` (fake
tensors or SymInts), `meta["stack_trace"]` and `meta["nn_module_stack"]`. What
its placeholders and results mean is said by lists of specs beside the graph, in
the order of the placeholders and of the output node's arguments.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

import sympy
import torch
from torch.fx import GraphModule, Node
from torch.utils._pytree import TreeSpec

from penlight.ir.tensors import Tensors

# In `meta` of a permute_copy: the result is channels-last, the bytes of its source; of a slice or
# split: so are source and results.
IMAGE = "lies_channels_last"
# Names of the operators that take parts of a graph.
CONTROL_FLOW = ("cond", "map_impl", "scan", "while_loop")


class InputKind(Enum):
    USER = "user"  # passed by the caller
    CONSTANT = "constant"  # a weight, buffer or lifted tensor that nothing writes
    STATE = "state"  # a buffer that some method of the program writes


class OutputKind(Enum):
    USER = "user"  # returned to the caller
    MUTATION = "mutation"  # new value of the state tensor named by `target`
    INPUT_MUTATION = "input_mutation"  # new value of the user input named by `target`


@dataclass
class InputSpec:
    """One placeholder. `target` is a key of `EdgeProgram.tensors`, None for user inputs.

    `name` is that of the node; `parameter`, of a user input, what the user's function calls it.
    """

    kind: InputKind
    name: str
    target: str | None = None
    parameter: str | None = None


@dataclass
class OutputSpec:
    """One argument of the output node.

    `target` is a key of `EdgeProgram.tensors` for MUTATION, a placeholder's name
    for INPUT_MUTATION, None for USER.
    """

    kind: OutputKind
    target: str | None = None


@dataclass
class EdgeMethod:
    """One entry point.

    `bounds` gives each symbol of a dynamic dimension its inclusive range, `guards` are conditions on them.
    `in_spec` flattens (args, kwargs); `out_spec` unflattens the user outputs.
    """

    name: str
    graph_module: GraphModule
    inputs: list[InputSpec]
    outputs: list[OutputSpec]
    in_spec: TreeSpec
    out_spec: TreeSpec
    bounds: dict[sympy.Symbol, tuple[int, int]] = field(default_factory=dict)
    guards: list[sympy.Basic] = field(default_factory=list)

    @property
    def graph(self) -> torch.fx.Graph:
        return self.graph_module.graph

    def placeholders(self) -> Iterator[tuple[InputSpec, Node]]:
        """Each input spec with its placeholder node."""
        nodes = [node for node in self.graph.nodes if node.op == "placeholder"]
        yield from zip(self.inputs, nodes, strict=True)


@dataclass
class EdgeProgram:
    """Methods that share constants and state.

    `tensors` holds the constants and the initial values of state, by fully
    qualified name; what passes folded is computed each time it is looked up.
    `constant_methods` are methods that only return a value.
    """

    methods: dict[str, EdgeMethod]
    tensors: Tensors
    target: str = "cpu"
    constant_methods: dict[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        """Each method as its inputs, one line a node with dtype and shape, and its outputs."""
        return "\n\n".join(_method_text(method) for method in self.methods.values())


def _method_text(method: EdgeMethod) -> str:
    lines = [f"method {method.name}"]
    for spec, node in method.placeholders():
        stands_for = spec.parameter if spec.kind is InputKind.USER else spec.target
        lines.append(f"  %{node.name}{_shape_text(node)} = {spec.kind.value} {stands_for or spec.name}")
    lines += _node_lines(method.graph_module, "  ")
    results = method.graph.output_node().args[0]
    for output, node in zip(method.outputs, results, strict=True):  # type: ignore[arg-type]
        lines.append(f"  {output.kind.value} {f'{output.target} = ' if output.target else ''}{node}")
    return "\n".join(lines)


def _node_lines(module: GraphModule, indent: str) -> list[str]:
    """A line for each node; the bodies of control flow stand before the node that runs them."""
    lines = []
    for node in module.graph.nodes:
        if node.op == "call_function":
            arguments = [str(arg) for arg in node.args]
            arguments += [f"{name}={value}" for name, value in node.kwargs.items()]
            lines.append(f"{indent}%{node.name}{_shape_text(node)} = {node.target}({', '.join(arguments)})")
        elif node.op == "get_attr" and isinstance(
            body := getattr(module, str(node.target), None), GraphModule
        ):
            given = [f"%{n.name}{_shape_text(n)}" for n in body.graph.find_nodes(op="placeholder")]
            lines.append(f"{indent}{node.name}({', '.join(given)}):")
            lines += _node_lines(body, indent + "  ")
            lines.append(f"{indent}  return {body.graph.output_node().args[0]}")
    return lines


def _shape_text(node: Node) -> str:
    value: Any = node.meta.get("val")
    if not hasattr(value, "dtype"):
        return ""
    return f":{str(value.dtype).removeprefix('torch.')}[{', '.join(map(str, value.shape))}]"
