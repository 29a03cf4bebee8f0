"""Pictures whose channels lie side by side reach a convolution uncopied, wherever they get their batch."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from tests.pipeline.fused import check
from torch import Tensor, nn
from torch.export import Dim

import penlight

MEAN, STD = torch.tensor([0.4, 0.5, 0.6]).view(3, 1, 1), torch.tensor([0.2, 0.3, 0.25]).view(3, 1, 1)


class Reads(nn.Module):
    """A convolution of what `function` makes of a picture."""

    def __init__(self, function: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.layer, self.function = nn.Conv2d(3, 8, 3, 2, 1), function

    def forward(self, x: Tensor) -> Tensor:
        return self.layer(self.function(x)).mean((2, 3))


NO_COPY: dict[str, Callable[[Tensor], Tensor]] = {
    "scaled": lambda x: (x.permute(2, 0, 1).float() / 255).unsqueeze(0),
    "normalised": lambda x: ((x.permute(2, 0, 1).float() / 255 - MEAN) / STD)[None],
    "with a view": lambda x: (x.permute(2, 0, 1) / 255.0).view(1, 3, *x.shape[:2]),
    "transposed twice": lambda x: (x.float().transpose(0, 2).transpose(1, 2) / 255).unsqueeze(0),
    "as it is": lambda x: x.permute(2, 0, 1).unsqueeze(0).float(),
    "dense first": lambda x: x.permute(2, 0, 1).contiguous().float().unsqueeze(0),
    "of two": lambda x: (x.permute(2, 0, 1).float() * (x + 1.5).permute(2, 0, 1)).unsqueeze(0),
    "read twice": lambda x: F.silu((y := x.permute(2, 0, 1).float()) * torch.sigmoid(y))[None],
    "where": lambda x: torch.where(x.permute(2, 0, 1) > 99, MEAN, x.permute(2, 0, 1) / 255.0)[None],
    "without a batch": lambda x: x.permute(2, 0, 1) / 255.0,
}


def picture(h: int = 20, w: int = 22) -> Tensor:
    return torch.randint(0, 255, (h, w, 3), dtype=torch.uint8)


class Alone(Reads):
    """The same of a convolution that takes one image."""

    def forward(self, x: Tensor) -> Tensor:
        return self.layer(self.function(x)).mean((1, 2))


def permutes(model: nn.Module, x: Tensor, without: tuple[str, ...] = ()) -> bool:
    program = penlight.load(penlight.compile(model.eval(), (x,), without=without))
    return any("permute" in name for name in program["forward"].instruction_names())


@pytest.mark.parametrize("name", NO_COPY)
def test_pictures_are_not_permuted(name: str) -> None:
    model, x = (Alone if name == "without a batch" else Reads)(NO_COPY[name]), picture()
    assert not permutes(model, x)
    assert permutes(model, x, ("batch_single_images",)) or name == "as it is"
    check(model, x)
    check(model, x, without=["batch_single_images"])


OTHERS: dict[str, Callable[[Tensor], Tensor]] = {
    "read again": lambda x: (y := x.permute(2, 0, 1).float())[None] * y.mean(),
    "another order": lambda x: (x.permute(2, 1, 0).float() / 255)[None],
    "no permutation": lambda x: (x[:3, :, :].float() / 255)[None],
    "broadcast": lambda x: (x[:1].permute(2, 0, 1) + torch.ones(3, 5, 1))[None],
    "two batches": lambda x: (x.permute(2, 0, 1).float() / 255).expand(2, -1, -1, -1),
    "by rows": lambda x: F.softmax(x.permute(2, 0, 1).float(), -1)[None],
    "with a whole image": lambda x: (x.permute(2, 0, 1) + torch.arange(1320.0).view(3, 20, 22))[None],
}


@pytest.mark.parametrize("name", OTHERS)
def test_other_images_are_as_before(name: str) -> None:
    check(Reads(OTHERS[name]), picture())


def test_dynamic_sizes() -> None:
    model = Reads(NO_COPY["normalised"]).eval()
    sizes = {"x": {0: Dim("h", min=4, max=40), 1: Dim("w", min=4, max=50)}}
    file = penlight.compile(model, (picture(),), dynamic_shapes=sizes).to_bytes()
    program = penlight.load(file)
    for h, w in ((40, 50), (7, 9)):
        x = picture(h, w)
        with torch.no_grad():
            torch.testing.assert_close(program(x), model(x), rtol=1e-4, atol=1e-4)
