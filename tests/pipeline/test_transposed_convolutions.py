"""Transposed convolutions over packed weights: between other layers, as signals, and those that stay."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest
import torch
from fused import Calls, check, operators
from torch import Tensor, nn
from torch.export import Dim

import penlight
from penlight.pipeline import Report, export, to_edge

LAYERS: dict[str, tuple[Callable[[], nn.Module], tuple[int, ...]]] = {
    "doubled": (lambda: nn.ConvTranspose2d(6, 40, 2, 2), (2, 6, 7, 5)),
    "overlapping": (lambda: nn.ConvTranspose2d(6, 20, 4, 2, 1, bias=False), (1, 6, 5, 9)),
    "padded behind": (lambda: nn.ConvTranspose2d(6, 3, 3, (2, 3), 1, (1, 0)), (1, 6, 5, 4)),
    "a signal": (lambda: nn.ConvTranspose1d(6, 20, 8, 4, 2), (2, 6, 11)),
    "a signal padded behind": (lambda: nn.ConvTranspose1d(6, 1, 3, 2, 1, 1), (1, 6, 9)),
    "one stride": (lambda: nn.ConvTranspose2d(6, 8, 3, (1, 2), 1), (1, 6, 8, 8)),
}


@pytest.mark.parametrize("name", LAYERS)
def test_it_is_packed(name: str) -> None:
    layer, sizes = LAYERS[name]
    model, x = layer(), torch.randn(sizes)
    found = operators(model, x)
    assert "conv_transpose2d_packed" in found and "convolution" not in found
    check(model, x)


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize(
    "outputs, size, stride, padding, behind",
    [
        (1, 16, 8, 0, 0),
        (1, 12, 4, 4, 0),
        (2, 2, 2, 0, 1),
        (3, 4, 2, 0, 0),
        (3, 6, 2, 2, 1),
        (1, 12, 3, 6, 2),
        (3, 4, 2, 1, 0),
        (2, 4, 2, 3, 1),
        (1, 9, 3, 4, 0),
        (1, 16, 8, 5, 7),
    ],
)
@pytest.mark.parametrize("dims", [1, 2])
def test_few_outputs_are_several_pixels_each(
    dims: int, outputs: int, size: int, stride: int, padding: int, behind: int, bias: bool
) -> None:
    make = (nn.ConvTranspose1d, nn.ConvTranspose2d)[dims - 1]
    layer = make(40, outputs, size, stride, padding, behind, bias=bias)
    for batch, sizes in ((1, (6, 5)), (2, (3, 4))):
        x = torch.randn(batch, 40, *sizes[:dims])
        found = operators(layer, x)
        assert "conv2d_packed" in found and "conv_transpose2d_packed" not in found
        check(layer, x)
    names = ["split_into_pixels"]
    assert "conv_transpose2d_packed" in operators(layer, x, without=names)
    check(layer, x, without=names)


@pytest.mark.parametrize(
    "function", [torch.sigmoid, torch.tanh, nn.functional.gelu, torch.exp, lambda x: x.clamp(-1, 0.5)]
)
def test_a_function_of_each_element_is_applied_before(function: Callable[[Tensor], Tensor]) -> None:
    layer, x = nn.ConvTranspose2d(20, 3, 4, 2, 1), torch.randn(1, 20, 5, 6)
    found = operators(Calls(lambda x: function(layer(x))), x)
    assert found.index("permute_copy") > found.index("conv2d_packed")
    check(Calls(lambda x: function(layer(x))), x)
    check(Calls(lambda x: (y := layer(x)) * function(y)), x)
    check(Calls(lambda x: function(layer(x)) + x.sum()), x)


def test_random_windows() -> None:
    r = random.Random(0)
    for seed in range(50):
        torch.manual_seed(seed)
        stride = [r.randint(1, 4) for _ in range(2)]
        size = [r.randint(1, 3) * step for step in stride]
        padding = [r.randrange(count) for count in size]
        behind = [r.randrange(step) for step in stride]
        layer = nn.ConvTranspose2d(5, r.randint(1, 4), size, stride, padding, behind)
        x = torch.randn(2, 5, r.randint(3, 6), r.randint(3, 6))
        numbers = zip(x.shape[2:], stride, padding, size, behind, strict=True)
        if min((n - 1) * s - 2 * p + k + b for n, s, p, k, b in numbers) > 0:
            check(layer, x)


def test_strides_may_differ() -> None:
    for stride, padding, behind in (
        ((2, 4), (2, 0), (1, 2)),
        ((1, 4), (1, 0), (0, 1)),
        ((4, 1), (0, 1), (2, 0)),
    ):
        layer, x = nn.ConvTranspose2d(20, 2, (4, 4), stride, padding, behind), torch.randn(2, 20, 5, 6)
        assert "conv2d_packed" in operators(layer, x)
        check(layer, x)


def test_one_number_for_both_directions() -> None:
    weight = torch.randn(8, 1, 4, 4)
    for options in (
        {"stride": (2,)},
        {"stride": 2, "padding": (2,)},
        {"stride": (4,), "output_padding": (1,)},
    ):
        check(
            Calls(lambda x, o=options: nn.functional.conv_transpose2d(x, weight, **o)),
            torch.randn(1, 8, 5, 5),
        )


def test_what_is_not_finite_stays_where_it_is() -> None:
    """Where windows differ, zeros would be multiplied by it."""
    for padding in (0, 1, 2):
        layer, x = nn.ConvTranspose2d(6, 1, 4, 2, padding), torch.randn(1, 6, 5, 5)
        x[0, 2, 2, 3], x[0, 1, 4, 0] = torch.inf, torch.nan
        assert "conv2d_packed" in operators(layer, x)
        check(layer, x)
    layer = nn.ConvTranspose2d(6, 1, 3, 2, 1)
    assert "conv2d_packed" not in operators(layer, x)
    check(layer, x)


def test_one_channel_of_samples_is_not_copied() -> None:
    """A decoder's last layer: the samples of a frame lie side by side."""
    model = nn.Sequential(nn.Conv1d(40, 40, 3, padding=1), nn.ConvTranspose1d(40, 1, 16, 8))
    x = torch.randn(1, 40, 20)
    assert operators(model, x).count("clone") == 1, "that of the first layer's input"
    program = penlight.compile(model.eval(), (x,))
    names = [operator.name for operator in program.contents.methods[0].operators]
    assert sorted(names) == ["dim_order_ops::_to_dim_order_copy", "penlight::conv2d_packed"]
    check(model, x)


