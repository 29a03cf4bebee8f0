"""Numbers and dtypes: each operator gets tensors of the dtype it computes in.

ATen takes a Python number where its schema has a tensor, and promotes tensors of
different dtypes inside the operator. Kernels do neither: a number becomes the
operator's Scalar overload, or else a 0-d tensor; a tensor of another dtype is
cast. A program has no complex numbers, so each of those is made of its two parts.

Needs:  Core ATen, functional.
Keeps:  every output's shape, dtype and value.
"""

from __future__ import annotations

from typing import Any

import torch
from torch._ops import OpOverload
from torch._prims_common import ELEMENTWISE_TYPE_PROMOTION_KIND, elementwise_dtypes
from torch._subclasses.fake_tensor import FakeTensor
from torch.fx import Graph, Node
from torch.fx.node import map_arg

from penlight.kernels.out_variants import out_variant

aten = torch.ops.aten

# Tensor overload -> the one that takes a number for `other`.
_SCALAR_OVERLOAD = {
    op.Tensor: op.Scalar
    for op in (
        aten.add,
        aten.sub,
        aten.mul,
        aten.div,
        aten.fmod,
        aten.remainder,
        aten.eq,
        aten.ne,
        aten.lt,
        aten.le,
        aten.gt,
        aten.ge,
        aten.bitwise_and,
        aten.bitwise_or,
        aten.bitwise_xor,
    )
} | {aten.div.Tensor_mode: aten.div.Scalar_mode, aten.pow.Tensor_Tensor: aten.pow.Tensor_Scalar}

_TENSOR_OVERLOAD = {scalar: tensor for tensor, scalar in _SCALAR_OVERLOAD.items()} | {
    aten.pow.Scalar: aten.pow.Tensor_Tensor,
    aten.rsub.Scalar: aten.rsub.Tensor,
    aten.where.ScalarOther: aten.where.self,
    aten.where.ScalarSelf: aten.where.self,
}

# Operators whose tensor arguments ATen brings to one dtype, with the positions of those arguments.
_PROMOTED: dict[OpOverload, tuple[int, ...]] = {
    **dict.fromkeys(_SCALAR_OVERLOAD, (0, 1)),
    **dict.fromkeys(
        (
            aten.atan2.default,
            aten.maximum.default,
            aten.minimum.default,
            aten.copysign.Tensor,
            aten.fmax.default,
            aten.fmin.default,
            aten.hypot.default,
        ),
        (0, 1),
    ),
    aten.where.self: (1, 2),
    aten.addcmul.default: (0, 1, 2),
    aten.addcdiv.default: (0, 1, 2),
    aten.clamp.Tensor: (0, 1, 2),
    aten.lerp.Tensor: (0, 1, 2),
}
# Here ATen does not round a second argument without dimensions to a result of 16 bits; neither do kernels.
_KEEP_NUMBER = {aten.mul.Tensor, aten.div.Tensor}
# A number of a higher kind than the tensor's dtype (1.5 with an int tensor) promotes the tensor.
_SCALAR_PROMOTED = {*_SCALAR_OVERLOAD.values(), aten.rsub.Scalar, aten.clamp.default, aten.where.ScalarOther}


def promote(graph: Graph) -> int:
    """Insert casts and 0-d tensors; return how many arguments changed."""
    changed = 0
    for node in graph.nodes:
        if node.op != "call_function" or not isinstance(node.target, OpOverload):
            continue
        with graph.inserting_before(node):
            changed += _complex_numbers(graph, node)
            changed += _number_arguments(graph, node)
            if node.target in _PROMOTED:
                changed += _cast_arguments(graph, node, _PROMOTED[node.target])
            elif node.target in _SCALAR_PROMOTED:
                changed += _cast_to_number(graph, node)
            elif node.target in (aten.cat.default, aten.stack.default):
                changed += _cast_list(graph, node)
    return changed


