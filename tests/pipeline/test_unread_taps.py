"""Rows and columns of windows that lie in an image's padding wherever the window is."""

from __future__ import annotations

import itertools
import random

import pytest
import torch
from fused import check
from torch import nn
from torch.export import Dim

import penlight
from penlight.pipeline import export, to_edge

aten = torch.ops.aten


def windows(layer: nn.Module, x: torch.Tensor, **options: object) -> list[torch.Size]:
    """Those of the convolutions that are left."""
    program = to_edge(export(layer, (x,), **options), target="portable")
    graph = program.methods["forward"].graph
    nodes = graph.find_nodes(op="call_function", target=aten.convolution.default)
    return [node.args[1].meta["val"].shape[2:] for node in nodes]


@pytest.mark.parametrize(
    "layer, shape, window",
    [
        (nn.Conv2d(4, 6, 3, padding=24, dilation=24), (1, 4, 14, 14), (1, 1)),
        (nn.Conv2d(4, 6, 3, padding=12, dilation=12), (1, 4, 14, 14), (3, 3)),
        (nn.Conv2d(4, 6, 3, padding=14, dilation=14), (1, 4, 14, 15), (1, 3)),
        (nn.Conv2d(4, 6, 5, padding=2), (2, 4, 1, 2), (1, 3)),
        (nn.Conv2d(4, 6, 5, padding=8, dilation=4, stride=3), (2, 4, 4, 7), (1, 3)),
        (nn.Conv2d(4, 4, 3, padding=1, groups=4), (1, 4, 1, 1), (1, 1)),
        (nn.Conv2d(4, 6, (1, 4), padding=(0, 2)), (1, 4, 3, 1), (1, 2)),
        (nn.Conv2d(4, 6, 2, padding=1), (1, 4, 1, 1), (2, 2)),
        (nn.Conv1d(4, 6, 3, padding=30, dilation=20), (1, 4, 9), (1,)),
        (nn.Conv1d(4, 6, 3, padding=35, dilation=20), (1, 4, 9), (3,)),
        (nn.Conv3d(2, 3, 3, padding=1), (1, 2, 1, 5, 1), (1, 3, 1)),
        (nn.ConvTranspose2d(4, 6, 3, padding=1), (1, 4, 1, 1), None),
    ],
)
@pytest.mark.parametrize("target", ["cpu", "portable"])
def test_windows_are_cropped(
    layer: nn.Module, shape: tuple[int, ...], window: tuple[int, ...] | None, target: str
) -> None:
    x = torch.randn(shape)
    if window is not None:
        assert windows(layer, x) == [window]
    check(layer, x, target=target)


def test_random_convolutions() -> None:
    r = random.Random(0)
    cropped = 0
    for _ in range(60):
        torch.manual_seed(r.randrange(1 << 30))
        sizes, window = (tuple(r.randint(1, 6) for _ in range(2)) for _ in range(2))
        dilation, padding, stride = (
            tuple(r.randint(low, high) for _ in range(2)) for low, high in ((1, 5), (0, 9), (1, 3))
        )
        spans = zip(sizes, padding, dilation, window, strict=True)
        if any(n + 2 * p < d * (k - 1) + 1 for n, p, d, k in spans):
            continue
        layer = nn.Conv2d(3, 5, window, stride, padding, dilation)
        x = torch.randn(2, 3, *sizes)
        (found,) = windows(layer, x)
        cropped += found != window
        dead = torch.ones(window, dtype=torch.bool)
        for at in itertools.product(*map(range, window)):
            one = torch.zeros_like(layer.weight)
            one[:, :, at[0], at[1]] = 1
            read = nn.functional.conv2d(x.abs() + 1, one, None, stride, padding, dilation)
            dead[at] = bool((read == 0).all())
        margins = [(size - left) // 2 for size, left in zip(window, found, strict=True)]
        inner = tuple(slice(m, size - m) for m, size in zip(margins, window, strict=True))
        dead[inner] = True
        assert dead.all(), "a tap that is read was dropped"
        check(layer, x)
    assert cropped > 10


def test_the_weights_that_are_dropped_are_not_in_the_file() -> None:
    layer, x = nn.Conv2d(64, 64, 3, padding=24, dilation=24), torch.randn(1, 64, 14, 14)
    assert len(penlight.compile(layer, (x,)).to_bytes()) < layer.weight.nbytes / 4


def test_dynamic_images_keep_all_taps() -> None:
    layer, x = nn.Conv2d(4, 6, 3, padding=8, dilation=8), torch.randn(1, 4, 6, 6)
    sizes = ({2: Dim("height", min=2, max=32)},)
    assert windows(layer, x, dynamic_shapes=sizes) == [(3, 1)]


def test_a_weight_that_others_read_stays() -> None:
    class Twice(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Conv2d(4, 4, 3, padding=4, dilation=4)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.layer(x) + self.layer(x.flip(-1)) + self.layer.weight.sum()

    x = torch.randn(1, 4, 3, 3)
    assert windows(Twice(), x) == [(3, 3), (3, 3)]
    check(Twice(), x)
