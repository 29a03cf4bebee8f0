"""Operators that exist only in Python: programs get what their implementation calls."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
import torch
from torch import Tensor

import penlight
from penlight.errors import NotSupported

library = torch.library.Library("pyonly_low", "FRAGMENT")


@pytest.fixture(scope="module", autouse=True)
def operators() -> Iterator[None]:
    @torch.library.custom_op("pyonly::scale", mutates_args=())
    def scale(x: Tensor, k: float = 2.0) -> Tensor:
        return x * k + x.sum()

    @scale.register_fake
    def _(x: Tensor, k: float = 2.0) -> Tensor:
        return torch.empty_like(x)

    @torch.library.custom_op("pyonly::accumulate", mutates_args=("state",))
    def accumulate(state: Tensor, x: Tensor) -> Tensor:
        state.add_(x)
        return state * 2

    @accumulate.register_fake
    def _(state: Tensor, x: Tensor) -> Tensor:
        return torch.empty_like(state)

    @torch.library.custom_op("pyonly::note", mutates_args=("state",))
    def note(state: Tensor, x: Tensor) -> None:
        state[0] = x.max()

    @torch.library.custom_op("pyonly::both", mutates_args=())
    def both(xs: list[Tensor], bias: Tensor | None, sizes: list[int]) -> tuple[Tensor, Tensor]:
        y = torch.cat(xs)
        return (y if bias is None else y + bias), y.clone().reshape(sizes)

    @both.register_fake
    def _(xs: list[Tensor], bias: Tensor | None, sizes: list[int]) -> tuple[Tensor, Tensor]:
        return torch.cat(xs), torch.cat(xs).reshape(sizes)

    @torch.library.custom_op("pyonly::nested", mutates_args=())
    def nested(x: Tensor) -> Tensor:
        y = torch.ops.pyonly.scale(x, 3.0)
        y.relu_()
        return y

    @nested.register_fake
    def _(x: Tensor) -> Tensor:
        return torch.empty_like(x)

    @torch.library.custom_op("pyonly::with_numpy", mutates_args=())
    def with_numpy(x: Tensor) -> Tensor:
        return torch.from_numpy(np.sin(x.numpy()))

    @with_numpy.register_fake
    def _(x: Tensor) -> Tensor:
        return torch.empty_like(x)

    @torch.library.custom_op("pyonly::branches", mutates_args=())
    def branches(x: Tensor) -> Tensor:
        return x * 2 if x.sum() > 0 else x - 1

    @branches.register_fake
    def _(x: Tensor) -> Tensor:
        return torch.empty_like(x)

    @torch.library.custom_op("pyonly::lies", mutates_args=())
    def lies(x: Tensor) -> Tensor:
        return torch.cat([x, x])

    @lies.register_fake
    def _(x: Tensor) -> Tensor:
        return torch.empty_like(x)

    library.define("twice(Tensor x) -> Tensor")
    library.impl("twice", lambda x: x + x, "CPU")
    library.impl("twice", torch.empty_like, "Meta")
    library.define("thrice(Tensor x) -> Tensor")
    library.impl("thrice", lambda x: x * 3, "CompositeExplicitAutograd")
    yield


def check(module: torch.nn.Module, *inputs: Tensor, calls: int = 1, **options: object) -> None:
    program = penlight.compile(module, inputs, **options)
    loaded = penlight.load(program.to_bytes())
    for _ in range(calls):
        want = module(*inputs)
        got = loaded(*inputs)
        torch.testing.assert_close(got, want)


class Call(torch.nn.Module):
    def __init__(self, function: object) -> None:
        super().__init__()
        self.function = function

    def forward(self, *xs: Tensor) -> object:
        return self.function(*xs)  # type: ignore[operator]


def test_custom_op_becomes_what_it_calls() -> None:
    check(Call(lambda x: torch.ops.pyonly.scale(x, 3.0) + 1), torch.randn(3, 4))


@pytest.mark.parametrize("target", ["cpu", "portable"])
def test_for_both_targets(target: str) -> None:
    check(Call(lambda x: torch.ops.pyonly.scale(x)), torch.randn(3, 4), target=target)


def test_lists_optionals_and_several_results() -> None:
    call = Call(lambda x, y: torch.ops.pyonly.both([x, y], None, [2, -1]))
    check(call, torch.randn(2, 3), torch.randn(4, 3))
    call = Call(lambda x, y: torch.ops.pyonly.both([x, y], y[0], [-1]))
    check(call, torch.randn(2, 3), torch.randn(4, 3))


def test_one_in_another_with_writes_inside() -> None:
    check(Call(lambda x: torch.ops.pyonly.nested(x)), torch.randn(5))


@pytest.mark.parametrize("name", ["twice", "thrice"])
def test_kernels_registered_with_torch_library(name: str) -> None:
    check(Call(lambda x: getattr(torch.ops.pyonly_low, name)(x) - 1), torch.randn(5))


def test_dynamic_shapes() -> None:
    model = Call(lambda x: torch.ops.pyonly.scale(x))
    dim = torch.export.Dim("n", max=16)
    program = penlight.compile(model, (torch.randn(3, 4),), dynamic_shapes=(({0: dim},),))
    loaded = penlight.load(program.to_bytes())
    for n in (1, 5, 16):
        x = torch.randn(n, 4)
        torch.testing.assert_close(loaded(x), model(x))


class State(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("total", torch.zeros(3))

    def forward(self, x: Tensor) -> Tensor:
        y = torch.ops.pyonly.accumulate(self.total, x)
        torch.ops.pyonly.note(self.total[1:], y)
        return y + self.total


def test_state_that_an_operator_changes() -> None:
    check(State(), torch.randn(3), calls=3)


def test_an_input_that_an_operator_changes() -> None:
    class Change(torch.nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return torch.ops.pyonly.accumulate(x, torch.ones(3))

    x = torch.randn(3)
    loaded = penlight.load(penlight.compile(Change(), (x.clone(),)).to_bytes())
    given, same = x.clone(), x.clone()
    torch.testing.assert_close(loaded(given), Change()(same))
    torch.testing.assert_close(given, same)


@pytest.mark.parametrize("name", ["with_numpy", "branches"])
def test_what_cannot_be_traced_is_named(name: str) -> None:
    model = Call(lambda x: getattr(torch.ops.pyonly, name)(x))
    with pytest.raises(NotSupported) as caught:
        penlight.compile(model, (torch.randn(3),))
    text = str(caught.value)
    assert f"pyonly::{name} has no kernel, and its Python implementation cannot be traced" in text
    assert "test_python_only.py:" in text and f"in {name}" in text
    assert "penlight.ops.load" in text


def test_a_fake_function_that_disagrees() -> None:
    with pytest.raises(NotSupported, match="fake function of pyonly::lies disagrees") as caught:
        penlight.compile(Call(lambda x: torch.ops.pyonly.lies(x)), (torch.randn(3),))
    assert "fake torch.float32 [3], implementation torch.float32 [6]" in str(caught.value)


WEIGHTS = torch.nn.Parameter(torch.randn(3))


def test_tensors_that_an_implementation_brings_along() -> None:
    @penlight.op("pyonly::brings")
    def brings(x: Tensor) -> Tensor:
        y = x * torch.tensor([1.0, 2.0, 3.0]) + torch.tensor(2.0)
        y += WEIGHTS
        return y * WEIGHTS.detach()

    model = Call(lambda x: torch.ops.pyonly.brings(x) + torch.ops.pyonly.brings(x + 1))
    with torch.no_grad():
        check(model, torch.randn(2, 3))


def test_an_implementation_that_reads_values() -> None:
    @penlight.op("pyonly::reads")
    def reads(x: Tensor) -> Tensor:
        return x * x.max().item()

    with pytest.raises(NotSupported, match="implementation of pyonly::reads reads values") as caught:
        penlight.compile(Call(lambda x: torch.ops.pyonly.reads(x)), (torch.randn(3),))
    assert "test_python_only.py" in str(caught.value) and "in reads" in str(caught.value)
