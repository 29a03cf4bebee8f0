"""Networks over videos: convolutions and pools over time are computed on frames."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from fused import check, operators
from torch import Tensor, nn
from torch.export import Dim
from torch.nn import functional

import penlight


class Layers(nn.Module):
    """A convolution over time and a norm, what is between, and a convolution of images."""

    def __init__(self, first: nn.Module, between: Callable[[Tensor], Tensor], channels: int) -> None:
        super().__init__()
        self.first, self.between = first, between
        self.norm = nn.BatchNorm3d(first.out_channels).eval()
        self.last = nn.Conv3d(channels, 4, (1, 3, 3), padding=(0, 1, 1))
        with torch.no_grad():
            for value in (self.norm.running_mean, self.norm.weight, self.norm.bias):
                assert value is not None
                value.normal_()

    def forward(self, x: Tensor) -> Tensor:
        return self.last(self.between(self.norm(self.first(x))))


def operators_with(first: nn.Module, x: Tensor) -> list[str]:
    """What runs `first`, an activation and a norm, after the answers were compared."""
    model = Layers(first, torch.relu, first.out_channels)
    check(model, x)
    return operators(model, x)


def numbers_of(x: Tensor) -> tuple[int, int, int]:
    return x.shape[0], x.shape[1], x[0, 0].numel()


# Arguments of nn.Conv3d.
CONVOLUTIONS: dict[str, tuple[object, ...]] = {
    "plain": (6, 8, 3),
    "padded": (6, 8, 3, 1, 1),
    "images only": (6, 8, (1, 3, 5), 1, (0, 1, 2)),
    "time only": (6, 8, (3, 1, 1), 1, (1, 0, 0)),
    "time only, in groups": (6, 9, (2, 1, 1), (2, 1, 1), (1, 0, 0), 1, 3),
    "time only, depthwise": (6, 6, (3, 1, 1), 1, (2, 0, 0), (2, 1, 1), 6),
    "every second pixel of several frames": (6, 8, (3, 1, 1), (1, 2, 2)),
    "one frame at a time, every second": (6, 8, 1, (2, 1, 1)),
    "strides": (6, 8, (3, 5, 4), (2, 3, 1), (1, 2, 0)),
    "borders of more than the window": (6, 8, (2, 3, 3), 1, (3, 1, 1)),
    "dilated": (6, 8, (3, 3, 2), 1, (2, 1, 1), (2, 1, 3)),
    "groups": (6, 8, (3, 3, 3), 1, 1, 1, 2),
    "narrow groups": (6, 6, (3, 3, 3), 1, 1, 1, 2),
    "depthwise": (6, 6, (3, 3, 3), (1, 2, 2), 1, 1, 6),
    "depthwise with several outputs": (6, 12, (2, 3, 3), 1, (1, 1, 1), (2, 1, 1), 6),
    "groups of images": (6, 8, (1, 3, 3), 1, 0, 1, 2),
}


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("videos", [1, 3])
@pytest.mark.parametrize("name", CONVOLUTIONS)
def test_convolutions(name: str, videos: int, bias: bool) -> None:
    first = nn.Conv3d(*CONVOLUTIONS[name], bias=bias)  # type: ignore[arg-type]
    found = operators_with(first, torch.randn(videos, 6, 7, 9, 8))
    assert "convolution" not in found and "elementwise" not in found and "relu" not in found
    images = {
        "images only": 2,
        "one frame at a time, every second": 2,
        "groups of images": 2,
        "narrow groups": 4,
    }
    counts = found.count("conv2d_packed"), found.count("conv3d_packed")
    assert counts == ((images[name], 0) if name in images else (1, 1)), found


@pytest.mark.parametrize("channels, size", [(3, 64), (8, 64), (96, 12)])
def test_threads_give_the_same_bits(channels: int, size: int) -> None:
    """Of results that are computed in turns."""
    model = nn.Sequential(nn.Conv3d(channels, 16, 3, padding=1), nn.ReLU(), nn.Conv3d(16, 8, 3, (2, 1, 1)))
    x = torch.randn(2, channels, 9, size, size)
    program = penlight.compile(model.eval(), (x,))
    one, three = (penlight.load(program.to_bytes(), threads=n)["forward"](x) for n in (1, 3))
    assert torch.equal(torch.as_tensor(one), torch.as_tensor(three))


@pytest.mark.parametrize("stride", [1, (1, 2, 2)])
@pytest.mark.parametrize("window", [(3, 1, 1), (1, 3, 3), (3, 3, 3), (2, 1, 3), 1])
@pytest.mark.parametrize("channels", [6, 12, 40])
def test_weights_that_16_bits_hold(channels: int, window: object, stride: object) -> None:
    """Kernels for few channels take those of float32 alone."""
    model = nn.Conv3d(channels, 300, window, stride)  # type: ignore[arg-type]
    model.load_state_dict({name: value.bfloat16().float() for name, value in model.state_dict().items()})
    check(model, torch.randn(1, channels, 4, 5, 6))


class Padded(nn.Module):
    """Causal in time, with a residual, as in networks that see a video frame by frame."""

    def __init__(self, taps: tuple[int, ...], groups: int, around: tuple[int, ...], value: float) -> None:
        super().__init__()
        self.around, self.value = around, value
        self.first = nn.Conv3d(3, 8, 1)
        self.layer = nn.Conv3d(8, 8, taps, padding=(0, taps[1] // 2, taps[2] // 2), groups=groups)

    def forward(self, x: Tensor) -> Tensor:
        x = self.first(x)
        y = self.layer(functional.pad(x, self.around, value=self.value))
        return torch.relu(y + x) if y.shape == x.shape else torch.relu(y)


@pytest.mark.parametrize("videos", [1, 2])
@pytest.mark.parametrize(
    "taps, groups, around, value, is_taken",
    [
        ((3, 3, 3), 8, (0, 0, 0, 0, 2, 0), 0.0, True),
        ((3, 3, 3), 8, (1, 0, 0, 2, 1, 1), 0.0, True),
        ((3, 1, 1), 1, (0, 0, 0, 0, 2, 0), 0.0, True),
        ((3, 1, 1), 8, (0, 0, 0, 0, 1, 3), 0.0, True),
        ((3, 1, 1), 1, (0, 1, 0, 0, 2, 0), 0.0, True),
        ((3, 3, 3), 1, (0, 0, 0, 0, 2, 0), 0.0, True),
        ((2, 3, 3), 1, (0, 2, 1, 0, 0, 3), 0.0, True),
        ((3, 3, 3), 8, (0, 0, 0, 0, 2, 0), 0.5, False),
        ((3, 3, 3), 8, (0, 0, 0, 0, 2, -1), 0.0, False),
        ((3, 3, 3), 4, (0, 0, 0, 0, 2, 0), 0.0, False),
    ],
)
def test_zeros_around_videos(
    taps: tuple[int, ...], groups: int, around: tuple[int, ...], value: float, is_taken: bool, videos: int
) -> None:
    model, x = Padded(taps, groups, around, value), torch.randn(videos, 3, 5, 6, 7)
    check(model, x)
    found = operators(model, x)
    assert found.count("constant_pad_nd") == int(not is_taken) and "relu" not in found, found


# Arguments of nn.ConvTranspose3d.
TRANSPOSED: dict[str, tuple[object, ...]] = {
    "twice of all": (6, 8, 2, 2),
    "three frames of one": (6, 8, (3, 3, 2), (3, 2, 1), (0, 1, 0), (0, 1, 0)),
    "images only": (6, 8, (1, 3, 3), (1, 2, 2), (0, 1, 1)),
    "frames overlap": (6, 8, 3, 2, 1, 1),
    "two of each": (6, 8, 4, 2, 1),
    "no stride": (6, 8, 3),
    "cut at both ends": (6, 8, (5, 3, 3), (2, 1, 2), (3, 1, 1)),
    "more than it reaches": (6, 8, (4, 2, 2), (3, 2, 2), 0, (2, 1, 0)),
    "some phases longer": (6, 8, (7, 1, 1), (3, 1, 1), (1, 0, 0)),
}


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("videos", [1, 2])
@pytest.mark.parametrize("name", TRANSPOSED)
def test_transposed_convolutions(name: str, videos: int, bias: bool) -> None:
    first = nn.ConvTranspose3d(*TRANSPOSED[name], bias=bias)  # type: ignore[arg-type]
    found = operators_with(first, torch.randn(videos, 6, 3, 5, 4))
    assert "convolution" not in found and {"conv_transpose2d_packed", "conv2d_packed"} & set(found[:-1])


BETWEEN: dict[str, Callable[[Tensor], Tensor]] = {
    "activation": lambda x: functional.silu(x) * 0.5,
    "residual": lambda x: torch.relu(x + x.tanh()),
    "a number for each channel": lambda x: x * torch.arange(8.0).view(8, 1, 1, 1) - torch.ones(1, 8, 1, 1, 1),
    "gates of the video": lambda x: x * torch.sigmoid(x.mean((2, 3, 4), keepdim=True)),
    "gates of each frame": lambda x: x * torch.sigmoid(x.mean((3, 4), keepdim=True)),
    "one frame for all": lambda x: x + torch.linspace(0, 1, 90).view(10, 9) * torch.ones(8, 1, 1, 1),
    "a line of each channel": lambda x: x * torch.linspace(0, 1, 80).view(1, 8, 1, 10, 1),
    "a number for each frame": lambda x: x * torch.linspace(0, 1, 6).view(6, 1, 1),
    "frames before the first": lambda x: functional.pad(x, (0, 0, 0, 0, 4, 0)),
    "borders of every kind": lambda x: functional.pad(x, (1, 2, 0, 1, 2, 0), value=1.5).tanh(),
    "borders of images": lambda x: functional.pad(x, (1, 0, 0, 2)) * 2,
    "frames and borders cut": lambda x: functional.pad(x, (-1, 0, 0, 2, 0, -2)) * 2,
    "channels added": lambda x: functional.pad(x, (0, 0, 0, 0, 0, 0, 1, 1))[:, 1:9],
    "two of the channels": lambda x: torch.cat([x, x.relu()], 1)[:, 4:12],
    "channels counted from the end": lambda x: torch.cat([x.tanh(), x], -4)[:, 2:10],
    "videos joined": lambda x: torch.cat([x.tanh(), x], 0),
    "frames joined": lambda x: torch.cat([x, x.tanh()], -3),
    "a slope for each channel": lambda x: functional.prelu(x, torch.linspace(-1, 1, 8)),
    "where": lambda x: torch.where(x > 0.1, x, x * 0.5),
    "pool of images": lambda x: functional.max_pool3d(x, (1, 3, 2), (1, 2, 1), (0, 1, 0)),
    "pool over time": lambda x: functional.max_pool3d(x, (3, 1, 1), (2, 1, 1), (1, 0, 0)),
    "pool over both": lambda x: functional.max_pool3d(x, 3, 2, 1),
    "dilated pool": lambda x: functional.max_pool3d(x, (2, 2, 3), 1, 0, (2, 1, 2)),
    "pool with a ceiling": lambda x: functional.max_pool3d(x, 2, 2, ceil_mode=True),
    "places of the maxima": lambda x: functional.max_pool3d(x, 2, return_indices=True)[1].float(),
    "averages": lambda x: functional.avg_pool3d(x, 2),
    "group norm": lambda x: functional.group_norm(x, 4, torch.arange(8.0), torch.ones(8)),
    "instance norm": lambda x: functional.leaky_relu(functional.instance_norm(x)) + x,
    "group norm and its means": lambda x: (
        torch.native_group_norm(x, None, None, *numbers_of(x), 2, 1e-5)[0]
        + torch.native_group_norm(x, None, None, *numbers_of(x), 2, 1e-5)[1].mean()
    ),
    "time turned around": lambda x: x.flip(2),
    "frames left out": lambda x: x[:, :, 1:, 2:],
}


@pytest.mark.parametrize("videos", [1, 2])
@pytest.mark.parametrize("name", BETWEEN)
def test_between_convolutions(name: str, videos: int) -> None:
    model = Layers(nn.Conv3d(3, 8, 3, padding=1), BETWEEN[name], 8)
    # A norm of each channel takes away a bias of several units, that the layer's sums began with.
    tolerance = 1e-4 if name == "instance norm" else 1e-5
    check(model, torch.randn(videos, 3, 6, 10, 9), tolerance=tolerance)


@pytest.mark.parametrize(
    "name",
    ["activation", "residual", "a number for each channel", "pool over both", "group norm", "instance norm"],
)
def test_frames_stay_channels_last(name: str) -> None:
    """They are turned once at the beginning and once at the end."""
    model, x = Layers(nn.Conv3d(40, 8, 3, padding=1), BETWEEN[name], 8), torch.randn(1, 40, 6, 10, 9)
    assert operators(model, x).count("clone") <= 1


class Weighed(nn.Module):
    """Frames before the first are zeros, and each frame's channels are weighed."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = nn.Conv3d(40, 8, 1), nn.Conv3d(8, 4, 1)
        self.deep = nn.Conv3d(8, 8, (3, 3, 3), padding=(0, 1, 1), groups=8)
        self.narrow, self.wide = nn.Conv3d(8, 2, 1), nn.Conv3d(2, 8, 1)

    def forward(self, x: Tensor) -> Tensor:
        y = self.deep(functional.pad(functional.hardswish(self.first(x)), (0, 0, 0, 0, 2, 0)))
        weights = self.wide(self.narrow(y.mean((3, 4), keepdim=True)).relu()).sigmoid()
        return self.last(y * weights)


