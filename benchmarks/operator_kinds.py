"""Operators of the user's own, one for each kind of signature, and a call of each from eager PyTorch."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

import penlight

FILE = """
#include <penlight/kernel.h>
using namespace penlight;
namespace {
// a * x + b
Tensor& fill(KernelContext& ctx, const Tensor& x, double a, double b, Tensor& out) {
  if (!ctx.resize(out, x.sizes())) return out;
  for (dim_t i = 0; i < x.numel(); ++i) {
    out.mutable_data_ptr<float>()[i] =
        static_cast<float>(a) * x.const_data_ptr<float>()[i] + static_cast<float>(b);
  }
  return out;
}
void add(Tensor& x, double value) {
  for (dim_t i = 0; i < x.numel(); ++i) x.mutable_data_ptr<float>()[i] += static_cast<float>(value);
}
}  // namespace

Tensor& scalar_out(KernelContext& ctx, const Tensor& x, const Scalar& a, Tensor& out) {
  return fill(ctx, x, a.to<double>(), 0, out);
}
Tensor& scalars_out(KernelContext& ctx, const Tensor& x, const Scalar& a, const Optional<Scalar>& b,
                    Tensor& out) {
  return fill(ctx, x, a.to<double>(), b ? b->to<double>() : 0, out);
}
Tensor& maybe_out(KernelContext& ctx, const Tensor& x, const Optional<Tensor>& y, Tensor& out) {
  return fill(ctx, x, 1, y ? y->const_data_ptr<float>()[0] : 0, out);
}
Tensor& list_out(KernelContext& ctx, TensorList xs, Tensor& out) {
  return fill(ctx, xs[0], 1, xs[1].const_data_ptr<float>()[0], out);
}
Tensor& holes_out(KernelContext& ctx, const Tensor& x, ArrayRef<Optional<Tensor>> ys, Tensor& out) {
  return fill(ctx, x, 1, ys[0] ? ys[0]->const_data_ptr<float>()[0] : 0, out);
}
Tensor& ints_out(KernelContext& ctx, const Tensor& x, ArrayRef<int64_t> ns, Tensor& out) {
  return fill(ctx, x, 1, static_cast<double>(ns[0]), out);
}
Tensor& text_out(KernelContext& ctx, const Tensor& x, StringView mode, Tensor& out) {
  return fill(ctx, x, 1, static_cast<double>(mode.size()), out);
}
Tensor& dtype_out(KernelContext& ctx, const Tensor& x, Optional<ScalarType> dtype, Tensor& out) {
  return fill(ctx, x, 1, dtype ? 1 : 0, out);
}
Tensor& axpy_out(KernelContext& ctx, const Tensor& x, const Tensor& y, double a, Tensor& out) {
  return fill(ctx, x, a, y.const_data_ptr<float>()[0], out);
}
void three_out(KernelContext& ctx, const Tensor& x, Tensor& a, Tensor& b, Tensor& c) {
  fill(ctx, x, 1, 1, a);
  fill(ctx, x, 1, 2, b);
  fill(ctx, x, 1, 3, c);
}
void halves_out(KernelContext& ctx, const Tensor& x, int64_t count, TensorList out) {
  const dim_t sizes[] = {x.size(0) / static_cast<dim_t>(count)};
  for (size_t k = 0; k < out.size(); ++k) {
    Tensor part = out[k];
    if (!ctx.resize(part, {sizes, 1})) return;
    for (dim_t i = 0; i < sizes[0]; ++i) {
      part.mutable_data_ptr<float>()[i] = x.const_data_ptr<float>()[static_cast<dim_t>(k) * sizes[0] + i];
    }
  }
}
Tensor& change_(KernelContext& ctx, Tensor& state, double value) {
  (void)ctx;
  add(state, value);
  return state;
}
void change_two_(KernelContext& ctx, Tensor& a, Tensor& b, double value) {
  (void)ctx;
  add(a, value);
  add(b, value);
}
Tensor& times_out(KernelContext& ctx, const Tensor& x, double a, Tensor& out) {
  return fill(ctx, x, a, 0, out);
}

