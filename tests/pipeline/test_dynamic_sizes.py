"""A dynamic size stays dynamic where it happens to be, in the example, what another size is."""

from __future__ import annotations

import warnings
from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from tests.pipeline.fused import Calls
from torch import Tensor, nn
from torch.export import Dim
from torch.fx import Graph
from torch.utils import _pytree as pytree

import penlight
from penlight.errors import IllegalGraph, UnboundedShape
from penlight.passes.base import Report, run
from penlight.passes.layouts import sizes_of
from penlight.pipeline import export, to_edge

torch.manual_seed(0)
LAYER, IMAGES, SIGNALS = nn.Linear(5, 3), nn.Conv2d(4, 3, 3, padding=1), nn.Conv1d(4, 3, 3)
ROWS, NORM = nn.Linear(3, 3), nn.LayerNorm(3)
VECTOR, MATRIX, MAP = torch.randn(3), torch.randn(4, 3), torch.randn(3, 1, 1)


def mean_square(x: Tensor) -> Tensor:
    return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-6) * VECTOR


# Of a tensor whose first size, 3 or 4 in the example, is dynamic.
MODELS: dict[str, tuple[Callable[[Tensor], Tensor], tuple[int, ...]]] = {
    "factor": (lambda x: x * VECTOR, (3, 3)),
    "gate": (lambda x: x * torch.sigmoid(1.5 * x) * VECTOR, (3, 3)),
    "mean square": (mean_square, (3, 3)),
    "mean square of matrices": (mean_square, (4, 3, 3)),
    "layer and places": (lambda x: LAYER(x) + MATRIX, (4, 4, 5)),
    "layer and vector": (lambda x: LAYER(x) + VECTOR, (3, 5)),
    "layer and itself": (lambda x: ROWS(x) + x, (3, 3)),
    "layer and its mean": (lambda x: ROWS(x) + x.mean(0), (3, 3)),
    "norm": (lambda x: NORM(x + MATRIX), (4, 4, 3)),
    "image and channels": (lambda x: IMAGES(x) + MAP, (3, 4, 6, 7)),
    "image and square": (lambda x: torch.relu(IMAGES(x)).flatten(2) @ x.flatten(2).mT, (4, 4, 4, 4)),
    "image and pixel": (lambda x: IMAGES(x) * x.mean((2, 3), keepdim=True)[:, :3], (3, 4, 3, 3)),
    "image, padded": (lambda x: F.pad(IMAGES(x), (1, 1, 0, 0)), (3, 4, 6, 8)),
    "signal and channels": (lambda x: SIGNALS(x).tanh() * VECTOR[:, None] + x[:, :3, 2:], (3, 4, 8)),
    "attention": (lambda x: F.scaled_dot_product_attention(x, x * 0.5, x), (4, 4, 4)),
    "attention, written": (lambda x: (x @ x.mT * 0.5 + MATRIX[:, :1]).softmax(-1) @ x, (4, 4, 4)),
    "softmax and factor": (lambda x: x.softmax(-1) * VECTOR, (3, 3)),
    "joined": (lambda x: torch.cat([x, x[:1], VECTOR[None]]), (3, 3)),
}


class Wrapped(Calls):
    """With the layers, whose weights are parameters of the model then."""

    def __init__(self, function: Callable[..., object]) -> None:
        super().__init__(function)
        self.layers = nn.ModuleList([LAYER, IMAGES, SIGNALS, ROWS, NORM])


@pytest.mark.parametrize("exported", [False, True], ids=["module", "exported"])
@pytest.mark.parametrize("name", MODELS)
def test_size_as_another(name: str, exported: bool) -> None:
    function, sizes = MODELS[name]
    model, x = Wrapped(function).eval(), torch.randn(sizes)
    shapes = (({0: Dim("batch", min=1, max=9)},),)
    if exported:
        program = penlight.compile(torch.export.export(model, (x,), dynamic_shapes=shapes))
    else:
        program = penlight.compile(model, (x,), dynamic_shapes=shapes)
    loaded = penlight.load(program.to_bytes())
    for batch in (sizes[0], 1, 2, 9):
        x = torch.randn(batch, *sizes[1:])
        torch.testing.assert_close(loaded(x), model(x), rtol=1e-5, atol=1e-5)


