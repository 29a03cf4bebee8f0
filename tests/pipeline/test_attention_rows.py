"""Attention over heads where projections wrote them: no copies, and what eager gives."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.export import Dim
from torch.nn import functional

import penlight

WIDTH, HEADS = 48, 4


def operators(program: penlight.Program) -> list[str]:
    return [name.split("::")[1] for name in penlight.load(program.to_bytes())["forward"].instruction_names()]


def heads(x: Tensor, count: int = HEADS) -> Tensor:
    return x.unflatten(-1, (count, -1)).transpose(1, 2)


def rows(x: Tensor) -> Tensor:
    return x.transpose(1, 2).flatten(2)


class Projected(nn.Module):
    """A product each for queries, keys and values, as BERT has it."""

    def __init__(self, **options: Any) -> None:
        super().__init__()
        self.query, self.key, self.value = (nn.Linear(WIDTH, WIDTH) for _ in range(3))
        self.options = options

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        q, k, v = (heads(part(x)) for part in (self.query, self.key, self.value))
        return rows(functional.scaled_dot_product_attention(q, k, v, mask, **self.options)).exp()


class Joined(nn.Module):
    """One product for all three, taken apart as timm does."""

    def __init__(self, how: str) -> None:
        super().__init__()
        self.all, self.how = nn.Linear(WIDTH, 3 * WIDTH), how

    def forward(self, x: Tensor) -> Tensor:
        y = self.all(x)
        if self.how == "unbind":
            parts = y.unflatten(-1, (3, HEADS, -1)).permute(2, 0, 3, 1, 4).unbind(0)
        else:
            parts = [heads(part) for part in y.chunk(3, -1)]
        return rows(functional.scaled_dot_product_attention(*parts)).exp()


class Flattened(nn.Module):
    """Products of matrices with all rows below each other, as GPT-2 has it."""

    def __init__(self, how: str) -> None:
        super().__init__()
        self.all, self.bias = (nn.Parameter(torch.randn(*s, 3 * WIDTH) / WIDTH) for s in ((WIDTH,), ()))
        self.last, self.how = nn.Parameter(torch.randn(WIDTH, WIDTH) / 7), how

    def forward(self, x: Tensor) -> Tensor:
        batch, length, _ = x.shape
        y = torch.addmm(self.bias, x.reshape(-1, WIDTH), self.all)
        if self.how == "unbind":
            parts = y.view(batch, length, 3, HEADS, WIDTH // HEADS).permute(2, 0, 3, 1, 4).unbind(0)
        else:
            parts = [heads(part) for part in y.view(batch, length, 3 * WIDTH).split(WIDTH, 2)]
        z = rows(functional.scaled_dot_product_attention(*parts)).reshape(-1, WIDTH)
        return x + functional.gelu(torch.mm(z, self.last).view(x.shape))


class Grouped(nn.Module):
    """Fewer heads for keys and values, told to the operator or repeated by hand."""

    def __init__(self, repeated: bool) -> None:
        super().__init__()
        self.query, self.repeated = nn.Linear(WIDTH, WIDTH), repeated
        self.key, self.value = nn.Linear(WIDTH, WIDTH // 2), nn.Linear(WIDTH, WIDTH // 2)

    def repeat(self, x: Tensor) -> Tensor:
        batch, count, length, width = x.shape
        x = x[:, :, None].expand(batch, count, 2, length, width)
        return x.reshape(batch, 2 * count, length, width)

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = heads(self.query(x)), heads(self.key(x), HEADS // 2), heads(self.value(x), HEADS // 2)
        if self.repeated:
            k, v = self.repeat(k), self.repeat(v)
        grouped = not self.repeated
        y = functional.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=grouped)
        return rows(y).exp()


class Layer(nn.Module):
    """torch's own, which has the sequence first inside."""

    def __init__(self, batch_first: bool) -> None:
        super().__init__()
        self.attention = nn.MultiheadAttention(WIDTH, HEADS, batch_first=batch_first)

    def forward(self, x: Tensor) -> Tensor:
        return self.attention(x, x, x, need_weights=False)[0].exp()  # type: ignore[no-any-return]


