"""Rotary embeddings written by hand become one operator, and are what eager gives."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.export import Dim
from torch.nn import functional

import penlight

HEADS, WIDTH = 4, 12


def half_turned(x: Tensor, how: str) -> Tensor:
    half = x.shape[-1] // 2
    if how == "slices":
        low, high = x[..., :half], x[..., half:]
    elif how == "chunk":
        low, high = x.chunk(2, dim=-1)
    else:
        low, high = x.split([half, half], -1)
    return torch.cat((-high, low), dim=-1)


class Attention(nn.Module):
    """Queries and keys turned, as models of the Llama family have it."""

    def __init__(self, how: str = "slices", swapped: bool = False) -> None:
        super().__init__()
        self.all, self.how, self.swapped = nn.Linear(HEADS * WIDTH, 3 * HEADS * WIDTH), how, swapped

    def turn(self, x: Tensor, cosine: Tensor, sine: Tensor) -> Tensor:
        if self.swapped:
            return sine * half_turned(x, self.how) + cosine * x
        return x * cosine + half_turned(x, self.how) * sine

    def forward(self, x: Tensor, cosine: Tensor, sine: Tensor) -> Tensor:
        q, k, v = (part.unflatten(-1, (HEADS, WIDTH)).transpose(1, 2) for part in self.all(x).chunk(3, -1))
        q, k = self.turn(q, cosine, sine), self.turn(k, cosine, sine)
        y = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        return y.transpose(1, 2).flatten(2).exp()


def operators(program: penlight.Program) -> list[str]:
    return [name.split("::")[1] for name in penlight.load(program.to_bytes())["forward"].instruction_names()]


def compare(model: nn.Module, *args: Tensor) -> None:
    model.eval()
    program = penlight.compile(model, args)
    names = operators(program)
    assert names.count("rotary.out") == 2 and names.count("attention_in_rows.out") == 1, names
    assert not [name for name in names if "copy" in name or "cat" in name], names
    with torch.no_grad():
        torch.testing.assert_close(
            penlight.load(program.to_bytes())(*args), model(*args), rtol=2e-5, atol=2e-5, equal_nan=True
        )


def angles(*shape: int) -> tuple[Tensor, Tensor]:
    turned = torch.randn(*shape, WIDTH)
    return turned.cos(), turned.sin()


@pytest.mark.parametrize("how", ["slices", "chunk", "split"])
@pytest.mark.parametrize("swapped", [False, True])
def test_ways_to_write_it(how: str, swapped: bool) -> None:
    compare(Attention(how, swapped), torch.randn(2, 7, HEADS * WIDTH), *angles(7))


@pytest.mark.parametrize("shape", [(7,), (1, 7), (1, 1, 7), (2, 1, 7), (1,)])
def test_angles_broadcast(shape: tuple[int, ...]) -> None:
    compare(Attention(), torch.randn(2, 7, HEADS * WIDTH), *angles(*shape))


class Turned(nn.Module):
    """Nothing but that, of heads with or without rows of their own."""

    def __init__(self, in_rows: bool) -> None:
        super().__init__()
        self.in_rows = in_rows

    def forward(self, x: Tensor, cosine: Tensor, sine: Tensor) -> Tensor:
        x = x.unflatten(-1, (HEADS, WIDTH)).transpose(1, 2) if self.in_rows else x
        return x * cosine + half_turned(x, "slices") * sine


@pytest.mark.parametrize("length", [1, 2, 33])
@pytest.mark.parametrize("value", [float("nan"), float("inf"), 3e38])
@pytest.mark.parametrize("in_rows", [False, True])
def test_lengths_and_extremes(length: int, value: float, in_rows: bool) -> None:
    x = torch.randn(2, length, HEADS * WIDTH) if in_rows else torch.randn(2, HEADS, length, WIDTH)
    args = (x, *angles(length))
    program = penlight.compile(Turned(in_rows), args)
    assert operators(program).count("rotary.out") == 1
    run = penlight.load(program.to_bytes())
    torch.testing.assert_close(run(*args), Turned(in_rows)(*args), rtol=1e-5, atol=1e-6)
    args[1][length // 2, 1], args[2][0, 7], x[1, 0, 0] = value, -value, value
    got, want = run(*args), Turned(in_rows)(*args)
    torch.testing.assert_close(got, want, rtol=1e-5, atol=1e-6, equal_nan=True)
    assert not want.isfinite().all()


def test_dynamic() -> None:
    model, length = Attention().eval(), Dim("length", min=2, max=40)
    args = (torch.randn(1, 9, HEADS * WIDTH), *angles(9))
    shapes: Any = {"x": {1: length}, "cosine": {0: length}, "sine": {0: length}}
    program = penlight.compile(model, args, dynamic_shapes=shapes)
    names = operators(program)
    assert names.count("rotary.out") == 2
    assert not [name for name in names if "permute" in name or "cat" in name], names
    run = penlight.load(program.to_bytes())
    for count in (40, 2, 17):
        args = (torch.randn(1, count, HEADS * WIDTH), *angles(count))
        with torch.no_grad():
            torch.testing.assert_close(run(*args), model(*args), rtol=2e-5, atol=2e-5)


class Partly(nn.Module):
    """Only the first columns of a head are turned."""

    def forward(self, x: Tensor, cosine: Tensor, sine: Tensor) -> Tensor:
        turned, kept = x[..., :8], x[..., 8:]
        turned = turned * cosine + half_turned(turned, "slices") * sine
        return torch.cat([turned, kept], -1)


def test_part_of_a_head() -> None:
    x, turned = torch.randn(2, HEADS, 5, WIDTH), torch.randn(5, 8)
    args = (x, turned.cos(), turned.sin())
    program = penlight.compile(Partly(), args)
    assert operators(program).count("rotary.out") == 1
    torch.testing.assert_close(penlight.load(program.to_bytes())(*args), Partly()(*args))


@pytest.mark.parametrize(("sign", "first"), [(1, "high"), (-1, "low")])
def test_other_turns_stay(sign: int, first: str) -> None:
    """What only looks like it, without the minus or with the halves in place, is computed as written."""

    class Other(nn.Module):
        def forward(self, x: Tensor, cosine: Tensor, sine: Tensor) -> Tensor:
            low, high = x.chunk(2, -1)
            parts = (high, low) if first == "high" else (-low, high)
            return x * cosine + torch.cat(parts, -1) * sine

    args = (torch.randn(1, HEADS, 5, WIDTH), *angles(5))
    program = penlight.compile(Other(), args)
    assert "rotary.out" not in operators(program)
    torch.testing.assert_close(penlight.load(program.to_bytes())(*args), Other()(*args))


def test_angles_of_heads_are_left() -> None:
    class Heads(nn.Module):
        def forward(self, x: Tensor, cosine: Tensor, sine: Tensor) -> Tensor:
            return x * cosine + half_turned(x, "slices") * sine

    report = penlight.compile(Heads(), (torch.randn(1, HEADS, 5, WIDTH), *angles(HEADS, 5))).report
    assert report is not None
    assert [one.reason for one in report.left if one.stage == "fuse rotary"] == ["its angles are not of rows"]
