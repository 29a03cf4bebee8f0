"""Calls of sub-graphs that a backend has prepared."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch.fx import GraphModule, Node

from penlight.errors import NotSupported
from penlight.ir.lowered import LoweredModule
from penlight.ir.plan import Delegate, DelegateCall, TensorValue
from penlight.ir.source import describe

if TYPE_CHECKING:
    from penlight.flatten.method import Env, MethodFlattener, Result


def delegate_call(flat: MethodFlattener, module: GraphModule, node: Node, env: Env) -> Result:
    """The call of a LoweredModule."""
    lowered = module.get_submodule(str(node.target))
    if not isinstance(lowered, LoweredModule):
        raise NotSupported(f"a call of module '{node.target}'", where=describe(node))
    inputs = [flat.value(arg, env) for arg in node.args]
    example = node.meta["val"]
    outs: list[TensorValue] = []
    for index, item in enumerate(example if isinstance(example, list | tuple) else [example]):
        assert isinstance(item, torch.Tensor), "results of a delegate are tensors"
        out = flat.tensor(node, item)
        out.name = out.buffer.name = f"{node.name}.{index}"
        outs.append(out)
    delegate = Delegate(lowered.backend, lowered.data, lowered.compile_specs)
    flat.append(node, DelegateCall(delegate, inputs, list(outs)))
    return list(outs) if isinstance(example, list | tuple) else outs[0]
