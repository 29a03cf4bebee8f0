"""A convolution after cat reads what was concatenated where it lies."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from tests.pipeline.fused import check, operators
from torch import Tensor, nn
from torch.export import Dim

import penlight


class Joined(nn.Module):
    """`parts` convolutions of one image, concatenated, and `layer` over that."""

    def __init__(
        self, channels: tuple[int, ...], layer: nn.Module, function: Callable[..., Tensor] | None = None
    ) -> None:
        super().__init__()
        self.parts = nn.ModuleList(nn.Conv2d(3, count, 3, padding=1) for count in channels)
        self.layer, self.function = layer, function

    def forward(self, x: Tensor) -> Tensor:
        parts = [part(x).relu() for part in self.parts]
        y = torch.cat(parts, 1)
        return self.layer(y) if self.function is None else self.function(self.layer, parts, y)


LAYERS: dict[str, tuple[tuple[int, ...], nn.Module]] = {
    "1x1": ((32, 32), nn.Conv2d(64, 40, 1)),
    "1x1, several": ((64, 32, 96), nn.Conv2d(192, 24, 1)),
    "1x1, stride": ((32, 64), nn.Conv2d(96, 16, 1, 2)),
    "3x3": ((32, 32), nn.Conv2d(64, 32, 3, padding=1)),
    "3x3, wide": ((128, 64), nn.Conv2d(192, 64, 3, padding=1)),
    "3x3, stride": ((48, 48), nn.Conv2d(96, 50, 3, 2, 1)),
    "dilated": ((64, 64), nn.Conv2d(128, 32, 3, padding=5, dilation=5)),
    "wide window": ((64, 64), nn.Conv2d(128, 16, (1, 7), padding=(0, 3))),
}


@pytest.mark.parametrize("name", LAYERS)
@pytest.mark.parametrize("sizes", [(1, 3, 9, 10), (2, 3, 16, 15)], ids=str)
def test_parts(name: str, sizes: tuple[int, ...]) -> None:
    model, x = Joined(*LAYERS[name]), torch.randn(sizes)
    found = operators(model, x)
    assert "conv2d_parts_packed" in found and "cat" not in found
    check(model, x, tolerance=1e-4)


def test_with_activation_and_residual() -> None:
    model = Joined((32, 32), nn.Conv2d(64, 32, 1), lambda layer, parts, y: F.silu(layer(y) + parts[0]))
    x = torch.randn(1, 3, 7, 11)
    assert operators(model, x)[2:] == ["conv2d_parts_packed", "clone"]
    check(model, x, tolerance=1e-4)


def test_special_values() -> None:
    for size in (1, 3):
        model, x = Joined((32, 64), nn.Conv2d(96, 32, size, padding=size // 2)), torch.randn(1, 3, 16, 16)
        x[0, 0, 5, 6], x[0, 1, 12, 3] = torch.nan, torch.inf
        check(model, x, tolerance=1e-4)


KEPT: dict[str, tuple[tuple[int, ...], nn.Module, Callable[..., Tensor] | None]] = {
    "channels in common": ((40, 24), nn.Conv2d(64, 32, 1), None),
    "few outputs": ((32, 32), nn.Conv2d(64, 4, 1), None),
    "groups": ((32, 32), nn.Conv2d(64, 32, 3, groups=2), None),
    "another reader": ((32, 32), nn.Conv2d(64, 64, 1), lambda layer, parts, y: layer(y) * y.sigmoid()),
    "residual": ((32, 32), nn.Conv2d(32, 64, 1), lambda layer, parts, y: (layer(parts[0]) + y).relu()),
    "too many": ((32,) * 5, nn.Conv2d(160, 16, 3), None),
    "rows": ((32, 32), nn.Conv2d(32, 16, 1), lambda layer, parts, y: layer(torch.cat(parts, 2))),
}


@pytest.mark.parametrize("name", KEPT)
def test_what_stays(name: str) -> None:
    model, x = Joined(*KEPT[name]), torch.randn(2, 3, 9, 10)
    assert "conv2d_parts_packed" not in operators(model, x)
    check(model, x, tolerance=1e-4)


def test_several_readers() -> None:
    first, second = nn.Conv2d(64, 16, 1), nn.Conv2d(64, 24, 3, padding=1)
    model = Joined((32, 32), first, lambda layer, parts, y: torch.cat([layer(y), second(y)], 1).relu())
    x = torch.randn(1, 3, 12, 8)
    assert operators(model, x).count("conv2d_parts_packed") == 2
    check(model, x, tolerance=1e-4)


def test_dynamic_images() -> None:
    for layer in (nn.Conv2d(96, 32, 1), nn.Conv2d(96, 32, 3, padding=1)):
        model, x = Joined((32, 64), layer), torch.randn(2, 3, 8, 12)
        sizes = ({0: Dim("n", max=3), 2: Dim("h", min=2, max=20), 3: Dim("w", min=2, max=30)},)
        assert "conv2d_parts_packed" in operators(model, x)
        check(model, x, tolerance=1e-4, dynamic_shapes=sizes)


@pytest.mark.parametrize("dynamic", [False, True])
def test_parts_without_channels(dynamic: bool) -> None:
    """As encoders of segmentation_models_pytorch give them, of the sizes that features would have."""

    def without_channels(layer: nn.Module, parts: list[Tensor], y: Tensor) -> Tensor:
        return layer(torch.cat([parts[0], parts[0].new_empty(y.shape[0], 0, *y.shape[2:]), parts[1]], 1))

    model, x = Joined((32, 64), nn.Conv2d(96, 32, 1), without_channels), torch.randn(2, 3, 8, 12)
    assert "conv2d_parts_packed" in operators(model, x)
    sizes = ({0: Dim("n", max=3), 2: Dim("h", min=2, max=20)},)
    check(model, x, tolerance=1e-4, **({"dynamic_shapes": sizes} if dynamic else {}))


def test_threads() -> None:
    for layer in (nn.Conv2d(160, 96, 1), nn.Conv2d(160, 96, 3, padding=1), nn.Conv2d(160, 96, (3, 1), 2)):
        model, x = Joined((96, 64), layer).eval(), torch.randn(1, 3, 40, 36)
        program = penlight.compile(model, (x,)).to_bytes()
        one, *others = (penlight.load(program, threads=threads)(x) for threads in (1, 2, 5))
        for other in others:
            assert torch.equal(one, other)


def test_weights_of_16_bits() -> None:
    x = torch.randn(1, 3, 16, 16)
    for dtype in (torch.bfloat16, torch.float16):
        model = Joined((32, 64), nn.Conv2d(96, 32, 1)).to(dtype)
        assert "conv2d_parts_packed" in operators(model, x.to(dtype))
        check(model, x.to(dtype), tolerance=3e-2)
