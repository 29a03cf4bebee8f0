"""The operators over packed weights and channels-last images, made known to torch.

In eager mode they unpack what they are given and ask ATen, so that a graph with
them can be run and compared after every pass; their kernels are in
kernels/optimized. The table of kernels holds their schemas.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch._ops import OpOverload
from torch.nn import functional

from penlight.dialects.define import define
from penlight.dialects.penlight_ops import grouped_linear
from penlight.ir.tensors import Derived
from penlight.kernels.activations import Activation
from penlight.kernels.table import OpTable
from penlight.passes.packing import (
    PANEL,
    pack_depthwise,
    pack_panels,
    pack_transposed,
    unpack_panels,
    unpack_transposed,
)


@dataclass(frozen=True)
class PackedOps:
    """penlight::linear_packed, conv2d_packed, conv_transpose2d_packed and the others of _MEANING."""

    linear: OpOverload
    convolution: OpOverload
    max_pool: OpOverload
    expand_depthwise: OpOverload
    direct_convolution: OpOverload
    transposed: OpOverload
    embedding: OpOverload
    pack: OpOverload
    video: OpOverload
    grouped: OpOverload
    convolution_of_parts: OpOverload
    linear_strassen: OpOverload
    convolution_strassen: OpOverload
    stem: OpOverload
    squeeze_excite: OpOverload
    gated_convolution: OpOverload


def packed_ops(table: OpTable, libraries: tuple[str, ...]) -> PackedOps | None:
    """The operators, if `libraries` have kernels for them."""
    rows = [table.rows(f"penlight::{name}.out", libraries) for name in _MEANING]
    if not all(rows):
        return None
    meanings = zip(rows, _MEANING.values(), strict=True)
    return PackedOps(*(define(str(found[0].schema), *meaning) for found, meaning in meanings))


_ACTIVATIONS: dict[int, Callable[[Tensor, float, float], Tensor]] = {
    Activation.NONE: lambda x, low, high: x,
    Activation.RELU: lambda x, low, high: x.relu(),
    Activation.CLAMP: lambda x, low, high: x.clamp(low, high),
    Activation.SIGMOID: lambda x, low, high: x.sigmoid(),
    Activation.TANH: lambda x, low, high: x.tanh(),
    Activation.SILU: lambda x, low, high: functional.silu(x),
    Activation.GELU: lambda x, low, high: functional.gelu(x),
    Activation.GELU_TANH: lambda x, low, high: functional.gelu(x, approximate="tanh"),
    Activation.HARD_SIGMOID: lambda x, low, high: functional.hardsigmoid(x),
    Activation.HARD_SWISH: lambda x, low, high: functional.hardswish(x),
    Activation.LEAKY_RELU: lambda x, low, high: functional.leaky_relu(x, low),
}


def _finish(x: Tensor, residual: Tensor | None, activation: int, low: float, high: float) -> Tensor:
    return _ACTIVATIONS[activation](x if residual is None else x + residual, low, high)


def _linear(
    x: Tensor, weight: Tensor, residual: Tensor | None, outputs: int, activation: int, low: float, high: float
) -> Tensor:
    rows = unpack_panels(weight, outputs, x.shape[-1]).to(x.dtype)
    return _finish(functional.linear(x, rows[:, 1:], rows[:, 0]), residual, activation, low, high)


def _linear_shape(x: Tensor, weight: Tensor, residual: Any, outputs: int, *args: Any) -> Tensor:
    return x.new_empty((*x.shape[:-1], outputs))


def _linear_strassen(
    x: Tensor, weight: Tensor, residual: Tensor | None, outputs: int, direct: Sequence[int], *args: Any
) -> Tensor:
    return _linear(x, weight, residual, outputs, *args)


def _grouped(x: Tensor, weight: Tensor, ends: Tensor, outputs: int) -> Tensor:
    groups, depth = ends.shape[0], x.shape[1]
    rows = unpack_panels(weight, groups * outputs, depth, groups).to(x.dtype)
    return grouped_linear(x, rows[:, 1:].reshape(groups, outputs, depth), ends)


def _grouped_shape(x: Tensor, weight: Tensor, ends: Tensor, outputs: int) -> Tensor:
    return x.new_empty((x.shape[0], outputs))


def _embedding(weight: Tensor, indices: Tensor, rows: int, depth: int) -> Tensor:
    table = unpack_panels(weight, rows, depth)[:, 1:].to(torch.float32)
    return functional.embedding(indices, table)


def _embedding_shape(weight: Tensor, indices: Tensor, rows: int, depth: int) -> Tensor:
    return indices.new_empty((*indices.shape, depth), dtype=torch.float32)


def _pack(weight: Derived, bias: Tensor | None, groups: int, stride: Sequence[int]) -> Derived:
    if stride:
        return pack_transposed(weight, bias, stride)
    if groups > 1 and weight.like.shape[1] == 1:
        return pack_depthwise(weight, bias)
    return pack_panels(weight, bias, groups)


def _packed(weight: Tensor, *args: Any) -> Tensor:
    return _pack(Derived.of(weight), *args).tensor()


def _packed_shape(weight: Tensor, bias: Tensor | None, *args: Any) -> Tensor:
    return weight.new_empty(_pack(Derived(weight, lambda: iter(())), None, *args).like.shape)


def _sides(padding: Sequence[int]) -> Sequence[int]:
    """Zeros before each dimension, then those behind each, of a padding of these or of both sides alike."""
    return padding if len(padding) in (4, 6) else (*padding, *padding)


def _places(
    sizes: Sequence[Any],
    taps: Sequence[int],
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
) -> list[Any]:
    """In how many places the window lies, in each dimension."""
    around, dims = _sides(padding), len(sizes)
    return [
        (sizes[d] + around[d] + around[dims + d] - dilation[d] * (taps[d] - 1) - 1) // stride[d] + 1
        for d in range(dims)
    ]


def _unpacked(x: Tensor, weight: Tensor, window: Sequence[int], groups: int) -> tuple[Tensor, Tensor]:
    """Bias `[outputs]` and weight `[outputs, channels, *taps]`, of a window of outputs and taps over `x`."""
    outputs, *taps = window
    channels = x.shape[1] // groups
    if groups > 1 and channels == 1:
        rows = weight.reshape(-1, -(-outputs // PANEL) * PANEL)[:, :outputs].T.to(x.dtype)
        return rows[:, 0], rows[:, 1:].reshape(outputs, 1, *taps)
    rows = unpack_panels(weight, outputs, channels * math.prod(taps), groups).to(x.dtype)
    *frames, height, width = (1, 1, *taps)[-max(len(taps), 2) :]
    steps = rows[:, 1:].reshape(outputs, height * width, *frames, channels).movedim(-1, 1)
    return rows[:, 0], steps.movedim(2, -1).reshape(outputs, channels, *taps)


def _convolution(
    x: Tensor,
    weight: Tensor,
    residual: Tensor | None,
    window: Sequence[int],
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    groups: int,
    activation: int,
    low: float,
    high: float,
) -> Tensor:
    above, left, below, right = _sides(padding)
    bias, kernel = _unpacked(x, weight, window, groups)
    x = functional.pad(x, [left, right, above, below])
    y = functional.conv2d(x, kernel, bias, list(stride), 0, list(dilation), groups)
    y = _finish(y, residual, activation, low, high)
    return y.contiguous(memory_format=torch.channels_last)


def _convolution_shape(
    x: Tensor,
    weight: Tensor,
    residual: Any,
    window: Sequence[int],
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    *args: Any,
) -> Tensor:
    return _image(x, window[0], _places(x.shape[2:], window[1:], stride, padding, dilation))


def _convolution_strassen(x: Tensor, *args: Any) -> Tensor:
    *others, _direct, activation, low, high = args
    return _convolution(x, *[*others, activation, low, high])


def _convolution_of_parts(
    images: Sequence[Tensor],
    weight: Tensor,
    residual: Tensor | None,
    window: Sequence[int],
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    *activation: Any,
) -> Tensor:
    x = torch.cat(list(images), 1)
    return _convolution(x, weight, residual, window, stride, padding, dilation, 1, *activation)


def _convolution_of_parts_shape(images: Sequence[Tensor], *args: Any) -> Tensor:
    return _convolution_shape(images[0], *args)


def _video_convolution(
    x: Tensor,
    weight: Tensor,
    residual: Tensor | None,
    frames: int,
    window: Sequence[int],
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    groups: int,
    activation: int,
    low: float,
    high: float,
) -> Tensor:
    first, above, left, last, below, right = _sides(padding)
    bias, kernel = _unpacked(x, weight, window, groups)
    video = x.unflatten(0, (-1, frames)).transpose(1, 2)
    video = functional.pad(video, [left, right, above, below, first, last])
    y = functional.conv3d(video, kernel, bias, list(stride), 0, list(dilation), groups)
    y = _finish(y.transpose(1, 2).flatten(0, 1), residual, activation, low, high)
    return y.contiguous(memory_format=torch.channels_last)


def _video_convolution_shape(
    x: Tensor,
    weight: Tensor,
    residual: Any,
    frames: int,
    window: Sequence[int],
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    *args: Any,
) -> Tensor:
    length, *sizes = _places((frames, *x.shape[2:]), window[1:], stride, padding, dilation)
    return _image(x, window[0], sizes, x.shape[0] // frames * length)


def _max_pool(x: Tensor, *args: Any) -> Tensor:
    pooled: Tensor = functional.max_pool2d(x, *args)
    order = torch.contiguous_format if x.is_contiguous() else torch.channels_last
    return pooled.contiguous(memory_format=order)


def _expand_depthwise(
    x: Tensor,
    expansion: Tensor,
    weight: Tensor,
    window: Sequence[int],
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    expansion_activation: int,
    expansion_low: float,
    expansion_high: float,
    *activation: Any,
) -> Tensor:
    channels, one = window[0], (1, 1)
    epilogue = expansion_activation, expansion_low, expansion_high
    y = _convolution(x, expansion, None, (channels, 1, 1), one, (0, 0), one, 1, *epilogue)
    return _convolution(y, weight, None, window, stride, padding, dilation, channels, *activation)


def _expand_depthwise_shape(x: Tensor, expansion: Tensor, weight: Tensor, *args: Any) -> Tensor:
    return _convolution_shape(x, weight, None, *args)


def _stem(x: Tensor, first: Tensor, weight: Tensor, *args: Any) -> Tensor:
    (*numbers, activation, low, high), (*windows, after, least, most) = args[:7], args[7:]
    y = _convolution(x, *[first, None, *numbers, 1, activation, low, high])
    return _convolution(y, *[weight, None, *windows, y.shape[1], after, least, most])


def _stem_shape(x: Tensor, first: Tensor, weight: Tensor, *args: Any) -> Tensor:
    return _convolution_shape(_convolution_shape(x, first, None, *args[:4]), weight, None, *args[7:11])


def _pixels(x: Tensor, weight: Tensor, residual: Tensor | None, outputs: int, *activation: Any) -> Tensor:
    one = (1, 1)
    return _convolution(x, weight, residual, (outputs, *one), one, (0, 0), one, 1, *activation)


def _squeeze_excite(
    x: Tensor,
    squeeze: Tensor,
    excite: Tensor,
    between: int,
    outputs: int,
    squeeze_activation: int,
    squeeze_low: float,
    squeeze_high: float,
    *activation: Any,
) -> Tensor:
    means = x.mean((2, 3), keepdim=True)
    y = _pixels(means, squeeze, None, between, squeeze_activation, squeeze_low, squeeze_high)
    return _pixels(y, excite, None, outputs, *activation)


def _squeeze_excite_shape(
    x: Tensor, squeeze: Tensor, excite: Tensor, between: int, outputs: int, *args: Any
) -> Tensor:
    return _image(x, outputs, (1, 1))


def _gated_convolution(
    x: Tensor, gate: Tensor, weight: Tensor, residual: Tensor | None, outputs: int, *activation: Any
) -> Tensor:
    return _pixels(x * gate, weight, residual, outputs, *activation)


def _gated_convolution_shape(
    x: Tensor, gate: Tensor, weight: Tensor, residual: Any, outputs: int, *args: Any
) -> Tensor:
    return _image(x, outputs, x.shape[2:])


def _transposed(
    x: Tensor,
    weight: Tensor,
    residual: Tensor | None,
    window: Sequence[int],
    stride: Sequence[int],
    padding: Sequence[int],
    output_padding: Sequence[int],
    activation: int,
    low: float,
    high: float,
) -> Tensor:
    outputs, *taps = window
    bias, kernel = unpack_transposed(weight, outputs, x.shape[1], taps, stride)
    numbers = (list(stride), list(padding), list(output_padding))
    y = _finish(functional.conv_transpose2d(x, kernel, bias, *numbers), residual, activation, low, high)
    return y.contiguous(memory_format=torch.channels_last)


def _transposed_shape(
    x: Tensor,
    weight: Tensor,
    residual: Any,
    window: Sequence[int],
    stride: Sequence[int],
    padding: Sequence[int],
    output_padding: Sequence[int],
    *args: Any,
) -> Tensor:
    sizes = [
        (x.shape[2 + d] - 1) * stride[d] - 2 * padding[d] + window[1 + d] + output_padding[d] for d in (0, 1)
    ]
    return _image(x, window[0], sizes)


def _image(x: Tensor, channels: int, sizes: Sequence[Any], count: Any = None) -> Tensor:
    """An empty image for each of x, or so many."""
    shape = (x.shape[0] if count is None else count, channels, *sizes)
    return torch.empty(shape, dtype=x.dtype, device=x.device, memory_format=torch.channels_last)


# In the order of PackedOps.
_MEANING: dict[str, tuple[Callable[..., Any], Callable[..., Any]]] = {
    "linear_packed": (_linear, _linear_shape),
    "conv2d_packed": (_convolution, _convolution_shape),
    "max_pool2d": (_max_pool, _max_pool),
    "expand_depthwise_packed": (_expand_depthwise, _expand_depthwise_shape),
    "conv2d_direct_packed": (_convolution, _convolution_shape),
    "conv_transpose2d_packed": (_transposed, _transposed_shape),
    "embedding_packed": (_embedding, _embedding_shape),
    "pack_convolution": (_packed, _packed_shape),
    "conv3d_packed": (_video_convolution, _video_convolution_shape),
    "grouped_linear_packed": (_grouped, _grouped_shape),
    "conv2d_parts_packed": (_convolution_of_parts, _convolution_of_parts_shape),
    "linear_strassen_packed": (_linear_strassen, _linear_shape),
    "conv2d_strassen_packed": (_convolution_strassen, _convolution_shape),
    "conv2d_depthwise_packed": (_stem, _stem_shape),
    "squeeze_excite_packed": (_squeeze_excite, _squeeze_excite_shape),
    "conv2d_gated_packed": (_gated_convolution, _gated_convolution_shape),
}