def _complex_numbers(graph: Graph, node: Node) -> int:
    """Complex numbers where a kernel would have to take one: a 0-d tensor has their two parts."""
    alpha = node.kwargs.get("alpha")
    if isinstance(alpha, complex):  # add, sub: the second argument times alpha
        node.update_arg(1, _times(graph, node, node.args[1], alpha))
        node.kwargs = {name: value for name, value in node.kwargs.items() if name != "alpha"}
        return 1 + _complex_numbers(graph, node)
    places = [index for index, value in enumerate(node.args) if isinstance(value, complex)]
    if not places:
        return 0
    match node.target:
        case aten.full.default | aten.full_like.default | aten.new_full.default | aten.fill.Scalar:
            node.replace_all_uses_with(_filled(graph, node, node.args[places[0]]))  # type: ignore[arg-type]
            return 1
        case aten.masked_fill.Scalar:
            x, mask, number = node.args
            node.target, node.args, places = aten.where.self, (mask, number, x), [1]
        case _ if node.target in _TENSOR_OVERLOAD:
            node.target = _TENSOR_OVERLOAD[node.target]
        case _:
            return 0
    values = [_value(argument) for argument in node.args]
    dtype = _joint_dtype([value for value in values if not _is_mask(value)])
    for index in places:
        node.update_arg(index, _complex(graph, node, node.args[index], dtype))  # type: ignore[arg-type]
    return len(places)


def _times(graph: Graph, user: Node, argument: Any, number: complex) -> Any:
    if not isinstance(argument, Node):
        return argument * number
    fake = argument.meta["val"]
    factor = _complex(graph, user, number, _joint_dtype([fake, number]))
    return _emit(graph, user, fake, aten.mul.Tensor, (argument, factor), {})


def _complex(graph: Graph, user: Node, number: complex, dtype: torch.dtype) -> Node:
    parts = [_full(graph, user, part, dtype.to_real()) for part in _parts(number)]
    return _emit(graph, user, parts[0].meta["val"], aten.complex.default, tuple(parts), {})


def _filled(graph: Graph, node: Node, number: complex) -> Node:
    """What full() and its kin give for a complex number."""
    target, fake = node.target, node.meta["val"]
    if target is aten.fill.Scalar:
        target = aten.full_like.default
    kwargs = {**node.kwargs, "dtype": fake.dtype.to_real()}
    parts = []
    for part in _parts(number):
        args = tuple(part if isinstance(argument, complex) else argument for argument in node.args)
        parts.append(_emit(graph, node, fake, target, args, kwargs))  # type: ignore[arg-type]
    result = graph.call_function(aten.complex.default, tuple(parts))
    result.meta = dict(node.meta)  # not asked of the operator, which would compare dynamic sizes
    return result


def _parts(number: complex) -> tuple[float, float]:
    return number.real, number.imag


