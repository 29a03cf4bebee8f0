"""The activations that the kernels over packed weights apply to their sums."""

from __future__ import annotations

from enum import IntEnum


class Activation(IntEnum):
    """Numbers of kernels/optimized/vector/routines.h; they are part of the file format."""

    NONE = 0
    RELU = 1
    CLAMP = 2  # to [low, high]
    SIGMOID = 3
    TANH = 4
    SILU = 5
    GELU = 6
    GELU_TANH = 7
    HARD_SIGMOID = 8
    HARD_SWISH = 9
    LEAKY_RELU = 10  # slope: low
