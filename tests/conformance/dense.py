"""Dense operators: products, convolution, pooling, normalisation, attention, recurrent layers.

Sums of products are not tried with infinities and the largest numbers: what comes
out then depends on the order of the sum, which ATen does not promise either.
"""

from __future__ import annotations

from typing import Any

import torch
from op_case import CUBE, EMPTY, F32, FLOATS, IMAGE, INDEX, INTS, MAT, REAL, VEC, In, Op, Raw

from penlight.dialects.penlight_ops import twins
from penlight.kernels.table import default_table

# torch knows the composites that stay whole only after they were asked for.
twins(default_table(), ("portable",))

HALVES = (torch.float16, torch.bfloat16)
WIDE = (torch.float32, torch.float64, *INTS)
NO_GEMM_INTS = (torch.float32, torch.float64)


def sums(
    name: str, inputs: list[tuple[Any, ...]], wide: tuple[torch.dtype, ...] = WIDE, **rest: Any
) -> list[Op]:
    """Rows of an operator that sums products: exact for integers, looser for 16-bit floats."""
    return [
        Op(name, inputs, wide, tol=1e-4, special=False, **rest),
        Op(name, inputs[:3], HALVES, tol=2e-2, special=False, **rest),
    ]


# --- products -------------------------------------------------------------------------------------

PRODUCTS = [
    *sums("aten::mm", [((4, 5), (5, 3)), ((17, 33), (33, 9)), ((1, 70), (70, 130)), ((130, 300), (300, 2))]),
    *sums("aten::mm", [((0, 5), (5, 3)), ((4, 0), (0, 3)), ((1, 1), (1, 1)), ((100, 257), (257, 520))], F32),
    *sums("aten::bmm", [((2, 4, 5), (2, 5, 3)), ((3, 1, 7), (3, 7, 40)), ((0, 4, 5), (0, 5, 3))]),
    *sums("aten::addmm", [((3,), (4, 5), (5, 3)), ((4, 3), (4, 5), (5, 3)), ((4, 1), (4, 5), (5, 3))]),
    *sums("aten::addmm", [((9,), (1, 40), (40, 9)), ((), (7, 5), (5, 9))], kwargs={"beta": 2, "alpha": 3}),
    *sums("aten::addmm", [((9,), (6, 300), (300, 9))], NO_GEMM_INTS, kwargs={"beta": 0.5, "alpha": -1.5}),
    *sums(
        "aten::baddbmm",
        [((2, 4, 3), (2, 4, 5), (2, 5, 3)), ((3,), (2, 4, 5), (2, 5, 3))],
        kwargs={"alpha": 2},
    ),
    *sums("aten::mv", [((4, 5), (5,)), ((130, 33), (33,)), ((0, 5), (5,))]),
    *sums("aten::addmv", [((4,), (4, 5), (5,)), ((1,), (9, 5), (5,))], kwargs={"beta": 3}),
    *sums("aten::dot", [(VEC, VEC), (EMPTY, EMPTY), ((1000,), (1000,))]),
    *sums(
        "aten::linear",
        [
            ((4, 5), (3, 5), (3,)),
            ((5,), (3, 5), (3,)),
            ((2, 3, 70), (130, 70), None),
            ((1, 300), (9, 300), (9,)),
        ],
        NO_GEMM_INTS,
    ),
]

# --- convolution ----------------------------------------------------------------------------------


def conv(
    x: tuple[int, ...],
    weight: tuple[int, ...],
    bias: bool = True,
    stride: int = 1,
    padding: int = 0,
    dilation: int = 1,
    groups: int = 1,
    transposed: bool = False,
    output_padding: int = 0,
) -> tuple[Any, ...]:
    """One call of aten::convolution, the same in every spatial dimension."""
    dims = len(x) - 2
    outputs = weight[1] * groups if transposed else weight[0]
    lists = [Raw([value] * dims) for value in (stride, padding, dilation)]
    return (x, weight, (outputs,) if bias else None, *lists, transposed, Raw([output_padding] * dims), groups)


