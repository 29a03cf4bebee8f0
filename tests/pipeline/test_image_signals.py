"""What stands between convolutions of signals computes on images of height 1, without copies."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from tests.pipeline.fused import Calls, check, operators, trained
from torch import Tensor, nn
from torch.export import Dim


class Between(nn.Module):
    """A function of the signals of one convolution, read by another; both have 8 channels."""

    def __init__(self, function: Callable[[Tensor], Tensor], channels: int = 8) -> None:
        super().__init__()
        self.function = function
        self.first, self.second = nn.Conv1d(6, 8, 3, padding=1), nn.Conv1d(channels, 8, 5, padding=2)

    def forward(self, x: Tensor) -> Tensor:
        return self.second(self.function(self.first(x)))


def halves(x: Tensor) -> Tensor:
    a, b = x.chunk(2, 1)
    return torch.tanh(a) * torch.sigmoid(b)


def joined(x: Tensor) -> Tensor:
    return torch.cat([x, x.relu(), x[:, 2:5]], 1)


KINDS: dict[str, tuple[Callable[[Tensor], Tensor], int]] = {
    "activation": (lambda x: F.elu(x) * 2 + x, 8),
    "halves": (halves, 4),
    "glu": (lambda x: F.glu(x, 1), 4),
    "glu of samples": (lambda x: F.glu(x, -1), 8),
    "joined": (joined, 19),
    "joined in time": (lambda x: torch.cat([x, x[..., 3:-2]], -1), 8),
    "every other sample": (lambda x: x[:, :, 1::2], 8),
    "parts": (lambda x: torch.cat(x.split([1, 4, 3], dim=1)[::-1], 1), 8),
    "parts in time": (lambda x: x.split([4, 8], dim=-1)[1], 8),
    "softmax of channels": (lambda x: x.softmax(1), 8),
    "softmax of samples": (lambda x: x.softmax(-1), 8),
    "zeros around": (lambda x: F.pad(x, (2, 1, 0, 3), value=0.5), 11),
    "reflected": (lambda x: F.pad(x, (2, 1), mode="reflect"), 8),
    "replicated": (lambda x: F.pad(x, (0, 3), mode="replicate"), 8),
    "nearest": (lambda x: F.interpolate(x, scale_factor=2.5), 8),
    "nearest to a size": (lambda x: F.interpolate(x, size=7), 8),
    "linear": (lambda x: F.interpolate(x, scale_factor=1.7, mode="linear"), 8),
    "linear by corners": (lambda x: F.interpolate(x, size=19, mode="linear", align_corners=True), 8),
    "greatest": (lambda x: F.max_pool1d(x, 3, 2, 1), 8),
    "average": (lambda x: F.avg_pool1d(x, 3, 2, 1, ceil_mode=True, count_include_pad=False), 8),
    "average to a size": (lambda x: F.adaptive_avg_pool1d(x, 4), 8),
    "gate of channels": (lambda x: x * torch.sigmoid(x.mean(-1, keepdim=True)), 8),
    "scaled": (lambda x: x / (x.std(2, keepdim=True) + 1) + x.amax(-1, keepdim=True), 8),
    "vector for samples": (lambda x: x + torch.arange(12.0), 8),
    "matrix for channels": (lambda x: x * torch.arange(8.0)[:, None], 8),
    "matrix": (lambda x: x - torch.arange(96.0).reshape(8, 12) / 9, 8),
    "of one sample": (lambda x: x + x[..., :1], 8),
    "channels beside": (lambda x: x * x[:, :1] + x[:1], 8),
}
# These take signals of any length.
ANY = [
    name for name in KINDS if name not in ("glu of samples", "parts in time", "vector for samples", "matrix")
]


@pytest.mark.parametrize("batch", [1, 3])
@pytest.mark.parametrize("name", KINDS)
def test_between_convolutions(name: str, batch: int) -> None:
    function, channels = KINDS[name]
    check(Between(function, channels), torch.randn(batch, 6, 12))


@pytest.mark.parametrize(
    "layer",
    [
        nn.PReLU(),
        trained(nn.PReLU(8)),
        trained(nn.GroupNorm(2, 8)),
        trained(nn.InstanceNorm1d(8, affine=True)),
        trained(nn.BatchNorm1d(8)),
        nn.Sequential(nn.ConstantPad1d((1, 2), 0.0), nn.LeakyReLU(0.3), nn.MaxPool1d(2)),
        nn.Sequential(nn.GLU(1), nn.Conv1d(4, 8, 1), nn.Softplus()),
    ],
    ids=lambda layer: type(layer).__name__,
)
def test_no_copies(layer: nn.Module) -> None:
    model, x = nn.Sequential(nn.Conv1d(40, 8, 3), layer, nn.Conv1d(8, 5, 1)), torch.randn(2, 40, 30)
    check(model, x)
    # One before the first convolution, and one after the last.
    assert operators(model, x).count("clone") == 2, operators(model, x)
    check(model, x, without=["signals_as_images"])


def test_one_slope_is_an_activation_of_the_layer() -> None:
    model, x = nn.Sequential(nn.Conv1d(40, 8, 3), nn.PReLU(init=0.1)), torch.randn(2, 40, 30)
    assert not {"_prelu_kernel", "leaky_relu"} & set(operators(model, x))
    check(model, x)


def test_dynamic_length() -> None:
    length = Dim("length", min=4, max=64)
    for name in ("activation", "halves", "joined", "greatest", "zeros around", "gate of channels"):
        function, channels = KINDS[name]
        model = Between(function, channels).eval()
        shapes = ({2: length},)
        program = compiled(model, torch.randn(2, 6, 20), shapes)
        for size in (4, 20, 33, 64):
            x = torch.randn(2, 6, size)
            torch.testing.assert_close(program(x), model(x), rtol=1e-5, atol=1e-5)


def compiled(model: nn.Module, x: Tensor, shapes: object) -> Callable[[Tensor], Tensor]:
    import penlight

    return penlight.load(penlight.compile(model, (x,), dynamic_shapes=shapes).to_bytes())  # type: ignore


class Beside(nn.Module):
    """Convolutions of signals and of images, beside what has a dimension of 1 elsewhere."""

    def __init__(self, function: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.function, self.layer = function, nn.Conv1d(6, 8, 3)

    def forward(self, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        return self.layer(x), self.function(y)


@pytest.mark.parametrize(
    "function",
    [
        lambda y: y.squeeze((0,)).sigmoid(),
        lambda y: y.squeeze((0,)).softmax(-1).unsqueeze(1),
        lambda y: F.pad(y.squeeze((0,)), (1, 1)).mean(-1, keepdim=True),
        lambda y: torch.cat([y.squeeze((0,)), y.squeeze(0)], 1).unsqueeze(0),
        lambda y: y.squeeze((0, 2)).unsqueeze(1).tanh().unsqueeze(2),
        lambda y: y.squeeze((-2,)).tanh().unsqueeze(-2) + y,
    ],
)
def test_other_dimensions_of_1_stay(function: Callable[[Tensor], Tensor]) -> None:
    check(Beside(function), torch.randn(2, 6, 12), torch.randn(1, 3, 1, 9))


RESAMPLED: dict[str, nn.Module] = {
    "twice": nn.Upsample(scale_factor=2),
    "to a size": nn.Upsample(size=9),
    "linear": nn.Upsample(scale_factor=1.5, mode="linear"),
    "linear by corners": nn.Upsample(size=21, mode="linear", align_corners=True),
}


@pytest.mark.parametrize("dim", [0, 1, 2])
@pytest.mark.parametrize("name", RESAMPLED)
def test_resampled_with_one_dynamic_size(name: str, dim: int) -> None:
    model, sizes = RESAMPLED[name], [2, 8, 16]
    program = compiled(model, torch.randn(sizes), ({dim: Dim("size", min=1, max=20)},))
    for size in (1, 5, 20):
        sizes[dim] = size
        x = torch.randn(sizes)
        torch.testing.assert_close(program(x), model(x), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("target", ["cpu", "portable"])
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
def test_gated_units_are_rounded_once(dtype: torch.dtype, target: str) -> None:
    for dim, sizes in ((1, (2, 6, 50)), (-1, (7, 40)), (0, (4,))):
        x = (4 * torch.randn(sizes)).to(dtype)
        check(nn.GLU(dim), x, tolerance=1e-12 if dtype is torch.float64 else 0.0, target=target)


@pytest.mark.parametrize("name", ["twice", "to a size"])
def test_nothing_resampled(name: str) -> None:
    check(RESAMPLED[name], torch.empty(0, 8, 16))


@pytest.mark.parametrize(
    "make, sizes",
    [(nn.InstanceNorm1d, (2, 8, 16)), (nn.InstanceNorm2d, (2, 8, 4, 5)), (nn.InstanceNorm1d, (8, 9))],
)
@pytest.mark.parametrize("tracked", [False, True])
def test_instance_norms(make: Callable[..., nn.Module], sizes: tuple[int, ...], tracked: bool) -> None:
    check(trained(make(8, affine=True, track_running_stats=tracked)), torch.randn(sizes), tolerance=1e-4)


def test_instance_norm_of_dynamic_channels() -> None:
    model = Calls(lambda x: F.instance_norm(x))
    program = compiled(model, torch.randn(2, 8, 16), (({1: Dim("channels", min=1, max=9)},),))
    for channels in (1, 3, 9):
        x = torch.randn(2, channels, 16)
        torch.testing.assert_close(program(x), model(x), rtol=1e-4, atol=1e-4)


class Random(nn.Module):
    """Steps drawn at random: convolutions, what KINDS has, and earlier signals added or joined."""

    def __init__(self, seed: int) -> None:
        super().__init__()
        self.draw = random.Random(seed)
        torch.manual_seed(seed)
        self.layers = nn.ModuleList()
        self.steps: list[tuple[str, int]] = []
        for _ in range(self.draw.randrange(4, 12)):
            kind = self.draw.choice(["conv", "conv", "depthwise", "kind", "kind", "add", "rows"])
            if kind == "conv":
                self.layers.append(nn.LazyConv1d(8, self.draw.choice([1, 3, 5]), padding="same"))
            elif kind == "depthwise":
                self.layers.append(nn.Conv1d(8, 8, 3, padding=1, groups=8))
            elif kind == "rows":
                self.layers.append(trained(nn.LayerNorm(8)))
            self.steps.append((kind, self.draw.randrange(1000)))

    def forward(self, x: Tensor) -> tuple[Tensor, ...]:
        layers, seen = iter(self.layers), [x]
        for kind, number in self.steps:
            if kind in ("conv", "depthwise"):
                x = next(layers)(x)
            elif kind == "rows":
                x = next(layers)(x.mT).mT
            elif kind == "add":
                same = [one for one in seen if one.shape == x.shape]
                x = x + same[number % len(same)] if same else x.sin()
            else:
                y = KINDS[ANY[number % len(ANY)]][0](x)
                # Back to 8 channels, so that any step can follow.
                x = (
                    y
                    if y.shape[1] == 8
                    else y[:, :1] + x[:, :, : y.shape[2]]
                    if y.shape[2] <= x.shape[2]
                    else x
                )
            seen.append(x)
        return x, seen[len(seen) // 2].relu()


def _seeds() -> list[object]:
    return [pytest.param(seed, marks=[pytest.mark.slow] if seed >= 25 else []) for seed in range(300)]


@pytest.mark.parametrize("seed", _seeds())
def test_random_networks(seed: int) -> None:
    model, x = Random(seed), torch.randn(1 + seed % 2, 8, 12 + seed % 5)
    model(x)  # sizes of lazy layers
    check(model, x, tolerance=1e-4)
