"""The model as ONNX, which two of the engines read."""

from __future__ import annotations

from pathlib import Path
from typing import Any


def write_onnx(module: Any, args: tuple[Any, ...], folder: Path) -> Path:
    import torch

    path = folder / "model.onnx"
    torch.onnx.export(module, args, str(path), dynamo=True, verbose=False, optimize=True)
    return path
