"""Factors, summands and parallel branches become part of the layer beside them."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch
from tests.pipeline.fused import Calls, check, operators, trained
from torch import Tensor, nn
from torch.export import Dim
from torch.nn import functional

import penlight

NAME = "fold_affine"
LAYERS = ("linear_packed", "conv2d_packed")
IMAGE = torch.randn(2, 6, 9, 11)


class Scaled(nn.Module):
    """What `function` makes of a layer's result and a parameter."""

    def __init__(self, layer: nn.Module, shape: tuple[int, ...], function: Callable[..., Tensor]) -> None:
        super().__init__()
        self.layer, self.function = layer, function
        self.gamma = nn.Parameter(torch.randn(shape))

    def forward(self, x: Tensor) -> Tensor:
        return self.function(self.layer(x), self.gamma)


def arithmetic(model: nn.Module, *args: Tensor, **options: object) -> list[str]:
    """Operators of `model` but for its layers, with copies between orders of an image."""
    return [name for name in operators(model, *args, **options) if name not in (*LAYERS, "clone")]


@pytest.mark.parametrize(
    "shape, function",
    [
        ((6,), lambda y, g: y * g),
        ((1, 1, 6), lambda y, g: g * y),
        ((), lambda y, g: y * g),
        ((6,), lambda y, g: y + g),
        ((1,), lambda y, g: y - g),
        ((6,), lambda y, g: g - y),
        ((6,), lambda y, g: y / (g.abs() + 1)),
        ((6,), lambda y, g: torch.add(y, g, alpha=3)),
        ((6,), lambda y, g: torch.sub(g, y, alpha=3) * g),
        ((1,), lambda y, g: (y * 3 + 1) / 7 - 2),
        ((6, 1), lambda y, g: y.permute(0, 2, 1) * g),
        ((6, 1), lambda y, g: y.permute(0, -1, 1) * g),
    ],
    ids=range(12),
)
@pytest.mark.parametrize("bias", [True, False])
def test_linear(shape: tuple[int, ...], function: Callable[..., Tensor], bias: bool) -> None:
    model, x = Scaled(nn.Linear(4, 6, bias=bias), shape, function), torch.randn(3, 5, 4)
    assert not {"mul", "add", "sub", "div", "elementwise"} & {*arithmetic(model, x)}
    assert {"mul", "add", "sub", "div", "elementwise"} & {*arithmetic(model, x, without=[NAME])}
    check(model, x)


@pytest.mark.parametrize(
    "layer, sizes",
    [
        (nn.Conv1d(6, 6, 3), (2, 6, 9)),
        (nn.Conv2d(6, 6, 3, groups=3), (2, 6, 9, 11)),
        (nn.Conv3d(6, 6, 2), (2, 6, 4, 5, 3)),
        (nn.ConvTranspose2d(6, 6, 3, stride=2, groups=2), (2, 6, 4, 5)),
    ],
    ids=["1-d", "groups", "3-d", "transposed"],
)
def test_convolutions(layer: nn.Module, sizes: tuple[int, ...]) -> None:
    x = torch.randn(sizes)
    per_channel = (6, *[1] * (layer.weight.dim() - 2))  # type: ignore[union-attr,operator]
    model = Scaled(layer, per_channel, lambda y, g: (y * g - g) / 2)
    assert not {"mul", "sub", "div", "elementwise"} & {*arithmetic(model, x)}
    check(model, x)


def norm(channels: int = 6) -> nn.Module:
    return trained(nn.BatchNorm2d(channels))


BOUNDS: dict[str, Callable[[Tensor], Tensor]] = {
    "relu": torch.relu,
    "relu6": functional.relu6,
    "hardtanh": lambda y: functional.hardtanh(y, -0.25, 0.5),
    "from below": lambda y: y.clamp(min=-0.25),
    "from above": lambda y: y.clamp(max=0.25),
}
ONE_NUMBER: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "scaled": lambda y, g: y * g[0].abs(),
    "turned": lambda y, g: y * -g[0].abs(),
    "affine": lambda y, g: (y * g[0] - 0.25) / 3 + g[1],
    "difference": lambda y, g: g[0] - y,
}
LAYER_KINDS = {
    "convolution": (nn.Conv2d(6, 6, 3, padding=1), IMAGE),
    "linear": (nn.Linear(11, 6), IMAGE),
    "norm": (nn.Sequential(nn.Conv2d(6, 6, 3, bias=False), norm(6)), IMAGE),
}


