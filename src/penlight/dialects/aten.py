"""torch.export program -> methods in the ATen dialect: functional graphs with specs of inputs and outputs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch._ops import HigherOrderOperator
from torch._subclasses.fake_tensor import FakeTensor
from torch.export import ExportedProgram
from torch.export.graph_signature import (
    ExportGraphSignature,
)
from torch.export.graph_signature import (
    InputKind as TorchInput,
)
from torch.export.graph_signature import (
    OutputKind as TorchOutput,
)
from torch.fx import Graph, GraphModule, Node
from torch.utils._python_dispatch import is_traceable_wrapper_subclass

from penlight.dialects.bounds import bounds_of, check_bounds
from penlight.dialects.capture import WITHOUT_DERIVATIVES
from penlight.dialects.counts import bound_counts
from penlight.dialects.effects import check_inside
from penlight.dialects.flex import refused, split_flex_attention
from penlight.dialects.given import check_tensor
from penlight.dialects.known_sizes import bound_by_constants
from penlight.dialects.settle import settle_sizes
from penlight.dialects.user_operators import functionalized_by_torch, return_written, take_over
from penlight.errors import NotSupported
from penlight.ir.edge import CONTROL_FLOW, EdgeMethod, InputKind, InputSpec, OutputKind, OutputSpec
from penlight.ir.source import describe
from penlight.passes.functionalize import (
    CannotFunctionalize,
    WritesInBody,
    functionalize,
    functionalize_bodies,
    mutates,
)
from penlight.passes.inline_regions import inline_regions, needs_retrace


def method_of(
    name: str, exported: ExportedProgram, tensor_name: Callable[[str, torch.Tensor], str]
) -> tuple[EdgeMethod, dict[str, torch.Tensor]]:
    """The method that `exported` is, and the tensors it uses, by name.

    `tensor_name` chooses the key of a tensor from its qualified name, so that
    methods of one model share theirs.
    """
    exported = _of_plain_tensors(exported)
    region = needs_retrace(exported.graph_module)
    if region:
        exported = _traced_again(exported, region)
    module = copy_module(exported.graph_module)
    _merge_aliases(exported, module.graph)
    if region:
        check_inside(module.graph, exported.graph_signature)
        take_over(module.graph)
    try:
        inline_regions(module)
        return_written(module.graph)
        functionalize_bodies(module)
        written = functionalize(module.graph) if mutates(module.graph) else {}
    except CannotFunctionalize as error:
        exported = _functionalized_by_torch(exported, error)
        module = copy_module(exported.graph_module)
        inline_regions(module)
        functionalize_bodies(module)
        take_over(module.graph)
        written = {}
    settle_sizes(module)
    _check_control_flow(module)
    method, tensors = _with_specs(name, exported, module, written, tensor_name)
    bound_by_constants(method, tensors)
    bound_counts(method)
    check_bounds(method)
    return method, tensors


def _retraced(exported: ExportedProgram) -> ExportedProgram:
    """Traced once more by torch, which takes longer than exporting did."""
    with torch.enable_grad(), functionalized_by_torch(), split_flex_attention():
        made: ExportedProgram = exported.run_decompositions({})
    return made


def _traced_again(exported: ExportedProgram, region: Node) -> ExportedProgram:
    """Without flex_attention, and autocast and the transformations of torch.func, which act on all operators
    inside them."""
    if node := refused(exported.graph_module):
        raise NotSupported(
            "flex_attention takes functions of one score, of arithmetic and of single elements of tensors",
            where=describe(node),
            do="write the line with torch.nn.functional.scaled_dot_product_attention and a mask",
        )
    try:
        return _retraced(exported)
    except Exception as error:
        raise NotSupported(
            "the model differentiates inside, or transforms a function in a way that has no operators",
            where=describe(region),
            got=f"{type(error).__name__}: {error}".split("\n")[0][:300],
            do=WITHOUT_DERIVATIVES,
        ) from error


def _functionalized_by_torch(exported: ExportedProgram, reason: CannotFunctionalize) -> ExportedProgram:
    """torch re-traces the program, which takes longer, but knows every operator."""
    try:
        return _retraced(exported)
    except Exception as error:
        raise NotSupported(
            f"the model writes to a tensor in a way that has no form without writing: {reason}",
            got=f"{type(error).__name__}: {error}".split("\n")[0][:300],
            do="return the new value from the body, and copy_ it to the tensor behind the cond or loop"
            if isinstance(reason, WritesInBody)
            else "write to the whole tensor, or to a part of it by an index; keep no buffers that are views "
            "of one another",
        ) from error


def _of_plain_tensors(exported: ExportedProgram) -> ExportedProgram:
    """Parameters that are made of several tensors, as quantized ones are, become these tensors.

    torch re-traces the program, so that what such a class does for an operator is in the graph.
    """
    held = {**exported.state_dict, **exported.constants}
    names = [name for name, value in held.items() if is_traceable_wrapper_subclass(value)]
    if not names:
        return exported
    where = f"the tensor '{names[0]}' is a {type(held[names[0]]).__name__}, a tensor made of others"
    try:
        plain = _retraced(exported)
    except Exception as error:
        raise NotSupported(
            f"{where}, and the model cannot be traced with them",
            got=f"{type(error).__name__}: {error}".split("\n")[0][:300],
            do="store a plain tensor in its place",
        ) from error
    user_outputs = sum(spec.kind is TorchOutput.USER_OUTPUT for spec in plain.graph_signature.output_specs)
    if user_outputs != plain.call_spec.out_spec.num_leaves:
        raise NotSupported(f"{where}, and the model returns such a tensor", do="return plain tensors")
    return plain


def copy_module(module: GraphModule) -> GraphModule:
    """A copy whose graphs may be changed; its tensors are shared."""
    graph = Graph()
    result = graph.graph_copy(module.graph, {})
    if result is not None:
        graph.output(result)
    _copy_output_meta(module.graph, graph)
    attributes: dict[str, Any] = {}
    for node in graph.nodes:
        if node.op == "get_attr":
            value = getattr(module, str(node.target))
            attributes[str(node.target)] = copy_module(value) if isinstance(value, GraphModule) else value
    return GraphModule(attributes, graph)


def _check_control_flow(module: GraphModule) -> None:
    """What takes functions of the model is one of the operators that programs have."""
    for node in module.graph.nodes:
        target = node.target
        if isinstance(target, HigherOrderOperator) and target.name() not in CONTROL_FLOW:
            raise NotSupported(
                f"the higher-order operator {target.name()} is not supported",
                where=describe(node),
                do="write the line with plain operators, torch.cond, map, scan or while_loop",
            )
    for child in module.children():
        if isinstance(child, GraphModule):
            _check_control_flow(child)


def _merge_aliases(exported: ExportedProgram, graph: Graph) -> None:
    """Let tensors of the model that are one and the same have one placeholder.

    Tied weights are such, and caches that a model holds both as a buffer and in
    an object of its own: a write to either is a write to both.
    """
    placeholders = [node for node in graph.nodes if node.op == "placeholder"]
    first: dict[Any, Node] = {}
    pairs = zip(exported.graph_signature.input_specs, placeholders, strict=True)
    for spec, node in sorted(pairs, key=lambda pair: pair[0].kind is TorchInput.CONSTANT_TENSOR):
        if (
            spec.kind in (TorchInput.USER_INPUT, TorchInput.CUSTOM_OBJ, TorchInput.TOKEN)
            or spec.target is None
        ):
            continue
        tensor = _tensor(exported, spec.target)
        if isinstance(tensor, FakeTensor):
            raise NotSupported(
                "torch.export kept a tensor without numbers as a constant, as it does for derivatives inside "
                "a model where sizes are dynamic",
                where=describe(next(iter(node.users), node)),
                got=f"{spec.target}: {tuple(tensor.shape)}",
                do=WITHOUT_DERIVATIVES,
            )
        if tensor.numel() == 0:
            continue
        same = first.setdefault((tensor.data_ptr(), tensor.shape, tensor.stride(), tensor.dtype), node)
        if same is not node:
            node.replace_all_uses_with(same)


def _copy_output_meta(old: Graph, new: Graph) -> None:
    new.output_node().meta = dict(old.output_node().meta)


def _with_specs(
    name: str,
    exported: ExportedProgram,
    module: GraphModule,
    written: Mapping[Node, Node],
    tensor_name: Callable[[str, torch.Tensor], str],
) -> tuple[EdgeMethod, dict[str, torch.Tensor]]:
    signature = exported.graph_signature
    placeholders = [node for node in module.graph.nodes if node.op == "placeholder"]
    output = module.graph.output_node()
    results = list(output.args[0])  # type: ignore[arg-type]
    outputs = _outputs(signature)
    mutated = {spec.target for spec in outputs if spec.kind is OutputKind.MUTATION}

    tensors: dict[str, torch.Tensor] = {}
    inputs: list[InputSpec] = []
    names: dict[str, str] = {}
    for spec, node in zip(signature.input_specs, placeholders, strict=True):
        if spec.kind is TorchInput.USER_INPUT:
            parameter = getattr(spec.arg, "name", None) or node.name
            inputs.append(InputSpec(InputKind.USER, node.name, parameter=parameter))
            continue
        if spec.kind in (TorchInput.CUSTOM_OBJ, TorchInput.TOKEN) or spec.target is None:
            raise NotSupported(
                f"the model holds '{spec.target}', which is not a tensor", where=f"input {node.name}"
            )
        tensor = _tensor(exported, spec.target)
        key = tensor_name(spec.target, tensor)
        names[spec.target] = key
        tensors[key] = tensor
        state = node in written or spec.target in mutated
        inputs.append(InputSpec(InputKind.STATE if state else InputKind.CONSTANT, node.name, key))

    specs = [OutputSpec(o.kind, names.get(o.target, o.target) if o.target else None) for o in outputs]
    new_specs: list[OutputSpec] = []
    new_results: list[Node] = []
    for spec_in, node in zip(inputs, placeholders, strict=True):
        if node in written:
            kind = OutputKind.INPUT_MUTATION if spec_in.kind is InputKind.USER else OutputKind.MUTATION
            new_specs.append(
                OutputSpec(kind, node.name if spec_in.kind is InputKind.USER else spec_in.target)
            )
            new_results.append(written[node])
    output.args = (tuple(new_results + results),)

    spec_in_tree, spec_out_tree = exported.call_spec.in_spec, exported.call_spec.out_spec
    bounds = bounds_of(exported)
    method = EdgeMethod(name, module, inputs, new_specs + specs, spec_in_tree, spec_out_tree, bounds)
    return method, tensors


def _outputs(signature: ExportGraphSignature) -> list[OutputSpec]:
    kinds = {
        TorchOutput.USER_OUTPUT: OutputKind.USER,
        TorchOutput.BUFFER_MUTATION: OutputKind.MUTATION,
        TorchOutput.USER_INPUT_MUTATION: OutputKind.INPUT_MUTATION,
    }
    if hasattr(TorchOutput, "PARAMETER_MUTATION"):
        kinds[TorchOutput.PARAMETER_MUTATION] = OutputKind.MUTATION
    specs = []
    for spec in signature.output_specs:
        if spec.kind not in kinds:
            raise NotSupported(
                f"an output of kind {spec.kind.name.lower()}", do="export an inference program"
            )
        kind = kinds[spec.kind]
        specs.append(OutputSpec(kind, None if kind is OutputKind.USER else spec.target))
    return specs


def _tensor(exported: ExportedProgram, target: str) -> torch.Tensor:
    value = exported.state_dict.get(target)
    if value is None:
        value = exported.constants.get(target)
    if not isinstance(value, torch.Tensor):
        raise NotSupported(f"the model holds '{target}', which is not a tensor", got=type(value).__name__)
    check_tensor(target, value)
    return value.detach()
