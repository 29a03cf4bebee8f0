"""From a PyTorch model to a program: the only file that knows the order of the stages.

    nn.Module -> ExportedProgram -> EdgeProgram -> ... -> program
              export           to_edge

Each stage can be called alone. torch is imported with this file.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch.export import ExportedProgram

from penlight.dialects.aten import method_of
from penlight.dialects.capture import capture
from penlight.dialects.core import decompositions, legal_for
from penlight.dialects.edge import verify
from penlight.errors import InvalidInput
from penlight.ir.edge import EdgeMethod, EdgeProgram, InputKind, OutputKind
from penlight.ops.table import default_table
from penlight.passes import recipes
from penlight.passes.base import Pass, Report, count_nodes, remove_dead, run
from penlight.passes.decompose import decompose

TARGETS = ("cpu", "portable")
Exported = ExportedProgram | Mapping[str, ExportedProgram]


def export(
    model: Any,
    args: tuple[Any, ...] = (),
    kwargs: Mapping[str, Any] | None = None,
    *,
    dynamic_shapes: Any = None,
) -> Exported:
    """Trace a model, or each model of a dict, with torch.export.

    Args:
        model: a module, a bound method of one, an ExportedProgram, or a dict from
            method name to any of these or to `(module, args)`, `(module, args, kwargs)`.
        args, kwargs: example inputs, when `model` is one module.
        dynamic_shapes: as for torch.export; for a dict, by method name.

    Raises:
        ExportError: names the line of the model that cannot be traced.
        UnboundedShape: a dimension asked to be dynamic that the model makes static.
    """
    if not isinstance(model, Mapping):
        return capture(model, args, kwargs, dynamic_shapes)
    shapes = dynamic_shapes or {}
    methods = {}
    for name, entry in model.items():
        parts = entry if isinstance(entry, tuple | list) else (entry, args, kwargs)
        methods[name] = capture(*parts[:3], dynamic_shapes=shapes.get(name, None))
    return methods


def to_edge(
    exported: Exported,
    *,
    target: str = "cpu",
    passes: Mapping[str, Sequence[Pass]] | None = None,
    report: Report | None = None,
) -> EdgeProgram:
    """Bring exported programs into the edge dialect and optimise them.

    Args:
        exported: one ExportedProgram (its method is `forward`), or several by name.
        target: "cpu" for Penlight's own kernels; "portable" for programs that
            ExecuTorch's runtime can run as well.
        passes: the user's own, run after Penlight's: {"aten" | "core" | "edge": [function]}.
        report: filled with what each stage did.

    Raises:
        IllegalGraph: a pass broke a rule of its dialect.
        UnboundedShape: a dimension without an upper bound.
    """
    if target not in TARGETS:
        raise InvalidInput(f"unknown target '{target}'", do=f"use one of {', '.join(TARGETS)}")
    extra = _checked_passes(passes)
    report = report if report is not None else Report()
    program = _aten(exported, target, report)
    run(program, [*recipes.ATEN, *extra["aten"]], report, _verify_core)
    _decompose(program, report)
    run(program, [*recipes.CORE, *extra["core"]], report, _verify_core)
    run(program, recipes.TO_EDGE, report)
    remove_dead(program)
    verify(program, "the conversion to edge")
    return run(program, [*recipes.EDGE, *extra["edge"]], report, verify)


def _checked_passes(passes: Mapping[str, Sequence[Pass]] | None) -> dict[str, Sequence[Pass]]:
    unknown = set(passes or {}) - set(recipes.DIALECTS)
    if unknown:
        raise InvalidInput(f"passes for unknown dialect '{min(unknown)}'", do=f"use {', '.join(recipes.DIALECTS)}")
    return {name: (passes or {}).get(name, ()) for name in recipes.DIALECTS}


def _verify_core(program: EdgeProgram, after: str) -> None:
    verify(program, after, edge=False)


def _aten(exported: Exported, target: str, report: Report) -> EdgeProgram:
    start = time.perf_counter()
    programs = exported if isinstance(exported, Mapping) else {"forward": exported}
    program = EdgeProgram({}, {}, target)
    for name, one in programs.items():
        method, tensors = method_of(name, one, lambda key, tensor: _share(program.tensors, key, tensor))
        program.methods[name] = method
        program.tensors.update(tensors)
    _agree_on_state(program)
    report.add("functional aten", count_nodes(program), 0, start)
    return program


def _share(tensors: Mapping[str, torch.Tensor], name: str, tensor: torch.Tensor) -> str:
    """The key of a tensor: its qualified name, unless another model has a different tensor of that name."""
    key, number = name, 1
    while key in tensors and not _same_memory(tensors[key], tensor):
        number += 1
        key = f"{name}#{number}"
    return key


def _same_memory(a: torch.Tensor, b: torch.Tensor) -> bool:
    return a.data_ptr() == b.data_ptr() and a.shape == b.shape and a.dtype == b.dtype and a.stride() == b.stride()


def _agree_on_state(program: EdgeProgram) -> None:
    """What one method writes is state for all."""
    written = {
        spec.target for m in program.methods.values() for spec in m.outputs if spec.kind is OutputKind.MUTATION
    }
    for method in program.methods.values():
        for spec in method.inputs:
            if spec.kind is InputKind.CONSTANT and spec.target in written:
                spec.kind = InputKind.STATE


def _decompose(program: EdgeProgram, report: Report) -> None:
    start, before = time.perf_counter(), count_nodes(program)
    legal, table = legal_for(program.target, default_table()), decompositions()
    for method in program.methods.values():
        method.graph_module = decompose(method.graph_module, legal, table)
        _rename(method)
    remove_dead(program)
    _verify_core(program, "decomposition")
    report.add("decompose", count_nodes(program), abs(count_nodes(program) - before), start)


def _rename(method: EdgeMethod) -> None:
    nodes = [node for node in method.graph.nodes if node.op == "placeholder"]
    renamed = {}
    for spec, node in zip(method.inputs, nodes, strict=True):
        renamed[spec.name] = node.name
        spec.name = node.name
    for output in method.outputs:
        if output.kind is OutputKind.INPUT_MUTATION and output.target is not None:
            output.target = renamed.get(output.target, output.target)
