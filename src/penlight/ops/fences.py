"""Calls with known bytes around every tensor, which tell when a kernel wrote outside.

What is tested may be wrong: a kernel for float32 that takes int8 as well writes four
times too much, over whatever lies there. Between fences that is a finding, not a crash.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch.utils import _pytree as pytree

from penlight.ops.calls import Kernel
from penlight.ops.shapes import Spec

_BYTE = 0xA5


class WroteOutside(Exception):
    """Of its tensors, the kernel did."""


def call_between_fences(kernel: Kernel, arguments: Mapping[str, Any]) -> None:
    """Call a kernel on copies.

    Raises:
        WroteOutside: it did.
        PenlightError: it refused, as it may.
    """
    given = {name: _copies(value) for name, value in arguments.items()}
    outs = [
        [_result(one) for one in spec] if isinstance(spec, list) else _result(spec)
        for spec in kernel.results(given)
    ]
    try:
        kernel.call(given, outs)
    finally:
        tensors = [leaf for leaf in pytree.tree_leaves((given, outs)) if isinstance(leaf, torch.Tensor)]
        if not all(map(is_whole, tensors)):
            raise WroteOutside


def fenced(tensor: torch.Tensor) -> torch.Tensor:
    """A copy, row-major, in the middle of a larger piece of memory."""
    nbytes, fence = tensor.numel() * tensor.element_size(), _fence(tensor)
    memory = torch.full((nbytes + 2 * fence,), _BYTE, dtype=torch.uint8)
    middle = memory[fence : fence + nbytes].view(tensor.dtype).view(tensor.shape)
    return middle.copy_(tensor.detach())


def is_whole(tensor: torch.Tensor) -> bool:
    """Are the bytes around a tensor of fenced() as they were?"""
    memory = torch.empty(0, dtype=torch.uint8).set_(tensor.untyped_storage())
    fence = _fence(tensor)
    return bool(memory[:fence].eq(_BYTE).all() and memory[-fence:].eq(_BYTE).all())


def _fence(tensor: torch.Tensor) -> int:
    """Room for every element as the widest type, in bytes that keep all alignments."""
    return (tensor.numel() * 16 + 1023) // 1024 * 1024 + 1024


def _copies(value: Any) -> Any:
    return pytree.tree_map(lambda leaf: fenced(leaf) if isinstance(leaf, torch.Tensor) else leaf, value)


def _result(spec: Spec) -> torch.Tensor:
    return fenced(torch.zeros(spec.sizes, dtype=getattr(torch, spec.dtype)))
