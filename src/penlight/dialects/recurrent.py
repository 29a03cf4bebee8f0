"""Recurrent layers, and pooling in 1-d: kept whole while traced; LSTM in Core ATen, unrolled over time.

torch computes the shapes of an LSTM's results by unrolling it, which takes long and
fixes the length of the sequence. Its decomposition makes operators of oneDNN, which
nothing else has.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor
from torch._C import DispatchKey

aten = torch.ops.aten


def has_projections(params: Sequence[Tensor], has_biases: bool, num_layers: int, bidirectional: bool) -> bool:
    """Is the hidden state projected (proj_size)? Each layer then has one weight more."""
    return len(params) != num_layers * (2 if bidirectional else 1) * (4 if has_biases else 2)


def unroll_lstm(
    x: Tensor,
    hx: Sequence[Tensor],
    params: Sequence[Tensor],
    has_biases: bool,
    num_layers: int,
    dropout: float,
    train: bool,
    bidirectional: bool,
    batch_first: bool,
) -> tuple[Tensor, Tensor, Tensor]:
    """aten::lstm.input, one step after the other; `dropout` is for training and not applied."""
    projected = has_projections(params, has_biases, num_layers, bidirectional)
    directions = 2 if bidirectional else 1
    count = (4 if has_biases else 2) + (1 if projected else 0)
    if batch_first:
        x = x.transpose(0, 1)
    hidden, cell = [], []
    for layer in range(num_layers):
        outputs = []
        for direction in range(directions):
            index = layer * directions + direction
            weights = params[index * count : (index + 1) * count]
            steps, h, c = _layer(
                x, hx[0][index], hx[1][index], weights, has_biases, projected, direction == 1
            )
            outputs.append(steps)
            hidden.append(h)
            cell.append(c)
        x = torch.cat(outputs, -1) if bidirectional else outputs[0]
    if batch_first:
        x = x.transpose(0, 1)
    return x, torch.stack(hidden), torch.stack(cell)


def _layer(
    x: Tensor,
    h: Tensor,
    c: Tensor,
    weights: Sequence[Tensor],
    has_biases: bool,
    projected: bool,
    reverse: bool,
) -> tuple[Tensor, Tensor, Tensor]:
    w_input, w_hidden = weights[:2]
    b_input, b_hidden = weights[2:4] if has_biases else (None, None)
    # The input's part of the gates does not depend on the state: one product for all steps.
    gates = aten.linear.default(x, w_input, b_input)
    order = range(x.shape[0] - 1, -1, -1) if reverse else range(x.shape[0])
    steps = []
    for t in order:
        i, f, g, o = (gates[t] + aten.linear.default(h, w_hidden, b_hidden)).chunk(4, -1)
        c = f.sigmoid() * c + i.sigmoid() * g.tanh()
        h = o.sigmoid() * c.tanh()
        if projected:
            h = aten.linear.default(h, weights[-1], None)
        steps.append(h)
    return torch.stack(steps[::-1] if reverse else steps), h, c


# --- shapes while tracing --------------------------------------------------------------------------


def _shapes(x: Any, hx: Any, params: Any, *options: Any) -> Any:
    bidirectional = options[4]
    states = [hx] if isinstance(hx, Tensor) else list(hx)
    width = states[0].shape[-1] * (2 if bidirectional else 1)
    return x.new_empty((*x.shape[:-1], width)), *(torch.empty_like(state) for state in states)


def max_pool1d(
    x: Any, kernel: Any, stride: Any = (), padding: Any = 0, dilation: Any = 1, ceil: bool = False
) -> Any:
    """torch's own form in C++ fixes a dynamic length."""
    k, s, p, d = (
        [value] if isinstance(value, int) else list(value) for value in (kernel, stride, padding, dilation)
    )
    pooled = aten.max_pool2d.default(x.unsqueeze(-2), [1, *k], [1, *(s or k)], [0, *p], [1, *d], ceil)
    return pooled.squeeze(-2)


@contextmanager
def shapes_only() -> Iterator[None]:
    """On fake tensors, recurrent layers give results of the right shape and are not unrolled."""
    pool, composite = aten.max_pool1d.default, DispatchKey.CompositeImplicitAutograd
    fresh = composite not in pool.py_kernels
    keys = (DispatchKey.CompositeImplicitAutograd, DispatchKey.Autograd, DispatchKey.Meta)
    names = ("lstm", "gru", "rnn_tanh", "rnn_relu")
    before: list[tuple[Any, DispatchKey, Callable[..., Any]]] = []
    for op in (getattr(aten, name).input for name in names):
        for key in keys:
            if key in op.py_kernels:
                before.append((op, key, op.py_kernels[key]))
                op.py_kernels[key] = _shapes
        op._dispatch_cache.clear()
    if fresh:
        pool.py_kernels[composite] = max_pool1d
        pool._dispatch_cache.clear()
    try:
        yield
    finally:
        if fresh:
            del pool.py_kernels[composite]
            pool._dispatch_cache.clear()
        for op, key, function in before:
            op.py_kernels[key] = function
            op._dispatch_cache.clear()
