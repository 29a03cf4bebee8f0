"""The operators that models call, each with its shapes, as values that fit into JSON.

A tensor among the arguments is {"shape", "dtype", "weight"}; a weight is known when a
model is compiled, and may be packed then.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils import _pytree as pytree

Spec = dict[str, Any]
FOLDED = (
    "batch_norm", "dropout", "_assert", "sym_", "alias", "lift_fresh", "detach", "empty", "arange", "full",
    "clone", "_to_copy", "aten.to.", "contiguous",
)  # fmt: skip


def calls_of(module: nn.Module, args: tuple[Tensor, ...]) -> Iterator[Spec]:
    """Each call once: {"op", "args", "kwargs"}; views and what is folded away are left out."""
    with torch.no_grad():
        program = torch.export.export(module, args).run_decompositions({})
    signature = program.graph_signature
    mutable = set(signature.buffers_to_mutate.values())
    known = (
        set(signature.inputs_to_parameters)
        | {name for name, buffer in signature.inputs_to_buffers.items() if buffer not in mutable}
        | set(signature.inputs_to_lifted_tensor_constants)
    )
    seen = set()
    for node in program.graph.nodes:
        op = node.target
        if node.op != "call_function" or not isinstance(op, torch._ops.OpOverload) or _is_left_out(op):
            continue
        try:
            spec = {
                "op": str(op),
                "args": [_value(arg, known) for arg in node.args],
                "kwargs": {key: _value(arg, known) for key, arg in node.kwargs.items()},
            }
        except ValueError:
            continue
        if repr(spec) not in seen and any(not leaf["weight"] for leaf in tensors(spec)):
            seen.add(repr(spec))
            yield spec


def _is_left_out(op: torch._ops.OpOverload) -> bool:
    views = any(out.alias_info is not None for out in op._schema.returns)
    return views or op.namespace != "aten" or any(word in str(op) for word in FOLDED)


def _value(arg: Any, known: set[str]) -> Any:
    if isinstance(arg, torch.fx.Node):
        value = arg.meta["val"]
        if not isinstance(value, Tensor) or value.dtype not in (torch.float32, torch.int64, torch.bool):
            raise ValueError
        return {"shape": [*value.shape], "dtype": str(value.dtype)[6:], "weight": arg.name in known}
    if isinstance(arg, list | tuple):
        return [_value(item, known) for item in arg]
    if arg is None or isinstance(arg, bool | int | float | str):
        return arg
    raise ValueError


def _is_tensor(value: Any) -> bool:
    return isinstance(value, dict) and "shape" in value


def tensors(spec: Spec) -> list[Spec]:
    leaves = pytree.tree_leaves((spec["args"], spec["kwargs"]), is_leaf=_is_tensor)
    return [leaf for leaf in leaves if _is_tensor(leaf)]


class Call(nn.Module):
    """A module that does nothing but one call; `inputs` are what it takes."""

    def __init__(self, spec: Spec) -> None:
        super().__init__()
        names = spec["op"].split(".")
        self.op = getattr(getattr(torch.ops.aten, names[1]), names[2])
        leaves, self.shape = pytree.tree_flatten((spec["args"], spec["kwargs"]), is_leaf=_is_tensor)
        self.leaves: list[Any] = []
        made: list[Tensor] = []
        for place, leaf in enumerate(leaves):
            if not _is_tensor(leaf):
                self.leaves.append(leaf)
                continue
            value = _numbers(leaf, place)
            if leaf["weight"]:
                self.register_buffer(f"weight_{place}", value)
                self.leaves.append(f"weight_{place}")
            else:
                self.leaves.append(("input", len(made)))
                made.append(value)
        self.inputs = tuple(made)

    def forward(self, *inputs: Tensor) -> Any:
        given = [
            inputs[leaf[1]]
            if isinstance(leaf, tuple)
            else getattr(self, leaf)
            if isinstance(leaf, str) and leaf.startswith("weight_")
            else leaf
            for leaf in self.leaves
        ]
        args, kwargs = pytree.tree_unflatten(given, self.shape)
        return self.op(*args, **kwargs)


def _numbers(leaf: Spec, seed: int) -> Tensor:
    """Of a tensor's shape and dtype; whole numbers are small enough to be places."""
    if leaf["dtype"] == "float32":
        return torch.randn(leaf["shape"], generator=torch.Generator().manual_seed(seed))
    count = 1
    for size in leaf["shape"]:
        count *= size
    if leaf["dtype"] == "bool":
        return torch.ones(leaf["shape"], dtype=torch.bool)
    return (torch.arange(count) % 97).reshape(leaf["shape"])


def flops(spec: Spec, out: Tensor) -> int:
    """Of products, counting a multiplication and an addition as two; 0 for what is bound by memory."""
    name, given = spec["op"].split(".")[1], tensors(spec)
    if name.startswith("conv"):
        return 2 * out.numel() * _product(given[1]["shape"][1:])
    if name in ("linear", "matmul", "mm", "bmm"):
        return 2 * out.numel() * int(given[0]["shape"][-1])
    if name == "addmm":
        return 2 * out.numel() * int(given[1]["shape"][-1])
    if name == "scaled_dot_product_attention":
        causal = (len(spec["args"]) > 5 and spec["args"][5]) or spec["kwargs"].get("is_causal", False)
        return 4 * out.numel() * int(given[1]["shape"][-2]) // (2 if causal else 1)
    return 0


def bytes_moved(spec: Spec, out: Tensor) -> int:
    """Read and written, each tensor once; of a table of rows, what is looked up."""
    size = {"float32": 4, "int64": 8, "bool": 1}
    read = [leaf for leaf in tensors(spec) if not (leaf["weight"] and "embedding" in spec["op"])]
    return sum(_product(leaf["shape"]) * size[leaf["dtype"]] for leaf in read) + out.numel() * out.itemsize


def _product(sizes: list[int]) -> int:
    found = 1
    for size in sizes:
        found *= int(size)
    return found
