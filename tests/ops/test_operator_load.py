"""One C++ file, one call: eager, export, torch.compile, programs, and what can go wrong on the way."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy
import pytest
import torch
from torch import Tensor

import penlight
from penlight.errors import (
    BuildFailed,
    FileMissing,
    InvalidInput,
    InvalidOperator,
    InvalidState,
    NotSupported,
)

KERNELS = Path(__file__).parent / "kernels"
linear_of_torch = torch.nn.functional.linear
SCALE = """
#include <penlight/kernel.h>
using namespace penlight;
Tensor& scale_out(KernelContext& ctx, const Tensor& x, double k, Tensor& out) {
  if (!ctx.resize(out, x.sizes())) return out;
  for (dim_t i = 0; i < x.numel(); ++i)
    out.mutable_data_ptr<float>()[i] = x.const_data_ptr<float>()[i] * static_cast<float>(k) FACTOR;
  return out;
}
"""


class Linear(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.randn(3, 4))
        self.bias = torch.nn.Parameter(torch.randn(3))

    def forward(self, x: Tensor) -> Tensor:
        return torch.ops.testlin.custom_linear(self.weight, x, self.bias).relu()


def written(folder: Path, name: str, registration: str, *, factor: str = "", body: str = SCALE) -> Path:
    path = folder / name
    path.write_text(body.replace("FACTOR", factor) + registration + "\n")
    return path


def test_eager(linear: Any) -> None:
    w, x, b = torch.randn(3, 4), torch.randn(5, 4), torch.randn(3)
    op = torch.ops.testlin.custom_linear
    for bias in (b, None):
        torch.testing.assert_close(op(w, x, bias), linear_of_torch(x, w, bias))
        torch.testing.assert_close(linear(w, x, bias), linear_of_torch(x, w, bias))
    torch.testing.assert_close(op(weight=w, input=x, bias=None), linear_of_torch(x, w))
    strided = torch.randn(4, 10).t()[::2]
    torch.testing.assert_close(op(w, strided, b), linear_of_torch(strided, w, b))
    assert op(w, torch.empty(0, 4), None).shape == (0, 3)


def test_out_form(linear: Any) -> None:
    w, x = torch.randn(3, 4), torch.randn(5, 4)
    want = linear_of_torch(x, w)
    for out in (
        torch.empty(5, 3),
        torch.empty(0),
        torch.empty(3, 5).t(),
        torch.empty(5, 3, dtype=torch.float64),
    ):
        assert torch.ops.testlin.custom_linear.out(w, x, None, out=out) is out
        torch.testing.assert_close(out, want.to(out.dtype))
    with pytest.raises((InvalidInput, RuntimeError)):
        torch.ops.testlin.custom_linear.out(w, x, None, out=torch.empty(5, 3, dtype=torch.int64))


def test_wrong_sizes_are_refused_before_the_kernel_runs(linear: Any) -> None:
    w = torch.randn(3, 4)
    for x, b in ((torch.randn(5, 3), None), (torch.randn(4), None), (torch.randn(5, 4), torch.randn(4))):
        with pytest.raises(InvalidInput, match="of testlin::custom_linear should be"):
            torch.ops.testlin.custom_linear(w, x, b)
    with pytest.raises(Exception, match=r"should be \[n,i\]"):
        torch.ops.testlin.custom_linear(w.to("meta"), torch.randn(5, 3, device="meta"), None)


def test_export_and_program_with_dynamic_sizes(linear: Any) -> None:
    model = Linear()
    x = torch.randn(5, 4)
    shapes = {"x": {0: torch.export.Dim("n", max=9)}}
    exported = torch.export.export(model, (x,), dynamic_shapes=shapes)
    assert torch.ops.testlin.custom_linear.default in {node.target for node in exported.graph.nodes}
    loaded = penlight.load(penlight.compile(model, (x,), dynamic_shapes=shapes).to_bytes())
    for n in (1, 5, 9):
        x = torch.randn(n, 4)
        assert torch.equal(loaded(x), model(x).detach())


@pytest.mark.parametrize("target", ["cpu", "portable"])
def test_program_from_a_file(linear: Any, tmp_path: Path, target: str) -> None:
    model, x = Linear(), torch.randn(5, 4)
    path = penlight.compile(model, (x,), target=target).save(tmp_path / "model.pte")
    assert torch.equal(penlight.load(path)(x), model(x).detach())


def test_torch_compile_vmap_and_opcheck(linear: Any) -> None:
    model, x = Linear(), torch.randn(5, 4)
    with torch.no_grad():
        torch.testing.assert_close(torch.compile(model, fullgraph=True)(x), model(x))
        batch = torch.randn(2, 5, 4)
        torch.testing.assert_close(torch.func.vmap(model)(batch), torch.stack([model(x) for x in batch]))
    args = (torch.randn(3, 4), x, None)
    results = torch.library.opcheck(torch.ops.testlin.custom_linear.default, args)
    assert set(results.values()) == {"SUCCESS"}


def test_loading_again_is_harmless(linear: Any) -> None:
    before = torch.ops.testlin.custom_linear.default
    assert penlight.ops.load(KERNELS / "linear.cpp") is linear
    assert torch.ops.testlin.custom_linear.default is before
    built = penlight.ops.load(linear.path)
    assert [info.name for info in built.operators] == ["testlin::custom_linear.out"]
    x = torch.randn(5, 4)
    torch.testing.assert_close(built(torch.eye(4), x, None), x)


def test_an_edited_file_replaces_its_kernel(tmp_path: Path) -> None:
    line = 'PENLIGHT_LIBRARY(testedit, "scale(Tensor x, float k=2.0) -> Tensor", scale_out)'
    source = written(tmp_path, "edit.cpp", line)
    penlight.ops.load(source)
    x = torch.ones(3)
    assert torch.ops.testedit.scale(x).tolist() == [2, 2, 2]
    written(tmp_path, "edit.cpp", line, factor="+ 1.0f")
    penlight.ops.load(source)
    assert torch.ops.testedit.scale(x).tolist() == [3, 3, 3]

    class Model(torch.nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return torch.ops.testedit.scale(x, 5.0)

    assert penlight.load(penlight.compile(Model(), (x,)).to_bytes())(x).tolist() == [6, 6, 6]
    # Another schema: the operator is made anew.
    line = line.replace("k=2.0", "factor=4.0")
    written(tmp_path, "edit.cpp", line, factor="+ 1.0f")
    penlight.ops.load(source)
    assert torch.ops.testedit.scale(x).tolist() == [5, 5, 5]
    assert torch.ops.testedit.scale(x, factor=1.0).tolist() == [2, 2, 2]


def test_two_files_with_one_operator(tmp_path: Path) -> None:
    line = 'PENLIGHT_LIBRARY(testtwice, "scale(Tensor x, float k) -> Tensor", scale_out)'
    penlight.ops.load(written(tmp_path, "first.cpp", line))
    with pytest.raises(InvalidState) as caught:
        penlight.ops.load(written(tmp_path, "second.cpp", line, factor="+ 1.0f"))
    assert "first.cpp" in str(caught.value) and "second.cpp" in str(caught.value)
    assert torch.ops.testtwice.scale(torch.ones(1), 3.0).item() == 3


def test_an_operator_that_torch_has_already(tmp_path: Path) -> None:
    library = torch.library.Library("testtaken", "FRAGMENT")
    library.define("scale(Tensor x) -> Tensor")
    line = 'PENLIGHT_LIBRARY(testtaken, "scale(Tensor x, float k) -> Tensor", scale_out)'
    with pytest.raises(InvalidState, match="torch has an operator testtaken::scale already"):
        penlight.ops.load(written(tmp_path, "taken.cpp", line))


def test_only_a_name(tmp_path: Path) -> None:
    line = 'PENLIGHT_LIBRARY(testname, "scale.out", scale_out)'
    op = penlight.ops.load(written(tmp_path, "named.cpp", line))
    assert str(op["scale"]._schema) == "testname::scale(Tensor x, float k) -> Tensor"
    assert torch.ops.testname.scale(torch.ones(2), k=4.0).tolist() == [4, 4]


def test_without_a_rule_the_kernel_is_asked(tmp_path: Path) -> None:
    line = 'PENLIGHT_LIBRARY(testnorule, "scale(Tensor x, float k) -> Tensor", scale_out)'
    op = penlight.ops.load(written(tmp_path, "norule.cpp", line))

    class Model(torch.nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return torch.ops.testnorule.scale(x, 3.0)

    x = torch.randn(2, 3)
    assert torch.equal(penlight.load(penlight.compile(Model(), (x,)).to_bytes())(x), op(x, 3.0))
    with pytest.raises(Exception, match="has no shape rule, which dynamic sizes need") as caught:
        penlight.compile(Model(), (x,), dynamic_shapes=({0: torch.export.Dim("n", max=8)},))
    assert "shapes(" in str(caught.value) and "norule.cpp" in str(caught.value)


@pytest.mark.parametrize("rule", ["", ', shapes("[n] -> [n]")'])
def test_a_kernel_that_gives_its_result_no_sizes(rule: str, tmp_path: Path) -> None:
    name = f"testunsized{bool(rule):d}"
    line = f'PENLIGHT_LIBRARY({name}, "scale(Tensor x, float k) -> Tensor", scale_out{rule})'
    body = SCALE.replace("  if (!ctx.resize(out, x.sizes())) return out;\n", "")
    op = penlight.ops.load(written(tmp_path, f"{name}.cpp", line, body=body))
    with pytest.raises(Exception, match=r"ctx\.resize\(out, sizes\) comes first"):
        op(torch.ones(300_000), 2.0)
    with pytest.raises(Exception, match=r"ctx\.resize\(out, sizes\) comes first"):
        getattr(torch.ops, name).scale.out(torch.ones(3), 2.0, out=torch.ones(3))

    class Model(torch.nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return getattr(torch.ops, name).scale(x, 3.0)

    with pytest.raises(Exception, match=r"ctx\.resize\(out, sizes\) comes first"):
        penlight.compile(Model(), (torch.ones(3),))


def test_rule_and_kernel_that_disagree(tmp_path: Path) -> None:
    line = (
        'PENLIGHT_LIBRARY(testlie, "scale(Tensor x, float k) -> Tensor", scale_out, shapes("[n] -> [2*n]"))'
    )
    op = penlight.ops.load(written(tmp_path, "lie.cpp", line))
    with pytest.raises((InvalidOperator, RuntimeError), match="disagree") as caught:
        torch.export.export(_Scale(), (torch.ones(3),))
    assert "rule   [6]" in str(caught.value) and "kernel [3]" in str(caught.value)
    assert op is not None and "lie.cpp" in str(caught.value)


class _Scale(torch.nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return torch.ops.testlie.scale(x, 3.0)


@pytest.mark.parametrize(
    "line, error, messages",
    [
        ('PENLIGHT_LIBRARY(testbad, "f(Tensor x) -> Tensor", scale_out)', InvalidOperator,
         ["f(Tensor x) -> Tensor", "const Tensor&, double"]),
        ('PENLIGHT_LIBRARY(testbad, "f(Tensor x, Tensor k) -> Tensor", scale_out)', InvalidOperator,
         ["f(Tensor x, Tensor k) -> Tensor", "double"]),
        ('PENLIGHT_LIBRARY(testbad, "f(Tensor x, float k) -> int", scale_out)', InvalidOperator, ["int"]),
        ('PENLIGHT_LIBRARY(testbad, "f.out(Tensor x, float k) -> Tensor", scale_out)', InvalidOperator,
         ["out"]),
        ('PENLIGHT_LIBRARY(testbad, "f(Tensor x, float k) -> Tensor", scale_out, shapes("[n]"))',
         InvalidOperator, ["a shape rule has an arrow", "[n]"]),
        ("int broken() { return undefined_name; }", BuildFailed, ["bad.cpp", "undefined_name"]),
        ("", InvalidOperator, ["bad.cpp defines no operator", "PENLIGHT_LIBRARY(myop, "]),
        ('PENLIGHT_LIBRARY(testbad2, "f(Tensor x, float k) -> Tensor", scale_out)\n' * 2, InvalidState,
         ["testbad2::f.out has two kernels in one file", "bad.cpp:11", "bad.cpp:10"]),
    ],
)  # fmt: skip
def test_files_that_are_wrong(tmp_path: Path, line: str, error: type[Exception], messages: list[str]) -> None:
    with pytest.raises(error) as caught:
        penlight.ops.load(written(tmp_path, "bad.cpp", line))
    assert "bad.cpp" in str(caught.value) or "shape rule" in str(caught.value)
    for message in messages:
        assert message in str(caught.value)


def test_no_file_and_no_operator(tmp_path: Path) -> None:
    with pytest.raises(FileMissing):
        penlight.ops.load(tmp_path / "nothing.cpp")
    with pytest.raises(InvalidInput, match="no file was given"):
        penlight.ops.load()
    with pytest.raises(InvalidInput, match="a path is a string"):
        penlight.ops.load(None)  # type: ignore[arg-type]
    with pytest.raises(InvalidInput, match=r"this is no C\+\+ file"):
        penlight.ops.load(__file__)
    with pytest.raises(InvalidInput, match="has no operator 'other'"):
        penlight.ops.load(KERNELS / "linear.cpp")["other"]


def test_a_process_without_torch(linear: Any, tmp_path: Path) -> None:
    model, x = Linear(), torch.randn(5, 4)
    path = penlight.compile(model, (x,)).save(tmp_path / "model.pte")
    program = f"""
