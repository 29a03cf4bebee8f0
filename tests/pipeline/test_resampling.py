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


PLAIN = {name: way for name, way in WAYS.items() if "antialias" not in way}


@pytest.mark.parametrize("target", ["cpu", "portable"])
@pytest.mark.parametrize("mode", ["bilinear", "bicubic"])
@pytest.mark.parametrize("name", PLAIN)
def test_bytes(name: str, mode: str, target: str) -> None:
    """Blended and rounded as ATen does it, to the last bit."""
    model = Calls(lambda x: functional.interpolate(x, mode=mode, **PLAIN[name]))
    for order in (torch.contiguous_format, torch.channels_last):
        x = torch.randint(0, 256, (2, 3, 9, 14), dtype=torch.uint8).to(memory_format=order)
        check(model, x, target=target, tolerance=0)


@pytest.mark.parametrize("target", ["cpu", "portable"])
@pytest.mark.parametrize("mode", ["bilinear", "bicubic", "nearest", "nearest-exact"])
def test_bytes_of_dynamic_sizes(mode: str, target: str) -> None:
    def resized(x: Tensor) -> tuple[Tensor, ...]:
        factors = functional.interpolate(x, scale_factor=(1.7, 1.05), mode=mode)
        return functional.interpolate(x, size=(x.shape[3], 5), mode=mode), factors

    shapes = (({0: Dim("batch", max=4), 2: Dim("height", min=2, max=30), 3: Dim("width", min=2, max=30)},),)
    image = torch.randint(0, 256, (3, 3, 30, 30), dtype=torch.uint8)
    example = (image[:2, :, :9, :14].contiguous(),)
    program = penlight.load(penlight.compile(Calls(resized), example, target=target, dynamic_shapes=shapes))
    for sizes in ((2, 9, 14), (1, 2, 5), (3, 30, 30), (2, 3, 29)):
        x = image[: sizes[0], :, : sizes[1], : sizes[2]].contiguous()
        torch.testing.assert_close(program(x), resized(x), rtol=0, atol=0)


@pytest.mark.parametrize("target", ["cpu", "portable"])
@pytest.mark.parametrize("mode", ["bilinear", "bicubic"])
def test_to_a_dynamic_size_of_one(mode: str, target: str) -> None:
    """With corners aligned the step between places would be divided by zero."""
    model = Calls(lambda x, like: functional.interpolate(x, like.shape, mode=mode, align_corners=True))
    x, shapes = torch.randn(1, 2, 4, 5), ((None, dict.fromkeys(range(2), Dim.AUTO(max=8))),)
    program = penlight.compile(model, (x, torch.zeros(3, 4)), target=target, dynamic_shapes=shapes)
    loaded = penlight.load(program)
    for sizes in ((3, 4), (1, 4), (1, 1), (8, 1)):
        like = torch.zeros(sizes)
        torch.testing.assert_close(loaded(x, like), model(x, like), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("target", ["cpu", "portable"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.uint8])
def test_factors_that_leave_or_double_a_size(dtype: torch.dtype, target: str) -> None:
    def resized(x: Tensor) -> list[Tensor]:
        ways = ((mode, factor) for mode in ("nearest", "bilinear") for factor in (1.0, 1.05, 2.3))
        return [functional.interpolate(x, scale_factor=factor, mode=mode) for mode, factor in ways]

    x = torch.randint(0, 256, (2, 3, 3, 9)).to(dtype)
    check(Calls(resized), x, target=target)
