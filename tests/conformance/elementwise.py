"""Cases of the elementwise families: kernels/ops.yaml, section "elementwise"."""

from __future__ import annotations

import math

import dim_order  # noqa: F401  (defines operators that torch does not)
import torch
from op_case import (
    ALL,
    CUBE,
    EMPTY,
    FLOATS,
    IMAGE,
    INTS,
    LONG,
    MAT,
    REAL,
    SCALAR,
    In,
    Op,
    Raw,
)

INTEGRAL = (*INTS, torch.bool)
SIGNED = (*FLOATS, torch.int64, torch.int32, torch.int16, torch.int8)

ONE = [(LONG,), (MAT,), (IMAGE,), (EMPTY,), (SCALAR,)]
# Equal sizes, rows, columns, scalars, both sides stretched, rank 4 against channels, empty.
TWO = [
    (LONG, LONG),
    (MAT, MAT),
    (IMAGE, IMAGE),
    (MAT, (5,)),
    ((4, 1), MAT),
    (MAT, SCALAR),
    (SCALAR, CUBE),
    ((3, 1, 5), (2, 1)),
    (IMAGE, (3, 1, 1)),
    ((2, 0, 3), (1, 3)),
    (SCALAR, SCALAR),
]
THREE = [
    (LONG, LONG, LONG),
    (IMAGE, IMAGE, IMAGE),
    (MAT, (5,), (4, 1)),
    (SCALAR, MAT, (1,)),
    (EMPTY, EMPTY, EMPTY),
]


def _unary(names: str, dtypes: tuple[torch.dtype, ...], **options: object) -> list[Op]:
    return [Op(f"aten::{name}", ONE, dtypes, **options) for name in names.split()]  # type: ignore[arg-type]


def _with_scalars(
    name: str, scalars: tuple[object, ...], dtypes: tuple[torch.dtype, ...], **options: object
) -> list[Op]:
    return [Op(name, [(LONG,), (IMAGE,), (EMPTY,), (SCALAR,)], dtypes, (s,), **options) for s in scalars]  # type: ignore[arg-type]


def _mixed(name: str, first: torch.dtype, second: torch.dtype, **options: object) -> Op:
    """Two operands of different dtypes: with dimensions, and as a 0-d tensor."""
    shapes = [
        (In(MAT, first), In(MAT, second)),
        (In(MAT, first), In(SCALAR, second)),
        (In((5,), first), In((4, 1), second)),
    ]
    return Op(name, shapes, (first,), special=False, **options)  # type: ignore[arg-type]


_PAIRS = [
    (torch.float32, torch.float64),
    (torch.float16, torch.bfloat16),
    (torch.float32, torch.int64),
    (torch.int32, torch.float32),
    (torch.uint8, torch.int8),
    (torch.int64, torch.int32),
    (torch.bool, torch.int64),
    (torch.bool, torch.float32),
    (torch.float16, torch.float32),
    (torch.float64, torch.int8),
]