class Cached(nn.Module):
    """One query, keys and values from a cache that has heads before rows."""

    def __init__(self) -> None:
        super().__init__()
        self.query = nn.Linear(WIDTH, WIDTH)

    def forward(self, x: Tensor, keys: Tensor, values: Tensor, mask: Tensor) -> Tensor:
        q = heads(self.query(x))
        return rows(functional.scaled_dot_product_attention(q, keys, values, mask, enable_gqa=True)).exp()


def compare(model: nn.Module, *args: Tensor, copies: int = 0, **options: Any) -> penlight.Program:
    model.eval()
    program = penlight.compile(model, args, **options)
    names = operators(program)
    assert names.count("attention_in_rows.out") == 1, names
    assert sum("copy" in name or "clone" in name for name in names) == copies, names
    with torch.no_grad():
        torch.testing.assert_close(
            penlight.load(program.to_bytes())(*args), model(*args), rtol=2e-5, atol=2e-5, equal_nan=True
        )
    return program


@pytest.mark.parametrize("batch", [1, 3])
@pytest.mark.parametrize("length", [1, 3, 17])
def test_no_copies(batch: int, length: int) -> None:
    x = torch.randn(batch, length, WIDTH)
    compare(Projected(), x)
    compare(Projected(is_causal=True), x)
    compare(Projected(scale=0.3), x)
    compare(Joined("unbind"), x)
    compare(Joined("chunk"), x)
    compare(Flattened("unbind"), x)
    compare(Flattened("split"), x)
    compare(Grouped(repeated=False), x)
    compare(Grouped(repeated=True), x)
    compare(Layer(batch_first=False), x)


def test_torchs_layer_with_batch_first() -> None:
    compare(Layer(batch_first=True), torch.randn(1, 17, WIDTH))


@pytest.mark.parametrize(
    "shape", [(17, 17), (1, 1, 1, 17), (3, 1, 17, 17), (3, HEADS, 1, 17), (HEADS, 17, 1)]
)
def test_masks(shape: tuple[int, ...]) -> None:
    x = torch.randn(3, 17, WIDTH)
    compare(Projected(), x, torch.randn(shape))
    hidden = torch.rand(shape) < 0.3
    compare(Projected(), x, ~hidden)


def test_nothing_to_see() -> None:
    """Rows whose every key is hidden are as in eager."""
    mask = torch.ones(5, 5, dtype=torch.bool)
    mask[2] = False
    compare(Projected(), torch.randn(1, 5, WIDTH), mask)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf")])
def test_not_finite(value: float) -> None:
    x = torch.randn(2, 6, WIDTH)
    x[1, 2, 3] = value
    compare(Projected(), x)
    compare(Joined("unbind"), x[:, :2])


@pytest.mark.parametrize(("keys", "width"), [(1, 12), (15, 12), (64, 20), (300, 7)])
def test_one_query_of_many(keys: int, width: int) -> None:
    x = torch.randn(2, 1, HEADS * width)
    model = Cached()
    model.query = nn.Linear(HEADS * width, HEADS * width)
    caches = torch.randn(2, 2, 2, keys, width).unbind(0)
    mask = torch.arange(keys) <= keys // 2
    program = compare(model, x, *caches, mask[None])
    one = penlight.load(program.to_bytes(), threads=1)(x, *caches, mask[None])
    for threads in (2, 3, 8):
        assert torch.equal(one, penlight.load(program.to_bytes(), threads=threads)(x, *caches, mask[None]))


MODELS: list[nn.Module] = [
    *(Projected(), Joined("chunk"), Joined("unbind"), Flattened("split"), Flattened("unbind")),
    Grouped(True),
]


