"""What is wrong in a functions.yaml, custom_ops.yaml or its kernels, by message and place."""

from __future__ import annotations

from pathlib import Path

import pytest

from penlight.build.registration import LibraryFiles, user_tables
from penlight.errors import FileMissing, InvalidInput, InvalidTable
from penlight.kernels.table import own_table
from penlight.kernels.torch_schemas import TorchSchemas

KERNELS = """\
namespace mylib {
Tensor& add_out(KernelContext& ctx, const Tensor& self, const Tensor& other, const Scalar& alpha, Tensor& o) {
}
Tensor& relu_out(KernelContext& ctx, const Tensor& self, Tensor& out) {
}
Tensor& twice_out(KernelContext& ctx, const Tensor& x, const Optional<Tensor>& bias, Tensor& out) {
}
}
"""
ADD = """\
- op: add.out
  type_alias: {T0: [Float]}
  dim_order_alias: {D0: [[0, 1]]}
  kernels:
    - arg_meta: {self: [T0, D0], other: [T0, D0], out: [T0, D0]}
      kernel_name: mylib::add_out
"""
TWICE = """\
- func: mylib::twice.out(Tensor x, Tensor? bias=None, *, Tensor(a!) out) -> Tensor(a!)
  kernels: [{arg_meta: null, kernel_name: mylib::twice_out}]
"""


def faults(folder: Path, text: str, kernels: str | None = KERNELS, name: str = "functions.yaml") -> list[str]:
    """What is wrong, each as `line:column: what`."""
    (folder / name).write_text(text)
    (folder / "kernels.cpp").write_text(kernels or "")
    with pytest.raises(InvalidTable) as caught:
        user_tables(
            [LibraryFiles("mylib", (folder / name,))],
            [folder / "kernels.cpp"] if kernels is not None else None,
            schemas=TorchSchemas(),
            own={row.op: row for row in own_table()},
        )
    found = [str(fault).replace(f"{folder}/", "") for fault in caught.value.faults]
    assert all(
        line.split("\n")[0].split(": ")[0] in str(caught.value).replace(f"{folder}/", "") for line in found
    )
    return [line.removeprefix(f"{name}:") for line in found]


def test_the_samples_themselves_are_right(tmp_path: Path) -> None:
    (tmp_path / "functions.yaml").write_text(ADD + TWICE)
    (tmp_path / "kernels.cpp").write_text(KERNELS)
    files = [LibraryFiles("mylib", (tmp_path / "functions.yaml",))]
    own = {row.op: row for row in own_table()}  # which serve where add.out has no key
    (table,), _, warnings = user_tables(files, [tmp_path / "kernels.cpp"], schemas=TorchSchemas(), own=own)
    assert [(entry.op, entry.key) for entry in table.entries] == [
        ("aten::add.out", "v1/6;0,1|6;0,1|6;0,1"),
        ("mylib::twice.out", None),
    ]
    assert [fault.what for fault in warnings] == ["nothing registers kernel mylib::relu_out"]


