"""Attention against float64, by the kernels of both libraries, with every instruction set of this machine."""

from __future__ import annotations

import math

import pytest
import torch
from run_op import overload_of, run_op
from torch.nn import functional

from penlight.dialects.penlight_ops import twins
from penlight.kernels.table import default_table

assert twins(default_table(), ("optimized", "portable"))  # makes the operator known to torch


def channels_last(x: torch.Tensor) -> torch.Tensor:
    return x.contiguous(memory_format=torch.channels_last)


@pytest.mark.parametrize("heads, shared", [(4, 4), (4, 2), (6, 1)])
@pytest.mark.parametrize(
    "queries, keys", [(1, 9), (3, 40), (5, 5), (50, 50), (130, 130), (7, 300), (24, 72), (49, 9), (32, 41)]
)
@pytest.mark.parametrize(
    "mask", [None, "causal", "bool", "float", "rows", "heads", "few", "apart", "bool apart"]
)
def test_attention(isa: str, heads: int, shared: int, queries: int, keys: int, mask: str | None) -> None:
    if mask == "causal" and queries != keys:
        keys = queries
    q, k, v = (
        torch.randn(2, heads, queries, 20),
        torch.randn(2, shared, keys, 20),
        torch.randn(2, shared, keys, 12),
    )
    i = torch.arange(queries)[:, None]
    masks = {
        "bool": torch.rand(queries, keys) > 0.3,
        "float": torch.randn(2, 1, queries, keys),
        "rows": torch.rand(2, 1, queries, 1) > 0.3,  # some rows see nothing at all: zeros
        "heads": torch.rand(1, heads, 1, keys) > 0.2,
        # Every other query sees all keys, and the rest all but one: the last, and those before it in turn.
        "few": (i % 2 == 1) | (keys - 1 - i // 2 % keys != torch.arange(keys)),
        # Of neighbouring keys, not side by side.
        "apart": channels_last(torch.randn(2, heads, queries, keys)),
        "bool apart": channels_last(torch.rand(2, heads, queries, keys) > 0.3),
    }
    given = masks.get(mask or "")
    options = {"is_causal": mask == "causal", "scale": 0.3, "enable_gqa": shared != heads}
    exact = None if given is None else given.double() if given.is_floating_point() else given
    want = functional.scaled_dot_product_attention(q.double(), k.double(), v.double(), exact, 0.0, **options)
    args = [q, k, v, given, 0.0, options["is_causal"]]
    op = overload_of("penlight::scaled_dot_product_attention")
    kwargs = {"scale": 0.3, "enable_gqa": options["enable_gqa"]}
    (got,) = run_op(op, args, kwargs, want.float(), "optimized")
    torch.testing.assert_close(got.double(), want, rtol=1e-5, atol=2e-6)


SIZES = [(1, 9), (3, 40), (5, 1), (50, 50), (7, 300)]


@pytest.mark.parametrize(
    "library, queries, keys",
    [*(("optimized", *sizes) for sizes in SIZES), *(("portable", *sizes) for sizes in [*SIZES, (4, 0)])],
)
@pytest.mark.parametrize(
    "given, score",
    [("float", None), ("bool", None), ("bool", -math.inf), ("bool", -3.0), ("bool", -3e38)],
)
def test_attention_without_safe_softmax(
    isa: str, library: str, queries: int, keys: int, given: str, score: float | None
) -> None:
    """As it is written out: NaN where every score is -inf; but products of no keys are zeros."""
    q, k, v = torch.randn(2, 3, queries, 20), torch.randn(2, 3, keys, 20), torch.randn(2, 3, keys, 12)
    keep = torch.rand(2, 1, queries, keys) > 0.3
    keep[:, :, queries // 2] = False
    mask = keep if given == "bool" else torch.zeros(keep.shape).masked_fill(~keep, -torch.inf)
    scores = (q.double() @ k.double().mT * 0.3).masked_fill(~keep, -torch.inf if score is None else score)
    want = scores.softmax(-1) @ v.double()
    assert keys == 0 or bool(want.isnan().any()) == (score in (None, -math.inf))
    op, kwargs = (
        overload_of("penlight::scaled_dot_product_attention"),
        {"scale": 0.3, "safe_softmax": False, "hidden_score": score},
    )
    (got,) = run_op(op, [q, k, v, mask], kwargs, want.float(), library)
    torch.testing.assert_close(got.double(), want, rtol=1e-5, atol=2e-6, equal_nan=True)
    eager = op(q, k, v, mask, **kwargs)
    torch.testing.assert_close(eager.double(), want, rtol=1e-5, atol=2e-6, equal_nan=True)


@pytest.mark.parametrize("library", ["optimized", "portable"])
@pytest.mark.parametrize("queries, keys", SIZES)
def test_attention_over_keys_that_are_not_finite(isa: str, library: str, queries: int, keys: int) -> None:
    """A mask adds -inf to their scores, which leaves NaN; a number that takes their place hides them."""
    q, k, v = torch.randn(1, 2, queries, 20), torch.randn(1, 2, keys, 20), torch.randn(1, 2, keys, 12)
    k[0, 0, 0], k[0, 1, keys // 2] = math.nan, math.inf
    keep = torch.rand(queries, keys) > 0.2
    keep[:, [0, keys // 2]] = False
    op = overload_of("penlight::scaled_dot_product_attention")
    added = functional.scaled_dot_product_attention(q, k, v, keep)
    assert added[0, 0].isnan().all()
    scores = (q @ k.mT / math.sqrt(20)).masked_fill(~keep, -2.0)
    for want, kwargs in (
        (added, {}),
        (scores.softmax(-1) @ v, {"safe_softmax": False, "hidden_score": -2.0}),
    ):
        (got,) = run_op(op, [q, k, v, keep], kwargs, want, library)
        torch.testing.assert_close(got, want, rtol=1e-4, atol=1e-5, equal_nan=True)
