"""Checks that torch.vmap leaves beside a factorisation, put back into it.

`torch.vmap(torch.linalg.inv)` is traced as the factorisation, which says what it found, and a check of that,
which has no result: torch keeps it by an effect, and orders effects by tokens. Our kernels check themselves.
"""

from __future__ import annotations

import operator
from typing import Any

import torch
from torch.export.graph_signature import ExportGraphSignature
from torch.export.graph_signature import InputKind as TorchInput
from torch.export.graph_signature import OutputKind as TorchOutput
from torch.fx import Graph, Node

_CHECK = torch.ops.aten._linalg_check_errors.default
_WITH_EFFECTS = torch.ops.higher_order.with_effects


def check_inside(graph: Graph, signature: ExportGraphSignature) -> None:
    """Let every factorisation check itself; tokens go when no other effect needs them."""
    effects = [node for node in graph.nodes if node.target is _WITH_EFFECTS]
    for node in effects:
        if node.args[1] is _CHECK and _checks_itself(node.args[2]):
            for result in list(node.users):  # the token alone
                result.replace_all_uses_with(node.args[0])
                graph.erase_node(result)
            graph.erase_node(node)
    if effects and not graph.find_nodes(op="call_function", target=_WITH_EFFECTS):
        _drop_tokens(graph, signature)


def _checks_itself(info: Any) -> bool:
    """Tell the operator that `info` is a result of to check; False where it is none of those."""
    if not isinstance(info, Node) or info.target is not operator.getitem:
        return False
    made: Any = info.args[0]
    if "check_errors" not in {argument.name for argument in made.target._schema.arguments}:
        return False
    made.kwargs = {**made.kwargs, "check_errors": True}
    return True


def _drop_tokens(graph: Graph, signature: ExportGraphSignature) -> None:
    output = graph.output_node()
    specs = signature.output_specs
    kept = [
        value
        for spec, value in zip(specs, output.args[0], strict=True)  # type: ignore[arg-type]
        if spec.kind is not TorchOutput.TOKEN
    ]
    output.args = (tuple(kept),)
    signature.output_specs = [spec for spec in specs if spec.kind is not TorchOutput.TOKEN]
    placeholders = graph.find_nodes(op="placeholder")
    for spec, node in zip(signature.input_specs, placeholders, strict=True):
        if spec.kind is TorchInput.TOKEN:
            graph.erase_node(node)
    signature.input_specs = [spec for spec in signature.input_specs if spec.kind is not TorchInput.TOKEN]
