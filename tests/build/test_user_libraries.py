"""Selective builds with kernels that YAML names: whose kernel is in the binary, and what YAML gets wrong."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from tests.build.models import Make, run_program

import penlight
from penlight.build.select import select_from_list
from penlight.build.user_libraries import library_files
from penlight.errors import InvalidInput, InvalidTable
from penlight.kernels.library import read_library
from penlight.kernels.table import register_rows
from penlight.kernels.torch_schemas import TorchSchemas

FUNCTIONS = """\
- op: add.out
  type_alias: {T0: [Float]}
  dim_order_alias: {D0: [[0, 1]]}
  kernels:
    - arg_meta: {self: [T0, D0], other: [T0, D0], out: [T0, D0]}
      kernel_name: mine::add_out
"""
CUSTOM = """\
- func: ownyaml::thrice.out(Tensor x, *, Tensor(a!) out) -> Tensor(a!)
  kernels:
    - arg_meta: null
      kernel_name: mine::thrice_out
"""
COMPACT = '- {op: "aten::mul.out", kernel: "mine::mul_out", dtypes: float32}\n'
ADD = """\
#include <penlight/kernel.h>
namespace mine {
using namespace penlight;
Tensor& add_out(KernelContext& ctx, const Tensor& self, const Tensor& other, const Scalar&, Tensor& out) {
  if (!ctx.resize(out, self.sizes())) return out;
  for (dim_t i = 0; i < out.numel(); ++i)
    out.data_ptr<float>()[i] = self.data_ptr<float>()[i] + other.data_ptr<float>()[i] + 100;
  return out;
}
Tensor& mul_out(KernelContext& ctx, const Tensor& self, const Tensor& other, Tensor& out) {
  if (!ctx.resize(out, self.sizes())) return out;
  for (dim_t i = 0; i < out.numel(); ++i)
    out.data_ptr<float>()[i] = self.data_ptr<float>()[i] * other.data_ptr<float>()[i] + 200;
  return out;
}
}  // namespace mine
"""
THRICE = """\
#include <executorch/runtime/kernel/kernel_includes.h>
namespace mine::native {
using executorch::aten::Tensor;
using executorch::runtime::KernelRuntimeContext;
Tensor& thrice_out(KernelRuntimeContext& ctx, const Tensor& x, Tensor& out) {
  ET_KERNEL_CHECK(ctx, executorch::runtime::resize_tensor(out, x.sizes()) == executorch::runtime::Error::Ok,
                  InvalidArgument, out);
  for (ssize_t i = 0; i < x.numel(); ++i)
    out.mutable_data_ptr<float>()[i] = 3 * x.const_data_ptr<float>()[i];
  return out;
}
}  // namespace mine::native
"""
PENLIGHT = (sys.executable, "-m", "penlight")


@pytest.fixture
def library(tmp_path: Path) -> Path:
    """A folder with three YAML files of different spelling, and the kernels they name."""
    folder = tmp_path / "mylib"
    folder.mkdir()
    for name, text in (
        ("functions.yaml", FUNCTIONS),
        ("custom_ops.yaml", CUSTOM),
        ("rows.yaml", COMPACT),
        ("add.cpp", ADD),
        ("thrice.cpp", THRICE),
        ("unrelated.cpp", "#error this file has no kernel that the build needs\n"),
    ):
        (folder / name).write_text(text)
    return folder


@pytest.fixture
def thrice(library: Path) -> Iterator[None]:
    with torch.library._scoped_library("ownyaml", "DEF") as made:
        made.define("thrice(Tensor x) -> Tensor")
        made.define("thrice.out(Tensor x, *, Tensor(a!) out) -> Tensor(a!)")
        made.impl("thrice", lambda x: x * 3, "CompositeExplicitAutograd")
        torch.library.register_fake("ownyaml::thrice", torch.empty_like, lib=made)
        rows = read_library([library / "custom_ops.yaml"], "mine", schemas=TorchSchemas()).rows
        register_rows(rows, library="mine")
        yield


def program(path: Path, function: object, *inputs: torch.Tensor) -> Path:
    class Model(torch.nn.Module):
        def forward(self, *args: torch.Tensor) -> torch.Tensor:
            return function(*args)  # type: ignore[operator, no-any-return]

    penlight.compile(Model(), inputs, target="portable").save(path)
    return path


def test_three_spellings_in_one_binary(make: Make, library: Path, thrice: None, tmp_path: Path) -> None:
    x, y = torch.randn(2, 3), torch.randn(2, 3)
    path = program(tmp_path / "m.pte", lambda x, y: torch.ops.ownyaml.thrice(x + y) * y, x, y)
    files = [str(library / name) for name in ("functions.yaml", "custom_ops.yaml", "rows.yaml")]
    built = make(path, libraries=library_files([f"mine={file}" for file in files]))
    (got,) = run_program([built.files[0]], [x, y], tmp_path / "run")
    torch.testing.assert_close(torch.from_numpy(got), (x + y + 100) * 3 * y + 200)
    assert not any("portable" in name for name in built.masks), "the user's kernels serve all of it"
    assert not any("unrelated" in name for name in built.sources)


def test_holes_are_filled_by_kernels_of_penlights(make: Make, library: Path, tmp_path: Path) -> None:
    x, z = torch.randn(2, 3), torch.randn(4)

    def both(x: torch.Tensor, z: torch.Tensor) -> torch.Tensor:
        return (x + x).sum() + (z + z).sum()

    path = program(tmp_path / "m.pte", both, x, z)
    built = make(path, libraries=library_files([str(library / "functions.yaml")]))
    (got,) = run_program([built.files[0]], [x, z], tmp_path / "run")
    # Specialised for two dimensions in rows; the vector goes to the kernel for any.
    torch.testing.assert_close(torch.from_numpy(got), (x + x + 100).sum() + (z + z).sum())
    assert "kernels/portable/arithmetic.cpp" in built.masks


def test_a_library_for_cmake_has_them_too(make: Make, library: Path, thrice: None, tmp_path: Path) -> None:
    x = torch.randn(3)
    path = program(tmp_path / "m.pte", lambda x: torch.ops.ownyaml.thrice(x), x)
    built = make(path, libraries=library_files([str(library / "custom_ops.yaml")]), library=True)
    assert any(name.endswith("thrice.cpp") or "custom_0" in name for name in built.sources)
    assert built.files[0].suffix == ".a"


def test_all_of_a_table_when_nothing_else_is_asked_for(make: Make, library: Path) -> None:
    built = make(libraries=library_files([str(library / "rows.yaml"), str(library / "custom_ops.yaml")]))
    assert set(built.selection.operators) == {"aten::mul.out", "ownyaml::thrice.out"}


def test_a_dtype_that_the_own_kernel_lacks_goes_to_penlights(
    make: Make, library: Path, tmp_path: Path
) -> None:
    x = torch.arange(6).reshape(2, 3)
    path = program(tmp_path / "m.pte", lambda x: x * x, x)
    built = make(path, libraries=library_files([str(library / "rows.yaml")]))
    assert built.masks["kernels/portable/arithmetic.cpp"] == ["int64"]


def test_faults_have_file_line_and_column(make: Make, library: Path, tmp_path: Path) -> None:
    bad = library / "functions.yaml"
    bad.write_text(FUNCTIONS.replace("T0, D0]}", "T9, D0]}").replace("kernel_name", "kernel_nam"))
    with pytest.raises(InvalidTable) as caught:
        make(libraries=library_files([str(bad)]))
    text = str(caught.value)
    column = bad.read_text().splitlines()[4].index("T9") + 1
    assert (
        f"{bad}:5:{column}: unknown type_alias 'T9'" in text
        and f"{bad}:6:7: unknown key 'kernel_nam'" in text
    )
    bad.write_text(FUNCTIONS.replace("mine::add_out", "mine::addd_out"))
    with pytest.raises(InvalidTable, match="no kernel mine::addd_out in the sources; did you mean"):
        make(libraries=library_files([str(bad)]))


def test_the_name_of_a_library_of_penlights(make: Make, library: Path) -> None:
    with pytest.raises(InvalidInput, match="cannot be called portable"):
        make(libraries=library_files([f"portable={library / 'functions.yaml'}"]))


def test_the_command(library: Path, tmp_path: Path) -> None:
    x = torch.randn(2, 2)
    path = program(tmp_path / "m.pte", lambda x: x * x, x)
    command = [*PENLIGHT, "build", path, f"own={library / 'rows.yaml'}", "-o", tmp_path / "out"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    (got,) = run_program([tmp_path / "out" / "m"], [x], tmp_path / "run")
    torch.testing.assert_close(torch.from_numpy(got), x * x + 200)
    (library / "rows.yaml").write_text(COMPACT.replace("float32", "flaot32"))
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 1 and "rows.yaml:1:58" in done.stderr, done.stderr
    assert "unknown dtype or set of dtypes 'flaot32'" in done.stderr


def test_a_plug_in_written_for_executorch(make: Make) -> None:
    source = Path(__file__).parents[1] / "plugins" / "executorch_kernels.cpp"
    built = make(sources=[source], operators=select_from_list(["etop::custom_linear.out=float32"]))
    assert any(name.endswith("executorch_kernels.cpp") for name in built.sources) and built.masks == {}
