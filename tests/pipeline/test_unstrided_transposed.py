"""Transposed convolutions without a stride are convolutions whose windows are turned."""

from __future__ import annotations

import itertools

import pytest
import torch
from tests.pipeline.fused import Calls, check, operators, trained
from torch import Tensor, nn
from torch.export import Dim
from torch.nn import functional

import penlight
from penlight.pipeline import export, to_edge

MAKE = (nn.ConvTranspose1d, nn.ConvTranspose2d, nn.ConvTranspose3d)


def transposed(model: nn.Module, *args: Tensor) -> list[bool]:
    """Of each convolution, before weights are packed."""
    graph = to_edge(export(model.eval(), args), target="portable").methods["forward"].graph
    found = graph.find_nodes(op="call_function", target=torch.ops.aten.convolution.default)
    return [bool(node.args[6]) for node in found]


@pytest.mark.parametrize("target", ["cpu", "portable"])
@pytest.mark.parametrize("groups", [1, 2, 6])
@pytest.mark.parametrize("dims", [1, 2, 3])
def test_as_eager_mode(dims: int, groups: int, target: str) -> None:
    for dilation, padding, bias in ((1, 1, True), (2, 3, False), (2, 0, True)):
        layer = MAKE[dims - 1](6, 12, 3, 1, padding, groups=groups, bias=bias, dilation=dilation)
        x = torch.randn(2, 6, *(9, 5, 6)[:dims])
        assert transposed(layer, x) == [False]
        check(layer, x, target=target)
        check(layer, x[0], target=target)


def test_windows_of_unlike_sides() -> None:
    for size, padding, dilation in itertools.product(((1, 4), (5, 2)), ((0, 1), (0, 0)), ((1, 2), (3, 1))):
        layer = nn.ConvTranspose2d(3, 8, size, 1, padding, dilation=dilation)
        x = torch.randn(1, 3, 6, 7)
        assert transposed(layer, x) == [False]
        check(layer, x)


def test_those_that_stay() -> None:
    x = torch.randn(1, 4, 6, 7)
    for layer in (
        nn.ConvTranspose2d(4, 3, 3, 2, 1),
        nn.ConvTranspose2d(4, 3, 3, (1, 2)),
        nn.ConvTranspose2d(4, 3, 1, 1, 1),
    ):
        assert transposed(layer, x) == [True]
        check(layer, x)


def test_in_a_network() -> None:
    """Batch norm and activation go with it; image sizes and the batch may be dynamic."""
    net = nn.Sequential(
        nn.Conv2d(3, 8, 3, 2),
        nn.ReLU(),
        nn.ConvTranspose2d(8, 6, 3, bias=False),
        nn.BatchNorm2d(6),
        nn.SiLU(),
    )
    trained(net[3])
    x = torch.randn(2, 3, 17, 14)
    assert sum(name.startswith("conv") for name in operators(net.eval(), x)) == 2
    sizes = ({0: Dim.AUTO(max=4), 2: Dim.AUTO(max=40), 3: Dim.AUTO(max=40)},)
    loaded = penlight.load(penlight.compile(net, (x,), dynamic_shapes=sizes))
    for given in (x, torch.randn(1, 3, 40, 9), torch.randn(4, 3, 12, 33)):
        torch.testing.assert_close(loaded(given), net(given), rtol=1e-4, atol=1e-4)


def test_weights_that_are_computed() -> None:
    model = Calls(lambda x, w: functional.conv_transpose2d(x, w * 2, padding=1, groups=2))
    check(model, torch.randn(1, 4, 6, 5), torch.randn(4, 3, 3, 3))