class Decoder(nn.Module):
    def __init__(self, width: int, outputs: int) -> None:
        super().__init__()
        self.first, self.norm = nn.ConvTranspose2d(16, width, 2, 2), nn.BatchNorm2d(width)
        self.skip, self.last = nn.Conv2d(16, width, 1), nn.ConvTranspose2d(width, outputs, 4, 2, 1)

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        return self.last(torch.relu(self.norm(self.first(x)) + self.skip(y))).sigmoid()


def test_a_narrow_decoder_stays_channels_last() -> None:
    """First and last layers give four pixels each, set apart in one copy; the rest is as in a wide one."""
    model, inputs = Decoder(8, 3).eval(), (torch.randn(1, 16, 6, 6), torch.randn(1, 16, 12, 12))
    found = operators(model, *inputs)
    assert found.count("conv2d_packed") == 3 and "conv_transpose2d_packed" not in found, found
    assert found.count("clone") == 2 and "sigmoid" not in found, found
    check(model, *inputs)
    whole = operators(model, *inputs, without=["split_into_pixels"])
    assert sorted(whole) == sorted(["clone"] * 3 + ["conv_transpose2d_packed"] * 2 + ["conv2d_packed"])


def test_a_decoder_stays_channels_last() -> None:
    """Conversions are at its ends; batch norm, activations and a skip connection are part of layers."""
    model, inputs = Decoder(24, 20).eval(), (torch.randn(1, 16, 6, 6), torch.randn(1, 16, 12, 12))
    found = operators(model, *inputs)
    assert sorted(found) == sorted(["clone"] * 3 + ["conv_transpose2d_packed"] * 2 + ["conv2d_packed"]), (
        "one operator for each layer"
    )
    check(model, *inputs)