CONVOLUTIONS = sums(
    "aten::convolution",
    [
        conv((2, 3, 9, 11), (8, 3, 3, 3), padding=1),
        conv((1, 6, 12, 12), (6, 1, 3, 3), padding=1, stride=2, groups=6),
        conv((2, 4, 6, 5), (3, 4, 2, 2), transposed=False),
        conv((1, 16, 7, 7), (24, 16, 1, 1), bias=False),
        conv((1, 8, 15, 15), (8, 2, 3, 3), groups=4, dilation=2, padding=2),
        conv((1, 6, 9, 9), (12, 1, 5, 5), groups=6, padding=2),
        conv((3, 5, 40), (7, 5, 3), padding=1, stride=2),
        conv((2, 4, 50), (4, 1, 7), groups=4, dilation=3),
        conv((1, 3, 5, 6, 7), (4, 3, 3, 2, 3), padding=1),
        conv((1, 4, 5, 5), (4, 6, 3, 3), transposed=True, stride=2, padding=1, output_padding=1),
        conv((2, 6, 5, 7), (6, 2, 2, 2), transposed=True, stride=2, groups=3),
        conv((1, 4, 6, 6), (4, 1, 3, 3), transposed=True, stride=3, groups=4, bias=False),
        conv((1, 4, 9), (4, 5, 4), transposed=True, stride=2, padding=1),
        conv((1, 2, 3, 4, 3), (2, 3, 2, 2, 2), transposed=True, stride=2),
        conv((0, 3, 9, 9), (8, 3, 3, 3)),
        # Depthwise: more channels than a block, several tiles, taps apart, volumes, several outputs.
        conv((2, 37, 14, 13), (37, 1, 3, 3), padding=1, stride=2, groups=37),
        conv((1, 3, 150, 90), (3, 1, 5, 5), padding=2, groups=3),
        conv((1, 2, 700), (2, 1, 3), padding=9, dilation=9, groups=2),
        conv((1, 18, 5, 6, 7), (18, 1, 2, 3, 2), padding=1, stride=2, groups=18),
        conv((1, 9, 8, 8), (27, 1, 3, 3), padding=2, dilation=2, groups=9),
        # Too many products for sums in double: in tiles, the last panel of channels not full.
        conv((1, 9, 40, 44), (27, 1, 5, 5), padding=2, groups=9),
        conv((1, 12, 60, 60), (24, 1, 3, 3), transposed=False, stride=2, padding=1, groups=12),
        conv((1, 6, 40, 40), (6, 2, 5, 5), transposed=True, stride=2, padding=1, groups=6),
        conv((1, 3, 200, 300), (3, 1, 2, 2), padding=300, dilation=599, groups=3),
        conv((2, 20, 6, 5), (20, 1, 3, 2), transposed=True, stride=2, padding=1, groups=20),
        conv((1, 5, 4, 4), (5, 3, 2, 2), transposed=True, stride=3, groups=5),
    ],
    NO_GEMM_INTS,
)

# --- pooling --------------------------------------------------------------------------------------

PHOTO = (2, 3, 11, 13)
VOLUME = (1, 3, 6, 7, 5)


def pools(
    name: str, shapes: list[tuple[int, ...]], choices: list[tuple[Any, ...]], dtypes: Any, **rest: Any
) -> list[Op]:
    """A row for each choice of the arguments after the input."""
    return [Op(name, [(shape,) for shape in shapes], dtypes, args=args, **rest) for args in choices]


_MAX_CHOICES: list[tuple[Any, ...]] = [
    ([2], [2]),
    ([3], [2], [1]),
    ([3], [1], [1], [2]),
    ([3], [2], [0], [1], True),
]
_AVERAGE_CHOICES: list[tuple[Any, ...]] = [
    ([2],),
    ([3], [2], [1]),
    ([3], [2], [1], True),
    ([3], [2], [1], False, False),
    ([3], [2], [1], True, False),
]


def spread(choices: list[tuple[Any, ...]], dims: int) -> list[tuple[Any, ...]]:
    """Arguments for one dimension, repeated for several."""
    return [tuple(v * dims if isinstance(v, list) else v for v in args) for args in choices]


