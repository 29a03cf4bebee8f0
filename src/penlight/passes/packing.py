"""How weights lie in memory for the optimized kernels.

    panels      for each 16 outputs: their 16 biases, then for each step of the sum
                (tap of the window, channel) the 16 weights; outputs past the last are zero
    depthwise   the bias of each output, then for each tap the weight of each output;
                outputs are padded with zeros to a multiple of 16

Panels of layers whose numbers 16 bits hold, all of them, are kept in 16 bits: those of a model
that was trained or stored so. Kernels make them float32 again, and nothing is lost.

One layout serves every instruction set: 16 is a multiple of every vector's width.
A convolution with groups has the panels of one group after the other. A transposed one has those
of one phase after the other: the taps that the outputs reach which are `stride` apart.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence

import torch

from penlight.ir.tensors import Derived, recipe

PANEL = 16


def pack_panels(weight: Derived, bias: torch.Tensor | None, groups: int = 1) -> Derived:
    """Weights `[outputs, ...]` as panels; the steps of the sum are in the order (taps, channels).

    Windows over time are as those of images whose channels are those of all frames, frame by frame.

    Args:
        weight: `[outputs, depth]`, or of a convolution `[outputs, channels, *taps]`.
        bias: `[outputs]`.
    """
    outputs = weight.like.shape[0]
    depth = weight.like.numel() // max(outputs, 1)
    per_group = outputs // groups
    panels = groups * _ceil(per_group, PANEL)

    def pieces() -> Iterator[torch.Tensor]:
        row = 0
        for rows in _rows_of_panels(weight, per_group):
            rows = rows.transpose(1, 2).flatten(1, 2) if rows.dim() == 5 else rows
            steps = rows.flatten(2).transpose(1, 2).flatten(1) if rows.dim() > 2 else rows
            panel = torch.zeros(1 + depth, PANEL, dtype=rows.dtype)
            if bias is not None:
                # No negative zero: it would tell padding that is left out from padding that is multiplied.
                panel[0, : len(rows)] = bias[row : row + len(rows)] + 0.0
            panel[1:, : len(rows)] = steps.T
            yield panel.flatten()
            row += len(rows)

    like = torch.empty(panels * (1 + depth) * PANEL, dtype=weight.like.dtype, device="meta")
    return Derived(like, pieces, recipe("panels", weight, bias, groups))


def pack_groups(weight: Derived) -> Derived:
    """Matrices `[groups, outputs, depth]` as the panels of one after the other, without biases."""
    groups, outputs, depth = weight.like.shape

    def pieces() -> Iterator[torch.Tensor]:
        return (piece.flatten(0, 1) for piece in weight.pieces())

    like = torch.empty(groups * outputs, depth, dtype=weight.like.dtype, device="meta")
    return pack_panels(Derived(like, pieces, recipe("rows", weight)), None, groups)


def in_16_bits(weight: Derived, bias: torch.Tensor | None) -> Derived:
    """`weight` as bfloat16 or float16 if these hold it, and its bias; else as it is."""
    for dtype in (torch.bfloat16, torch.float16):
        parts = itertools.chain([] if bias is None else [bias], weight.pieces())
        if all(torch.equal(part.to(dtype).to(part.dtype), part) for part in parts):
            return weight.to(dtype)
    return weight


def unpack_panels(packed: torch.Tensor, outputs: int, depth: int, groups: int = 1) -> torch.Tensor:
    """`[outputs, 1 + depth]`: bias and weights, the steps of the sum in packed order."""
    panels = packed.reshape(groups, -1, 1 + depth, PANEL).transpose(2, 3).reshape(groups, -1, 1 + depth)
    return panels[:, : outputs // groups].reshape(outputs, 1 + depth)


def pack_transposed(weight: Derived, bias: torch.Tensor | None, stride: Sequence[int]) -> Derived:
    """Weights `[channels, outputs, *taps]` of a transposed convolution, 1-D or 2-D: panels of each phase.

    A phase is a convolution over the taps first, first + stride, ..., the last of them first.
    """
    outputs = weight.like.shape[1]
    depth = weight.like.numel() // max(outputs, 1)  # of all phases
    size = _ceil(outputs, PANEL) * PANEL * (stride[0] * stride[1] + depth)

    def pieces() -> Iterator[torch.Tensor]:
        whole = weight.tensor().transpose(0, 1)
        whole = whole.unsqueeze(2) if whole.dim() == 3 else whole
        for row in range(stride[0]):
            for column in range(stride[1]):
                phase = whole[:, :, row :: stride[0], column :: stride[1]].flip(2, 3)
                yield from pack_panels(Derived.of(phase), bias).pieces()

    like = torch.empty(size, dtype=weight.like.dtype, device="meta")
    return Derived(like, pieces, recipe("transposed", weight, bias, tuple(stride)))


def unpack_transposed(
    packed: torch.Tensor, outputs: int, channels: int, taps: Sequence[int], stride: Sequence[int]
) -> tuple[torch.Tensor, torch.Tensor]:
    """Bias `[outputs]` and weight `[channels, outputs, *taps]`."""
    weight = packed.new_zeros(outputs, channels, *taps)
    bias, at = packed.new_zeros(outputs), 0
    for row in range(stride[0]):
        for column in range(stride[1]):
            phase = weight[:, :, row :: stride[0], column :: stride[1]]
            depth = phase[:1].numel()
            size = _ceil(outputs, PANEL) * PANEL * (1 + depth)
            rows = unpack_panels(packed[at : at + size], outputs, depth)
            steps = rows[:, 1:].reshape(outputs, *phase.shape[2:], channels).permute(0, 3, 1, 2)
            phase.copy_(steps.flip(2, 3))
            bias, at = rows[:, 0], at + size
    return bias, weight.transpose(0, 1)


def pack_depthwise(weight: Derived, bias: torch.Tensor | None) -> Derived:
    """Weights `[outputs, 1, *taps]` of a convolution with a group for each channel."""
    outputs = weight.like.shape[0]
    taps = weight.like.numel() // max(outputs, 1)
    padded = _ceil(outputs, PANEL) * PANEL

    def compute() -> torch.Tensor:
        packed = torch.zeros(1 + taps, padded, dtype=weight.like.dtype)
        if bias is not None:
            packed[0, :outputs] = bias
        packed[1:, :outputs] = weight.tensor().reshape(outputs, taps).T
        return packed.flatten()

    like = torch.empty((1 + taps) * padded, dtype=weight.like.dtype, device="meta")
    return Derived.whole(like, compute, recipe("depthwise", weight, bias))


def _rows_of_panels(weight: Derived, per_group: int) -> Iterator[torch.Tensor]:
    """The rows of one panel after the other; the last of a group may have fewer."""
    waiting: list[torch.Tensor] = []
    have = done = 0  # rows waiting; rows of the group that were given
    for piece in weight.pieces():
        waiting.append(piece)
        have += len(piece)
        rows = torch.cat(waiting) if len(waiting) > 1 else waiting[0]
        while have and have >= (wanted := min(PANEL, per_group - done)):
            yield rows[:wanted]
            rows, have = rows[wanted:], have - wanted
            done = (done + wanted) % per_group
        waiting = [rows] if have else []


def _ceil(count: int, step: int) -> int:
    return -(-count // step)
