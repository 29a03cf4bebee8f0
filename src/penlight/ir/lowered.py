"""LoweredModule: a sub-graph that a backend has turned into bytes."""

from __future__ import annotations

from typing import Any

import torch


class LoweredModule(torch.nn.Module):
    """Stands in a graph as the target of a `call_module` node, which has the sub-graph's results.

    `original` computes the same in eager PyTorch; it serves comparison and is not written.
    """

    def __init__(
        self,
        backend: str,
        data: bytes,
        compile_specs: tuple[tuple[str, bytes], ...] = (),
        original: torch.nn.Module | None = None,
    ) -> None:
        super().__init__()
        self.backend, self.data, self.compile_specs, self.original = backend, data, compile_specs, original

    def forward(self, *args: Any) -> Any:
        if self.original is None:
            raise RuntimeError(f"a sub-graph of backend {self.backend} runs only in the runtime")
        return self.original(*args)
