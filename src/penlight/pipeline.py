"""From a PyTorch model to a program: the only file that knows the order of the stages.

    nn.Module --export--> ExportedProgram --to_edge--> EdgeProgram
              --plan_memory--> PlanProgram --emit--> Program

Each stage can be called alone, and `compile` is all of them. torch is imported
with this file.
"""

from __future__ import annotations

import difflib
import gc
import time
import warnings
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch.export import ExportedProgram

from penlight.dialects import complex_numbers
from penlight.dialects.aten import method_of
from penlight.dialects.attention_op import attention_op, rotary_op
from penlight.dialects.capture import capture
from penlight.dialects.core import decompositions, legal_for
from penlight.dialects.edge import verify
from penlight.dialects.elementwise_op import elementwise_op
from penlight.dialects.guards import guards_of, guards_of_squeezes
from penlight.dialects.packed_ops import packed_ops
from penlight.dialects.penlight_ops import twins
from penlight.emitter import emit
from penlight.errors import InvalidInput, NotSupported
from penlight.flatten import flatten
from penlight.flatten.kernels import check_kernels, missing_in_theirs
from penlight.ir.edge import EdgeMethod, EdgeProgram, InputKind, OutputKind
from penlight.ir.plan import PlanProgram
from penlight.ir.tensors import Tensors
from penlight.kernels.table import default_table
from penlight.memory import Algorithm, elide_views, find_unshared, greedy
from penlight.memory.planner import plan_memory as place_buffers
from penlight.passes import recipes
from penlight.passes.base import Pass, Report, count_nodes, remove_dead, run
from penlight.passes.constant_products import is_for_product
from penlight.passes.constants import read_otherwise
from penlight.passes.decompose import decompose, lift_constants
from penlight.passes.pack_groups import is_for_groups
from penlight.passes.pack_weights import is_for_layer
from penlight.program import Program
from penlight.program.structs import CACHE_LINE
from penlight.runtime.timing import seconds_of

# The kernel libraries of each target, in the order they are asked.
TARGETS = {"cpu": ("optimized", "portable"), "portable": ("portable",)}
# Where passes of the user run.
DIALECTS = ("aten", "core", "edge")
_ALIGNMENTS = {"cpu": CACHE_LINE, "portable": 16}  # of tensors in memory, in bytes
Exported = ExportedProgram | Mapping[str, ExportedProgram]


