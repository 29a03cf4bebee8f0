"""Resampling of volumes, which is that of images and then between them."""

from __future__ import annotations

from collections import Counter

import pytest
import torch
from fused import Calls, check, operators
from torch import Tensor, nn
from torch.export import Dim
from torch.nn import functional

import penlight

RESAMPLED = {
    "twice": {"scale_factor": 2.0, "mode": "trilinear"},
    "twice, corners aligned": {"scale_factor": 2.0, "mode": "trilinear", "align_corners": True},
    "to a size": {"size": (7, 3, 11), "mode": "trilinear"},
    "to a size, corners aligned": {"size": (7, 3, 11), "mode": "trilinear", "align_corners": True},
    "to one": {"size": (1, 1, 1), "mode": "trilinear", "align_corners": True},
    "by factors that do not fit": {"scale_factor": (1.7, 0.6, 2.3), "mode": "trilinear"},
    "by factors that are not kept": {
        "scale_factor": (1.7, 0.6, 2.3),
        "mode": "trilinear",
        "recompute_scale_factor": True,
    },
    "nearest": {"scale_factor": 2.0, "mode": "nearest"},
    "nearest, to a size": {"size": (3, 8, 9), "mode": "nearest"},
    "nearest, by factors": {"scale_factor": (1.7, 0.6, 2.3), "mode": "nearest"},
    "nearest to the middle": {"scale_factor": 1.5, "mode": "nearest-exact"},
}


@pytest.mark.parametrize("target", ["cpu", "portable"])
@pytest.mark.parametrize("name", RESAMPLED)
def test_volumes(name: str, target: str) -> None:
    model = Calls(lambda x: functional.interpolate(x, **RESAMPLED[name]))
    for sizes in ((2, 3, 5, 6, 7), (1, 1, 1, 4, 3)):
        check(model, torch.randn(sizes), target=target)
    check(model, torch.randn(1, 2, 4, 5, 6, dtype=torch.float64), target=target)


def test_special_values_and_bytes() -> None:
    x = torch.randn(1, 2, 4, 5, 6)
    x[0, 0, 1, 2, 3], x[0, 1, 3, 0, 0] = torch.nan, torch.inf
    check(Calls(lambda x: functional.interpolate(x, scale_factor=2.0, mode="nearest")), x)
    numbers = torch.randint(0, 255, (1, 2, 4, 5, 6), dtype=torch.uint8)
    check(Calls(lambda x: functional.interpolate(x, size=(3, 9, 5), mode="nearest")), numbers)


@pytest.mark.parametrize("mode", ["trilinear", "nearest"])
def test_images_are_resampled_by_their_kernel(mode: str) -> None:
    model = Calls(lambda x: functional.interpolate(x, scale_factor=2.0, mode=mode))
    found = Counter(operators(model, torch.randn(1, 3, 4, 5, 6)))
    assert found["upsample_bilinear2d"] + found["upsample_nearest2d"] == 1 and found["index"] == 0, found
    assert found["index_select"] == (2 if mode == "trilinear" else 1), found


def test_between_convolutions_and_with_dynamic_batch() -> None:
    class Decoder(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.last = nn.Conv3d(3, 8, 3, padding=1), nn.Conv3d(8, 2, 3, padding=1)

        def forward(self, x: Tensor) -> Tensor:
            return self.last(functional.interpolate(self.first(x).relu(), scale_factor=2.0, mode="trilinear"))

    model, x = Decoder().eval(), torch.randn(2, 3, 4, 6, 5)
    check(model, x)
    program = penlight.compile(model, (x,), dynamic_shapes=({0: Dim("batch", min=1, max=4)},))
    loaded, other = penlight.load(program.to_bytes()), torch.randn(3, 3, 4, 6, 5)
    with torch.no_grad():
        torch.testing.assert_close(loaded(other), model(other), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("target", ["cpu", "portable"])
@pytest.mark.parametrize("mode", ["trilinear", "area"])
def test_precision(mode: str, target: str) -> None:
    """Numbers of 64 bits are not taken for 32, and those of 16 are rounded once."""
    model = Calls(lambda x: functional.interpolate(x, size=(5, 3, 7), mode=mode))
    x = torch.randn(2, 3, 4, 5, 6, dtype=torch.float64)
    torch.testing.assert_close(
        penlight.load(penlight.compile(model, (x,), target=target))(x), model(x), rtol=1e-12, atol=1e-12
    )
    for dtype in (torch.float16, torch.bfloat16):
        some = x.to(dtype)
        got = penlight.load(penlight.compile(model, (some,), target=target))(some)
        torch.testing.assert_close(
            got, model(some.double()).to(dtype), rtol=torch.finfo(dtype).eps, atol=1e-6
        )


@pytest.mark.parametrize("name", RESAMPLED)
def test_dynamic_volumes(name: str) -> None:
    """As of static sizes: images are resampled by their kernel."""
    model = Calls(lambda x: functional.interpolate(x, **RESAMPLED[name]))
    sizes = (dict.fromkeys((0, 2, 3, 4), Dim.AUTO(max=16)),)
    program = penlight.compile(model, (torch.randn(2, 3, 5, 6, 7),), dynamic_shapes=(sizes,))
    loaded = penlight.load(program)
    for given in ((2, 3, 5, 6, 7), (1, 3, 4, 9, 3), (3, 3, 16, 2, 10)):
        x = torch.randn(given)
        torch.testing.assert_close(loaded(x), model(x), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("mode", ["linear", "trilinear"])
def test_to_a_dynamic_size_of_one(mode: str) -> None:
    """With corners aligned the step between places would be divided by zero."""
    dims = 1 if mode == "linear" else 3
    model = Calls(lambda x, like: functional.interpolate(x, like.shape[:dims], mode=mode, align_corners=True))
    x, like = torch.randn(1, 2, *(4, 5, 6)[:dims]), torch.zeros(3, 4, 5)
    sizes = (None, dict.fromkeys(range(dims), Dim.AUTO(max=8)))
    loaded = penlight.load(penlight.compile(model, (x, like), dynamic_shapes=(sizes,)))
    for shape in ((3, 4, 5), (1, 4, 5), (1, 1, 1), (8, 1, 2)):
        given = torch.zeros(*shape[:dims], *like.shape[dims:])
        torch.testing.assert_close(loaded(x, given), model(x, given), rtol=1e-5, atol=1e-5)
