"""The table generator: what it finds in kernel files, and what it refuses."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from penlight.build import registration
from penlight.build.registration import generate, own_library
from penlight.errors import InvalidTable
from penlight.kernels.table import own_table

OPS = Path(registration.__file__).parents[3] / "kernels" / "ops.yaml"
KERNELS = """\
#include <penlight/kernel.h>

namespace penlight::portable {
namespace {

void rows(KernelContext& ctx, const Tensor& x) {
}

}  // namespace

template <class T>
void shared(KernelContext& ctx, const Tensor& x) {
}

Tensor& relu_out(KernelContext& ctx, const Tensor& x, Tensor& out) {
  return out;
}

// Two results, and parameters over several lines.
void topk_out(KernelContext& ctx, const Tensor& x, int64_t k,  // how many
              bool largest, Tensor& values, Tensor& indices) {
}

}  // namespace penlight::portable
"""
ROWS = """\
- {op: "aten::topk.values", kernel: topk_out}
- {op: "aten::relu.out", kernel: relu_out, in: [portable, optimized]}
- {op: "aten::other.out", kernel: other_out, in: [optimized]}
"""


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A tree with one library, its rows, and room for what a test changes."""
    folder = tmp_path / "kernels" / "portable"
    folder.mkdir(parents=True)
    (folder / "sample.cpp").write_text(KERNELS)
    (tmp_path / "kernels" / "ops.yaml").write_text(ROWS)
    return tmp_path


def table(tree: Path) -> str:
    generate(tree / "kernels" / "ops.yaml", "portable", tree / "table.cpp")
    return (tree / "table.cpp").read_text()


def test_table_is_sorted_and_declares_what_files_define(tree: Path) -> None:
    text = table(tree)
    assert text.index("aten::relu.out") < text.index("aten::topk.values")
    assert "Tensor& relu_out(KernelContext& ctx, const Tensor& x, Tensor& out);" in text
    assert (
        "void topk_out(KernelContext& ctx, const Tensor& x, int64_t k, bool largest, "
        "Tensor& values, Tensor& indices);" in text
    )
    assert '"kernels/portable/sample.cpp"}' in text
    assert "aten::other.out" not in text
    assert 'KernelLibrary portable_library = {"portable", kPortableKernels, 2, true, nullptr};' in text


def test_what_kernels_share_is_not_a_kernel(tree: Path) -> None:
    text = table(tree)
    assert "rows" not in text
    assert "shared" not in text


def test_unchanged_table_keeps_its_time_stamp(tree: Path) -> None:
    table(tree)
    before = (tree / "table.cpp").stat().st_mtime_ns
    table(tree)
    assert (tree / "table.cpp").stat().st_mtime_ns == before


def refusal(tree: Path, *, rows: str = ROWS, kernels: str = KERNELS) -> str:
    (tree / "kernels" / "ops.yaml").write_text(rows)
    (tree / "kernels" / "portable" / "sample.cpp").write_text(kernels)
    with pytest.raises(InvalidTable) as caught:
        table(tree)
    assert not (tree / "table.cpp").exists()
    return "\n".join(str(fault).replace(f"{tree}/", "") for fault in caught.value.faults)


def test_row_without_kernel_says_what_is_expected(tree: Path) -> None:
    text = refusal(tree, rows=ROWS + '- {op: "aten::relu6.out", kernel: relu6_out}\n')
    assert text == (
        "kernels/ops.yaml:4:8: aten::relu6.out: no kernel relu6_out in the sources; "
        "did you mean 'penlight::portable::relu_out'?\n"
        "  expected Tensor& relu6_out(KernelContext& ctx, ...)"
    )


def test_two_rows_of_one_operator_name_both_places(tree: Path) -> None:
    text = refusal(tree, rows=ROWS + '- {op: "aten::relu.out", kernel: relu_out}\n')
    assert text == (
        "kernels/ops.yaml:4:8: aten::relu.out has a row already in library portable; "
        "first in kernels/ops.yaml:2:8"
    )


