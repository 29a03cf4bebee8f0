"""MTCNN: three small networks in a row find faces. P-Net proposes, R-Net refines, O-Net decides.

The cascade around the networks is ours and uses the one scale of the photo at
which its face is 12 pixels wide, so that each network has one input size.
"""

from __future__ import annotations

import sys
import types

import torch
from torch import Tensor
from torch.nn import functional as F

from . import Model, Runner
from .photos import photo_path, read
from .wheels import folder

SIZE = 60  # pixels: the photo is scaled to this side for P-Net
BATCH = 16  # candidates for R-Net and O-Net in one call
SIZES = {"refine": 24, "output": 48}


def build() -> Model:
    package = folder("facenet_pytorch")
    # The package's own __init__ imports more than the networks; so do the helpers of this file.
    for name, path in (("_mtcnn", package / "models"), ("_mtcnn.utils", package / "models" / "utils")):
        sys.modules[name] = types.ModuleType(name)
        sys.modules[name].__path__ = [str(path)]
    stub = types.ModuleType("_mtcnn.utils.detect_face")
    stub.detect_face = stub.extract_face = None
    sys.modules[stub.__name__] = stub
    import importlib

    nets = importlib.import_module("_mtcnn.mtcnn")
    methods = {"propose": nets.PNet(), "refine": nets.RNet(), "output": nets.ONet()}
    image = photo()
    small = F.interpolate(image, (SIZE, SIZE), mode="area")
    face = torch.tensor([[177.0, 62.0, 271.0, 180.0]]).repeat(BATCH, 1) + torch.arange(BATCH)[:, None]
    calls = [("propose", (small,))] + [(name, (crops(image, face, size),)) for name, size in SIZES.items()]
    return Model(methods, calls, check)


def photo() -> Tensor:
    """The astronaut as [1, 3, 512, 512] in -1..1."""
    return ((read(photo_path("astronaut.png")).float() - 127.5) / 128).permute(2, 0, 1)[None]


def crops(image: Tensor, boxes: Tensor, size: int) -> Tensor:
    """Each box, made square, cut out and scaled to `size`: [boxes, 3, size, size]."""
    cut = []
    for left, top, right, bottom in squares(boxes).round().int().tolist():
        piece = image[:, :, max(top, 0) : max(bottom, top + 1), max(left, 0) : max(right, left + 1)]
        cut.append(F.interpolate(piece, (size, size), mode="area"))
    return torch.cat(cut)


def squares(boxes: Tensor) -> Tensor:
    middle = (boxes[:, :2] + boxes[:, 2:]) / 2
    half = (boxes[:, 2:] - boxes[:, :2]).amax(1, keepdim=True) / 2
    return torch.cat([middle - half, middle + half], 1)


def best_boxes(boxes: Tensor, scores: Tensor, overlap: float) -> Tensor:
    """Indices of boxes, best first, without those that overlap a better one."""
    kept: list[int] = []
    area = (boxes[:, 2:] - boxes[:, :2]).clamp(min=0).prod(1)
    for i in scores.argsort(descending=True).tolist():
        low, high = torch.maximum(boxes[kept, :2], boxes[i, :2]), torch.minimum(boxes[kept, 2:], boxes[i, 2:])
        shared = (high - low).clamp(min=0).prod(1)
        if not kept or float((shared / (area[kept] + area[i] - shared)).max()) <= overlap:
            kept.append(i)
    return torch.tensor(kept, dtype=torch.long)


def detect(run: Runner) -> tuple[Tensor, Tensor]:
    """Boxes [faces, 4] and probabilities [faces] in the photo."""
    image = photo()
    scale = SIZE / image.shape[-1]
    offsets, face = run("propose", F.interpolate(image, (SIZE, SIZE), mode="area"))
    rows, columns = torch.nonzero(face[0, 1] > 0.6, as_tuple=True)
    corner = torch.stack([columns, rows], 1) * 2.0
    boxes = torch.cat([corner + 1, corner + 12], 1) / scale
    scores, shifts = face[0, 1, rows, columns], offsets[0, :, rows, columns].T
    boxes, scores = moved(boxes, shifts, scores, 0.7)
    for method, threshold in (("refine", 0.7), ("output", 0.7)):
        boxes, scores = boxes[:BATCH], scores[:BATCH]
        filled = torch.cat([boxes, boxes[:1].expand(BATCH - len(boxes), 4)])
        shifts, *_, face = run(method, crops(image, filled, SIZES[method]))
        keep = torch.nonzero(face[: len(boxes), 1] > threshold).flatten()
        boxes, scores = moved(
            squares(boxes)[keep], shifts[keep], face[keep, 1], 0.7 if method == "refine" else 0.3
        )
    return boxes, scores


def moved(boxes: Tensor, shifts: Tensor, scores: Tensor, overlap: float) -> tuple[Tensor, Tensor]:
    """The best boxes, each corner shifted by the network's share of the box's side."""
    keep = best_boxes(boxes, scores, overlap)
    side = (boxes[keep, 2:] - boxes[keep, :2]).repeat(1, 2)
    return boxes[keep] + shifts[keep] * side, scores[keep]


def check(run: Runner) -> str:
    boxes, scores = detect(run)
    assert len(boxes) == 1 and float(scores[0]) > 0.99, (boxes, scores)
    left, top, right, bottom = boxes[0].tolist()
    assert left < 224 < right and top < 115 < bottom, boxes
    return f"one face, p = {float(scores[0]):.3f}, x {left:.0f}..{right:.0f}, y {top:.0f}..{bottom:.0f}"