POOLS = [
    *pools("aten::avg_pool1d", [(2, 3, 11), (3, 11)], _AVERAGE_CHOICES, FLOATS, tol=1e-2, special=False),
    *pools(
        "aten::avg_pool2d", [PHOTO, (3, 11, 13)], spread(_AVERAGE_CHOICES, 2), FLOATS, tol=1e-2, special=False
    ),
    *pools("aten::avg_pool2d", [PHOTO], [([2, 3], [1, 2], [1, 0], False, True, 5)], F32, special=False),
    *pools("aten::avg_pool3d", [VOLUME], spread(_AVERAGE_CHOICES, 3), NO_GEMM_INTS, tol=1e-5, special=False),
    *pools("aten::max_pool2d_with_indices", [PHOTO, (3, 11, 13)], spread(_MAX_CHOICES, 2), FLOATS),
    *pools("aten::max_pool2d_with_indices", [PHOTO], spread(_MAX_CHOICES[:2], 2), (torch.int64,)),
    *pools("aten::max_pool3d_with_indices", [VOLUME], spread(_MAX_CHOICES, 3), FLOATS),
    *pools("aten::adaptive_avg_pool1d", [(2, 3, 11)], [([1],), ([4],)], FLOATS, tol=1e-2, special=False),
    *pools(
        "aten::_adaptive_avg_pool2d",
        [PHOTO],
        [([1, 1],), ([3, 4],), ([7, 20],)],
        FLOATS,
        tol=1e-2,
        special=False,
    ),
    *pools("aten::adaptive_avg_pool2d", [PHOTO], [([2, 3],), ([1, 1],)], F32, tol=1e-5, special=False),
    *pools("aten::adaptive_avg_pool3d", [VOLUME], [([2, 1, 3],), ([1, 1, 1],)], F32, tol=1e-5, special=False),
    *pools(
        "aten::_adaptive_avg_pool3d", [VOLUME], [([1, 1, 1],), ([2, 3, 4],)], FLOATS, tol=1e-2, special=False
    ),
    *pools("aten::adaptive_max_pool2d", [PHOTO], [([1, 1],), ([3, 4],)], FLOATS),
    *pools("aten::adaptive_max_pool3d", [VOLUME], [([1, 1, 1],), ([2, 3, 4],)], FLOATS),
]

# --- normalisation --------------------------------------------------------------------------------

CHANNELS = In((6,), low=0.5, high=2)


def batch_norms(name: str, after: tuple[Any, ...], running: bool, **rest: Any) -> Op:
    statistics = (In((6,), low=-1, high=1), CHANNELS) if running else ()
    shapes = [(2, 6, 5, 4), (3, 6), (2, 6, 9), (1, 6, 2, 3, 4)]
    inputs = [(shape, CHANNELS, (6,), *statistics, *after) for shape in shapes]
    inputs.append(((2, 6, 5, 4), None, None, *statistics, *after))
    return Op(name, inputs, special=False, **rest)


NORMALISATIONS = [
    Op(
        "aten::native_layer_norm",
        [
            ((4, 8), Raw([8]), (8,), (8,), 1e-5),
            ((2, 3, 5), Raw([3, 5]), (3, 5), None, 1e-5),
            ((2, 3, 300), Raw([300]), None, None, 1e-3),
            ((0, 8), Raw([8]), (8,), (8,), 1e-5),
        ],
        FLOATS,
        tol=2e-2,
        special=False,
    ),
    Op("aten::native_layer_norm", [((4, 8), Raw([8]), (8,), (8,), 1e-5)], tol=1e-5, special=False),
    Op(
        "aten::native_group_norm",
        [
            ((2, 6, 5, 4), (6,), (6,), 2, 6, 20, 3, 1e-5),
            ((2, 6, 7), None, None, 2, 6, 7, 2, 1e-5),
            ((1, 6), (6,), None, 1, 6, 1, 2, 1e-5),
        ],
        tol=1e-5,
        special=False,
        layouts=False,
    ),
    Op(
        "penlight::rms_norm",
        [((4, 8), Raw([8]), (8,)), ((2, 3, 5), Raw([3, 5]), None)],
        tol=1e-5,
        special=False,
    ),
    Op("penlight::rms_norm", [((4, 8), Raw([8]), (8,), 1e-6)], FLOATS, tol=2e-2, special=False),
    batch_norms("aten::_native_batch_norm_legit_no_training", (0.1, 1e-5), True, tol=1e-5),
    batch_norms("aten::_native_batch_norm_legit.no_stats", (True, 0.1, 1e-5), False, tol=1e-4),
    batch_norms("aten::_native_batch_norm_legit", (False, 0.1, 1e-5), True, tol=1e-5),
    batch_norms("aten::native_batch_norm", (False, 0.1, 1e-5), True, tol=1e-5),
    *[
        Op(
            f"aten::{name}",
            [(MAT,), (VEC,), (CUBE,), (EMPTY,), ((2, 0, 3),), ((),)],
            FLOATS,
            args=(dim, False),
            tol=2e-2,
        )
        for name in ("_softmax", "_log_softmax")
        for dim in (0, -1)
    ],
    *[
        Op(f"aten::{name}", [(IMAGE,), (CUBE,)], args=(1, False), tol=1e-5)
        for name in ("_softmax", "_log_softmax")
    ],
    Op("aten::glu", [((4, 6),), ((*IMAGE[:3], 8),)], FLOATS, tol=2e-2),
    Op("aten::glu", [((6, 5),), ((4, 2, 3, 5),)], args=(0,)),
]

