"""What an engine is given: a model at some batch and length, its inputs, and what eager says.

    NAME                as the model comes: minilm, resnet18
    torchvision:NAME    a classification network of torchvision's, with random weights
    timm:NAME           one of timm's
    FILE.py:FUNCTION    your own: a function that returns a module and its inputs (see networks.py)
    NAME@16             the same on a sequence of 16 tokens
    NAME@b8             on a batch of 8
    NAME@bfloat16       in bfloat16, or float16, between inputs and a result of float32

Inputs and eager's answer are kept as .npy files, so that the process which runs a
file needs no torch.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any
from zlib import crc32

import numpy as np

if TYPE_CHECKING:
    from torch import Tensor, nn

Arrays = list[np.ndarray[Any, Any]]


@dataclass(frozen=True)
class Case:
    """`stateless`: for an engine that keeps no state between runs, which then comes in and goes out."""

    name: str
    stateless: bool = False

    def build(self) -> tuple[nn.Module, tuple[Tensor, ...]]:
        """The module, in evaluation mode, and its inputs."""
        from .graphs import build, in_dtype

        found = re.fullmatch(r"([\w:./-]+)(?:@(?:(b?)(\d+)|(b?float16)))?", self.name)
        if not found:
            raise ValueError(f"no case {self.name!r}: a model's name, then @LENGTH, @bBATCH or @bfloat16")
        name, batched, number, dtype = found.groups()
        module, args = build(f"stateless:{name}" if self.stateless and name in HAS_STATE else name)
        if dtype:
            module = in_dtype(module, dtype)
        if number:
            if name in HAS_STATE:
                raise ValueError(f"{name} has one size: its state has")
            args = tuple(_resized(arg, 0 if batched else 1, int(number)) for arg in args)
        return module.eval(), args

    @property
    def folder(self) -> str:
        file = self.name.split(":")[0]
        # What a file of your own says may change: what is kept of it goes by its bytes.
        version = f"-{crc32(Path(file).read_bytes()):08x}" if file.endswith(".py") else ""
        return re.sub(r"[@:/]", "-", self.name) + ("-stateless" * self.stateless) + version

    def write(self, root: Path) -> None:
        """Keep the inputs and eager's answer under `root`, unless they are there."""
        import torch

        folder = root / self.folder
        if (folder / "expected.npy").exists():
            return
        module, args = self.build()
        with torch.no_grad():
            answer = module(*(arg.clone() for arg in args))
        folder.mkdir(parents=True, exist_ok=True)
        for i, arg in enumerate(args):
            np.save(folder / f"input_{i}.npy", arg.numpy())
        np.save(folder / "expected.npy", (answer[0] if isinstance(answer, tuple | list) else answer).numpy())

    def inputs(self, root: Path) -> Arrays:
        files = sorted((root / self.folder).glob("input_*.npy"), key=lambda path: int(path.stem[6:]))
        return [np.load(path) for path in files]

    def expected(self, root: Path) -> np.ndarray[Any, Any]:
        """The first output."""
        found: np.ndarray[Any, Any] = np.load(root / self.folder / "expected.npy")
        return found


HAS_STATE = ("llama_decode",)


def _resized(arg: Tensor, axis: int, size: int) -> Tensor:
    """Numbers at another size: real ones drawn anew, so that no two images are alike; others in turn."""
    import torch

    shape = [*arg.shape]
    shape[axis] = size
    if arg.is_floating_point():
        return torch.randn(shape, generator=torch.Generator().manual_seed(3))
    return arg.index_select(axis, torch.arange(size) % arg.shape[axis])


def difference(got: np.ndarray[Any, Any], want: np.ndarray[Any, Any]) -> tuple[float, float]:
    """Largest error beside the range of `want`, and the cosine between the two."""
    a, b = got.reshape(-1).astype(np.float64), want.reshape(-1).astype(np.float64)
    if a.shape != b.shape or not np.isfinite(a).all():
        return float("inf"), 0.0
    error = float(np.abs(a - b).max() / (np.ptp(b) or 1.0))
    return error, float(a @ b / (np.linalg.norm(a) * np.linalg.norm(b)))
