"""Run an edge program with torch itself, to compare it with the model it came from."""

from __future__ import annotations

from typing import Any

import torch
from torch.utils import _pytree as pytree

from penlight.ir.edge import EdgeProgram, InputKind, OutputKind


def run_edge(
    program: EdgeProgram, method: str, *args: Any, state: dict[str, Any] | None = None, **kwargs: Any
) -> Any:
    """Outputs of one method; `state` keeps the values of buffers between calls."""
    entry = program.methods[method]
    state = {} if state is None else state
    user = iter(pytree.tree_leaves((args, kwargs)))
    values: list[Any] = []
    for spec in entry.inputs:
        if spec.target is None or spec.kind is InputKind.USER:
            values.append(next(user))
        elif spec.kind is InputKind.STATE:
            values.append(state.setdefault(spec.target, program.tensors[spec.target].clone()))
        else:
            values.append(program.tensors[spec.target])
    with torch.no_grad():
        results = entry.graph_module(*values)
    outputs: list[Any] = []
    for out, result in zip(entry.outputs, results, strict=True):
        if out.kind is OutputKind.MUTATION and out.target is not None:
            state[out.target] = result
        elif out.kind is OutputKind.USER:
            outputs.append(result)
    return pytree.tree_unflatten(outputs, entry.out_spec)