import sys
sys.modules["torch"] = None
import numpy, penlight
try:
    penlight.load({str(path)!r}).verify()
except penlight.PenlightError as problem:
    print(problem)
op = penlight.ops.load({str(KERNELS / "linear.cpp")!r}, torch=False)
loaded = penlight.load({str(path)!r})
print(loaded(numpy.array({x.tolist()}, numpy.float32)).tolist())
try:
    op(1)
except penlight.errors.NotSupported as problem:
    print(problem.what)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "testlin::custom_linear.out" in done.stdout and "linear.cpp" in done.stdout
    lines = done.stdout.splitlines()
    assert lines[-1] == "testlin::custom_linear cannot be called here: torch is not installed"
    torch.testing.assert_close(torch.tensor(eval(lines[-2])), model(x).detach())


def test_declared_dtypes_are_checked(tmp_path: Path) -> None:
    line = (
        'PENLIGHT_LIBRARY(testdtypes, "scale(Tensor x, float k) -> Tensor", scale_out, shapes("[n] -> [n]"))'
    )
    source = written(tmp_path, "floats.cpp", line)
    source.with_suffix(".py").write_text(
        'import penlight\npenlight.op("testdtypes::scale").dtypes("float32")\n'
    )
    penlight.ops.load(source)

    class Model(torch.nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return torch.ops.testdtypes.scale(x, 3.0)

    penlight.compile(Model(), (torch.ones(3),))
    with pytest.raises(penlight.errors.NoKernel, match=r"testdtypes::scale.out has no kernel for int64"):
        penlight.compile(Model(), (torch.ones(3, dtype=torch.int64),))

    # The kernel would read past what it is given.
    op = torch.ops.testdtypes.scale
    assert op(torch.ones(3), 2.0).tolist() == [2, 2, 2]
    for call in (lambda x: op(x, 2.0), lambda x: op.out(x, 2.0, out=torch.empty(3))):
        with pytest.raises(NotSupported, match="testdtypes::scale does not take int8"):
            call(torch.ones(3, dtype=torch.int8))


def test_a_user_without_a_kernel_is_told(tmp_path: Path) -> None:
    library = torch.library.Library("testnone", "FRAGMENT")
    library.define("f(Tensor x) -> Tensor")
    library.impl("f", torch.empty_like, "Meta")

    class Model(torch.nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return torch.ops.testnone.f(x)

    with pytest.raises(penlight.errors.NoKernel) as caught:
        penlight.compile(Model(), (torch.ones(3),))
    assert "testnone::f.out has no kernel" in str(caught.value)


def test_dtypes_the_kernel_cannot_have(linear: Any) -> None:
    with pytest.raises((NotSupported, RuntimeError)):
        linear(torch.ones(3, 4).cfloat(), torch.ones(5, 4).cfloat(), None)


def test_dtypes_that_are_mixed(linear: Any) -> None:
    weight, x, bias = torch.ones(3, 4), torch.ones(5, 4), torch.ones(3)
    for given in ((weight.double(), x, bias), (weight, x.double(), bias), (weight, x, bias.double())):
        with pytest.raises((NotSupported, RuntimeError)):
            linear(*given)


def test_a_kernel_and_a_function_of_one_name(linear: Any) -> None:
    with pytest.raises(InvalidState, match="testlin::custom_linear has a kernel in C"):

        @penlight.op("testlin::custom_linear")
        def again(x: Tensor) -> Tensor:
            return x + 1


def test_checks_in_every_eager_call(tmp_path: Path) -> None:
    schema = "scale(Tensor x, float k) -> Tensor"
    line = f'PENLIGHT_LIBRARY(testchecked, "{schema}", scale_out, shapes("[n] -> [2*n]"))'
    source = written(tmp_path, "checked.cpp", line)
    program = f"import torch, penlight\npenlight.ops.load({str(source)!r})(torch.ones(3), 2.0)"
    environment = {**os.environ, "PENLIGHT_CHECK_OPS": "1"}
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, env=environment)
    assert done.returncode == 1 and "disagree about 'out'" in done.stderr and "checked.cpp" in done.stderr


def test_the_runner_with_a_plug_in(linear: Any, tmp_path: Path) -> None:
    runner = Path(__file__).parents[2] / "build" / "native" / "penlight-runner"
    if not runner.exists():
        pytest.skip("penlight-runner is not built (make build)")
    model, x = Linear(), torch.randn(5, 4)
    path = penlight.compile(model, (x,)).save(tmp_path / "model.pte")
    numpy.save(tmp_path / "x.npy", x.numpy())
    command = [runner, path, "-i", tmp_path / "x.npy", "-o", tmp_path / "y", "--library", linear.path]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert numpy.array_equal(numpy.load(tmp_path / "y.0.npy"), model(x).detach().numpy())


def test_an_executorch_file_names_its_arguments(tmp_path: Path) -> None:
    source = tmp_path / "halves.cpp"
    source.write_text("""#include <executorch/extension/kernel_util/make_boxed_from_unboxed_functor.h>
#include <executorch/runtime/kernel/kernel_includes.h>
namespace halves {
using namespace executorch::aten;
using executorch::runtime::KernelRuntimeContext;
Tensor& half_out(KernelRuntimeContext& ctx, const Tensor& x, double by, bool in, Tensor& out) {
  ET_KERNEL_CHECK(ctx, executorch::runtime::resize_tensor(out, x.sizes()) == executorch::runtime::Error::Ok,
                  InvalidArgument, out);
  for (ssize_t i = 0; i < x.numel(); ++i)
    out.mutable_data_ptr<float>()[i] = in ? x.const_data_ptr<float>()[i] / static_cast<float>(by) : 0;
  return out;
}
Tensor& again(const Tensor& x, double by, Tensor& out) {
  KernelRuntimeContext ctx;
  return half_out(ctx, x, by, true, out);
}
}  // namespace halves
EXECUTORCH_LIBRARY(testhalves, "half.out", halves::half_out);
EXECUTORCH_LIBRARY(testhalves, "again.out", halves::again);
""")
    op = penlight.ops.load(source)
    # `in` is a word of Python's, which no argument can have.
    assert str(op["half"]._schema) == "testhalves::half(Tensor x, float by, bool arg2) -> Tensor"
    assert op["half"](torch.ones(2), 2.0, arg2=True).tolist() == [0.5, 0.5]
    assert op["again"](x=torch.ones(2), by=4.0).tolist() == [0.25, 0.25]


@pytest.mark.parametrize(
    "fault", ['shapes("[n] -> [m]")', 'backward("nothing(grad) -> x")', 'shapes("[n -> [n]")']
)
def test_a_file_that_is_refused_leaves_nothing_behind(fault: str, tmp_path: Path) -> None:
    """Another file may then have its operators, and so may the file itself, corrected."""
    name = f"testrefused{len(fault)}"
    line = f'PENLIGHT_LIBRARY({name}, "scale(Tensor x, float k) -> Tensor", scale_out, CLAUSE)'
    with pytest.raises(InvalidOperator):
        penlight.ops.load(written(tmp_path, "refused.cpp", line.replace("CLAUSE", fault)))
    assert f"{name}::scale.out" not in {operator.name for operator in penlight.runtime.operators.operators()}
    penlight.ops.load(written(tmp_path, "another.cpp", line.replace("CLAUSE", 'shapes("[n] -> [n]")')))
    assert getattr(torch.ops, name).scale(torch.ones(2), 3.0).tolist() == [3, 3]
    with pytest.raises(InvalidState, match=r"another\.cpp"):
        penlight.ops.load(written(tmp_path, "refused.cpp", line.replace("CLAUSE", 'shapes("[k] -> [k]")')))
    assert getattr(torch.ops, name).scale(torch.ones(2), 4.0).tolist() == [4, 4]
