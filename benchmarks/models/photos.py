"""Photos as networks take them, and what classifiers answer."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from benchmarks.packages import class_names, photo_path

__all__ = ["class_names", "classifier_input", "photo_path", "read", "top_classes"]


def read(path: str | Path) -> Tensor:
    """An image file as uint8 [height, width, 3]."""
    with Image.open(path) as image:
        return torch.from_numpy(np.asarray(image.convert("RGB")).copy())


def classifier_input(path: str | Path, size: int = 224) -> Tensor:
    """The middle of a photo as float32 [1, 3, size, size] in -1..1.

    Shorter side to size/0.875, bicubic, centre crop: what the EfficientNet-Lite
    weights were evaluated with.
    """
    with Image.open(path) as opened:
        image = opened.convert("RGB")
    scale = size / 0.875 / min(image.size)
    width, height = (round(side * scale) for side in image.size)
    image = image.resize((width, height), Image.Resampling.BICUBIC)
    left, top = (width - size) // 2, (height - size) // 2
    pixels = np.asarray(image.crop((left, top, left + size, top + size)), np.float32)
    return torch.from_numpy((pixels / 255 - 0.5) / 0.5).permute(2, 0, 1)[None].contiguous()


def top_classes(logits: Tensor, count: int = 5) -> list[tuple[str, float]]:
    names = class_names()
    values, indices = logits.flatten().softmax(0).topk(count)
    return [(names[i], p) for p, i in zip(values.tolist(), indices.tolist(), strict=True)]
