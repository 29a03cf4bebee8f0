"""How torch comes to a kernel: without Python where no gradient is asked for, with sizes checked always."""

from __future__ import annotations

import sys
from pathlib import Path
from types import FrameType
from typing import Any

import pytest
import torch
from test_operator_load import SCALE, written
from torch import Tensor
from torch.autograd import forward_ad

import penlight
from penlight.errors import InvalidInput, InvalidOperator, NotSupported
from penlight.ops import dispatch
from penlight.ops.rule_program import rule_program
from penlight.ops.shapes import ShapeRule
from penlight.ops.signature import parse

TIMES = """
#include <penlight/kernel.h>
using namespace penlight;
Tensor& times_out(KernelContext& ctx, const Tensor& x, double k, Tensor& out) {
  const dim_t sizes[] = {x.dim() > 0 ? x.size(0) : 1, x.dim() > 1 ? x.size(1) : 1};
  if (!ctx.resize(out, {sizes, 2})) return out;
  for (dim_t i = 0; i < out.numel(); ++i) out.data_ptr<float>()[i] = x.data_ptr<float>()[i] * float(k);
  return out;
}
"""
ADD_TO = """
#include <penlight/kernel.h>
using namespace penlight;
Tensor& add_to_(KernelContext& ctx, Tensor& state, double value) {
  for (dim_t i = 0; i < state.numel(); ++i) state.data_ptr<float>()[i] += float(value);
  return state;
}
"""


def load(folder: Path, name: str, line: str, body: str = SCALE, python: str = "") -> Any:
    source = written(folder, f"{name}.cpp", f"PENLIGHT_LIBRARY({name}, {line})", body=body)
    if python:
        source.with_suffix(".py").write_text(
            f"import torch, penlight\nop = penlight.op('{name}::scale')\n" + python
        )
    penlight.ops.load(source)
    return getattr(torch.ops, name)


def python_functions(call: Any) -> list[str]:
    """Names of the functions of ours that a call runs through."""
    called: list[str] = []

    def note(frame: FrameType, event: str, arg: Any) -> None:
        if (
            event == "call"
            and "src/penlight" in frame.f_code.co_filename
            and "/tests/" not in frame.f_code.co_filename
        ):
            called.append(frame.f_code.co_name)

    sys.setprofile(note)
    try:
        call()
    finally:
        sys.setprofile(None)
    return called


SCHEMA = '"scale(Tensor x, float k=2.0) -> Tensor", scale_out, shapes("[...] -> [...]")'


@pytest.mark.parametrize("python", ["", "@op.backward\ndef _(ctx, grad): return grad * ctx.inputs.k, None\n"])
def test_no_python_while_no_gradient_is_asked_for(tmp_path: Path, python: str) -> None:
    assert dispatch.is_possible()
    name = f"quick{int(bool(python))}"
    op = load(tmp_path, name, SCHEMA, python=python).scale.default
    x = torch.randn(3)
    assert python_functions(lambda: op(x, 2.0)) == []
    asking = torch.randn(3, requires_grad=True)
    with torch.no_grad():
        assert python_functions(lambda: op(asking, 2.0)) == []
    assert python_functions(lambda: op(asking, 2.0)) != []
    assert torch.is_grad_enabled()
    assert not op(x, 2.0).requires_grad and op(asking, 2.0).requires_grad


def test_where_torch_is_not_as_expected_python_stands_in(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dispatch, "is_possible", lambda: False)
    op = load(
        tmp_path,
        "unlike",
        SCHEMA,
        python="@op.backward\ndef _(ctx, grad): return grad * ctx.inputs.k, None\n",
    )
    x = torch.randn(3, requires_grad=True)
    op.scale(x, 3.0).sum().backward()
    assert x.grad is not None and x.grad.tolist() == [3, 3, 3]
    assert op.scale(torch.ones(2), 2.0).tolist() == [2, 2]


