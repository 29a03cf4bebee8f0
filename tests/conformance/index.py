"""Cases of the index and copy operators."""

from __future__ import annotations

from typing import Any

import torch
from op_case import ALL, CUBE, EMPTY, IMAGE, INDEX, MAT, REAL, SCALAR, VEC, In, Op, Raw

NOTHING = (3, 0, 2)
LONG_MAT = (70, 90)  # several tiles and blocks, with remainders
COMPLEX = (torch.complex64, torch.complex128)
HALVES = (torch.float16, torch.bfloat16)
EXACT = {"exact": True, "special": False}


def moves(name: str, inputs: list[tuple[Any, ...]], **rest: Any) -> list[Op]:
    """Rows of an operator that changes no value: all dtypes on all cases."""
    return [Op(name, inputs, ALL, **EXACT, **rest), Op(name, inputs[:2], COMPLEX, **EXACT, **rest)]


VIEWS = [
    *moves(
        "aten::permute_copy",
        [
            (IMAGE, Raw([0, 2, 3, 1])),
            (CUBE, Raw([2, 0, 1])),
            (LONG_MAT, Raw([1, 0])),
            (IMAGE, Raw([-1, -2, 0, 1])),
            (NOTHING, Raw([2, 1, 0])),
            (SCALAR, Raw([])),
        ],
    ),
    *moves("aten::transpose_copy.int", [(IMAGE, 1, -1), (LONG_MAT, 0, 1), (CUBE, 0, 0), (SCALAR, 0, -1)]),
    *moves("aten::t_copy", [(MAT,), (VEC,), (SCALAR,)]),
    *moves(
        "aten::view_copy",
        [
            (IMAGE, Raw([6, 35])),
            (IMAGE, Raw([-1])),
            (CUBE, Raw([5, 3, 2])),
            (EMPTY, Raw([0, 4])),
            (SCALAR, Raw([1, 1])),
        ],
    ),
    *moves("aten::_unsafe_view", [(CUBE, Raw([30])), (MAT, Raw([2, -1]))]),
    *moves("aten::_reshape_alias_copy", [(CUBE, Raw([6, 5]), Raw([5, 1]))]),
    *[
        Op(
            "aten::view_copy.dtype",
            [((2, 8), to)],
            (torch.float32, torch.float16, torch.int8),
            **EXACT,
            layouts=False,
        )
        for to in (torch.int8, torch.int16, torch.float32, torch.float64)
    ],
    *moves(
        "aten::expand_copy",
        [
            ((1, 3, 1), Raw([2, -1, 4])),
            (VEC, Raw([3, 7])),
            ((2, 1, 5, 1), Raw([2, 3, 5, 70])),
            (SCALAR, Raw([2, 2])),
            ((1,), Raw([0])),
        ],
    ),
    *moves(
        "aten::slice_copy.Tensor",
        [
            (IMAGE, 2, 1, 4),
            (CUBE, -1, 0, None, 2),
            (MAT, 0, -3, -1),
            (MAT, 1, 2, 9223372036854775807, 3),
            (VEC, 0, 5, 2),
            (IMAGE, 1, None, 2),
        ],
    ),
    *moves("aten::narrow_copy", [(CUBE, 1, 1, 2), (IMAGE, -1, -3, 2), (VEC, 0, 0, 0)]),
    *moves("aten::select_copy.int", [(IMAGE, 1, 2), (CUBE, -1, -5), (VEC, 0, 3)]),
    *moves("aten::squeeze_copy", [((1, 3, 1, 2),), ((1, 1),), (CUBE,), (SCALAR,)]),
    *moves("aten::squeeze_copy.dim", [((1, 3, 1), -1), (CUBE, 1), (SCALAR, 0)]),
    *moves("aten::squeeze_copy.dims", [((1, 3, 1, 2), Raw([0, -2])), (CUBE, Raw([0, 1]))]),
    *moves("aten::unsqueeze_copy", [(CUBE, 0), (CUBE, -1), (SCALAR, 0)]),
    *moves("aten::alias_copy", [(IMAGE,), (EMPTY,), (SCALAR,)]),
    *moves("aten::detach_copy", [(IMAGE,)]),
    *moves("aten::lift_fresh_copy", [(IMAGE,)]),
    *moves("aten::as_strided_copy", [(MAT, Raw([3, 2]), Raw([1, 4]), 2), (VEC, Raw([5, 3]), Raw([1, 1]))]),
    *moves("aten::diagonal_copy", [(MAT,), (CUBE, 1, 0, 2), (CUBE, -1, -1, 1), (MAT, 9)]),
    *moves("aten::unfold_copy", [(VEC, 0, 3, 2), (CUBE, -1, 2, 1), (SCALAR, 0, 1, 1)]),
    Op("aten::view_as_real_copy", [(CUBE,), (SCALAR,)], COMPLEX, **EXACT),
    Op("aten::view_as_complex_copy", [((3, 4, 2),), ((2,),)], (torch.float32, torch.float64), **EXACT),
]