# --- attention and recurrent layers ---------------------------------------------------------------

QUERY, KEY = (2, 3, 5, 8), (2, 3, 7, 8)


def recurrent(
    kind: str,
    layers: int = 1,
    bidirectional: bool = False,
    batch_first: bool = False,
    bias: bool = True,
    project: int = 0,
) -> tuple[Any, ...]:
    """One call of penlight::lstm or penlight::gru: 4 steps, batch 3, 5 inputs, 6 hidden."""
    inputs, hidden, batch = 5, 6, 3
    gates = (4 if kind == "lstm" else 3) * hidden
    directions = 2 if bidirectional else 1
    output = project or hidden
    params: list[Any] = []
    for layer in range(layers):
        for _ in range(directions):
            params += [(gates, inputs if layer == 0 else directions * output), (gates, output)]
            params += [(gates,), (gates,)] if bias else []
            params += [(project, hidden)] if project else []
    state = (layers * directions, batch, output)
    hx: Any = [state, (layers * directions, batch, hidden)] if kind == "lstm" else state
    x = (batch, 4, inputs) if batch_first else (4, batch, inputs)
    return (x, hx, params, bias, layers, 0.0, False, bidirectional, batch_first)


COMPOSITES = [
    Op(
        "penlight::grouped_linear",
        [
            ((7, 5), (3, 4, 5), In((3,), torch.int32, values=(2, 2, 7))),
            ((9, 5), (3, 4, 5), In((3,), torch.int64, values=(1, 6, 8))),
            ((1, 8), (1, 3, 8), In((1,), torch.int32, values=(1,))),
            ((0, 8), (2, 3, 8), In((2,), torch.int32, values=(0, 0))),
        ],
        FLOATS,
        tol=2e-2,
        special=False,
    ),
    Op(
        "penlight::scaled_dot_product_attention",
        [
            (QUERY, KEY, KEY),
            (QUERY, KEY, KEY, (5, 7)),
            (QUERY, KEY, KEY, (2, 1, 5, 7)),
            (QUERY, KEY, KEY, In((5, 7), torch.bool)),
            (QUERY, KEY, KEY, In((2, 3, 1, 7), torch.bool)),
            (QUERY, KEY, (2, 3, 7, 4)),
            ((1, 2, 70, 16), (1, 2, 300, 16), (1, 2, 300, 16), In((70, 300), torch.bool)),
            ((2, 1, 8), (2, 40, 8), (2, 40, 8)),
        ],
        (torch.float32, torch.float64),
        tol=1e-5,
        special=False,
        layouts=False,
    ),
    Op(
        "penlight::scaled_dot_product_attention",
        [(QUERY, KEY, KEY)],
        HALVES,
        tol=2e-2,
        special=False,
        layouts=False,
    ),
    Op(
        "penlight::scaled_dot_product_attention",
        [
            (QUERY, QUERY, QUERY, None, 0.0, True),
            ((1, 2, 130, 8), (1, 2, 130, 8), (1, 2, 130, 8), None, 0.0, True),
        ],
        kwargs={"scale": 0.3},
        tol=1e-5,
        special=False,
        layouts=False,
    ),
    Op(
        "penlight::scaled_dot_product_attention",
        [((2, 6, 5, 8), (2, 2, 7, 8), (2, 2, 7, 8)), ((1, 9, 1, 16), (1, 3, 40, 16), (1, 3, 40, 16))],
        kwargs={"enable_gqa": True},
        tol=1e-5,
        special=False,
        layouts=False,
    ),
    *[
        Op(
            f"penlight::{kind}",
            [
                recurrent(kind),
                recurrent(kind, layers=2, bidirectional=True),
                recurrent(kind, layers=3, batch_first=True, bias=False),
            ],
            (torch.float32, torch.float64),
            domain=(-1, 1),
            tol=1e-5,
            special=False,
        )
        for kind in ("lstm", "gru")
    ],
    Op(
        "penlight::lstm",
        [recurrent("lstm", layers=2, bidirectional=True, project=4)],
        tol=1e-5,
        special=False,
    ),
]