@pytest.mark.parametrize(
    "text, message",
    [
        (ADD.replace("kernels:", "kernals:"), "4:3: unknown key 'kernals'; did you mean 'kernels'?"),
        (ADD.replace("kernel_name", "kernel"), "6:7: unknown key 'kernel'; did you mean 'kernel_name'?"),
        (ADD + "  op: relu.out\n", "7:3: 'op' is given twice; first in line 1"),
        (
            ADD.replace("self: [T0, D0]", "self: [T1, D0]"),
            "5:25: unknown type_alias 'T1' (there are T0)",
        ),
        (
            ADD.replace("self: [T0, D0]", "self: [T0, E]"),
            "5:29: unknown dim_order_alias 'E' (there are D0)",
        ),
        (
            ADD.replace("self: [T0, D0]", "self: [D0, T0]"),
            "5:25: D0 is no type_alias: write [type alias, dim order alias]",
        ),
        (
            ADD.replace("self: [T0, D0]", "self: [T0]"),
            "5:24: arg_meta of self must be [type alias, dim order alias], got ['T0']",
        ),
        (ADD.replace("[Float]", "[]"), "2:20: type alias T0 lists no dtype"),
        (ADD.replace("[Float]", "Float"), "2:20: type alias T0 must be a list, such as [Float]"),
        (ADD.replace("[Float]", "[Flaot]"), "2:21: unknown dtype 'Flaot'; did you mean 'Float'?"),
        (
            ADD.replace("[[0, 1]]", "[[0, 2]]"),
            "3:26: dim order alias D0: [0, 2] does not name each dimension from 0 once",
        ),
        (
            ADD.replace("[[0, 1]]", "[]"),
            "3:25: dim order alias D0 must list dim orders, such as [[0, 1], [0, 1, 2]]",
        ),
        (
            ADD.replace("other:", "othr:"),
            ("5:34: aten::add.out has no argument 'othr'; did you mean 'other'? "
            "(tensors are self, other, out)"),
        ),
        (
            ADD.replace("other:", "alpha: [T0, D0], other:"),
            "5:34: argument alpha of aten::add.out is Scalar: only tensors have dtype and dim order",
        ),
        (
            ADD.replace(", out: [T0, D0]", ""),
            "5:17: arg_meta of aten::add.out does not say what out must be",
        ),
        (
            ADD.replace("{self: [T0, D0], other: [T0, D0], out: [T0, D0]}", "any"),
            ("5:17: `arg_meta` must map every tensor argument to [type alias, dim order alias], or be null "
            "for a fallback kernel"),
        ),
        (ADD.replace("add.out", "reluu.out"), "1:7: ATen has no operator 'reluu'; did you mean 'relu'?"),
        (
            ADD.replace("add.out", "add.ot"),
            "1:7: ATen's add has no overload 'ot'; did you mean 'add.out'?",
        ),
        (
            ADD.replace("add.out", "add.Tensor"),
            ("1:7: aten::add.Tensor has no output argument: kernels implement the out variant, "
            "add.Tensor_out(..., *, Tensor(a!) out) -> Tensor(a!)"),
        ),
        (
            TWICE.replace(" -> Tensor(a!)", ""),
            "1:73: the schema does not parse: expected '->' and what is returned, got the end",
        ),
        (
            TWICE.replace("Tensor x", "Tensor"),
            "1:26: the schema does not parse: argument of type Tensor has no name",
        ),
        (
            TWICE.replace("Tensor x", "int x, int x"),
            "1:37: the schema does not parse: argument 'x' is given twice",
        ),
        (
            TWICE.replace("*, Tensor(a!) out", "Tensor out"),
            ("1:9: mylib::twice.out has no output argument: kernels implement the out variant, "
            "twice.out_out(..., *, Tensor(a!) out) -> Tensor(a!)"),
        ),
        (
            TWICE.replace("-> Tensor(a!)", "-> (Tensor(a!), Tensor)"),
            "1:9: mylib::twice.out returns 2 values and has 1 outputs",
        ),
        (
            TWICE.replace("Tensor? bias=None", "Dimname name"),
            ("1:9: argument name has type Dimname, which no kernel can take (Tensor, Scalar, int, float, "
            "bool, str, ScalarType, Layout, MemoryFormat, Device, lists [] and optional ? of them)"),
        ),
        (
            TWICE.replace("mylib::twice.out(", "twice.out("),
            "1:9: `func` has no namespace, and ATen has no operator twice: write mylib::twice.out(...)",
        ),
        (
            ADD.replace("op: add.out", "op: add.out(Tensor self) -> Tensor"),
            "1:7: `op` is a name; a whole schema goes under `func`",
        ),
        (ADD.replace("op: add.out", "opp: add.out"), "1:3: unknown key 'opp'; did you mean 'op'?"),
        ("- op: add.out\n  kernels: mylib::add_out\n",
         "2:12: `kernels` must be a list of `- arg_meta: ...` with their `kernel_name`"),
        ("- op: add.out\n  kernels:\n    - arg_meta: null\n", "3:7: an entry with no `kernel_name`"),
        ("- op: add.out\n", "1:3: aten::add.out has no `kernels`"),
        ("- add.out\n", "1:3: an operator must be a mapping (`op: ...`), not a text"),
        ("op: add.out\n", "1:1: the file must be a list of operators (`- op: ...`), not a mapping"),
        ("- op: [\n", "2:1: is not YAML: did not find expected node content"),
        (
            ADD.replace("mylib::add_out", "mylib::ad_out"),
            ("1:7: aten::add.out: no kernel mylib::ad_out in the sources; did you mean 'mylib::add_out'?\n"
            "  expected Tensor& ad_out(KernelContext& ctx, const Tensor& self, const Tensor& other, "
            "const Scalar& alpha, Tensor& out)"),
        ),
    ],
)  # fmt: skip
def test_fault(tmp_path: Path, text: str, message: str) -> None:
    assert message in faults(tmp_path, text)