@pytest.mark.parametrize("fixed", ["batch", "length", ""])
@pytest.mark.parametrize("model", MODELS)
def test_dynamic(model: nn.Module, fixed: str) -> None:
    """Lengths at the bound, at 1, and none; the batch as well."""
    dims = {0: Dim("batch", max=4), 1: Dim("length", max=40)}
    shapes: Any = {"x": {at: dim for at, dim in dims.items() if dim.__name__ != fixed}}
    model.eval()
    x = torch.randn(2, 10, WIDTH)
    program = penlight.compile(model, (x,), dynamic_shapes=shapes)
    names = operators(program)
    assert names.count("attention_in_rows.out") == 1
    others = ("permute", "clone", "split", "unbind", "gelu", "mm.")
    assert not [name for name in names if any(other in name for other in others)], names
    run = penlight.load(program.to_bytes())
    for batch, length in ((4, 40), (1, 1), (3, 2), (1, 0), (2, 33), (0, 5)):
        x = torch.randn(2 if fixed == "batch" else batch, 10 if fixed == "length" else length, WIDTH)
        with torch.no_grad():
            torch.testing.assert_close(run(x), model(x), rtol=2e-5, atol=2e-5)


def test_left_where_the_result_stays_in_heads() -> None:
    class InHeads(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return functional.scaled_dot_product_attention(heads(x), heads(x), heads(x))

    report = penlight.compile(InHeads(), (torch.randn(1, 5, WIDTH),)).report
    assert report is not None
    assert [one.reason for one in report.left if one.stage == "fuse attention views"] == [
        "its result is not brought back to rows"
    ]


class Crossed(nn.Module):
    """Queries of one sequence, keys and values of another."""

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        return rows(functional.scaled_dot_product_attention(heads(x), heads(y), heads(y))).exp()


@pytest.mark.parametrize("length", [0, 1, 20])
def test_other_keys(length: int) -> None:
    """Without keys there is nothing to add up."""
    model, name = Crossed(), Dim("length", max=20)
    program = penlight.compile(
        model,
        (torch.randn(2, 3, WIDTH), torch.randn(2, 9, WIDTH)),
        dynamic_shapes={"x": None, "y": {1: name}},
    )
    assert "attention_in_rows.out" in operators(program)
    x, y = torch.randn(2, 3, WIDTH), torch.randn(2, length, WIDTH)
    torch.testing.assert_close(penlight.load(program.to_bytes())(x, y), model(x, y), rtol=2e-5, atol=2e-5)


class Causal(nn.Module):
    def forward(self, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        return functional.scaled_dot_product_attention(query, key, value, is_causal=True)


@pytest.mark.parametrize("queries", [1, 3, 47, 100, 130])
@pytest.mark.parametrize("keys", [1, 7, 50, 97, 200])
@pytest.mark.parametrize("target", ["cpu", "portable"])
def test_keys_behind_a_query_are_not_read(queries: int, keys: int, target: str) -> None:
    """Those that a causal mask hides from all queries of a block, whatever they are."""
    query, key, value = (torch.randn(2, 3, count, 20) for count in (queries, keys, keys))
    with torch.no_grad():
        want = Causal()(query, key, value)
    key[:, :, queries:], value[:, :, queries:] = torch.nan, torch.inf
    program = penlight.load(penlight.compile(Causal(), (query, key, value), target=target).to_bytes())
    torch.testing.assert_close(program(query, key, value), want, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
@pytest.mark.parametrize("length", [None, Dim("length", min=2, max=64)])
@pytest.mark.parametrize("target", ["cpu", "portable"])
def test_scores_of_later_keys_do_not_count(target: str, length: Dim | None, dtype: torch.dtype) -> None:
    """Not even those that are no numbers."""
    query, key, value = (torch.randn(2, 3, 23, 16).to(dtype) for _ in range(3))
    shapes = None if length is None else ({2: length},) * 3
    program = penlight.compile(Causal(), (query, key, value), target=target, dynamic_shapes=shapes)
    loaded = penlight.load(program)
    for count in (23,) if length is None else (23, 64, 2):
        query, key, value = (torch.randn(2, 3, count, 16).to(dtype) for _ in range(3))
        key[:, 0, -1], key[:, 1, count // 2] = torch.nan, torch.inf
        got, want = torch.as_tensor(loaded(query, key, value)), Causal()(query, key, value)
        assert not want[:, :2, : count // 2].isnan().any()
        torch.testing.assert_close(got, want, rtol=2e-3, atol=2e-3, equal_nan=True)