def test_two_sizes_that_are_alike() -> None:
    model = Wrapped(lambda x, y: LAYER(x) + y).eval()
    batch, count = Dim("batch", min=1, max=8), Dim("count", min=1, max=9)
    example = torch.randn(4, 5), torch.randn(4, 1, 3)
    loaded = penlight.load(
        penlight.compile(model, example, dynamic_shapes=(({0: batch}, {0: count}),)).to_bytes()
    )
    for x, y in ((4, 4), (2, 7), (8, 9), (1, 1)):
        args = torch.randn(x, 5), torch.randn(y, 1, 3)
        torch.testing.assert_close(loaded(*args), model(*args), rtol=1e-5, atol=1e-5)


def test_a_pass_that_asks_is_named() -> None:
    def asks(graph: Graph) -> int:
        for node in graph.find_nodes(op="call_function", target=torch.ops.aten.mul.Tensor):
            x: Tensor = node.meta["val"]
            return int(x.shape[0] == 3)
        return 0

    def looks(graph: Graph) -> int:
        return sum(sizes_of(node.meta["val"])[0] == 3 for node in graph.nodes if node.op == "call_function")

    model, shapes = Calls(lambda x: x * VECTOR), (({0: Dim("batch", max=9)},),)
    edge = to_edge(export(model.eval(), (torch.randn(3, 3),), dynamic_shapes=shapes))
    run(edge, [looks], Report())
    with pytest.raises(IllegalGraph, match=r"asks asked what a dynamic size is"):
        run(edge, [asks], Report())