OPS: list[Op] = [
    # --- one number ------------------------------------------------------------------------------
    *_unary("abs", REAL, exact=True),
    *_unary("neg sign", REAL, exact=True),
    Op("aten::sign", ONE, (torch.bool,)),
    *_unary("ceil floor trunc round", REAL, exact=True),
    *[Op("aten::round.decimals", ONE, FLOATS, kwargs={"decimals": d}, special=False) for d in (0, 2, -1)],
    *_unary("frac", FLOATS),
    *_unary("reciprocal sqrt rsqrt square exp exp2 expm1 erf erfc tanh sigmoid", ALL),
    *_unary("log log2 log10 log1p", ALL, domain=(0, 9)),
    *_unary("sin cos tan", ALL, domain=(-9, 9)),
    *_unary("asin acos atan atanh asinh", ALL, domain=(-1, 1)),
    *_unary("sinh cosh deg2rad rad2deg", ALL),
    *_unary("acosh", ALL, domain=(1, 9)),
    *_unary("nan_to_num", ALL),
    Op("aten::nan_to_num", ONE, FLOATS, (1.0, 2.0, -2.0)),
    # --- activations -----------------------------------------------------------------------------
    *_unary("relu", REAL, exact=True),
    *_unary(
        "silu mish gelu elu celu leaky_relu hardswish hardsigmoid softplus log_sigmoid log_sigmoid_forward",
        FLOATS,
    ),
    *_unary("hardshrink softshrink", FLOATS),
    Op("aten::gelu", ONE, FLOATS, kwargs={"approximate": "tanh"}),
    Op("aten::elu", ONE, FLOATS, (0.7, 1.3, 0.9)),
    Op("aten::celu", ONE, FLOATS, (0.5,)),
    Op("aten::leaky_relu", ONE, FLOATS, (0.2,)),
    Op("aten::hardtanh", ONE, (*FLOATS, *INTS[:4])),
    Op("aten::hardtanh", ONE, REAL, (0.0, 6.0)),
    Op("aten::softplus", ONE, FLOATS, (2.0, 3.0)),
    Op("aten::threshold", ONE, REAL, (1, 7)),
    Op("aten::hardshrink", ONE, FLOATS, (1.2,)),
    Op("aten::softshrink", ONE, FLOATS, (1.2,)),
    Op("aten::logit", ONE, ALL, domain=(0, 1)),
    Op("aten::logit", ONE, FLOATS, (0.1,), domain=(-0.2, 1.2)),
    Op("aten::_prelu_kernel", [(IMAGE, (1, 3, 1, 1)), (MAT, (1, 5)), (MAT, (1, 1)), (EMPTY, EMPTY)], FLOATS),
    # --- arithmetic ------------------------------------------------------------------------------
    Op("aten::add.Tensor", TWO, ALL),
    Op("aten::add.Tensor", TWO, REAL, kwargs={"alpha": 3}, special=False),
    Op("aten::add.Tensor", TWO, FLOATS, kwargs={"alpha": 0.5}, special=False),
    Op("aten::sub.Tensor", TWO, REAL),
    Op("aten::sub.Tensor", TWO, REAL, kwargs={"alpha": 2}, special=False),
    Op("aten::rsub.Tensor", TWO, REAL, kwargs={"alpha": 2}, special=False),
    Op("aten::mul.Tensor", TWO, ALL),
    Op("aten::div.Tensor", TWO, ALL),
    *[_mixed(f"aten::{name}.Tensor", *pair) for name in ("add", "mul", "div") for pair in _PAIRS],
    # The second factor, or a divisor, without dimensions is not rounded to the result's 16 bits.
    *[
        Op(
            f"aten::{name}.Tensor",
            [(In((2,), values=(6e4, 0.01)), In((), dtype, values=(number,)))],
            (torch.float16, torch.bfloat16),
        )
        for name, number in (("mul", 100_003), ("div", 100_003), ("mul", -(2**63)))
        for dtype in (torch.float32, torch.float64, torch.int64)
    ],
    *_with_scalars("aten::add.Scalar", (2, 0.5, True), ALL),
    *_with_scalars("aten::sub.Scalar", (2, 0.5), REAL),
    *_with_scalars("aten::rsub.Scalar", (2, 0.5), REAL),
    *_with_scalars("aten::mul.Scalar", (3, 0.3), ALL),
    *_with_scalars("aten::div.Scalar", (3, 0.3, 0), REAL),
    *[
        Op(
            "aten::div.Tensor_mode",
            [(LONG, In(LONG, None, 1, 9)), (IMAGE, In((3, 1, 1), None, 1, 9))],
            REAL,
            kwargs={"rounding_mode": mode},
            special=mode == "trunc",
        )
        for mode in ("trunc", "floor")
    ],
    Op("aten::div.Tensor_mode", TWO, FLOATS, kwargs={"rounding_mode": None}),
    *[
        Op("aten::div.Scalar_mode", ONE, REAL, (scalar,), {"rounding_mode": mode}, special=False)
        for mode in ("trunc", "floor")
        for scalar in (3, -2, 0.7)
    ],
    *[
        Op(
            f"aten::{name}",
            [(LONG, In(LONG, None, low, high)), (MAT, In((5,), None, low, high))],
            dtypes,
            special=False,
        )
        for name in ("floor_divide", "fmod.Tensor", "remainder.Tensor")
        for low, high, dtypes in ((1, 9, REAL), (-9, -1, SIGNED), (-2, 2, FLOATS))
    ],
    *[
        Op(f"aten::{name}", ONE, REAL, (scalar,), special=False)
        for name in ("floor_divide.Scalar", "fmod.Scalar", "remainder.Scalar")
        for scalar in (3, -3 if name != "floor_divide.Scalar" else 5, 0.7)
    ],
    Op("aten::remainder.Scalar_Tensor", [(7, In(MAT, None, 1, 9))], REAL, special=False),
    Op("aten::pow.Tensor_Tensor", [(LONG, LONG), (MAT, (5,)), (SCALAR, SCALAR)], FLOATS),
    Op("aten::pow.Tensor_Tensor", [(LONG, LONG), (MAT, (5,))], INTS, special=False),
    *_with_scalars("aten::pow.Tensor_Scalar", (2, 3, 0.5, -0.5, -1, -2, 0, 1, 2.5), FLOATS),
    *_with_scalars("aten::pow.Tensor_Scalar", (2, 5, 0), INTS),
    *_with_scalars("aten::pow.Tensor_Scalar", (1.5,), INTS, domain=(0, 9)),
    Op("aten::pow.Scalar", [(2, LONG), (2.5, IMAGE), (1, MAT), (0, SCALAR)], REAL),
    Op("aten::lerp.Scalar", [(LONG, LONG), (IMAGE, IMAGE), (MAT, (5,))], FLOATS, (0.3,), special=False),
    Op("aten::lerp.Scalar", [(LONG, LONG), (MAT, (5,))], FLOATS, (0.8,), special=False),
    Op("aten::lerp.Tensor", THREE[:3], FLOATS, special=False),
    Op("aten::addcmul", THREE, REAL, kwargs={"value": 2}, special=False),
    Op("aten::addcdiv", THREE, FLOATS, kwargs={"value": 0.5}, special=False),
    # --- comparisons -----------------------------------------------------------------------------
    *[Op(f"aten::{name}.Tensor", TWO, ALL) for name in ("eq", "ne", "lt", "le", "gt", "ge")],
    *[_mixed(f"aten::{name}.Tensor", *pair) for name in ("eq", "lt") for pair in _PAIRS],
    *[
        op
        for name in ("eq", "ne", "lt", "le", "gt", "ge")
        for op in _with_scalars(f"aten::{name}.Scalar", (1, 0.1), ALL)
    ],
    *_unary("isnan isinf isposinf isneginf signbit", ALL),
    *_unary("isfinite", ALL),
    *[Op(f"aten::{name}", TWO, ALL, exact=True) for name in ("maximum", "minimum", "fmax", "fmin")],
    *[_mixed(f"aten::{name}", *pair) for name in ("maximum", "minimum") for pair in _PAIRS[:6]],
    Op("aten::clamp", ONE, REAL, (1, 2)),
    Op("aten::clamp", ONE, REAL, (None, 1)),
    Op("aten::clamp", ONE, REAL, (0.5, None)),
    Op("aten::clamp", ONE, FLOATS, (float("nan"), 1.0)),
    Op("aten::clamp.Tensor", THREE, REAL),
    Op("aten::clamp.Tensor", TWO[:9], REAL),
    Op("aten::clamp.Tensor", [(MAT, None, (5,)), (LONG, None, LONG)], REAL),
    *_with_scalars("aten::clamp_min", (1, 0.5), REAL),
    *_with_scalars("aten::clamp_max", (1, 0.5), REAL),
    Op("aten::clamp_min.Tensor", TWO, REAL),
    Op("aten::clamp_max.Tensor", TWO, REAL),
    Op("aten::copysign.Tensor", TWO, ALL),
    *_with_scalars("aten::copysign.Scalar", (-1, 0.5, -0.0), ALL),
    Op("aten::hypot", TWO, FLOATS),
    Op("aten::atan2", TWO, ALL),
    # --- logic and bits --------------------------------------------------------------------------
    *_unary("logical_not", ALL),
    *[Op(f"aten::logical_{name}", TWO, ALL) for name in ("and", "or", "xor")],
    *[_mixed(f"aten::logical_{name}", *pair) for name in ("and",) for pair in _PAIRS],
    *_unary("bitwise_not", INTEGRAL),
    *[Op(f"aten::bitwise_{name}.Tensor", TWO, INTEGRAL) for name in ("and", "or", "xor")],
    *[_mixed(f"aten::bitwise_{name}.Tensor", torch.int64, torch.bool) for name in ("and", "or", "xor")],
    *[
        op
        for name in ("and", "or", "xor")
        for op in _with_scalars(f"aten::bitwise_{name}.Scalar", (5, True), INTEGRAL)
    ],
    *[
        Op(f"aten::bitwise_{name}.Scalar_Tensor", [(6, MAT), (1, SCALAR)], INTEGRAL)
        for name in ("and", "or", "xor")
    ],
    *[
        Op(
            f"aten::{name}.Tensor",
            [(LONG, In(LONG, None, -2, 70)), (MAT, In((5,), None, 0, 9))],
            INTS[:4],
            special=False,
        )
        for name in ("bitwise_left_shift", "bitwise_right_shift", "__lshift__", "__rshift__")
    ],
    *[
        Op(f"aten::{name}", ONE, INTS, (count,))
        for name in (
            "bitwise_left_shift.Tensor_Scalar",
            "bitwise_right_shift.Tensor_Scalar",
            "__lshift__.Scalar",
            "__rshift__.Scalar",
        )
        for count in (0, 3, 40)
    ],
    *[
        Op(f"aten::bitwise_{side}_shift.Scalar_Tensor", [(9, In(MAT, None, 0, 9))], INTS, special=False)
        for side in ("left", "right")
    ],
    # --- choosing --------------------------------------------------------------------------------
    Op(
        "aten::where.self",
        [
            (In(LONG, torch.bool), LONG, LONG),
            (In(IMAGE, torch.bool), IMAGE, IMAGE),
            (In((4, 1), torch.bool), MAT, SCALAR),
            (In(MAT, torch.bool), SCALAR, (5,)),
            (In(SCALAR, torch.bool), MAT, MAT),
            (In(EMPTY, torch.bool), EMPTY, SCALAR),
            (In(MAT, torch.bool), MAT, In(SCALAR, torch.int64)),
            (In(MAT, torch.bool), MAT, In(MAT, torch.float32)),
        ],
        ALL,
    ),
    *[
        Op(
            "aten::masked_fill.Scalar",
            [(LONG, In(LONG, torch.bool)), (IMAGE, In((5, 7), torch.bool))],
            dtypes,
            (value,),
        )
        for value, dtypes in ((3, ALL), (-math.inf, FLOATS), (0.1, FLOATS))
    ],
    Op(
        "aten::masked_fill.Tensor",
        [(MAT, In(MAT, torch.bool), SCALAR), (IMAGE, In((7,), torch.bool), SCALAR)],
        ALL,
    ),
    # --- made from numbers -----------------------------------------------------------------------
    *_with_scalars("aten::fill.Scalar", (3, -1.5, True), SIGNED),
    Op("aten::fill.Tensor", [(MAT, SCALAR), (IMAGE, In(SCALAR, torch.float32)), (EMPTY, SCALAR)], ALL),
    *[
        Op("aten::full", [(Raw([2, 3]), 3), (Raw([5, 1999]), 3)], ALL, kwargs={"dtype": dtype}, special=False)
        for dtype in ALL
    ],
    *_with_scalars("aten::full_like", (2, 1.5), ALL),
    *[Op(f"aten::{name}_like", ONE, ALL, special=False) for name in ("zeros", "ones")],
    *[
        Op(f"aten::{name}", [(Raw(size),)], (dtype,), kwargs={"dtype": dtype}, special=False)
        for name in ("zeros", "ones")
        for dtype in ALL
        for size in ([2, 3], [], [0, 4])
    ],
    Op("aten::new_zeros", [(MAT, Raw([3, 2]))], ALL, special=False),
    Op("aten::new_ones", [(MAT, Raw([3, 2]))], ALL, special=False),
    Op("aten::new_full", [(MAT, Raw([3, 2]), 4)], ALL, special=False),
    *[
        Op("aten::scalar_tensor", [(value,)], kwargs={"dtype": d}, special=False)
        for value in (3, 2.5)
        for d in REAL
    ],
    *[Op("aten::eye.m", [(3, 4), (4, 2), (0, 3)], kwargs={"dtype": dtype}, special=False) for dtype in ALL],
    Op("aten::eye", [(3,), (0,)], special=False),
    Op("aten::arange", [(7,), (0,), (3.5,), (200,)], special=False),
    Op("aten::arange", [(7,), (3.5,)], kwargs={"dtype": torch.float32}, special=False),
    Op("aten::arange.start", [(1, 9), (-0.5, 4.0), (5, 5)], special=False),
    Op("aten::arange.start_step", [(1, 9, 3), (9, 1, -2), (0.0, 1.0, 0.1), (5, 5, 1)], special=False),
    Op("aten::arange.start_step", [(1, 9, 3), (-4, 90, 1)], kwargs={"dtype": torch.int32}, special=False),
    *[
        Op(
            "aten::linspace",
            [(0, 1, 5), (-3, 9, 100), (2, 2, 1), (0, 5, 0)],
            kwargs={"dtype": dtype},
            special=False,
        )
        for dtype in (*FLOATS[:2], torch.int64)
    ],
    # --- copies ----------------------------------------------------------------------------------
    *[
        Op(
            "aten::_to_copy",
            [(LONG,), (IMAGE,), (SCALAR,), (EMPTY,)],
            ALL,
            kwargs={"dtype": d},
            special=False,
        )
        for d in ALL
    ],
    Op(
        "aten::_to_copy",
        [(In((3,), torch.float32, values=(math.nan, math.inf, -0.0)),)],
        kwargs={"dtype": torch.bool},
    ),
    Op("aten::clone", ONE, ALL, exact=True),
    Op("dim_order_ops::_clone_dim_order", ONE, ALL, exact=True),
    *[
        Op("dim_order_ops::_to_dim_order_copy", [(IMAGE,)], ALL, kwargs=kwargs, special=False)
        for kwargs in (
            {"dim_order": [0, 2, 3, 1]},
            {"dim_order": [0, 1, 2, 3], "dtype": torch.float32},
            {"dtype": torch.int64},
        )
    ],
    Op(
        "aten::copy",
        [(MAT, MAT), (MAT, (5,)), (IMAGE, SCALAR), (In(MAT, torch.int64), MAT), (IMAGE, IMAGE)],
        ALL,
    ),
]

