"""In which order images are computed: the one that leaves the least to copy."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest
import torch
from tests.pipeline.fused import Calls, check, operators
from torch import Tensor, nn
from torch.export import Dim
from torch.nn import functional

import penlight
from penlight.passes.image_order import is_elementwise

IMAGE = torch.randn(2, 12, 10, 9)


def patches(y: Tensor) -> Tensor:
    """Each place of all patches of 2 x 3 pixels a row, as MobileViT has them."""
    n, c, h, w = y.shape
    return y.view(n, c, h // 2, 2, w // 3, 3).permute(0, 1, 3, 5, 2, 4).reshape(n, c, 6, h * w // 6)


def together(y: Tensor) -> Tensor:
    n, c, _, count = y.shape
    return y.view(n, c, 2, 3, count // 3, 3).permute(0, 1, 4, 2, 5, 3).reshape(n, c, 2 * count // 3, 9)


class Between(nn.Module):
    """`function` of an image between two convolutions, and of that image's convolution."""

    def __init__(self, function: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.function = function
        self.first, self.last = nn.Conv2d(12, 12, 3, padding=1), nn.Conv2d(12, 8, 1)

    def forward(self, x: Tensor) -> Tensor:
        return self.last(self.function(self.first(x).relu()))


COLUMN, ROW, PLANE = torch.randn(1, 12, 10, 1), torch.randn(9), torch.randn(2, 1, 10, 9)


@pytest.mark.parametrize(
    "function",
    [
        lambda y: y * y.norm(dim=(2, 3), keepdim=True),
        lambda y: y / (y.var((2, 3), keepdim=True) + 1),
        lambda y: torch.where(y > 0.5, y.sin(), torch.atan2(y, y + 2)),
        lambda y: functional.max_pool2d(y, 3, 1, 1) + functional.avg_pool2d(y, 3, 1, 1),
        lambda y: torch.cat([y[:, :6], y[:, 6:].erf()], 1).clamp(min=torch.tensor(0.1)),
        lambda y: functional.group_norm(y, 3) - y.amax((2, 3), keepdim=True),
        lambda y: y.softmax(1) + y.log_softmax(-1) * y.softmax(2),
        lambda y: (y > 0.1) * y.floor() + y.bool() * 2,
        lambda y: torch.cat(y.unflatten(1, (3, 4)).transpose(1, 2).flatten(1, 2).split(6, 1)[::-1], 1),
        lambda y: y.transpose(2, 3).cos().transpose(2, 3),
        lambda y: together(patches(y) * patches(y).norm(dim=(2, 3), keepdim=True)),
        lambda y: y.view(2, 12, 5, 2, 9).permute(0, 1, 3, 2, 4).reshape(2, 24, 5, 9)[:, ::2],
    ],
    ids=range(12),
)
def test_images_stay_between_convolutions(function: Callable[[Tensor], Tensor]) -> None:
    model = Between(function)
    assert operators(model, IMAGE).count("clone") == 1, "the result alone"
    check(model, IMAGE)


@pytest.mark.parametrize(
    "function",
    [
        lambda y: y * COLUMN,
        lambda y: y + ROW,
        lambda y: y * PLANE + PLANE[0],
        lambda y: y * y.sum(3, keepdim=True),
        lambda y: y + y.mean(1, keepdim=True),
        lambda y: y.cumsum(2) * y,
        lambda y: y.transpose(2, 3).tanh().transpose(2, 3),
        lambda y: functional.softmax(y, 3) @ torch.ones(9, 9) + y,
        lambda y: y.flip(1) + y,
        lambda y: y[:1].transpose(2, 3).sin().transpose(2, 3) + y,
        lambda y: y[1:].view(1, 12, 5, 2, 9).permute(0, 1, 3, 2, 4).reshape(1, 12, 10, 9) + y,
        lambda y: y[:, :6].transpose(1, 2).flatten(2).sum(2)[:, None, :, None] + y,
        lambda y: y.view(1, 24, 10, 9).tanh().view(2, 12, 10, 9),
        lambda y: functional.layer_norm(y, (9,)) * y,
    ],
    ids=range(14),
)
def test_what_is_broadcast_or_wants_rows(function: Callable[[Tensor], Tensor]) -> None:
    check(Between(function), IMAGE)
    check(Between(lambda y: function(y) + y), IMAGE)
    check(Calls(function), IMAGE)


class Stream(nn.Module):
    """Blocks beside a stream that begins and ends as rows, as MobileViT has them."""

    def __init__(self, blocks: int) -> None:
        super().__init__()
        self.norms = nn.ModuleList(nn.GroupNorm(1, 12) for _ in range(blocks))
        self.layers = nn.ModuleList(nn.Conv2d(12, 12, 1) for _ in range(blocks))

    def forward(self, x: Tensor) -> Tensor:
        x = x.transpose(2, 3) * 2
        for norm, layer in zip(self.norms, self.layers, strict=True):
            x = x + layer(norm(x)).sigmoid()
        return x.transpose(2, 3)


def test_a_stream_is_converted_once() -> None:
    """By what turns it at both ends."""
    for blocks in (1, 5):
        assert "clone" not in operators(Stream(blocks), IMAGE)
        check(Stream(blocks), IMAGE)


def test_heads_of_an_image_take_one_copy() -> None:
    """In rows, of three dimensions or more, as attention and products want them."""

    class Heads(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.last = nn.Conv2d(12, 36, 1), nn.Conv2d(12, 12, 1)

        def forward(self, x: Tensor) -> Tensor:
            q, k, v = self.first(x).view(2, 3, 12, 90).mT.split(4, -1)
            y = q.relu() @ (k.relu().mT @ v)
            return self.last(y.mT.reshape(x.shape))  # type: ignore[no-any-return]

    assert operators(Heads(), IMAGE).count("clone") <= 2, "the input's and the result's"
    check(Heads(), IMAGE)


def test_rows_stay_rows() -> None:
    """One small convolution does not turn a large computation on rows around it."""

    class Rows(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Conv2d(1, 12, 1)

        def forward(self, x: Tensor) -> Tensor:
            y = x
            for _ in range(3):
                y = functional.layer_norm(y, (9,)) + y
            return y + self.layer(x[:, :1, :1, :1])

    assert operators(Rows(), IMAGE).count("clone") <= 2, "of one pixel"
    check(Rows(), IMAGE)


def test_one_channel_lies_in_both_orders() -> None:
    model = Calls(lambda x: functional.layer_norm(x * 2, (9,)).transpose(2, 3).flatten(1))
    assert "clone" not in operators(model, torch.randn(2, 1, 5, 9))
    check(Between(lambda y: y * y[:, :1]), IMAGE)


# From images of one channel, or of one pixel, which lie the same in both orders.
TO_LARGER: dict[str, tuple[Callable[[Tensor], Tensor], tuple[int, ...]]] = {
    "joined channels": (lambda x: torch.cat([x, 1 - x], 1), (1, 1, 6, 7)),
    "many channels": (lambda x: torch.cat([x] * 40, 1), (2, 1, 6, 7)),
    "channels added": (lambda x: x - torch.tensor([0.4, 0.5, 0.6]).view(3, 1, 1), (1, 1, 6, 7)),
    "channels around": (lambda x: functional.pad(x, (0, 0, 0, 0, 1, 1)), (1, 1, 6, 7)),
    "first channel twice": (lambda x: torch.cat([x[:, :1], x[:, :1]], 1), (2, 3, 6, 7)),
    "shuffled to one": (lambda x: torch.cat([functional.pixel_shuffle(x, 2)] * 2, 1), (1, 4, 3, 4)),
    "pixels beside": (lambda x: torch.cat([x] * 5, 3), (1, 4, 1, 1)),
    "pixels below": (lambda x: torch.cat([x, x.sin()], 2), (2, 4, 1, 1)),
    "pixels around": (lambda x: functional.pad(x, (2, 1, 2, 2)), (1, 4, 1, 1)),
    "nearest": (lambda x: functional.interpolate(x, size=(5, 6)), (1, 4, 1, 1)),
    "blended": (lambda x: functional.interpolate(x, size=(5, 6), mode="bilinear"), (2, 4, 1, 1)),
    "times a map": (lambda x: x * torch.ones(1, 1, 5, 5), (1, 4, 1, 1)),
    "pooled": (lambda x: functional.interpolate(x.mean((2, 3), keepdim=True), size=(6, 7)), (1, 4, 6, 7)),
}
READERS: dict[str, Callable[[int], nn.Module]] = {
    "pointwise": lambda c: nn.Conv2d(c, 6, 1),
    "depthwise": lambda c: nn.Conv2d(c, c, 3, padding=1, groups=c),
    "wide": lambda c: nn.Conv2d(c, 6, 3, padding=1),
    "transposed": lambda c: nn.ConvTranspose2d(c, 6, 3, 2),
    "pooled": lambda c: nn.Sequential(nn.MaxPool2d(3, 1, 1), nn.Conv2d(c, 4, 1)),
    "normalised": lambda c: nn.Sequential(nn.GroupNorm(1, c), nn.Conv2d(c, 4, 1)),
    "resampled": lambda c: nn.Sequential(nn.Upsample(scale_factor=2, mode="bilinear"), nn.Conv2d(c, 4, 1)),
}


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("before", [False, True])
@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("name", TO_LARGER)
def test_from_what_lies_in_both_orders(name: str, reader: str, before: bool, dynamic: bool) -> None:
    function, sizes = TO_LARGER[name]
    x = torch.randn(2 if dynamic else sizes[0], *sizes[1:])
    channels = function(x).shape[1]
    first = [nn.Conv2d(sizes[1], sizes[1], 1)] if before else []
    model = nn.Sequential(*first, Calls(function), READERS[reader](channels)).eval()
    shapes = ({0: Dim("batch", min=1, max=5)},) if dynamic else None
    program = penlight.load(penlight.compile(model, (x,), dynamic_shapes=shapes).to_bytes())
    for batch in (1, 2, 5) if dynamic else (sizes[0],):
        x = torch.randn(batch, *sizes[1:])
        torch.testing.assert_close(program(x), model(x), rtol=1e-5, atol=1e-5)


def test_pieces_of_a_product_are_images() -> None:
    """Queries, keys and values as images for a pooling convolution, as in MViT."""

    class Pooled(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.qkv = nn.Linear(12, 36)
            self.pools = nn.ModuleList(nn.Conv2d(12, 12, 3, padding=1, groups=12) for _ in range(3))

        def forward(self, x: Tensor) -> tuple[Tensor, ...]:
            rows = self.qkv(x).reshape(2, 90, 3, 12).permute(2, 0, 1, 3).unbind(0)
            images = (one.reshape(2, 10, 9, 12).permute(0, 3, 1, 2) for one in rows)
            pooled = (pool(image) for pool, image in zip(self.pools, images, strict=True))
            return tuple(one.permute(0, 2, 3, 1).reshape(2, 90, 12) for one in pooled)

    x = torch.randn(2, 90, 12)
    assert "clone" not in operators(Pooled(), x)
    check(Pooled(), x)


def test_operators_of_the_user_read_what_the_model_gives() -> None:
    """Rows, though they say that they compute element by element: their kernels may count on it."""
    library = torch.library.Library("image_order_test", "FRAGMENT")
    library.define("twice(Tensor x) -> Tensor", tags=(torch.Tag.pointwise,))
    assert is_elementwise(torch.ops.aten.mul.Tensor)
    assert not is_elementwise(torch.ops.image_order_test.twice.default)
    assert not is_elementwise(torch.ops.aten.rand_like.default)


def test_dynamic_sizes() -> None:
    model = nn.Sequential(Stream(2), Between(lambda y: y.sin() * y.norm(dim=(2, 3), keepdim=True)))
    sizes = {"input": {0: Dim("n", max=9), 2: Dim("h", max=20), 3: Dim("w", max=20)}}
    program = penlight.load(penlight.compile(model, (IMAGE,), dynamic_shapes=sizes).to_bytes())
    for shape in ((1, 12, 3, 20), (9, 12, 20, 2)):
        x = torch.randn(shape)
        torch.testing.assert_close(program(x), model(x), rtol=1e-4, atol=1e-5)


def test_left_out() -> None:
    model = Stream(3)
    found, without = (operators(model, IMAGE, without=names) for names in ([], ["keep_channels_last"]))
    assert without.count("clone") > found.count("clone")
    check(model, IMAGE, without=["keep_channels_last"])


class Random(nn.Module):
    """Operators on images and rows, drawn anew for each seed; every result is an input of later ones."""

    def __init__(self, seed: int) -> None:
        super().__init__()
        self.seed = seed
        self.layers = nn.ModuleDict()

    def layer(self, name: str, make: Callable[[], nn.Module]) -> nn.Module:
        if name not in self.layers:
            self.layers[name] = make()
        return self.layers[name]

    def forward(self, x: Tensor) -> Tensor:
        draw = random.Random(self.seed)
        seen = [x]
        for step in range(draw.randint(4, 12)):
            seen.append(self.step(draw, step, seen))
        return seen[-1] + sum(one.sum((2, 3), keepdim=True).mean(1, keepdim=True) for one in seen[-3:])

    def step(self, draw: random.Random, step: int, seen: list[Tensor]) -> Tensor:
        y = draw.choice(seen[-4:])
        n, c, h, w = y.shape
        fits = [one for one in seen if one.shape == y.shape]
        other = draw.choice(fits)
        kind = draw.randrange(17)
        if kind < 3:
            k, groups = draw.choice((1, 3)), draw.choice((1, 1, c))
            return self.layer(f"conv{step}", lambda: nn.Conv2d(c, c, k, padding=k // 2, groups=groups))(y)  # type: ignore[no-any-return]
        if kind == 3:
            return self.layer(f"norm{step}", lambda: nn.GroupNorm(2, c))(y)  # type: ignore[no-any-return]
        if kind == 4:
            return self.layer(f"rows{step}", lambda: nn.Linear(c, c))(y.flatten(2).mT).mT.view(y.shape)  # type: ignore[no-any-return]
        if kind == 5:
            return y.flatten(2).softmax(-1).view(y.shape) * w
        return [
            lambda: torch.sin(y) + other,
            lambda: y * other.mean((2, 3), keepdim=True),
            lambda: y * other.mean(draw.choice((1, 2, 3)), keepdim=True).tanh(),
            lambda: torch.cat([y[:, : c // 2], other[:, c // 2 :]], 1),
            lambda: torch.cat(other.split(c // 2, 1)[::-1], 1).sigmoid() + y,
            lambda: y.softmax(draw.randrange(4)),
            lambda: y.transpose(2, 3).reshape(y.shape),
            lambda: functional.max_pool2d(y, 3, 1, 1),
            lambda: y.view(n, 2, c // 2, h, w).transpose(1, 2).reshape(y.shape),
            lambda: y.view(n, c, h // 2, 2, w // 2, 2).permute(0, 1, 3, 5, 2, 4).reshape(y.shape),
            lambda: torch.where(y > other, y, other.abs().clamp(max=3)),
        ][kind - 6]()


@pytest.mark.parametrize(
    "seed", [*range(40), *(pytest.param(n, marks=pytest.mark.slow) for n in range(40, 400))]
)
def test_random_images(seed: int) -> None:
    torch.manual_seed(seed)
    model, x = Random(seed), torch.randn(2, 8, 6, 4)
    model(x)
    check(model, x, tolerance=1e-4)