JOINS = [
    Op(
        "aten::cat",
        [([MAT, In((2, 5), torch.int64), In((1, 5), torch.float16)], 0)],
        (torch.float32, torch.float64),
    ),
    Op("aten::cat", [([IMAGE, In((2, 1, 5, 7), torch.int32), In((0,), torch.float64)], 1)], (torch.float64,)),
    Op(
        "aten::cat",
        [([MAT, In((2, 5), torch.complex64)], 0)],
        (torch.float32, torch.complex64),
        special=False,
    ),
    *moves(
        "aten::cat",
        [
            ([MAT, (2, 5)], 0),
            ([IMAGE, (2, 4, 5, 7), IMAGE], 1),
            ([MAT, (4, 1)], -1),
            ([EMPTY, MAT], 0),
            ([VEC], 0),
            ([(0, 5), MAT], 0),
        ],
    ),
    *moves("aten::stack", [([MAT, MAT, MAT], 1), ([SCALAR, SCALAR], 0), ([IMAGE, IMAGE], -1)]),
    *moves("aten::split_copy.Tensor", [(VEC, 3), (IMAGE, 2, 1), (CUBE, 9, -1)]),
    *moves(
        "aten::split_with_sizes_copy",
        [(VEC, Raw([3, 0, 4])), (IMAGE, Raw([1, 2]), 1), (CUBE, Raw([2, 3]), -1)],
    ),
    *moves("aten::unsafe_split.Tensor", [(VEC, 3)]),
    *moves("aten::unsafe_split_with_sizes", [(CUBE, Raw([2, 3]), 2)]),
    *moves("aten::unbind_copy.int", [(CUBE,), (CUBE, -1), (IMAGE, 1)]),
    *moves(
        "aten::repeat", [(MAT, Raw([2, 3])), (VEC, Raw([2, 1, 3])), (SCALAR, Raw([4])), (MAT, Raw([0, 2]))]
    ),
    *moves("aten::flip", [(CUBE, Raw([0, -1])), (IMAGE, Raw([3])), (VEC, Raw([])), (NOTHING, Raw([0]))]),
    *moves("aten::roll", [(CUBE, Raw([1, -2]), Raw([0, 2])), (IMAGE, Raw([9]), Raw([3])), (MAT, Raw([3]))]),
    *moves("aten::tril", [(MAT,), (CUBE, -1), (IMAGE, 2), (MAT, -9)]),
    *moves("aten::triu", [(MAT,), (CUBE, 1), (IMAGE, -2), (MAT, 9)]),
    *[
        Op(
            f"aten::{name}",
            [(4, 5, 1), (3, 3, -1), (0, 4, 0), (2, 3, 9)],
            kwargs={"dtype": dtype},
            special=False,
        )
        for name in ("tril_indices", "triu_indices")
        for dtype in INDEX
    ],
    *moves("aten::diag_embed", [(VEC,), (MAT, 1), (CUBE, -2, 0, 2)]),
    Op(
        "aten::repeat_interleave.Tensor",
        [(In((5,), values=(1, 0, 3, 2, 1)),), (EMPTY,)],
        INDEX,
        special=False,
    ),
]

