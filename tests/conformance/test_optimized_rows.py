"""Normalisation, softmax and activations of the optimized library, with every instruction set."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from run_op import overload_of, run_op
from torch.nn import functional
from torch.utils import _pytree as pytree

from penlight.dialects.penlight_ops import twins
from penlight.errors import NoKernel
from penlight.kernels.table import default_table

assert twins(default_table(), ("optimized", "portable"))  # makes penlight::rms_norm known to torch

pytestmark = pytest.mark.usefixtures("isa")

# Rows of every length that a vector may be left with, of several pieces, and of one element.
COUNTS = (*range(1, 20), 31, 64, 1024, 1025, 5000)
WILD = torch.tensor([0.0, -0.0, 1e-45, -1e-40, 87.0, 89.0, -88.0, -104.0, 3e38, -3e38, torch.inf, -torch.inf])


def run(name: str, args: list[Any], like: Any, **kwargs: Any) -> list[torch.Tensor]:
    return run_op(overload_of(name), args, kwargs, like, "optimized")


def close(got: torch.Tensor, want: torch.Tensor, rtol: float = 2e-6, atol: float = 1e-6) -> None:
    torch.testing.assert_close(got.double(), want.double(), rtol=rtol, atol=atol, equal_nan=True)


@pytest.mark.parametrize("count", COUNTS)
def test_dot(count: int) -> None:
    a, b = torch.randn(count), torch.randn(count)
    want = torch.dot(a.double(), b.double())
    (got,) = run("aten::dot", [a, b], want.float())
    assert got.shape == () and abs(got.double() - want) <= 1e-6 * torch.dot(
        a.double().abs(), b.double().abs()
    )


@pytest.mark.parametrize("shift", [0.0, 300.0])
@pytest.mark.parametrize("count", COUNTS)
def test_layer_norm(count: int, shift: float) -> None:
    x = torch.randn(2, 3, count) + shift
    for weight, bias in ((None, None), (torch.randn(count), None), (torch.randn(count), torch.randn(count))):
        exact = [None if part is None else part.double() for part in (weight, bias)]
        want = torch.ops.aten.native_layer_norm(x.double(), [count], *exact, 1e-5)
        like = tuple(part.float() for part in want)
        got = run("aten::native_layer_norm", [x, [count], weight, bias, 1e-5], like)
        for mine, theirs in zip(got, want, strict=True):
            close(mine, theirs, rtol=1e-5, atol=1e-3 if shift else 1e-5)


# As many as take turns, and one fewer; with what is left of a vector and of four; and longer ones.
@pytest.mark.parametrize("rows", [15, 16, 37])
@pytest.mark.parametrize("count", [1, 3, 33, 100, 192, 1024, 1025])
def test_norms_of_many_rows_are_those_of_each(count: int, rows: int) -> None:
    x = torch.randn(rows, count) + 10 * torch.randn(rows, 1)
    x[3], x[5, -1], x[8, 0], x[9], x[12] = 7.0, torch.nan, -torch.inf, 0.0, 3e38
    x[14] *= 1e-30
    weight, bias = torch.randn(count), torch.randn(count)
    for scale, shift in ((weight, bias), (weight, None), (None, None)):
        norms = {
            "aten::native_layer_norm": [[count], scale, shift, 1e-5],
            "penlight::rms_norm": [[count], scale, 1e-5],
        }
        for name, args in norms.items():
            like = overload_of(name)(x, *args)
            together = run(name, [x, *args], like)
            for row in (0, 3, 5, 8, 12, 14, rows - 1):
                one = x[row : row + 1].clone()
                alone = run(name, [one, *args], overload_of(name)(one, *args))
                for mine, own in zip(together, alone, strict=True):
                    assert torch.equal(mine[row].view(torch.int32), own[0].view(torch.int32))
            plain = torch.tensor([i for i in range(rows) if i not in (5, 8, 12)])
            want = overload_of(name)(
                x.double(), *(part.double() if isinstance(part, torch.Tensor) else part for part in args)
            )
            first = want if isinstance(want, torch.Tensor) else want[0]
            close(together[0][plain], first[plain], rtol=1e-4, atol=1e-4)


# Sums are taken about the first number of a row, which may be the one that is far from all others.
@pytest.mark.parametrize("rows", [3, 20])
@pytest.mark.parametrize("far", [4.0, -30.0, 1e4, 1e15])
@pytest.mark.parametrize("count", [5, 192, 1000, 5000])
def test_layer_norm_of_rows_that_begin_far_out(count: int, far: float, rows: int) -> None:
    x = torch.randn(rows, count)
    x[:, 0] = far
    weight, bias = torch.rand(count) + 1, torch.zeros(count)
    want = torch.native_layer_norm(x.double(), [count], weight.double(), bias.double(), 1e-5)
    like = tuple(part.float() for part in want)
    got = run("aten::native_layer_norm", [x, [count], weight, bias, 1e-5], like)
    close(got[2], want[2], rtol=4e-6, atol=0)
    close(got[0], want[0], rtol=0, atol=3e-6 * abs(want[0]).max().item())


@pytest.mark.parametrize("number", [37.3, 1000.1, -100000.3, 1e-40, 3e38])
@pytest.mark.parametrize("count", [1, 12, 768, 5000])
def test_layer_norm_of_equal_numbers_is_zero(count: int, number: float) -> None:
    x = torch.full((2, count), number)
    got = run(
        "aten::native_layer_norm",
        [x, [count], None, None, 1e-5],
        torch.native_layer_norm(x, [count], None, None, 1e-5),
    )
    assert not got[0].any() and bool((got[1] == x[0, 0]).all())


def test_layer_norm_of_what_is_large_or_not_a_number() -> None:
    x = torch.randn(5, 40)
    x[1, 3], x[2, 39], x[3] = torch.nan, torch.inf, 3e38
    got = run(
        "aten::native_layer_norm",
        [x, [40], None, None, 1e-5],
        torch.native_layer_norm(x, [40], None, None, 1e-5),
    )
    want = torch.native_layer_norm(x.double(), [40], None, None, 1e-5)
    assert got[0][1:3].isnan().all() and got[1][3].item() == pytest.approx(3e38, rel=1e-6)
    close(got[0][[0, 4]], want[0][[0, 4]], atol=1e-5)


@pytest.mark.parametrize("count", COUNTS)
def test_rms_norm(count: int) -> None:
    x, weight = torch.randn(4, count), torch.randn(count)
    for scale, eps in ((None, None), (weight, 1e-5)):
        want = functional.rms_norm(
            x.double(), [count], None if scale is None else scale.double(), eps or 1.1920928955078125e-7
        )
        close(run("penlight::rms_norm", [x, [count], scale, eps], want.float())[0], want, rtol=1e-5)


@pytest.mark.parametrize("count", COUNTS)
@pytest.mark.parametrize("name", ["_softmax", "_log_softmax"])
def test_softmax(name: str, count: int) -> None:
    op = getattr(torch.ops.aten, name)
    x = torch.randn(3, 2, count) * 20
    want = op(x.double(), -1, False)
    close(run(f"aten::{name}", [x, 2, False], want.float())[0], want, rtol=1e-5)


@pytest.mark.parametrize("name", ["_softmax", "_log_softmax"])
def test_softmax_of_what_is_not_finite(name: str) -> None:
    x = torch.randn(5, 21)
    x[0, 20], x[1, 2], x[2] = torch.nan, torch.inf, -torch.inf
    x[3, 1:], x[4] = -torch.inf, 3e38
    want = getattr(torch.ops.aten, name)(x, 1, False)
    close(run(f"aten::{name}", [x, 1, False], want)[0], want, rtol=1e-5)


@pytest.mark.parametrize("inner", [*range(1, 10), 12, 16, 19, 33, 64, 65, 130])
@pytest.mark.parametrize("name", ["_softmax", "_log_softmax"])
def test_softmax_of_columns(name: str, inner: int) -> None:
    op = getattr(torch.ops.aten, name)
    for count in (1, 2, 15, 16, 63, 64, 65, 200, 1500):
        x = torch.randn(3, count, inner) * 20
        want = op(x.double(), 1, False)
        close(run(f"aten::{name}", [x, -2, False], want.float())[0], want, rtol=1e-5)
    x[0, 3, inner // 2], x[1, 5, 0], x[2], x[1, :, inner - 1] = torch.nan, torch.inf, -torch.inf, 3e38
    want = op(x, 1, False)
    close(run(f"aten::{name}", [x, 1, False], want)[0], want, rtol=1e-5)


@pytest.mark.parametrize("order", [(0, 1, 2, 3), (0, 2, 3, 1), (3, 1, 0, 2)])
def test_softmax_in_any_order(order: tuple[int, ...]) -> None:
    x = torch.randn([(2, 5, 3, 17)[dim] for dim in order]).permute([order.index(dim) for dim in range(4)])
    for dim in range(-4, 4):
        for name in ("_softmax", "_log_softmax"):
            want = getattr(torch.ops.aten, name)(x, dim, False)
            like = torch.empty_like(x)  # ATen gives another order
            close(run(f"aten::{name}", [x, dim, False], like)[0], want, rtol=1e-5)


@pytest.mark.parametrize(
    "name, kwargs",
    [("sigmoid", {}), ("tanh", {}), ("silu", {}), ("gelu", {}), ("gelu", {"approximate": "tanh"})],
)
def test_activations(name: str, kwargs: dict[str, str]) -> None:
    op = getattr(torch.ops.aten, name)
    for x in (torch.randn(3, 7, 11) * 4, torch.tensor(0.3), torch.empty(0, 4), torch.linspace(-20, 20, 5000)):
        want = op(x.double(), **kwargs)
        close(run(f"aten::{name}", [x], want.float(), **kwargs)[0], want)
    x = torch.cat([WILD, torch.tensor([torch.nan])])
    # ATen's AVX-512 kernel makes infinity of 2e38 and NaN of infinity.
    want = op(x.double() if name == "gelu" and not kwargs else x, **kwargs).float()
    close(run(f"aten::{name}", [x], want, **kwargs)[0], want)


def test_small_arguments_keep_their_digits() -> None:
    x = torch.logspace(-38, 0, 2000)
    for name in ("tanh", "gelu", "silu"):
        want = getattr(torch.ops.aten, name)(x.double())
        close(run(f"aten::{name}", [x], want.float())[0], want, atol=1e-45)


# Sizes, dimensions that are reduced, and the order in which the sizes lie in memory.
RUNS = [
    *(((3, count), [1], None) for count in COUNTS),
    ((7, 130, 5), [1], None),
    ((2, 200, 67), [1], None),
    ((4, 3, 64), [0, 1], None),
    ((4, 3, 17), [0], None),
    ((4, 3, 5, 7), None, None),
    ((4, 3, 5, 7), [-1, 2], None),
    ((2, 70, 9, 8), [2, 3], (0, 2, 3, 1)),
    ((2, 70, 9, 8), [1], (0, 2, 3, 1)),
    ((3, 4, 5), [0, 2], None),
    ((9, 40, 33), [0, 2], None),
    ((2, 3, 4, 5, 6), [0, 2, 4], None),
    ((3, 7, 5, 4), [0, 3], (0, 2, 3, 1)),
    ((3, 1, 5, 4), [0, 2], None),
    ((5, 1, 6), [1], None),
    ((9,), [0], None),
    ((), [], None),
]


@pytest.mark.parametrize("keepdim", [False, True])
@pytest.mark.parametrize("case", RUNS, ids=str)
def test_reductions(case: Any, keepdim: bool) -> None:
    sizes, dims, order = case
    x = torch.randn(sizes)
    if order is not None:
        back = [order.index(d) for d in range(len(order))]
        x = x.permute(order).contiguous().permute(back)
    for name, args in (("sum.dim_IntList", []), ("mean.dim", []), ("linalg_vector_norm", [2])):
        packet, _, overload = name.partition(".")
        op = getattr(getattr(torch.ops.aten, packet), overload or "default")
        want = op(x.double(), *args, dims, keepdim)
        like = op(x, *args, dims, keepdim)
        (got,) = run_op(op, [x, *args, dims, keepdim], {}, like, "optimized")
        assert got.shape == like.shape
        close(got, want, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("keepdim", [False, True])
@pytest.mark.parametrize(
    "sizes, dims, order",
    [
        ((1, 64, 50, 16), [3], (0, 2, 3, 1)),
        ((2, 7, 9, 5), [2], (0, 2, 3, 1)),
        ((2, 7, 9, 5), [0], (3, 2, 1, 0)),
        ((3, 4, 5), [0, 1], (2, 1, 0)),
        ((1, 4, 1, 5, 3), [4], (0, 3, 4, 2, 1)),
    ],
    ids=str,
)
def test_reductions_into_another_order(
    isa: str, sizes: tuple[int, ...], dims: list[int], order: tuple[int, ...], keepdim: bool
) -> None:
    x = torch.randn([sizes[d] for d in order]).permute([order.index(d) for d in range(len(order))])
    for name in ("sum.dim_IntList", "amax.default", "amin.default"):
        packet, _, overload = name.partition(".")
        op = getattr(getattr(torch.ops.aten, packet), overload)
        want = op(x.double(), dims, keepdim).contiguous()
        (got,) = run_op(op, [x, dims, keepdim], {}, want.float(), "optimized")
        close(got, want, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("dim", [0, 1])
def test_reductions_of_what_is_large_or_not_a_number(dim: int) -> None:
    x = torch.randn(6, 70)
    x[0, 3], x[1, 39], x[2, 5], x[2, 6] = torch.nan, torch.inf, torch.inf, -torch.inf
    x[3] = 3e38 * torch.tensor([1.0, -1.0]).repeat(35)
    x[4, :3] = torch.tensor([3e38, 3e38, -3e38])
    x = x if dim == 1 else x.T.contiguous()
    for op, args in (
        (torch.ops.aten.sum.dim_IntList, []),
        (torch.ops.aten.mean.dim, []),
        (torch.ops.aten.linalg_vector_norm.default, [2]),
    ):
        want = op(x.double(), *args, [dim]).float()
        (got,) = run_op(op, [x, *args, [dim], False], {}, want, "optimized")
        close(got, want, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("sizes", [(3, 5), (4, 64), (5, 33), (2, 130), (3, 1030), (70, 200)], ids=str)
def test_sums_of_those_that_are_numbers(isa: str, sizes: tuple[int, ...]) -> None:
    """Of infinities of both signs the sum is none, and stays in a sum over several dimensions."""
    x = torch.randn(*sizes, 2, 3)
    flat = x.view(-1)
    flat[::3] = torch.nan
    op = torch.ops.aten.nansum.default
    for wild in (False, True):
        if wild:
            flat[1::97], flat[4::101], x[1, :2, 0, 0] = torch.inf, -torch.inf, torch.tensor([3e38, 3e38])
        for dims in ([0], [1], [-1], [0, 2], [1, 3], [0, 1, 2, 3]):
            want = op(x.double(), dims).float()
            (got,) = run_op(op, [x, dims], {}, want, "optimized")
            close(got, want, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("count", [*range(1, 19), 31, 64, 65, 130, 1000])
def test_products(isa: str, count: int) -> None:
    for sizes, dim in (((5, count), 1), ((count, 3), 0), ((2, count, 70), 1)):
        x = torch.randn(sizes).exp2()
        op = torch.ops.aten.prod.dim_int
        want = op(x.double(), dim).float()
        (got,) = run_op(op, [x, dim], {}, want, "optimized")
        close(got, want, rtol=1e-4, atol=0.0)
        x.view(-1)[0], x.view(-1)[-1] = 0.0, torch.nan
        want = op(x.double(), dim).float()
        (got,) = run_op(op, [x, dim], {}, want, "optimized")
        close(got, want, rtol=1e-4, atol=0.0)
    x = torch.rand(count) + 0.5
    want = x.double().prod().float()
    (got,) = run_op(torch.ops.aten.prod.default, [x], {}, want, "optimized")
    close(got, want, rtol=1e-4, atol=0.0)


@pytest.mark.parametrize("count", [*range(1, 19), 31, 32, 33, 63, 64, 65])
@pytest.mark.parametrize("rows", [1, 5, 16, 37])
def test_sums_of_short_rows(isa: str, rows: int, count: int) -> None:
    """Some are not finite, or have squares beyond the range; a row is summed alike in any company."""
    x = torch.randn(rows, count)
    special = torch.tensor([torch.nan, torch.inf, -torch.inf, 3e38, 1e-30])
    for row in range(0, rows, 3):
        x[row, row % count] = special[row // 3 % len(special)]
    for op, args in (
        (torch.ops.aten.sum.dim_IntList, []),
        (torch.ops.aten.mean.dim, []),
        (torch.ops.aten.linalg_vector_norm.default, [2]),
    ):
        want = op(x.double(), *args, [1]).float()
        (got,) = run_op(op, [x, *args, [1], False], {}, want, "optimized")
        close(got, want, rtol=2e-6, atol=1e-5)
        (part,) = run_op(op, [x[rows // 2 :], *args, [1], False], {}, want[rows // 2 :], "optimized")
        torch.testing.assert_close(part, got[rows // 2 :], rtol=0, atol=0, equal_nan=True)


@pytest.mark.parametrize("count", [*range(1, 19), 31, 33, 63, 64, 65, 127, 130, 200])
def test_extremes_of_rows(isa: str, count: int) -> None:
    """The extreme, or what is no number, is at any place; a row of nothing else too."""
    x = torch.randn(3 * count + 2, count)
    for place in range(count):
        x[place, place], x[count + place, place], x[2 * count + place, place] = 9.0, -9.0, torch.nan
    x[-2], x[-1] = torch.inf, -torch.inf
    for name in ("amax", "amin"):
        op = getattr(torch.ops.aten, name).default
        want = op(x, [1])
        (got,) = run_op(op, [x, [1], False], {}, want, "optimized")
        torch.testing.assert_close(got, want, rtol=0, atol=0, equal_nan=True)


def test_reductions_left_to_the_portable_kernels() -> None:
    x, dims = torch.randn(2, 0, 5), [1]
    op = torch.ops.aten.sum.dim_IntList
    with pytest.raises(NoKernel):
        run_op(op, [x, dims], {}, op(x, dims), "optimized")
    (got,) = run_op(op, [x, dims], {}, op(x, dims))
    close(got, x.sum(dims))


@pytest.mark.parametrize(
    "sizes, dims",
    [
        *(((3, count), [1]) for count in (1, 2, 7, 16, 33, 64, 130, 1025)),
        *(((count, 3), [0]) for count in (2, 64, 65, 1000)),
        *(((2, 5, 9, 13), dims) for dims in ([3], [2, 3], [0], [1, 2], [0, 1, 2, 3], [1])),
        *(((2, 70, 300), [1]), ((5000,), [0])),
    ],
    ids=str,
)
def test_variances(sizes: tuple[int, ...], dims: list[int]) -> None:
    """Of numbers far from zero, all equal, and so small or large that squares leave the range of float32."""
    packets = [getattr(torch.ops.aten, name) for name in ("var", "std", "var_mean", "std_mean")]
    for scale, offset in ((1.0, 0.0), (1.0, 1000.0), (0.0, 5.0), (1e-20, 0.0), (1e15, 0.0)):
        x = torch.randn(sizes) * scale + offset
        for op in [packet.correction for packet in packets]:
            for keyword in ({"correction": 0}, {"correction": 0.5, "keepdim": True}):
                want = pytree.tree_leaves(op(x.double(), dims, **keyword))
                result = [one.float() for one in want]
                got = run_op(op, [x, dims], keyword, result if len(want) > 1 else result[0], "optimized")
                for one, wanted in zip(got, want, strict=True):
                    close(one, wanted.float(), rtol=2e-6, atol=3e-7 * scale + 1e-45)


@pytest.mark.parametrize("dim", [0, 1])
def test_variances_of_what_is_not_finite(dim: int) -> None:
    """They are as ATen's, by the portable kernel; so are those of fewer numbers than the correction."""
    x = torch.randn(6, 70)
    x[0, 3], x[1, 39], x[2, 0], x[3, 4], x[3, 5] = torch.nan, torch.inf, torch.inf, 3e38, -2e38
    x = x if dim == 1 else x.T.contiguous()
    op = torch.ops.aten.std_mean.correction
    for correction in (1, 70, 100):
        want = op(x, [dim], correction=correction)
        got = run_op(op, [x, [dim]], {"correction": correction}, want)
        for one, wanted in zip(got, want, strict=True):
            close(one, wanted, rtol=1e-5, atol=1e-6)
