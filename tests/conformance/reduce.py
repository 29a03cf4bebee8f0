"""Cases of the reduce, scan and search operators."""

from __future__ import annotations

import math
from typing import Any

import torch
from op_case import ALL, CUBE, EMPTY, FLOATS, IMAGE, INTS, LONG, MAT, REAL, SCALAR, VEC, In, Op, Raw

WIDE = (torch.float32, torch.float64)
HALVES = (torch.float16, torch.bfloat16)
NOTHING = (3, 0, 2)
TALL = (300, 5)  # long along the first dimension: columns are folded side by side
NUMBERS = In((20,), values=tuple(range(10)) * 2)

# Dimensions to reduce, and keepdim. An empty list and None stand for all of them.
DIMS: list[tuple[Any, ...]] = [
    (LONG, Raw([0])),
    (TALL, Raw([0])),
    (TALL, Raw([-1]), True),
    (CUBE, Raw([])),
    (CUBE, Raw([1]), True),
    (CUBE, Raw([0, 2])),
    (CUBE, Raw([-1, -3]), True),
    (IMAGE, Raw([2, 3])),
    (IMAGE, Raw([1])),
    (IMAGE, Raw([-1, -2]), True),
    (SCALAR, Raw([0])),
    (SCALAR, Raw([])),
]
# Without the empty list: what torch's nansum and logsumexp do with it is not what they say of their result.
LISTED = [case for case in DIMS if case[1] != Raw([])]
EMPTY_DIMS: list[tuple[Any, ...]] = [
    (EMPTY, Raw([0])),
    (NOTHING, Raw([1])),
    (NOTHING, Raw([0]), True),
    (NOTHING, Raw([])),
]
NO_DIMS: list[tuple[Any, ...]] = [(CUBE, None), (IMAGE, None, True), (SCALAR, None)]
ONE_DIM: list[tuple[Any, ...]] = [
    (LONG, 0),
    (TALL, 0),
    (TALL, -1, True),
    (CUBE, 1),
    (IMAGE, 1),
    (IMAGE, -1, True),
    (SCALAR, 0),
]
EMPTY_DIM: list[tuple[Any, ...]] = [(NOTHING, 1), (EMPTY, 0, True)]
WHOLE: list[tuple[Any, ...]] = [(LONG,), (CUBE,), (IMAGE,), (SCALAR,)]
SCAN: list[tuple[Any, ...]] = [
    (LONG, 0),
    (TALL, 0),
    (CUBE, 1),
    (IMAGE, 1),
    (IMAGE, -1),
    (SCALAR, 0),
    (NOTHING, 2),
]

# 16-bit sums are made in float by both, but rounded once, wherever the sum ends.
LOOSE = 2e-2

