"""Arguments that are no tensors, methods besides forward, weights in a file of their own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tests.pipeline.running import check, compare
from torch import nn
from torch.export import Dim

import penlight
from penlight.errors import InvalidInput, UnboundedShape

X = torch.randn(2, 4)


def run(model: nn.Module, args: tuple[Any, ...], **options: Any) -> Any:
    return penlight.load(penlight.compile(model.eval(), args, **options).to_bytes())


class Repeat(nn.Module):
    def forward(self, x: torch.Tensor, n: int) -> torch.Tensor:
        return x * n + torch.arange(n).sum()


@pytest.mark.parametrize("request_", [Dim("n", max=9), Dim.AUTO(max=9), Dim.DYNAMIC(max=9)])
@pytest.mark.parametrize("by_name", [False, True])
def test_dynamic_number(request_: Any, by_name: bool) -> None:
    shapes: Any = {"x": None, "n": request_} if by_name else (None, request_)
    model = run(Repeat(), (X, 3), dynamic_shapes=shapes)
    for n in (3, 5, 9):
        compare(model(X, n), Repeat()(X, n))


def test_dynamic_number_without_bound() -> None:
    with pytest.raises(UnboundedShape, match="int input 'n' is part of a size") as raised:
        run(Repeat(), (X, 3), dynamic_shapes=(None, Dim.AUTO))
    assert '{"n": torch.export.Dim.AUTO(max=...)}' in (raised.value.do or "")


class Options(nn.Module):
    def forward(
        self, x: torch.Tensor, n: int, f: float, flag: bool, mode: str, none: Any = None
    ) -> torch.Tensor:
        return (x * f if mode == "times" else x / f) + n if flag and none is None else x


def test_static_arguments_are_checked() -> None:
    args = (X, 2, 0.5, True, "times", None)
    model = run(Options(), args)
    compare(model(*args), Options()(*args))
    others = [
        (1, 3, "input n was 2 when the model was exported"),
        (2, 0.25, "input f was 0.5 when the model was exported"),
        (3, False, "input flag was True when the model was exported"),
        (4, "over", "input mode should be 'times', which the program was compiled for"),
        (5, X, "input none should be None"),
    ]
    for place, other, message in others:
        with pytest.raises(InvalidInput, match=message):
            model(*args[:place], other, *args[place + 1 :])
    with pytest.raises(InvalidInput) as raised:
        model(X, 3, *args[2:])
    assert raised.value.got == "3"
    assert 'dynamic_shapes={"n": torch.export.Dim.AUTO(max=...)}' in str(raised.value.do)


class Coder(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.linear(x)

    def encode(self, x: torch.Tensor, *, scale: float = 2.0) -> torch.Tensor:
        return self.forward(x) * scale

    def twice(self, x: torch.Tensor) -> torch.Tensor:
        return self(self(x))


def test_methods_that_call_forward() -> None:
    model = Coder().eval()
    methods = {
        "forward": (model, (X,)),
        "encode": (model.encode, (X,), {"scale": 3.0}),
        "twice": (model.twice, (X,)),
    }
    program = penlight.compile(methods)
    assert "forward" not in vars(model)
    alone = penlight.compile(model, (X,))
    assert len(program.contents.constants) == len(alone.contents.constants), "weights are shared"
    loaded = penlight.load(program.to_bytes())
    compare(loaded["forward"](X), model(X))
    compare(loaded["encode"](X, scale=3.0), model.encode(X, scale=3.0))
    compare(loaded["twice"](X), model.twice(X))


class Count(nn.Module):
    def __init__(self, bounded: bool) -> None:
        super().__init__()
        self.bounded = bounded

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        n = x.sum().item()
        if self.bounded:
            torch._check(n >= 0)
            torch._check(n <= 20)
        return torch.arange(n) * 2


def test_size_that_is_a_value() -> None:
    check(Count(True), (torch.tensor([2, 3]),), (torch.tensor([20, 0]),), (torch.tensor([0, 0]),))
    with pytest.raises(UnboundedShape, match="dimension 0 of a result depends on values") as raised:
        penlight.compile(Count(False), (torch.tensor([2, 3]),), target="portable")
    assert "torch._check(n <= 512)" in (raised.value.do or "")
    assert "comes from, node item, from test_arguments.py" in (raised.value.do or "")
    assert "test_arguments.py" in (raised.value.where or "")


class Grows(nn.Module):
    def forward(self, x: torch.Tensor, past: torch.Tensor) -> torch.Tensor:
        n = past.item()
        return x.sum() + torch.ones(2, n + x.shape[1]).cumsum(1)[:, -1]


def test_size_with_a_value_in_it() -> None:
    with pytest.raises(UnboundedShape, match="dimension 1 of a result depends on values") as raised:
        penlight.compile(Grows(), (torch.ones(2, 5), torch.tensor(3)))
    assert "comes from, node item, from test_arguments.py" in (raised.value.do or "")


@pytest.mark.parametrize("which", [True, lambda name: name.startswith("0")])
def test_external_weights(which: Any, tmp_path: Path) -> None:
    model = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.Flatten(), nn.Linear(16, 5)).eval()
    x = torch.randn(2, 3, 4, 4)
    program = penlight.compile(model, (x,), external=which)
    program.save(tmp_path / "model.pte")
    assert (len(program.contents.constants) > 1) == (which is not True), "what is not outside is inside"
    with pytest.raises(InvalidInput, match="external data; none was given"):
        penlight.load(tmp_path / "model.pte")(x)
    loaded = penlight.load(tmp_path / "model.pte", data=tmp_path / "model.ptd")
    np.testing.assert_allclose(loaded(x.numpy()), model(x).detach().numpy(), atol=1e-5)


class Nothing(nn.Module):
    def forward(self, x: torch.Tensor, e: torch.Tensor) -> Any:
        return (
            torch.cat([e, e], 1),
            e + 1,
            torch.cat([x, x[:0]]),
            (e @ e.T.new_ones(4, 2)),
            x[2:].sum(0),
            e.sum(),
        )


def test_results_without_elements() -> None:
    for target in ("cpu", "portable"):
        edge = penlight.to_edge(penlight.export(Nothing(), (X, torch.zeros(0, 4))), target=target)
        called = [str(n.target) for n in edge.methods["forward"].graph.nodes if n.op == "call_function"]
        assert not [name for name in called if "cat" in name or "mm" in name], called
    check(Nothing(), (X, torch.zeros(0, 4)))


class Branch(nn.Module):
    def forward(self, x: torch.Tensor, n: int) -> torch.Tensor:
        if x.shape[0] > 4 and n > 2:
            return x * n
        return x - n


def test_sizes_that_take_another_branch() -> None:
    shapes = ({0: Dim.AUTO(max=9)}, Dim.AUTO(max=8))
    model = run(Branch(), (torch.randn(6, 2), 4), dynamic_shapes=shapes)
    x = torch.randn(5, 2)
    compare(model(x, 3), x * 3)
    with pytest.raises(InvalidInput, match="input x is too small in dimension 0: 4, at least 5 is needed"):
        model(x[:4], 3)
    for n in (2, 9):
        with pytest.raises(InvalidInput, match=f"input n is {n}, from 3 to 8 is possible"):
            model(x, n)


def test_derived_sizes_are_checked() -> None:
    half = Dim("half", min=1, max=8)
    model = run(nn.MaxPool2d(2), (torch.randn(1, 2, 6, 4),), dynamic_shapes=({2: 2 * half},))
    compare(model(torch.ones(1, 2, 10, 4)), torch.ones(1, 2, 5, 2))
    with pytest.raises(InvalidInput, match="has size 7 in dimension 2, a multiple of 2 is needed"):
        model(torch.ones(1, 2, 7, 4))


class Builtin(nn.Module):
    """torch's own layers call their argument `input`, which is a name of Python's too."""

    def forward(self, input: torch.Tensor, id: torch.Tensor) -> torch.Tensor:
        return input - id


def test_arguments_keep_their_names() -> None:
    model = run(Builtin(), (X, X + 1))
    compare(model(input=X, id=X + 1), torch.full_like(X, -1))
    compare(model(X, id=X), torch.zeros_like(X))
    with pytest.raises(InvalidInput, match="input id has another dtype"):
        model(X, X.double())
    with pytest.raises(InvalidInput, match="input input is on the meta device"):
        model(X.to("meta"), X)


class Sum(nn.Module):
    def forward(self, x: torch.Tensor, y: torch.Tensor, n: int) -> torch.Tensor:
        return x + y[: x.shape[0]] * n


def test_inputs_that_share_a_dimension() -> None:
    rows = Dim("rows", min=1, max=8)
    shapes = ({0: rows}, {0: 2 * rows + 1}, None)
    model = run(Sum(), (torch.randn(3, 2), torch.randn(7, 2), 4), dynamic_shapes=shapes)
    x, y = torch.randn(5, 2), torch.randn(11, 2)
    compare(model(x, y, 4), x + y[:5] * 4)
    wanted = "input y has size 9 in dimension 0, 11 is needed: input x has 5 in dimension 0"
    with pytest.raises(InvalidInput, match=wanted):
        model(x, y[:9], 4)
    with pytest.raises(
        InvalidInput, match="input y has size 10 in dimension 0, a multiple of 2 plus 1 is needed"
    ):
        model(x, y[:10], 4)
    compare(model(x[:1], y[:3], 4), x[:1] + y[:1] * 4)


def test_two_dimensions_that_are_one() -> None:
    model = run(Square(), (torch.randn(3, 3),), dynamic_shapes=({0: Dim.AUTO(max=6), 1: Dim.AUTO(max=6)},))
    compare(model(torch.ones(5, 5)), torch.full((5, 5), 2.0))
    with pytest.raises(
        InvalidInput, match="input x has size 4 in dimension 1, 5 is needed: input x has 5 in dim"
    ):
        model(torch.ones(5, 4))


class Square(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + x.t()