def _is_mask(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and value.dtype == torch.bool


def _number_arguments(graph: Graph, node: Node) -> int:
    """Numbers that stand where the schema has a tensor."""
    schema = node.target._schema  # type: ignore[union-attr]
    wrong = [
        index
        for index, (argument, value) in enumerate(zip(schema.arguments, node.args, strict=False))
        if _is_tensor_type(argument.type) and _is_number(value)
    ]
    if not wrong:
        return 0
    scalar = _SCALAR_OVERLOAD.get(node.target)  # type: ignore[call-overload]
    if scalar is not None and wrong == [1] and out_variant(scalar) is not None:
        node.target = scalar
        return 1
    dtype = _compute_dtype(node)
    for index in wrong:
        node.update_arg(index, _full(graph, node, node.args[index], dtype))
    return len(wrong)


def _compute_dtype(node: Node) -> torch.dtype:
    return _joint_dtype([_value(a) for a in node.args if _is_number(a) or _is_tensor(a)])


def _joint_dtype(values: list[Any]) -> torch.dtype:
    """What ATen promotes tensors and numbers to: 0-d tensors and numbers only decide the kind."""
    return elementwise_dtypes(*values, type_promotion_kind=ELEMENTWISE_TYPE_PROMOTION_KIND.DEFAULT)[1]


def _cast_arguments(graph: Graph, node: Node, positions: tuple[int, ...]) -> int:
    tensors = [
        (index, node.args[index])
        for index in positions
        if index < len(node.args) and isinstance(node.args[index], Node) and _is_tensor(node.args[index])
    ]
    dtypes = {argument.meta["val"].dtype for _, argument in tensors}  # type: ignore[union-attr]
    if not dtypes:
        return 0
    result = node.meta["val"].dtype
    if len(dtypes) == 1:
        # True division and the like compute in float.
        dtype = next(iter(dtypes))
        if dtype.is_floating_point or not result.is_floating_point:
            return 0
        dtype = result
    else:
        dtype = _joint_dtype([argument.meta["val"] for _, argument in tensors])  # type: ignore[union-attr]
        if result.is_floating_point and not dtype.is_floating_point:
            dtype = result
    changed = 0
    keeps = node.target in _KEEP_NUMBER and dtype in (torch.float16, torch.bfloat16)
    for index, argument in tensors:
        if keeps and index == 1 and argument.meta["val"].dim() == 0:  # type: ignore[union-attr]
            continue
        if argument.meta["val"].dtype != dtype:  # type: ignore[union-attr]
            node.update_arg(index, _cast(graph, node, argument, dtype))  # type: ignore[arg-type]
            changed += 1
    return changed


def _cast_to_number(graph: Graph, node: Node) -> int:
    """An int tensor with a float number is computed in float."""
    tensor = node.args[0]
    if not isinstance(tensor, Node) or not _is_tensor(tensor):
        return 0
    have: torch.Tensor = tensor.meta["val"]
    numbers = [_value(argument) for argument in node.args[1:] if _is_number(argument)]
    dtype = _joint_dtype([have, *numbers])
    result = node.meta["val"].dtype
    if result.is_floating_point and not dtype.is_floating_point:
        dtype = result
    if dtype == have.dtype:
        return 0
    node.update_arg(0, _cast(graph, node, tensor, dtype))
    return 1


def _cast_list(graph: Graph, node: Node) -> int:
    dtype = node.meta["val"].dtype
    parts = list(node.args[0])  # type: ignore[arg-type]
    changed = 0
    for index, part in enumerate(parts):
        if part.meta["val"].dtype != dtype:
            parts[index] = _cast(graph, node, part, dtype)
            changed += 1
    if changed:
        node.update_arg(0, parts)
    return changed


def _cast(graph: Graph, user: Node, value: Node, dtype: torch.dtype) -> Node:
    fake = value.meta["val"]
    return _emit(graph, user, fake, aten._to_copy.default, (value,), {"dtype": dtype})


def _full(graph: Graph, user: Node, number: Any, dtype: torch.dtype) -> Node:
    like = user.meta["val"] if isinstance(user.meta["val"], torch.Tensor) else user.meta["val"][0]
    return _emit(graph, user, like, aten.full.default, ([], number), {"dtype": dtype})


def _emit(graph: Graph, user: Node, fake: Any, op: OpOverload, args: Any, kwargs: Any) -> Node:
    node = graph.call_function(op, args, kwargs)
    node.meta = {key: value for key, value in user.meta.items() if key in ("stack_trace", "nn_module_stack")}
    values = map_arg(args, lambda n: n.meta["val"])
    with fake.fake_mode if isinstance(fake, FakeTensor) else torch.no_grad():
        node.meta["val"] = op(*values, **kwargs)
    return node


def _value(argument: Any) -> Any:
    return argument.meta["val"] if isinstance(argument, Node) else argument


def _is_tensor(argument: Any) -> bool:
    return isinstance(_value(argument), torch.Tensor)


def _is_number(argument: Any) -> bool:
    return isinstance(_value(argument), bool | int | float | torch.SymInt | torch.SymFloat | torch.SymBool)


def _is_tensor_type(kind: Any) -> bool:
    return str(kind) in ("Tensor", "Optional[Tensor]")
