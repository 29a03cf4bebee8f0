"""Resampling of images that torch would take apart: bicubic stays one operator."""

from __future__ import annotations

import pytest
import torch
from fused import Calls, check, operators
from torch import Tensor, nn
from torch.export import Dim
from torch.nn import functional

import penlight

WAYS = {
    "twice": {"scale_factor": 2.0},
    "by factors that do not fit": {"scale_factor": (1.7, 0.6)},
    "by factors that are not kept": {"scale_factor": (1.7, 0.6), "recompute_scale_factor": True},
    "to a size": {"size": (11, 3)},
    "to a size, corners aligned": {"size": (11, 3), "align_corners": True},
    "smoothed": {"size": (5, 40), "antialias": True},
    "smoothed, to one": {"size": (1, 1), "antialias": True},
}


@pytest.mark.parametrize("target", ["cpu", "portable"])
@pytest.mark.parametrize("name", WAYS)
def test_bicubic(name: str, target: str) -> None:
    model = Calls(lambda x: functional.interpolate(x, mode="bicubic", **WAYS[name]))
    check(model, torch.randn(2, 3, 9, 14), target=target)
    check(model, torch.randn(2, 70, 9, 14).to(memory_format=torch.channels_last), target=target)
    check(model, torch.randn(1, 2, 1, 7, dtype=torch.float64), target=target)


@pytest.mark.parametrize("name", WAYS)
def test_is_one_operator(name: str) -> None:
    model = Calls(lambda x: functional.interpolate(x, mode="bicubic", **WAYS[name]))
    (name,) = operators(model, torch.randn(2, 3, 9, 14))
    assert name in ("upsample_bicubic2d", "_upsample_bicubic2d_aa")


def test_dynamic_sizes() -> None:
    def resized(x: Tensor) -> tuple[Tensor, Tensor]:
        twice = functional.interpolate(x, size=(2 * x.shape[2], 5), mode="bicubic", align_corners=True)
        return functional.interpolate(x, scale_factor=1.7, mode="bicubic"), twice

    shapes = (({0: Dim("batch", max=4), 2: Dim("height", min=2, max=30)},),)
    compiled = penlight.compile(Calls(resized), (torch.randn(2, 3, 8, 6),), dynamic_shapes=shapes)
    program = penlight.load(compiled.to_bytes())
    for batch, height in ((1, 2), (4, 30), (3, 11)):
        x = torch.randn(batch, 3, height, 6)
        for got, want in zip(program(x), resized(x), strict=True):
            torch.testing.assert_close(torch.as_tensor(got), want, rtol=1e-4, atol=1e-4)


def test_images_between_convolutions_stay_as_they_lie() -> None:
    model = nn.Sequential(
        nn.Conv2d(3, 8, 3),
        nn.Upsample(scale_factor=2, mode="bicubic"),
        nn.Conv2d(8, 8, 3),
        Calls(lambda x: functional.interpolate(x, size=(7, 7), mode="bilinear", antialias=True)),
        nn.Conv2d(8, 4, 3),
    ).eval()
    x = torch.randn(1, 3, 12, 12)
    check(model, x)
    resized = ["upsample_bicubic2d", "conv2d_packed", "_upsample_bilinear2d_aa"]
    assert operators(model, x) == ["conv2d_packed", *resized, "conv2d_packed", "clone"]  # of the result
