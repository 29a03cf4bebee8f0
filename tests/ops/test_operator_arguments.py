"""Every type of argument that an operator can have, in eager mode, in torch.compile, in programs."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

import penlight

OPTIONS = {"layout": torch.strided, "memory_format": torch.channels_last, "device": torch.device("cpu")}


class Everything(torch.nn.Module):
    def forward(self, x: Tensor, y: Tensor) -> Any:
        op = torch.ops.testargs.everything
        few = op(
            x, None, [x, y], [None, y], 2.5, None, 7, None, 1.5, None, True, None, [1, 2], None, [1.5], None,
            [True, False], None, "hey", None, torch.float64, None,
        )  # fmt: skip
        all_of_them = op(
            x, y, [y], [x, None], 3, True, 7, 8, 1.5, 2.5, False, True, [], [4, 5], [], [2.5], [],
            [False, True], "", "q", torch.bool, torch.int8, **OPTIONS,
        )  # fmt: skip
        return few, all_of_them


class Results(torch.nn.Module):
    def forward(self, x: Tensor) -> Any:
        parts = torch.ops.testargs.parts(x.repeat(4)[:, None], 2)
        best = torch.ops.testargs.best(x)
        return parts, best, torch.ops.testargs.tile(x, 3), torch.ops.testargs.tile(x.to(torch.int8))


# What the kernel writes down: numbers, digits of lists, -1 for None.
FEW = [3, -1, 32, -1, 2, 2.5, -1, 7, -1, 1.5, -1, 1, -1, 12, -1, 1.5, -1, 10, -1, 3104, -1, 7, -1, -1, -1]
ALL = [3, 2, 2, 3, -1, 3, 1, 7, 8, 1.5, 2.5, 0, 1, 0, 45, 0, 2.5, 0, 1, 0, 1113, 11, 1, 0, 2]


def assert_same(got: Any, want: Any) -> None:
    if isinstance(want, tuple | list):
        for a, b in zip(got, want, strict=True):
            assert_same(a, b)
    else:
        assert got.dtype == want.dtype and torch.equal(got, want)


def test_every_type_of_argument(arguments: Any) -> None:
    model, inputs = Everything(), (torch.arange(3.0), torch.ones(2))
    want = model(*inputs)
    assert want[0].tolist() == [*FEW, *[0] * (32 - len(FEW))]
    assert want[1].tolist() == [*ALL, *[0] * (32 - len(ALL))]
    assert_same(penlight.load(penlight.compile(model, inputs).to_bytes())(*inputs), want)
    assert_same(torch.compile(model, fullgraph=True)(*inputs), want)


def test_several_results_lists_and_dtypes(arguments: Any) -> None:
    model, x = Results(), torch.arange(4.0)
    want = model(x)
    assert want[1][1].item() == 3 and want[1][1].dtype == torch.int64
    assert [part.shape for part in want[0]] == [(8, 1), (8, 1)]
    assert_same(penlight.load(penlight.compile(model, (x,)).to_bytes())(x), want)
    assert_same(torch.compile(model, fullgraph=True)(x), want)


def test_a_list_of_results_in_functional_form(arguments: Any) -> None:
    """The out form follows from it, as from one tensor."""

    class Model(torch.nn.Module):
        def forward(self, x: Tensor) -> Any:
            return torch.ops.testargs.slices(x, 2)

    x = torch.arange(8.0).reshape(4, 2)
    want = Model()(x)
    assert_same(want, list(x.chunk(2)))
    outs = [torch.empty(0), torch.empty(0)]
    torch.ops.testargs.slices.out(x, 2, out=outs)
    assert_same(outs, want)
    assert_same(penlight.load(penlight.compile(Model(), (x,)).to_bytes())(x), want)
    assert_same(torch.compile(Model(), fullgraph=True)(x), want)


def test_text_and_numbers_that_may_be_missing(arguments: Any) -> None:
    class Model(torch.nn.Module):
        def forward(self, x: Tensor) -> Any:
            op = torch.ops.testargs.padded
            return op(x, 1), op(x, 1, 3), op(x, 2, None, "ends")

    def want(x: Tensor) -> Any:
        pad = torch.nn.functional.pad
        ends = pad(x[None, None], (2, 2), mode="replicate")[0, 0]
        return pad(x, (1, 1)), pad(x, (1, 3)), ends

    model, x = Model(), torch.randn(4)
    assert_same(model(x), want(x))
    shapes = {"x": {0: torch.export.Dim("n", max=6)}}
    loaded = penlight.load(penlight.compile(model, (x,), dynamic_shapes=shapes).to_bytes())
    for n in (2, 6):
        x = torch.randn(n)
        assert_same(loaded(x), want(x))


def test_a_size_from_an_argument_that_is_symbolic(arguments: Any) -> None:
    class Model(torch.nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return torch.ops.testargs.tile(x, x.shape[0])

    model = Model()
    shapes = {"x": {0: torch.export.Dim("n", max=6)}}
    loaded = penlight.load(penlight.compile(model, (torch.ones(3),), dynamic_shapes=shapes).to_bytes())
    for n in (1, 2, 6):
        x = torch.randn(n)
        assert_same(loaded(x), model(x))


def test_what_the_kernel_refuses(arguments: Any) -> None:
    try:
        torch.ops.testargs.tile(torch.ones(2), -1)
    except Exception as error:
        assert "times is -1" in str(error) or "gives the size -2" in str(error)
    else:
        raise AssertionError("a negative size was taken")