PADS = [
    *[
        Op(
            "aten::constant_pad_nd",
            [
                (IMAGE, Raw([1, 2, 3, 0])),
                (CUBE, Raw([-1, 2])),
                (VEC, Raw([0, 0])),
                (MAT, Raw([1, 1, -2, 1])),
                (MAT, Raw([70, 3, 0, 9])),
                (MAT, Raw([-6, 4])),
                (NOTHING, Raw([1, 0])),
            ],
            dtypes,
            args=(value,),
            **EXACT,
        )
        for value, dtypes in ((0, ALL), (-2.5, (torch.float32, *HALVES)), (7, REAL))
    ],
    *[
        Op(f"aten::{name}_pad{rank}d", [(shape, Raw(pads)), (shape[1:], Raw(pads))], REAL, **EXACT)
        for name in ("reflection", "replication")
        for rank, shape, pads in (
            (1, (2, 3, 5), [2, 1]),
            (1, (2, 3, 5), [-1, 3]),
            (1, (2, 3, 5), [4, 4]),
            (1, (2, 3, 5), [-6, 4]),
            (1, (2, 3, 5), [4, -7]),
            (2, IMAGE, [2, 1, 3, 0]),
            (2, (1, 2, 9, 20), [-3, 4, 5, -2]),
            (3, (2, 1, 3, 4, 5), [2, 1, 3, 0, 1, 2]),
        )
    ],
]


def places(
    shape: tuple[int, ...], size: int, dtype: torch.dtype | None = torch.int64, negative: bool = False
) -> In:
    """Random indices into `size` elements."""
    return In(shape, dtype, -size if negative else 0, size)


def some(shape: tuple[int, ...]) -> In:
    """A mask."""
    return In(shape, torch.bool)


INDICES: list[tuple[Any, ...]] = [
    (CUBE, [places((4,), 2)]),
    (IMAGE, [None, places((3, 2), 3, negative=True)]),
    (IMAGE, [places((3, 1), 2), None, places((2,), 5, torch.int32)]),  # not adjacent
    (IMAGE, [None, places((2,), 3), places((2,), 5)]),
    (CUBE, [places((2,), 2), places((2,), 3), places((2,), 5)]),
    (CUBE, [places((), 2)]),
    (CUBE, [places((0,), 2)]),
    (CUBE, [None, None, places((200,), 5)]),
    (MAT, [some(MAT)]),
    (IMAGE, [some((2, 3)), None, places((1,), 7)]),
    (CUBE, [None, some((3,))]),
    (NOTHING, [places((2,), 3)]),
]

PUTS: list[tuple[Any, ...]] = [
    (CUBE, [In((2,), torch.int64, values=(1, 0))], (2, 3, 5)),
    (IMAGE, [None, None, In((2,), torch.int32, values=(-1, 0))], (2, 3, 2, 7)),
    (IMAGE, [None, In((2,), torch.int64, values=(2, 0)), In((1,), torch.int64, values=(3,))], (2, 2, 7)),
    (IMAGE, [In((2, 1), torch.int64, values=(0, 1)), None, In((2,), torch.int64, values=(4, 1))], (3, 7)),
    (MAT, [some(MAT)], SCALAR),
    (MAT, [places((0,), 4)], (0, 5)),
]

ADDED: list[tuple[Any, ...]] = [(*case, True) for case in PUTS] + [
    (MAT, [places((30,), 4)], (30, 5), True),
    (VEC, [places((2, 9), 7, negative=True)], (9,), True),
]

GATHERS: list[tuple[Any, ...]] = [
    (MAT, 0, places((3, 5), 4)),
    (MAT, -1, places((4, 200), 5)),
    (CUBE, 1, places((2, 6, 3), 3)),
    (IMAGE, 1, places((2, 2, 5, 7), 3)),
    (LONG_MAT, 0, places((300, 90), 70, torch.int32)),
    (LONG_MAT, 1, places((70, 300), 90)),
    (LONG_MAT, 1, places((40, 1), 90)),  # rows of one element
    ((9, 200, 1), 1, places((9, 150, 1), 200, torch.int32)),
    (VEC, 0, places((0,), 7)),
    (SCALAR, 0, places((), 1)),
]

