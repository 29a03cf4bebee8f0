"""Group norms, resampling and pooling between convolutions: images stay channels-last."""

from __future__ import annotations

import pytest
import torch
from tests.pipeline.fused import Calls, check, operators
from torch import Tensor, nn
from torch.export import Dim
from torch.nn import functional

import penlight


class Residual(nn.Module):
    """A block of a diffusion network, between two of its sizes."""

    def __init__(self, groups: int, affine: bool) -> None:
        super().__init__()
        self.first = nn.Conv2d(3, 16, 3, padding=1)
        self.norms = nn.ModuleList(nn.GroupNorm(groups, 16, affine=affine) for _ in range(2))
        self.layers = nn.ModuleList(nn.Conv2d(16, 16, 3, padding=1) for _ in range(2))
        for one in self.norms.parameters():
            nn.init.normal_(one)

    def forward(self, x: Tensor) -> Tensor:
        x = y = self.first(x)
        for norm, layer in zip(self.norms, self.layers, strict=True):
            y = layer(functional.silu(norm(y)))
        return functional.interpolate(x + y, scale_factor=2.0, mode="nearest")


@pytest.mark.parametrize("affine", [True, False])
@pytest.mark.parametrize("groups", [1, 4, 16])
def test_group_norm_reads_the_image(groups: int, affine: bool) -> None:
    model, image = Residual(groups, affine), torch.randn(2, 3, 9, 11)
    found = operators(model, image)
    assert found.count("native_group_norm") == 2 and found.count("clone") == 1, "the result alone"
    assert found.count("clone") < operators(model, image, without=["keep_channels_last"]).count("clone")
    check(model, image, tolerance=1e-4)
    check(model, image, tolerance=1e-4, without=["keep_channels_last"])


def test_dynamic_sizes() -> None:
    model, sizes = Residual(4, True).eval(), {"x": {0: Dim("n", max=3), 2: Dim("h", max=20)}}
    program = penlight.load(
        penlight.compile(model, (torch.randn(2, 3, 9, 11),), dynamic_shapes=sizes).to_bytes()
    )
    for n, h in ((1, 20), (3, 2)):
        x = torch.randn(n, 3, h, 11)
        with torch.no_grad():
            torch.testing.assert_close(program(x), model(x), rtol=1e-4, atol=1e-4)


def test_moments_are_results() -> None:
    def moments(x: Tensor) -> tuple[Tensor, ...]:
        return torch.native_group_norm(layer(x), None, None, 2, 8, 20, 4, 1e-5)

    layer = nn.Conv2d(6, 8, 1)
    model = Calls(moments)
    model.layer = layer
    image = torch.randn(2, 6, 4, 5)
    assert operators(model, image).count("clone") == 2, "what is read and what is given"
    check(model, image, tolerance=1e-4)


def test_other_ranks_are_read_row_major() -> None:
    for model, x in (
        (nn.Sequential(nn.Conv1d(6, 8, 3), nn.GroupNorm(2, 8), nn.Conv1d(8, 4, 1)), torch.randn(2, 6, 12)),
        (nn.Sequential(nn.Conv3d(3, 8, 3), nn.GroupNorm(2, 8)), torch.randn(1, 3, 5, 6, 7)),
        (nn.Sequential(nn.Linear(6, 8), nn.GroupNorm(2, 8)), torch.randn(5, 6)),
        (nn.Sequential(nn.Conv2d(3, 8, 3), nn.InstanceNorm2d(8, affine=True)), torch.randn(2, 3, 6, 7)),
    ):
        check(model, x, tolerance=1e-3)


class Pyramid(nn.Module):
    """A head of a segmentation network: pooled, computed, and brought back to size."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = nn.Conv2d(3, 12, 3, padding=1), nn.Conv2d(24, 5, 1)
        self.small = nn.Conv2d(12, 12, 1)

    def forward(self, x: Tensor) -> Tensor:
        x = self.first(x)
        small = self.small(functional.avg_pool2d(x, 3, 2, 1, count_include_pad=False))
        wide = functional.interpolate(small, size=x.shape[2:], mode="bilinear")
        y = self.last(torch.cat([x, wide], 1))
        return functional.interpolate(y, scale_factor=4.0, mode="bilinear", align_corners=True)


def test_pyramid() -> None:
    model, image = Pyramid(), torch.randn(1, 3, 17, 15)
    assert operators(model, image).count("clone") == 1
    check(model, image, tolerance=1e-4)