def test_grad_mode_is_as_before_when_a_formula_fails(tmp_path: Path) -> None:
    python = (
        "@op.backward(setup_context=lambda ctx, inputs, output: 1 / 0)\ndef _(ctx, grad): return grad, None\n"
    )
    op = load(tmp_path, "failing", SCHEMA, python=python).scale
    with pytest.raises(ZeroDivisionError):
        op(torch.randn(2, requires_grad=True), 2.0)
    assert torch.is_grad_enabled()


def test_transforms(tmp_path: Path) -> None:
    op = load(
        tmp_path,
        "transform",
        SCHEMA,
        python="@op.backward\ndef _(ctx, grad): return grad * ctx.inputs.k, None\n",
    )
    x = torch.randn(4, 3)
    assert torch.func.grad(lambda x: op.scale(x, 3.0).sum())(x).eq(3).all()
    torch.testing.assert_close(torch.func.vmap(lambda row: op.scale(row, 3.0))(x), x * 3)
    torch.testing.assert_close(torch.func.vmap(lambda c: op.scale(c, 3.0), in_dims=1, out_dims=1)(x), x * 3)
    per_row = torch.func.vmap(torch.func.grad(lambda row: op.scale(row, 3.0).sum()))(x)
    assert per_row.eq(3).all()
    torch.testing.assert_close(torch.func.jacrev(lambda x: op.scale(x, 3.0))(x[0]), torch.eye(3) * 3)


@pytest.mark.parametrize("python", ["", "@op.backward\ndef _(ctx, grad): return grad * ctx.inputs.k, None\n"])
def test_a_gradient_forward_is_not_lost_in_silence(tmp_path: Path, python: str) -> None:
    op = load(tmp_path, f"forward{int(bool(python))}", SCHEMA, python=python).scale
    with forward_ad.dual_level():
        dual = forward_ad.make_dual(torch.ones(2), torch.ones(2))
        # Turning gradients off concerns those backward alone.
        for mode in (torch.enable_grad, torch.no_grad):
            with mode(), pytest.raises(NotSupported, match="no gradient in forward mode"):
                op(dual, 2.0)
            with mode(), pytest.raises(NotSupported, match="writes to tensors it is given"):
                op.out(dual, 2.0, out=torch.empty(2))
    assert torch.is_grad_enabled()
    with pytest.raises(NotSupported, match="no gradient in forward mode"):
        torch.func.jvp(lambda x: op(x, 2.0), (torch.ones(2),), (torch.ones(2),))


def test_a_function_with_a_jvp_serves_forward_mode_without_gradients_too(tmp_path: Path) -> None:
    python = """
@op.function
class F(torch.autograd.Function):
    @staticmethod
    def forward(x, k):
        return torch.ops.forwardmode.scale(x, k)
    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.k = inputs[1]
    @staticmethod
    def backward(ctx, grad):
        return grad * ctx.k, None
    @staticmethod
    def jvp(ctx, x, _):
        return x * ctx.k
"""
    op = load(tmp_path, "forwardmode", SCHEMA, python=python).scale
    with forward_ad.dual_level():
        dual = forward_ad.make_dual(torch.ones(2), torch.full((2,), 5.0))
        for mode in (torch.enable_grad, torch.no_grad):
            with mode():
                assert forward_ad.unpack_dual(op(dual, 2.0)).tangent.tolist() == [10, 10]
                assert torch.is_grad_enabled() == (mode is torch.enable_grad)


