"""What a loaded program gives back."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import penlight

X = np.ones((2, 4), np.float32)


class Twice(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + x


def test_outputs_have_the_kind_of_the_inputs(load: Any) -> None:
    model = load("linear")
    assert type(model(X)) is np.ndarray
    assert type(model(torch.from_numpy(X))) is torch.Tensor
    got = load("bfloat16")(torch.ones(2, 3, dtype=torch.bfloat16))
    assert got.dtype is torch.bfloat16


def test_outputs_are_the_callers(load: Any) -> None:
    model = load("linear")
    first = model(X)
    kept = first.copy()
    model(X * 2)
    np.testing.assert_array_equal(first, kept)
    first[...] = 7
    np.testing.assert_array_equal(model(X), kept)


@pytest.mark.parametrize("kind", [np.asarray, torch.from_numpy])
def test_memory_of_large_outputs_is_used_again(kind: Callable[[Any], Any]) -> None:
    """When nothing looks at it any more: not before, whatever it was that did, the program gone too."""

    def address(x: Any) -> int:
        return int(x.data_ptr() if isinstance(x, torch.Tensor) else x.ctypes.data)

    x = np.random.default_rng().standard_normal((300, 300)).astype(np.float32)
    model = penlight.load(penlight.compile(Twice(), (torch.from_numpy(x),)))
    first, second = model(kind(x)), model(kind(x + 1))
    view = first[3:5, ::2].T
    known, held, other = view[0, 0].item(), address(first), address(second)
    assert held != other and held % 64 == other % 64 == 0
    del first, second
    for i in range(5):
        now = model(kind(x * i))
        assert address(now) != held and view[0, 0].item() == known
        other = address(now) if i == 0 else other
    assert address(now) == other
    np.testing.assert_array_equal(now, 8 * x)
    del model
    now += 1
    assert view[0, 0].item() == known and np.isfinite(np.asarray(now)).all()


def test_large_outputs_of_other_sizes() -> None:
    length = torch.export.Dim("length", min=2, max=400)
    x = torch.randn(400, 300)
    model = penlight.load(penlight.compile(Twice(), (x,), dynamic_shapes=({0: length},)))
    for count in (400, 250, 399, 2, 300, 400, 230):
        got = model(x[:count])
        assert torch.equal(got, 2 * x[:count])


def test_views_on_request(load: Any) -> None:
    model = load("linear", copy=False)
    first = model(X)
    kept = first.copy()
    second = model(X * 2)
    assert np.shares_memory(first, second)
    assert not np.array_equal(first, kept)
    del model
    assert np.isfinite(second).all()  # the program lives as long as its views


def test_one_thousand_calls_give_the_same(load: Any) -> None:
    model = load("linear")
    want = model(X)
    assert all(np.array_equal(model(X), want) for _ in range(1000))


def test_channels_last_outputs_have_logical_shapes(load: Any) -> None:
    got = load("convolution")(np.ones((1, 3, 5, 6), np.float32))
    assert got.shape == (1, 4, 5, 6)
    assert got.flags.c_contiguous


def test_without_torch(program_path: Callable[[str], Path]) -> None:
    """Loading and running a program imports neither torch nor the compiler."""
    code = f"""
import sys
import numpy as np
import penlight
model = penlight.load({str(program_path("containers"))!r})
got = model(np.ones((2, 3), "f4"), (np.ones(2, "f4"), np.ones(2, "f4")), options={{"scale": 2.0}})
assert got["more"][1][0] == 12.0, got
heavy = {{"torch", "penlight.pipeline", "penlight.ir", "typer", "rich"}} & set(sys.modules)
assert not heavy, heavy
"""
    subprocess.run([sys.executable, "-W", "error", "-c", code], check=True)
