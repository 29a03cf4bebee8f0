"""Real networks with trained weights, and common shapes with seeded ones.

One file a network; each has `build() -> Model`. Weights, photos and tokenizers
come from packages (benchmarks/requirements-models.txt), so nothing is downloaded when
a test runs. The recordings in audio/ are in the tree.
"""

from __future__ import annotations

import copy
import functools
import importlib
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol

import torch
from torch import Tensor, nn


class Runner(Protocol):
    """Something that runs a model: eager PyTorch, our runtime, a peer."""

    def __call__(self, method: str, *args: Tensor) -> Any: ...

    def reset(self) -> None: ...


@dataclass
class Model:
    """A network to compile, inputs to compare on, and a question it must answer.

    `calls` are compared with eager in order, state carried from one to the next.
    `check` drives any runner through a real task, asserts the answer and returns
    it as a line of text.
    """

    methods: dict[str, nn.Module]
    calls: list[tuple[str, tuple[Tensor, ...]]]
    check: Callable[[Runner], str] | None = None
    dynamic: dict[str, Any] = field(default_factory=dict)

    def example(self, method: str) -> tuple[Tensor, ...]:
        return next(args for name, args in self.calls if name == method)


class Eager:
    """The model in PyTorch itself; `reset` gives state its first values again."""

    def __init__(self, model: Model) -> None:
        self.methods = model.methods
        self._first = {name: copy.deepcopy(dict(m.named_buffers())) for name, m in model.methods.items()}

    def __call__(self, method: str, *args: Tensor) -> Any:
        with torch.no_grad():
            return self.methods[method](*args)

    def reset(self) -> None:
        with torch.no_grad():
            for name, module in self.methods.items():
                for key, buffer in module.named_buffers():
                    buffer.copy_(self._first[name][key])


NAMES = {
    "efficientnet_lite0": "efficientnet_lite0",
    "minilm": "minilm",
    "smollm2": "smollm2",
    "whisper_tiny": "whisper_tiny",
    "silero_vad": "silero_vad",
    "crepe_tiny": "crepe_tiny",
    "mtcnn": "mtcnn",
    "mobilenet_v2": "seeded:mobilenet_v2",
    "mobilenet_v3_small": "seeded:mobilenet_v3_small",
    "resnet18": "seeded:resnet18",
    "resnet50": "seeded:resnet50",
    "vit_tiny": "seeded:vit_tiny",
}


@functools.cache
def load(name: str) -> Model:
    """The model of that name, built once a process and in evaluation mode."""
    module, _, function = NAMES[name].partition(":")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model: Model = getattr(importlib.import_module(f"{__name__}.{module}"), function or "build")()
    for part in model.methods.values():
        part.eval().requires_grad_(False)
    return model
