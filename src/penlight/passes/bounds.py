"""Operators that bound each element by two numbers: ReLU, ReLU6, clamp."""

from __future__ import annotations

from typing import Any

import torch
from torch.fx import Node

aten = torch.ops.aten


def bounds_of(node: Node) -> tuple[float, float] | None:
    """Between which numbers `node` keeps its input, infinite where there is none; None if it does not."""
    if node.kwargs:
        return None
    if node.target is aten.relu.default:
        return 0.0, torch.inf
    if node.target not in (aten.hardtanh.default, aten.clamp.default):
        return None
    missing = (-1.0, 1.0) if node.target is aten.hardtanh.default else (-torch.inf, torch.inf)
    given: list[Any] = [*node.args[1:3], None, None][:2]
    low, high = (default if bound is None else bound for bound, default in zip(given, missing, strict=True))
    if all(isinstance(bound, int | float) and bound == bound for bound in (low, high)):
        return float(low), float(high)
    return None


def set_bounds(node: Node, low: float, high: float) -> None:
    """Make `node` one that keeps its input between these numbers."""
    if (low, high) == (0.0, torch.inf):
        node.target, node.args = aten.relu.default, node.args[:1]
        return
    node.target = aten.clamp.default
    node.args = (node.args[0], low, high if high < torch.inf else None)
