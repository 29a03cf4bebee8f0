"""Reductions of permuted and viewed tensors read what those are of."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest
import torch
from fused import Calls, check, operators
from torch import Tensor, nn
from torch.export import Dim

import penlight
from penlight.passes.reductions import simplify_reductions
from penlight.pipeline import export, to_edge

X = torch.randn(2, 3, 4, 5)
CASES: dict[str, Callable[[Tensor], Tensor]] = {
    "mean": lambda x: x.permute(0, 2, 3, 1).mean((1, 2)),
    "kept": lambda x: x.permute(0, 2, 3, 1).sum((1, 2), keepdim=True),
    "negative": lambda x: x.permute(0, -2, -1, 1).amax(-1),
    "what is left moves": lambda x: x.permute(3, 1, 0, 2).amin((1,)),
    "twice permuted": lambda x: x.permute(3, 1, 0, 2).transpose(0, 2).mean(1),
    "norm": lambda x: torch.linalg.vector_norm(x.permute(0, 2, 3, 1), 3, (1, 2)),
    "all": lambda x: x.permute(0, 2, 3, 1).sum((0, 1, 2, 3)),
}


@pytest.mark.parametrize("name", CASES)
def test_permutes_of_what_is_reduced_go(name: str) -> None:
    found = operators(Calls(CASES[name]), X)
    assert "permute_copy" not in found or name in ("what is left moves", "twice permuted"), found
    check(Calls(CASES[name]), X)


VIEWS: dict[str, Callable[[Tensor], Tensor]] = {
    "frames": lambda x: x.view(2, 3, 9, 8, 16).mean((1, 3, 4)),
    "frames kept": lambda x: x.view(2, 3, 9, 8, 16).sum((1, 3, 4), keepdim=True),
    "one batch": lambda x: x.view(1, 6, 9, 8, 16).amax((0, 1, 3, 4)),
    "with ones": lambda x: x.view(6, 9, 1, 8, 1, 16).amin((3, 5)),
    "nothing whole": lambda x: x.view(2, 3, 9, 8, 4, 4).mean((1, 4)),
    "split": lambda x: x.view(6, 9, 8, 2, 8).sum((2, 3)),
    "joined": lambda x: x.view(6, 72, 16).mean(1),
    "norm": lambda x: torch.linalg.vector_norm(x.view(2, 3, 9, 8, 16), 0, (1, 3, 4)),
}


@pytest.mark.parametrize("name", VIEWS)
def test_views_of_what_is_reduced(name: str) -> None:
    x = torch.randn(6, 9, 8, 16)
    x[2, 3] = 0
    check(Calls(VIEWS[name]), x)


def test_random_reductions() -> None:
    r = random.Random(0)
    for seed in range(60):
        torch.manual_seed(seed)
        sizes = [r.choice([1, 2, 3, 4, 6, 8]) for _ in range(r.randint(1, 4))]
        x = torch.randn(sizes)

        def function(x: Tensor, seed: int = seed) -> Tensor:
            r = random.Random(seed)
            for _ in range(r.randint(1, 3)):
                if r.random() < 0.5:
                    x = x.permute(r.sample(range(x.dim()), x.dim()))
                else:
                    left, sizes = x.numel(), []
                    while left > 1:
                        sizes.append(r.choice([d for d in range(1, left + 1) if left % d == 0]))
                        left //= sizes[-1]
                    x = x.reshape([*sizes, 1])
            dims = r.sample(range(x.dim()), r.randint(1, x.dim()))
            which = r.choice([torch.mean, torch.sum, torch.amax, torch.amin])
            return which(x, dims, keepdim=r.random() < 0.5)

        check(Calls(function), x)


def test_volumes_of_one_element_are_means() -> None:
    model = nn.Sequential(nn.Conv3d(3, 8, 3, padding=1), nn.AdaptiveAvgPool3d(1), nn.Conv3d(8, 4, 1))
    x = torch.randn(2, 3, 4, 9, 8)
    assert operators(model, x).count("mean") == 2, "of each frame, and of the frames"
    check(model, x)


def test_a_video_s_channels_are_weighed_without_copies() -> None:
    class Squeeze(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.last = nn.Conv3d(3, 16, (1, 3, 3)), nn.Conv3d(16, 4, 1)
            self.weigh = nn.Sequential(nn.AdaptiveAvgPool3d(1), nn.Conv3d(16, 16, 1), nn.Sigmoid())

        def forward(self, x: Tensor) -> Tensor:
            y = self.first(x)
            return self.last(y * self.weigh(y)).mean((2, 3, 4))

    x = torch.randn(1, 3, 4, 20, 20)
    found = operators(Squeeze(), x)
    assert found.count("clone") <= 3, found  # the image, and the one pixel to and from its layers
    check(Squeeze(), x)


@pytest.mark.parametrize("keepdim", [False, True])
@pytest.mark.parametrize("dims", [[0], [1], [-1], [0, 2], [0, 1, 2]], ids=str)
def test_sums_of_exponentials_are_vectorised(dims: list[int], keepdim: bool) -> None:
    model, x = Calls(lambda x: x.logsumexp(dims, keepdim)), 30 * torch.randn(4, 7, 50)
    found = operators(model, x)
    assert "logsumexp" not in found and "amax" in found
    check(model, x)
    x[0], x[1, 2], x[2, 3, 4] = -torch.inf, torch.inf, torch.nan
    program = penlight.load(penlight.compile(model, (x,)).to_bytes())
    torch.testing.assert_close(program(x), model(x), rtol=1e-5, atol=1e-5, equal_nan=True)


def test_other_sums_of_exponentials() -> None:
    for x in (torch.randn(3, 5, dtype=torch.double), torch.randn(()), torch.randn(0, 3)):
        check(Calls(lambda x: x.logsumexp(0)), x)


def test_dynamic_sizes() -> None:
    model = Calls(lambda x: (x.permute(0, 2, 3, 1).mean((1, 2)), x.flatten(2).amax(-1)))
    sizes = {"args": ({0: Dim("batch", max=4), 2: Dim("height", max=9)},)}
    program = penlight.load(penlight.compile(model, (X,), dynamic_shapes=sizes).to_bytes())
    for shape in ((1, 3, 9, 5), (4, 3, 2, 5)):
        x = torch.randn(shape)
        torch.testing.assert_close(list(program(x)), list(model(x)), rtol=1e-5, atol=1e-6)


def test_it_runs_on_a_graph_without_reductions() -> None:
    graph = to_edge(export(Calls(lambda x: x + 1), (X,))).methods["forward"].graph
    assert simplify_reductions(graph) == 0


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_largest_differences(dtype: torch.dtype) -> None:
    """Those that are no numbers are the largest, which ATen's cdist has otherwise."""

    class Distances(nn.Module):
        def forward(self, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
            return torch.cdist(x, y, p=torch.inf), torch.pdist(x, p=torch.inf)

    x, y = torch.randn(9, 7, dtype=dtype), torch.randn(11, 7, dtype=dtype)
    x[0, 3], x[1, 0], x[2, 6], y[3, 0], y[4, 0] = torch.nan, torch.inf, -torch.inf, torch.inf, torch.nan
    program = penlight.load(penlight.compile(Distances(), (x, y)))
    all_pairs, within = (torch.as_tensor(found) for found in program(x, y))
    torch.testing.assert_close(all_pairs, (x[:, None] - y).abs().amax(-1), rtol=0, atol=0, equal_nan=True)
    first, second = torch.triu_indices(9, 9, 1)
    want = (x[first] - x[second]).abs().amax(-1)
    torch.testing.assert_close(within, want, rtol=0, atol=0, equal_nan=True)
