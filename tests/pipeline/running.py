"""Compile a model, run the file in the runtime, compare with eager PyTorch."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils import _pytree as pytree

import penlight

TARGETS = ("cpu", "portable")


def check(
    model: torch.nn.Module,
    *calls: Any,
    targets: Sequence[str] = TARGETS,
    tolerance: float = 1e-4,
    **options: Any,
) -> list[Any]:
    """Every call must give what the model gives; the first one's arguments are the example.

    A call is a tuple of arguments, or a pair of those and a dict of keywords.
    Errors count relative to the largest value of a result. Returns the loaded programs.
    """
    model.eval()
    calls = tuple(_call(call) for call in calls)
    args, kwargs = calls[0]
    loaded = []
    for target in targets:
        program = penlight.compile(copy.deepcopy(model), args, kwargs, target=target, **options)
        running = penlight.load(program.to_bytes())
        reference = copy.deepcopy(model)
        for args_now, kwargs_now in calls:
            with torch.no_grad():
                want = reference(*_own(args_now), **_own(kwargs_now))
            compare(running(*_own(args_now), **_own(kwargs_now)), want, tolerance, target)
        loaded.append(running)
    return loaded


def as_torch(array: np.ndarray[Any, Any]) -> Tensor:
    """Of any dtype: torch does not know NumPy's bfloat16."""
    dense = np.ascontiguousarray(array)
    narrow = dense.dtype.name == "bfloat16"
    return torch.as_tensor(dense.view(np.uint16)).view(torch.bfloat16) if narrow else torch.as_tensor(dense)


def compare(got: Any, want: Any, tolerance: float = 1e-4, where: str = "") -> None:
    ours, theirs = pytree.tree_leaves(got), pytree.tree_leaves(want)
    assert len(ours) == len(theirs), f"{where}: {len(ours)} results, eager has {len(theirs)}"
    for index, (mine, other) in enumerate(zip(ours, theirs, strict=True)):
        place = f"{where} result {index}"
        if not isinstance(other, torch.Tensor):
            assert mine == other, f"{place} is {mine}, eager has {other}"
            continue
        expected = other.detach().resolve_conj()
        found = as_torch(mine) if isinstance(mine, np.ndarray) else mine
        assert str(found.dtype) == str(expected.dtype), f"{place} is {found.dtype}, not {expected.dtype}"
        inexact = expected.is_floating_point() or expected.is_complex()
        finite = expected.abs()[expected.isfinite()] if inexact else expected.new_zeros(0)
        scale = float(finite.max()) if finite.numel() else 1.0
        torch.testing.assert_close(
            found.reshape(mine.shape),
            expected,
            rtol=0,
            atol=tolerance * max(scale, 1e-6) if inexact else 0,
            equal_nan=True,
            check_stride=False,
            msg=lambda text, place=place: f"{place}: {text}",
        )


def _call(call: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
    if len(call) == 2 and isinstance(call[0], tuple) and isinstance(call[1], dict):
        return call[0], call[1]
    return tuple(call), {}


def _own(values: Any) -> Any:
    return pytree.tree_map(lambda v: v.clone() if isinstance(v, torch.Tensor) else v, values)
