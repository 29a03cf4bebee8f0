"""What each elementwise operator is in steps of a program for one kernel.

    aten.addcmul(x, a, b, value=2)   ->   Add(x, Mul(Mul(2, a), b))

The steps round as the operators' own kernels do: no multiply and add become one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch._ops import OpOverload
from torch.fx import Node

from penlight.kernels.elementwise import ElementOp as Op
from penlight.kernels.elementwise import gives_condition
from penlight.passes.base import tensor_of

aten = torch.ops.aten


@dataclass(frozen=True, eq=False)
class Step:
    """One operation; a source is another step, a tensor of the graph, or a number."""

    op: Op
    sources: tuple[Source, ...]


Source = Step | Node | float


_ONE: dict[OpOverload, Op] = {
    aten.neg.default: Op.NEG,
    aten.abs.default: Op.ABS,
    aten.relu.default: Op.RELU,
    aten.square.default: Op.SQUARE,
    aten.sqrt.default: Op.SQRT,
    aten.rsqrt.default: Op.RSQRT,
    aten.reciprocal.default: Op.RECIPROCAL,
    aten.exp.default: Op.EXP,
    aten.expm1.default: Op.EXPM1,
    aten.log.default: Op.LOG,
    aten.log1p.default: Op.LOG1P,
    aten.sin.default: Op.SIN,
    aten.cos.default: Op.COS,
    aten.atan.default: Op.ATAN,
    aten.asin.default: Op.ASIN,
    aten.acos.default: Op.ACOS,
    aten.floor.default: Op.FLOOR,
    aten.ceil.default: Op.CEIL,
    aten.trunc.default: Op.TRUNC,
    aten.round.default: Op.ROUND,
    aten.erf.default: Op.ERF,
    aten.sigmoid.default: Op.SIGMOID,
    aten.tanh.default: Op.TANH,
    aten.silu.default: Op.SILU,
    aten.hardsigmoid.default: Op.HARD_SIGMOID,
    aten.hardswish.default: Op.HARD_SWISH,
}
_TWO: dict[OpOverload, Op] = {
    aten.mul.Tensor: Op.MUL,
    aten.mul.Scalar: Op.MUL,
    aten.div.Tensor: Op.DIV,
    aten.div.Scalar: Op.DIV,
    aten.minimum.default: Op.MINIMUM,
    aten.maximum.default: Op.MAXIMUM,
    aten.atan2.default: Op.ATAN2,
    aten.pow.Tensor_Tensor: Op.POW,
    aten.pow.Scalar: Op.POW,
    aten._prelu_kernel.default: Op.LEAKY_RELU,
}
_SUMS: dict[OpOverload, Op] = {
    aten.add.Tensor: Op.ADD,
    aten.add.Scalar: Op.ADD,
    aten.sub.Tensor: Op.SUB,
    aten.sub.Scalar: Op.SUB,
    aten.rsub.Tensor: Op.SUB,
    aten.rsub.Scalar: Op.SUB,
}
_COMPARISONS: dict[OpOverload, Op] = {
    overload: op
    for packet, op in (
        (aten.lt, Op.LESS),
        (aten.gt, Op.LESS),
        (aten.le, Op.LESS_EQUAL),
        (aten.ge, Op.LESS_EQUAL),
        (aten.eq, Op.EQUAL),
        (aten.ne, Op.NOT_EQUAL),
    )
    for overload in (packet.Tensor, packet.Scalar)
}
_SWAPPED = {
    aten.rsub.Tensor,
    aten.rsub.Scalar,
    aten.gt.Tensor,
    aten.gt.Scalar,
    aten.ge.Tensor,
    aten.ge.Scalar,
}
_CONDITIONS: dict[OpOverload, Op] = {
    aten.logical_and.default: Op.AND,
    aten.bitwise_and.Tensor: Op.AND,
    aten.logical_or.default: Op.OR,
    aten.bitwise_or.Tensor: Op.OR,
    aten.logical_not.default: Op.NOT,
    aten.bitwise_not.default: Op.NOT,
}
# Exponents that kernels do not leave to the C library, as steps of x.
_POWERS: dict[float, tuple[Op, ...]] = {
    2.0: (Op.SQUARE,),
    0.5: (Op.SQRT,),
    -0.5: (Op.RSQRT,),
    -1.0: (Op.RECIPROCAL,),
    -2.0: (Op.SQUARE, Op.RECIPROCAL),
}


def steps_of(node: Node) -> Step | None:
    """The operator of `node` over float32, or over conditions, as steps; None if it has no such form."""
    made = _steps(node) if node.op == "call_function" else None
    result = tensor_of(node)
    if made is None or result is None:
        return None
    made = _of_numbers(made, {})
    return made if _fits(made, result.dtype) else None


def _steps(node: Node) -> Step | None:
    target, args, kwargs = node.target, list[Any](node.args), dict[str, Any](node.kwargs)
    special = _SPECIAL.get(target)
    if special is not None:
        made: Step | None = special(args, kwargs)
        return made
    if target in _SUMS:
        return _sum(_SUMS[target], args, kwargs, target in _SWAPPED)
    if kwargs:
        return None
    for table in (_ONE, _TWO, _COMPARISONS, _CONDITIONS):
        if target in table:
            return Step(table[target], tuple(reversed(args) if target in _SWAPPED else args))
    return None


def _sum(op: Op, args: list[Any], kwargs: dict[str, Any], swapped: bool) -> Step:
    alpha = kwargs.get("alpha", args[2] if len(args) > 2 else 1)
    other = args[1] if alpha == 1 else Step(Op.MUL, (alpha, args[1]))
    return Step(op, (other, args[0]) if swapped else (args[0], other))


def _where(args: list[Any], kwargs: dict[str, Any]) -> Step:
    return Step(Op.WHERE, tuple(args))


def _clamp(args: list[Any], kwargs: dict[str, Any]) -> Step | None:
    low, high = (args[i] if i < len(args) else kwargs.get(name) for i, name in ((1, "min"), (2, "max")))
    bounds = (-torch.inf if low is None else low, torch.inf if high is None else high)
    return Step(Op.CLAMP, (args[0], *bounds))


def _clamp_min(args: list[Any], kwargs: dict[str, Any]) -> Step:
    return Step(Op.CLAMP, (args[0], args[1], torch.inf))


def _clamp_max(args: list[Any], kwargs: dict[str, Any]) -> Step:
    return Step(Op.CLAMP, (args[0], -torch.inf, args[1]))


def _masked_fill(args: list[Any], kwargs: dict[str, Any]) -> Step:
    x, mask, value = args
    return Step(Op.WHERE, (mask, value, x))


def _hardtanh(args: list[Any], kwargs: dict[str, Any]) -> Step | None:
    return None if kwargs else Step(Op.CLAMP, (args[0], *[*args[1:], *(-1.0, 1.0)[len(args) - 1 :]]))


def _leaky_relu(args: list[Any], kwargs: dict[str, Any]) -> Step | None:
    return None if kwargs else Step(Op.LEAKY_RELU, (args[0], args[1] if len(args) > 1 else 0.01))


def _gelu(args: list[Any], kwargs: dict[str, Any]) -> Step:
    return Step(Op.GELU_TANH if kwargs.get("approximate") == "tanh" else Op.GELU, (args[0],))


def _power(args: list[Any], kwargs: dict[str, Any]) -> Step | None:
    base, exponent = args[:2]
    if exponent == 3:
        return Step(Op.MUL, (Step(Op.SQUARE, (base,)), base))
    if not isinstance(exponent, int | float):
        return None
    if float(exponent) not in _POWERS:
        return Step(Op.POW, (base, exponent))
    made = base
    for op in _POWERS[float(exponent)]:
        made = Step(op, (made,))
    return made  # type: ignore[no-any-return]


def _addcmul(args: list[Any], kwargs: dict[str, Any]) -> Step:
    x, a, b = args[:3]
    value = kwargs.get("value", 1)
    return Step(Op.ADD, (x, Step(Op.MUL, (a if value == 1 else Step(Op.MUL, (value, a)), b))))


def _convert(args: list[Any], kwargs: dict[str, Any]) -> Step | None:
    """A condition as 1 or 0; what converts anything else does not fit."""
    return Step(Op.WHERE, (args[0], 1.0, 0.0)) if set(kwargs) == {"dtype"} else None


def _scaled(x: Source, factor: Any) -> Source:
    return x if factor == 1 else Step(Op.MUL, (x, factor))


def _elu(args: list[Any], kwargs: dict[str, Any]) -> Step | None:
    x, numbers = args[0], _numbers(args, kwargs, alpha=1, scale=1, input_scale=1)
    if numbers is None:
        return None
    alpha, scale, inner = numbers
    below = _scaled(Step(Op.EXPM1, (_scaled(x, inner),)), alpha * scale)
    return Step(Op.WHERE, (Step(Op.LESS, (0.0, x)), _scaled(x, scale), below))


def _celu(args: list[Any], kwargs: dict[str, Any]) -> Step | None:
    numbers = _numbers(args, kwargs, alpha=1)
    if numbers is None or numbers[0] == 0:
        return None
    return _elu([args[0], numbers[0], 1, 1 / numbers[0]], {})


def _softplus(args: list[Any], kwargs: dict[str, Any]) -> Step | None:
    x, numbers = args[0], _numbers(args, kwargs, beta=1, threshold=20)
    if numbers is None or numbers[0] == 0:
        return None
    beta, threshold = numbers
    raised = _scaled(x, beta)
    curved = Step(Op.LOG1P, (Step(Op.EXP, (raised,)),))
    return Step(
        Op.WHERE,
        (Step(Op.LESS, (threshold, raised)), x, curved if beta == 1 else Step(Op.DIV, (curved, beta))),
    )


def _mish(args: list[Any], kwargs: dict[str, Any]) -> Step:
    return Step(Op.MUL, (args[0], Step(Op.TANH, (Step(Op.LOG1P, (Step(Op.EXP, (args[0],)),)),))))


def _log_sigmoid(args: list[Any], kwargs: dict[str, Any]) -> Step:
    below = Step(Op.EXP, (Step(Op.NEG, (Step(Op.ABS, (args[0],)),)),))
    return Step(Op.SUB, (Step(Op.MINIMUM, (args[0], 0.0)), Step(Op.LOG1P, (below,))))


def _lerp(args: list[Any], kwargs: dict[str, Any]) -> Step:
    """From the nearer end, as ATen's kernel does."""
    start, end, weight = args
    apart = Step(Op.SUB, (end, start))
    from_start = Step(Op.ADD, (start, Step(Op.MUL, (weight, apart))))
    from_end = Step(Op.SUB, (end, Step(Op.MUL, (apart, Step(Op.SUB, (1.0, weight))))))
    if isinstance(weight, int | float):
        from_end = Step(Op.SUB, (end, Step(Op.MUL, (apart, 1.0 - weight))))
        return from_start if abs(weight) < 0.5 else from_end
    return Step(Op.WHERE, (Step(Op.LESS, (Step(Op.ABS, (weight,)), 0.5)), from_start, from_end))


