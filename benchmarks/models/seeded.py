"""Common architectures with seeded random weights: what matters here is shape and speed."""

from __future__ import annotations

import sys
from collections.abc import Callable

import torch
from torch import nn

from . import Model


def _torchvision() -> None:
    """Import torchvision, beside a torch that its own library was not built for as well.

    Only the schemas of two operators must exist then; classification calls neither.
    """
    try:
        import torchvision
    except RuntimeError as error:
        if "torchvision::nms" not in str(error):
            raise
    else:
        return
    for name in [name for name in sys.modules if name.partition(".")[0] == "torchvision"]:
        del sys.modules[name]
    for schema in (
        "nms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
        "qnms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
    ):
        torch.library.define(f"torchvision::{schema.split('(')[0]}", schema[schema.index("(") :])
    import torchvision  # noqa: F401


def _classifier(make: Callable[[], nn.Module], sizes: tuple[int, ...] = (1, 3, 224, 224)) -> Model:
    _torchvision()
    torch.manual_seed(0)
    network = make()
    return Model({"forward": network}, [("forward", (torch.randn(sizes),))])


def _running_statistics(network: nn.Module) -> nn.Module:
    """Batch norm as training leaves it: no two channels alike, so that folding is really tested."""
    for part in network.modules():
        if isinstance(part, nn.BatchNorm1d | nn.BatchNorm2d | nn.BatchNorm3d):
            nn.init.uniform_(part.running_mean, -0.1, 0.1)
            nn.init.uniform_(part.running_var, 0.8, 1.2)
            nn.init.uniform_(part.weight, 0.8, 1.2)
            nn.init.uniform_(part.bias, -0.1, 0.1)
    return network


def named(name: str) -> Model:
    """A classification network of torchvision's, of images or of videos of 16 frames."""
    _torchvision()
    import torchvision

    videos = name in torchvision.models.list_models(module=torchvision.models.video)
    side = 112 if name.endswith("_18") else 224  # the ResNets of videos were made for less
    sizes = (1, 3, 16, side, side) if videos else (1, 3, 224, 224)
    return _classifier(lambda: _running_statistics(torchvision.models.get_model(name)), sizes)


def _no_zeros(network: nn.Module) -> nn.Module:
    """Weights that begin as zeros drawn instead: what comes out says something of all that goes before."""
    for weight in network.parameters():
        if weight.dim() > 1 and not weight.any():
            nn.init.normal_(weight, std=0.02)
    return network


def of_timm(name: str) -> Model:
    """A network of timm's, of images as large as it was trained with."""
    _torchvision()
    import timm

    config = timm.get_pretrained_cfg(name)
    if config is None:
        raise ValueError(f"timm has no network {name!r}")

    def make() -> nn.Module:
        return _no_zeros(_running_statistics(timm.create_model(name, pretrained=False)))

    return _classifier(make, (1, *config.input_size))


def mobilenet_v2() -> Model:
    return named("mobilenet_v2")


def mobilenet_v3_small() -> Model:
    return named("mobilenet_v3_small")


def resnet18() -> Model:
    return named("resnet18")


def resnet50() -> Model:
    return named("resnet50")


def vit_tiny() -> Model:
    """ViT-Ti/16: 12 layers, 3 heads, width 192, 5.7 M parameters."""

    def make() -> nn.Module:
        import torchvision

        network = torchvision.models.VisionTransformer(
            image_size=224, patch_size=16, num_layers=12, num_heads=3, hidden_dim=192, mlp_dim=768
        )
        nn.init.normal_(network.heads.head.weight, std=0.02)
        return network

    return _classifier(make)
