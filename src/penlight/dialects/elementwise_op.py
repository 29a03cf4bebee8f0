"""penlight::elementwise, a chain of elementwise operators in one, made known to torch.

In eager mode it runs its program step by step with ATen's operators; its kernel is
kernels/optimized/program.cpp.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch._ops import OpOverload
from torch.nn import functional

from penlight.dialects.define import define
from penlight.kernels.elementwise import REGISTERS, STEP_WORDS, WINDOW_WORDS, ElementOp, gives_condition
from penlight.kernels.table import OpTable


def elementwise_op(table: OpTable, libraries: tuple[str, ...]) -> OpOverload | None:
    """The operator, if `libraries` have a kernel for it."""
    rows = table.rows("penlight::elementwise.out", libraries)
    return define(str(rows[0].schema), _run, _shape) if rows else None


MEANING: dict[int, Callable[..., Tensor]] = {
    ElementOp.ADD: torch.add,
    ElementOp.SUB: torch.sub,
    ElementOp.MUL: torch.mul,
    ElementOp.DIV: torch.div,
    ElementOp.MINIMUM: torch.minimum,
    ElementOp.MAXIMUM: torch.maximum,
    ElementOp.CLAMP: torch.clamp,
    ElementOp.LEAKY_RELU: lambda x, slope: torch.where(x > 0, x, x * slope),
    ElementOp.WHERE: torch.where,
    ElementOp.LESS: torch.lt,
    ElementOp.LESS_EQUAL: torch.le,
    ElementOp.EQUAL: torch.eq,
    ElementOp.NOT_EQUAL: torch.ne,
    ElementOp.AND: torch.logical_and,
    ElementOp.OR: torch.logical_or,
    ElementOp.NOT: torch.logical_not,
    ElementOp.NEG: torch.neg,
    ElementOp.ABS: torch.abs,
    ElementOp.RELU: torch.relu,
    ElementOp.SQUARE: torch.square,
    ElementOp.SQRT: torch.sqrt,
    ElementOp.RSQRT: torch.rsqrt,
    ElementOp.RECIPROCAL: torch.reciprocal,
    ElementOp.EXP: torch.exp,
    ElementOp.LOG: torch.log,
    ElementOp.SIN: torch.sin,
    ElementOp.COS: torch.cos,
    ElementOp.ERF: torch.erf,
    ElementOp.SIGMOID: torch.sigmoid,
    ElementOp.TANH: torch.tanh,
    ElementOp.SILU: functional.silu,
    ElementOp.GELU: functional.gelu,
    ElementOp.GELU_TANH: lambda x: functional.gelu(x, approximate="tanh"),
    ElementOp.HARD_SIGMOID: functional.hardsigmoid,
    ElementOp.HARD_SWISH: functional.hardswish,
    ElementOp.EXPM1: torch.expm1,
    ElementOp.LOG1P: torch.log1p,
    ElementOp.ATAN2: torch.atan2,
    ElementOp.ATAN: torch.atan,
    ElementOp.ASIN: torch.asin,
    ElementOp.ACOS: torch.acos,
    ElementOp.POW: torch.pow,
    ElementOp.FLOOR: torch.floor,
    ElementOp.CEIL: torch.ceil,
    ElementOp.TRUNC: torch.trunc,
    ElementOp.ROUND: torch.round,
    ElementOp.EXP2: torch.exp2,
    ElementOp.LOG2: torch.log2,
    ElementOp.LOG10: torch.log10,
    ElementOp.SINH: torch.sinh,
    ElementOp.COSH: torch.cosh,
    ElementOp.TAN: torch.tan,
    ElementOp.ASINH: torch.asinh,
    ElementOp.ACOSH: torch.acosh,
    ElementOp.ATANH: torch.atanh,
    ElementOp.HYPOT: torch.hypot,
    ElementOp.FMOD: torch.fmod,
    ElementOp.ERFC: torch.erfc,
    ElementOp.LGAMMA: torch.lgamma,
}


def _run(
    inputs: Sequence[Tensor],
    wholes: Sequence[Tensor],
    windows: Sequence[int],
    program: Sequence[int],
    constants: Sequence[float],
) -> Tensor:
    registers: list[Any] = [None] * REGISTERS
    operands = [*inputs, *_parts(wholes, windows)]
    dtype = next((x.dtype for x in operands if x.is_floating_point()), torch.float32)
    operands += [torch.tensor(constant, dtype=dtype) for constant in constants]
    result: Any = None
    for at in range(0, len(program), STEP_WORDS):
        op, to, *sources = program[at : at + STEP_WORDS]
        values = [*registers, *operands]
        result = MEANING[op](*(values[source] for source in sources[: arity(op)]))
        registers[to] = result
    return torch.as_tensor(result).clone()


_OF_TWO = (ElementOp.ATAN2, ElementOp.POW, ElementOp.HYPOT, ElementOp.FMOD)


def arity(op: int) -> int:
    """How many sources an operation reads."""
    if op in (ElementOp.CLAMP, ElementOp.WHERE):
        return 3
    return 2 if op <= ElementOp.OR or op in _OF_TWO else 1


def _parts(wholes: Sequence[Tensor], windows: Sequence[int]) -> list[Tensor]:
    """Each of `wholes` after its windows."""
    parts = list(wholes)
    for at in range(0, len(windows), WINDOW_WORDS):
        whole, dim, first, end, step = windows[at : at + WINDOW_WORDS]
        x = parts[whole]
        if step == 0:
            parts[whole] = x.select(dim, first)
        else:
            parts[whole] = torch.ops.aten.slice.Tensor(x, dim, first, end, step)
    return parts


def _shape(
    inputs: Sequence[Tensor],
    wholes: Sequence[Tensor],
    windows: Sequence[int],
    program: Sequence[int],
    constants: Any,
) -> Tensor:
    """As ATen has it for a sum of the operands: sizes, and the order in memory."""
    operands = [*inputs, *_parts(wholes, windows)]
    floats = [x if x.is_floating_point() else x.to(torch.float32) for x in operands]
    result = floats[0]
    for other in floats[1:]:
        result = result + other
    return torch.empty_like(result, dtype=torch.bool if gives_condition(program[-STEP_WORDS]) else None)
