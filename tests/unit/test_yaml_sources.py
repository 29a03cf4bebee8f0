"""Schemas without torch, kernels found in sources, and the spellings of YAML beside the usual ones."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest
import torch
from typer.testing import CliRunner, Result

from penlight.build.registration import LibraryFiles, render, user_tables
from penlight.cli.ops import ops
from penlight.errors import InvalidInput
from penlight.kernels.bind import agree
from penlight.kernels.library import read_library
from penlight.kernels.places import Faults
from penlight.kernels.rows import describe_dtypes, describe_key, parse_dtypes
from penlight.kernels.schema import parse_schema
from penlight.kernels.sources import definitions_in, scan
from penlight.kernels.table import own_table
from penlight.kernels.torch_schemas import TorchSchemas

ROOT = Path(__file__).resolve().parents[2]


# --- schemas ------------------------------------------------------------------------------------------


def test_every_schema_of_atens_parses_as_torch_has_it() -> None:
    count = 0
    # Varargs, dictionaries, tuples and classes, which no kernel takes.
    strange = re.compile(r"\.\.\.|Dict\(|\(\(|, tVal\)|__torch__|\([a-z]+, ")
    for schema in torch._C._jit_get_all_schemas():
        text = str(schema)
        if not schema.name.startswith("aten::") or strange.search(text):
            continue
        parsed = parse_schema(text)
        names = [(argument.name, argument.is_out) for argument in schema.arguments]
        assert [(argument.name, argument.is_out) for argument in parsed.arguments] == names
        assert len(parsed.returns) == len(schema.returns)
        assert [argument.default is not None for argument in parsed.arguments] == [
            argument.has_default_value() for argument in schema.arguments
        ]
        count += 1
    assert count > 2500


def test_letters_and_declaration() -> None:
    schema = parse_schema(
        "myop::f.out(Tensor x, Tensor?[] indices, SymInt[2] size=[0, 1], str mode='a,b)', Scalar? s=None, "
        "bool[3] mask, *, ScalarType? dtype=None, Generator? g=None, Tensor(a!) out) -> Tensor(a!)"
    )
    assert schema.op == "myop::f.out" and schema.letters == "TQJZsCerO"
    assert schema.declaration("f_out") == (
        "Tensor& f_out(KernelContext& ctx, const Tensor& x, ArrayRef<Optional<Tensor>> indices, "
        "ArrayRef<int64_t> size, StringView mode, Optional<Scalar> s, ArrayRef<bool> mask, "
        "Optional<ScalarType> dtype, Optional<Generator> g, Tensor& out)"
    )
    assert [argument.default for argument in schema.arguments[2:4]] == ["[0, 1]", "'a,b)'"]
    two = parse_schema("f.out(Tensor x, *, Tensor(a!) out0, Tensor(b!) out1) -> (Tensor(a!), Tensor(b!))")
    assert two.op == "aten::f.out" and two.declaration("f").startswith("void f(")


# --- sources ------------------------------------------------------------------------------------------

ODD = """\
// Tensor& commented_out(KernelContext& ctx, Tensor& out) {
/* } namespace x { */
#define BRACE {
#define LONG(x) \\
  namespace y {
const char* text = "} // {\\"";
const char* raw = R"(} namespace z { )";
int separated = 1'000;
using namespace penlight;
enum class Kind { A, B };
struct Functor {
  Tensor& method_out(KernelContext& ctx, const Tensor& x, Tensor& out) { return out; }
};
static Tensor& hidden_out(KernelContext& ctx, const Tensor& x, Tensor& out) { return out; }
Tensor& declared_out(KernelContext& ctx, const Tensor& x, Tensor& out);
namespace { Tensor& anonymous_out(KernelContext& ctx, const Tensor& x, Tensor& out) { return out; } }
bool asks(KernelContext& ctx, const Tensor& x) { return x.numel() > 0; }
template <class T, int N = (1 > 0)>
Tensor& shared_out(KernelContext& ctx, const Tensor& x, Tensor& out) { return out; }
extern "C" {
Tensor& plain_out(KernelContext& ctx, const Tensor& x, Tensor& out) { return out; }
}
namespace a { namespace b {
[[gnu::noinline]] Tensor&
two_lines_out(
    ::penlight::KernelContext &ctx,
    const ::torch::executor::Tensor &x,  // a comment, with (brackets)
    [[maybe_unused]] const exec_aten::optional<Tensor>& bias,
    executorch::aten::ArrayRef<int64_t> size = {},
    const Scalar&,
    int64_t /*unused*/,
    Tensor &out) noexcept
{
  if (out.numel() == 1) { return out; }
  return out;
}
REGISTER_SOMETHING("f", g)
inline void pair_out(KernelContext& context, TensorList list, Optional<double> eps, Tensor& a, Tensor& b) {}
}}
namespace c::d::inline v1 {
Tensor& foreign_out(torch::executor::KernelRuntimeContext& ctx, const Tensor& x, string_view s, Tensor& out) {
  return out;
}
}  // namespace c::d::inline v1
Tensor& strange_out(KernelContext& ctx, my::Type x, Tensor& out) { return out; }
"""


def test_definitions_are_found_whatever_the_style() -> None:
    found = {definition.qualified: definition for definition in definitions_in(ODD, "odd.cpp")}
    assert list(found) == [
        "plain_out",
        "a::b::two_lines_out",
        "a::b::pair_out",
        "c::d::v1::foreign_out",
        "strange_out",
    ]
    lines = found["a::b::two_lines_out"]
    assert lines.letters == "TtJSIO" and str(lines.place) == "odd.cpp:25"
    assert lines.declaration == (
        "Tensor& two_lines_out(KernelContext& ctx, const Tensor& x, const Optional<Tensor>& bias, "
        "ArrayRef<int64_t> size, const Scalar&, int64_t, Tensor& out)"
    )
    pair = found["a::b::pair_out"]
    assert pair.letters == "LfOO" and pair.declaration.startswith("void pair_out(KernelContext& context, ")
    foreign = found["c::d::v1::foreign_out"]
    assert foreign.letters == "TZO" and foreign.foreign
    assert foreign.declaration == (
        "::executorch::aten::Tensor& foreign_out(::executorch::runtime::KernelRuntimeContext& ctx, "
        "const ::executorch::aten::Tensor& x, ::executorch::aten::string_view s, "
        "::executorch::aten::Tensor& out)"
    )
    assert found["strange_out"].letters == ".O"


def test_kernels_that_macros_make(tmp_path: Path) -> None:
    header = tmp_path / "mine" / "rows.h"
    header.parent.mkdir()
    header.write_text(
        "#define UNARY(kernel, ...) \\\n"
        "  Tensor& kernel(KernelContext& ctx, const Tensor& x, Tensor& out) { \\\n"
        "    return map(ctx, OF(__VA_ARGS__), x, out); \\\n"
        "  }\n"
    )
    source = header.parent / "rows.cpp"
    source.write_text(
        '#include "mine/rows.h"\n'
        "#define PAIR(name, Type) void name##_out(KernelContext& ctx, const Type& y, Tensor& o) { f(y); }\n"
        "namespace mine {\n"
        "UNARY(relu_out, x < T(0) ? T(0) : x)\n"
        "UNARY(clip_out,\n      min(x, (1, 2)))\n"
        "PAIR(add, Scalar)\n"
        "}\n"
    )
    faults = Faults()
    found = {definition.name: definition for definition in scan([source], faults)}
    assert faults.found == []
    assert {name: (d.letters, d.place.line) for name, d in found.items()} == {
        "relu_out": ("TO", 4),
        "clip_out": ("TO", 5),
        "add_out": ("SO", 7),
    }
    assert (
        found["relu_out"].declaration == "Tensor& relu_out(KernelContext& ctx, const Tensor& x, Tensor& out)"
    )


@pytest.mark.parametrize("text", ["", "}}}}", "{{{{", '"', "namespace {", 'R"(', "/*", "#if 1 \\", "f() {"])
def test_what_is_no_cpp_does_no_harm(text: str) -> None:
    assert list(definitions_in(text, "x.cpp")) == []


@pytest.mark.parametrize("library", own_table().libraries())
def test_the_projects_own_kernels_fit_the_schemas_of_torch(library: str) -> None:
    faults = Faults()
    folder = ROOT / "kernels" / library
    kernels = {definition.name: definition for definition in scan(sorted(folder.glob("*.cpp")), faults)}
    schemas = TorchSchemas()
    wrong = []
    for row in own_table():
        if library not in row.libraries or not row.op.startswith("aten::"):
            continue
        schema = schemas.schema(row.op)
        assert schema is not None
        if not agree(schema, kernels[row.kernel].letters[len(row.given) :], wider=True):
            wrong.append((schema.text, kernels[row.kernel].declaration))
        for argument in {*row.dtypes, *row.inplace} - {"rest"}:
            if argument not in [known.name for known in schema.arguments]:
                wrong.append((schema.text, argument))
    assert wrong == [] and faults.found == []


# --- spellings ----------------------------------------------------------------------------------------


def tables_of(folder: Path, text: str, kernels: str | None = None) -> tuple[str, list[str]]:
    (folder / "functions.yaml").write_text(text)
    sources = None
    if kernels is not None:
        (folder / "kernels.cpp").write_text(kernels)
        sources = [folder / "kernels.cpp"]
    own = {row.op: row for row in own_table()}
    files = [LibraryFiles("mylib", (folder / "functions.yaml",))]
    tables, _, warnings = user_tables(files, sources, schemas=TorchSchemas(), own=own)
    return render(tables, "functions.yaml"), [fault.what for fault in warnings]


# What ExecuTorch's documents show: a fallback, a key, a schema without namespace, `(?)`, more keys.
DOCUMENTED = """\
- op: add.out
  kernels:
    - arg_meta: null
      kernel_name: custom::add_out
- op: mul.out
  type_alias:
    T0: [Double]
  dim_order_alias:
    D0: [[0, 1, 2, 3]]
  kernels:
    - arg_meta:
        self: [T0, D0]
        other: [T0 , D0]
        out: [T0, D0]
      kernel_name: custom::mul_out
- func: allclose.out(Tensor self, Tensor other, float rtol=1e-05, float atol=1e-08, bool equal_nan=False, bool dummy_param=False, *, Tensor(a!) out) -> Tensor(a!)
  variants: function
  kernels:
    - arg_meta: null
      kernel_name: custom::allclose_out
- func: myop::custom_linear.out(Tensor weight, Tensor input, Tensor(?) bias, *, Tensor(a!) out) -> Tensor(a!)
  kernels:
    - arg_meta: null
      kernel_name: custom::custom_linear_out
- op: relu.out
  kernels:
    - arg_meta: null
      kernel_name: torch::executor::relu_out
"""  # noqa: E501


def test_files_of_executorchs_are_read_as_they_are(tmp_path: Path) -> None:
    text, warnings = tables_of(tmp_path, DOCUMENTED)
    assert warnings == []  # where mul.out has no key, Penlight's own kernel serves
    rows = [line.strip().split('"')[1::2] for line in text.splitlines() if line.startswith('    {"')]
    assert rows == [
        ["aten::add.out"],
        ["aten::allclose.out"],
        ["aten::mul.out", "v1/7;0,1,2,3|7;0,1,2,3|7;0,1,2,3"],
        ["myop::custom_linear.out"],
    ]
    # relu_out is theirs, and Penlight has one: nothing to register.
    assert "relu" not in text
    assert (
        "Tensor& custom_linear_out(KernelContext& ctx, const Tensor& weight, const Tensor& input, "
        "const Optional<Tensor>& bias, Tensor& out);" in text
    )


def test_an_operator_with_keys_alone_is_worth_a_warning(tmp_path: Path) -> None:
    entry = """\
- func: myop::f.out(Tensor x, *, Tensor(a!) out) -> Tensor(a!)
  type_alias: {T: [Float]}
  dim_order_alias: {D: [[0]]}
  kernels: [{arg_meta: {x: [T, D], out: [T, D]}, kernel_name: mylib::f_out}]
"""
    _, warnings = tables_of(tmp_path, entry)
    assert warnings == ["myop::f.out has no fallback: calls that no key names will find no kernel"]


def test_a_table_says_what_a_reader_needs(tmp_path: Path) -> None:
    text, _ = tables_of(
        tmp_path,
        "- op: relu.out\n  kernels: [{arg_meta: null, kernel_name: custom::relu_out}]\n",
        "namespace custom::native {\n"
        "Tensor& relu_out(KernelContext& ctx, const Tensor& in, Tensor& out) {}\n}\n",
    )
    source, function = f"{tmp_path}/kernels.cpp", "&::custom::native::relu_out"
    assert (
        text
        == f"""\
// Kernel table of mylib: generated by penlight/build/registration.py
// from functions.yaml.
#include <penlight/kernel.h>

namespace custom::native {{
using namespace penlight;

// {source}
Tensor& relu_out(KernelContext& ctx, const Tensor& in, Tensor& out);

}}  // namespace custom::native

namespace penlight {{

extern KernelLibrary mylib_library;

static const Kernel kMylibKernels[] = {{
    {{"aten::relu.out", boxed<{function}>, signature<{function}>, nullptr, "{source}"}},
}};

KernelLibrary mylib_library = {{"mylib", kMylibKernels, 1, true, nullptr}};

}}  // namespace penlight
"""
    )


THEIRS = """\
- func: etop::custom_linear.out(Tensor weight, Tensor input, Tensor(?) bias, *, Tensor(a!) out) -> Tensor(a!)
  kernels: [{arg_meta: null, kernel_name: torch::executor::custom_linear_out}]
- func: etop::min_max.out(Tensor input, *, Tensor(a!) low, Tensor(b!) high) -> (Tensor(a!), Tensor(b!))
  kernels: [{arg_meta: null, kernel_name: torch::executor::min_max_out}]
"""


def test_kernels_written_for_executorch_are_registered_as_they_are(tmp_path: Path) -> None:
    kernels = (ROOT / "tests/plugins/executorch_kernels.cpp").read_text()
    text, warnings = tables_of(tmp_path, THEIRS, kernels)
    assert warnings == [] and "#include <executorch/runtime/kernel/kernel_includes.h>" in text
    assert "boxed<executorch_kernel::adapted<&::torch::executor::native::min_max_out>>" in text
    assert "::std::tuple<::executorch::aten::Tensor&, ::executorch::aten::Tensor&> min_max_out(" in text

    compiler = os.environ.get("CXX") or shutil.which("c++") or shutil.which("g++")
    if compiler is None:
        pytest.skip("no C++ compiler")
    (tmp_path / "table.cpp").write_text(text)
    folders = ["-I", ROOT / "runtime/include", "-I", ROOT / "runtime/compatible"]
    for name in ("table", "kernels"):
        command = [compiler, "-std=c++17", "-O1", *folders, "-c", tmp_path / f"{name}.cpp", "-o"]
        subprocess.run([*command, tmp_path / f"{name}.o"], check=True)
    if shutil.which("nm"):  # the table names the very functions that the file defines
        symbols = {
            name: subprocess.run(["nm", tmp_path / f"{name}.o"], capture_output=True, text=True).stdout
            for name in ("table", "kernels")
        }
        for function in ("custom_linear_out", "min_max_out"):
            (wanted,) = set(re.findall(rf"U (\S*native\S*{function}\S*)", symbols["table"]))
            assert re.search(rf"T {re.escape(wanted)}\n", symbols["kernels"])


def test_without_torch_names_and_order_come_from_the_file(tmp_path: Path) -> None:
    (tmp_path / "functions.yaml").write_text(DOCUMENTED)
    library = read_library([tmp_path / "functions.yaml"], "mylib")
    assert [fault.what for fault in library.warnings] == [
        "`func` has no namespace: read as aten::allclose.out"
    ]
    assert [row.keys for row in library.rows][1] == ("v1/7;0,1,2,3|7;0,1,2,3|7;0,1,2,3",)


def test_keys_follow_the_schema_and_not_the_file(tmp_path: Path) -> None:
    entry = """\
- op: index_select.out
  type_alias: {F: [Float, Half], I: [Long]}
  dim_order_alias: {D: [[0, 1]], L: [0]}
  kernels:
    - arg_meta: {out: [F, D], index: [I, L], self: [F, D]}
      kernel_name: custom::index_select_out
"""
    (tmp_path / "functions.yaml").write_text(entry)
    (row,) = read_library([tmp_path / "functions.yaml"], "mylib", schemas=TorchSchemas()).rows
    assert row.keys == ("v1/6;0,1|4;0|6;0,1", "v1/5;0,1|4;0|5;0,1")
    assert describe_key(row.keys[0]) == "float32 [0,1] | int64 [0] | float32 [0,1]"
    assert describe_dtypes(row.dtypes["self"]) == "float16+float32"
    assert describe_dtypes(parse_dtypes("real+bool")) == "all"


# --- the command line ---------------------------------------------------------------------------------


def test_check_and_table_on_the_command_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)

    def run(*arguments: str) -> Result:
        return CliRunner().invoke(ops, list(arguments))

    (tmp_path / "mine").mkdir()
    (tmp_path / "mine/functions.yaml").write_text(
        "- op: relu.out\n  kernels: [{arg_meta: null, kernel_name: mine::relu_out}]\n"
    )
    kernel = "namespace mine {\nTensor& relu_out(KernelContext& ctx, const Tensor& x, Tensor& out) {\n}\n}\n"
    (tmp_path / "mine/relu.cpp").write_text(kernel)
    done = run("check", "mine/functions.yaml", "--json")
    assert done.exit_code == 0
    (served,) = json.loads(done.stdout)["served"]
    assert served == {
        "op": "aten::relu.out",
        "key": None,
        "for": "any",
        "library": "mine",
        "kernel": "mine::relu_out",
    }

    done = run("table", "mine/functions.yaml", "-o", "out/table.cpp", "--json")
    printed = json.loads(done.stdout)
    assert printed["libraries"] == {"mine": 1} and printed["sources"] == ["mine/relu.cpp"]
    assert "KernelLibrary mine_library" in (tmp_path / "out/table.cpp").read_text()
    assert run("table", "mine/functions.yaml").stdout == (tmp_path / "out/table.cpp").read_text()

    (tmp_path / "theirs.yaml").write_text(
        "- op: relu.out\n  kernels: [{arg_meta: null, kernel_name: torch::executor::relu_out}]\n"
    )
    (served,) = json.loads(run("check", "theirs.yaml", "--json").stdout)["served"]
    assert (served["library"], served["kernel"]) == ("portable", "relu_out")

    (tmp_path / "mine/relu.cpp").write_text(kernel.replace("relu_out", "relu6_out"))
    done = run("check", "other=mine/functions.yaml", "mine/relu.cpp", "--json")
    assert done.exit_code == 1
    (fault,) = json.loads(done.stdout)["faults"]
    assert (fault["file"], fault["line"], fault["column"]) == ("mine/functions.yaml", 1, 7)
    assert "did you mean 'mine::relu6_out'?" in fault["what"]

    done = run("check", "mine/relu.cpp")
    assert isinstance(done.exception, InvalidInput) and "no YAML file is given" in str(done.exception)
    assert "aten::relu.out" in [row["op"] for row in json.loads(run("--json", "relu").stdout)]
