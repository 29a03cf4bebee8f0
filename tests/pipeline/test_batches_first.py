"""torch's own attention with batches first: no transposes, and the layer after it adds the residual."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn
from torch.export import Dim

import penlight

WIDTH = 24


class Block(nn.Module):
    """Self-attention, or attention to a memory, and what is around it in a transformer."""

    def __init__(self, *, batch_first: bool = True, before: bool = True, biases: bool = True) -> None:
        super().__init__()
        self.attention = nn.MultiheadAttention(WIDTH, 3, batch_first=batch_first, bias=biases)
        self.norm, self.before = nn.LayerNorm(WIDTH), before

    def forward(self, x: Tensor, memory: Tensor | None = None, mask: Tensor | None = None) -> Tensor:
        y = self.norm(x) if self.before else x
        other = y if memory is None else memory
        x = x + self.attention(y, other, other, attn_mask=mask, need_weights=False)[0]
        return x.relu() if self.before else self.norm(x)


def names_of(model: nn.Module, *args: Tensor, **options: object) -> list[str]:
    program = penlight.load(penlight.compile(model.eval(), args, **options).to_bytes())
    with torch.no_grad():
        torch.testing.assert_close(program(*args), model(*args), rtol=1e-5, atol=1e-5, equal_nan=True)
    return [name.split("::")[1] for name in program["forward"].instruction_names()]


@pytest.mark.parametrize("before", [True, False])
@pytest.mark.parametrize("batch_first", [True, False])
@pytest.mark.parametrize("sizes", [(1, 9), (3, 9), (4, 1), (1, 1)])
def test_neither_transposes_nor_additions(sizes: tuple[int, int], batch_first: bool, before: bool) -> None:
    model, x = Block(batch_first=batch_first, before=before), torch.randn(*sizes, WIDTH)
    assert sorted(names_of(model, x)) == [
        *("attention_in_rows.out", "linear_packed.out", "linear_packed.out", "native_layer_norm.out")
    ]
    x[0, 0, 3] = torch.nan
    names_of(model, x)


@pytest.mark.parametrize("biases", [True, False])
def test_attention_to_a_memory(biases: bool) -> None:
    model, x, memory = Block(biases=biases), torch.randn(3, 5, WIDTH), torch.randn(3, 8, WIDTH)
    assert not {"permute_copy.out", "add.out"} & set(names_of(model, x, memory))


def test_masks_stay_with_their_batches() -> None:
    x, memory = torch.randn(2, 5, WIDTH), torch.randn(2, 8, WIDTH)
    mask = torch.rand(2 * 3, 5, 8) > 0.7
    mask[..., 0] = False
    assert "permute_copy.out" not in names_of(Block(), x, memory, mask)


def test_a_transpose_that_is_read_elsewhere_stays_right() -> None:
    class Twice(Block):
        def forward(self, x: Tensor, memory: Tensor | None = None, mask: Tensor | None = None) -> Tensor:
            return super().forward(x) * x.transpose(0, 1).cumsum(0).transpose(0, 1)

    names_of(Twice(), torch.randn(3, 5, WIDTH))


def test_a_layer_that_is_read_elsewhere_stays_right() -> None:
    class Shared(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(WIDTH, WIDTH)

        def forward(self, x: Tensor) -> Tensor:
            rows = self.layer(x.transpose(0, 1))
            heads = rows.unflatten(-1, (3, 8)).permute(1, 2, 0, 3)
            y = nn.functional.scaled_dot_product_attention(heads, heads, heads)
            return y.permute(2, 0, 1, 3).flatten(2) + rows

    names_of(Shared(), torch.randn(3, 5, WIDTH))


def test_dynamic_sizes() -> None:
    model = Block().eval()
    shapes = {"x": {0: Dim("batch", min=1, max=4), 1: Dim("rows", min=2, max=9)}}
    program = penlight.load(
        penlight.compile(model, (torch.randn(3, 5, WIDTH),), dynamic_shapes=shapes).to_bytes()
    )
    for sizes in ((1, 2), (4, 9), (3, 5)):
        x = torch.randn(*sizes, WIDTH)
        with torch.no_grad():
            torch.testing.assert_close(program(x), model(x), rtol=1e-5, atol=1e-5)


def test_left_out() -> None:
    names = names_of(Block(), torch.randn(3, 5, WIDTH), without=["keep_batches_first"])
    assert names.count("permute_copy.out") == 2
