"""Attention over heads in rows, and rotary embeddings, against float64, with every instruction set."""

from __future__ import annotations

import pytest
import torch
from run_op import overload_of, run_op
from torch.nn import functional

from penlight.dialects.attention_op import attention_op, rotary_op
from penlight.errors import InvalidInput
from penlight.kernels.table import default_table

LIBRARIES = ("optimized", "portable")
# Makes the operators known to torch.
assert attention_op(default_table(), LIBRARIES) and rotary_op(default_table(), LIBRARIES)

KERNELS = ("penlight::attention_in_rows.out", "penlight::rotary.out")


def laid(x: torch.Tensor, how: str) -> tuple[torch.Tensor, list[int]]:
    """Heads `[batch, heads, rows, width]` in a tensor, and where in it they are."""
    batch, heads, rows, width = x.shape
    if how == "heads":
        return x, []
    if how == "dense":
        return x.transpose(1, 2).reshape(batch, rows, heads * width), [heads, width, 0, width, 0]
    wide = torch.full((batch, rows, 5 + heads * (width + 3)), float("nan"))  # what is between is not read
    for head in range(heads):
        at = 5 + head * (width + 3)
        wide[..., at : at + width] = x[:, head]
    if how == "between":
        return wide, [heads, width, 5, width + 3, 0]
    return wide.transpose(0, 1).contiguous(), [heads, width, 5, width + 3, 1]


SIZES = [(1, 9, 20), (1, 300, 64), (3, 40, 7), (4, 4, 16), (70, 50, 9)]
TURNED = [(1, 1, 1, 2), (2, 3, 5, 6), (1, 4, 33, 64), (2, 2, 7, 34), (0, 2, 3, 4)]
WRONG = [[3, 8, 1, 8, 0], [3, 8, 0, 9, 0], [0, 8, 0, 8, 0], [3, 8, -1, 8, 0], [24]]


@pytest.mark.parametrize("layouts", ["dense heads heads", "between between first", "first dense between"])
@pytest.mark.parametrize("heads, shared", [(4, 4), (6, 2), (5, 1)])
@pytest.mark.parametrize(
    "queries, keys, width", [(1, 9, 20), (1, 300, 64), (3, 40, 7), (4, 4, 16), (70, 50, 9)]
)
@pytest.mark.parametrize("mask", [None, "causal", "bool", "heads"])
def test_layouts(
    isa: str, layouts: str, heads: int, shared: int, queries: int, keys: int, width: int, mask: str | None
) -> None:
    q, k = torch.randn(2, heads, queries, width), torch.randn(2, shared, keys, width)
    v = torch.randn(2, shared, keys, width + 2)
    given = {"bool": torch.rand(queries, keys) > 0.3, "heads": torch.randn(2, heads, 1, keys)}.get(mask or "")
    exact = given.double() if mask == "heads" and given is not None else given
    want = functional.scaled_dot_product_attention(
        q.double(), k.double(), v.double(), exact, 0.0, mask == "causal", enable_gqa=True
    )
    rows_first = layouts.startswith("first")
    want = want.permute((2, 0, 1, 3) if rows_first else (0, 2, 1, 3)).flatten(2)
    operands = [laid(x, how) for x, how in zip((q, k, v), layouts.split(), strict=True)]
    args = [*(x for x, _ in operands), given, *(n for _, n in operands)]
    args += [rows_first, mask == "causal", None, True, None]
    op = overload_of("penlight::attention_in_rows")
    (got,) = run_op(op, args, {}, want.float().contiguous(), "optimized")
    torch.testing.assert_close(got.double(), want, rtol=1e-5, atol=2e-6)
    torch.testing.assert_close(op(*args), got, rtol=1e-4, atol=1e-5)


# Queries of whole pages, and scores.
@pytest.mark.parametrize("queries, keys", [(40, 50), (13, 1024), (130, 2048)])
@pytest.mark.parametrize("causal", [False, True])
def test_rows_of_pages(isa: str, queries: int, keys: int, causal: bool) -> None:
    q, k, v = torch.randn(1, 4, queries, 256), torch.randn(1, 4, keys, 256), torch.randn(1, 4, keys, 256)
    want = functional.scaled_dot_product_attention(q.double(), k.double(), v.double(), is_causal=causal)
    want = want.transpose(1, 2).flatten(2)
    operands = [laid(x, "dense") for x in (q, k, v)]
    args = [*(x for x, _ in operands), None, *(n for _, n in operands), False, causal, None, True, None]
    (got,) = run_op(overload_of("penlight::attention_in_rows"), args, {}, want.float(), "optimized")
    torch.testing.assert_close(got.double(), want, rtol=1e-5, atol=2e-6)


@pytest.mark.parametrize(
    "numbers", [[3, 8, 1, 8, 0], [3, 8, 0, 9, 0], [0, 8, 0, 8, 0], [3, 8, -1, 8, 0], [24]]
)
def test_heads_that_are_not_there(numbers: list[int]) -> None:
    """A program that asks for columns past the last is refused."""
    x = torch.randn(1, 4, 24)
    args = [x, x, x, None, numbers, [3, 8, 0, 8, 0], [3, 8, 0, 8, 0], False, False, None, True, None]
    with pytest.raises(InvalidInput, match="cannot read its operands"):
        run_op(overload_of("penlight::attention_in_rows"), args, {}, x, "optimized")


@pytest.mark.parametrize("layout", ["heads", "dense", "between", "first"])
@pytest.mark.parametrize("sizes", TURNED, ids=str)
def test_rotary(isa: str, layout: str, sizes: tuple[int, ...]) -> None:
    x = torch.randn(sizes)
    turned = torch.randn(sizes[0], 1, sizes[2], sizes[3])
    cosine, sine = turned.cos(), turned[0, 0].sin() if sizes[0] == 1 else turned.sin()
    low, high = x.double().chunk(2, -1)
    want = x.double() * cosine.double() + torch.cat([-high, low], -1) * sine.double()
    given, numbers = laid(x, layout)
    if numbers:
        want = want.permute((2, 0, 1, 3) if layout == "first" else (0, 2, 1, 3)).flatten(2).contiguous()
    args = [given, cosine, sine, numbers]
    op = overload_of("penlight::rotary")
    (got,) = run_op(op, args, {}, want.float(), "optimized")
    torch.testing.assert_close(got.double(), want, rtol=1e-5, atol=1e-6)
    torch.testing.assert_close(op(*args), got, rtol=1e-5, atol=1e-6)


def test_rotary_of_an_odd_width() -> None:
    x = torch.randn(1, 2, 3, 5)
    with pytest.raises(InvalidInput, match="rotary cannot read"):
        run_op(overload_of("penlight::rotary"), [x, x[0, 0], x[0, 0], []], {}, x, "optimized")
