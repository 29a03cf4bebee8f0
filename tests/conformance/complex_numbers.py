"""Operators on complex numbers: arithmetic, parts, sums, products, Fourier transforms."""

from __future__ import annotations

from typing import Any

import torch
from op_case import ALL, COMPLEX, CUBE, EMPTY, FLOATS, IMAGE, MAT, SCALAR, VEC, In, Op, Raw

QUIET: dict[str, Any] = {"special": False, "tol": 1e-5}
REALS = (torch.float32, torch.float64)


def mixed(name: str, **rest: Any) -> list[Op]:
    """A function of two tensors: complex both, one of them real, broadcast, channels-last."""
    return [
        Op(
            name,
            [
                *((MAT, MAT), (MAT, (5,)), (SCALAR, MAT), (IMAGE, IMAGE), (EMPTY, EMPTY)),
                *(((2, 30, 3, 40), (30, 1, 40)), ((2, 600), (2, 1)), ((1,) * 15 + (3,), (2,) + (1,) * 15)),
            ],
            COMPLEX,
            **QUIET,
            **rest,
        ),
        Op(name, [(MAT, In(MAT, torch.float32)), (In(MAT, torch.int64), (5,))], COMPLEX, **QUIET, **rest),
    ]


FUNCTIONS = [
    *[
        Op(f"aten::{name}", [(MAT,), (IMAGE,), (SCALAR,), (EMPTY,)], COMPLEX, **QUIET)
        for name in (
            "abs",
            "angle",
            "neg",
            "reciprocal",
            "sqrt",
            "rsqrt",
            "exp",
            "log",
            "log2",
            "log10",
            "sin",
            "cos",
            "tan",
        )
    ],
    *[
        Op(f"aten::{name}", [(MAT,), (IMAGE,)], COMPLEX, **QUIET)
        for name in ("square", "isnan", "_conj_copy", "_conj_physical", "conj_physical", "_neg_view_copy")
    ],
    *[
        Op(f"aten::{name}", [(MAT,), (IMAGE,)], COMPLEX, **QUIET)
        for name in ("sinh", "cosh", "tanh", "tan", "log2", "log10")
    ],
    *[
        Op(f"aten::logical_{name}", [(MAT,) * operands], COMPLEX, special=False)
        for name, operands in (("not", 1), ("and", 2), ("or", 2), ("xor", 2))
    ],
    Op("aten::masked_fill.Scalar", [(MAT, In(MAT, torch.bool), 2.5)], COMPLEX, special=False),
    Op("aten::angle", [(MAT,)], ALL, tol=1e-2),
    Op("aten::conj_physical", [(MAT,)], REALS, special=False),
    *[row for name in ("add", "sub", "mul", "div", "eq", "ne") for row in mixed(f"aten::{name}.Tensor")],
    *mixed("aten::add.Tensor", kwargs={"alpha": 2.5}),
    *[
        Op(f"aten::{name}.Scalar", [(MAT, 2.5)], COMPLEX, **QUIET)
        for name in ("add", "sub", "rsub", "mul", "div", "eq", "ne")
    ],
    *[
        Op("aten::pow.Tensor_Scalar", [(MAT, power)], COMPLEX, **QUIET)
        for power in (2, 0.5, 3, -1, -0.5, -2, 2.3, 0)
    ],
    Op("aten::pow.Tensor_Tensor", [(MAT, MAT)], COMPLEX, special=False, tol=1e-4),
    Op("aten::addcmul", [(MAT, MAT, MAT)], COMPLEX, kwargs={"value": 2}, special=False, tol=1e-4),
    Op("aten::addcdiv", [(MAT, MAT, MAT)], COMPLEX, special=False, tol=1e-4),
    Op(
        "aten::where.self",
        [(In(MAT, torch.bool), MAT, MAT), (In(MAT, torch.bool), MAT, SCALAR)],
        COMPLEX,
        **QUIET,
    ),
    Op("aten::polar", [(MAT, MAT), (IMAGE, IMAGE)], REALS, **QUIET),
    Op("aten::complex", [(MAT, MAT), (MAT, (5,)), (IMAGE, IMAGE)], REALS, special=False, exact=True),
    *[
        Op("aten::_to_copy", [(MAT,)], (*FLOATS, torch.int64), special=False, kwargs={"dtype": to})
        for to in COMPLEX
    ],
    *[Op("aten::_to_copy", [(MAT,)], COMPLEX, special=False, kwargs={"dtype": to}) for to in COMPLEX],
]