def test_all_faults_of_a_file_are_told_at_once(tmp_path: Path) -> None:
    text = ADD.replace("Float", "Flaot").replace("add.out", "ad.out") + TWICE.replace("twice_out", "twce_out")
    found = faults(tmp_path, text)
    # Kernels are looked for when the files themselves are right.
    assert [line.split(":")[0] for line in found] == ["1", "2"]


def test_one_key_twice_names_both_places(tmp_path: Path) -> None:
    found = faults(tmp_path, ADD + ADD)
    assert found == [
        (
            "7:7: aten::add.out has a kernel for v1/6;0,1|6;0,1|6;0,1 already in library mylib; "
            "first in functions.yaml:1:7"
        )
    ]
    fallback = "- op: relu.out\n  kernels: [{arg_meta: null, kernel_name: mylib::relu_out}]\n"
    found = faults(tmp_path, fallback + fallback)
    assert found == [
        "3:7: aten::relu.out has a fallback already in library mylib; first in functions.yaml:1:7"
    ]


def test_schema_and_function_that_disagree_are_both_shown(tmp_path: Path) -> None:
    (found,) = faults(tmp_path, ADD, KERNELS.replace("const Scalar& alpha, ", ""))
    assert found == (
        "1:7: aten::add.out: its schema and its kernel disagree\n"
        "  schema   aten::add.out(Tensor self, Tensor other, *, Scalar alpha=1, Tensor(a!) out) "
        "-> Tensor(a!)\n"
        "  C++      Tensor& add_out(KernelContext& ctx, const Tensor& self, const Tensor& other, Tensor& o)"
        "   (kernels.cpp:2)\n"
        "  expected Tensor& add_out(KernelContext& ctx, const Tensor& self, const Tensor& other, "
        "const Scalar& alpha, Tensor& out)"
    )


@pytest.mark.parametrize(
    "change",
    [
        ("const Tensor& other", "Tensor& other"),
        ("const Scalar& alpha", "double alpha"),
        ("Tensor& o)", "const Tensor& o)"),
        ("const Tensor& self", "const Optional<Tensor>& self"),
    ],
)
def test_types_are_compared(tmp_path: Path, change: tuple[str, str]) -> None:
    (found,) = faults(tmp_path, ADD, KERNELS.replace(*change, 1))
    assert "disagree" in found


def test_a_name_that_two_namespaces_have(tmp_path: Path) -> None:
    kernels = KERNELS + KERNELS.replace("namespace mylib", "namespace other")
    (found,) = faults(tmp_path, ADD.replace("mylib::add_out", "add_out"), kernels)
    assert found == (
        "1:7: aten::add.out: kernel add_out is ambiguous: mylib::add_out (kernels.cpp:2) and "
        "other::add_out (kernels.cpp:10); name its namespace"
    )


def test_without_sources_the_schema_must_be_known(tmp_path: Path) -> None:
    text = "- op: foreign::thing.out\n  kernels: [{arg_meta: null, kernel_name: mylib::thing_out}]\n"
    (found,) = faults(tmp_path, text, None)
    assert found == (
        "1:7: the schema of foreign::thing.out is not known here: give the source of mylib::thing_out"
    )


def test_files_and_names(tmp_path: Path) -> None:
    with pytest.raises(FileMissing, match="there is no file"):
        user_tables([LibraryFiles("mylib", (tmp_path / "none.yaml",))])
    (tmp_path / "functions.yaml").write_text(ADD)
    with pytest.raises(FileMissing, match=r"there is no file .*none\.cpp"):
        user_tables([LibraryFiles("mylib", (tmp_path / "functions.yaml",))], [tmp_path / "none.cpp"])
    with pytest.raises(InvalidInput, match="cannot name a kernel library"):
        user_tables([LibraryFiles("my-lib", (tmp_path / "functions.yaml",))])
