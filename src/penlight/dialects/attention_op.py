"""penlight::attention_in_rows and rotary, over heads that are columns of rows, made known to torch.

In eager mode they take the heads out of their rows and ask ATen; their kernels are
kernels/optimized/attention.cpp and rotary.cpp.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch._ops import OpOverload

from penlight.dialects.define import define
from penlight.dialects.penlight_ops import attention
from penlight.kernels.table import OpTable


def attention_op(table: OpTable, libraries: tuple[str, ...]) -> OpOverload | None:
    """penlight::attention_in_rows, if `libraries` have a kernel for it."""
    rows = table.rows("penlight::attention_in_rows.out", libraries)
    return define(str(rows[0].schema), _run, _shape) if rows else None


def rotary_op(table: OpTable, libraries: tuple[str, ...]) -> OpOverload | None:
    """penlight::rotary, if `libraries` have a kernel for it."""
    rows = table.rows("penlight::rotary.out", libraries)
    return define(str(rows[0].schema), _turn, _turn_shape) if rows else None


def _heads(x: Tensor, numbers: Sequence[int]) -> Tensor:
    """[batch, heads, rows, width], as a view."""
    if not numbers:
        return x
    heads, width, offset, step, rows_first = numbers
    x = x.transpose(0, 1) if rows_first else x
    parts = [x.narrow(2, offset + head * step, width) for head in range(heads)]
    return torch.stack(parts, 1)


def _run(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor | None,
    query_heads: Sequence[int],
    key_heads: Sequence[int],
    value_heads: Sequence[int],
    rows_first: bool,
    causal: bool,
    scale: float | None,
    safe_softmax: bool,
    hidden_score: float | None,
) -> Tensor:
    q, k, v = _heads(query, query_heads), _heads(key, key_heads), _heads(value, value_heads)
    y = attention(
        q,
        k,
        v,
        mask,
        is_causal=causal,
        scale=scale,
        enable_gqa=True,
        safe_softmax=safe_softmax,
        hidden_score=hidden_score,
    )
    return y.permute((2, 0, 1, 3) if rows_first else (0, 2, 1, 3)).flatten(2).contiguous()


def _shape(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Any,
    query_heads: Sequence[int],
    key_heads: Sequence[int],
    value_heads: Sequence[int],
    rows_first: bool,
    *args: Any,
) -> Tensor:
    if query_heads:
        batch, rows = (query.shape[1], query.shape[0]) if query_heads[4] else query.shape[:2]
    else:
        batch, rows = query.shape[0], query.shape[2]
    heads = query_heads[0] if query_heads else query.shape[1]
    columns = heads * (value_heads[1] if value_heads else value.shape[3])
    return query.new_empty((rows, batch, columns) if rows_first else (batch, rows, columns))


def _turn(x: Tensor, cosine: Tensor, sine: Tensor, numbers: Sequence[int]) -> Tensor:
    heads = _heads(x, numbers)
    low, high = heads.chunk(2, -1)
    turned = heads * cosine + torch.cat([-high, low], -1) * sine
    if numbers:
        return turned.permute((2, 0, 1, 3) if numbers[4] else (0, 2, 1, 3)).flatten(2).contiguous()
    return turned


def _turn_shape(x: Tensor, cosine: Tensor, sine: Tensor, numbers: Sequence[int]) -> Tensor:
    return x.new_empty((*x.shape[:2], numbers[0] * numbers[1]) if numbers else x.shape)
