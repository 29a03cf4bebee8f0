"""Convolutions whose weights the program computes, or that something else reads too."""

from __future__ import annotations

import pytest
import torch
from fused import Calls, check, operators
from torch import Tensor, nn
from torch.nn import functional

import penlight

IMAGE, SIGNAL = torch.randn(2, 8, 9, 10), torch.randn(2, 8, 40)
FACTORS = torch.rand(8) + 0.5


class Modulated(nn.Module):
    """Weights times a factor of each channel, for each image of a batch, as in StyleGAN2."""

    def __init__(self, *, transposed: bool = False) -> None:
        super().__init__()
        self.weight, self.style = nn.Parameter(torch.randn(12, 8, 3, 3)), nn.Linear(5, 8)
        self.transposed = transposed

    def forward(self, x: Tensor, style: Tensor) -> Tensor:
        batch = x.shape[0]
        weight = self.weight[None] * self.style(style)[:, None, :, None, None]
        weight = weight * torch.rsqrt(weight.square().sum((2, 3, 4), keepdim=True) + 1e-8)
        if self.transposed:
            return functional.conv_transpose2d(x, weight[0].transpose(0, 1), stride=2, padding=1)
        y = functional.conv2d(x.reshape(1, -1, *x.shape[2:]), weight.flatten(0, 1), padding=1, groups=batch)
        return functional.leaky_relu(y.reshape(batch, -1, *y.shape[2:]), 0.2)


class Tied(nn.Module):
    """A decoder with the weights of its encoder."""

    def __init__(self) -> None:
        super().__init__()
        self.encode = nn.Conv2d(8, 16, 4, stride=2, padding=1)

    def forward(self, x: Tensor) -> Tensor:
        code = functional.relu(self.encode(x))
        return functional.conv_transpose2d(code, self.encode.weight, stride=2, padding=1)


class FromConstant(nn.Module):
    """The image is a parameter, repeated for the batch."""

    def __init__(self) -> None:
        super().__init__()
        self.image, self.weight = (
            nn.Parameter(torch.randn(1, 40, 4, 4)),
            nn.Parameter(torch.randn(6, 40, 3, 3)),
        )

    def forward(self, style: Tensor) -> Tensor:
        image = self.image.expand(1, -1, -1, -1).reshape(1, -1, 4, 4)
        return functional.conv2d(image, self.weight * style[:, None, None, None], padding=1)


SIZES = [(12, 4, 3, 3), (12, 8, 3, 3), (12, 8, 5), (8, 1, 3, 3), (8, 6, 3, 3), (8, 8, 3, 3)]
WEIGHTS = {sizes: torch.randn(sizes) for sizes in SIZES}


def weights(*sizes: int) -> Tensor:
    return WEIGHTS[sizes]


MODELS = {
    "image": Calls(lambda x, f: functional.conv2d(x, weights(12, 8, 3, 3) * f[:, None, None], padding=1)),
    "signal": Calls(lambda x, f: functional.conv1d(x.flatten(2), weights(12, 8, 5) * f[:, None], padding=2)),
    "groups": Calls(lambda x, f: functional.conv2d(x, weights(12, 4, 3, 3) * f[:4, None, None], groups=2)),
    "depthwise": Calls(
        lambda x, f: functional.conv2d(x, weights(8, 1, 3, 3) * f[:, None, None, None], groups=8)
    ),
    "bias": Calls(lambda x, f: functional.conv2d(x, weights(8, 8, 3, 3), f, stride=2)),
    "transposed": Calls(
        lambda x, f: functional.conv_transpose2d(x, weights(8, 6, 3, 3) * f[:, None, None, None], f[:6], 2)
    ),
    "images as weights": Calls(lambda x, f: functional.conv2d(x, x[:, :, 2:5, 3:7] * f[:, None, None])),
    "in a branch": Calls(
        lambda x, f: torch.cond(
            f.sum() > 0,
            lambda x, f: functional.conv2d(x, weights(8, 8, 3, 3) * f[:, None, None]).amax((2, 3)),
            lambda x, f: x.amin((2, 3)),
            (x, f),
        )
    ),
}


@pytest.mark.parametrize("name", MODELS)
def test_computed(name: str) -> None:
    check(MODELS[name], IMAGE, FACTORS, tolerance=1e-4)
    if name != "in a branch":
        found = operators(MODELS[name], IMAGE, FACTORS)
        assert "pack_convolution" in found and "convolution" not in found


@pytest.mark.parametrize("batch", [1, 3])
def test_modulated(batch: int) -> None:
    model, args = Modulated(), (torch.randn(batch, 8, 7, 6), torch.randn(batch, 5))
    check(model, *args, tolerance=1e-4)
    assert "convolution" not in operators(model, *args)


def test_modulated_and_transposed() -> None:
    check(Modulated(transposed=True), torch.randn(1, 8, 7, 6), torch.randn(1, 5), tolerance=1e-4)


def test_tied_weights() -> None:
    check(Tied(), torch.randn(1, 8, 12, 14), tolerance=1e-4)
    found = operators(Tied(), torch.randn(1, 8, 12, 14))
    assert found.count("pack_convolution") == 2 and "convolution" not in found


def test_image_that_is_a_constant() -> None:
    check(FromConstant(), torch.randn(6), tolerance=1e-4)


def test_images_of_dynamic_size() -> None:
    height, width = torch.export.Dim("height", min=3, max=30), torch.export.Dim("width", min=3, max=30)
    model = MODELS["image"]
    shapes = {"args": ({2: height, 3: width}, None)}
    program = penlight.load(penlight.compile(model, (IMAGE, FACTORS), dynamic_shapes=shapes))
    for sizes in ((3, 3), (30, 30), (4, 17)):
        x = torch.randn(2, 8, *sizes)
        torch.testing.assert_close(program(x, FACTORS), model(x, FACTORS), rtol=1e-4, atol=1e-4)


def test_weights_of_dynamic_sizes_stay_as_they_are() -> None:
    count = torch.export.Dim("count", min=2, max=20)
    model = Calls(lambda x, w: functional.conv2d(x, w * 2))
    shapes = {"args": (None, {0: count})}
    program = penlight.load(penlight.compile(model, (IMAGE, torch.randn(5, 8, 3, 3)), dynamic_shapes=shapes))
    for size in (2, 20):
        w = torch.randn(size, 8, 3, 3)
        torch.testing.assert_close(program(IMAGE, w), model(IMAGE, w), rtol=1e-4, atol=1e-4)
