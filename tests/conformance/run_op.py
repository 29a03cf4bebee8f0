"""Run one operator through a program of one instruction, as the compiler writes it.

The program is made from a graph that holds nothing but the operator, so no pass
can replace it: flattened, planned, emitted, loaded from bytes and called.
"""

from __future__ import annotations

from operator import getitem
from types import SimpleNamespace
from typing import Any

import torch
from torch._ops import OpOverload
from torch.fx import Graph
from torch.utils import _pytree as pytree

import penlight
from penlight.emitter import emit
from penlight.ir.edge import IMAGE, EdgeMethod, EdgeProgram, InputKind, InputSpec, OutputKind, OutputSpec
from penlight.pipeline import plan_memory


def overload_of(name: str) -> OpOverload:
    """The operator of a functional name: "aten::add.Tensor", "aten::relu"."""
    namespace, _, rest = name.partition("::")
    packet, _, overload = rest.partition(".")
    found: OpOverload = getattr(getattr(getattr(torch.ops, namespace), packet), overload or "default")
    return found


def one_op_program(
    op: OpOverload, args: list[Any], kwargs: dict[str, Any], result: Any, *, image: bool = False
) -> bytes:
    """The file of a program that calls `op` once.

    Args:
        result: what the operator returns for these arguments; its shapes, dtypes and
            strides are what the program's outputs get.
        image: the strides too of operators whose results are views in ATen.
    """
    graph = Graph()
    inputs: list[InputSpec] = []

    def as_placeholder(tensor: torch.Tensor) -> Any:
        node = graph.placeholder(f"x{len(inputs)}")
        node.meta["val"] = _without_data(tensor)
        inputs.append(InputSpec(InputKind.USER, node.name))
        return node

    node_args, node_kwargs = pytree.tree_map_only(torch.Tensor, as_placeholder, (args, kwargs))
    call = graph.call_function(op, tuple(node_args), node_kwargs)
    call.meta["val"] = pytree.tree_map_only(torch.Tensor, _without_data, result)
    if image:
        call.meta[IMAGE] = True
    results: list[Any] = [call]
    if isinstance(result, list | tuple):
        results = []
        for i, value in enumerate(call.meta["val"]):
            if value is not None:
                item = graph.call_function(getitem, (call, i))
                item.meta["val"] = value
                results.append(item)
    graph.output(tuple(results))
    method = EdgeMethod(
        name="forward",
        graph_module=SimpleNamespace(graph=graph),  # type: ignore[arg-type]  # nothing here runs the graph
        inputs=inputs,
        outputs=[OutputSpec(OutputKind.USER) for _ in results],
        in_spec=pytree.tree_structure((tuple(range(len(inputs))), {})),
        out_spec=pytree.tree_structure(list(range(len(results)))),
    )
    return emit(plan_memory(EdgeProgram({"forward": method}, {})), debug=False).to_bytes()


def run_op(
    op: OpOverload,
    args: list[Any],
    kwargs: dict[str, Any],
    result: Any,
    library: str | None = None,
    *,
    image: bool = False,
) -> list[torch.Tensor]:
    """The operator's results, computed by Penlight. `result` is ATen's, for its shapes."""
    file = one_op_program(op, args, kwargs, result, image=image)
    tensors = [leaf for leaf in pytree.tree_leaves((args, kwargs)) if isinstance(leaf, torch.Tensor)]
    outputs = penlight.load(file, libraries=library)(*tensors)
    # A program without tensor inputs answers in numpy.
    return [value if isinstance(value, torch.Tensor) else _from_numpy(value) for value in outputs]


def _from_numpy(array: Any) -> torch.Tensor:
    if array.dtype.name == "bfloat16":  # a dtype that numpy does not have itself
        return torch.from_numpy(array.view("uint16")).view(torch.bfloat16)
    return torch.from_numpy(array)


def _without_data(tensor: torch.Tensor) -> torch.Tensor:
    return torch.empty_strided(tensor.size(), tensor.stride(), dtype=tensor.dtype, device="meta")
