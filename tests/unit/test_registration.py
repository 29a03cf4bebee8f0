"""The table generator: what it finds in kernel files, and what it refuses."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from penlight.build import registration
from penlight.build.registration import TableError, generate

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
    assert 'KernelLibrary portable_library = {"portable", kKernels, 2, true, nullptr};' in text


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
    with pytest.raises(TableError) as caught:
        table(tree)
    assert not (tree / "table.cpp").exists()
    return str(caught.value)


def test_row_without_kernel_says_where_one_is_expected(tree: Path) -> None:
    text = refusal(tree, rows=ROWS + '- {op: "aten::abs.out", kernel: abs_out}\n')
    assert text == (
        "aten::abs.out: no kernel abs_out in kernels/portable/*.cpp "
        "(expected `Tensor& abs_out(KernelContext& ctx, ...) {` at the start of a line)"
    )


def test_two_rows_of_one_operator(tree: Path) -> None:
    text = refusal(tree, rows=ROWS + '- {op: "aten::relu.out", kernel: relu_out}\n')
    assert text == "aten::relu.out has two rows in library portable"


def test_kernel_defined_twice_names_both_places(tree: Path) -> None:
    again = "Tensor& relu_out(KernelContext& ctx, Tensor& out) {\n}\n\n}  // namespace penlight::portable\n"
    text = refusal(tree, kernels=KERNELS.replace("}  // namespace penlight::portable\n", again))
    assert text == (
        "kernel relu_out is defined twice: kernels/portable/sample.cpp:15 and kernels/portable/sample.cpp:24"
    )


def test_kernel_that_no_row_names(tree: Path) -> None:
    text = refusal(tree, rows='- {op: "aten::relu.out", kernel: relu_out}\n')
    assert text == "kernels/portable/sample.cpp:20: no row of ops.yaml names topk_out"


def test_kernel_outside_its_namespace(tree: Path) -> None:
    text = refusal(tree, kernels=KERNELS.replace("penlight::portable", "penlight"))
    assert "relu_out is not in namespace penlight::portable" in text


def test_all_faults_are_told_at_once(tree: Path) -> None:
    text = refusal(tree, rows='- {op: "aten::abs.out", kernel: abs_out}\n')
    assert len(text.splitlines()) == 3


def test_broken_yaml(tree: Path) -> None:
    assert refusal(tree, rows="- {op: [").startswith("ops.yaml is not YAML: ")
    assert "needs `op` and `kernel`" in refusal(tree, rows='- {op: "aten::abs.out"}\n')


def test_script_needs_no_package(tree: Path) -> None:
    script = [sys.executable, registration.__file__, str(tree / "kernels" / "ops.yaml"), "portable"]
    output = tree / "out" / "table.cpp"
    subprocess.run([*script, "-o", str(output)], check=True, cwd=tree)
    assert "aten::relu.out" in output.read_text()

    (tree / "kernels" / "ops.yaml").write_text('- {op: "aten::abs.out", kernel: abs_out}\n')
    done = subprocess.run([*script, "-o", str(output)], capture_output=True, text=True, cwd=tree)
    assert done.returncode == 1
    assert done.stderr.startswith("error: aten::abs.out: no kernel abs_out")


def test_the_projects_own_table_is_complete() -> None:
    ops = Path(registration.__file__).parents[3] / "kernels" / "ops.yaml"
    definitions = registration.find_definitions(ops.parent / "portable")
    _, faults = registration.match_rows(registration.read_rows(ops, "portable"), definitions, "portable")
    assert faults == []