@pytest.mark.parametrize("kind", LAYER_KINDS)
@pytest.mark.parametrize("bound", BOUNDS)
@pytest.mark.parametrize("step", ONE_NUMBER)
def test_bounds_move(kind: str, bound: str, step: str) -> None:
    """Learnable affine blocks: the layer scales, and bounds its sums by other numbers."""
    layer, x = LAYER_KINDS[kind]
    model = Scaled(layer, (2,), lambda y, g: ONE_NUMBER[step](BOUNDS[bound](y), g))
    assert not arithmetic(model, x)
    assert arithmetic(model, x, without=[NAME])
    check(model, x)


def test_a_relu_of_scaled_channels_stays_one() -> None:
    model = Scaled(nn.Conv2d(6, 6, 3), (6, 1, 1), lambda y, g: torch.relu(y) * (g.abs() + 0.1))
    assert not arithmetic(model, IMAGE)
    assert arithmetic(model, IMAGE, without=["fuse_epilogues"]) == ["relu"]
    check(model, IMAGE)


@pytest.mark.parametrize(
    "function",
    [
        lambda y, g: torch.relu(y) * g,  # turns some channels
        lambda y, g: torch.relu(y) + g,  # bounds by other numbers for each
        lambda y, g: functional.relu6(y) * g.abs(),
        lambda y, g: y.clamp(0.5, -0.5) * 2,  # always -0.5
        lambda y, g: functional.silu(y) * 2,
        lambda y, g: torch.maximum(y, g) * 2,
    ],
    ids=range(6),
)
def test_bounds_that_stay(function: Callable[..., Tensor]) -> None:
    model = Scaled(nn.Conv2d(6, 6, 3), (6, 1, 1), function)
    assert arithmetic(model, IMAGE)
    check(model, IMAGE)


