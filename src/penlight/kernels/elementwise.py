"""Programs of elementwise operations: the form in which chains of operators reach one kernel.

A program is a list of numbers, five for each step: the operation, the register it
writes, and up to three sources. Sources count the registers first, then the
inputs, then the wholes, then the constants. The last step's result is the output.

Of a whole, a chain reads a part. Windows are five numbers each: which of the wholes,
and dimension, start, end and step of a slice, or dimension and place of a select
with the step 0. Several of one whole are taken in order.
"""

from __future__ import annotations

from enum import IntEnum


class ElementOp(IntEnum):
    """Numbers of kernels/optimized/vector/elements.h; they are part of the file format."""

    ADD = 1
    SUB = 2
    MUL = 3
    DIV = 4
    MINIMUM = 5
    MAXIMUM = 6
    CLAMP = 7
    LEAKY_RELU = 8
    WHERE = 9
    LESS = 10
    LESS_EQUAL = 11
    EQUAL = 12
    NOT_EQUAL = 13
    AND = 14
    OR = 15
    NOT = 16
    NEG = 17
    ABS = 18
    RELU = 19
    SQUARE = 20
    SQRT = 21
    RSQRT = 22
    RECIPROCAL = 23
    EXP = 24
    LOG = 25
    SIN = 26
    COS = 27
    ERF = 28
    SIGMOID = 29
    TANH = 30
    SILU = 31
    GELU = 32
    GELU_TANH = 33
    HARD_SIGMOID = 34
    HARD_SWISH = 35
    EXPM1 = 36
    LOG1P = 37
    ATAN2 = 38
    ATAN = 39
    ASIN = 40
    ACOS = 41
    POW = 42
    FLOOR = 43
    CEIL = 44
    TRUNC = 45
    ROUND = 46
    EXP2 = 47
    LOG2 = 48
    LOG10 = 49
    SINH = 50
    COSH = 51
    TAN = 52
    ASINH = 53
    ACOSH = 54
    ATANH = 55
    HYPOT = 56
    FMOD = 57
    ERFC = 58
    LGAMMA = 59


def gives_condition(op: int) -> bool:
    """Is the result of an operation a condition, and not a number?"""
    return ElementOp.LESS <= op <= ElementOp.NOT


REGISTERS = 8
OPERANDS = 32  # inputs, wholes and constants
STEPS = 64
STEP_WORDS = 5
WINDOW_WORDS = 5

# Operators that the optimized library computes as chains of their own, by what is in them.
ALONE: dict[str, tuple[ElementOp, ...]] = {
    **{
        f"aten::{op.name.lower()}.out": (op,)
        for op in ElementOp
        if ElementOp.NEG <= op <= ElementOp.ROUND or op in (ElementOp.MAXIMUM, ElementOp.MINIMUM)
    },
    "aten::add.out": (ElementOp.ADD, ElementOp.MUL),
    "aten::add.Scalar_out": (ElementOp.ADD, ElementOp.MUL),
    "aten::sub.out": (ElementOp.SUB, ElementOp.MUL),
    "aten::sub.Scalar_out": (ElementOp.SUB, ElementOp.MUL),
    "aten::rsub.Scalar_out": (ElementOp.SUB,),
    "aten::mul.out": (ElementOp.MUL,),
    "aten::mul.Scalar_out": (ElementOp.MUL,),
    "aten::div.out": (ElementOp.DIV,),
    "aten::div.Scalar_out": (ElementOp.DIV,),
    "aten::pow.Tensor_Scalar_out": (ElementOp.SQUARE, ElementOp.SQRT, ElementOp.RSQRT, ElementOp.POW),
    "aten::pow.Tensor_Tensor_out": (ElementOp.POW,),
    "aten::pow.Scalar_out": (ElementOp.POW,),
    "aten::where.self_out": (ElementOp.WHERE,),
    "aten::clamp.out": (ElementOp.CLAMP,),
    "aten::hardtanh.out": (ElementOp.CLAMP,),
    "aten::leaky_relu.out": (ElementOp.LEAKY_RELU,),
    "aten::_prelu_kernel.out": (ElementOp.LEAKY_RELU,),
    "aten::gelu.out": (ElementOp.GELU, ElementOp.GELU_TANH),
    "aten::hardsigmoid.out": (ElementOp.HARD_SIGMOID,),
    "aten::hardswish.out": (ElementOp.HARD_SWISH,),
}
