"""Gradients that a PENLIGHT_LIBRARY line names: forward, backward and their connection in one C++ file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from test_operator_load import SCALE, written
from torch import Tensor

import penlight
from penlight.errors import InvalidOperator, NotSupported
from penlight.ops.checks import check

KERNELS = Path(__file__).parent / "kernels"


@pytest.fixture(scope="module")
def grads() -> Any:
    penlight.ops.load(KERNELS / "gradients.cpp")
    return torch.ops.testgrads


def bump(x: Tensor, sharpness: float = 1.0) -> Tensor:
    return x / (1 + sharpness * x * x)


def test_one_operator(grads: Any) -> None:
    x = torch.randn(2, 3, dtype=torch.float64, requires_grad=True)
    torch.autograd.gradcheck(lambda x: grads.bump(x, 2.0), [x])
    grads.bump(x).sum().backward()
    (want,) = torch.autograd.grad(bump(x).sum(), x)
    torch.testing.assert_close(x.grad, want)
    with pytest.raises(NotSupported, match="testgrads::bump_backward has no gradient"):
        (once,) = torch.autograd.grad(grads.bump(x).sum(), x, create_graph=True)
        once.sum().backward()


def test_one_for_each_argument_and_torchs_own(grads: Any) -> None:
    a, b = (torch.randn(4, dtype=torch.float64, requires_grad=True) for _ in range(2))
    torch.autograd.gradcheck(grads.meet, [a, b])
    torch.autograd.gradcheck(lambda b: grads.meet(a.detach(), b), [b])
    torch.autograd.gradcheck(lambda a: grads.meet(a, b)[1], [a])
    torch.autograd.gradcheck(grads.negative, [a])
    torch.autograd.gradgradcheck(grads.negative, [a])


def test_transforms_and_compiled(grads: Any) -> None:
    x = torch.randn(3, 4)
    want = torch.func.vmap(torch.func.grad(lambda x: bump(x, 0.5).sum()))(x)
    torch.testing.assert_close(torch.func.vmap(torch.func.grad(lambda x: grads.bump(x, 0.5).sum()))(x), want)
    for backend in ("aot_eager", "inductor"):
        y = x.clone().requires_grad_()
        torch.compile(lambda x: grads.bump(x, 0.5) * 2, backend=backend, fullgraph=True)(y).sum().backward()
        assert y.grad is not None
        torch.testing.assert_close(y.grad, want * 2)


def test_checks_know_of_it(grads: Any) -> None:
    library = penlight.ops.load(KERNELS / "gradients.cpp")
    found = {(c.operator, c.name): c for c in check(library)}
    assert all(c.passed is not False for c in found.values()), [c for c in found.values() if not c.passed]
    for name in ("bump", "meet", "negative"):
        assert found[f"testgrads::{name}", "gradients"].detail == "gradcheck in float64"


def test_what_python_says_counts_more(tmp_path: Path) -> None:
    line = (
        'PENLIGHT_LIBRARY(gradtwice, "scale(Tensor x, float k) -> Tensor", scale_out,'
        ' shapes("[...] -> [...]"), backward("scale(grad, k) -> x"))'
    )
    source = written(tmp_path, "twice.cpp", line)
    penlight.ops.load(source)
    x = torch.ones(2, requires_grad=True)
    torch.ops.gradtwice.scale(x, 3.0).sum().backward()
    assert x.grad is not None and x.grad.tolist() == [3, 3]
    penlight.op("gradtwice::scale").backward(lambda ctx, grad: (grad * 100, None))
    x.grad = None
    torch.ops.gradtwice.scale(x, 3.0).sum().backward()
    assert x.grad is not None and x.grad.tolist() == [100, 100]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "it names no operator"),
        ("scale(grad, k)", r"'scale\(grad, k\)' cannot be read"),
        ("scale(grad, k) -> k", "'k' is none of its tensors"),
        ("scale(grad, j) -> x", "nothing is called 'j'"),
        ("scale(grad, 1 +) -> x", r"'1 \+' is neither a name nor a constant"),
        ("scale(grad, k) -> x; scale(x, k) -> x", "it gives 'x' two gradients"),
        ("nowhere(grad, k) -> x", "there is no operator gradwrong{}::nowhere"),
    ],
)
def test_what_is_wrong_with_it(text: str, message: str, tmp_path: Path) -> None:
    number = sum(map(ord, text))  # a library of its own: the last one is complete but for its gradients
    line = (
        f'PENLIGHT_LIBRARY(gradwrong{number}, "scale(Tensor x, float k) -> Tensor", scale_out,'
        f' shapes("[...] -> [...]"), backward("{text}"))'
    )
    with pytest.raises(InvalidOperator, match=message.format(number)) as caught:
        penlight.ops.load(written(tmp_path, "wrong.cpp", line))
    assert f'backward("{text}")' in str(caught.value) and "wrong.cpp:" in str(caught.value)
    assert not hasattr(torch.ops, f"gradwrong{number}") or not hasattr(
        getattr(torch.ops, f"gradwrong{number}"), "scale"
    )


def test_operators_of_other_numbers_of_results(tmp_path: Path) -> None:
    line = (
        'PENLIGHT_LIBRARY(gradcount, "scale(Tensor x, float k) -> Tensor", scale_out,'
        ' shapes("[...] -> [...]"), backward("aten::aminmax(grad) -> x"))'
    )
    penlight.ops.load(written(tmp_path, "count.cpp", line, body=SCALE))
    x = torch.ones(2, requires_grad=True)
    with pytest.raises(InvalidOperator, match="aten::aminmax gives 2 results for 1 arguments"):
        torch.ops.gradcount.scale(x, 3.0).sum().backward()
