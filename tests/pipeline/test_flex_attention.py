"""torch's flex_attention: scores that functions of the model change, and masks that they make."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch
from tests.pipeline.fused import Calls
from torch import Tensor
from torch.export import Dim
from torch.nn.attention.flex_attention import create_block_mask, flex_attention

import penlight
from penlight.errors import NotSupported

torch.manual_seed(0)
SIZE, HEADS = 20, 4
BIAS, SLOPES, DOCUMENT = torch.randn(HEADS, SIZE, SIZE), torch.rand(HEADS), torch.arange(SIZE) // 6

SCORES: dict[str, Callable[..., Tensor]] = {
    "causal": lambda s, b, h, i, j: torch.where(i >= j, s, -float("inf")),
    "bias": lambda s, b, h, i, j: s + BIAS[h, i, j],
    "slopes": lambda s, b, h, i, j: s - SLOPES[h] * (i - j).abs(),
    "softly capped": lambda s, b, h, i, j: 5 * torch.tanh(s / 5),
    "by batch": lambda s, b, h, i, j: s * (b + 1) / 2,
}
MASKS: dict[str, Callable[..., Tensor]] = {
    "causal": lambda b, h, i, j: i >= j,
    "window": lambda b, h, i, j: (i >= j) & (i - j < 5),
    "documents": lambda b, h, i, j: DOCUMENT[i] == DOCUMENT[j],
    "nothing for some": lambda b, h, i, j: (i > 3) & (j < 7),
}


def inputs(batch: int = 2, heads: int = HEADS, size: int = SIZE) -> tuple[Tensor, Tensor, Tensor]:
    return (
        torch.randn(batch, HEADS, size, 8),
        torch.randn(batch, heads, size, 8),
        torch.randn(batch, heads, size, 8),
    )


def check(model: torch.nn.Module, *calls: tuple[Tensor, ...], **options: Any) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        program = penlight.load(penlight.compile(model, calls[0], **options))
        for args in calls:
            torch.testing.assert_close(program(*args), model(*args), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("target", ["cpu", "portable"])
@pytest.mark.parametrize("name", SCORES)
def test_changed_scores(name: str, target: str) -> None:
    check(Calls(lambda q, k, v: flex_attention(q, k, v, score_mod=SCORES[name])), inputs(), target=target)


@pytest.mark.parametrize("name", MASKS)
def test_masks(name: str) -> None:
    mask = create_block_mask(MASKS[name], None, None, SIZE, SIZE, device="cpu")
    check(Calls(lambda q, k, v: flex_attention(q, k, v, block_mask=mask)), inputs())


def test_heads_in_groups() -> None:
    mask = create_block_mask(MASKS["causal"], None, None, SIZE, SIZE, device="cpu")
    model = Calls(lambda q, k, v: flex_attention(q, k, v, SCORES["bias"], mask, scale=0.3, enable_gqa=True))
    check(model, inputs(heads=2))


def test_any_batch() -> None:
    model = Calls(lambda q, k, v: flex_attention(q, k, v, score_mod=SCORES["slopes"]))
    shapes = (({0: Dim("batch", max=8)},) * 3,)
    check(model, inputs(3), inputs(1), inputs(8), dynamic_shapes=shapes)


def test_a_row_of_a_table_is_refused() -> None:
    model = Calls(
        lambda q, k, v: flex_attention(q, k, v, score_mod=lambda s, b, h, i, j: s + BIAS[h][i].sum())
    )
    with pytest.raises(NotSupported, match="flex_attention takes functions of one score") as caught:
        check(model, inputs())
    assert "scaled_dot_product_attention" in (caught.value.do or "")