SUMS = [
    Op("aten::sum.dim_IntList", DIMS + EMPTY_DIMS + NO_DIMS, (*WIDE, *INTS, torch.bool), tol=1e-5),
    Op("aten::sum.dim_IntList", [((5, 700, 2), Raw([1])), ((3, 2200, 2), Raw([0, 1]))], WIDE, tol=1e-5),
    Op("aten::sum.dim_IntList", DIMS, HALVES, tol=LOOSE),
    Op(
        "aten::sum.dim_IntList",
        [(CUBE, Raw([1]))],
        REAL,
        kwargs={"dtype": torch.float32},
        tol=1e-5,
        special=False,
    ),
    Op("aten::sum.dim_IntList", [(CUBE, Raw([1]))], REAL, kwargs={"dtype": torch.int64}, special=False),
    Op("aten::sum", [*WHOLE, (EMPTY,)], (*WIDE, *INTS), tol=1e-5),
    Op("aten::nansum", [*LISTED, *NO_DIMS], (*WIDE, *INTS, torch.bool), tol=1e-5),
    Op("aten::mean.dim", DIMS + EMPTY_DIMS + NO_DIMS, WIDE, tol=1e-5),
    Op("aten::mean.dim", DIMS, HALVES, tol=LOOSE),
    Op("aten::mean.dim", [(CUBE, Raw([1]))], INTS, kwargs={"dtype": torch.float32}),
    Op("aten::mean", [*WHOLE, (EMPTY,)], FLOATS, tol=LOOSE),
    Op(
        "aten::prod.dim_int",
        [(VEC, 0), (CUBE, 1), (IMAGE, -2, True), (SCALAR, 0), (NOTHING, 1)],
        (*WIDE, *INTS),
    ),
    Op("aten::prod", [(VEC,), (EMPTY,), (SCALAR,)], (*WIDE, *INTS, torch.bool)),
    Op("aten::any.dim", ONE_DIM + EMPTY_DIM, ALL),
    Op("aten::all.dim", ONE_DIM + EMPTY_DIM, ALL),
    Op("aten::any.dims", DIMS + EMPTY_DIMS + NO_DIMS, ALL),
    Op("aten::all.dims", DIMS + EMPTY_DIMS + NO_DIMS, ALL),
    Op("aten::any", [*WHOLE, (EMPTY,)], ALL),
    Op("aten::all", [*WHOLE, (EMPTY,)], ALL),
    Op("aten::hash_tensor", [(CUBE,), (CUBE, Raw([1])), (IMAGE, Raw([0])), (SCALAR,)], ALL, exact=True),
    Op("aten::count_nonzero", [(CUBE,), (CUBE, 1), (EMPTY,), (SCALAR,)], ALL),
    Op("aten::count_nonzero.dim_IntList", [(CUBE, Raw([0, 2])), (IMAGE, Raw([-1]))], ALL),
]

EXTREMA = [
    *[Op(f"aten::{name}", DIMS, ALL, exact=True) for name in ("amax", "amin")],
    *[Op(f"aten::{name}", WHOLE, ALL, exact=True) for name in ("max", "min")],
    *[Op(f"aten::{name}.dim", ONE_DIM, ALL, exact=True) for name in ("max", "min")],
    *[
        Op(f"aten::{name}", [*ONE_DIM, (CUBE, None), (CUBE, None, True)], REAL)
        for name in ("argmax", "argmin")
    ],
    Op("aten::aminmax", [*WHOLE, (TALL,)], ALL, exact=True),
    Op("aten::aminmax", [(TALL,), (IMAGE,)], ALL, kwargs={"dim": 0, "keepdim": True}, exact=True),
]

# Of more than one element, without keepdim, which is a keyword here.
SPREAD_DIMS = [(shape, dims) for shape, dims, *_ in DIMS + NO_DIMS if shape != SCALAR]

SPREAD = [
    # Finite numbers whose squares are not.
    Op(
        "aten::var.correction",
        [(In((5,), values=(0.0, 1.0, 1.7e308, 0.0, -2.5)),)],
        (torch.float64,),
        special=False,
    ),
    *[
        Op(
            f"aten::{name}.correction",
            SPREAD_DIMS,
            dtypes,
            kwargs={"correction": correction, **kept},
            tol=tol,
        )
        for name in ("var", "std", "var_mean", "std_mean")
        for correction, kept in ((None, {}), (0, {"keepdim": True}), (0.5, {}))
        for dtypes, tol in ((WIDE, 1e-5), (HALVES, LOOSE))
    ],
    *[
        Op(f"aten::{name}.dim", [(CUBE, Raw([1]), False, True), (IMAGE, Raw([2, 3]))], WIDE)
        for name in ("var", "std")
    ],
    *[
        Op("aten::linalg_vector_norm", [(shape, order, *rest) for shape, *rest in DIMS], WIDE, tol=1e-4)
        for order in (0, 1, 2, 3.5, math.inf, -math.inf)
    ],
    # Of one element, whose powers are infinite or zero.
    Op(
        "aten::linalg_vector_norm",
        [
            (In((3, 1), values=(1e-300, -1.7e308, 2.0)), order, *rest)
            for order in (0, 2, 3.5, -2)
            for rest in ((Raw([1]),), (Raw([1]), True))
        ]
        + [(In(SCALAR, values=(-1.7e308,)), 2)],
        (torch.float64,),
        special=False,
    ),
    Op("aten::linalg_vector_norm", [(CUBE, 2, Raw([1]))], HALVES, tol=LOOSE),
    Op(
        "aten::norm.ScalarOpt_dim",
        [(CUBE, 2, Raw([1])), (CUBE, None, Raw([0, 1]), True), (MAT, 1, Raw([]))],
        WIDE,
    ),
    Op(
        "aten::norm.ScalarOpt_dim_dtype",
        [(CUBE, 2, Raw([1]), False)],
        HALVES,
        kwargs={"dtype": torch.float32},
    ),
    Op("aten::norm.Scalar", [(CUBE,), (MAT, 1), (EMPTY, 2)], WIDE),
    Op("aten::norm.ScalarOpt_dtype", [(CUBE, 3)], HALVES, kwargs={"dtype": torch.float32}, tol=1e-4),
    Op("aten::logsumexp", [*LISTED, (NOTHING, Raw([0]))], WIDE, tol=1e-5),
    Op("aten::logsumexp", LISTED, HALVES, tol=LOOSE),
    Op("aten::logsumexp", [(CUBE, Raw([1]))], (torch.int64, torch.uint8), special=False),
]