# --- resampling and moving pixels -----------------------------------------------------------------

SIGNAL, PICTURE, SOLID = (2, 3, 5), (2, 3, 5, 7), (1, 2, 3, 4, 5)
BYTES = (torch.float32, torch.float16, torch.uint8)

RESAMPLING = [
    *[
        Op(
            f"aten::{name}{dims}d",
            [(shape,)],
            BYTES if name == "upsample_nearest" else F32,
            args=args,
            exact=True,
        )
        for name in ("upsample_nearest", "_upsample_nearest_exact")
        for dims, shape, args in [
            (1, SIGNAL, ([10],)),
            (1, SIGNAL, ([3],)),
            (2, PICTURE, ([10, 14],)),
            (2, PICTURE, ([8, 3],)),
            (2, PICTURE, ([7, 10], 1.5, 1.5)),
            (3, SOLID, ([6, 3, 7],)),
        ]
    ],
    *[
        Op(f"aten::{name}", [(shape,)], args=(size, align), tol=1e-5, special=False)
        for align in (False, True)
        for name, shape, size in [
            ("upsample_linear1d", SIGNAL, [9]),
            ("upsample_bilinear2d", PICTURE, [10, 14]),
            ("upsample_bilinear2d", PICTURE, [3, 1]),
            ("upsample_trilinear3d", SOLID, [6, 3, 7]),
            ("upsample_bicubic2d", PICTURE, [9, 4]),
        ]
    ],
    *[
        Op(f"aten::{name}", [(PICTURE,)], args=(size, False), tol=1e-5, special=False, layouts=False)
        for name in ("_upsample_bilinear2d_aa", "_upsample_bicubic2d_aa")
        for size in ([3, 3], [9, 4])
    ],
    *[
        Op(
            f"aten::{name}",
            [(In(PICTURE, low=0, high=256),)],
            (torch.uint8,),
            args=(size, align),
            special=False,
            exact=True,
        )
        for align in (False, True)
        for size in ([10, 14], [3, 1], [2, 7])
        for name in (
            "upsample_bilinear2d",
            "upsample_bicubic2d",
            "_upsample_bilinear2d_aa",
            "_upsample_bicubic2d_aa",
        )
    ],
    Op("aten::upsample_nearest2d.vec", [(PICTURE,)], args=([8, 3], None), exact=True),
    Op("aten::upsample_nearest2d.vec", [(PICTURE,)], args=(None, [1.7, 2.0]), exact=True),
    Op("aten::upsample_bilinear2d.vec", [(PICTURE,)], args=([8, 3], True, None), tol=1e-5, special=False),
    Op(
        "aten::upsample_bilinear2d.vec", [(PICTURE,)], args=(None, False, [1.7, 2.0]), tol=1e-5, special=False
    ),
    *[
        Op(
            f"aten::grid_sampler_{dims}d",
            [inputs],
            args=(mode, padding, align),
            tol=1e-4,
            special=False,
            layouts=False,
        )
        for dims, inputs, modes in [
            (2, (PICTURE, In((2, 4, 3, 2), low=-1.5, high=1.5)), (0, 1, 2)),
            (3, (SOLID, In((1, 2, 3, 4, 3), low=-1.5, high=1.5)), (0, 1)),
        ]
        for mode in modes
        for padding in (0, 1, 2)
        for align in (False, True)
    ],
    *[
        Op(f"aten::{name}", [(shape,)], (torch.float32, torch.int64, torch.bool), args=(2,), exact=True)
        for name, shape in [
            ("pixel_shuffle", (2, 8, 3, 5)),
            ("pixel_unshuffle", (2, 3, 4, 6)),
            ("channel_shuffle", (2, 6, 3, 5)),
        ]
    ],
    *[
        Op(name, [(given,), (given[1:],)], dtypes, (*size, *windows), exact=name == "aten::im2col", tol=1e-5)
        for (height, width), *windows, count in [
            ((6, 7), [3, 2], [1, 2], [1, 0], [2, 1], 15),
            ((5, 6), [2, 2], [1, 1], [0, 0], [1, 1], 20),
            ((4, 9), [3, 3], [1, 1], [1, 1], [1, 1], 36),
            ((5, 8), [2, 3], [2, 3], [2, 3], [1, 3], 21),
            ((2, 3), [1, 2], [1, 1], [3, 4], [2, 1], 40),  # windows beside the image
        ]
        for name, given, size, dtypes in [
            ("aten::im2col", (2, 3, height, width), (), (*FLOATS, torch.bool)),
            ("aten::col2im", (2, 3 * windows[0][0] * windows[0][1], count), ([height, width],), FLOATS),
        ]
    ],
]