SUMS = [
    Op(
        "aten::sum.dim_IntList",
        [
            *((CUBE, Raw([1])), (IMAGE, Raw([1, 3]), True), (CUBE, None)),
            *(((3, 700), Raw([1])), ((700, 3), Raw([0])), ((4, 9, 33), Raw([0, 1]))),
        ],
        COMPLEX,
        **QUIET,
    ),
    Op("aten::mean.dim", [(CUBE, Raw([1])), (IMAGE, Raw([0, 2]), True)], COMPLEX, **QUIET),
    Op("aten::mean", [(CUBE,)], COMPLEX, **QUIET),
    Op("aten::sum", [(CUBE,), (EMPTY,)], COMPLEX, **QUIET),
    Op("aten::prod", [(VEC,)], COMPLEX, special=False, tol=1e-4),
    Op("aten::prod.dim_int", [(CUBE, 1)], COMPLEX, special=False, tol=1e-4),
    *[
        Op(f"aten::{name}", [(CUBE, 1), (IMAGE, 2)], COMPLEX, special=False, tol=1e-4)
        for name in ("cumsum", "cumprod")
    ],
    *[Op(f"aten::{name}.dim", [(CUBE, 1)], COMPLEX, special=False) for name in ("any", "all")],
    Op(
        "aten::mm",
        [((4, 5), (5, 3)), ((4, 0), (0, 3)), ((3, 70), (70, 2)), ((1, 40), (40, 50)), ((40, 70), (70, 33))],
        COMPLEX,
        special=False,
        tol=1e-4,
    ),
    Op("aten::bmm", [((2, 4, 5), (2, 5, 3)), ((3, 20, 40), (3, 40, 30))], COMPLEX, special=False, tol=1e-4),
    Op(
        "aten::addmm",
        [((3,), (4, 5), (5, 3)), ((4, 1), (4, 5), (5, 3))],
        COMPLEX,
        kwargs={"alpha": 2, "beta": 3},
        **QUIET,
    ),
    Op("aten::baddbmm", [((2, 4, 3), (2, 4, 5), (2, 5, 3))], COMPLEX, special=False, tol=1e-4),
    Op("aten::mv", [((4, 5), (5,))], COMPLEX, **QUIET),
    Op("aten::dot", [(VEC, VEC)], COMPLEX, **QUIET),
    Op(
        "aten::linear",
        [((2, 3, 5), (4, 5), (4,)), ((5,), (4, 5)), ((30, 40), (50, 40), (50,))],
        COMPLEX,
        special=False,
        tol=1e-4,
    ),
]

# Lengths: powers of two and four, small primes and their products, primes above 50, one.
LENGTHS = (1, 2, 3, 8, 16, 30, 49, 53, 60, 64, 97, 106, 400)

TRANSFORMS = [
    *[
        Op(
            "aten::_fft_c2c",
            [((2, n), Raw([1])), ((n, 3), Raw([0]))],
            COMPLEX,
            args=(scale, forward),
            special=False,
            tol=1e-4,
        )
        for n in LENGTHS
        for scale, forward in [(0, True), (2, False)]
    ],
    Op("aten::_fft_c2c", [((4, 6, 5), Raw([0, 2])), (IMAGE, Raw([2, 3]))], COMPLEX, args=(1, True), **QUIET),
    *[
        Op("aten::_fft_r2c", [((2, n), Raw([1]))], REALS, args=(0, onesided), special=False, tol=1e-4)
        for n in LENGTHS
        for onesided in (True, False)
    ],
    Op(
        "aten::_fft_r2c",
        [((4, 6, 5), Raw([0, 1])), (IMAGE, Raw([2, 3])), (IMAGE, Raw([3, 1]))],
        REALS,
        args=(1, True),
        **QUIET,
    ),
    *[Op("aten::_fft_c2r", [((2, n // 2 + 1), Raw([1]))], COMPLEX, args=(2, n), **QUIET) for n in LENGTHS],
    Op("aten::_fft_c2r", [((4, 6, 5), Raw([0, 2])), (IMAGE, Raw([2, 3]))], COMPLEX, args=(1, 8), **QUIET),
]

OPS = [*FUNCTIONS, *SUMS, *TRANSFORMS]
