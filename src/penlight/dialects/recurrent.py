"""Recurrent layers, and pooling in 1-d: kept whole while traced; in Core ATen, one step after the other.

torch computes the shapes of an LSTM's results by unrolling it, which takes long and
fixes the length of the sequence. Its decomposition makes operators of oneDNN, which
nothing else has. Here a short sequence is unrolled; one that is long, or of any
length, is a scan.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor
from torch._C import DispatchKey

from penlight.passes.decompose import scan

aten = torch.ops.aten

# Unrolled, longer ones would make large programs that take long to compile.
_SHORT = 32

State = tuple[Tensor, ...]
# (what the input adds to the gates, the state, the weights) -> the next state, whose first part is the output
Cell = Callable[[Tensor, State, Sequence[Tensor]], State]


def has_projections(params: Sequence[Tensor], has_biases: bool, num_layers: int, bidirectional: bool) -> bool:
    """Is the hidden state projected (proj_size)? Each layer then has one weight more."""
    return len(params) != num_layers * (2 if bidirectional else 1) * (4 if has_biases else 2)


def split_lstm(
    x: Tensor,
    hx: Sequence[Tensor],
    params: Sequence[Tensor],
    has_biases: bool,
    num_layers: int,
    dropout: float,
    train: bool,
    bidirectional: bool,
    batch_first: bool,
) -> tuple[Tensor, ...]:
    """aten::lstm.input; `dropout` is for training and not applied."""
    projected = has_projections(params, has_biases, num_layers, bidirectional)

    def cell(given: Tensor, state: State, weights: Sequence[Tensor]) -> State:
        h, c = state
        own = weights[:-1] if projected else weights
        h, c = _lstm_step(given + _linear(h, own), c)
        return (_linear(h, weights[-1:]) if projected else h), c

    count = (4 if has_biases else 2) + (1 if projected else 0)
    return _layers(cell, x, hx, params, count, has_biases, num_layers, bidirectional, batch_first)


def split_gru(
    x: Tensor,
    hx: Tensor,
    params: Sequence[Tensor],
    has_biases: bool,
    num_layers: int,
    dropout: float,
    train: bool,
    bidirectional: bool,
    batch_first: bool,
) -> tuple[Tensor, ...]:
    """aten::gru.input."""

    def cell(given: Tensor, state: State, weights: Sequence[Tensor]) -> State:
        return (_gru_step(given, _linear(state[0], weights), state[0]),)

    count = 4 if has_biases else 2
    return _layers(cell, x, (hx,), params, count, has_biases, num_layers, bidirectional, batch_first)


def split_rnn(activation: Callable[[Tensor], Tensor]) -> Callable[..., tuple[Tensor, ...]]:
    """aten::rnn_tanh.input or aten::rnn_relu.input."""

    def cell(given: Tensor, state: State, weights: Sequence[Tensor]) -> State:
        return (activation(given + _linear(state[0], weights)),)

    def split(
        x: Tensor,
        hx: Tensor,
        params: Sequence[Tensor],
        has_biases: bool,
        num_layers: int,
        dropout: float,
        train: bool,
        bidirectional: bool,
        batch_first: bool,
    ) -> tuple[Tensor, ...]:
        count = 4 if has_biases else 2
        return _layers(cell, x, (hx,), params, count, has_biases, num_layers, bidirectional, batch_first)

    return split


def split_lstm_cell(
    x: Tensor,
    hx: Sequence[Tensor],
    w_ih: Tensor,
    w_hh: Tensor,
    b_ih: Tensor | None = None,
    b_hh: Tensor | None = None,
) -> State:
    """aten::lstm_cell; torch's own in C++ takes no dynamic batch."""
    gates = aten.linear.default(x, w_ih, b_ih) + aten.linear.default(hx[0], w_hh, b_hh)
    return _lstm_step(gates, hx[1])


def split_gru_cell(
    x: Tensor,
    h: Tensor,
    w_ih: Tensor,
    w_hh: Tensor,
    b_ih: Tensor | None = None,
    b_hh: Tensor | None = None,
) -> Tensor:
    """aten::gru_cell; torch's own in C++ takes no dynamic batch."""
    return _gru_step(aten.linear.default(x, w_ih, b_ih), aten.linear.default(h, w_hh, b_hh), h)


def _lstm_step(gates: Tensor, c: Tensor) -> tuple[Tensor, Tensor]:
    i, f, g, o = gates.chunk(4, -1)
    c = f.sigmoid() * c + i.sigmoid() * g.tanh()
    return o.sigmoid() * c.tanh(), c


def _gru_step(given: Tensor, kept: Tensor, h: Tensor) -> Tensor:
    """`given` is the input's part of the gates, `kept` the state's."""
    reset_x, update_x, new_x = given.chunk(3, -1)
    reset_h, update_h, new_h = kept.chunk(3, -1)
    new = (new_x + (reset_x + reset_h).sigmoid() * new_h).tanh()
    return (h - new) * (update_x + update_h).sigmoid() + new


def _linear(x: Tensor, weights: Sequence[Tensor]) -> Tensor:
    result: Tensor = aten.linear.default(x, weights[0], weights[1] if len(weights) > 1 else None)
    return result


def _layers(
    cell: Cell,
    x: Tensor,
    hx: Sequence[Tensor],
    params: Sequence[Tensor],
    count: int,
    has_biases: bool,
    num_layers: int,
    bidirectional: bool,
    batch_first: bool,
) -> tuple[Tensor, ...]:
    """Each layer over the results of the one before it; `count` tensors of `params` belong to a direction."""
    directions = 2 if bidirectional else 1
    if batch_first:
        x = x.transpose(0, 1)
    last: list[State] = []
    for layer in range(num_layers):
        outputs = []
        for direction in range(directions):
            index = layer * directions + direction
            weights = params[index * count : (index + 1) * count]
            start = tuple(state[index] for state in hx)
            # The input's part of the gates does not depend on the state: one product for all steps.
            given = _linear(x, weights[0:4:2] if has_biases else weights[:1])
            own = [*weights[1:4:2], *weights[4:]] if has_biases else list(weights[1:])
            steps, state = _over_time(cell, given, start, own, direction == 1)
            outputs.append(steps)
            last.append(state)
        x = torch.cat(outputs, -1) if bidirectional else outputs[0]
    if batch_first:
        x = x.transpose(0, 1)
    return x, *(torch.stack(parts) for parts in zip(*last, strict=True))


def _transposed(weights: Sequence[Tensor]) -> list[Tensor]:
    """Matrices, among biases."""
    return [aten.t.default(weight) if weight.dim() == 2 else weight for weight in weights]


def _over_time(
    cell: Cell, given: Tensor, state: State, weights: Sequence[Tensor], reverse: bool
) -> tuple[Tensor, State]:
    length = given.shape[0]
    if isinstance(length, int) and length <= _SHORT:
        steps = []
        for t in range(length - 1, -1, -1) if reverse else range(length):
            state = cell(given[t], state, weights)
            steps.append(state[0])
        return torch.stack(steps[::-1] if reverse else steps), state

    def body(*values: Tensor) -> tuple[Tensor, ...]:
        following = cell(values[len(state)], values[: len(state)], _transposed(values[len(state) + 1 :]))
        return *following, following[0]

    # A product by steps takes matrices that were transposed once, and not anew for each step.
    columns = [aten.clone.default(weight) for weight in _transposed(weights)]
    *last, rows = scan(body, state, (given.flip(0) if reverse else given,), columns)
    return (rows.flip(0) if reverse else rows), tuple(last)


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