# --- tables and distances -------------------------------------------------------------------------

TABLES = [
    Op(
        "aten::embedding",
        [(MAT, In((3,), index, 0, 4)) for index in INDEX]
        + [
            (MAT, In((2, 3), torch.int64, 0, 4)),
            (MAT, In((), torch.int64, 0, 4)),
            (MAT, In(EMPTY, torch.int64, 0, 4)),
        ],
        REAL,
        exact=True,
    ),
    *[
        Op(
            "aten::_embedding_bag",
            [(MAT, In((6,), torch.int64, 0, 4), In((3,), torch.int64, values=(0, 2, 5)), False, mode)],
            tol=1e-5,
            special=False,
        )
        for mode in (0, 1, 2)
    ],
    # Columns in vectors of every number and what is left of one; bags that are empty, of one row alone, or
    # of padding; indices before the first bag and, with the last offset given, after the last one.
    *[
        Op(
            "aten::_embedding_bag",
            [
                ((6, width), In((40,), index, 0, 6), offsets, False, mode, False, None, last, padding)
                for width in (250, 3)
                for index, last, offsets in (
                    (torch.int64, False, In((5,), torch.int64, values=(0, 20, 20, 39, 40))),
                    (torch.int64, True, In((4,), torch.int64, values=(2, 3, 30, 37))),
                    (torch.int32, False, In((2,), torch.int32, values=(0, 25))),
                )
                for padding in (-1, 2)
            ],
            (*FLOATS,) if mode == 2 else (torch.float32, torch.float64),
            tol=1e-5,
            special=mode == 2,
        )
        for mode in (0, 1, 2)
    ],
    Op(
        "aten::_embedding_bag",
        [((6, 37), In((20,), torch.int64, 0, 6), In((2,), torch.int64, values=(0, 11)), False, 0)],
        HALVES,
        special=False,
        tol=2e-2,
    ),
    Op(
        "aten::_embedding_bag",
        [
            (
                *((6, 37), In((20,), torch.int64, 0, 6), In((2,), torch.int64, values=(0, 11))),
                *(False, 0, False, (20,)),
            )
        ],
        tol=1e-5,
        special=False,
    ),
    *[
        Op(
            "aten::_cdist_forward",
            [((4, 5), (3, 5)), ((2, 4, 5), (2, 3, 5)), ((3, 16), (2, 16)), ((2, 43), (3, 43))],
            args=(p, 2),
            tol=1e-5,
            special=False,
        )
        for p in (0.0, 0.5, 1.0, 2.0, 3.0, float("inf"))
    ],
    *[
        Op("aten::_pdist_forward", [((4, 5),), ((1, 5),), ((4, 37),)], args=(p,), tol=1e-5, special=False)
        for p in (1.0, 2.0, 3.0)
    ],
]

OPS = [*PRODUCTS, *CONVOLUTIONS, *POOLS, *NORMALISATIONS, *COMPOSITES, *RESAMPLING, *TABLES]
