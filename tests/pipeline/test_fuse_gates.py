"""Squeeze-and-excitation: gates in one call, and weights multiplied by them instead of images."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from tests.pipeline.fused import check, operators
from torch import Tensor, nn
from torch.export import Dim
from torch.nn import functional

import penlight

Gates = Callable[["Block", Tensor], Tensor]


class Block(nn.Module):
    """A convolution, gates of its channels, and a 1x1 convolution of what they leave."""

    def __init__(
        self, gates: Gates, outputs: int = 24, after: nn.Module | None = None, channels: int = 64
    ) -> None:
        super().__init__()
        self.gates = gates
        self.before = nn.Conv2d(3, channels, 3, padding=1)
        self.squeeze, self.excite = nn.Conv2d(channels, 16, 1), nn.Conv2d(16, channels, 1)
        self.first, self.last = nn.Linear(channels, 16), nn.Linear(16, channels)
        self.after = after or nn.Conv2d(channels, outputs, 1)

    def forward(self, x: Tensor) -> Tensor:
        y = self.before(x).relu()
        return self.after(y * self.gates(self, y))


def convolutions(self: Block, y: Tensor) -> Tensor:
    return self.excite(functional.silu(self.squeeze(y.mean((2, 3), keepdim=True)))).sigmoid()


def pooled(self: Block, y: Tensor) -> Tensor:
    return functional.hardsigmoid(self.excite(self.squeeze(functional.adaptive_avg_pool2d(y, 1)).relu()))


def linear(self: Block, y: Tensor) -> Tensor:
    row = functional.adaptive_avg_pool2d(y, 1).flatten(1)
    return self.last(self.first(row).relu()).sigmoid().view(y.shape[0], -1, 1, 1)


def broadcast(self: Block, y: Tensor) -> Tensor:
    return self.last(self.first(y.mean((-1, -2))).relu()).sigmoid()[:, :, None, None].expand_as(y)


def mixed(self: Block, y: Tensor) -> Tensor:
    row = self.squeeze(y.mean((-2, -1), True)).relu().flatten(1)
    return self.last(row).sigmoid().unsqueeze(2).unsqueeze(3)


FORMS = [convolutions, pooled, linear, broadcast, mixed]
X = torch.randn(1, 3, 28, 20)


@pytest.mark.parametrize("gates", FORMS)
@pytest.mark.parametrize("count", [1, 3])
def test_forms(gates: Gates, count: int) -> None:
    model, x = Block(gates), torch.randn(count, 3, 28, 20)
    found = operators(model, x)
    assert found == ["conv2d_packed", "squeeze_excite_packed", "conv2d_gated_packed", "clone"]
    check(model, x)
    assert "squeeze_excite_packed" not in operators(model, x, without={"fuse_gates"})


def test_residual_and_activation() -> None:
    class Residual(Block):
        def forward(self, x: Tensor) -> Tensor:
            y = self.before(x).relu()
            return functional.silu(self.after(self.gates(self, y) * y) + y)

    model = Residual(convolutions, 64)
    assert operators(model, X)[1:] == ["squeeze_excite_packed", "conv2d_gated_packed", "clone"]
    check(model, X)


def test_gates_of_another_kind() -> None:
    """Any sigmoid does, as that of a convolution over channels (Wang et al., "ECA-Net", 2020)."""
    over_channels = nn.Conv1d(1, 1, 3, padding=1)

    def gates(self: Block, y: Tensor) -> Tensor:
        return over_channels(y.mean((2, 3)).unsqueeze(1)).sigmoid().transpose(1, 2).unsqueeze(-1)

    assert "conv2d_gated_packed" in operators(Block(gates), X)
    check(Block(gates), X)


def test_gates_that_something_else_reads() -> None:
    class Both(Block):
        def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:  # type: ignore[override]
            y = self.before(x).relu()
            gates = self.gates(self, y)
            return self.after(y * gates), gates.flatten(1) * 2

    for form in (pooled, linear):
        model = Both(form)
        assert {"squeeze_excite_packed", "conv2d_gated_packed"} <= {*operators(model, X)}
        check(model, X)


def test_classifiers_are_no_gates() -> None:
    """Two layers over means that give other numbers than one for each channel."""
    head = nn.Sequential(nn.Conv2d(3, 64, 3), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, 16))
    model = nn.Sequential(*head, nn.ReLU(), nn.Linear(16, 10))
    assert "squeeze_excite_packed" not in operators(model, X)


def test_means_that_something_else_reads() -> None:
    class Both(Block):
        def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:  # type: ignore[override]
            y = self.before(x).relu()
            means = y.mean((2, 3), keepdim=True)
            return self.after(y * self.excite(self.squeeze(means).relu()).sigmoid()), means

    model = Both(convolutions)
    found = operators(model, X)
    assert "squeeze_excite_packed" not in found and "conv2d_gated_packed" in found
    check(model, X)


def test_dynamic_batch() -> None:
    model, sizes = Block(convolutions).eval(), ({0: Dim("count", min=1, max=9)},)
    compiled = penlight.compile(model, (torch.randn(2, 3, 28, 20),), dynamic_shapes=sizes)
    program = penlight.load(compiled.to_bytes())
    assert {"penlight::squeeze_excite_packed.out", "penlight::conv2d_gated_packed.out"} <= {
        *program["forward"].instruction_names()
    }
    for count in (1, 2, 9):
        x = torch.randn(count, 3, 28, 20)
        with torch.no_grad():
            torch.testing.assert_close(program(x), model(x), rtol=1e-5, atol=1e-5)


def test_short_weights() -> None:
    model, x = Block(pooled).half().eval(), X.half()
    program = penlight.load(penlight.compile(model, (x,)).to_bytes())
    with torch.no_grad():
        torch.testing.assert_close(program(x), model(x), rtol=2e-2, atol=2e-3)


def shifted(self: Block, y: Tensor) -> Tensor:
    return convolutions(self, y) + 1


def per_column(self: Block, y: Tensor) -> Tensor:
    return y.mean((1, 2), keepdim=True).sigmoid()


def of_first_image(self: Block, y: Tensor) -> Tensor:
    return convolutions(self, y[:1])


SMALL = torch.randn(1, 3, 5, 4)
LEFT: list[tuple[str, Gates, dict[str, Any], Tensor]] = [
    ("the gates are not sigmoids", shifted, {}, X),
    ("has a gate of its own", of_first_image, {}, torch.randn(2, 3, 28, 20)),
    ("not one of every pixel alone", convolutions, {"after": nn.Conv2d(64, 24, 3)}, X),
    ("not one of every pixel alone", pooled, {"after": nn.Conv2d(64, 24, 1, 2)}, X),
    (
        "not one of every pixel alone",
        pooled,
        {"after": nn.Conv2d(64, 24, 1, padding=1)},
        X,
    ),
    ("not one of every pixel alone", pooled, {"after": nn.Conv2d(64, 24, 1, groups=2)}, X),
    ("not 4/3 as many pixels", convolutions, {}, SMALL),
    ("not 4/3 as many pixels", convolutions, {"outputs": 148}, torch.randn(1, 3, 14, 14)),
    ("Strassen's algorithm saves more", convolutions, {"outputs": 192}, X),
]


@pytest.mark.parametrize(("reason", "gates", "options", "x"), LEFT)
def test_what_is_left(reason: str, gates: Gates, options: dict[str, Any], x: Tensor) -> None:
    model = Block(gates, **options).eval()
    report = penlight.compile(model, (x,)).report
    assert report is not None
    (one,) = (left for left in report.left if left.stage == "fuse gates")
    assert reason in one.reason
    assert "conv2d_gated_packed" not in operators(model, x)
    check(model, x)


def per_image(self: Block, y: Tensor) -> Tensor:
    """Not a channel's gate, but that of an image, of which the product has as many as gates."""
    return self.last(self.first(y.mean((2, 3))).relu()).sigmoid().view(-1, 1, 1, 1)