@pytest.mark.parametrize("videos", [1, 2])
def test_padded_and_weighed_frames_are_not_moved(videos: int) -> None:
    model, x = Weighed(), torch.randn(videos, 40, 6, 10, 9)
    found = operators(model, x)
    assert found.count("clone") <= 3, "the video, and the weights of one pixel"
    check(model, x)


def test_what_is_not_finite_stays_in_its_windows() -> None:
    model, x = Layers(nn.Conv3d(2, 8, 3, padding=1), BETWEEN["pool over both"], 8), torch.randn(2, 2, 9, 9, 9)
    x[0, 1, 2, 3, 4], x[1, 0, 8, 8, 8] = torch.nan, torch.inf
    check(model, x)


def test_two_networks_share_a_video() -> None:
    class Branches(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.parts = nn.ModuleList(
                nn.Sequential(nn.Conv3d(3, 4, (k, 3, 3), padding=(k // 2, 1, 1)), nn.ReLU())
                for k in (1, 3, 5)
            )
            self.last = nn.Conv3d(12, 2, 1)

        def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
            joined = torch.cat([part(x) for part in self.parts], 1)
            return self.last(joined), joined

    check(Branches(), torch.randn(2, 3, 5, 8, 8))


class Fixed(nn.Module):
    def __init__(self, dtype: torch.dtype = torch.float32) -> None:
        super().__init__()
        self.layer = nn.Conv3d(3, 4, 3, padding=1, dtype=dtype)

    def forward(self, x: Tensor) -> Tensor:
        return self.layer(x)


class Twice(Fixed):
    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:  # type: ignore[override]
        return self.layer(x), self.layer.weight


class Turned(Fixed):
    def __init__(self, *args: int) -> None:
        super().__init__()
        self.layer = nn.ConvTranspose3d(3, 6, *args)  # type: ignore[assignment]


class Given(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return functional.conv3d(x, x[:, :, :2, :2, :2])


LEFT: dict[str, tuple[nn.Module, Tensor, str]] = {
    "double": (Fixed(torch.float64), torch.randn(1, 3, 4, 5, 6, dtype=torch.float64), "not of float32"),
    "read twice": (Twice(), torch.randn(1, 3, 4, 5, 6), "something else reads the weight"),
    "transposed": (Turned(3, 2, 1, 0, 3), torch.randn(1, 3, 4, 5, 6), "with groups or dilation"),
    "gaps": (Turned(2, 3), torch.randn(1, 3, 4, 5, 6), "leaves frames out"),
    "weight given": (Given(), torch.randn(2, 3, 4, 5, 6), "its weight is not a constant"),
}


@pytest.mark.parametrize("name", LEFT)
def test_what_stays_says_why(name: str) -> None:
    model, x, reason = LEFT[name]
    left = [str(one.reason) for one in penlight.compile(model.eval(), (x,)).report.left]
    assert any(reason in one for one in left), left
    check(model, x)


class Chunks(nn.Module):
    """One layer for several videos, as causal encoders take frames in chunks."""

    def __init__(self, layer: nn.Module, other: nn.Module | None = None) -> None:
        super().__init__()
        self.layer, self.other = layer, other

    def forward(self, x: Tensor) -> tuple[Tensor, ...]:
        chunks = [self.layer(part).relu() for part in x.split(4, 2)]
        return (*chunks, chunks[0].sum() if self.other is None else self.other(x))


SHARED: dict[str, nn.Module] = {
    "window": nn.Conv3d(32, 24, 3, padding=1),
    "strides": nn.Conv3d(32, 24, 3, (1, 2, 2)),
    "over time": nn.Conv3d(32, 24, (3, 1, 1)),
    "one pixel": nn.Conv3d(32, 192, 1),
    "depthwise": nn.Conv3d(32, 192, 3, padding=1, groups=32),
    "grouped": nn.Conv3d(32, 24, 3, padding=1, groups=4),
    "transposed": nn.ConvTranspose3d(32, 24, 2, 2),
}


@pytest.mark.parametrize("name", SHARED)
def test_a_layer_of_several_videos_is_in_the_file_once(name: str) -> None:
    # Tiles of 96 channels differ by nearly the tolerance from a direct sum: not with any weights at all.
    torch.manual_seed(0)
    layer, x = SHARED[name], torch.randn(1, 32, 12, 6, 7)
    layer.reset_parameters()  # type: ignore[operator]
    one = penlight.compile(layer, (x[:, :, :4].contiguous(),))
    several = penlight.compile(Chunks(layer), (x,))
    found = operators(Chunks(layer), x)
    assert not {"convolution", "pack_convolution"} & set(found), found
    # Less than with the weights once more, 4 bytes each.
    assert len(several.to_bytes()) < len(one.to_bytes()) + layer.weight.numel() * 3  # type: ignore[operator]
    check(Chunks(layer), x)


def test_a_layer_that_something_else_reads_stays_for_all() -> None:
    layer, x = nn.Conv3d(32, 24, 3, padding=1), torch.randn(1, 32, 12, 6, 7)

    class Norm(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return (layer.weight * x.sum()).sum()

    model = Chunks(layer, Norm())
    left = [str(one.reason) for one in penlight.compile(model, (x,)).report.left]
    assert sum("something else reads the weight" in one for one in left) == 3
    check(model, x)


class Unet(nn.Module):
    """What networks over volumes have, at two sizes."""

    def __init__(self, groups: int = 1) -> None:
        super().__init__()
        self.first = nn.Conv3d(3, 8, 3, padding=1)
        self.deep = nn.Conv3d(8, 8, 3, padding=1, groups=groups)
        self.wide = nn.Conv3d(8, 8, (3, 1, 1), padding=(1, 0, 0))
        self.up = nn.ConvTranspose3d(8, 8, 3, 2, 1, 1)
        self.norm = nn.GroupNorm(4, 8)
        self.last = nn.Conv3d(16, 2, 1)

    def forward(self, x: Tensor) -> Tensor:
        first = torch.relu(self.norm(self.first(x)))
        half = functional.avg_pool3d(first, 2) + functional.max_pool3d(first, 2)
        y = self.up(torch.relu(self.wide(self.deep(half) + half)))
        return self.last(torch.cat([first, y], 1))


DYNAMIC: dict[str, dict[int, Dim | tuple[int, Dim]]] = {
    "videos": {0: Dim("videos", min=1, max=4)},
    "time": {2: 2 * Dim("half", min=1, max=5)},
    "videos and time": {0: Dim("videos", min=1, max=4), 2: 2 * Dim("half", min=1, max=5)},
    "images": {3: 2 * Dim("h", min=1, max=6), 4: 2 * Dim("w", min=1, max=7)},
    "all": {
        0: Dim("videos", min=1, max=3),
        2: 2 * Dim("half", min=1, max=5),
        3: 2 * Dim("h", min=1, max=6),
        4: 2 * Dim("w", min=1, max=7),
    },
}


@pytest.mark.parametrize("groups", [1, 2, 8])
@pytest.mark.parametrize("name", DYNAMIC)
def test_dynamic_sizes(name: str, groups: int) -> None:
    model, x = Unet(groups).eval(), torch.randn(2, 3, 4, 6, 8)
    program = penlight.compile(model, (x,), dynamic_shapes=(DYNAMIC[name],))
    loaded = penlight.load(program.to_bytes())
    found = loaded["forward"].instruction_names()
    assert not [name for name in found if "aten::convolution" in name or "pool3d" in name], found
    for sizes in ((1, 10, 2, 14), (3, 2, 12, 6), (2, 6, 4, 4)):
        shape = [
            size if dim in DYNAMIC[name] else own
            for dim, size, own in zip((0, 2, 3, 4), sizes, (2, 4, 6, 8), strict=True)
        ]
        x = torch.randn(shape[0], 3, *shape[1:])
        torch.testing.assert_close(loaded(x), model(x), rtol=1e-4, atol=1e-5)


def test_without() -> None:
    model, x = Fixed(), torch.randn(1, 3, 4, 5, 6)
    assert "convolution" in operators(model, x, without=["convolve_frames"])
    check(model, x, without=["convolve_frames"])