SPECIAL = [
    Op("aten::lgamma", ONE, ALL, tol=1e-2),
    Op("aten::lgamma", [(LONG,)], domain=(-6, 40), tol=1e-5),
    Op("aten::digamma", ONE, ALL, tol=2e-2),
    Op("aten::digamma", [(LONG,)], domain=(0.01, 40), tol=1e-5),
    Op("aten::erfinv", ONE, ALL, domain=(-1, 1), tol=1e-2),
    Op("aten::erfinv", [(LONG,)], (torch.float64,), domain=(-1, 1)),
    Op("aten::i0", ONE, ALL, tol=2e-2),
    Op("aten::i0", [(LONG,)], (torch.float64,), domain=(-80, 80)),
    Op("aten::gcd", [(MAT, MAT), (MAT, (5,)), (EMPTY, EMPTY)], INTS, special=False),
    Op("aten::lcm", [(MAT, MAT), (MAT, (5,)), (EMPTY, EMPTY)], INTS, special=False),
    *[
        Op(
            f"aten::special_{name}",
            [(MAT,), (LONG,)],
            (torch.float64, torch.float32, torch.int64),
            tol=3e-6,
            domain=(-40, 40),
        )
        for name in (
            *("bessel_j0", "bessel_j1", "spherical_bessel_j0", "i0e", "i1e"),
            *("modified_bessel_i0", "modified_bessel_i1", "i1"),
        )
    ],
    # Farther from 0 ATen computes the angle of the wave in float; at the largest numbers it overflows.
    Op(
        "aten::special_airy_ai",
        [(MAT,), (LONG,)],
        (torch.float64, torch.float32, torch.int64),
        tol=3e-6,
        domain=(-20, 40),
        special=False,
    ),
    *[
        Op(
            f"aten::special_{name}",
            [(MAT,), (LONG,)],
            (torch.float64, torch.float32),
            tol=3e-6,
            domain=(0, 40),
        )
        for name in (
            *("bessel_y0", "bessel_y1", "modified_bessel_k0", "modified_bessel_k1"),
            *("scaled_modified_bessel_k0", "scaled_modified_bessel_k1"),
        )
    ],
    Op(
        "aten::special_erfcx",
        [(MAT,), (LONG,)],
        (torch.float64, torch.float32, torch.int64),
        tol=1e-5,
        domain=(-9, 60),
    ),
    Op("aten::special_ndtri", [(MAT,), (LONG,)], (torch.float64, torch.float32), domain=(0, 1)),
    *[
        Op(
            "aten::polygamma",
            [(n, MAT), (n, LONG)],
            (torch.float64, torch.float32),
            tol=3e-5,
            domain=(0.05, 40),
            special=False,
        )
        for n in range(5)
    ],
    Op(
        "aten::special_zeta",
        [(In(LONG, None, 1, 9), In(LONG, None, 0.1, 30))],
        (torch.float64, torch.float32),
        tol=1e-5,
    ),
    Op(
        "aten::special_zeta", [(In((40,), None, 2, 6), In((40,), None, -9, 0))], (torch.int64,), special=False
    ),
    # At the largest numbers ATen has NaN, where the functions are 0 and 1.
    *[
        Op(
            f"aten::{name}",
            [(LONG, LONG), (MAT, (5,))],
            (torch.float64, torch.float32),
            special=False,
            domain=(0.01, 90),
            tol=2e-5,
        )
        for name in ("igamma", "igammac")
    ],
    *[
        Op(
            f"aten::special_{name}",
            [(In(LONG, None, -1, 1), In(LONG, None, 0, 9)), (In(MAT, None, -3, 3), In((5,), None, -2, 6))],
            (torch.float64, torch.float32),
            tol=3e-5,
        )
        for name in (
            *(f"chebyshev_polynomial_{kind}" for kind in "tuvw"),
            *(f"shifted_chebyshev_polynomial_{kind}" for kind in "tuvw"),
            *(
                "hermite_polynomial_h",
                "hermite_polynomial_he",
                "laguerre_polynomial_l",
                "legendre_polynomial_p",
            ),
        )
    ],
    Op("aten::nextafter", [(MAT, MAT), (MAT, (5,))], (torch.float32, torch.float64), exact=True),
]
OPS += SPECIAL

# Kernels without a case here, and why.
UNCOMPARED = {
    "aten::empty.out",  # the content of an empty tensor is nobody's promise
    "aten::empty_like.out",
    "aten::new_empty.out",
    "aten::empty_strided.out",
    "dim_order_ops::_empty_dim_order.out",
    "aten::copy_",  # writes an argument: tests/pipeline, state
}
