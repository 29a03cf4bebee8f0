"""Compile a model once, keep its file under build/, run it, and compare it with eager.

A file is made again when the compiler, the operator table or the models' own
code is newer.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.utils import _pytree as pytree

from benchmarks.fresh import ROOT, is_fresh

from . import Eager, Model, load

BUILT = ROOT / "build" / "models"


def compile_model(model: Model, target: str = "cpu") -> Any:
    """The program of a model, not yet a file."""
    import penlight

    return penlight.compile(
        {name: (module, model.example(name)) for name, module in model.methods.items()},
        dynamic_shapes=model.dynamic or None,
        target=target,
    )


def compiled(name: str, target: str = "cpu") -> Path:
    """The up-to-date .pte file of a model of this package."""
    path = BUILT / f"{name}-{target}.pte"
    if not is_fresh(path):
        BUILT.mkdir(parents=True, exist_ok=True)
        fresh = path.with_suffix(f".{os.getpid()}")  # several test workers may be at it
        compile_model(load(name), target).save(fresh)
        fresh.replace(path)
    return path


class Loaded:
    """A .pte file in our runtime, called like the model it came from."""

    def __init__(self, path: Path) -> None:
        import penlight

        self.program = penlight.load(path)

    def __call__(self, method: str, *args: Tensor) -> Any:
        return self.program[method](*args)

    def reset(self) -> None:
        self.program.reset()


@dataclass
class Difference:
    """How far one call is from eager: the largest absolute error over the range of the expected values."""

    method: str
    error: float
    ms: float


def differences(model: Model, run: Any) -> Iterator[Difference]:
    """Compare every call of the model, state carried along on both sides."""
    eager = Eager(model)
    eager.reset()
    run.reset()
    for method, args in model.calls:
        start = time.perf_counter()
        got = pytree.tree_leaves(run(method, *args))
        ms = 1e3 * (time.perf_counter() - start)
        want = pytree.tree_leaves(eager(method, *args))
        assert len(got) == len(want), f"{method}: {len(got)} outputs, not {len(want)}"
        yield Difference(method, max(map(error, got, want)), ms)
    eager.reset()


def error(got: Tensor, want: Tensor) -> float:
    """Largest absolute difference over the expected values' range; infinite when the kind differs."""
    if got.shape != want.shape or got.dtype != want.dtype or not torch.equal(got.isfinite(), want.isfinite()):
        return float("inf")
    known = want.isfinite()
    if not torch.equal(got[~known].nan_to_num(7.0), want[~known].nan_to_num(7.0)):
        return float("inf")
    got, want = got[known].double(), want[known].double()
    if want.numel() == 0:
        return 0.0
    span = float(want.max() - want.min()) or float(want.abs().max()) or 1.0
    return float((got - want).abs().max()) / span