def test_kernel_defined_twice_names_both_places(tree: Path) -> None:
    again = (
        "Tensor& relu_out(KernelContext& ctx, Tensor& out) {\n}\n\n"
        "Tensor& relu_out(KernelContext& ctx, const Tensor& x, Tensor& out) {\n}\n\n"
        "}  // namespace penlight::portable\n"
    )
    text = refusal(tree, kernels=KERNELS.replace("}  // namespace penlight::portable\n", again))
    assert text == (
        "kernels/portable/sample.cpp:24: kernel penlight::portable::relu_out is defined twice; "
        "first in kernels/portable/sample.cpp:15 (give overloads names of their own)"
    )


def test_kernel_that_no_row_names(tree: Path) -> None:
    text = refusal(tree, rows='- {op: "aten::relu.out", kernel: relu_out}\n')
    assert text == "kernels/portable/sample.cpp:20: no row of ops.yaml names topk_out"


def test_kernel_outside_its_namespace(tree: Path) -> None:
    text = refusal(tree, kernels=KERNELS.replace("penlight::portable", "penlight"))
    assert "relu_out is not in namespace penlight::portable" in text


def test_all_faults_are_told_at_once(tree: Path) -> None:
    text = refusal(tree, rows='- {op: "aten::abs.out", kernel: abs_out}\n')
    places = [line.split(": ")[0] for line in text.splitlines() if not line.startswith(" ")]
    assert places == ["kernels/ops.yaml:1:8", *(f"kernels/portable/sample.cpp:{line}" for line in (15, 20))]


def test_a_row_gives_the_first_arguments(tree: Path) -> None:
    source = tree / "kernels" / "portable" / "median.cpp"
    source.write_text(
        "namespace penlight::portable {\n"
        "void median_out(KernelContext& ctx, int rank, bool skip, const Tensor& x, Tensor& out) {}\n"
        "}\n"
    )
    row = '- {op: "aten::median.out", kernel: median_out, given: {%s}}\n'
    ops = tree / "kernels" / "ops.yaml"
    ops.write_text(ROWS + row % "rank: 2, skip: false")
    function = "given<given<&portable::median_out, 2>, false>"
    assert f'{{"aten::median.out", boxed<{function}>, signature<{function}>, nullptr, ' in table(tree)
    (tree / "table.cpp").unlink()
    text = refusal(tree, rows=ROWS + row % "skip: false")
    assert text.endswith("aten::median.out: the first parameters of median_out are not skip")
    text = refusal(tree, rows=ROWS + row % "rank: 2, skip: never")
    assert text.endswith("skip is given as a whole number, true or false")


def test_broken_yaml(tree: Path) -> None:
    text = refusal(tree, rows="- {op: [")
    assert text == "kernels/ops.yaml:2:1: is not YAML: did not find expected node content"
    assert refusal(tree, rows="op: x") == (
        "kernels/ops.yaml:1:1: the file must be a list of operators (`- op: ...`), not a mapping"
    )


def test_script_needs_no_package(tree: Path) -> None:
    script = [sys.executable, registration.__file__, str(tree / "kernels" / "ops.yaml"), "portable"]
    output = tree / "out" / "table.cpp"
    subprocess.run([*script, "-o", str(output)], check=True, cwd=tree)
    assert "aten::relu.out" in output.read_text()

    (tree / "kernels" / "ops.yaml").write_text('- {op: "aten::abs.out", kernel: abs_out}\n')
    done = subprocess.run([*script, "-o", str(output)], capture_output=True, text=True, cwd=tree)
    assert done.returncode == 1
    assert done.stderr.startswith(f"error: {tree}/kernels/ops.yaml:1:8: aten::abs.out: no kernel abs_out")


@pytest.mark.parametrize("library", own_table().libraries())
def test_the_projects_own_table_is_complete(library: str) -> None:
    table, faults = own_library(OPS, library)
    assert faults == [] and len(table.entries) > 0


def test_a_table_of_some_operators_names_the_files_they_need() -> None:
    table, _ = own_library(OPS, "portable", only={"aten::relu.out", "aten::softmax.int_out"})
    assert [entry.op for entry in table.entries] == ["aten::relu.out"]
    assert table.sources() == ["kernels/portable/activation.cpp"]
