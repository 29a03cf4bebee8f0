"""Operators of Penlight's own: composites that one kernel computes better than their parts.

The table of kernels gives their schemas (`penlight::lstm`, ...); here they are
made known to torch, so that a graph with them can be built, checked and run in
eager mode, where they mean what ATen's operator of that name does. Attention can be
told to do without ATen's safe softmax, which gives zeros where every key is hidden.
Products by group take their matrices as linear layers do, so that these are the same when packed.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import torch
from torch import Tensor
from torch._ops import OpOverload
from torch.nn import functional

from penlight.dialects.define import NAMESPACE, define
from penlight.ir.sizes import expression
from penlight.kernels.table import OpTable

aten = torch.ops.aten

# What each means, by its name without the namespace, and the overload of ATen's that it replaces.
_MEANING: dict[str, OpOverload] = {
    "scaled_dot_product_attention": aten.scaled_dot_product_attention.default,
    "lstm": aten.lstm.input,
    "gru": aten.gru.input,
    "rms_norm": aten.rms_norm.default,
    "grouped_linear": aten._grouped_mm.default,
}


def twins(table: OpTable, libraries: tuple[str, ...]) -> dict[OpOverload, OpOverload]:
    """ATen's composites -> Penlight's operators, as far as `libraries` have a kernel."""
    found: dict[OpOverload, OpOverload] = {}
    for name, meaning in _MEANING.items():
        rows = [row for row in table.rows(f"{NAMESPACE}::{name}.out", libraries) if row.schema]
        if rows:
            assert rows[0].schema is not None
            eager = _EAGER.get(name) or _eager(meaning)
            found[meaning] = define(rows[0].schema, eager, _SHAPES.get(name, eager))
    return found


@cache
def _eager(meaning: OpOverload) -> Callable[..., Any]:
    def run(*args: Any, **kwargs: Any) -> Any:
        result = meaning(*args, **kwargs)
        # A result that is an argument, or part of one, would alias it.
        return tuple(item.clone() for item in result) if isinstance(result, tuple) else result.clone()

    return run


def attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    *,
    scale: float | None = None,
    enable_gqa: bool = False,
    safe_softmax: bool = True,
    hidden_score: float | None = None,
) -> Tensor:
    """ATen's attention; or as it is written out, with softmax's NaN for a query whose scores are all -inf.

    Args:
        hidden_score: takes the place of a score that a bool mask hides; without it -inf is added.
    """
    if safe_softmax and hidden_score is None:
        return functional.scaled_dot_product_attention(
            query, key, value, attn_mask, dropout_p, is_causal, scale=scale, enable_gqa=enable_gqa
        ).clone()
    if enable_gqa:
        key, value = (x.repeat_interleave(query.shape[-3] // x.shape[-3], -3) for x in (key, value))
    scores = query @ key.mT * (query.shape[-1] ** -0.5 if scale is None else scale)
    if is_causal:
        attn_mask = torch.ones(scores.shape[-2:], dtype=torch.bool).tril()
    if attn_mask is not None and attn_mask.dtype is torch.bool:
        hidden = scores - torch.inf if hidden_score is None else hidden_score
        scores = torch.where(attn_mask, scores, hidden)
    elif attn_mask is not None:
        scores = scores + attn_mask
    weights = aten._safe_softmax(scores, -1) if safe_softmax else scores.softmax(-1)
    return weights @ value


def grouped_linear(input: Tensor, weight: Tensor, ends: Tensor) -> Tensor:
    """Rows [first, end) of each group times its matrix, of weight [groups, outputs, inputs]; zeros behind."""
    made, first = input.new_zeros(input.shape[0], weight.shape[1]), 0
    for matrix, end in zip(weight, ends.tolist(), strict=True):
        made[first:end] = functional.linear(input[first:end], matrix)
        first = end
    return made


_EAGER: dict[str, Callable[..., Any]] = {
    "scaled_dot_product_attention": attention,
    "grouped_linear": grouped_linear,
}


# --- shapes of the results: running the composite on fake tensors would unroll it ---------------------


def _attention_shape(
    query: Any, key: Any, value: Any, *args: Any, enable_gqa: bool = False, **kwargs: Any
) -> Any:
    batch = query.shape[:-2]
    if enable_gqa:  # the heads are the query's, whatever the keys have
        batch = batch[:-1]
    for other in (key, value):
        sizes = other.shape[: -3 if enable_gqa else -2]
        if list(map(expression, sizes)) != list(map(expression, batch)):
            batch = torch.broadcast_shapes(batch, sizes)
    heads = query.shape[-3:-2] if enable_gqa else ()
    return query.new_empty((*batch, *heads, query.shape[-2], value.shape[-1]))


def _lstm_shape(x: Any, hx: Any, params: Any, *args: Any) -> Any:
    _, _, _, _, bidirectional, _ = args
    width = hx[0].shape[-1] * (2 if bidirectional else 1)
    return x.new_empty((*x.shape[:-1], width)), torch.empty_like(hx[0]), torch.empty_like(hx[1])


def _gru_shape(x: Any, hx: Any, params: Any, *args: Any) -> Any:
    _, _, _, _, bidirectional, _ = args
    return x.new_empty((*x.shape[:-1], hx.shape[-1] * (2 if bidirectional else 1))), torch.empty_like(hx)


_SHAPES: dict[str, Callable[..., Any]] = {
    "scaled_dot_product_attention": _attention_shape,
    "lstm": _lstm_shape,
    "gru": _gru_shape,
    "rms_norm": lambda x, *args, **kwargs: torch.empty_like(x),
    "grouped_linear": lambda x, weight, ends: x.new_empty((x.shape[0], weight.shape[1])),
}
