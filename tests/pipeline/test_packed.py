"""What the default target makes of layers: packed weights, fused epilogues, images kept channels-last."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pytest
import torch
from torch import nn
from torch.export import Dim
from torch.nn import functional

import penlight
from penlight.kernels.activations import Activation
from penlight.pipeline import export, to_edge

ROOT = Path(__file__).resolve().parents[2]


def operators(model: nn.Module, args: tuple[torch.Tensor, ...]) -> Counter[str]:
    graph = to_edge(export(model, args)).methods["forward"].graph
    return Counter(
        str(node.target).removesuffix(".default").split(".", 1)[1]
        for node in graph.nodes
        if node.op == "call_function" and "." in str(node.target)
    )


def check(model: nn.Module, *args: torch.Tensor, **options: object) -> None:
    """Runs as in eager, on fresh inputs."""
    model.eval()
    program = penlight.load(penlight.compile(model, args, **options).to_bytes())
    fresh = [torch.randn_like(arg) for arg in args]
    with torch.no_grad():
        torch.testing.assert_close(program(*fresh), model(*fresh), rtol=1e-4, atol=1e-5)


def compiled_once(model: nn.Module, *args: torch.Tensor) -> Counter[str]:
    check(model, *args)
    return operators(model.eval(), args)


class Bottleneck(nn.Module):
    """Residual blocks with every piece that an image network has between convolutions."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Sequential(
            nn.Conv2d(3, 16, 3, 2, 1), nn.BatchNorm2d(16), nn.ReLU(), nn.MaxPool2d(3, 2, 1)
        )
        self.narrow = nn.Conv2d(16, 8, 1)
        self.deep = nn.Conv2d(8, 8, 3, padding=1, groups=8)
        self.wide = nn.Conv2d(8, 16, 1)
        self.gate = nn.Sequential(
            nn.AdaptiveAvgPool2d(1), nn.Conv2d(16, 4, 1), nn.ReLU(), nn.Conv2d(4, 16, 1), nn.Hardsigmoid()
        )
        self.head = nn.Linear(32, 5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.stem(x)
        y = functional.relu6(self.deep(functional.hardswish(self.narrow(x))))
        y = functional.relu(self.wide(y) + x)
        y = y * self.gate(y)
        return self.head(torch.cat([x, y], 1).mean((2, 3)))


def test_images_stay_channels_last() -> None:
    found = compiled_once(Bottleneck(), torch.randn(2, 3, 32, 36))
    assert found["conv2d_packed"] == 4 and found["linear_packed"] == 1 and found["max_pool2d"] == 1
    assert found["squeeze_excite_packed"] == 1
    assert "clone" not in found, "the first convolution reads the input as it is"
    assert not {name for name in found if "relu" in name or "hardswish" in name or "add" in name}, "fused"


@pytest.mark.parametrize(
    "activation",
    [
        *(nn.ReLU(), nn.ReLU6(), nn.Hardtanh(-0.5, 0.25), nn.Sigmoid(), nn.Tanh(), nn.SiLU(), nn.GELU()),
        *(nn.GELU("tanh"), nn.Hardsigmoid(), nn.Hardswish(), nn.LeakyReLU(0.2)),
    ],
    ids=str,
)
def test_activations_are_fused(activation: nn.Module) -> None:
    found = compiled_once(nn.Sequential(nn.Linear(7, 20), activation), torch.randn(3, 7))
    assert found == {"linear_packed": 1}
    found = compiled_once(nn.Sequential(nn.Conv2d(4, 20, 3), activation), torch.randn(1, 4, 6, 6))
    assert found == {"conv2d_packed": 1, "clone": 1}
    found = compiled_once(
        nn.Sequential(nn.Conv2d(40, 40, 3, groups=40), activation), torch.randn(1, 40, 6, 6)
    )
    assert found == {"conv2d_packed": 1, "clone": 2}


class Clamps(nn.Module):
    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        y = functional.linear(x, torch.eye(8))
        return y.clamp(min=0.1), functional.linear(x, -torch.eye(8)).clamp(max=0.1), x.clamp(-0.2, 0.2)


def test_clamps_with_one_bound() -> None:
    check(Clamps(), torch.randn(2, 8))


class Inverted(nn.Module):
    """An inverted bottleneck, as mobile networks are made of."""

    def __init__(self, channels: int, kernel: int = 3, stride: int = 1) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            *(nn.Conv2d(8, channels, 1, bias=False), nn.BatchNorm2d(channels), nn.Hardswish()),
            nn.Conv2d(channels, channels, kernel, stride, kernel // 2, groups=channels),
            *(nn.ReLU6(), nn.Conv2d(channels, 8, 1)),
        )
        self.same = stride == 1

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.layers(x)
        return x + y if self.same else y


@pytest.mark.parametrize("kernel, stride", [(3, 1), (5, 2), (7, 1)])
def test_a_large_expansion_is_never_whole(kernel: int, stride: int) -> None:
    model, x = Inverted(64, kernel, stride), torch.randn(2, 8, 60, 56)
    assert compiled_once(model, x)["expand_depthwise_packed"] == 1
    program = penlight.compile(model, (x,))
    between = 2 * 64 * 60 * 56 * 4
    assert sum(penlight.load(program.to_bytes())["forward"].arena_sizes) < 1.5 * between
    alone, several = (penlight.load(program.to_bytes(), threads=n)(x) for n in (1, 3))
    assert torch.equal(torch.as_tensor(alone), torch.as_tensor(several))
    x[1, 3, 30, 20], x[1, 4, 2, 2] = torch.nan, torch.inf
    with torch.no_grad():
        torch.testing.assert_close(
            torch.as_tensor(penlight.load(program.to_bytes())(x)),
            model(x),
            rtol=1e-4,
            atol=1e-5,
            equal_nan=True,
        )


@pytest.mark.parametrize("kernel, size, together", [(3, 20, 1), (5, 4, 1), (7, 20, 0), (3, 3, 0)])
def test_a_small_expansion_is_computed_first_for_rare_windows(kernel: int, size: int, together: int) -> None:
    found = compiled_once(Inverted(64, kernel), torch.randn(1, 8, size, size))
    assert found["expand_depthwise_packed"] == together and found["conv2d_packed"] == 3 - 2 * together


class Stem(nn.Module):
    """How mobile networks begin."""

    def __init__(self, kernel: int = 3) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            *(nn.Conv2d(3, 24, 3, 2, 1, bias=False), nn.BatchNorm2d(24), nn.Hardswish()),
            *(nn.Conv2d(24, 24, kernel, 1, kernel // 2, groups=24), nn.ReLU6(), nn.Conv2d(24, 16, 1)),
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y: torch.Tensor = self.layers(x)
        return y


@pytest.mark.parametrize("kernel, layers", [(3, 1), (5, 1), (7, 2)])
def test_a_stem_makes_no_image_between(kernel: int, layers: int) -> None:
    model, x = Stem(kernel), torch.randn(2, 3, 60, 56)
    found = compiled_once(model, x)
    assert found["conv2d_depthwise_packed"] == 2 - layers and found["conv2d_packed"] == 2 * layers - 1
    program = penlight.compile(model, (x,))
    alone, several = (penlight.load(program.to_bytes(), threads=n)(x) for n in (1, 3))
    assert torch.equal(torch.as_tensor(alone), torch.as_tensor(several))
    x[1, 2, 30, 20], x[0, 1, 0, 0] = torch.nan, torch.inf
    with torch.no_grad():
        got, want = torch.as_tensor(penlight.load(program.to_bytes())(x)), model(x)
    torch.testing.assert_close(got, want, rtol=1e-4, atol=1e-5, equal_nan=True)


@pytest.mark.parametrize("block, channels", [(Inverted(64), 8), (Inverted(64, 5, 2), 8), (Stem(), 3)])
def test_images_between_layers_are_never_whole_with_dynamic_sizes(block: nn.Module, channels: int) -> None:
    model, x = block.eval(), torch.randn(2, channels, 60, 56)
    batch, height, width = Dim("batch", max=4), Dim("height", min=3, max=64), Dim("width", min=3, max=64)
    for dynamic, others in (
        ({0: batch}, [(3, 60, 56), (1, 60, 56)]),
        ({2: height, 3: width}, [(2, 33, 56), (2, 64, 64), (2, 17, 3), (2, 3, 9), (2, 3, 3)]),
    ):
        compiled = penlight.compile(model, (x,), dynamic_shapes={"x": dynamic})
        programs = [penlight.load(compiled.to_bytes(), threads=n) for n in (1, 3)]
        names = programs[0]["forward"].instruction_names()
        assert any("depthwise_packed" in name for name in names)
        for count, *sizes in others:
            other = torch.randn(count, channels, *sizes)
            alone, several = (torch.as_tensor(program(other)) for program in programs)
            assert torch.equal(alone, several)
            with torch.no_grad():
                torch.testing.assert_close(alone, model(other), rtol=1e-4, atol=1e-5)


class Shared(nn.Module):
    """The sum is used twice, the weight three times: nothing may be taken into the layers."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(8, 8)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        y = self.layer(x)
        z = self.layer(y) + y
        return y, z, functional.relu(z) * self.layer.weight.sum(), z + z


def test_values_with_several_users() -> None:
    check(Shared(), torch.randn(2, 8))


class Tied(nn.Module):
    """A language model whose last layer is its embedding: once in the file."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(100, 64)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        hidden = self.embedding(x.abs().clamp(max=3).long())
        return functional.linear(hidden, self.embedding.weight)


def test_tied_weights_are_not_doubled() -> None:
    check(Tied(), torch.randn(1, 5))
    size = len(penlight.compile(Tied(), (torch.randn(1, 5),)).to_bytes())
    assert size < 2 * 100 * 64 * 4


class Transposed(nn.Module):
    def __init__(self, layer: nn.Linear) -> None:
        super().__init__()
        self.layer = layer

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x @ self.layer.weight


def test_weights_of_two_methods_are_not_doubled() -> None:
    layer = nn.Linear(64, 64)
    methods = {"encode": (layer, (torch.randn(2, 64),)), "decode": (Transposed(layer), (torch.randn(2, 64),))}
    content = penlight.compile(methods).to_bytes()
    assert len(content) < 1.5 * 64 * 64 * 4
    x = torch.randn(2, 64)
    torch.testing.assert_close(penlight.load(content)["encode"](x), layer(x).detach(), rtol=1e-4, atol=1e-5)


class Signal(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Conv1d(1, 12, 16, stride=4, padding=6)
        self.second = nn.Conv1d(12, 24, 3, dilation=2, padding=2)
        self.third = nn.Conv1d(12, 24, 1)
        self.norm = nn.BatchNorm1d(24)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = functional.gelu(self.first(x))
        y = functional.relu(self.norm(self.second(x)) + self.third(x))
        return functional.max_pool1d(y, 2)


def test_signals_are_images_of_height_one() -> None:
    found = compiled_once(Signal(), torch.randn(2, 1, 200))
    assert found["conv2d_packed"] == 2, "the second and the third are one"
    assert found["gelu"] + found["relu"] + found["add.Tensor"] == 0


def test_image_without_a_batch() -> None:
    check(nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU(), nn.Conv2d(8, 4, 3)), torch.randn(3, 9, 9))
    check(nn.Sequential(nn.Conv1d(3, 8, 3), nn.ReLU()), torch.randn(3, 9))


def test_one_channel_and_one_pixel() -> None:
    """Layouts that are row-major and channels-last at once."""
    check(
        nn.Sequential(nn.Conv2d(1, 8, 3, padding=1), nn.ReLU(), nn.Conv2d(8, 1, 3)), torch.randn(1, 1, 9, 9)
    )
    check(
        nn.Sequential(nn.Conv2d(8, 4, 1), nn.ReLU(), nn.Conv2d(4, 6, 1, padding=1)), torch.randn(2, 8, 1, 1)
    )


@pytest.mark.parametrize("channels", [3, 40])
def test_channels_last_input_is_not_converted(channels: int) -> None:
    x = torch.randn(1, channels, 8, 8).contiguous(memory_format=torch.channels_last)
    found = compiled_once(nn.Sequential(nn.Conv2d(channels, 40, 3), nn.ReLU(), nn.Conv2d(40, 8, 3)), x)
    assert found["clone"] == 1  # of the result


@pytest.mark.parametrize("batch, side", [(1, 8), (3, 17), (4, 32)])
def test_dynamic_images(batch: int, side: int) -> None:
    model = Bottleneck().eval()
    sizes = {0: Dim("batch", max=4), 2: Dim("height", min=8, max=32)}
    x = torch.randn(2, 3, 16, 36)
    program = penlight.load(penlight.compile(model, (x,), dynamic_shapes=({**sizes},)).to_bytes())
    fresh = torch.randn(batch, 3, side, 36)
    with torch.no_grad():
        torch.testing.assert_close(program(fresh), model(fresh), rtol=1e-4, atol=1e-5)


def test_dynamic_signals() -> None:
    model = nn.Sequential(
        nn.Conv1d(1, 12, 16, 4, 6), nn.ReLU(), nn.Conv1d(12, 5, 3, padding=2, dilation=2)
    ).eval()
    options = {"dynamic_shapes": ({2: Dim("time", min=64, max=400)},)}
    program = penlight.load(penlight.compile(model, (torch.randn(2, 1, 200),), **options).to_bytes())
    for length in (64, 133, 400):
        fresh = torch.randn(2, 1, length)
        with torch.no_grad():
            torch.testing.assert_close(program(fresh), model(fresh), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("groups", [2, 4])
def test_grouped_convolution(groups: int) -> None:
    check(nn.Conv2d(16, 32, 3, padding=1, groups=groups), torch.randn(2, 16, 9, 9))
    check(nn.Conv2d(16, 4 * groups, 3, padding=1, groups=groups, bias=False), torch.randn(2, 16, 9, 9))


def test_groups_of_one_output() -> None:
    for model, sizes in (
        (nn.Conv2d(24, 8, 3, 2, 1, groups=8), (2, 24, 17, 14)),
        (nn.Conv1d(12, 2, 5, groups=2), (2, 12, 40)),
    ):
        found = compiled_once(model, torch.randn(*sizes))
        assert found["conv2d_packed"] == 1 and "convolution" not in found


class Windows(nn.Module):
    """A window for each channel, or several, with what a network has around it."""

    def __init__(self, channels: int, outputs: int, **options: object) -> None:
        super().__init__()
        self.windows = nn.Conv2d(channels, outputs, groups=channels, **options)  # type: ignore[arg-type]

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.windows(x)
        return functional.hardswish(y + x.relu() if y.shape == x.shape else y)


@pytest.mark.parametrize(
    "channels, outputs, sizes, options",
    [
        (48, 48, (28, 28), {"kernel_size": 7, "padding": 3}),
        (20, 20, (60, 62), {"kernel_size": 7, "padding": 3}),
        (24, 48, (32, 31), {"kernel_size": 7, "padding": 3, "stride": 2}),
        (33, 33, (14, 14), {"kernel_size": 31, "padding": 15}),
        (18, 18, (20, 21), {"kernel_size": 3, "padding": 2, "dilation": 2}),
        (17, 51, (13, 12), {"kernel_size": (3, 5), "padding": (0, 4), "stride": (2, 1)}),
    ],
    ids=str,
)
def test_windows_of_every_kind(
    channels: int, outputs: int, sizes: tuple[int, int], options: dict[str, object]
) -> None:
    model, x = Windows(channels, outputs, **options).eval(), torch.randn(2, channels, *sizes)
    assert compiled_once(model, x)["conv2d_packed"] == 1
    x[0, 3, 5, 6], x[1, 4, 0, 1] = torch.nan, torch.inf
    content = penlight.compile(model, (x,)).to_bytes()
    alone, two = (torch.as_tensor(penlight.load(content, threads=n)(x)) for n in (1, 2))
    assert torch.equal(alone.view(torch.int32), two.view(torch.int32))
    with torch.no_grad():
        torch.testing.assert_close(alone, model(x), rtol=1e-4, atol=1e-4, equal_nan=True)


@pytest.mark.parametrize("channels, dilation, groups", [(40, 12, 1), (600, 7, 1), (40, 9, 2)])
def test_windows_that_reach_out_of_the_image(channels: int, dilation: int, groups: int) -> None:
    model = nn.Conv2d(channels, 48, 3, padding=dilation, dilation=dilation, groups=groups)
    x = torch.randn(2, channels, 33, 14)
    x[0, 3, 5, 6], x[1, 4, 0, 1] = torch.nan, torch.inf
    content = penlight.compile(model, (x,)).to_bytes()
    alone, *others = (torch.as_tensor(penlight.load(content, threads=n)(x)) for n in (1, 2, 3))
    for several in others:
        assert torch.equal(alone.view(torch.int32), several.view(torch.int32))
    with torch.no_grad():
        torch.testing.assert_close(alone, model(x), rtol=1e-4, atol=1e-4, equal_nan=True)


class Decoder(nn.Module):
    """Upsampling, padding, concatenation across a skip, transposed convolution."""

    def __init__(self) -> None:
        super().__init__()
        self.down = nn.Conv2d(4, 8, 3, 2, 1)
        self.up = nn.ConvTranspose2d(8, 8, 2, 2)
        self.last = nn.Conv2d(20, 3, 3)
        self.slope = nn.PReLU(8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.slope(self.down(x))
        parts = [x, self.up(y), functional.interpolate(y, scale_factor=2, mode="bilinear")]
        z = functional.pad(torch.cat(parts, 1), (1, 1, 0, 2))
        return functional.leaky_relu(self.last(z), 0.1) - functional.avg_pool2d(z, 3, 1)[:, :3]


def test_decoder() -> None:
    check(Decoder(), torch.randn(1, 4, 12, 14))


def test_portable_programs_have_none_of_this() -> None:
    program = penlight.compile(Bottleneck().eval(), (torch.randn(1, 3, 32, 32),), target="portable")
    assert b"penlight::" not in program.to_bytes()


def test_numbers_of_activations_are_those_of_the_kernels() -> None:
    header = (ROOT / "kernels" / "optimized" / "vector" / "routines.h").read_text()
    (listed,) = re.findall(r"enum class Activation : int \{(.*?)\};", header, re.DOTALL)
    kernels = {name.lower(): int(number) for name, number in re.findall(r"(\w+) = (\d+),", listed)}
    assert kernels == {member.name.replace("_", "").lower(): int(member) for member in Activation}