def _nan_to_num(args: list[Any], kwargs: dict[str, Any]) -> Step | None:
    x, most = args[0], torch.finfo(torch.float32).max
    given = [*args[1:], *(kwargs.get(name) for name in ("nan", "posinf", "neginf")[len(args) - 1 :])]
    missing, above, below = (
        default if number is None else number
        for number, default in zip(given, (0.0, most, -most), strict=True)
    )
    if (below, above) == (-most, most):
        numbers = Step(Op.CLAMP, (x, below, above))
    else:
        numbers = Step(Op.WHERE, (Step(Op.EQUAL, (x, torch.inf)), above, x))
        numbers = Step(Op.WHERE, (Step(Op.EQUAL, (x, -torch.inf)), below, numbers))
    return Step(Op.WHERE, (Step(Op.EQUAL, (x, x)), numbers, missing))


def _fmod(args: list[Any], kwargs: dict[str, Any]) -> Step:
    return Step(Op.FMOD, tuple(args))


def _is_on_other_side(rest: Step, divisor: Source) -> Step:
    """Has what a division left, if anything, not the sign of the divisor?"""
    below, above = Step(Op.LESS, (rest, 0.0)), Step(Op.LESS, (0.0, rest))
    if isinstance(divisor, int | float):
        return below if divisor > 0 else above
    return Step(
        Op.OR,
        (
            Step(Op.AND, (Step(Op.LESS, (0.0, divisor)), below)),
            Step(Op.AND, (Step(Op.LESS, (divisor, 0.0)), above)),
        ),
    )


