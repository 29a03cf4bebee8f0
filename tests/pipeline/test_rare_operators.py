"""Operators that the compiler makes of others: PyTorch's own samples, through the public API."""

from __future__ import annotations

import sys
import warnings
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.utils import _pytree as pytree

pytest.importorskip("expecttest", reason="PyTorch's samples need it")

import penlight

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "conformance"))
from opinfo import copied, op_infos

NAMES = (
    *("bucketize", "renorm", "take", "nn.functional.bilinear", "nn.functional.avg_pool3d"),
    *(
        "cholesky_inverse",
        "cholesky_solve",
        "frexp",
        "histogram",
        "histogramdd",
        "linalg.lu",
        "linalg.lu_solve",
    ),
    "nn.functional.pad.circular",
    *("linalg.pinv", "ormqr", "triangular_solve", "_segment_reduce.lengths", "_segment_reduce.offsets"),
)
FULL = (
    "bucketize",
    "frexp",
    "renorm",
    "nn.functional.pad.circular",
    "_segment_reduce.lengths",
    "_segment_reduce.offsets",
)  # quick ones, with every dtype


class Call(torch.nn.Module):
    """An operator whose tensors are the inputs, and whose other arguments are fixed."""

    def __init__(self, op: Any, given: Any) -> None:
        super().__init__()
        self.op = op
        self.leaves, self.spec = pytree.tree_flatten(given)

    def tensors(self) -> tuple[torch.Tensor, ...]:
        return tuple(copied(leaf) for leaf in self.leaves if isinstance(leaf, torch.Tensor))

    def forward(self, *tensors: torch.Tensor) -> Any:
        left = iter(tensors)
        leaves = [next(left) if isinstance(leaf, torch.Tensor) else leaf for leaf in self.leaves]
        head, args, kwargs = pytree.tree_unflatten(leaves, self.spec)
        return self.op(head, *args, **kwargs)


def compiled(model: torch.nn.Module, args: tuple[torch.Tensor, ...]) -> list[torch.Tensor]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = penlight.load(penlight.compile(model, args).to_bytes())(*args)
    return [torch.as_tensor(leaf) for leaf in pytree.tree_leaves(found)]


@pytest.mark.parametrize("name", NAMES)
def test_as_torch(name: str) -> None:
    info, tried = op_infos()[name], 0
    for dtype in (torch.float32, torch.float64, torch.float16, torch.bfloat16):
        if dtype not in info.supported_dtypes("cpu") or (tried and name not in FULL):
            continue
        torch.manual_seed(0)
        for number, sample in enumerate(info.sample_inputs("cpu", dtype, requires_grad=False)):
            if number % 5 or number > 40:
                continue
            model = Call(info.op, (sample.input, sample.args, sample.kwargs))
            want = [
                leaf for leaf in pytree.tree_leaves(model(*model.tensors())) if isinstance(leaf, torch.Tensor)
            ]
            got = compiled(model, model.tensors())
            for have, expected in zip(got, want, strict=True):
                torch.testing.assert_close(have, expected, equal_nan=True, check_stride=False)
            tried += 1
    assert tried


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16])
def test_frexp_of_every_kind(dtype: torch.dtype) -> None:
    limits = torch.finfo(dtype)
    values = [0.0, -0.0, 1.0, -1.0, 0.5, 3.0, limits.max, limits.min, limits.tiny, limits.smallest_normal / 4]
    x = torch.tensor(
        [*values, limits.tiny * limits.eps, float("inf"), -float("inf"), float("nan")], dtype=dtype
    )
    model = Call(torch.frexp, (x, (), {}))
    mantissa, exponent = compiled(model, (x,))
    want = torch.frexp(x)
    torch.testing.assert_close(mantissa, want.mantissa, rtol=0, atol=0, equal_nan=True)
    finite = x.isfinite()
    assert torch.equal(exponent[finite], want.exponent[finite])


@pytest.mark.parametrize("batch", [(2, 3), (3,)])
def test_fractional_max_pool(batch: tuple[int, ...]) -> None:
    """With numbers given: they are random when torch chooses them."""
    for kernel, out in (((2, 2), (3, 4)), ((3, 1), (1, 5)), ((2, 3, 2), (3, 1, 4))):
        x = torch.randn(*batch, *(7, 8, 9)[: len(kernel)])
        x.view(-1)[5] = float("nan")
        numbers = torch.rand(batch[0] if len(batch) == 2 else 1, 3, len(kernel))
        op = getattr(torch.ops.aten, f"fractional_max_pool{len(kernel)}d")
        got = compiled(Call(op, (x, (kernel, out, numbers), {})), (x, numbers))
        for have, expected in zip(got, op(x, kernel, out, numbers), strict=True):
            torch.testing.assert_close(have, expected, equal_nan=True, rtol=0, atol=0)


