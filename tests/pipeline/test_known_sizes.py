"""Sizes that depend on constants alone need no bound of the user's."""

from __future__ import annotations

import pytest
import torch
from fused import Calls, check
from torch import Tensor, nn
from torch.export import Dim

import penlight
from penlight.errors import InvalidInput, NotSupported, UnboundedShape


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


PARTED = {
    "reshape": lambda x: x.reshape(2, -1, 3, 4) + 1,
    "view": lambda x: x.view(x.shape[0], -1, 3, x.shape[2]).sum(2),
    "in the middle": lambda x: x.reshape(2, x.shape[1] // 3, 3, -1).transpose(1, 2) * 2,
    "unflatten": lambda x: x.unflatten(1, (-1, 3)).softmax(2),
    "unflatten, from the end": lambda x: x.unflatten(-2, (-1, 3)).amax(-2),
    "twice": lambda x: x.unflatten(1, (-1, 3)).flatten(1, 2).reshape(2, -1, 3, 2, 2).cos(),
}


@pytest.mark.parametrize("target", ["cpu", "portable"])
@pytest.mark.parametrize("name", PARTED)
def test_a_dynamic_size_in_parts_of_known_length(name: str, target: str) -> None:
    """torch writes the length of the parts as s // (s // 3), which has no bound."""
    model = Calls(PARTED[name])
    exported = torch.export.export(
        model, (torch.randn(2, 6, 4),), dynamic_shapes=((({1: Dim.AUTO(max=30)}),),)
    )
    loaded = penlight.load(penlight.compile(exported, target=target))
    for length in (6, 3, 12, 30):
        x = torch.randn(2, length, 4)
        torch.testing.assert_close(loaded(x), model(x))
    with pytest.raises(InvalidInput):
        loaded(torch.randn(2, 7, 4))
    assert loaded(torch.randn(2, 9, 4)).shape[0] == 2


@pytest.mark.parametrize("target", ["cpu", "portable"])
def test_a_mask_that_repeats_elements(target: str) -> None:
    """More are chosen than there are, which torch's own bound does not know."""
    masked = Calls(torch.masked_select)
    for sizes, mask in (((10,), (10, 10)), ((10, 1, 10), (10, 10)), ((4,), (4,)), ((1,), (7,))):
        check(masked, torch.randn(sizes), torch.rand(mask) < 0.7, target=target)


def test_unique_consecutive_along_a_dimension() -> None:
    x = torch.randint(0, 2, (3, 4, 5))
    check(Calls(lambda x: torch.unique_consecutive(x, dim=2)), x)
    with pytest.raises(NotSupported, match="write dim=2"):
        penlight.compile(Calls(lambda x: torch.unique_consecutive(x, dim=-1)), (x,))