def _remainder(args: list[Any], kwargs: dict[str, Any]) -> Step:
    x, divisor = args
    rest = Step(Op.FMOD, (x, divisor))
    return Step(Op.WHERE, (_is_on_other_side(rest, divisor), Step(Op.ADD, (rest, divisor)), rest))


def _floor_divide(args: list[Any], kwargs: dict[str, Any]) -> Step:
    """Of what is left over when the rest was taken away, so that it agrees with the remainder."""
    x, divisor = args
    rest, quotient = Step(Op.FMOD, (x, divisor)), Step(Op.DIV, (x, divisor))
    whole = Step(Op.DIV, (Step(Op.SUB, (x, rest)), divisor))
    whole = Step(Op.WHERE, (_is_on_other_side(rest, divisor), Step(Op.SUB, (whole, 1.0)), whole))
    floor = Step(Op.FLOOR, (whole,))
    is_rounded_down = Step(Op.LESS, (0.5, Step(Op.SUB, (whole, floor))))
    result = Step(Op.WHERE, (is_rounded_down, Step(Op.ADD, (floor, 1.0)), floor))
    zero = Step(Op.MUL, (quotient, 0.0))
    result = Step(Op.WHERE, (Step(Op.EQUAL, (whole, 0.0)), zero, result))
    if isinstance(divisor, int | float) and divisor != 0:
        return result
    return Step(Op.WHERE, (Step(Op.EQUAL, (divisor, 0.0)), quotient, result))


