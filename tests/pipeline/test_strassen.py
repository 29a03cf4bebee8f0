"""Layers of many rows are multiplied by Strassen's algorithm, but for weights that are too unlike."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from tests.pipeline.fused import operators
from tests.pipeline.running import check
from torch import Tensor, nn
from torch.export import Dim, export

import penlight
from penlight.passes.base import Report
from penlight.pipeline import to_edge

LINEAR, CONVOLUTION = "linear_strassen_packed", "conv2d_strassen_packed"


class Feed(nn.Module):
    """A feed-forward layer with a residual."""

    def __init__(self, width: int, hidden: int) -> None:
        super().__init__()
        self.up, self.down = nn.Linear(width, hidden), nn.Linear(hidden, width, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        return x + self.down(nn.functional.gelu(self.up(x)))


def pointwise(channels: int, outputs: int, **options: Any) -> nn.Module:
    return nn.Sequential(nn.Conv2d(channels, outputs, 1, **options), nn.ReLU())


def reasons(model: nn.Module, *args: Tensor) -> list[str]:
    report = Report()
    to_edge(export(model.eval(), args), report=report)
    return [one.reason for one in report.left if one.stage == "use strassen"]


def direct_blocks(model: nn.Module, x: Tensor) -> list[int]:
    graph = to_edge(export(model.eval(), (x,))).methods["forward"].graph
    (blocks,) = [node.args[-4] for node in graph.nodes if "strassen" in str(node.target)]
    return list(blocks)


@pytest.mark.parametrize("sizes", [(64, 128), (2, 40, 128), (1, 3, 17, 128)], ids=str)
def test_linear_layers(sizes: tuple[int, ...]) -> None:
    model, x = Feed(128, 450), torch.randn(sizes)
    assert operators(model, x) == [LINEAR, LINEAR]
    check(model, (x,), (torch.randn(sizes),), tolerance=1e-5)


@pytest.mark.parametrize("batch", [1, 3])
def test_convolutions_by_one_pixel(batch: int) -> None:
    model, x = pointwise(96, 200), torch.randn(batch, 96, 7, 9)
    assert operators(model, x).count(CONVOLUTION) == 1
    check(model, (x,), tolerance=1e-5)


@pytest.mark.parametrize(
    ("model", "sizes"),
    [
        (nn.Linear(128, 256), (31, 128)),
        (nn.Linear(62, 256), (64, 62)),
        (nn.Linear(128, 127), (64, 128)),
        (nn.Conv2d(64, 128, 3), (1, 64, 12, 12)),
        (pointwise(64, 128, stride=2), (1, 64, 20, 20)),
        (pointwise(256, 256, groups=2), (1, 256, 9, 9)),
    ],
    ids=str,
)
def test_too_little_to_gain(model: nn.Module, sizes: tuple[int, ...]) -> None:
    x = torch.randn(sizes)
    assert not {LINEAR, CONVOLUTION} & set(operators(model, x))
    assert not reasons(model, x)


@pytest.mark.parametrize(
    ("model", "inputs", "reason"),
    [
        (nn.Linear(129, 256), 129, "its inputs are an odd number"),
        (nn.Linear(128, 256).half().float(), 128, "its weights are of 16 bits"),
    ],
    ids=str,
)
def test_what_is_left_says_why(model: nn.Module, inputs: int, reason: str) -> None:
    x = torch.randn(64, inputs)
    assert operators(model, x) == ["linear_packed"]
    assert reasons(model, x) == [reason]


def test_any_number_of_rows() -> None:
    shapes = {"x": {0: Dim("rows", max=200)}}
    calls = [(torch.randn(rows, 128),) for rows in (100, 1, 31, 32, 200)]
    check(Feed(128, 300), *calls, targets=["cpu"], tolerance=1e-5, dynamic_shapes=shapes)
    dynamic = export(Feed(128, 300).eval(), calls[0], dynamic_shapes=shapes)
    assert "linear_strassen" in str(to_edge(dynamic).methods["forward"].graph)


def test_unlike_columns_are_multiplied_directly() -> None:
    layer, x = nn.Linear(800, 256, bias=False), torch.randn(64, 800)
    assert direct_blocks(layer, x) == []
    with torch.no_grad():
        layer.weight[70] *= 0.2  # of the second block of four, in each of four parts of k
        layer.weight[130, 672:] = 0  # of the third, in the last
    assert direct_blocks(layer, x) == [1, 5, 9, 13, 14]
    check(layer, (x,), targets=["cpu"], tolerance=1e-5)
    small, want = penlight.load(penlight.compile(layer, (x,)).to_bytes())(x)[:, 70], x @ layer.weight[70]
    torch.testing.assert_close(small, want, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), 1e20])
@pytest.mark.parametrize(("place", "block"), [(0, 3), (300, 7), (799, 15)])
def test_columns_that_are_not_finite(value: float, place: int, block: int) -> None:
    """They stay alone, so the kernel counts blocks as the compiler does: four columns by four parts of k."""
    layer, x = nn.Linear(800, 256), torch.randn(64, 800)
    with torch.no_grad():
        layer.weight[200, place] = value
    assert direct_blocks(layer, x) == [block]
    got = penlight.load(penlight.compile(layer, (x,)).to_bytes())(x)
    torch.testing.assert_close(got, layer(x), rtol=1e-5, atol=1e-4, equal_nan=True)


def test_mostly_unlike_columns_leave_the_layer() -> None:
    layer, x = nn.Linear(128, 256), torch.randn(64, 128)
    with torch.no_grad():
        layer.weight[[0, 64, 128]] = 0
    assert operators(layer, x) == ["linear_packed"]
    assert reasons(layer, x) == ["its weights of some outputs are much larger than of others"]


def test_it_can_be_left_out() -> None:
    model, x = Feed(128, 256), torch.randn(64, 128)
    assert operators(model, x, without=["use_strassen"]) == ["linear_packed", "linear_packed"]


def test_methods_share_weights() -> None:
    """One of one row reads the same bytes."""
    model = Feed(128, 1024).eval()
    many, one = torch.randn(64, 128), torch.randn(1, 128)
    alone = len(penlight.compile(model, (many,)).to_bytes())
    both = penlight.compile({"many": (model, (many,)), "one": (model, (one,))}).to_bytes()
    assert len(both) < 1.05 * alone
    program = penlight.load(both)
    torch.testing.assert_close(program["many"](many)[:1], program["one"](many[:1]), rtol=1e-4, atol=1e-5)
