"""Factorisations of matrices and what is solved with them."""

from __future__ import annotations

from typing import Any

import torch
from op_case import In, Op

WIDE = (torch.float32, torch.float64)
QUIET: dict[str, Any] = {"special": False, "tol": 2e-3, "layouts": False}
SHAPES = [((4, 4),), ((1, 1),), ((2, 3, 5, 5),), ((0, 3, 3),), ((3, 0, 0),)]
# Positive-definite: a square of small numbers, and more on the diagonal than beside it.
POSITIVE = In((3, 3), values=(4.0, 1.0, -0.5, 1.0, 3.0, 0.25, -0.5, 0.25, 2.0))
# Its multiples are powers of two: no processor's LAPACK rounds what is to be zero.
SINGULAR = In((3, 3), values=(4.0, 2.0, 8.0, 2.0, 1.0, 4.0, 1.0, 0.0, 1.0))
RECTANGLES = [(5, 3), (3, 5), (2, 4, 4), (1, 1), (0, 3, 2), (3, 0), In((3, 3), values=SINGULAR.values)]
ROW_ORDER = In((4,), torch.int32, values=(3, 3, 4, 4))

# Its factors have blocks of one and of two rows, and exchanged rows.
INDEFINITE = In((4, 4), values=(0, 2, 3, 1, 2, 0, 4, 5, 3, 4, 0.5, 6, 1, 5, 6, -1))
INDEFINITE_PIVOTS = In((4,), torch.int32, values=(-3, -3, -4, -4))

OPS = [
    Op("aten::_linalg_det", [*SHAPES, (SINGULAR,)], WIDE, **QUIET),
    Op("aten::_linalg_slogdet", [*SHAPES, (SINGULAR,)], WIDE, **QUIET),
    Op("aten::linalg_inv_ex", [*SHAPES, (POSITIVE,)], WIDE, **QUIET),
    Op(
        "aten::_linalg_solve_ex",
        [
            ((4, 4), (4, 3)),
            ((4, 4), (4,)),
            ((2, 3, 5, 5), (2, 3, 5, 2)),
            ((0, 3, 3), (0, 3, 2)),
            ((2, 4, 4), (2, 4)),
        ],
        WIDE,
        **QUIET,
    ),
    Op(
        "aten::_linalg_solve_ex",
        [((4, 4), (3, 4)), ((2, 4, 4), (2, 3, 4))],
        WIDE,
        kwargs={"left": False},
        **QUIET,
    ),
    *[
        Op(
            "aten::linalg_cholesky_ex",
            [(POSITIVE,), (In((0, 2, 2)),)],
            WIDE,
            kwargs={"upper": upper},
            **QUIET,
        )
        for upper in (False, True)
    ],
    *[
        Op(
            "aten::linalg_solve_triangular",
            [((4, 4), (4, 3) if left else (3, 4)), ((2, 3, 3), (2, 3, 2) if left else (2, 2, 3))],
            WIDE,
            kwargs={"upper": upper, "left": left, "unitriangular": unit},
            **QUIET,
        )
        for upper in (False, True)
        for left in (False, True)
        for unit in (False, True)
    ],
    Op("aten::linalg_matrix_exp", [(In((3, 4, 4), low=-1, high=1),), ((1, 1),), ((0, 3, 3),)], WIDE, **QUIET),
    *[
        Op("aten::linalg_qr", [(shape, mode) for shape in RECTANGLES], WIDE, **QUIET)
        for mode in ("reduced", "complete", "r")
    ],
    Op("aten::geqrf", [(shape,) for shape in RECTANGLES], WIDE, **QUIET),
    Op(
        "aten::linalg_householder_product",
        [((5, 3), In((3,), low=0.5, high=1)), ((2, 4, 4), In((2, 2), low=0.5, high=1)), ((3, 0), (0,))],
        WIDE,
        **QUIET,
    ),
    Op("aten::linalg_ldl_factor_ex", [*SHAPES, (INDEFINITE,), (POSITIVE,), (SINGULAR,)], WIDE, **QUIET),
    Op(
        "aten::linalg_ldl_solve",
        [
            ((4, 4), INDEFINITE_PIVOTS, (4, 3)),
            ((4, 4), INDEFINITE_PIVOTS, (2, 3, 4, 2)),
            ((2, 4, 4), In((2, 4), torch.int32, values=(2, 2, 4, 4, 1, -4, -4, 4)), (4, 2)),
            ((0, 0), In((0,), torch.int32), (0, 3)),
        ],
        WIDE,
        **QUIET,
    ),
    *[
        Op("aten::linalg_lu_factor_ex", [(shape,) for shape in RECTANGLES], WIDE, **QUIET),
        Op(
            "aten::lu_unpack",
            [
                ((4, 4), ROW_ORDER),
                ((4, 6), ROW_ORDER),
                ((4, 4), ROW_ORDER, False, True),
                ((4, 4), ROW_ORDER, True, False),
            ],
            WIDE,
            **QUIET,
        ),
        Op(
            "aten::lu_unpack",
            [((2, 6, 3), In((2, 3), torch.int32, values=(4, 3, 3, 1, 6, 5)))],
            WIDE,
            **QUIET,
        ),
    ],
]
# Vectors are free in sign, and among equal values in direction: test_factorisations.py.
UNCOMPARED = ("aten::_linalg_svd.U", "aten::_linalg_eigh.eigenvalues", "aten::linalg_eig.out")