def _divide(args: list[Any], kwargs: dict[str, Any]) -> Step | None:
    mode = kwargs.get("rounding_mode")
    if mode == "floor":
        return _floor_divide(args, {})
    quotient = Step(Op.DIV, tuple(args))
    return Step(Op.TRUNC, (quotient,)) if mode == "trunc" else quotient if mode is None else None


def _soft_shrink(args: list[Any], kwargs: dict[str, Any]) -> Step | None:
    """What is beyond the limits; 0, and never -0, of what is within."""
    x, numbers = args[0], _numbers(args, kwargs, lambd=0.5)
    if numbers is None:
        return None
    limit = numbers[0]
    return Step(Op.SUB, (x, Step(Op.CLAMP, (x, -limit, limit))))


def _sign(args: list[Any], kwargs: dict[str, Any]) -> Step:
    """0 of what is neither above nor below, NaN too."""
    (x,) = args
    not_above = Step(Op.WHERE, (Step(Op.LESS, (x, 0.0)), -1.0, 0.0))
    return Step(Op.WHERE, (Step(Op.LESS, (0.0, x)), 1.0, not_above))


def _hard_shrink(args: list[Any], kwargs: dict[str, Any]) -> Step | None:
    x, numbers = args[0], _numbers(args, kwargs, lambd=0.5)
    if numbers is None:
        return None
    return Step(Op.WHERE, (Step(Op.LESS_EQUAL, (Step(Op.ABS, (x,)), numbers[0])), 0.0, x))


def _logit(args: list[Any], kwargs: dict[str, Any]) -> Step | None:
    x: Source = args[0]
    eps = args[1] if len(args) > 1 else kwargs.get("eps")
    if eps is not None:
        least, most = eps, 1 - eps
        x = Step(Op.WHERE, (Step(Op.LESS, (most, x)), most, x))
        x = Step(Op.WHERE, (Step(Op.LESS, (args[0], least)), least, x))
    return Step(Op.LOG, (Step(Op.DIV, (x, Step(Op.SUB, (1.0, x)))),))


def _either(args: list[Any], kwargs: dict[str, Any]) -> Step:
    """One of two conditions, not both."""
    first, second = args
    return Step(
        Op.OR,
        (
            Step(Op.AND, (first, Step(Op.NOT, (second,)))),
            Step(Op.AND, (second, Step(Op.NOT, (first,)))),
        ),
    )


def _threshold(args: list[Any], kwargs: dict[str, Any]) -> Step:
    x, limit, value = args
    return Step(Op.WHERE, (Step(Op.LESS_EQUAL, (x, limit)), value, x))


def _numbers(args: list[Any], kwargs: dict[str, Any], **defaults: Any) -> list[Any] | None:
    """The arguments after the first, by name, and what they are if not given; None if one is no number."""
    given = dict(zip(defaults, args[1:], strict=False))
    found = [given.get(name, kwargs.get(name, default)) for name, default in defaults.items()]
    return found if all(isinstance(number, int | float) for number in found) else None


def _unary(op: Op) -> Any:
    return lambda args, kwargs: Step(op, (args[0],))


