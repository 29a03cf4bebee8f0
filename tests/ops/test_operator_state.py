"""Operators that change their arguments."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

import penlight
from penlight.errors import NotSupported

ops = torch.ops.teststate


class Model(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("total", torch.zeros(4))
        self.register_buffer("last", torch.zeros(4))

    def forward(self, x: Tensor) -> Any:
        y = ops.accumulate(self.total, x, scale=3.0)
        low, high = ops.halves(y)
        ops.note(self.last[:2], low)
        return y, self.last + 1, high


class InPlace(Model):
    def forward(self, x: Tensor) -> Any:
        ops.accumulate(self.total, x)
        return ops.note_(self.total, 0.5) + 1, self.total * 2


def test_eager(state: Any) -> None:
    total, x = torch.zeros(3), torch.ones(3)
    assert ops.accumulate(total, x).tolist() == [2, 2, 2] and total.tolist() == [1, 1, 1]
    assert ops.note(total, x * 5) is None and total.tolist() == [5, 5, 5]
    assert ops.note_(total, 2.0) is total and total.tolist() == [10, 10, 10]
    column = torch.zeros(3, 2)
    ops.accumulate(column[:, 1], x)
    assert column.tolist() == [[0, 1]] * 3
    out = torch.empty(3)
    assert ops.accumulate.out(total, x, out=out) is out and out.tolist() == [22, 22, 22]


@pytest.mark.parametrize("kind", [Model, InPlace])
@pytest.mark.parametrize("target", ["cpu", "portable"])
def test_state_of_a_program(state: Any, kind: type[Model], target: str) -> None:
    model, x = kind(), torch.randn(4)
    loaded = penlight.load(penlight.compile(model, (x,), target=target).to_bytes())
    for _ in range(3):
        x = torch.randn(4)
        for got, want in zip(loaded(x), model(x), strict=True):
            assert torch.equal(got, want)
    for name, buffer in model.named_buffers():
        if name in loaded.state:
            assert torch.equal(torch.from_numpy(loaded.state[name].copy()), buffer)
    assert "total" in loaded.state


def test_an_input_that_is_changed(state: Any) -> None:
    class Change(torch.nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return ops.accumulate(x, torch.ones(3))

    x = torch.randn(3)
    loaded = penlight.load(penlight.compile(Change(), (x.clone(),)).to_bytes())
    given, same = x.clone(), x.clone()
    assert torch.equal(loaded(given), Change()(same)) and torch.equal(given, same)


def test_an_activation_that_is_changed(state: Any) -> None:
    class Change(torch.nn.Module):
        def forward(self, x: Tensor) -> Any:
            y = x * 2
            before = y + 1
            ops.note(y[1:], x[1:])
            return before, y, y.sum()

    x = torch.randn(3)
    loaded = penlight.load(penlight.compile(Change(), (x,)).to_bytes())
    for got, want in zip(loaded(x), Change()(x), strict=True):
        assert torch.equal(got, want)


def test_torch_compile(state: Any) -> None:
    model, same = Model(), Model()
    compiled = torch.compile(model, fullgraph=True)
    for _ in range(2):
        x = torch.randn(4)
        for got, want in zip(compiled(x), same(x), strict=True):
            assert torch.equal(got, want)


def test_no_gradient_passes(state: Any) -> None:
    x = torch.ones(4, requires_grad=True)
    y = ops.accumulate(torch.zeros(4), x)
    with pytest.raises(NotSupported, match="teststate::accumulate has no gradient"):
        y.sum().backward()
    with pytest.raises(NotSupported, match="changes a tensor that requires a gradient"):
        ops.accumulate(x, torch.ones(4))


def test_a_model_that_torch_has_to_trace_again(state: Any) -> None:
    """Batch norm in training writes statistics without saying so: the whole model goes to torch."""

    class Both(Model):
        def __init__(self) -> None:
            super().__init__()
            self.norm = torch.nn.BatchNorm1d(4)

        def forward(self, x: Tensor) -> Any:
            y = ops.accumulate(self.total, x[0])
            ops.note(self.last[:2], x[0, :2])
            return self.norm(x) + y, self.last + 1

    model, x = Both().train(), torch.randn(3, 4)
    with pytest.warns(UserWarning, match="training mode"):
        loaded = penlight.load(penlight.compile(model, (x,)).to_bytes())
    for _ in range(2):
        for got, want in zip(loaded(x), model(x), strict=True):
            torch.testing.assert_close(got, want.detach())


def test_state_is_changed_where_it_is(state: Any) -> None:
    class Steps(Model):
        def forward(self, x: Tensor) -> Any:
            y = ops.accumulate(self.total, x)
            ops.note_(self.total, 0.5)
            return y, ops.accumulate(self.total, y, scale=1.0)

    class KeepsTheOld(Model):
        def forward(self, x: Tensor) -> Any:
            before = self.total + 1
            y = ops.accumulate(self.total, self.total * 1 + x)
            return y, before

    x = torch.randn(4)
    for kind in (Steps, KeepsTheOld):
        model = kind()
        plan = penlight.plan_memory(penlight.to_edge(penlight.export(model, (x,))))
        calls = [call.op for call in plan.plans[0].calls()]
        assert not {"aten::clone.out", "aten::copy_"} & set(calls), calls
        loaded = penlight.load(penlight.compile(model, (x,)).to_bytes())
        for _ in range(3):
            x = torch.randn(4)
            for got, want in zip(loaded(x), model(x), strict=True):
                assert torch.equal(got, want)


def test_state_that_is_read_after_it_was_changed_elsewhere(state: Any) -> None:
    class Both(Model):
        def forward(self, x: Tensor) -> Any:
            old = self.total
            y = ops.accumulate(self.total, x)
            return y, old * 3, ops.accumulate(self.last, self.last)

    model, x = Both(), torch.randn(4)
    model.last.fill_(1.5)
    loaded = penlight.load(penlight.compile(model, (x,)).to_bytes())
    for _ in range(3):
        x = torch.randn(4)
        for got, want in zip(loaded(x), model(x), strict=True):
            assert torch.equal(got, want)
