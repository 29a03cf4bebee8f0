"""Layers made without weights, for networks whose weights come from elsewhere."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from torch import nn


@contextmanager
def unset_parameters() -> Iterator[None]:
    """Make layers without drawing their random weights, which takes seconds and is thrown away."""
    saved = {kind: kind.reset_parameters for kind in (nn.Linear, nn.Embedding)}
    for kind in saved:
        kind.reset_parameters = lambda self: None
    try:
        yield
    finally:
        for kind, function in saved.items():
            kind.reset_parameters = function