@contextmanager
def _without_collector() -> Iterator[None]:
    """Keep Python from looking for cycles: nearly all that a stage makes lives until its end."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


@_without_collector()
def compile(
    model: Any,
    args: tuple[Any, ...] = (),
    kwargs: Mapping[str, Any] | None = None,
    *,
    dynamic_shapes: Any = None,
    target: str = "cpu",
    passes: Mapping[str, Sequence[Pass]] | None = None,
    without: Collection[str] = (),
    tune: bool = False,
    constant_methods: Mapping[str, Any] | None = None,
    algorithm: Algorithm = greedy,
    alignment: int | None = None,
    plan_inputs: bool = True,
    plan_outputs: bool = True,
    debug: bool = True,
    external: bool | Callable[[str], bool] = False,
) -> Program:
    """Compile a PyTorch model into a program.

    Args:
        model: a module, a method of one, an ExportedProgram, or a dict from method
            name to any of these or to `(module, args)`, `(module, args, kwargs)`.
            Methods of one model share its weights and state.
        args, kwargs: example inputs, when `model` is one module.
        dynamic_shapes: as for torch.export; every dynamic dimension needs an upper bound.
        target: "cpu", or "portable" for programs that ExecuTorch's runtime can run as well.
        passes: your own graph passes: {"aten" | "core" | "edge": [function]}.
        without: names of optimisations to leave out, such as "fuse_elementwise"; --explain lists them.
        tune: measure on this machine which algorithm each layer is fastest with, and keep that in
            the file; without it the kernels choose by a model of the cost. Takes as long as running
            each 3x3 convolution some twenty times.
        constant_methods: methods that only return a value, {"get_vocab_size": 32000}.
        algorithm, alignment, plan_inputs, plan_outputs: see plan_memory.
        debug: keep source lines and the names of inputs in the file.
        external: True keeps all weights out of the file: `save` writes them beside it, as .ptd,
            and `penlight.load` takes that file as `data`. A function says it of each, by name.

    Returns: the program. Until it is saved it reads the weights that it has as they are from the model's
        memory: save it before you train on.

    Raises:
        ExportError, UnboundedShape, NoKernel, NotSupported: with what to do about it.
    """
    report = Report()
    start = time.perf_counter()
    exported = export(model, args, kwargs, dynamic_shapes=dynamic_shapes)
    report.add("torch export", 0, 0, start)
    edge = to_edge(exported, target=target, passes=passes, without=without, tune=tune, report=report)
    for name, value in (constant_methods or {}).items():
        if name in edge.methods:
            raise InvalidInput(f"'{name}' is a method of the model and a constant method", do="rename one")
        edge.constant_methods[name] = value
    planned = plan_memory(
        edge,
        algorithm=algorithm,
        alignment=alignment,
        plan_inputs=plan_inputs,
        plan_outputs=plan_outputs,
        report=report,
    )
    start = time.perf_counter()
    program = emit(planned, debug=debug, external=external, report=report)
    report.add("emit", _count_steps(planned), 0, start)
    return program


def plan_memory(
    edge: EdgeProgram,
    *,
    algorithm: Algorithm = greedy,
    alignment: int | None = None,
    plan_inputs: bool = True,
    plan_outputs: bool = True,
    report: Report | None = None,
) -> PlanProgram:
    """Write each method as instructions over out variants, check their kernels, and place every tensor.

    Args:
        algorithm: penlight.memory.greedy, naive, or a function of your own.
        alignment: of each tensor, in bytes, a power of two; 64 if not given, 16 for "portable".
        plan_inputs, plan_outputs: False leaves that memory to the caller.

    Raises:
        NoKernel: lists every operator without a kernel.
        UnboundedShape, InvalidPlan.
    """
    report = report if report is not None else Report()
    start = time.perf_counter()
    plan = flatten(edge)
    report.add("out variants", _count_steps(plan), 0, start)
    start = time.perf_counter()
    dropped = elide_views(plan, plan_inputs=plan_inputs, plan_outputs=plan_outputs)
    for method in plan.plans:
        find_unshared(method)
    report.add("elide views", _count_steps(plan), dropped, start)
    start = time.perf_counter()
    check_kernels(plan, default_table(), TARGETS[edge.target])
    if edge.target == "portable" and (missing := missing_in_theirs(plan)):
        warnings.warn(
            f"only Penlight's runtime will run this program: ExecuTorch's has no kernel for {missing}",
            stacklevel=3,
        )
    report.add("kernel check", _count_steps(plan), 0, start)
    start = time.perf_counter()
    if alignment is None:
        alignment = _ALIGNMENTS[edge.target]
    report.memory = place_buffers(plan, algorithm=algorithm, alignment=alignment)
    report.add("plan memory", _count_steps(plan), sum(r.in_place for r in report.memory), start)
    return plan


def _count_steps(plan: PlanProgram) -> int:
    return sum(len(one.steps) for one in plan.plans)


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
    if not model:
        raise InvalidInput("there is no method to compile", got="{}", do='give {"forward": (model, args)}')
    shapes = dynamic_shapes or {}
    methods = {}
    for name, entry in model.items():
        parts = tuple(entry) if isinstance(entry, tuple | list) else (entry, args, kwargs)
        own_model, own_args, own_kwargs = (*parts, (), None)[:3] if len(parts) < 3 else parts[:3]
        methods[name] = capture(own_model, own_args, own_kwargs, shapes.get(name))
    return methods


def to_edge(
    exported: Exported,
    *,
    target: str = "cpu",
    passes: Mapping[str, Sequence[Pass]] | None = None,
    without: Collection[str] = (),
    tune: bool = False,
    report: Report | None = None,
) -> EdgeProgram:
    """Bring exported programs into the edge dialect and optimise them.

    Args:
        exported: one ExportedProgram (its method is `forward`), or several by name.
        target: "cpu" for Penlight's own kernels; "portable" for programs that
            ExecuTorch's runtime can run as well.
        passes: the user's own, run after Penlight's: {"aten" | "core" | "edge": [function]}.
        without: names of optimisations to leave out; see `penlight.passes.recipes`.
        tune: as for compile.
        report: filled with what each stage did.

    Raises:
        IllegalGraph: a pass broke a rule of its dialect.
        UnboundedShape: a dimension without an upper bound.
    """
    if target not in TARGETS:
        raise InvalidInput(f"unknown target '{target}'", do=f"use one of {', '.join(TARGETS)}")
    extra = _checked_passes(passes)
    left_out = _checked_names(without)

    def chosen(functions: Iterable[Pass]) -> list[Pass]:
        return [function for function in functions if function.__name__ not in left_out]

    report = report if report is not None else Report()
    program = _aten(exported, target, report)
    run(program, [*recipes.ATEN, *extra["aten"]], report, _verify_core)
    _decompose(program, report)
    run(program, [*recipes.CORE, *extra["core"]], report, _verify_core)
    run(program, recipes.TO_EDGE, report)
    remove_dead(program)
    verify(program, "the conversion to edge")
    whole = twins(default_table(), TARGETS[target]) if target != "portable" else {}
    heads = [op(default_table(), TARGETS[target]) for op in (attention_op, rotary_op)]
    run(program, [*chosen(recipes.edge_for(whole, *heads)), *extra["edge"]], report, verify)
    packed = packed_ops(default_table(), TARGETS[target])
    if packed is not None:
        layers = packed.linear, packed.convolution, packed.transposed, packed.embedding, packed.pack
        ops = (
            *layers,
            packed.max_pool,
            packed.expand_depthwise,
            packed.video,
            packed.grouped,
            packed.convolution_of_parts,
            packed.linear_strassen,
            packed.convolution_strassen,
            packed.stem,
            packed.squeeze_excite,
            packed.gated_convolution,
        )
        shared = [read_otherwise(program, reads) for reads in (is_for_layer, is_for_product, is_for_groups)]
        run(program, chosen(recipes.packed(*ops, *shared)), report, verify)
        if tune:
            choices = packed.convolution, packed.direct_convolution
            run(program, recipes.tuned(*choices, seconds_of), report, verify)
    elementwise = elementwise_op(default_table(), TARGETS[target])
    if elementwise is not None:
        run(program, chosen(recipes.chains(elementwise)), report, verify)
    for method in program.methods.values():
        method.graph_module.recompile()
    return program


def _checked_passes(passes: Mapping[str, Sequence[Pass]] | None) -> dict[str, Sequence[Pass]]:
    unknown = set(passes or {}) - set(DIALECTS)
    if unknown:
        raise InvalidInput(f"passes for unknown dialect '{min(unknown)}'", do=f"use {', '.join(DIALECTS)}")
    return {name: (passes or {}).get(name, ()) for name in DIALECTS}


def _checked_names(without: Collection[str]) -> set[str]:
    names = {without} if isinstance(without, str) else set(without)
    names = {name.replace(" ", "_") for name in names}
    for name in sorted(names - recipes.OPTIONAL):
        near = difflib.get_close_matches(name, recipes.OPTIONAL, 3, 0.5) or sorted(recipes.OPTIONAL)
        raise InvalidInput(f"there is no optimisation '{name}' to leave out", do=f"one of {', '.join(near)}")
    return names


def _verify_core(program: EdgeProgram, after: str) -> None:
    verify(program, after, edge=False)


def _aten(exported: Exported, target: str, report: Report) -> EdgeProgram:
    start = time.perf_counter()
    programs = exported if isinstance(exported, Mapping) else {"forward": exported}
    program = EdgeProgram({}, Tensors(), target)
    keys: dict[Any, str] = {}
    for name, one in programs.items():
        method, tensors = method_of(name, one, lambda key, tensor: _share(program.tensors, keys, key, tensor))
        program.methods[name] = method
        program.tensors.update(tensors)
    _agree_on_state(program)
    report.add("functional aten", count_nodes(program), 0, start)
    return program


def _share(tensors: Mapping[str, torch.Tensor], keys: dict[Any, str], name: str, tensor: torch.Tensor) -> str:
    """The key of a tensor: the one its memory has already, else its qualified name, made unique."""
    memory = (tensor.data_ptr(), tensor.shape, tensor.stride(), tensor.dtype)
    if tensor.numel() and memory in keys:
        return keys[memory]
    key, number = name, 1
    while key in tensors or key in keys.values():
        number += 1
        key = f"{name}#{number}"
    keys[memory if tensor.numel() else key] = key
    return key


def _agree_on_state(program: EdgeProgram) -> None:
    """What one method writes is state for all."""
    written = {
        spec.target
        for m in program.methods.values()
        for spec in m.outputs
        if spec.kind is OutputKind.MUTATION
    }
    for method in program.methods.values():
        for spec in method.inputs:
            if spec.kind is InputKind.CONSTANT and spec.target in written:
                spec.kind = InputKind.STATE
    for name in sorted(filter(None, written)):
        for other in program.tensors:
            if other != name and _overlap(program.tensors[name], program.tensors[other]):
                raise NotSupported(
                    f"the model writes to '{name}', whose memory '{other}' shares",
                    do="keep one of them as a buffer, and make the other from it where it is used",
                )


def _overlap(one: torch.Tensor, other: torch.Tensor) -> bool:
    if one.untyped_storage().data_ptr() != other.untyped_storage().data_ptr():
        return False
    spans = []
    for tensor in (one, other):
        reach = sum((size - 1) * stride for size, stride in zip(tensor.shape, tensor.stride(), strict=True))
        start = tensor.storage_offset() * tensor.element_size()
        spans.append((start, start + (reach + 1) * tensor.element_size() if tensor.numel() else start))
    (a, a_end), (b, b_end) = spans
    return a < b_end and b < a_end


def _decompose(program: EdgeProgram, report: Report) -> None:
    start, before = time.perf_counter(), count_nodes(program)
    legal = legal_for(program.target, default_table(), TARGETS[program.target])
    table = decompositions(program.target, default_table(), TARGETS[program.target])
    of_call = complex_numbers.splits_for(default_table(), TARGETS[program.target], table)
    for method in program.methods.values():
        of_squeezes = guards_of_squeezes(method.graph)
        method.graph_module = decompose(method.graph_module, legal, table, of_call)
        method.guards = [*guards_of(method.graph), *of_squeezes]
        _rename(method)
        lift_constants(method, program.tensors)
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
