"""Photos that ship in scikit-image and scikit-learn, and the names of ImageNet's classes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from .wheels import folder

_FOLDERS = {
    "chelsea.png": "skimage/data",
    "coffee.png": "skimage/data",
    "astronaut.png": "skimage/data",
    "flower.jpg": "sklearn/datasets/images",
    "china.jpg": "sklearn/datasets/images",
}


def photo_path(name: str) -> Path:
    package, *rest = _FOLDERS[name].split("/")
    return folder(package).joinpath(*rest, name)


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


def class_names() -> list[str]:
    """The 1,000 ImageNet classes in the order of a classifier's outputs."""
    data = folder("timm") / "data" / "_info"
    words = dict(
        line.split("\t", 1) for line in (data / "imagenet_synset_to_lemma.txt").read_text().splitlines()
    )
    order = (data / "imagenet_synsets.txt").read_text().split()
    return [words[synset].split(",")[0] for synset in order]


def top_classes(logits: Tensor, count: int = 5) -> list[tuple[str, float]]:
    names = class_names()
    values, indices = logits.flatten().softmax(0).topk(count)
    return [(names[i], p) for p, i in zip(values.tolist(), indices.tolist(), strict=True)]
