"""Sizes that depend on constants alone need no bound of the user's."""

from __future__ import annotations

import pytest
import torch
from fused import Calls, check
from torch import Tensor, nn

import penlight
from penlight.errors import InvalidInput, UnboundedShape


class Lengths(nn.Module):
    """As many zeros as the longest of some lengths, which are a buffer."""

    def __init__(self, written: bool = False) -> None:
        super().__init__()
        self.register_buffer("lengths", torch.tensor([3, 5, 2]))
        self.written = written

    def forward(self, x: Tensor) -> Tensor:
        if self.written:
            self.lengths.add_(1)
        return x.sum() + torch.zeros(self.lengths.max().item())


def repeated(x: Tensor) -> Tensor:
    return x[:, torch.arange(4).repeat_interleave(torch.tensor([1, 3, 0, 2]))]


def counted(x: Tensor) -> tuple[Tensor, Tensor]:
    count = (torch.arange(x.shape[1]).max() + 1).item()
    places = torch.arange(2 * count)
    return places + x.sum(), torch.nonzero(torch.arange(x.shape[1]) % 2)


@pytest.mark.parametrize("target", ["cpu", "portable"])
@pytest.mark.parametrize(
    "model", [Lengths(), Calls(repeated), Calls(counted)], ids=["buffer", "repeated", "counted"]
)
def test_sizes_of_constants(model: nn.Module, target: str) -> None:
    check(model, torch.randn(3, 6), target=target)


def test_a_buffer_that_is_written_is_no_constant() -> None:
    with pytest.raises(UnboundedShape):
        penlight.compile(Lengths(written=True), (torch.randn(3, 6),))


def test_what_cannot_be_computed_is_left() -> None:
    """An index out of range, and the line of the model that has it."""

    def out_of_range(x: Tensor) -> Tensor:
        count = torch.arange(3)[torch.tensor([7])].item()
        torch._check(count >= 0)
        torch._check(count <= 9)
        return x.sum() + torch.zeros(count)

    with pytest.raises(InvalidInput, match=r"(?s)node index, from.*index 7 is out of bounds"):
        penlight.compile(Calls(out_of_range), (torch.ones(2),))
