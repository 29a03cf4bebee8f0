"""Gradients of custom operators: a formula, a torch.autograd.Function, or an error that says so."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from test_operator_load import SCALE, written
from torch import Tensor

import penlight
from penlight.errors import InvalidInput, InvalidOperator, NotSupported

SCHEMA = '"scale(Tensor x, float k=2.0) -> Tensor", scale_out, shapes("[...] -> [...]")'


def load(folder: Path, namespace: str, python: str = "") -> Any:
    source = written(folder, f"{namespace}.cpp", f"PENLIGHT_LIBRARY({namespace}, {SCHEMA})", body=SCALE)
    if python:
        source.with_suffix(".py").write_text(
            f"import torch, penlight\nop = penlight.op('{namespace}::scale')\n" + python
        )
    return penlight.ops.load(source)


def gradient(op: Any, compiled: bool = False) -> Tensor:
    x = torch.randn(3, requires_grad=True)
    function = (
        torch.compile(lambda x: op(x, 3.0).sum(), fullgraph=True) if compiled else lambda x: op(x, 3.0).sum()
    )
    function(x).backward()
    assert x.grad is not None
    return x.grad


def test_nothing_given_is_an_error(tmp_path: Path) -> None:
    load(tmp_path, "gradnone")
    with pytest.raises(NotSupported) as caught:
        gradient(torch.ops.gradnone.scale)
    text = str(caught.value)
    assert "gradnone::scale has no gradient" in text and '@penlight.op("gradnone::scale").backward' in text
    with torch.no_grad():
        torch.ops.gradnone.scale(torch.ones(2, requires_grad=True))
    out = torch.empty(2)
    with pytest.raises(NotSupported, match="writes to tensors it is given"):
        torch.ops.gradnone.scale.out(torch.ones(2, requires_grad=True), out=out)


@pytest.mark.parametrize("compiled", [False, True])
def test_a_formula_in_the_file_of_the_same_stem(tmp_path: Path, compiled: bool) -> None:
    name = f"gradfile{int(compiled)}"
    load(tmp_path, name, "@op.backward\ndef _(ctx, grad): return grad * ctx.inputs.k, None\n")
    assert gradient(getattr(torch.ops, name).scale, compiled).tolist() == [3, 3, 3]


def test_a_formula_with_a_context_of_torchs_own(tmp_path: Path) -> None:
    load(
        tmp_path,
        "gradsetup",
        "def setup(ctx, inputs, output): ctx.k = inputs[1]\n"
        "@op.backward(setup_context=setup)\ndef _(ctx, grad): return grad * ctx.k, None\n",
    )
    assert gradient(torch.ops.gradsetup.scale).tolist() == [3, 3, 3]
    args = (torch.randn(3, dtype=torch.float32, requires_grad=True), 2.0)
    assert set(torch.library.opcheck(torch.ops.gradsetup.scale.default, args).values()) == {"SUCCESS"}


@pytest.mark.parametrize("compiled", [False, True])
def test_a_function_class(tmp_path: Path, compiled: bool) -> None:
    name = f"gradclass{int(compiled)}"
    load(
        tmp_path,
        name,
        "@op.function\nclass Scale(torch.autograd.Function):\n"
        "    @staticmethod\n    def forward(ctx, x, k=2.0):\n        ctx.k = k\n"
        f"        return torch.ops.{name}.scale(x, k)\n"
        "    @staticmethod\n    def backward(ctx, grad): return grad * ctx.k, None\n",
    )
    assert gradient(getattr(torch.ops, name).scale, compiled).tolist() == [3, 3, 3]


@pytest.mark.parametrize("traced", [False, True])
def test_a_formula_given_after_loading(tmp_path: Path, traced: bool) -> None:
    """torch keeps what it found out when an operator was traced; it has to forget that."""
    name = f"gradlate{int(traced)}"
    load(tmp_path, name)
    packet = getattr(torch.ops, name)
    if traced:
        torch.compile(lambda x: packet.scale(x, 3.0), fullgraph=True)(torch.randn(3))

    @penlight.op(f"{name}::scale").backward
    def _(ctx: Any, grad: Tensor) -> Any:
        return grad * ctx.inputs.k, None

    assert gradient(packet.scale).tolist() == [3, 3, 3]
    torch._dynamo.reset()
    assert gradient(packet.scale, compiled=True).tolist() == [3, 3, 3]


def test_a_fake_function_in_place_of_a_rule(tmp_path: Path) -> None:
    line = 'PENLIGHT_LIBRARY(fakefile, "scale(Tensor x, float k=2.0) -> Tensor", scale_out)'
    source = written(tmp_path, "fakefile.cpp", line, body=SCALE)
    source.with_suffix(".py").write_text(
        "import torch, penlight\n@penlight.op('fakefile::scale').fake\n"
        "def _(x, k=2.0): return torch.empty_like(x)\n"
    )
    penlight.ops.load(source)

    class Model(torch.nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return torch.ops.fakefile.scale(x, 3.0)

    shapes = {"x": {0: torch.export.Dim("n", max=6)}}
    loaded = penlight.load(penlight.compile(Model(), (torch.ones(3),), dynamic_shapes=shapes).to_bytes())
    assert loaded(torch.ones(5)).tolist() == [3] * 5

    @penlight.op("fakefile::scale").fake
    def _(x: Tensor, k: float = 2.0) -> Tensor:
        return x.new_empty(2 * x.shape[0])

    with pytest.raises((InvalidOperator, RuntimeError), match="fake function of fakefile::scale"):
        torch.export.export(Model(), (torch.ones(3),))


def test_an_operator_in_python() -> None:
    @penlight.op("pyop::swish")
    def swish(x: Tensor, beta: float = 1.0) -> Tensor:
        return x * torch.sigmoid(beta * x)

    class Model(torch.nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return torch.ops.pyop.swish(x, 2.0) + swish(x)

    x = torch.randn(3, 4)
    model = Model()
    want = x * torch.sigmoid(2 * x) + x * torch.sigmoid(x)
    torch.testing.assert_close(model(x), want)
    torch.testing.assert_close(penlight.load(penlight.compile(model, (x,)).to_bytes())(x), want)
    a, b = (x.clone().requires_grad_() for _ in range(2))
    torch.ops.pyop.swish(a, 2.0).sum().backward()
    (b * torch.sigmoid(2 * b)).sum().backward()
    torch.testing.assert_close(a.grad, b.grad)
    assert set(torch.library.opcheck(torch.ops.pyop.swish.default, (a, 2.0)).values()) == {"SUCCESS"}


def test_a_python_operator_without_annotations() -> None:
    with pytest.raises(InvalidOperator, match="pyop::bare cannot be an operator") as caught:

        @penlight.op("pyop::bare")
        def bare(x, y):  # type: ignore[no-untyped-def]
            return x + y

    assert "test_autograd.py" in str(caught.value) and "annotate" in str(caught.value)


@pytest.mark.parametrize("name", ["swish", "9a::swish", "a::9swish", 3, None])
def test_names_have_a_namespace(name: Any) -> None:
    with pytest.raises(InvalidInput, match="has a namespace and a name"):
        penlight.op(name)
