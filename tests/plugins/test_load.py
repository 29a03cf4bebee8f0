"""Plug-ins in the runtime: what they say of themselves, calls, sizes, and what is refused."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from penlight.build.plugin import build_plugin
from penlight.errors import (
    FileMissing,
    InvalidInput,
    InvalidOperator,
    InvalidState,
    NoKernel,
    NotSupported,
    PenlightError,
    RuntimeFailure,
)
from penlight.runtime.kernels import call_kernel, kernel_shapes, signature_of
from penlight.runtime.plugin import OperatorInfo, load_plugin, out_schema

Load = Callable[[str], dict[str, OperatorInfo]]
HEADER = "#include <penlight/kernel.h>\nusing namespace penlight;\n"


def test_what_a_plugin_says(load: Load) -> None:
    info = load("custom_linear")["testing::custom_linear.out"]
    assert info.library == "testing" and info.signature == "TTtO" and not info.is_name_only
    assert info.schema == "custom_linear(Tensor weight, Tensor input, Tensor? bias) -> Tensor"
    assert info.shapes == "[o,i], [n,i], [o]? -> [n,o]"
    file, _, line = info.source.rpartition(":")
    assert Path(file).name == "custom_linear.cpp" and line.isdigit()


def test_names_of_operators(load: Load) -> None:
    infos = load("all_types")
    assert infos["testing::report.out"].signature == "TtLQIFBJDCZEifbjzeYMgO"
    assert infos["testing::step.out"].signature == "OTO"
    assert infos["testing::add_to_"].signature == "OF"
    assert infos["testing::named.of_overload_out"].signature == "TOO"
    as_out = infos["testing::named.as_out"]
    assert (
        as_out.schema == "named.as_out(Tensor x, *, Tensor(a!) a, Tensor(b!) b) -> (Tensor(a!), Tensor(b!))"
    )
    named = infos["testing::named.out"]
    assert named.is_name_only
    want = "named.out(Tensor arg0, *, Tensor(a!) out0, Tensor(b!) out1) -> (Tensor(a!), Tensor(b!))"
    assert named.schema == want


def test_schemas_from_types() -> None:
    want = "f.out(Tensor(a!) arg0, Tensor? arg1, int[] arg2, float? arg3, *, Tensor(b!) out) -> Tensor(b!)"
    assert out_schema("f.out", "OtJfO") == want


def test_call(load: Load) -> None:
    load("custom_linear")
    rng = np.random.default_rng(0)
    weight, x, bias = (rng.random(shape, np.float32) for shape in ((3, 4), (2, 4), (3,)))
    out = np.empty((2, 3), np.float32)
    call_kernel("testing::custom_linear.out", [weight, x, bias, out])
    np.testing.assert_allclose(out, x @ weight.T + bias, rtol=1e-6)
    call_kernel("testing::custom_linear.out", [weight, x, None, out], libraries="testing")
    np.testing.assert_allclose(out, x @ weight.T, rtol=1e-6)
    with pytest.raises(InvalidInput, match="takes float32, got int64"):
        call_kernel("testing::custom_linear.out", [weight, np.ones((2, 4), np.int64), None, out])


def test_arguments_that_are_written_to(load: Load) -> None:
    load("all_types")
    state, x, out = np.ones(3, np.float32), np.full(3, 5, np.float32), np.empty(3, np.float32)
    call_kernel("testing::step.out", [state, x, out])
    assert out.tolist() == [1, 1, 1] and state.tolist() == [6, 6, 6]
    call_kernel("testing::add_to_", [state, 0.5])
    assert state.tolist() == [6.5, 6.5, 6.5]


def test_every_type_arrives(load: Load) -> None:
    load("all_types")
    x, out = np.ones((2, 3)), np.empty(20)
    given = [x, None, [x, x], [None, x, x], 7, 0.5, True, [1, 2, 3], [0.5, 0.25], [True, False, True]]
    given += ["abc", 4, None, 2.5, None, [4, 5], None, 6, 0, 2, None]
    call_kernel("testing::report.out", [*given, out])
    want = [6, -1, 12, 3, 7, 0.5, 1, 123, 0.75, 5, 3097, 4, -1, 2.5, -1, 2, -1, 6, 2, 0]
    assert out.tolist() == want


def test_sizes_come_from_the_kernel(load: Load) -> None:
    load("custom_linear")
    load("all_types")
    load("row_median")
    load("executorch_kernels")
    f32 = "float32"
    assert kernel_shapes("testing::custom_linear.out", [((3, 4), f32), ((0, 4), f32), None]) == [(0, 3)]
    assert kernel_shapes("testing::split.out", [((3, 4), f32)]) == [(12,), (3, 4)]
    assert kernel_shapes("testing::split.out", [((), f32)]) == [(1,), ()]
    assert kernel_shapes("testing::step.out", [((2,), f32), ((2,), f32)]) == [(2,)]
    assert kernel_shapes("examples::row_median.out", [((5, 4), "bfloat16")]) == [(5,)]
    assert kernel_shapes("etop::custom_linear.out", [((3, 4), f32), ((2, 4), f32), None]) == [(2, 3)]
    # A kernel that does not ask whether it could resize, and reads its input.
    assert kernel_shapes("etop::min_max.out", [((3, 4), f32)]) == [(), ()]
    assert kernel_shapes("aten::add.out", [((3, 1), f32), ((4,), f32), 1]) == [(3, 4)]


def test_sizes_that_cannot_be_told(load: Load) -> None:
    load("all_types")
    load("custom_linear")
    with pytest.raises(InvalidInput, match=r"takes \[o, i\] and \[n, i\]"):
        kernel_shapes("testing::custom_linear.out", [((3, 4), "float32"), ((2, 5), "float32"), None])
    with pytest.raises(RuntimeFailure, match=r"without giving each result its sizes: ctx\.resize"):
        kernel_shapes("testing::forgets.out", [((3,), "float32")])
    with pytest.raises(NoKernel, match="declined"):
        kernel_shapes("testing::forgets.out", [((3,), "int64")])
    with pytest.raises(InvalidInput, match="cannot have this dtype"):
        kernel_shapes("testing::split.out", [((3,), "float33")])
    with pytest.raises(InvalidInput, match="takes other arguments"):
        kernel_shapes("testing::split.out", [((3,), "float32")] * 4)


def test_scratch_and_dtypes(load: Load) -> None:
    load("row_median")
    for dtype in (np.float32, np.float64, np.float16, np.int32, np.uint8):
        x = (np.random.default_rng(1).random((7, 101)) * 200).astype(dtype)
        out = np.empty(7, dtype)
        call_kernel("examples::row_median.out", [x, out])
        np.testing.assert_array_equal(out, np.sort(x, 1)[:, 50])
    with pytest.raises(NotSupported, match="element type bool is not supported"):
        call_kernel("examples::row_median.out", [np.ones((2, 2), bool), np.empty(2, bool)])


def test_loading_again_changes_nothing(load: Load) -> None:
    first = list(load("custom_linear").values())
    path = build_plugin(Path(__file__).with_name("custom_linear.cpp"))
    assert load_plugin(path) == first == load_plugin(str(path))


def scale_file(folder: Path, name: str, factor: int) -> Path:
    path = folder / name
    path.write_text(
        HEADER + "Tensor& f_out(KernelContext& ctx, const Tensor& x, Tensor& out) {\n"
        f"  if (ctx.resize(out, x.sizes())) *out.data_ptr<float>() = *x.data_ptr<float>() * {factor};\n"
        '  return out;\n}\nPENLIGHT_LIBRARY(reloaded, "f(Tensor x) -> Tensor", f_out)\n'
    )
    return path


def test_a_file_built_anew_takes_the_place_of_the_old(tmp_path: Path) -> None:
    x, out = np.full(1, 3, np.float32), np.empty(1, np.float32)
    for factor in (2, 5, 2):  # and back again
        load_plugin(build_plugin(scale_file(tmp_path, "kernel.cpp", factor)))
        call_kernel("reloaded::f.out", [x, out])
        assert out[0] == 3 * factor


def test_two_files_with_one_kernel(tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    first, second = (scale_file(tmp_path / name, "one.cpp", 2 + len(name)) for name in ("", "other"))
    for path in (first, second):
        path.write_text(path.read_text().replace("reloaded", "contested"))
    load_plugin(build_plugin(first))
    with pytest.raises(
        InvalidState, match=r"contested::f\.out has a kernel already, of another file"
    ) as caught:
        load_plugin(build_plugin(second))
    assert str(caught.value.where).startswith(str(second)) and str(first) in str(caught.value.got)
    assert signature_of("contested::f.out") == "TO"


@pytest.mark.parametrize(
    "schema, parameters, what",
    [
        (
            "f(Tensor x, int n) -> Tensor",
            "const Tensor& x",
            "1 parameter after the context|2 parameters after",
        ),
        (
            "f(Tensor? x) -> Tensor",
            "const Tensor& x",
            "argument x is Tensor[?] in the schema, which is const Opt",
        ),
        ("f(Tensor x, int[] n) -> Tensor", "const Tensor& x, int64_t n", "argument n is int.. in the schema"),
        ("f(Tensor x) -> int", "const Tensor& x", "an operator's results are Tensors"),
        ("f(Tensor x) -> str[]", "const Tensor& x", "an operator's results are Tensors"),
        ("f(Tensor x) -> ()", "const Tensor& x", "there is no out argument"),
        ("f(Tensor x, Future y) -> Tensor", "const Tensor& x, int64_t y", "argument y has a type that"),
        ("f(Tensor x", "const Tensor& x", "a schema is `name"),
        ("f(Tensor x) Tensor", "const Tensor& x", 'stops making sense at "Tensor"'),
        ("f.out(Tensor x, *, Tensor out) -> Tensor", "const Tensor& x", "there is no out argument"),
        (
            "f.to(Tensor x, *, Tensor(a!) out) -> Tensor(a!)",
            "const Tensor& x",
            "is named `out`, or ends with",
        ),
    ],
)
def test_schema_and_function_that_disagree(tmp_path: Path, schema: str, parameters: str, what: str) -> None:
    source = tmp_path / "kernel.cpp"
    source.write_text(
        HEADER + f"void f_out(KernelContext&, {parameters}, Tensor& out) {{}}\n"
        f'PENLIGHT_LIBRARY(refused, "{schema}", f_out)\n'
    )
    with pytest.raises(InvalidOperator, match=what) as caught:
        load_plugin(build_plugin(source))
    assert caught.value.where == f"{source}:4"
    assert caught.value.got is not None
    assert (
        f"schema   refused::{schema}" in caught.value.got and "function (KernelContext&, " in caught.value.got
    )


def test_a_function_without_an_out_argument(tmp_path: Path) -> None:
    source = tmp_path / "kernel.cpp"
    source.write_text(
        HEADER + 'void f(KernelContext&, const Tensor& x) {}\nPENLIGHT_LIBRARY(refused, "f.out", f)\n'
    )
    with pytest.raises(InvalidOperator, match="there is no out argument"):
        load_plugin(build_plugin(source))


def test_what_is_no_plugin(tmp_path: Path) -> None:
    with pytest.raises(FileMissing, match="no such plug-in"):
        load_plugin(tmp_path / "nothing.so")
    text = tmp_path / "text.so"
    text.write_text("hello")
    with pytest.raises(PenlightError, match="cannot be loaded"):
        load_plugin(text)
    empty = tmp_path / "empty.cpp"
    empty.write_text(HEADER)
    with pytest.raises(InvalidOperator, match="defines no operator"):
        load_plugin(build_plugin(empty))
    if shutil.which("cc") is None:
        pytest.skip("no C compiler")
    for name, code, what in (
        ("plain", "int x;", "this is no plug-in"),
        (
            "older",
            (
                "#include <stdint.h>\nstruct { uint32_t abi, r; uint64_t layout; void* first; } t = {0};"
                "const void* penlight_plugin(void) { return &t; }"
            ),
            "built with headers of another version",
        ),
    ):
        (tmp_path / f"{name}.c").write_text(code)
        library = tmp_path / f"{name}.so"
        subprocess.run(["cc", "-shared", "-fPIC", tmp_path / f"{name}.c", "-o", library], check=True)
        with pytest.raises(NotSupported, match=what):
            load_plugin(library)