def test_symbolic_numbers_reach_the_operator(tmp_path: Path) -> None:
    body = SCALE.replace("double k", "int64_t k")
    op = load(
        tmp_path, "symbolic", '"scale(Tensor x, int k) -> Tensor", scale_out, shapes("[...] -> [...]")', body
    )

    class Model(torch.nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return op.scale(x, x.shape[0])

    exported = torch.export.export(Model(), (torch.ones(4, 2),), dynamic_shapes=({0: torch.export.Dim("n")},))
    assert exported.module()(torch.ones(6, 2)).eq(6).all()


@pytest.mark.parametrize("mode", [torch.inference_mode, torch.no_grad, torch.enable_grad])
def test_sizes_are_held_against_the_rule_in_every_mode(tmp_path: Path, mode: Any) -> None:
    name = f"held{mode.__name__}"
    op = load(
        tmp_path, name, '"times(Tensor x, float k) -> Tensor", times_out, shapes("[n,2] -> [n,2]")', TIMES
    ).times
    with mode():
        assert op(torch.ones(3, 2), 2.0).eq(2).all()
        with pytest.raises(InvalidInput, match=r"argument 'x' of .*times should be \[n,2\]") as caught:
            op(torch.ones(3, 4), 2.0)
    assert "[3, 4]" in str(caught.value) and "[n,2] -> [n,2]" in str(caught.value)


@pytest.mark.parametrize("mode", [torch.inference_mode, torch.enable_grad])
def test_a_kernel_that_disagrees_with_its_rule(tmp_path: Path, mode: Any) -> None:
    name = f"liar{mode.__name__}"
    op = load(
        tmp_path, name, '"times(Tensor x, float k) -> Tensor", times_out, shapes("[n,m] -> [m,n]")', TIMES
    ).times
    with mode():
        with pytest.raises(
            InvalidOperator, match=r"the shape rule of .* and its kernel disagree about 'out'"
        ) as caught:
            op(torch.ones(3, 2), 2.0)
        assert op(torch.ones(2, 2), 2.0).eq(2).all()
    text = str(caught.value)
    assert "[2, 3]" in text and "[3, 2]" in text and "[n,m] -> [m,n]" in text and f"{name}.cpp" in text


def test_changes_are_counted(tmp_path: Path) -> None:
    op = load(tmp_path, "counted", '"add_to_(Tensor(a!) state, float value) -> ()", add_to_', ADD_TO).add_to_
    x, weight = torch.ones(3), torch.ones(3, requires_grad=True)
    result = (weight * x).sum()
    before = x._version
    op(x, 1.0)
    assert x._version == before + 1 and x.tolist() == [2, 2, 2]
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        result.backward()
    with torch.inference_mode():
        op(x, 1.0)
        inside = torch.zeros(2)
        op(inside, 1.0)
    assert inside.tolist() == [1, 1]
    with pytest.raises(RuntimeError, match="Inplace update to inference tensor"):
        op(inside, 1.0)


def test_a_result_that_is_given_counts_as_changed(tmp_path: Path) -> None:
    op = load(tmp_path, "countout", SCHEMA).scale
    out = torch.empty(2)
    before = out._version
    op.out(torch.ones(2), 2.0, out=out)
    assert out._version > before


CONVERTED = """
#include <penlight/kernel.h>
using namespace penlight;
Tensor& as_out(KernelContext& ctx, const Tensor& x, Optional<ScalarType> dtype, Tensor& out) {
  if (!ctx.resize(out, x.sizes())) return out;
  dispatch<Real>(ctx, x.scalar_type(), [&](auto from) {
    using X = typename decltype(from)::type;
    dispatch<Real>(ctx, out.scalar_type(), [&](auto to) {
      using T = typename decltype(to)::type;
      for (dim_t i = 0; i < x.numel(); ++i) {
        out.mutable_data_ptr<T>()[i] = static_cast<T>(static_cast<double>(x.const_data_ptr<X>()[i]) + 1);
      }
    });
  });
  return out;
}
"""


def test_results_of_a_dtype_that_is_an_argument(tmp_path: Path) -> None:
    line = '"scale(Tensor x, ScalarType? dtype=None) -> Tensor", as_out, shapes("[...] -> dtype[...]")'
    op = load(tmp_path, "converted", line, CONVERTED).scale.default
    x = torch.tensor([1.0, 2.5])
    for dtype in (None, torch.float64, torch.int32):
        assert python_functions(lambda dtype=dtype: op(x, dtype)) == []
        want = (x + 1).to(dtype or torch.float32)
        assert op(x, dtype).dtype == want.dtype and torch.equal(op(x, dtype), want)


def test_declared_dtypes_without_python(tmp_path: Path) -> None:
    op = load(tmp_path, "allowed", SCHEMA, python="op.dtypes('float32')\n").scale
    x = torch.ones(3)
    assert python_functions(lambda: op.default(x, 2.0)) == []
    for call in (lambda x: op(x, 2.0), lambda x: op.out(x, 2.0, out=torch.empty(3))):
        with pytest.raises(NotSupported, match="allowed::scale does not take float64") as caught:
            call(x.double())
        assert "argument 'x'" in str(caught.value) and "declared are float32" in str(caught.value)


LISTED = """
#include <penlight/kernel.h>
using namespace penlight;
Tensor& first_out(KernelContext& ctx, ArrayRef<Optional<Tensor>> xs, TensorList ys, Tensor& out) {
  if (!ctx.resize(out, ys[0].sizes())) return out;
  out.mutable_data_ptr<float>()[0] = static_cast<float>(xs.size() * 10 + ys.size());
  return out;
}
"""


def test_declared_dtypes_of_lists(tmp_path: Path) -> None:
    line = '"scale(Tensor?[] xs, Tensor[] ys) -> Tensor", first_out'
    op = load(tmp_path, "allowedlists", line, LISTED, "op.dtypes('float32')\n").scale
    x, whole = torch.ones(1), torch.ones(1, dtype=torch.int64)
    assert op([None, x], [x]).tolist() == [21]
    for xs, ys, name in (([None, whole], [x], "xs"), ([None], [x, whole], "ys")):
        with pytest.raises(NotSupported, match=f"does not take int64[^$]*argument '{name}'"):
            op(xs, ys)


def test_the_out_form_without_python(tmp_path: Path) -> None:
    op = load(tmp_path, "givenout", SCHEMA).scale
    x, out = torch.randn(2, 3), torch.empty(2, 3)
    assert python_functions(lambda: op.out(x, 2.0, out=out)) == []
    asking = torch.randn(2, 3, requires_grad=True)
    with pytest.raises(NotSupported, match="writes to tensors it is given"):
        op.out(asking, 2.0, out=out)
    with torch.no_grad():
        op.out(asking, 2.0, out=out)
    assert torch.equal(out, asking.detach() * 2)


def test_results_that_are_given(tmp_path: Path) -> None:
    op = load(tmp_path, "givenresults", SCHEMA).scale.out
    x = torch.randn(4, 3)
    want = x * 2.0
    wide = torch.zeros(4, 6)
    for out in (
        torch.empty(0),  # resized in place
        torch.empty(7, 7),  # too large
        torch.empty(2, 1),  # too small
        torch.empty(3, 4).t(),  # another order
        torch.empty(4, 3, dtype=torch.float64),
        torch.empty(0, dtype=torch.float16),
        wide[:, ::2],
        torch.empty(4, 3),
    ):
        assert op(x, 2.0, out=out) is out
        assert torch.equal(out, want.to(out.dtype))
    assert not wide[:, 1::2].any()
    # In place, and where a result of other sizes takes the memory of an argument.
    y = x.clone()
    assert torch.equal(op(y, 2.0, out=y), want)
    y = x.clone()
    torch.testing.assert_close(op(y[0], 2.0, out=y), want[0])
    with pytest.raises(
        InvalidInput, match="result 0 is float32, and the tensor given for it cannot hold that"
    ):
        op(x, 2.0, out=torch.empty(4, 3, dtype=torch.int64))
    with pytest.raises(InvalidInput, match="should be"):
        load(
            tmp_path, "givenwrong", SCHEMA.replace("[...] ->", "[a,b] ->").replace("-> [...]", "-> [a,b]")
        ).scale.out(torch.ones(2), 2.0, out=torch.empty(0))


RULES = [
    ("f(Tensor x) -> Tensor", "TO", "[...] -> [...]", [(2, 3)]),
    ("f(Tensor x, Tensor y) -> Tensor", "TTO", "[...,i], [o,i] -> [...,o]", [(2, 4, 3), (5, 3)]),
    (
        "f(Tensor x, Tensor? b) -> (Tensor, Tensor)",
        "TtOO",
        "[n,c], [c]? -> [2*n], i64[n//2, c%2]",
        [(5, 3), (3,)],
    ),
    (
        "f(Tensor x, int k) -> Tensor",
        "TIO",
        "[n] -> [max(n,k) if k > 2 else min(n, -k + 9), abs(k)]",
        [(5,), 3],
    ),
    ("f(Tensor x, int[] s) -> Tensor", "TJO", "[n] -> [n, *s, len(s), s[-1], ndim(x), x[0]]", [(5,), [2, 3]]),
    ("f(Tensor x, Tensor y) -> Tensor", "TTO", "[*b,n,_], [*b,n] -> [*b, n]", [(4, 1, 3, 9), (6, 3)]),
    (
        "f(Tensor x, bool flip) -> Tensor",
        "TBO",
        "[a,b] -> [b if flip else a, a if not flip else 7]",
        [(2, 3), True],
    ),
]


@pytest.mark.parametrize(("schema", "letters", "text", "given"), RULES)
def test_rules_as_numbers(schema: str, letters: str, text: str, given: list[Any]) -> None:
    """Every one of these has a form for C++; that both calculate the same is seen in calls."""
    rule = ShapeRule(text, parse(schema, "numbers"))
    program = rule_program(rule, letters)
    assert program is not None and all(isinstance(number, int) for number in program)


@pytest.mark.parametrize(("schema", "letters", "text", "given"), RULES)
def test_rules_in_c_plus_plus_calculate_as_in_python(
    tmp_path: Path, schema: str, letters: str, text: str, given: list[Any]
) -> None:
    name = f"calc{RULES.index((schema, letters, text, given))}"
    rule = ShapeRule(text, parse(schema, name))
    arguments = {
        argument.name: torch.ones(value) if isinstance(value, tuple) else value
        for argument, value in zip(rule.signature.arguments, given, strict=True)
    }
    wanted = [spec.sizes for spec in rule.apply(arguments)]  # type: ignore[union-attr]
    cpp = {"T": "const Tensor&", "t": "const Optional<Tensor>&", "I": "int64_t", "J": "ArrayRef<int64_t>",
           "B": "bool", "O": "Tensor&"}  # fmt: skip
    parameters = ", ".join(f"{cpp[letter]} a{i}" for i, letter in enumerate(letters))
    first = letters.index("O")
    for off, good in ((0, True), (1, False)):
        resizes = "\n".join(
            f"  {{ const dim_t s[] = {{{', '.join(str(n + off) for n in sizes)}}}; "
            f"if (!ctx.resize(a{first + i}, {{s, {len(sizes)}}})) return; }}"
            for i, sizes in enumerate(wanted)
        )
        body = "#include <penlight/kernel.h>\nusing namespace penlight;\n"
        body += f"void f_out(KernelContext& ctx, {parameters}) {{\n{resizes}\n}}\n"
        op = load(tmp_path, f"{name}{off}", f'"{schema}", f_out, shapes("{text}")', body).f
        if good:
            results = op(*arguments.values())
            made = [results] if isinstance(results, Tensor) else results
            assert [tuple(tensor.shape) for tensor in made] == wanted
        else:
            with pytest.raises(InvalidOperator, match="disagree"):
                op(*arguments.values())
