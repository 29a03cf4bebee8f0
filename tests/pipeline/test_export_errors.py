"""What a user reads when a model cannot be compiled: their line, the reason, what to do."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from fused import Calls
from torch import nn
from torch.export import Dim

import penlight
from penlight import pipeline
from penlight.errors import (
    ExportError,
    IllegalGraph,
    InvalidInput,
    NoKernel,
    NotSupported,
    UnboundedShape,
)


class Branches(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if x.sum() > 0:  # the line to be named
            return x
        return x * 2


def line_of(module: type[nn.Module], text: str) -> int:
    import inspect

    lines, start = inspect.getsourcelines(module)
    return start + next(i for i, line in enumerate(lines) if text in line)


def test_branch_on_values(capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(ExportError) as raised:
        pipeline.export(Branches(), (torch.randn(3),))
    error = raised.value
    assert f"test_export_errors.py:{line_of(Branches, 'if x.sum')}" in (error.where or "")
    assert "torch.cond" in (error.do or "")
    assert len(str(error)) < 900
    assert not capfd.readouterr().err, "torch's own log must not drown the message"


def test_inside_autocast() -> None:
    with torch.autocast("cpu", dtype=torch.bfloat16), pytest.raises(NotSupported, match="autocast") as raised:
        pipeline.export(nn.Linear(4, 8), (torch.randn(3, 4),))
    assert "compile it outside" in str(raised.value.do)


class FixesRows(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + torch.ones(3, 8)


@pytest.mark.parametrize("shapes", [({0: Dim.AUTO(max=9)},), {"x": {0: Dim.AUTO(max=9)}}])
def test_dynamic_dimension_that_is_static(shapes: Any) -> None:
    with pytest.raises(UnboundedShape, match="dimension 0 of input 'x' was asked to be dynamic"):
        pipeline.export(FixesRows(), (torch.randn(3, 8),), dynamic_shapes=shapes)


def test_named_dimension_that_is_static() -> None:
    with pytest.raises(ExportError, match="dynamic_shapes"):
        pipeline.export(FixesRows(), (torch.randn(3, 8),), dynamic_shapes=({0: Dim("rows", max=9)},))


@pytest.mark.parametrize("dim", [Dim("batch"), Dim.AUTO, Dim.DYNAMIC])
def test_dimension_without_bound(dim: Any) -> None:
    exported = pipeline.export(nn.Linear(8, 4), (torch.randn(3, 8),), dynamic_shapes=({0: dim},))
    with pytest.raises(UnboundedShape, match="dimension 0 of input 'input' has no upper bound") as raised:
        pipeline.to_edge(exported)
    assert 'dynamic_shapes={"input": {0: torch.export.Dim("n", max=...)}}' in (raised.value.do or "")


class Packed(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.GRU(3, 4, batch_first=True)

    def forward(self, x: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
        packed = nn.utils.rnn.pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False)
        return self.layer(packed)[1]  # the line to be named


def test_packed_sequences() -> None:
    with pytest.raises(ExportError) as raised:
        pipeline.compile(Packed(), (torch.randn(2, 5, 3), torch.tensor([3, 5])))
    assert f"test_export_errors.py:{line_of(Packed, 'the line to be named')}" in (raised.value.where or "")
    assert "give the layer the padded batch" in (raised.value.do or "")


class Pair(nn.Module):
    def forward(self, x: torch.Tensor, more: dict[str, torch.Tensor]) -> torch.Tensor:
        return x.sum() + more["y"].sum()


def test_all_dimensions_without_bound_at_once() -> None:
    args = (torch.randn(3, 4), {"y": torch.randn(5)})
    shapes = ({0: Dim("a"), 1: Dim("b")}, {"y": {0: Dim("c")}})
    with pytest.raises(UnboundedShape, match="3 dimensions of inputs have no upper bound") as raised:
        pipeline.compile(Pair(), args, dynamic_shapes=shapes)
    assert raised.value.where == "input x, dimensions 0, 1\ninput more_y, dimension 0"
    assert '{"x": {0: ' in (raised.value.do or "")


@pytest.mark.parametrize("dim", [2, -1])
def test_dimension_that_is_not_there(dim: int) -> None:
    args = (torch.randn(3, 4), {"y": torch.randn(5)})
    with pytest.raises(InvalidInput, match=f"dimension {dim} of x, which has 2 dimensions"):
        pipeline.compile(Pair(), args, dynamic_shapes=({dim: Dim("a", max=4)}, None))
    with pytest.raises(InvalidInput, match=r"dimension 1 of more\['y'\], which has 1 dimension\n"):
        pipeline.compile(Pair(), args, dynamic_shapes={"x": None, "more": {"y": {1: Dim("a", max=4)}}})


def test_size_that_the_example_has_not() -> None:
    with pytest.raises(InvalidInput, match="gives dimension 0 of x the size 7, its example has 3"):
        pipeline.compile(Pair(), (torch.randn(3, 4), {"y": torch.randn(5)}), dynamic_shapes=({0: 7}, None))


@pytest.mark.parametrize(
    ("shapes", "advice"),
    [
        ({"z": {0: Dim("a", max=4)}}, "let dynamic_shapes be built as the arguments are"),
        (({0: Dim("a", max=4)},), "let dynamic_shapes be built as the arguments are"),
        (({0: Dim("a", max=2)}, {"y": None}), "give an example whose sizes lie within the ranges"),
    ],
)
def test_dynamic_shapes_that_do_not_fit(shapes: Any, advice: str) -> None:
    with pytest.raises(ExportError) as raised:
        pipeline.compile(Pair(), (torch.randn(3, 4), {"y": torch.randn(5)}), dynamic_shapes=shapes)
    assert advice in (raised.value.do or "")


@pytest.mark.parametrize("hint", [Dim.AUTO(min=1, max=2), Dim.DYNAMIC(min=4), Dim.AUTO(max=2)])
def test_example_outside_the_range_of_a_hint(hint: Any) -> None:
    """torch takes it, and the program would refuse its own example."""
    with pytest.raises(
        InvalidInput, match=r"dimension 0 of x a range that its example, 3, is not in"
    ) as raised:
        pipeline.compile(Pair(), (torch.randn(3, 4), {"y": torch.randn(5)}), dynamic_shapes=({0: hint}, None))
    assert "lie within the ranges" in (raised.value.do or "")


def test_number_outside_the_range_of_a_hint() -> None:
    class Repeats(nn.Module):
        def forward(self, x: torch.Tensor, n: int) -> torch.Tensor:
            return x.expand(n, 4)

    with pytest.raises(InvalidInput, match=r"gives n a range that its example, 5, is not in"):
        pipeline.compile(Repeats(), (torch.randn(4), 5), dynamic_shapes=(None, Dim.AUTO(max=4)))


def test_operator_without_kernel_names_the_line() -> None:
    class Model(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            rounded, _ = torch.ops.aten.fake_quantize_per_tensor_affine_cachemask(x, 0.1, 0, 0, 255)
            return rounded + torch._standard_gamma(x)

    with pytest.raises(NoKernel) as raised:
        pipeline.compile(Model(), (torch.randn(3, 3),))
    text = str(raised.value)
    assert "fake_quantize" in text and "_standard_gamma" in text and "test_export_errors.py" in text


class Flexible(nn.Module):
    def forward(self, x: torch.Tensor) -> Any:
        from torch.nn.attention.flex_attention import flex_attention

        return flex_attention(x, x, x, lambda score, b, h, i, j: score + x[b, h].sum())


@pytest.mark.filterwarnings("ignore")
def test_functions_that_programs_do_not_take() -> None:
    with pytest.raises(NotSupported, match="flex_attention takes functions of one score") as raised:
        pipeline.compile(Flexible(), (torch.randn(1, 2, 16, 16),))
    assert f"test_export_errors.py:{line_of(Flexible, 'flex_attention(x')}" in (raised.value.where or "")
    assert "scaled_dot_product_attention" in (raised.value.do or "")


def test_not_a_model() -> None:
    with pytest.raises(InvalidInput):
        pipeline.export(lambda x: x, (torch.randn(3),))
    with pytest.raises(InvalidInput, match="unknown target"):
        pipeline.to_edge(pipeline.export(nn.ReLU(), (torch.randn(3),)), target="gpu")
    with pytest.raises(InvalidInput, match="unknown dialect"):
        pipeline.to_edge(pipeline.export(nn.ReLU(), (torch.randn(3),)), passes={"late": []})


def test_conditions_that_a_program_cannot_check_are_one_warning() -> None:
    class Model(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            parts = [torch.logit(x.sigmoid(), eps=eps / x.shape[0]) for eps in (0.1, 0.2, 0.3)]
            return sum(parts[1:], parts[0])

    sizes = ({0: Dim.AUTO(max=9)},)
    with pytest.warns(UserWarning, match="cannot check") as caught:
        pipeline.compile(Model(), (torch.randn(3, 40),), dynamic_shapes=sizes)
    (text,) = (str(one.message) for one in caught if "cannot check" in str(one.message))
    assert "x.shape[0]" in text and "and 2 more conditions" in text and len(text) < 500


def test_training_mode_is_noticed() -> None:
    with pytest.warns(UserWarning, match="training mode"):
        pipeline.export(nn.Sequential(nn.Dropout()), (torch.randn(3),))


# --- passes of the user ----------------------------------------------------------------------------


def relu_to_gelu(graph: torch.fx.Graph) -> int:
    found = graph.find_nodes(op="call_function", target=torch.ops.aten.relu.default)
    for node in found:
        node.target = torch.ops.aten.gelu.default
    return len(found)


@pytest.mark.parametrize("dialect", ["aten", "core", "edge"])
def test_user_pass(dialect: str) -> None:
    x = torch.randn(3)
    edge = pipeline.to_edge(pipeline.export(nn.ReLU(), (x,)), passes={dialect: [relu_to_gelu]})
    torch.testing.assert_close(edge.methods["forward"].graph_module(x)[0], nn.functional.gelu(x))


def test_pass_that_breaks_a_rule_is_named() -> None:
    def put_a_view_back(graph: torch.fx.Graph) -> int:
        for node in graph.find_nodes(op="call_function", target=torch.ops.aten.view_copy.default):
            node.target = torch.ops.aten.view.default
        return 1

    exported = pipeline.export(nn.Flatten(0), (torch.randn(3, 2),))
    with pytest.raises(IllegalGraph, match=r"aten.view.default is a view.*put a view back"):
        pipeline.to_edge(exported, passes={"edge": [put_a_view_back]})


def test_parts_that_torch_refuses() -> None:
    def product(x: torch.Tensor) -> torch.Tensor:
        return torch.addcmul(x, x, x, value=0.5)

    conditions = torch.ones(3, dtype=torch.bool)
    with pytest.raises(NotSupported, match=r"addcmul.* cannot be made of others") as raised:
        penlight.compile(Calls(product), (conditions,), target="portable")
    said = str(raised.value)
    assert (
        "where   node addcmul" in said and "ValueError" in said and "do      write the operator out" in said
    )


@pytest.mark.parametrize("target", ["cpu", "portable"])
@pytest.mark.parametrize("rows", [None, torch.export.Dim("rows", max=9)])
def test_products_of_integers_take_a_factor_that_is_cut(rows: torch.export.Dim | None, target: str) -> None:
    def products(x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return torch.addcmul(x, x, x, value=2.5), torch.addcmul(x, x, y, value=2.5)

    shapes = None if rows is None else (({0: rows},) * 2,)
    given = torch.randint(-9, 9, (4, 5)), torch.randn(4, 5)
    program = penlight.load(penlight.compile(Calls(products), given, target=target, dynamic_shapes=shapes))
    for got, want in zip(program(*given), products(*given), strict=True):
        torch.testing.assert_close(torch.as_tensor(got), want)
