"""Channels-last images and matrices of pixels are read as each other, without copies."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn
from torch.export import Dim

import penlight


class Between(nn.Module):
    """Something between two convolutions."""

    def __init__(self, function: Callable[[Tensor], Tensor], *, signal: bool = False) -> None:
        super().__init__()
        kind = nn.Conv1d if signal else nn.Conv2d
        self.before, self.after = kind(40, 24, 3, padding=1), kind(24, 8, 3, padding=1)
        self.norm, self.layer, self.function = nn.LayerNorm(24), nn.Linear(24, 24), function

    def forward(self, x: Tensor) -> Tensor:
        return self.after(self.function(self, self.before(x)))  # type: ignore[call-arg]


def tokens(m: Between, x: Tensor) -> Tensor:
    """As vision transformers do."""
    return m.layer(m.norm(x.flatten(2).transpose(1, 2))).transpose(1, 2).reshape(x.shape)


def pixels(m: Between, x: Tensor) -> Tensor:
    return m.layer(m.norm(x.permute(0, 2, 3, 1))).permute(0, 3, 1, 2)


def scaled(m: Between, x: Tensor) -> Tensor:
    """A factor for each channel, and the image itself: both in the order of images."""
    return pixels(m, x) * m.norm.weight[:, None, None] + x


def times(m: Between, x: Tensor) -> Tensor:
    return m.norm(x.transpose(1, 2)).transpose(1, 2)


def gated(m: Between, x: Tensor) -> Tensor:
    return times(m, x).sigmoid() * x


IMAGES = {"tokens": tokens, "pixels": pixels, "scaled": scaled}
SIGNALS = {"times": times, "gated": gated}


class Pooled(nn.Module):
    """Images of which the example has a single pixel, after two halvings."""

    def __init__(self, layer: nn.Module) -> None:
        super().__init__()
        self.layer = layer

    def forward(self, x: Tensor) -> Tensor:
        return self.layer(nn.functional.avg_pool2d(nn.functional.avg_pool2d(x, 2), 2))


@pytest.mark.parametrize("batch", [1, 2])
@pytest.mark.parametrize(
    "layer",
    [
        nn.Conv2d(8, 40, 3, padding=1),
        nn.Conv2d(8, 8, 3, padding=1, groups=8),
        nn.Conv2d(8, 48, 1),
        nn.Sequential(nn.Conv2d(8, 40, 3, padding=1), nn.Conv2d(40, 8, 3, padding=1)),
    ],
    ids=repr,
)
def test_dynamic_sizes_traced_for_one_pixel(layer: nn.Module, batch: int) -> None:
    model, x = Pooled(layer).eval(), torch.randn(batch, 8, 4, 6)
    h, w = Dim("h", min=2, max=16), Dim("w", min=2, max=16)
    program = penlight.load(penlight.compile(model, (x,), dynamic_shapes=({2: 2 * h, 3: 2 * w},)).to_bytes())
    for sizes in ((4, 6), (8, 8), (4, 8), (32, 4), (30, 32)):
        x = torch.randn(batch, 8, *sizes)
        torch.testing.assert_close(program(x), model(x), rtol=1e-4, atol=1e-5)


def check(model: nn.Module, x: Tensor, **options: object) -> int:
    """How many copies it takes to be right."""
    program = penlight.load(penlight.compile(model.eval(), (x,), **options).to_bytes())
    with torch.no_grad():
        torch.testing.assert_close(program(x), model(x), rtol=1e-4, atol=1e-5, equal_nan=True)
    return sum("copy" in name for name in program["forward"].instruction_names())


# The first convolution reads the input as it is or converts it, and the result is converted back.
OUTSIDE = 2


@pytest.mark.parametrize("sizes", [(1, 40, 6, 5), (2, 40, 6, 5), (2, 40, 1, 7), (1, 40, 1, 1)])
@pytest.mark.parametrize("name", IMAGES)
def test_no_copies_between_convolutions(name: str, sizes: tuple[int, ...]) -> None:
    model, x = Between(IMAGES[name]), torch.randn(sizes)
    assert check(model, x) <= OUTSIDE
    x[0, 3, 0, 0] = torch.nan
    check(model, x)


@pytest.mark.parametrize("sizes", [(1, 40, 9), (3, 40, 9), (2, 40, 1)])
@pytest.mark.parametrize("name", SIGNALS)
def test_no_copies_of_signals(name: str, sizes: tuple[int, ...]) -> None:
    assert check(Between(SIGNALS[name], signal=True), torch.randn(sizes)) <= OUTSIDE


@pytest.mark.parametrize("name", IMAGES)
def test_left_out(name: str) -> None:
    model, x = Between(IMAGES[name]), torch.randn(1, 40, 6, 5)
    assert check(model, x, without=["read_images_as_pixels"]) > OUTSIDE
    check(model, x, without=["keep_channels_last"])


MOVED: dict[str, Callable[[Between, Tensor], Tensor]] = {
    "rows for columns": lambda m, x: x.permute(0, 2, 3, 1).transpose(1, 2).permute(0, 3, 2, 1).contiguous(),
    "turned": lambda m, x: x.permute(0, 3, 2, 1).reshape(x.shape),
    "part of the pixels": lambda m, x: m.norm(x.permute(0, 2, 3, 1)[:, :3]).permute(0, 3, 1, 2),
    "shuffled channels": lambda m, x: x.unflatten(1, (2, 12)).transpose(1, 2).flatten(1, 2),
    "windows": lambda m, x: windows(m, x),
    "batches for rows": lambda m, x: x.permute(2, 1, 0, 3),
    "the image and its pixels": lambda m, x: (
        x * x.flatten(2).transpose(1, 2).mean((1, 2))[:, None, None, None]
    ),
    "pixels read twice": lambda m, x: times_pixels(m, x.permute(0, 2, 3, 1)),
}


def times_pixels(m: Between, x: Tensor) -> Tensor:
    return (m.norm(x) * x.sigmoid()).permute(0, 3, 1, 2)


def windows(m: Between, x: Tensor) -> Tensor:
    x = m.norm(x.unflatten(2, (2, 3)).permute(0, 3, 4, 2, 1))
    return x.permute(0, 4, 3, 1, 2).flatten(2, 3)


@pytest.mark.parametrize("name", MOVED)
def test_what_moves_elements_is_right(name: str) -> None:
    check(Between(MOVED[name]), torch.randn(2, 40, 6, 5))


def test_equal_pixels_and_images_stay_two() -> None:
    """The same permute as an image and as a row-major tensor: one result, two orders in memory."""

    class Twice(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Conv2d(6, 6, 3, padding=1)

        def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
            image = (x * 2).permute(0, 3, 1, 2)
            return self.layer(image), image.contiguous().view(-1)

    model, x = Twice().eval(), torch.randn(2, 4, 5, 6)
    with torch.no_grad():
        for got, want in zip(
            penlight.load(penlight.compile(model, (x,)).to_bytes())(x), model(x), strict=True
        ):
            torch.testing.assert_close(got, want, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("dim", [0, 2])
def test_dynamic_sizes(dim: int) -> None:
    model = Between(pixels).eval()
    shapes = ({dim: Dim("size", min=2, max=8)},)
    program = penlight.load(
        penlight.compile(model, (torch.randn(3, 40, 6, 5),), dynamic_shapes=shapes).to_bytes()
    )
    for size in (2, 6, 8):
        x = torch.randn([size if d == dim else n for d, n in enumerate((3, 40, 6, 5))])
        with torch.no_grad():
            torch.testing.assert_close(program(x), model(x), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("mode", ["nearest", "bilinear"])
def test_upsampled_images_stay_channels_last(mode: str) -> None:
    model = Between(lambda m, x: nn.functional.interpolate(x, scale_factor=2.0, mode=mode))
    assert check(model, torch.randn(1, 40, 6, 5)) <= OUTSIDE


class Causal(nn.Module):
    """A convolution over time of [batch, time, channels], cut where the input ends, and the input."""

    def __init__(self, norm: nn.Module, transposed: bool) -> None:
        super().__init__()
        kind = nn.ConvTranspose1d(48, 48, 3, 2) if transposed else nn.Conv1d(48, 48, 3, padding=2)
        self.norm, self.layer = norm, kind

    def forward(self, x: Tensor) -> Tensor:
        return x + self.layer(self.norm(x).transpose(1, 2))[..., : x.shape[1]].transpose(1, 2)


@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("norm", [nn.ReLU(), nn.RMSNorm(48), nn.LayerNorm(48), nn.Linear(48, 48)], ids=repr)
def test_signals_of_transformers(norm: nn.Module, transposed: bool) -> None:
    for sizes in ((1, 16, 48), (2, 7, 48)):
        check(Causal(norm, transposed), torch.randn(sizes))
    model, x = Causal(norm, transposed).eval(), torch.randn(2, 7, 48)
    program = penlight.load(penlight.compile(model, (x,), dynamic_shapes=({1: Dim("t", min=2, max=20)},)))
    for length in (2, 5, 20):
        x = torch.randn(2, length, 48)
        torch.testing.assert_close(program(x), model(x), rtol=1e-4, atol=1e-5)


class Permuted(nn.Module):
    def __init__(self, layer: nn.Module, dims: tuple[int, ...]) -> None:
        super().__init__()
        self.layer, self.dims = layer, dims

    def forward(self, x: Tensor) -> Tensor:
        return self.layer(torch.relu(x).permute(self.dims))


@pytest.mark.parametrize("dims", [(0, 3, 1, 2), (0, 3, 2, 1), (2, 3, 0, 1), (1, 3, 0, 2)], ids=str)
@pytest.mark.parametrize("sizes", [(3, 6, 1, 48), (3, 1, 6, 48), (1, 1, 6, 48), (3, 1, 1, 48)], ids=str)
@pytest.mark.parametrize(
    "layer",
    [
        nn.Conv2d(48, 7, 3, padding=1),
        nn.Conv2d(48, 7, 1),
        nn.Conv2d(48, 48, 3, padding=1, groups=48),
        nn.ConvTranspose2d(48, 5, 2, 2),
        nn.MaxPool2d(3, 1, 1),
    ],
    ids=repr,
)
def test_images_one_pixel_wide(layer: nn.Module, sizes: tuple[int, ...], dims: tuple[int, ...]) -> None:
    """Whether these lie channels-last their strides do not say."""
    check(Permuted(layer, dims), torch.randn(sizes))