SHORT_SCAN: list[tuple[Any, ...]] = [
    ((90, 20), 1),
    ((3, 70, 1), 2),
    ((7, 90, 3), 1),
    ((5, 4, 3, 6), -1),
    ((4, 300), 1),
]

SCANS = [
    Op("aten::cumsum", SCAN, (*FLOATS, *INTS, torch.bool), tol=1e-3),
    # Short rows are read together, long ones in blocks.
    Op("aten::cumsum", SHORT_SCAN, (*FLOATS, *INTS, torch.bool), tol=1e-2),
    Op("aten::cumprod", SHORT_SCAN[:1], (torch.float32,), tol=1e-4),
    Op("aten::logcumsumexp", SHORT_SCAN[:2], (torch.float32,), tol=1e-5),
    Op("aten::cummax", SHORT_SCAN, ALL, exact=True),
    Op("aten::cummin", SHORT_SCAN, ALL, exact=True),
    Op("aten::cumsum", [(CUBE, 1)], ALL, kwargs={"dtype": torch.float32}),
    Op("aten::cumprod", [(VEC, 0), (CUBE, 1), (IMAGE, 1), (SCALAR, 0)], (*WIDE, *INTS), tol=1e-4),
    Op("aten::logcumsumexp", SCAN, WIDE, tol=1e-5),
    Op("aten::cummax", SCAN, ALL, exact=True),
    Op("aten::cummin", SCAN, ALL, exact=True),
]

# Places among equals are only promised by the stable forms, so the others get no equals.
DISTINCT = [In((8,), values=(3, 1, 7, 0, 5, 2, 6, 4)), In((2, 4), values=(3, 1, 7, 0, 5, 2, 6, 4))]
SORTED = In((5,), values=(-2, 0, 1, 1, 8))
STEPS = In((3, 5), values=(-8, -2, 0, 1, 1, 0, 1, 2, 3, 4, -1, -1, -1, 5, 9))

