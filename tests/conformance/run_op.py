"""Run one operator through a program of one instruction, as the compiler writes it.

The program is made from a graph that holds nothing but the operator, so no pass
can replace it: flattened, planned, emitted, loaded from bytes and called.
"""

from __future__ import annotations

from operator import getitem
from typing import Any

import torch
from torch._ops import OpOverload
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx import Graph, GraphModule
from torch.utils import _pytree as pytree

import penlight
from penlight.emit import emit
from penlight.ir.edge import EdgeMethod, EdgeProgram, InputKind, InputSpec, OutputKind, OutputSpec
from penlight.pipeline import plan_memory


def overload_of(name: str) -> OpOverload:
    """The operator of a functional name: "aten::add.Tensor", "aten::relu"."""
    namespace, _, rest = name.partition("::")
    packet, _, overload = rest.partition(".")
    found: OpOverload = getattr(getattr(getattr(torch.ops, namespace), packet), overload or "default")
    return found


def one_op_program(
    op: OpOverload, args: list[Any], kwargs: dict[str, Any]
) -> tuple[bytes, list[torch.Tensor]]:
    """The file of a program that calls `op` once, and the tensors to call it with."""
    graph = Graph()
    leaves, spec = pytree.tree_flatten((args, kwargs))
    tensors = [leaf for leaf in leaves if isinstance(leaf, torch.Tensor)]
    mode = FakeTensorMode()
    fakes = [mode.from_tensor(tensor) for tensor in tensors]
    nodes, inputs = [], []
    for i, fake in enumerate(fakes):
        node = graph.placeholder(f"x{i}")
        node.meta["val"] = fake
        nodes.append(node)
        inputs.append(InputSpec(InputKind.USER, f"x{i}"))

    def place(values: list[Any]) -> Any:
        following = iter(values)
        return pytree.tree_unflatten(
            [next(following) if isinstance(leaf, torch.Tensor) else leaf for leaf in leaves], spec
        )

    node_args, node_kwargs = place(nodes)
    call = graph.call_function(op, tuple(node_args), node_kwargs)
    call.meta["val"] = _fake_result(op, args, kwargs, mode, place(fakes))
    count = len(op._schema.returns)
    results: list[Any] = [call]
    if isinstance(call.meta["val"], list | tuple):
        results = []
        for i, value in enumerate(call.meta["val"]):
            if value is not None:
                item = graph.call_function(getitem, (call, i))
                item.meta["val"] = value
                results.append(item)
    graph.output(tuple(results))
    method = EdgeMethod(
        "forward",
        GraphModule(torch.nn.Module(), graph),
        inputs,
        [OutputSpec(OutputKind.USER) for _ in results],
        pytree.tree_structure((tuple(range(len(fakes))), {})),
        pytree.tree_structure(tuple(range(len(results))) if count != 1 or len(results) != 1 else 0),
    )
    return emit(plan_memory(EdgeProgram({"forward": method}, {}))).to_bytes(), tensors


def run_op(op: OpOverload, args: list[Any], kwargs: dict[str, Any], library: str | None = None) -> Any:
    """The operator's result (a tensor, or a tuple of them), computed by Penlight."""
    file, tensors = one_op_program(op, args, kwargs)
    return penlight.load(file, libraries=library)(*tensors)


def _fake_result(
    op: OpOverload, args: list[Any], kwargs: dict[str, Any], mode: FakeTensorMode, fake: Any
) -> Any:
    """What the result looks like; asked of the operator itself where shapes depend on data."""
    try:
        with mode:
            return op(*fake[0], **fake[1])
    except Exception:  # data-dependent, or no meta kernel
        result = op(*args, **kwargs)
        return pytree.tree_map_only(torch.Tensor, mode.from_tensor, result)
