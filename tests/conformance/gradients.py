"""Operators that compute gradients, for programs that train."""

from __future__ import annotations

from typing import Any

import torch
from op_case import FLOATS, In, Op, Raw

GRADIENT = (torch.float32, torch.float64)
QUIET: dict[str, Any] = {"special": False, "tol": 1e-5}
HALVES: dict[str, Any] = {"special": False, "tol": 2e-2}
PHOTO = (2, 3, 6, 7)


def conv(
    out: tuple[int, ...], x: tuple[int, ...], weight: tuple[int, ...], *numbers: Any, mask: Any = (True,) * 3
) -> tuple[Any, ...]:
    """One call: stride, padding, dilation, transposed, output_padding and groups in `numbers`."""
    stride, padding, dilation, transposed, output_padding, groups = numbers
    dims = len(x) - 2
    lists = [Raw([value] * dims) for value in (stride, padding, dilation)]
    more = (transposed, Raw([output_padding] * dims), groups, Raw(list(mask)))
    return (out, x, weight, Raw([out[1]]), *lists, *more)


CONVOLUTIONS = [
    conv((2, 4, 6, 7), PHOTO, (4, 3, 3, 3), 1, 1, 1, False, 0, 1),
    conv((2, 6, 3, 3), PHOTO, (6, 1, 3, 3), 2, 1, 1, False, 0, 3),
    conv((1, 4, 3), (1, 2, 9), (4, 2, 3), 2, 0, 2, False, 0, 1),
    conv((2, 4, 12, 14), PHOTO, (3, 4, 3, 3), 2, 1, 1, True, 1, 1),
    conv((1, 4, 7), (1, 2, 3), (2, 2, 3), 2, 0, 1, True, 0, 2),
    conv((1, 2, 2, 2, 2), (1, 2, 3, 4, 3), (2, 2, 2, 3, 2), 1, 0, 1, False, 0, 1),
    conv((2, 4, 6, 7), PHOTO, (4, 3, 3, 3), 1, 1, 1, False, 0, 1, mask=(True, True, False)),
    conv((2, 4, 6, 7), PHOTO, (4, 3, 3, 3), 1, 1, 1, False, 0, 1, mask=(False, True, True)),
]

_STATISTICS = ((4, 1), In((4, 1), low=0.5, high=2.0))
_ALL = Raw([True, True, True])

OPS = [
    Op("aten::convolution_backward", CONVOLUTIONS, GRADIENT, special=False, tol=1e-4),
    *[
        Op("aten::avg_pool2d_backward", [(out, PHOTO), (out[1:], PHOTO[1:])], GRADIENT, args=args, **QUIET)
        for out, args in [
            ((2, 3, 3, 3), ([2], [2], [0], False, True, None)),
            ((2, 3, 4, 4), ([3, 2], [2], [1, 0], True, False, None)),
            ((2, 3, 4, 4), ([3], [2], [1], True, True, None)),
            ((2, 3, 5, 6), ([2], [1], [0], False, True, 3)),
        ]
    ],
    Op(
        "aten::_adaptive_avg_pool2d_backward",
        [((2, 3, 2, 3), PHOTO), ((3, 4, 5), PHOTO[1:]), ((2, 3, 1, 1), PHOTO)],
        GRADIENT,
        **QUIET,
    ),
    Op("aten::_adaptive_avg_pool2d_backward", [((2, 3, 2, 3), PHOTO)], FLOATS, **HALVES),
    Op(
        "aten::max_pool2d_with_indices_backward",
        [
            (
                (2, 3, 3, 3),
                PHOTO,
                *map(Raw, ([2], [2], [0], [1])),
                False,
                In((2, 3, 3, 3), torch.int64, 0, 42),
            ),
            ((3, 3, 4), PHOTO[1:], *map(Raw, ([3], [2], [1], [1])), True, In((3, 3, 4), torch.int64, 0, 42)),
        ],
        GRADIENT,
        layouts=False,
        **QUIET,
    ),
    Op(
        "aten::native_layer_norm_backward",
        [
            ((4, 6), (4, 6), Raw([6]), *_STATISTICS, (6,), (6,), _ALL),
            ((4, 6), (4, 6), Raw([6]), *_STATISTICS, None, None, Raw([True, False, False])),
            ((4, 2, 3), (4, 2, 3), Raw([2, 3]), (4, 1, 1), (4, 1, 1), (2, 3), (2, 3), _ALL),
        ],
        GRADIENT,
        special=False,
        tol=1e-4,
    ),
    Op(
        "aten::native_group_norm_backward",
        [
            (PHOTO, PHOTO, (2, 3), (2, 3), (3,), 2, 3, 42, 3, _ALL),
            ((2, 6, 5), (2, 6, 5), (2, 2), (2, 2), (6,), 2, 6, 5, 2, _ALL),
            ((2, 6, 5), (2, 6, 5), (2, 2), (2, 2), None, 2, 6, 5, 2, Raw([True, False, False])),
        ],
        GRADIENT,
        special=False,
        tol=1e-4,
        layouts=False,
    ),
    *[
        Op(
            "aten::embedding_dense_backward",
            [
                ((5, 4), In((5,), index, 0, 6)),
                ((2, 3, 4), In((2, 3), index, 0, 6)),
                ((0, 4), In((0,), index)),
            ],
            GRADIENT,
            args=(6, padding, by_frequency),
            **QUIET,
        )
        for index in (torch.int64, torch.int32)
        for padding, by_frequency in [(-1, False), (2, False), (2, True)]
    ],
]