PENLIGHT_LIBRARY(kinds, "axpy(Tensor x, Tensor y, float a) -> Tensor", axpy_out, shapes("[n], [n] -> [n]"))
PENLIGHT_LIBRARY(kinds, "asked(Tensor x, float a) -> Tensor", times_out)
PENLIGHT_LIBRARY(kinds, "scalar(Tensor x, Scalar a) -> Tensor", scalar_out, shapes("[n] -> [n]"))
PENLIGHT_LIBRARY(kinds, "scalars(Tensor x, Scalar a, Scalar? b) -> Tensor", scalars_out, shapes("[n] -> [n]"))
PENLIGHT_LIBRARY(kinds, "maybe(Tensor x, Tensor? y) -> Tensor", maybe_out, shapes("[n], [n]? -> [n]"))
PENLIGHT_LIBRARY(kinds, "list(Tensor[] xs) -> Tensor", list_out, shapes("[n][] -> [n]"))
PENLIGHT_LIBRARY(kinds, "holes(Tensor x, Tensor?[] ys) -> Tensor", holes_out, shapes("[n], _ -> [n]"))
PENLIGHT_LIBRARY(kinds, "ints(Tensor x, int[] ns) -> Tensor", ints_out, shapes("[n] -> [n]"))
PENLIGHT_LIBRARY(kinds, "text(Tensor x, str mode) -> Tensor", text_out, shapes("[n] -> [n]"))
PENLIGHT_LIBRARY(kinds, "dtype(Tensor x, ScalarType? dtype) -> Tensor", dtype_out, shapes("[n] -> [n]"))
PENLIGHT_LIBRARY(kinds, "three(Tensor x) -> (Tensor, Tensor, Tensor)", three_out,
                 shapes("[n] -> [n], [n], [n]"))
PENLIGHT_LIBRARY(kinds, "halves(Tensor x, int count) -> Tensor[]", halves_out,
                 shapes("[n] -> [n // count][count]"))
PENLIGHT_LIBRARY(kinds, "change_(Tensor(a!) state, float value) -> ()", change_)
PENLIGHT_LIBRARY(kinds, "change_two_(Tensor(a!) a, Tensor(b!) b, float value) -> ()", change_two_)
PENLIGHT_LIBRARY(kinds, "faked(Tensor x, float a) -> Tensor", times_out)
PENLIGHT_LIBRARY(kinds, "typed(Tensor x, float a) -> Tensor", times_out, shapes("[n] -> [n]"))
PENLIGHT_LIBRARY(kinds, "graded(Tensor x, float a) -> Tensor", times_out, shapes("[n] -> [n]"))
"""
PYTHON = """
import penlight
@penlight.op("kinds::faked").fake
def _(x, a): return x.new_empty(x.shape)
penlight.op("kinds::typed").dtypes("float32")
@penlight.op("kinds::graded").backward
def _(ctx, grad): return grad * ctx.inputs.a, None
"""


def calls(folder: Path) -> dict[str, Callable[[], Any]]:
    """A call of each kind, on 16 elements, by what it shows."""
    source = folder / "kinds.cpp"
    source.write_text(FILE)
    source.with_suffix(".py").write_text(PYTHON)
    penlight.ops.load(source)
    ops = torch.ops.kinds
    x, y, out = torch.randn(16), torch.randn(16), torch.empty(16)
    outs = [torch.empty(8), torch.empty(8)]
    return {
        "two tensors, a float": lambda: ops.axpy.default(x, y, 2.0),
        "no shape rule": lambda: ops.asked.default(x, 2.0),
        "a Scalar, given a float": lambda: ops.scalar.default(x, 2.0),
        "a Scalar, given an int": lambda: ops.scalar.default(x, 2),
        "two Scalars, one optional": lambda: ops.scalars.default(x, 2.0, 3),
        "a Tensor?": lambda: ops.maybe.default(x, y),
        "a Tensor? that is None": lambda: ops.maybe.default(x, None),
        "a Tensor[]": lambda: ops.list.default([x, y]),
        "a Tensor?[]": lambda: ops.holes.default(x, [None, y]),
        "an int[]": lambda: ops.ints.default(x, [1, 2, 3]),
        "a str": lambda: ops.text.default(x, "nearest"),
        "a ScalarType": lambda: ops.dtype.default(x, torch.float64),
        "three results": lambda: ops.three.default(x),
        "a Tensor[] result": lambda: ops.halves.default(x, 2),
        "a given Tensor[] result": lambda: ops.halves.out(x, 2, out=outs),
        "one tensor changed": lambda: ops.change_.default(y, 1.0),
        "two tensors changed": lambda: ops.change_two_.default(x, y, 0.0),
        "a fake function": lambda: ops.faked.default(x, 2.0),
        "declared dtypes": lambda: ops.typed.default(x, 2.0),
        "a formula for gradients": lambda: ops.graded.default(x, 2.0),
        "its result given": lambda: ops.axpy.out(x, y, 2.0, out=out),
        "a Scalar, its result given": lambda: ops.scalar.out(x, 2.0, out=out),
    }