@pytest.mark.parametrize("reduction", ["none", "mean", "sum"])
@pytest.mark.parametrize(
    "labels", [[[1, 3, -1, 0], [0, -1, 1, 2]], [[1, 0, 3, 2], [-1, 2, 2, 0]], [2, 2, -1, 1]]
)
def test_labels_behind_the_last(labels: Any, reduction: str) -> None:
    """What torch splits the operator into counts class 0 for those behind the first -1."""
    target = torch.tensor(labels)
    x = torch.randn(target.shape)
    loss = torch.nn.MultiLabelMarginLoss(reduction=reduction)
    (got,) = compiled(loss, (x, target))
    torch.testing.assert_close(got, loss(x, target))


@pytest.mark.parametrize("dtype", [torch.float32, torch.int16])
@pytest.mark.parametrize("target", ["cpu", "portable"])
def test_numbers_beside_tensors(target: str, dtype: torch.dtype) -> None:
    special = torch.special

    class Model(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
            return (
                *(torch.xlogy(x, 2), torch.xlogy(2.5, x), special.xlog1py(x, 2), special.xlog1py(2, x)),
                *(special.zeta(x + 1, 2.5), special.zeta(2.5, x), special.chebyshev_polynomial_t(x, 3)),
                *(special.hermite_polynomial_h(0.5, x), special.legendre_polynomial_p(x, 2)),
            )

    x = torch.tensor([1, 2, 3], dtype=dtype)
    found = penlight.load(penlight.compile(Model(), (x,), target=target).to_bytes())(x)
    for have, want in zip(found, Model()(x), strict=True):
        torch.testing.assert_close(torch.as_tensor(have), want)


class Ranges(torch.nn.Module):
    """Numbers from `start` to `end`, which are tensors if they are given."""

    def __init__(self, dtype: torch.dtype, *ends: float) -> None:
        super().__init__()
        self.dtype, self.ends = dtype, ends

    def forward(self, x: torch.Tensor, *ends: torch.Tensor) -> torch.Tensor:
        return torch.linspace(*(ends or self.ends), 50, dtype=self.dtype) + x


@pytest.mark.parametrize("dtype", [torch.int32, torch.int64, torch.uint8, torch.float32])
@pytest.mark.parametrize("target", ["cpu", "portable"])
def test_ends_of_integers_are_cut(target: str, dtype: torch.dtype) -> None:
    x = torch.zeros((), dtype=dtype)
    for ends in ((4.3, 50), (0, 50), (0, 7), (4.3, 0), (2.9, 2.1)):
        for given in ((), tuple(torch.tensor(end, dtype=torch.float32) for end in ends)):
            model = Ranges(dtype, *ends)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                program = penlight.load(penlight.compile(model, (x, *given), target=target))
            torch.testing.assert_close(program(x, *given), model(x, *given), rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("dtype", [torch.int32, torch.uint8, torch.float16, torch.float64])
def test_attempts_up_to_a_success(dtype: torch.dtype) -> None:
    class Attempts(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x.clone().geometric_(0.3)

    x = torch.ones(4000, dtype=dtype)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = [penlight.load(penlight.compile(Attempts(), (x,), target=t))(x) for t in ("cpu", "portable")]
    for drawn in found:
        assert drawn.dtype == dtype and bool((drawn >= 1).all())
        assert abs(float(drawn.double().mean()) - 1 / 0.3) < 0.25


class Windows(torch.nn.Module):
    def __init__(self, dims: int) -> None:
        super().__init__()
        self.pool = getattr(torch.nn.functional, f"max_pool{dims}d")

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        some = self.pool(x, 4, ceil_mode=True), self.pool(x, 7, 5, 1, ceil_mode=True)
        return torch.cat([pooled.flatten() for pooled in some])


@pytest.mark.parametrize("target", ["cpu", "portable"])
@pytest.mark.parametrize("dims", [1, 2, 3])
def test_windows_larger_than_the_padded_input(dims: int, target: str) -> None:
    """With sizes rounded up there is one, cut at the end of the input."""
    x = torch.randn(2, 3, *[3] * dims)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        program = penlight.load(penlight.compile(Windows(dims), (x,), target=target))
    assert torch.equal(program(x), Windows(dims)(x))
