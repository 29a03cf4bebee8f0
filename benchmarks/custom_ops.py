"""What an operator of the user's own costs: to build, to load, to call from eager PyTorch.

python -m benchmarks operators
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

import penlight
from penlight.build.plugin import build_plugin

from .operator_kinds import calls as calls_of_kinds

CALLS, ROUNDS = 2000, 15
KERNEL = """
#include <penlight/kernel.h>
using namespace penlight;
Tensor& axpy_out(KernelContext& ctx, const Tensor& x, const Tensor& y, double a, Tensor& out) {
  if (!ctx.resize(out, x.sizes())) return out;
  for (dim_t i = 0; i < x.numel(); ++i) {
    out.mutable_data_ptr<float>()[i] =
        static_cast<float>(a) * x.const_data_ptr<float>()[i] + y.const_data_ptr<float>()[i];
  }
  return out;
}
PENLIGHT_LIBRARY(bench, "axpy(Tensor x, Tensor y, float a) -> Tensor", axpy_out, shapes("[n], [n] -> [n]"))
"""


def measure() -> dict[str, float]:
    """Seconds of builds, microseconds of calls on 16 elements in the fastest round."""
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "axpy.cpp"
        source.write_text(KERNEL)
        before = os.environ.get("PENLIGHT_CACHE")
        os.environ["PENLIGHT_CACHE"] = str(Path(folder) / "cache")
        try:
            found = {"cold": _seconds(lambda: build_plugin(source))}
            found["cached"] = min(_seconds(lambda: build_plugin(source)) for _ in range(5))
            penlight.ops.load(source)
        finally:
            if before is None:
                del os.environ["PENLIGHT_CACHE"]
            else:
                os.environ["PENLIGHT_CACHE"] = before

    @torch.library.custom_op("bench::axpy_python", mutates_args=())
    def axpy_python(x: torch.Tensor, y: torch.Tensor, a: float) -> torch.Tensor:
        return torch.add(y, x, alpha=a)

    x, y = torch.randn(16), torch.randn(16)
    ops = torch.ops.bench
    torch.testing.assert_close(ops.axpy.default(x, y, 2.0), ops.axpy_python.default(x, y, 2.0))
    calls: dict[str, Callable[[], Any]] = {
        "call": lambda: ops.axpy.default(x, y, 2.0),
        "python": lambda: ops.axpy_python.default(x, y, 2.0),
        "aten": lambda: torch.ops.aten.add.Tensor(y, x, alpha=2.0),
    }
    found |= {f"{name}_grad": value for name, value in _fastest(calls).items()}
    with torch.no_grad():
        found |= _fastest(calls)
    with torch.inference_mode():
        x, y = torch.randn(16), torch.randn(16)
        found |= {f"{name}_inference": value for name, value in _fastest(calls).items()}
    return found


def measure_kinds() -> dict[str, float]:
    """Microseconds of a call of each kind of signature, in plain eager mode."""
    x = torch.randn(16)
    with tempfile.TemporaryDirectory() as folder:
        kinds = calls_of_kinds(Path(folder))
    kinds["aten.sum"] = lambda: torch.ops.aten.sum.default(x, dtype=None)
    kinds["aten.sum with a dtype"] = lambda: torch.ops.aten.sum.default(x, dtype=torch.float64)
    return _fastest(kinds)


def _seconds(function: Callable[[], Any]) -> float:
    start = time.perf_counter()
    function()
    return time.perf_counter() - start


def _fastest(calls: dict[str, Callable[[], Any]]) -> dict[str, float]:
    """They take turns, so that what else the machine does falls on all."""
    best = dict.fromkeys(calls, float("inf"))
    for _ in range(ROUNDS):
        for name, call in calls.items():
            start = time.perf_counter()
            for _ in range(CALLS):
                call()
            best[name] = min(best[name], (time.perf_counter() - start) / CALLS * 1e6)
    return best