@pytest.mark.parametrize("smallest", [0, 1])
def test_a_square_of_scores_as_one_row(smallest: int) -> None:
    """Its size is written as a square divided by a size, which has a bound all the same."""

    def scores(x: Tensor) -> Tensor:
        batch, length, _ = x.shape
        return (x @ x.mT).flatten(1).softmax(-1).view(batch, length, length)

    model, shapes = Calls(scores), (({1: Dim("length", min=smallest, max=40)},),)
    program = penlight.load(penlight.compile(model, (torch.randn(2, 8, 4),), dynamic_shapes=shapes))
    for length in (1, 8, 40):
        x = torch.randn(2, length, 4)
        torch.testing.assert_close(program(x), model(x), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("most", [8, 9])
@pytest.mark.parametrize("target", ["cpu", "portable"])
def test_halves_at_their_bound(target: str, most: int) -> None:
    """A half is written as a quotient, and the other as what is left."""
    model, shapes = Calls(lambda x: x.sin().chunk(2, 0)), (({0: Dim.AUTO(max=most)},),)
    program = penlight.load(
        penlight.compile(model, (torch.randn(4, 4),), dynamic_shapes=shapes, target=target)
    )
    for count in (4, most - 1, most):
        x = torch.randn(count, 4)
        for got, want in zip(program(x), model(x), strict=True):
            torch.testing.assert_close(got, want, rtol=1e-6, atol=1e-6)


def blocks(x: Tensor) -> Tensor:
    batch, length, width = x.shape
    padded = F.pad(x, (0, 0, 0, (8 - length % 8) % 8))
    rows = padded.reshape(batch, padded.shape[1] // 8, 8, width).cumsum(2)
    return rows.reshape(batch, padded.shape[1], width)[:, :length]


# Of a batch of sequences, both sizes dynamic, with blocks of 8.
BLOCKS: dict[str, Callable[[Tensor], Tensor]] = {
    "the rest of Python": lambda x: F.pad(x, (0, 0, 0, -x.shape[1] % 8)).unflatten(1, (-1, 8)).cumsum(2),
    "there and back": blocks,
    "one more": lambda x: F.pad(x, (0, 0, 0, 8 - x.shape[1] % 8)).unflatten(1, (-1, 8)).cumsum(2),
    "cut off": lambda x: x[:, : x.shape[1] - x.shape[1] % 8].reshape(x.shape[0], -1, 8, 4).cumsum(2),
    "by its count": lambda x: F.pad(x, (0, 0, 0, -(-x.shape[1] // 8) * 8 - x.shape[1])).unflatten(1, (-1, 8)),
}


@pytest.mark.parametrize("name", BLOCKS)
def test_blocks_of_a_sequence(name: str) -> None:
    """Their size is a quotient of what was padded, in which a remainder is.

    Of a part that is cut off torch decides on views, with other conditions where it has one block.
    """
    model, shapes = Calls(BLOCKS[name]), (({0: Dim.AUTO(max=5), 1: Dim.AUTO(max=40)},),)
    program = penlight.load(penlight.compile(model, (torch.randn(3, 29, 4),), dynamic_shapes=shapes))
    for batch, length in (
        (3, 29),
        (1, 17),
        (2, 16),
        (5, 40),
        *(() if name == "cut off" else ((4, 3), (1, 8))),
    ):
        x = torch.randn(batch, length, 4)
        torch.testing.assert_close(program(x), model(x), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("target", ["cpu", "portable"])
def test_adaptive_max_pooling(target: str) -> None:
    """torch writes it as windows of the sizes that the example has."""
    model = Calls(lambda x: torch.nn.functional.adaptive_max_pool1d(x, 2))
    shapes = (({2: Dim("length", min=2, max=16)},),)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        built = penlight.compile(model, (torch.randn(1, 3, 6),), dynamic_shapes=shapes, target=target)
    program = penlight.load(built)
    for length in (2, 6, 7, 8, 11, 16):
        x = torch.randn(1, 3, length)
        assert torch.equal(program(x), model(x))


# Of a matrix of four columns and a vector, with as many rows; the count is bounded by what there is of them.
CHOICES: dict[str, Callable[[Tensor, Tensor], object]] = {
    "rows by a mask": lambda x, s: (x[s > 0.5], s[s > 0.5], (s > 0.5).nonzero()),
    "elements by a mask of rows": lambda x, s: torch.masked_select(x, (s > 0.5).unsqueeze(1)),
    "places": lambda x, s: (torch.where(s > 0.5)[0], torch.argwhere(x > 0.5)),
    "a choice of what was chosen": lambda x, s: x[s > 0.2][:, 0].masked_select(s[s > 0.2] > 0.7),
    "values": lambda x, s: torch.unique((s * 9).int(), return_inverse=True, return_counts=True),
    "different rows": lambda x, s: torch.unique((x * 2).int(), dim=0),
    "runs": lambda x, s: torch.unique_consecutive((s * 4).int()),
    "runs of rows": lambda x, s: torch.unique_consecutive((x * 2).int(), dim=0),
}


@pytest.mark.parametrize("name", CHOICES)
def test_counts_of_dynamic_sizes(name: str) -> None:
    model = Calls(CHOICES[name])
    rows = {0: Dim.AUTO(min=2, max=64)}
    built = penlight.compile(model, (torch.rand(30, 4), torch.rand(30)), dynamic_shapes=((rows, rows),))
    program = penlight.load(built)
    for count in (2, 30, 64):
        x, s = torch.rand(count, 4), torch.rand(count)
        got, want = (pytree.tree_leaves(call(x, s)) for call in (program, model))
        for have, expected in zip(got, want, strict=True):
            assert torch.equal(have, expected)
    program(torch.ones(64, 4), torch.ones(64))  # all of them


def test_a_dimension_of_one_size_is_not_dynamic() -> None:
    """torch does not see that it is, where that takes a division."""
    model = Wrapped(lambda x, y: x * 2 if x.shape[1] * 16 / 44 == 80.0 else y)
    example, shapes = (torch.randn(2, 220), torch.randn(2)), (({1: Dim.AUTO(min=100, max=400)}, None),)
    with pytest.raises(UnboundedShape, match="but the model fixes it to 220") as raised:
        penlight.compile(model, example, dynamic_shapes=shapes)
    assert "shape[1]" in str(raised.value)
