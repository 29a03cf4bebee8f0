"""Batch norm that no layer takes is a multiply and an add, in one step with what is around it."""

from __future__ import annotations

import math

import pytest
import torch
from tests.pipeline.fused import Calls, check, operators, trained
from torch import Tensor, nn
from torch.export import Dim
from torch.nn import functional

import penlight

NAME = "simplify_batch_norm"
NORM = "_native_batch_norm_legit_no_training"


class Dense(nn.Module):
    """A layer of a DenseNet: what it adds stands beside what it read."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, 24, 3, padding=1)
        self.norms = nn.ModuleList(trained(nn.BatchNorm2d(24 + 8 * i)) for i in range(2))
        self.layers = nn.ModuleList(nn.Conv2d(24 + 8 * i, 8, 3, padding=1) for i in range(2))

    def forward(self, x: Tensor) -> Tensor:
        x = self.stem(x)
        for norm, layer in zip(self.norms, self.layers, strict=True):
            x = torch.cat([x, layer(functional.relu(norm(x)))], 1)
        return x


def test_one_step_with_the_activation_and_no_conversion() -> None:
    model, image = Dense(), torch.randn(2, 3, 11, 13)
    found = operators(model, image)
    assert found.count("elementwise") == 2 and NORM not in found and "relu" not in found
    assert found.count("clone") == 1, "the result alone"
    check(model, image)
    assert operators(model, image, without=[NAME]).count(NORM) == 2
    check(model, image, without=[NAME])
    check(model, image, without=["fuse_elementwise"])


@pytest.mark.parametrize(
    "norm, sizes",
    [
        (nn.BatchNorm1d(5), (7, 5)),
        (nn.BatchNorm1d(5), (2, 5, 9)),
        (nn.BatchNorm2d(5, affine=False), (2, 5, 3, 4)),
        (nn.BatchNorm3d(5, eps=0.3), (2, 5, 3, 4, 2)),
        (nn.BatchNorm2d(5), (0, 5, 3, 4)),
        (nn.BatchNorm2d(1), (2, 1, 1, 1)),
    ],
    ids=str,
)
def test_every_rank(norm: nn.Module, sizes: tuple[int, ...]) -> None:
    x = torch.randn(sizes)
    assert NORM not in operators(trained(norm), x)
    check(norm, x)
    check(nn.Sequential(nn.Tanh(), norm, nn.SiLU()), x)


def test_memory_order_of_the_input_is_kept() -> None:
    norm = trained(nn.BatchNorm2d(6))
    image = torch.randn(2, 6, 4, 5).contiguous(memory_format=torch.channels_last)
    assert NORM not in operators(norm, image)
    check(norm, image)


def test_dynamic_sizes() -> None:
    norm = nn.Sequential(trained(nn.BatchNorm2d(6)), nn.ReLU())
    sizes = {"input": {0: Dim("n", max=9), 3: Dim("w", max=20)}}
    program = penlight.load(
        penlight.compile(norm, (torch.randn(2, 6, 4, 5),), dynamic_shapes=sizes).to_bytes()
    )
    for sizes in ((1, 6, 4, 20), (9, 6, 4, 3)):
        x = torch.randn(sizes)
        torch.testing.assert_close(program(x), norm(x))


def test_what_is_not_constant_or_not_float32_stays() -> None:
    x, statistics = torch.randn(2, 4, 3, 3), (torch.randn(4), torch.rand(4) + 0.5)
    given = Calls(lambda x, mean, var: functional.batch_norm(x, mean, var))
    assert NORM in operators(given, x, *statistics)
    check(given, x, *statistics)
    assert NORM in operators(trained(nn.BatchNorm2d(4)).double(), x.double())
    assert NORM in operators(trained(nn.BatchNorm2d(4)), x, target="portable")


def test_numbers_that_are_none() -> None:
    norm = nn.BatchNorm1d(8, eps=0.0)
    special = torch.tensor([1.0, math.inf, -math.inf, math.nan, 0.0, 1e37, 1e-40, -1.0])
    inputs = special.clamp(max=1e3).where(special != math.inf, special)
    for name in ("weight", "bias", "running_mean", "running_var"):
        trained(norm)
        getattr(norm, name).data = special.abs() if name == "running_var" else special
        for x in (torch.randn(3, 8), inputs.flip(0)[None], inputs.roll(3)[None] * torch.ones(2, 1)):
            check(norm, x)


def test_no_less_exact_than_eager() -> None:
    """But for the one rounding more of a product and a sum; also where the mean is far from zero."""
    torch.manual_seed(5)
    norm = trained(nn.BatchNorm2d(64))
    norm.running_mean = norm.running_mean * 1000  # type: ignore[operator]
    x = norm.running_mean[:, None, None] + torch.randn(2, 64, 20, 20)
    program = penlight.load(penlight.compile(norm, (x,)).to_bytes())
    with torch.no_grad():
        exact = functional.batch_norm(
            *(one.double() for one in (x, norm.running_mean, norm.running_var, norm.weight, norm.bias)),
            eps=norm.eps,
        )
        mine, theirs = ((got.double() - exact).abs().mean() for got in (program(x), norm(x)))
    assert mine <= theirs * 2
