"""`penlight op build --test`: what it finds, and what it says."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from test_operator_load import SCALE, written

import penlight
from penlight.ops.checks import Check, Tester, check

KERNELS = Path(__file__).parent / "kernels"
EXAMPLE = Path(__file__).parents[2] / "examples" / "09_custom_operator.cpp"
DECLINE = "  if (x.scalar_type() != ScalarType::Float) {\n    ctx.decline();\n    return out;\n  }\n"
SAFE = SCALE.replace("  if (!ctx.resize", DECLINE + "  if (!ctx.resize")


def line(namespace: str, rule: str = "[n] -> [n]") -> str:
    schema = "scale(Tensor x, float k=2.0) -> Tensor"
    return f'PENLIGHT_LIBRARY({namespace}, "{schema}", scale_out, shapes("{rule}"))'


def failures(library: Any) -> dict[str, Check]:
    return {one.name: one for one in check(library) if one.passed is False}


def test_a_sound_operator_passes(linear: Any) -> None:
    results = check(linear)
    assert [one for one in results if one.passed is False] == []
    passed = {one.name for one in results if one.passed}
    wanted = {"eager", "rule and kernel", "out form", "tensors with gaps", "dtypes"}
    assert passed >= wanted | {"runtime, bit by bit", "dynamic sizes", "opcheck"}


def test_one_that_changes_its_arguments_passes(state: Any) -> None:
    assert failures(state) == {}


def test_the_example_passes() -> None:
    results = {one.name: one for one in check(penlight.ops.load(EXAMPLE))}
    assert [one for one in results.values() if one.passed is False] == []
    assert results["gradients"].passed and results["reference"].passed


def test_the_out_form_of_a_list_is_tested_too(arguments: Any) -> None:
    tester = Tester(arguments.definitions["testargs::parts.out"])
    tester.eager()
    assert len(tester.samples) > 3 and tester.out_form() == f"{len(tester.samples)} cases"


def test_a_rule_that_lies(tmp_path: Path) -> None:
    text = line("checklie", "[n] -> [n+1]")
    found = failures(penlight.ops.load(written(tmp_path, "checklie.cpp", text, body=SAFE)))
    assert "disagree" in found["rule and kernel"].detail


def test_a_kernel_that_takes_dtypes_it_cannot_read(tmp_path: Path) -> None:
    text = line("checkdtype")
    body = SCALE.replace("<float>()[i] =", "<float>()[i / 2] =")  # writes half of what it should
    found = failures(penlight.ops.load(written(tmp_path, "checkdtype.cpp", text, body=body)))
    assert found


def test_a_wrong_gradient(tmp_path: Path) -> None:
    text = line("checkgrad")
    source = written(tmp_path, "checkgrad.cpp", text, body=SAFE)
    source.with_suffix(".py").write_text(
        "import penlight\n@penlight.op('checkgrad::scale').backward\n"
        "def _(ctx, grad): return grad * 7, None\n"
    )
    assert "Jacobian mismatch" in failures(penlight.ops.load(source))["gradients"].detail


def test_a_reference_that_differs(tmp_path: Path) -> None:
    text = line("checkref")
    source = written(tmp_path, "checkref.cpp", text, body=SAFE)
    source.with_suffix(".py").write_text(
        "import penlight\n@penlight.op('checkref::scale').reference\ndef _(x, k=2.0): return x * k + 1\n"
    )
    assert "not close" in failures(penlight.ops.load(source))["reference"].detail


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "penlight", "op", "build", *arguments]
    return subprocess.run(command, capture_output=True, text=True)


def test_the_command_prints_a_table() -> None:
    done = run(str(KERNELS / "linear.cpp"), "--test")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "testlin::custom_linear(Tensor weight, Tensor input, Tensor? bias) -> Tensor" in done.stdout
    assert "runtime, bit by bit" in done.stdout and "FAILED" not in done.stdout


def test_the_command_fails_with_its_checks(tmp_path: Path) -> None:
    text = line("cmdlie", "[n] -> [n+1]")
    done = run(str(written(tmp_path, "cmdlie.cpp", text, body=SAFE)), "--test", "--json")
    assert done.returncode == 1
    (entry,) = json.loads(done.stdout)
    assert entry["operators"][0]["kernel"] == "cmdlie::scale.out"
    assert any(one["passed"] is False and one["name"] == "rule and kernel" for one in entry["checks"])


def test_the_command_says_what_does_not_compile(tmp_path: Path) -> None:
    done = run(str(written(tmp_path, "broken.cpp", "int broken() { return nothing; }")))
    assert done.returncode == 1 and "BuildFailed" in done.stderr and "nothing" in done.stderr


def test_a_kernel_that_takes_every_dtype_for_float64(tmp_path: Path) -> None:
    """It would write over other memory in a call; the check finds that between fences."""
    body = """
#include <penlight/kernel.h>
using namespace penlight;
Tensor& zero_out(KernelContext& ctx, const Tensor& x, Tensor& out) {
  if (!ctx.resize(out, x.sizes())) return out;
  for (dim_t i = 0; i < out.numel(); ++i) static_cast<double*>(out.mutable_data_ptr())[i] = 0;
  return out;
}
"""
    text = 'PENLIGHT_LIBRARY(checkwide, "zero(Tensor x) -> Tensor", zero_out, shapes("[...] -> [...]"))'
    found = failures(penlight.ops.load(written(tmp_path, "checkwide.cpp", text, body=body)))
    assert "writes outside of its tensors" in found["dtypes"].detail
    assert 'penlight.op("checkwide::zero").dtypes' in found["dtypes"].detail


def test_a_kernel_that_ends_the_process(tmp_path: Path) -> None:
    """The table says with which arguments, and what else the file has is tested."""
    body = (
        SAFE
        + """
Tensor& share_out(KernelContext& ctx, const Tensor& x, Tensor& out) {
  if (!ctx.resize(out, {})) return out;
  volatile int64_t rows = x.size(0);
  *out.mutable_data_ptr<int64_t>() = 12 / rows;
  return out;
}
PENLIGHT_LIBRARY(checkend, "share(Tensor x) -> Tensor", share_out, shapes("[n] -> i64[]"))
"""
    )
    done = run(str(written(tmp_path, "checkend.cpp", line("checkend"), body=body)), "--test", "--json")
    assert done.returncode == 1, done.stderr
    (entry,) = json.loads(done.stdout)
    (bad,) = [one for one in entry["checks"] if one["passed"] is False]
    assert bad["operator"] == "checkend::share" and "ends the process" in bad["detail"]
    assert "n is 0" in bad["detail"]
    assert any(one["operator"] == "checkend::scale" and one["passed"] for one in entry["checks"])