SCATTERS: list[tuple[Any, ...]] = [
    (MAT, 0, places((3, 5), 4), (3, 5)),
    (MAT, 1, places((4, 30), 5), (5, 31)),
    (CUBE, -1, places((1, 3, 5), 5), (2, 3, 5)),
    (LONG_MAT, 1, places((70, 180), 90, torch.int32), (70, 190)),
    (LONG_MAT, 0, places((140, 90), 70), (140, 90)),
    (LONG_MAT, 1, places((40, 1), 90), (50, 1)),
    (VEC, 0, places((0,), 7), VEC),
    (SCALAR, 0, places((), 1), SCALAR),
]
# Without equal places: which value would stay is nobody's promise.
APART: list[tuple[Any, ...]] = [
    (MAT, 0, In((2, 3), torch.int64, values=(0, 1, 3, 3, 0, 2)), (2, 3)),
    (VEC, 0, In((4,), torch.int64, values=(6, 2, 0, 3)), (5,)),
]

SLICES: list[tuple[Any, ...]] = [
    (CUBE, 1, In((2,), torch.int64, values=(2, 0)), (2, 2, 5)),
    (IMAGE, -1, In((3,), torch.int64, values=(6, 1, 0)), (2, 3, 5, 3)),
    (VEC, 0, places((0,), 7), EMPTY),
]
# Places that are named several times, for slices that are runs in memory, in parts, or a few elements.
REPEATED: list[tuple[Any, ...]] = [
    (LONG_MAT, 0, places((150,), 70), (150, 90)),
    (LONG_MAT, 1, places((300,), 90, torch.int32), (70, 300)),
    ((3, 20, 25), 1, places((50,), 20), (3, 50, 25)),
    ((9, 3), 0, places((20,), 9), (20, 3)),
    ((9, 1), 0, places((300,), 9), (300, 1)),
    (VEC, 0, places((40,), 7), (40,)),
    ((6, 0), 0, places((4,), 6), (4, 0)),
    (SCALAR, 0, places((1,), 1), SCALAR),
]

SUMMED = (torch.float32, torch.float64, torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8)