SORTS = [
    Op(
        "aten::sort",
        [(x, dim, down) for x in DISTINCT for dim in (0, -1) for down in (False, True)],
        REAL,
        exact=True,
    ),
    *[
        Op(
            "aten::sort.stable",
            SCAN_DIM,
            ALL,
            kwargs={"stable": True, "descending": down, "dim": dim},
            exact=True,
        )
        for down in (False, True)
        for dim, SCAN_DIM in ((0, [(LONG,), (TALL,), (SCALAR,)]), (1, [(CUBE,), (IMAGE,), (NOTHING,)]))
    ],
    Op("aten::argsort.stable", [(LONG,), (CUBE,)], ALL, kwargs={"stable": True}),
    Op(
        "aten::topk",
        [(x, k, -1, top) for x in DISTINCT for k in (0, 1, 3) for top in (True, False)],
        REAL,
        exact=True,
    ),
    Op("aten::topk", [(In((4, 2), values=(3, 1, 7, 0, 5, 2, 6, 4)), 2, 0), (SCALAR, 1)], REAL, exact=True),
    *[
        Op(name, [(x, *args, -1, True) for x in DISTINCT], REAL, exact=True)
        for name, args in (("aten::median.dim", ()), ("aten::nanmedian.dim", ()), ("aten::kthvalue", (2,)))
    ],
    *[
        Op(
            "aten::bucketize.Tensor",
            [(shape, SORTED) for shape in (CUBE, SCALAR, EMPTY)],
            REAL,
            kwargs={"out_int32": right, "right": right},
            special=False,
        )
        for right in (False, True)
    ],
    Op(
        "aten::bucketize.Tensor",
        [(In((5,), values=(math.nan, math.inf, 0, 1, -9)), SORTED)],
        FLOATS,
        special=False,
    ),
    Op("aten::searchsorted.Tensor", [(SORTED, CUBE), (STEPS, (3, 4)), (SORTED, SCALAR)], REAL, special=False),
    # Of one element, of a power of two, of one less and one more; more values than a block has.
    *[
        Op(
            "aten::bucketize.Tensor",
            [((2, 150), In((n,), values=tuple(range(-(n // 2), n - n // 2)))), ((0, 3), SORTED)],
            (torch.float32, torch.int64),
            kwargs={"right": right},
            special=False,
        )
        for n in (1, 7, 8, 9)
        for right in (False, True)
    ],
    Op("aten::bucketize.Tensor", [(CUBE, In((0,)))], special=False),
    Op(
        "aten::searchsorted.Tensor",
        [(STEPS, (3, 4))],
        kwargs={"right": True, "out_int32": True},
        special=False,
    ),
    Op("aten::searchsorted.Tensor", [(STEPS, (3, 4))], kwargs={"side": "right"}, special=False),
    Op("aten::searchsorted.Scalar", [(SORTED, 1), (SORTED, 0.5), (SORTED, 99)], special=False),
    Op("aten::bucketize.Scalar", [(1, SORTED), (0.5, SORTED)], special=False),
    Op(
        "aten::histc",
        [(CUBE, 4, -2, 3), (LONG, 100, -3, 3), (VEC, 5), (EMPTY, 3), (NUMBERS, 10, 0, 9)],
        WIDE,
        special=False,
    ),
]

# Values that are distinct or grouped: places among equals are nobody's promise.
ROWS = In((5, 3), values=((1, 0, 1), (1, 0, 1), (0, 0, 0), (1, 0, 1), (0, 1, 1)))
GROUPED = In((9,), values=(3, 3, 1, 5, 5, 5, 1, 2, 2))

DISTINCTION = [
    Op("aten::median", [*WHOLE, (EMPTY,)], FLOATS + INTS),
    Op("aten::nanmedian", WHOLE, FLOATS + INTS),
    Op(
        "aten::mode",
        [(In((3, 3), values=(3, 1, 7, 0, 5, 2, 6, 4, 8)), -1, True), (SCALAR, 0)],
        REAL,
        special=False,
    ),
    Op(
        "aten::bincount",
        [(In((9,), None, 0, 7), None, minlength) for minlength in (0, 3, 12)],
        INTS,
        special=False,
    ),
    Op("aten::bincount", [(In((0,), None, 0, 7), None, 4), (In((0,), None, 0, 7),)], INTS, special=False),
    Op(
        "aten::bincount",
        [(In((9,), torch.int32, 0, 7), (9,)), (In((5,), torch.int64, 0, 3), (5,), 8)],
        (torch.float32, torch.float64, torch.int16),
        special=False,
    ),
    Op("aten::_unique2", [(GROUPED, True, False, True), (GROUPED, True, True, True)], ALL, special=False),
    Op("aten::unique_consecutive", [(GROUPED, True, True), (GROUPED, False, True)], ALL, special=False),
    Op("aten::unique_consecutive", [(ROWS, True, True, 0), (ROWS, True, True, -1)], ALL, special=False),
    Op("aten::unique_dim", [(ROWS, 0, True, True, True), (ROWS, -1, True, True, False)], ALL, special=False),
    Op("aten::unique_dim", [(In((3, 2, 4), None, 0, 2), 1, True, True, True)], REAL, special=False),
]

OPS: list[Op] = [*SUMS, *EXTREMA, *SPREAD, *SCANS, *SORTS, *DISTINCTION]
