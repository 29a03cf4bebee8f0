"""Models and example inputs that cannot be compiled: the message names what is wrong."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import penlight
from penlight import pipeline
from penlight.errors import InvalidInput, NotSupported, PenlightError
from penlight.passes.decompose import decompose

X = torch.randn(2, 4)


class Holder(nn.Module):
    def __init__(self, tensor: Any, use: Callable[[Any, Any], Any] = lambda x, w: x + w) -> None:
        super().__init__()
        self.register_buffer("held", tensor)
        self.use = use

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.use(x, self.held)


def test_what_an_earlier_trace_left() -> None:
    with torch._subclasses.FakeTensorMode():
        left = torch.zeros(4)
    with pytest.raises(InvalidInput, match="'held' was left in the model by an earlier trace") as caught:
        penlight.compile(Holder(left), (X,))
    assert "create the model anew" in str(caught.value)


def test_method_names_that_cannot_be() -> None:
    with pytest.raises(InvalidInput, match="there is no method to compile"):
        pipeline.compile({})
    with pytest.raises(InvalidInput, match="'forward' is a method of the model and a constant method"):
        pipeline.compile(nn.Linear(4, 2), (X,), constant_methods={"forward": 3})


class Plain(nn.Module):
    """A tensor that is no buffer."""

    def __init__(self) -> None:
        super().__init__()
        self.table = torch.eye(4).to_sparse()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.sparse.mm(self.table, x.T)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Holder(torch.eye(4).to_sparse()), r"'held' is sparse \(sparse_coo\)"),
        (lambda: Holder(torch.eye(4).to_sparse_csr()), r"'held' is sparse \(sparse_csr\)"),
        (Plain, r"'table' is sparse"),
        (
            lambda: Holder(torch.quantize_per_tensor(torch.randn(4), 0.1, 0, torch.qint8)),
            "'held' is quantized",
        ),
        (lambda: Holder(torch.nested.nested_tensor([X[0], X[1]])), "'held' is a nested tensor"),
        (lambda: Holder(torch.empty(4, device="meta")), "'held' is on the meta device"),
        (lambda: nn.LazyLinear(3), "'weight' has no shape yet"),
        (lambda: torch.jit.script(nn.Linear(4, 3)), "TorchScript"),
        (
            lambda: torch.ao.quantization.quantize_dynamic(nn.Sequential(nn.Linear(4, 4)), {nn.Linear}),
            "'0' is a layer of torch's eager-mode quantization",
        ),
    ],
    ids=["coo", "csr", "plain", "quantized", "nested", "meta", "lazy", "script", "eager quantization"],
)
def test_models(make: Callable[[], nn.Module], message: str) -> None:
    with pytest.raises((NotSupported, InvalidInput), match=message) as raised:
        pipeline.to_edge(pipeline.export(make().eval(), (X,)))
    assert raised.value.do


@pytest.mark.parametrize(
    ("args", "kwargs", "message"),
    [
        (X, {}, "example inputs are given as a tuple"),
        ((X,), [("mask", X)], "example inputs given by name are a dict"),
        ((X, X), {}, r"do not fit Linear.forward\(input"),
        ((), {"x": X}, "missing a required argument"),
        ((X.numpy(),), {}, "example input 0 is neither a tensor nor a number"),
        ((), {"input": np.float32(3)}, "example input input is neither a tensor"),
        ((X.to_sparse(),), {}, "example input 0 is sparse"),
        ((object(),), {}, "example input 0 is neither"),
    ],
)
def test_example_inputs(args: Any, kwargs: dict[str, Any], message: str) -> None:
    with pytest.raises(PenlightError, match=message):
        pipeline.export(nn.Linear(4, 3), args, kwargs)


def test_state_that_is_no_buffer() -> None:
    class Counts(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.calls, self.seen = torch.zeros(4), [torch.ones(4)]

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            self.calls.add_(1)
            self.seen[0].mul_(x[0])
            return self.calls * self.seen[0]

    model = Counts()
    program = penlight.load(penlight.compile(model, (X,)))
    assert torch.equal(model.calls, torch.zeros(4)) and torch.equal(model.seen[0], torch.ones(4))
    for _ in range(3):
        torch.testing.assert_close(program(X), model(X))


def test_buffers_that_are_views_of_written_ones() -> None:
    class Rows(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("table", torch.zeros(4, 4))
            self.register_buffer("row", self.table[1])

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            self.table.add_(x[0])
            return self.row * 1

        def read(self, x: torch.Tensor) -> torch.Tensor:
            return self.row + x

        def write(self, x: torch.Tensor) -> torch.Tensor:
            self.table.add_(x[0])
            return x + 1

    model = Rows()
    with pytest.raises(
        NotSupported, match=r"writes to a tensor in a way|writes to 'table', whose memory 'row' shares"
    ):
        pipeline.to_edge(pipeline.export(model, (X,)))
    apart = pipeline.export({"read": (model.read, (X,)), "write": (model.write, (X,))})
    with pytest.raises(NotSupported, match="writes to 'table', whose memory 'row' shares"):
        pipeline.to_edge(apart)


def test_length_that_is_unrolled_cannot_change() -> None:
    def unrolled(x: torch.Tensor) -> torch.Tensor:
        return torch.stack([x[i] * 2 for i in range(x.shape[0])])

    model, shapes = torch.nn.ReLU(), ({0: torch.export.Dim("t", max=8)},)
    exported = pipeline.export(model, (torch.randn(5, 4),), dynamic_shapes=shapes)
    assert isinstance(exported, torch.export.ExportedProgram)
    table = {torch.ops.aten.relu.default: unrolled}
    with pytest.raises(NotSupported, match=r"aten\.relu\.default are known only for one size") as raised:
        decompose(exported.graph_module, lambda op: op not in table, table, lambda *_: None)
    assert "activation.py" in (raised.value.where or "")


@pytest.mark.filterwarnings("ignore:The tensor attributes")
def test_what_a_model_remembers_is_as_before() -> None:
    class Remembers(nn.Linear):
        last: torch.Tensor | None = None

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            y = super().forward(x).softmax(-1)
            self.last, self.first, self.several = y, getattr(self, "first", y.mean()), [y, y + 1]
            return y @ y.T

    model = Remembers(4, 4).eval()
    program = penlight.load(penlight.compile(model, (X,)))
    assert model.last is None and not hasattr(model, "first") and not hasattr(model, "several")
    torch.testing.assert_close(program(X), model(X))
    assert model.last is not None
    penlight.compile(model, (X,))
    assert torch.equal(model.last, model.several[0]) and not model.last.is_meta


def test_parts_of_sizes_that_depend_on_values() -> None:
    class Positive(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x[x > 0].sort()[0]

    with pytest.raises(
        NotSupported, match=r"aten\.sort\.default are known only for sizes that do not"
    ) as raised:
        penlight.compile(Positive(), (torch.randn(30),), target="portable")
    assert "test_given.py" in str(raised.value.where)