def test_a_bound_that_others_read_stays() -> None:
    class Twice(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Conv2d(6, 6, 3)

        def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
            y = torch.relu(self.layer(x))
            return y, y * 3 - 1

    assert arithmetic(Twice(), IMAGE)
    check(Twice(), IMAGE)


def test_bounds_of_what_is_no_number() -> None:
    model = Scaled(nn.Conv2d(6, 6, 3), (2,), lambda y, g: torch.relu(y) * -2 + g[0])
    for value in (math.nan, math.inf, -math.inf):
        x = IMAGE.clone()
        x[0, 2, 4, 5] = value
        check(model, x)


class Branches(nn.Module):
    """The sum of what branches make of one image, and of the image through `norm`."""

    def __init__(self, *branches: nn.Module, norm: nn.Module | None = None) -> None:
        super().__init__()
        self.branches = nn.ModuleList(branches)
        self.norm = norm

    def forward(self, x: Tensor) -> Tensor:
        result = 0 if self.norm is None else self.norm(x)
        for branch in self.branches:
            result = result + branch(x)
        return result  # type: ignore[return-value]


def with_norm(layer: nn.Module) -> nn.Module:
    return nn.Sequential(layer, norm(layer.out_channels))  # type: ignore[arg-type]


MERGED = {
    "RepVGG": lambda: Branches(
        with_norm(nn.Conv2d(6, 6, 3, padding=1)), with_norm(nn.Conv2d(6, 6, 1)), norm=norm()
    ),
    "strided": lambda: Branches(nn.Conv2d(6, 8, 3, 2, 1), nn.Conv2d(6, 8, 1, 2), nn.Conv2d(6, 8, 3, 2, 1)),
    "depthwise": lambda: Branches(
        nn.Conv2d(6, 6, 1, groups=6), nn.Conv2d(6, 6, 7, padding=3, groups=6), norm=norm()
    ),
    "groups": lambda: Branches(nn.Conv2d(6, 6, 3, padding=1, groups=2), nn.Identity(), norm=norm()),
    "flat windows": lambda: Branches(
        nn.Conv2d(6, 4, (1, 5), padding=(0, 2)),
        nn.Conv2d(6, 4, 5, padding=2),
        nn.Conv2d(6, 4, (3, 1), padding=(1, 0)),
    ),
    "dilated": lambda: Branches(
        nn.Conv2d(6, 6, 3, padding=2, dilation=2), nn.Conv2d(6, 6, 1), nn.Identity(), nn.Identity()
    ),
    "even": lambda: Branches(nn.Conv2d(6, 6, 4, padding=2), nn.Conv2d(6, 6, 2, padding=1)),
    "one tap of many": lambda: Branches(nn.Conv2d(6, 6, (1, 3), padding=(0, 1)), nn.Identity()),
}


@pytest.mark.parametrize("name", MERGED)
def test_branches(name: str) -> None:
    model = MERGED[name]()
    assert operators(model, IMAGE).count("conv2d_packed") == 1
    assert not {"add", "mul", "elementwise"} & {*arithmetic(model, IMAGE)}
    assert len(operators(model, IMAGE, without=[NAME])) > len(operators(model, IMAGE))
    check(model, IMAGE)
    check(model, IMAGE, without=[NAME])


def test_a_mixer_is_one_convolution() -> None:
    """x + gamma * (mixer(x) - norm(x)), of which each part has branches of its own."""

    class Mixer(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.mixer = Branches(
                with_norm(nn.Conv2d(6, 6, 3, padding=1, groups=6)),
                with_norm(nn.Conv2d(6, 6, 1, groups=6)),
                norm=norm(),
            )
            self.norm, self.gamma = norm(), nn.Parameter(torch.randn(6, 1, 1))

        def forward(self, x: Tensor) -> Tensor:
            return x + self.gamma * (self.mixer(x) - self.norm(x))

    model = Mixer()
    assert arithmetic(model, IMAGE) == [] and operators(model, IMAGE).count("conv2d_packed") == 1
    check(model, IMAGE)


@pytest.mark.parametrize("sizes", [(2, 6, 10), (2, 6, 5, 4, 7)], ids=["1-d", "3-d"])
def test_branches_of_signals_and_videos(sizes: tuple[int, ...]) -> None:
    make = nn.Conv1d if len(sizes) == 3 else nn.Conv3d
    model, x = Branches(make(6, 6, 3, padding=1), make(6, 6, 1), nn.Identity()), torch.randn(sizes)
    assert not {"add", "elementwise"} & {*arithmetic(model, x)}
    check(model, x)


def test_differences() -> None:
    a, b = nn.Conv2d(6, 6, 1), nn.Conv2d(6, 6, 3, padding=1)
    for function in (
        lambda x: a(x) - b(x),
        lambda x: b(x) - a(x),
        lambda x: x - b(x),
        lambda x: torch.sub(x * 2 + 1, b(x), alpha=0.5),
        lambda x: torch.add(b(x), a(x), alpha=-2) - x,
    ):
        model = Calls(function)
        model.layers = nn.ModuleList([a, b])
        assert operators(model, IMAGE).count("conv2d_packed") == 1
        check(model, IMAGE)


class Kept(nn.Module):
    """Two convolutions, and what may not be merged of them."""

    def __init__(self, function: Callable[..., Tensor], first: nn.Module, second: nn.Module) -> None:
        super().__init__()
        self.function, self.first, self.second = function, first, second

    def forward(self, x: Tensor) -> Tensor:
        return self.function(self.first, self.second, x)


def test_what_stays() -> None:
    def wide(**options: object) -> nn.Module:
        return nn.Conv2d(6, 6, 3, **{"padding": 1, **options})  # type: ignore[arg-type]

    shared = wide()
    for function, first, second in (
        (lambda a, b, x: a(x) + b(x * 2), wide(), wide()),
        (
            lambda a, b, x: a(x) + b(x),
            nn.Conv2d(6, 6, (3, 1), padding=(1, 0)),
            nn.Conv2d(6, 6, (1, 3), padding=(0, 1)),
        ),
        (lambda a, b, x: a(x) + b(x), wide(), wide(groups=2)),
        (lambda a, b, x: a(x) + b(x), wide(), wide(dilation=2, padding=2)),
        (lambda a, b, x: a(x) + b(x.roll(1, 0)), shared, shared),
        (lambda a, b, x: (y := a(x)) + b(x) + y.tanh(), wide(), wide()),
        (lambda a, b, x: a(x)[:, :, :7, :9] + b(x), wide(), nn.Conv2d(6, 6, 3)),
        (lambda a, b, x: a(x) + b(x), nn.Conv2d(6, 6, (9, 11)), nn.Conv2d(6, 6, 1)),
        (lambda a, b, x: b(x) - a(x), nn.Conv2d(6, 6, (1, 11)), nn.Conv2d(6, 6, 1)),
    ):
        model = Kept(function, first, second)
        assert operators(model, IMAGE).count("conv2d_packed") == 2
        check(model, IMAGE)


def test_factors_that_stay() -> None:
    x = torch.randn(3, 5, 4)
    for shape, function in (
        ((5, 1), lambda y, g: y * g),
        ((5, 6), lambda y, g: y + g),
        ((2, 3, 5, 6), lambda y, g: y * g),
        ((6,), lambda y, g: y * g + y.tanh()),
        ((6,), lambda y, g: y * (g * math.inf)),
        ((6,), lambda y, g: y / (g * 0)),
        ((6,), lambda y, g: y * 0.0),
    ):
        model = Scaled(nn.Linear(4, 6), shape, function)
        assert {"mul", "div", "add", "elementwise"} & {*arithmetic(model, x)}
        check(model, x)
    model = Scaled(nn.Linear(4, 6).double(), (6,), lambda y, g: y * g)
    check(model.double(), x.double())
    check(model.bfloat16(), x.bfloat16(), tolerance=2e-2)
    check(Scaled(nn.Linear(4, 6), (6,), lambda y, g: y * g.double()), x)


def test_a_factor_that_is_an_input_stays() -> None:
    class Times(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(6, 6)

        def forward(self, x: Tensor, n: int) -> Tensor:
            return torch.add(x, self.layer(x), alpha=n) * n

    model, x = Times().eval(), torch.randn(2, 6)
    sizes = {"x": None, "n": Dim.AUTO(max=9)}
    program = penlight.load(penlight.compile(model, (x, 3), dynamic_shapes=sizes).to_bytes())
    for n in (2, 7):
        torch.testing.assert_close(program(x, n), model(x, n), rtol=1e-5, atol=1e-5)


def test_weights_that_others_read_stay() -> None:
    class Tied(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.table, self.gamma = nn.Embedding(9, 4), nn.Parameter(torch.randn(9))

        def forward(self, x: Tensor) -> Tensor:
            return (self.table(x) @ self.table.weight.T) * self.gamma

    check(Tied(), torch.arange(7))


def test_methods_share_their_weights() -> None:
    class Two(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(64, 64)

        def forward(self, x: Tensor) -> Tensor:
            return self.layer(x)

        def twice(self, x: Tensor) -> Tensor:
            return self.layer(x) * 2

    model, x = Two().eval(), torch.randn(3, 64)
    program = penlight.compile({"forward": (model, (x,)), "twice": (model.twice, (x,))})
    assert len(program.to_bytes()) < 2 * 64 * 64 * 4
    with torch.no_grad():
        torch.testing.assert_close(penlight.load(program.to_bytes())["twice"](x), model(x) * 2)


def test_an_image_that_is_no_number_in_places() -> None:
    model = MERGED["RepVGG"]()
    for special in (math.inf, -math.inf, math.nan):
        x = IMAGE.clone()
        x[1, 2, 4, 5] = special
        program = penlight.load(penlight.compile(model, (x,)).to_bytes())
        with torch.no_grad():
            assert torch.equal(program(x).isfinite(), model(x).isfinite())


def test_dynamic_sizes() -> None:
    model = nn.Sequential(
        MERGED["RepVGG"](), Scaled(nn.Conv2d(6, 6, 3, padding=1), (6, 1, 1), lambda y, g: y * g)
    )
    sizes = {"input": {0: Dim("n", max=9), 3: Dim("w", min=2, max=20)}}
    program = penlight.load(penlight.compile(model, (IMAGE,), dynamic_shapes=sizes).to_bytes())
    for shape in ((1, 6, 9, 20), (9, 6, 9, 3)):
        x = torch.randn(shape)
        torch.testing.assert_close(program(x), model(x), rtol=1e-5, atol=1e-5)