# No kernel of the optimized library takes these but as a chain, one alone too.
_ONLY_CHAINED: dict[Any, Any] = {
    aten.exp2.default: _unary(Op.EXP2),
    aten.log2.default: _unary(Op.LOG2),
    aten.log10.default: _unary(Op.LOG10),
    aten.sinh.default: _unary(Op.SINH),
    aten.cosh.default: _unary(Op.COSH),
    aten.tan.default: _unary(Op.TAN),
    aten.asinh.default: _unary(Op.ASINH),
    aten.acosh.default: _unary(Op.ACOSH),
    aten.atanh.default: _unary(Op.ATANH),
    aten.erfc.default: _unary(Op.ERFC),
    aten.lgamma.default: _unary(Op.LGAMMA),
    aten.hypot.default: lambda args, kwargs: Step(Op.HYPOT, tuple(args)),
    aten.fmod.Scalar: _fmod,
    aten.fmod.Tensor: _fmod,
    aten.remainder.Scalar: _remainder,
    aten.remainder.Tensor: _remainder,
    aten.remainder.Scalar_Tensor: _remainder,
    aten.floor_divide.default: _floor_divide,
    aten.floor_divide.Scalar: _floor_divide,
    aten.div.Tensor_mode: _divide,
    aten.div.Scalar_mode: _divide,
    aten.elu.default: _elu,
    aten.celu.default: _celu,
    aten.softplus.default: _softplus,
    aten.mish.default: _mish,
    aten.log_sigmoid.default: _log_sigmoid,
    aten.threshold.default: _threshold,
    aten.lerp.Scalar: _lerp,
    aten.lerp.Tensor: _lerp,
    aten.nan_to_num.default: _nan_to_num,
    aten.softshrink.default: _soft_shrink,
    aten.hardshrink.default: _hard_shrink,
    aten.logit.default: _logit,
    aten.frac.default: lambda args, kwargs: Step(Op.SUB, (args[0], Step(Op.TRUNC, (args[0],)))),
    aten.isnan.default: lambda args, kwargs: Step(Op.NOT_EQUAL, (args[0], args[0])),
    aten.isinf.default: lambda args, kwargs: Step(Op.EQUAL, (Step(Op.ABS, (args[0],)), torch.inf)),
    aten.isposinf.default: lambda args, kwargs: Step(Op.EQUAL, (args[0], torch.inf)),
    aten.isneginf.default: lambda args, kwargs: Step(Op.EQUAL, (args[0], -torch.inf)),
    aten.logical_xor.default: _either,
    aten.bitwise_xor.Tensor: _either,
    aten._to_copy.default: _convert,
    aten.masked_fill.Scalar: _masked_fill,
    aten.masked_fill.Tensor: _masked_fill,
}
_SPECIAL: dict[Any, Any] = {
    **_ONLY_CHAINED,
    aten.sign.default: _sign,
    aten.where.self: _where,
    aten.clamp.default: _clamp,
    aten.clamp_min.default: _clamp_min,
    aten.clamp_max.default: _clamp_max,
    aten.hardtanh.default: _hardtanh,
    aten.leaky_relu.default: _leaky_relu,
    aten.gelu.default: _gelu,
    aten.pow.Tensor_Scalar: _power,
    aten.addcmul.default: _addcmul,
}
ONLY_CHAINED = {*_ONLY_CHAINED, *_COMPARISONS, *_CONDITIONS}
_TAKE_CONDITION = set(_CONDITIONS.values())


def _takes_condition(step: Step, place: int) -> bool:
    return step.op in _TAKE_CONDITION or (step.op is Op.WHERE and place == 0)


def _of_numbers(step: Step, known: dict[Step, Step]) -> Step:
    """`step` with conditions as 1 and 0 where it takes numbers, as ATen promotes them.

    `known` are those that were made already.
    """
    if step in known:
        return known[step]
    sources: list[Source] = []
    for place, source in enumerate(step.sources):
        if isinstance(source, Step):
            source = _of_numbers(source, known)
        elif isinstance(source, Node) and not _takes_condition(step, place):
            value = tensor_of(source)
            if value is not None and value.dtype is torch.bool:
                source = Step(Op.WHERE, (source, 1.0, 0.0))
        sources.append(source)
    known[step] = Step(step.op, tuple(sources))
    return known[step]


def _fits(step: Step, wanted: torch.dtype) -> bool:
    """Do the sources have the dtypes that a step takes, and its result the one that is wanted?"""
    if wanted is not (torch.bool if gives_condition(step.op) else torch.float32):
        return False
    for place, source in enumerate(step.sources):
        condition = _takes_condition(step, place)
        dtype = torch.bool if condition else torch.float32
        if isinstance(source, Step):
            if not _fits(source, dtype):
                return False
        elif isinstance(source, Node):
            value = tensor_of(source)
            if value is None or value.dtype is not dtype:
                return False
        elif (
            condition
            or isinstance(source, bool)
            or not isinstance(source, int | float)
            or (step.op is Op.CLAMP and source != source)
        ):
            return False
    return True
