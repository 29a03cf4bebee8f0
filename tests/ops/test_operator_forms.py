"""Operators without tensors to take, with tensors by keyword, told of by Python, mapped over by vmap."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

import penlight
from penlight.errors import InvalidInput, InvalidOperator, NotSupported

KERNELS = Path(__file__).parent / "kernels"


@pytest.fixture(scope="module")
def forms() -> Any:
    penlight.ops.load(KERNELS / "forms.cpp")
    return torch.ops.testforms


class Ramps(torch.nn.Module):
    def forward(self, x: Tensor) -> tuple[Tensor, ...]:
        op = torch.ops.testforms
        return op.ramp(x.shape[0], 2.0) + x, op.count([None, None]), op.count([x, None], x)


def test_no_tensor_among_the_arguments(forms: Any) -> None:
    assert forms.ramp(4, 0.5).tolist() == [0, 0.5, 1, 1.5]
    assert forms.ramp(0).shape == (0,)
    assert forms.ramp(3, step=2.0).tolist() == [0, 2, 4]
    assert forms.ramp.out(2, out=torch.empty(0)).tolist() == [0, 1]
    assert [forms.count([]), forms.count([None]), forms.count([], torch.ones(1))] == [0, 0, 100]
    with torch.inference_mode():
        assert forms.ramp(2).tolist() == [0, 1]
    assert torch.func.vmap(lambda x: x + forms.ramp(3))(torch.zeros(2, 3)).tolist() == [[0, 1, 2]] * 2
    x = torch.ones(3)
    want = Ramps()(x)
    rows = {"x": {0: torch.export.Dim("n", max=8)}}
    loaded = penlight.load(penlight.compile(Ramps(), (x,), dynamic_shapes=rows).to_bytes())
    compiled = torch.compile(Ramps(), backend="aot_eager", fullgraph=True)
    for results in (loaded(x), compiled(x)):
        assert all(torch.equal(a, b) for a, b in zip(results, want, strict=True))
    assert loaded(torch.zeros(5))[0].tolist() == [0, 2, 4, 6, 8]


def test_a_list_that_is_empty(forms: Any) -> None:
    with pytest.raises(
        InvalidInput, match=r"testforms::total cannot tell its results' size 's'[^$]*xs is empty"
    ):
        forms.total([])


def test_a_tensor_by_keyword(forms: Any) -> None:
    x, shift = torch.randn(2, 3), torch.randn(2, 3)
    for op in (forms.shifted, forms.by_function):
        torch.testing.assert_close(op(x, shift=shift), x * 2 + shift)
        torch.testing.assert_close(op(x, 3.0), x * 3)
        rows = torch.func.vmap(lambda x, shift, op=op: op(x, 3.0, shift=shift))(x, shift)
        torch.testing.assert_close(rows, x * 3 + shift)
        one = torch.func.vmap(lambda x, op=op: op(x, shift=shift[0]))(x)
        torch.testing.assert_close(one, x * 2 + shift[0])


@pytest.mark.parametrize("name", ["shifted", "by_function"])
def test_its_gradient(forms: Any, name: str) -> None:
    op = getattr(forms, name)
    for given in ({}, {"k": 3.0}):
        k = given.get("k", 2.0)
        x, shift = torch.randn(3, requires_grad=True), torch.randn(3, requires_grad=True)
        op(x, shift=shift, **given).sum().backward()
        assert x.grad is not None and x.grad.eq(k).all() and shift.grad is not None and shift.grad.eq(1).all()
        assert torch.func.grad(lambda s, op=op, g=given: op(torch.ones(3), shift=s, **g).sum())(x).eq(1).all()
        assert torch.func.grad(lambda x, op=op, g=given: op(x, **g).sum())(x.detach()).eq(k).all()
    alone = torch.randn(3, requires_grad=True)
    op(torch.ones(3), shift=alone).sum().backward()
    assert alone.grad is not None and alone.grad.eq(1).all()
    compiled = torch.compile(lambda x, s: op(x, shift=s).sum(), backend="aot_eager", fullgraph=True)
    again = torch.randn(3, requires_grad=True)
    compiled(torch.ones(3), again).backward()
    assert again.grad is not None and again.grad.eq(1).all()


def test_a_formula_that_forgets_it(forms: Any) -> None:
    x = torch.randn(3, requires_grad=True)
    forms.half_shifted(x).sum().backward()
    assert x.grad is not None and x.grad.eq(2).all()
    with pytest.raises(
        NotSupported, match="formula of testforms::half_shifted gives no gradient for 'shift'"
    ):
        forms.half_shifted(x, shift=torch.ones(3, requires_grad=True)).sum().backward()


def test_a_function_within_transforms(forms: Any) -> None:
    x = torch.randn(3)
    torch.testing.assert_close(torch.func.jacrev(lambda x: forms.by_function(x, 3.0))(x), torch.eye(3) * 3)
    torch.testing.assert_close(torch.func.jacfwd(lambda x: forms.by_function(x, 3.0))(x), torch.eye(3) * 3)
    per_row = torch.func.vmap(torch.func.grad(lambda x: forms.by_function(x, 3.0)))(x)
    assert per_row.eq(3).all()


def test_a_dtype_that_a_fake_function_tells(forms: Any) -> None:
    x = torch.arange(7.0)
    for dtype in (torch.int32, torch.float64, torch.float32):
        got = forms.every(x, 3, dtype=dtype)
        assert got.dtype == dtype and got.tolist() == [0, 3, 6]
    assert forms.every.out(x, 3, dtype=torch.int64, out=torch.empty(0, dtype=torch.int64)).tolist() == [
        0,
        3,
        6,
    ]

    class Model(torch.nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return torch.ops.testforms.every(x, 3, dtype=torch.int16)

    got = penlight.load(penlight.compile(Model(), (x,)).to_bytes())(x)
    assert got.dtype == torch.int16 and got.tolist() == [0, 3, 6]
    before = penlight.op("testforms::every").fake_function
    assert before is not None
    try:
        penlight.op("testforms::every").fake(lambda x, step, *, dtype: x.new_empty(9, dtype=dtype))
        with pytest.raises(InvalidOperator, match=r"fake function of testforms::every[^$]*\[9\][^$]*\[3\]"):
            torch.ops.testforms.every(x, 3, dtype=torch.int32)
    finally:
        penlight.op("testforms::every").fake(before)


def test_vmap_over_state(forms: Any) -> None:
    state, x = torch.zeros(2, 3), torch.ones(2, 3)
    was = torch.func.vmap(forms.swap)(state, x)
    assert was.eq(0).all() and state.eq(1).all()
    turned = torch.zeros(3, 2)
    torch.func.vmap(forms.swap, in_dims=(1, 0))(turned, x)
    assert turned.eq(1).all()
    torch.func.vmap(lambda s: (forms.drop_(s), s)[1])(state)
    assert state.eq(0).all()
    with pytest.raises(NotSupported, match="changes 'state', of which vmap has one for all rows"):
        torch.func.vmap(forms.swap, in_dims=(None, 0))(torch.zeros(3), x)