def of_pixels(self: Block, y: Tensor) -> Tensor:
    """Linear layers over what has the sizes of gates only at the end."""
    means = y.mean((2, 3))[:, :, None, None].expand(-1, -1, 1, 64)
    return self.last(self.first(means).relu())[..., :1].sigmoid()


@pytest.mark.parametrize(
    ("gates", "absent"),
    [
        (per_column, "conv2d_gated_packed"),
        (per_image, "conv2d_gated_packed"),
        (of_pixels, "squeeze_excite_packed"),
    ],
)
def test_what_is_no_gate(gates: Gates, absent: str) -> None:
    model = Block(gates)
    assert absent not in operators(model, X)
    check(model, X)


@pytest.mark.parametrize(
    ("outputs", "pixels", "channels"), [(147, 14, 64), (191, 17, 64), (192, 16, 63), (200, 17, 32)]
)
def test_as_many_outputs_as_pay(outputs: int, pixels: int, channels: int) -> None:
    model, x = Block(pooled, outputs, channels=channels), torch.randn(1, 3, pixels, pixels)
    assert "conv2d_gated_packed" in operators(model, x)
    check(model, x)


def test_dynamic_pixels() -> None:
    model = Block(convolutions).eval()
    sizes = ({2: Dim("height", min=8, max=60)},)
    compiled = penlight.compile(model, (X,), dynamic_shapes=sizes)
    assert compiled.report is not None
    assert "sizes of the image are dynamic" in {left.reason for left in compiled.report.left}
    program = penlight.load(compiled.to_bytes())
    for height in (8, 33):
        x = torch.randn(1, 3, height, 20)
        with torch.no_grad():
            torch.testing.assert_close(program(x), model(x), rtol=1e-5, atol=1e-5)
