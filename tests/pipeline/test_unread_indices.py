"""Maxima are computed without their places where nothing reads these."""

from __future__ import annotations

import pytest
import torch
from tests.pipeline.fused import Calls, check, operators
from torch import Tensor, nn
from torch.export import Dim

from penlight.pipeline import export, to_edge


def test_greatest_without_places() -> None:
    def pooled(x: Tensor) -> tuple[Tensor, ...]:
        return x.max(2)[0], x.min(1, keepdim=True)[0], x.max(0)[1]

    x = torch.randn(3, 5, 70)
    x[1, 2, 3] = torch.nan
    assert sorted({"amax", "amin", "max", "min"} & set(operators(Calls(pooled), x))) == [
        "amax",
        "amin",
        "max",
    ]
    check(Calls(pooled), x)


@pytest.mark.parametrize(
    "layer", [nn.AdaptiveMaxPool1d(1), nn.AdaptiveMaxPool2d((1, 1)), nn.AdaptiveMaxPool3d(1)]
)
def test_greatest_of_an_image(layer: nn.Module) -> None:
    dims = int(type(layer).__name__[-2])
    x = torch.randn(2, 5, *(7, 4, 3)[:dims])
    x[1, 2].view(-1)[3] = torch.nan
    for given in (x, x[0]):
        assert operators(layer, given).count("amax") == 1
        check(layer, given)
    places = type(layer)(1, return_indices=True)
    assert "amax" not in operators(places, x)
    check(places, x)
    several = type(layer)(2)
    assert "amax" not in operators(several, x)
    check(several, x)


@pytest.mark.parametrize(
    "layer", [nn.MaxPool1d(3, 2, 1), nn.MaxPool2d(2), nn.MaxPool2d((5, 1), 1, (2, 0), (1, 2), ceil_mode=True)]
)
def test_pools_of_planes(layer: nn.Module) -> None:
    x = torch.randn(2, 5, *(19, 23)[: int(type(layer).__name__[-2])])
    x[1, 2].view(-1)[3] = torch.nan
    assert "max_pool2d" in operators(layer, x)
    check(layer, x)
    layer.return_indices = True  # type: ignore[assignment]
    assert "max_pool2d_with_indices" in operators(layer, x)
    check(layer, x)


def test_pools_of_other_numbers() -> None:
    for dtype in (torch.float64, torch.int32):
        x = (torch.randn(1, 3, 8, 8) * 9).to(dtype)
        assert "max_pool2d_with_indices" in operators(nn.MaxPool2d(2), x)
        check(nn.MaxPool2d(2), x)


def test_pools_of_dynamic_planes() -> None:
    layer, x = nn.MaxPool2d(3, 2, 1), torch.randn(2, 3, 9, 11)
    sizes = {0: Dim("n", max=4), 2: Dim("h", min=3, max=20), 3: Dim("w", min=3, max=30)}
    check(layer, x, dynamic_shapes=(sizes,))


def test_no_buffer_of_log_sigmoid() -> None:
    loss = Calls(torch.nn.functional.binary_cross_entropy_with_logits)
    x, y = torch.randn(5, 9) * 30, torch.rand(5, 9)
    assert "log_sigmoid_forward" not in operators(loss, x, y)
    check(loss, x, y)
    both = Calls(lambda x: torch.ops.aten.log_sigmoid_forward(x))
    assert "log_sigmoid_forward" in operators(both, x)


def test_values_without_vectors() -> None:
    """torch traces svdvals as svd, and so with eigenvalues."""

    def values(x: Tensor) -> tuple[Tensor, ...]:
        return torch.linalg.svdvals(x), torch.linalg.eigvalsh(x + x.mT)

    def vectors(x: Tensor) -> tuple[Tensor, ...]:
        return torch.linalg.svd(x)[2].abs(), torch.linalg.eigh(x + x.mT)[1].abs()

    x = torch.randn(5, 5)
    for function, wanted in ((values, False), (vectors, True)):
        graph = to_edge(export(Calls(function), (x,))).methods["forward"].graph
        made = [node for node in graph.nodes if str(node.target).startswith("aten._linalg_")]
        assert len(made) == 2
        assert all((len(node.args) < 3 or node.args[2]) is wanted for node in made)
        check(Calls(function), x, tolerance=1e-4)