INDEXED = [
    Op("aten::index.Tensor", INDICES, ALL, **EXACT),
    Op("aten::index.Tensor", INDICES[:3], COMPLEX, **EXACT),
    Op("aten::index_put", PUTS, ALL, **EXACT),
    Op("aten::index_put", ADDED, SUMMED, special=False, tol=1e-5),
    Op("aten::index_put", ADDED, HALVES, special=False, tol=5e-2),
    Op(
        "aten::index_select",
        [
            (CUBE, 1, places((4,), 3)),
            (IMAGE, -1, places((9,), 7)),
            (LONG_MAT, 0, places((200,), 70)),
            (MAT, 0, places((3,), 4, torch.int32)),
            (MAT, 1, places((0,), 5)),
            (SCALAR, 0, places((1,), 1)),
            (VEC, 0, places((), 7)),
        ],
        ALL,
        **EXACT,
    ),
    Op("aten::gather", GATHERS, ALL, **EXACT),
    Op("aten::scatter.src", APART, ALL, **EXACT),
    Op("aten::scatter.value", [(*case[:3], 3) for case in SCATTERS], ALL, **EXACT),
    Op("aten::scatter_add", SCATTERS, SUMMED, special=False, tol=1e-5),
    Op("aten::scatter_add", SCATTERS, HALVES, special=False, tol=5e-2),
    *[
        Op(
            "aten::scatter_reduce.two",
            SCATTERS,
            dtypes,
            args=(how,),
            kwargs={"include_self": own},
            special=False,
            tol=tol,
        )
        for how in ("sum", "prod", "mean", "amin", "amax")
        for own in (True, False)
        for dtypes, tol in ((SUMMED, 1e-4), (HALVES, 5e-2))
    ],
    *[
        Op(
            "aten::scatter.reduce",
            SCATTERS[:2],
            (torch.float32, torch.int64),
            kwargs={"reduce": how},
            tol=1e-3,
        )
        for how in ("add", "multiply")
    ],
    *[
        Op("aten::scatter.value_reduce", [(*case[:3], 2) for case in APART], kwargs={"reduce": how})
        for how in ("add", "multiply")
    ],
    Op("aten::index_copy", SLICES, ALL, **EXACT),
    Op("aten::index_fill.int_Scalar", [(*case[:3], 3) for case in SLICES], ALL, **EXACT),
    Op("aten::index_fill.int_Tensor", [(*case[:3], SCALAR) for case in SLICES], ALL, **EXACT),
    Op("aten::index_add", [*SLICES, (MAT, 0, places((9,), 4), (9, 5))], SUMMED, special=False, tol=1e-5),
    Op("aten::index_add", SLICES, SUMMED, kwargs={"alpha": 3}, special=False, tol=1e-5),
    Op("aten::index_add", REPEATED, SUMMED, special=False, tol=1e-5),
    Op("aten::index_add", REPEATED, HALVES, special=False, tol=5e-2),
    *moves(
        "aten::slice_scatter",
        [(CUBE, (2, 2, 5), 1, 1), (IMAGE, (2, 3, 5, 4), -1, 0, None, 2), (VEC, (0,), 0, 5, 2)],
    ),
    *moves("aten::select_scatter", [(CUBE, (2, 5), 1, 2), (IMAGE, (3, 5, 7), 0, -1)]),
    *moves("aten::diagonal_scatter", [(MAT, (4,)), (CUBE, (3, 2), -1, 2, 0)]),
    *moves("aten::as_strided_scatter", [(MAT, (3, 2), Raw([3, 2]), Raw([1, 4]), 2)]),
    *moves(
        "aten::masked_select",
        [(MAT, some(MAT)), (CUBE, some((3, 1))), (SCALAR, some(SCALAR)), (IMAGE, some(IMAGE))],
    ),
    *moves(
        "aten::masked_scatter", [(MAT, some(MAT), MAT), (CUBE, some((5,)), CUBE), (IMAGE, some(IMAGE), IMAGE)]
    ),
    Op("aten::nonzero", [(In(CUBE, low=0, high=3),), (SCALAR,), (EMPTY,), (IMAGE,)], ALL),
    Op("aten::nonzero_static", [(In(CUBE, low=0, high=3),)], ALL, kwargs={"size": 12}),
    Op("aten::nonzero_static", [(In(CUBE, low=0, high=3),)], kwargs={"size": 100, "fill_value": -7}),
]

PLACES = [
    *[
        Op(
            "aten::index_reduce",
            REPEATED,
            REAL if how in ("amax", "amin") else (torch.float32, torch.float64, torch.int64, torch.int8),
            args=(how,),
            kwargs={"include_self": include_self},
            special=how in ("amax", "amin"),
            tol=1e-4,
        )
        for how in ("prod", "mean", "amax", "amin")
        for include_self in (True, False)
    ],
    *[
        Op(
            "aten::index_reduce",
            [
                (MAT, dim, In((3,), index, values=(1, 0, 1)), shape)
                for dim, shape in ((0, (3, 5)), (-1, (4, 3)))
            ],
            REAL if index == torch.int64 else (torch.float32,),
            args=(how,),
            kwargs={"include_self": include_self},
            special=False,
            tol=1e-2,
        )
        for index in INDEX
        for how in ("prod", "mean", "amax", "amin")
        for include_self in (True, False)
    ],
    *[
        Op(
            "aten::put",
            [(CUBE, In((2, 2), values=(0, -1, 29, 7), dtype=torch.int64), (4,))],
            REAL,
            args=(add,),
            special=False,
        )
        for add in (False, True)
    ],
    # No more elements than there are: what ATen has in others is nobody's promise.
    Op(
        "aten::resize",
        [(MAT, Raw([2, 7])), (CUBE, Raw([30])), (SCALAR, Raw([1, 1])), (MAT, Raw([0, 4]))],
        ALL,
        **EXACT,
    ),
]

OPS: list[Op] = [*VIEWS, *JOINS, *PADS, *INDEXED, *PLACES]