def test_sizes_may_be_dynamic() -> None:
    model = nn.ConvTranspose2d(6, 8, 4, 2, 1).eval()
    shapes = {"input": {0: Dim("batch", max=3), 3: Dim("width", max=40)}}
    x = torch.randn(2, 6, 5, 9)
    program = penlight.load(penlight.compile(model, (x,), dynamic_shapes=shapes).to_bytes())
    for batch, width in ((1, 1), (3, 40), (2, 17)):
        x = torch.randn(batch, 6, 5, width)
        torch.testing.assert_close(program(x), model(x).detach(), rtol=1e-5, atol=1e-5)


STAYS: dict[str, tuple[Callable[[], nn.Module], tuple[int, ...], str]] = {
    "groups": (lambda: nn.ConvTranspose2d(6, 8, 2, 2, groups=2), (1, 6, 5, 5), "groups or dilation"),
    "dilation": (lambda: nn.ConvTranspose2d(6, 8, 3, 2, dilation=2), (1, 6, 5, 5), "groups or dilation"),
    "volumes": (lambda: nn.ConvTranspose3d(2, 3, 2, 3), (1, 2, 3, 3, 3), "not 1-D or 2-D"),
    "double": (lambda: nn.ConvTranspose2d(6, 8, 2, 2).double(), (1, 6, 5, 5), "not of float32"),
}


@pytest.mark.parametrize("name", STAYS)
def test_what_stays_says_why(name: str) -> None:
    layer, sizes, reason = STAYS[name]
    model, report = layer().eval(), Report()
    x = torch.randn(sizes, dtype=next(model.parameters()).dtype)
    to_edge(export(model, (x,)), report=report)
    assert "convolution" in operators(model, x) and reason in report.explain_left()
    check(model, x)


class Tied(nn.Module):
    """A layer and a transposed one of the same weight, or two of those."""

    def __init__(self, first: bool, stride: int) -> None:
        super().__init__()
        self.layer, self.first, self.stride = nn.Conv2d(6, 6, 3, stride=2), first, stride

    def forward(self, x: Tensor) -> Tensor:
        weight, turn = self.layer.weight, nn.functional.conv_transpose2d
        y = self.layer(x) if self.first else turn(x, weight, stride=2)
        return turn(y, weight, stride=self.stride)


@pytest.mark.parametrize("first, stride, in_runs", [(True, 2, 2), (False, 1, 2), (False, 2, 0)])
def test_a_weight_is_in_the_file_once(first: bool, stride: int, in_runs: int) -> None:
    """What is read in two orders is packed in each run."""
    model, x = Tied(first, stride), torch.randn(1, 6, 11, 11)
    found = operators(model, x)
    assert found.count("pack_convolution") == in_runs and "convolution" not in found
    check(model, x)


@pytest.mark.parametrize("dims", [1, 2, 3])
@pytest.mark.parametrize(("taps", "stride"), [(1, 2), (3, 2), (2, 3), (5, 3), (1, 4), (5, 4)])
def test_one_channel_with_phases_of_one_tap(taps: int, stride: int, dims: int) -> None:
    """A weight of one element keeps the stride of the window that it was cut out of."""
    kind = (nn.ConvTranspose1d, nn.ConvTranspose2d, nn.ConvTranspose3d)[dims - 1]
    model, x = kind(1, 1, taps, stride).eval(), torch.randn(1, 1, *(5,) * dims)
    program = penlight.load(penlight.compile(model, (x,)).to_bytes())
    torch.testing.assert_close(program(x), model(x), rtol=1e-4, atol=1e-5)
