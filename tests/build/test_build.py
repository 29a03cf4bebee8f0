"""Binaries of the host: the same bits as the runtime in Python, and only what is needed in them."""

from __future__ import annotations

import json
import platform
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from tests.build.models import MODELS, Make, assert_same_bits, expected, run_program

import penlight
from penlight.build.cache import cache_folder
from penlight.build.image import read_symbols
from penlight.build.select import select_from_list
from penlight.build.targets import HOST
from penlight.program import Program
from penlight.program.structs import EMPTY, Delegate, DelegateCall

Programs = Callable[[str], Path]
PENLIGHT = (sys.executable, "-m", "penlight")

SCALE = """
#include <penlight/kernel.h>
using namespace penlight;

Tensor& scale_out(KernelContext& ctx, const Tensor& x, double factor, Tensor& out) {
  if (!ctx.resize(out, x.sizes())) return out;
  dispatch<Real>(ctx, x.scalar_type(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    const T* from = x.const_data_ptr<T>();
    T* to = out.data_ptr<T>();
    for (dim_t i = 0; i < x.numel(); ++i)
      to[i] = static_cast<T>(static_cast<float>(from[i]) * static_cast<float>(factor));
  });
  return out;
}

PENLIGHT_LIBRARY(myop, "scale(Tensor x, float factor) -> Tensor", scale_out)
"""


@pytest.fixture(autouse=True)
def compiler() -> None:
    if not (shutil.which("c++") or shutil.which("g++")):
        pytest.skip("needs a C++ compiler")


def test_two_models_in_one_binary(make: Make, programs: Programs, tmp_path: Path) -> None:
    names = ["keywords", "integers"]
    built = make(*map(programs, names))
    program = built.files[0]
    for name in names:
        inputs = MODELS[name][1]
        got = run_program([program], inputs, tmp_path / name, ["--model", name])
        assert_same_bits(got, expected(programs(name), inputs))
    # Dtypes are chosen file by file.
    assert built.masks["kernels/portable/convolution.cpp"] == ["float32"]
    assert "float32" not in built.masks["kernels/portable/cumulative.cpp"]
    # No heap, no C++ library, and no kernel that was not asked for.
    assert not any("penlight" in s.name for s in read_symbols(program)), "not stripped"
    again = make(*map(programs, names))
    assert again.compiled == 0
    assert [part.name for part in again.sizes.parts][:2] == [part.name for part in built.sizes.parts][:2]
    total = sum(part.nbytes for part in built.sizes.parts)
    assert total == built.sizes.sizes.total
    by_operator = {part.name: part.nbytes for part in built.sizes.operators}
    assert by_operator["aten::convolution.out"] > by_operator["aten::relu.out"] > 0
    kernels = next(part.nbytes for part in built.sizes.parts if part.name == "kernels")
    assert sum(by_operator.values()) == kernels


def test_several_runs(make: Make, programs: Programs, tmp_path: Path) -> None:
    """Each is given its inputs anew: a run may use their memory for something else."""
    inputs = MODELS["keywords"][1]
    built = make(programs("keywords"))
    want = expected(programs("keywords"), inputs)
    assert_same_bits(run_program([built.files[0], "-n", "3"], inputs, tmp_path), want)


def test_unknown_dtype_is_refused(make: Make, programs: Programs, tmp_path: Path) -> None:
    """A program beside the binary that it was not built for."""
    built = make(programs("add"), embed=False)
    assert [path.name for path in built.files] == ["add", "add.pte"]
    inputs = MODELS["add"][1]
    assert_same_bits(run_program(built.files, inputs, tmp_path / "run"), expected(programs("add"), inputs))
    done = subprocess.run([built.files[0], programs("add_double")], capture_output=True, text=True)
    assert done.returncode == 1
    assert "calls aten::add.out with float64, for which it was not compiled here" in done.stderr
    done = subprocess.run([built.files[0], programs("integers")], capture_output=True, text=True)
    assert done.returncode == 1 and "MissingKernel" in done.stderr
    done = subprocess.run([built.files[0]], capture_output=True, text=True)
    assert done.returncode == 2 and "give a .pte file" in done.stderr
    # What runs delegates is not in it either, and they are refused by name.
    other = delegated(programs("add"), tmp_path)
    done = subprocess.run([built.files[0], other], capture_output=True, text=True)
    assert done.returncode == 1
    assert "the program needs backend Npu, which is not registered" in done.stderr


def delegated(path: Path, folder: Path) -> Path:
    """The same with a delegate for Npu, which is called last."""
    program = Program.read(path)
    method = program.contents.methods[0]
    method.delegates.append(Delegate("Npu", EMPTY))
    method.instructions.append(DelegateCall(0, (method.inputs[0], method.outputs[0])))
    program.save(folder / "delegated.pte")
    return folder / "delegated.pte"


def test_backend_of_ones_own(make: Make, programs: Programs, tmp_path: Path) -> None:
    source = tmp_path / "npu.cpp"
    source.write_text("""#include <penlight/backend.h>
using namespace penlight;
namespace {
Status init(const BackendInit&, void** handle) {
  *handle = nullptr;
  return Status::Ok;
}
Status execute(KernelContext&, void*, Value** args, size_t) {  // the output's first element becomes 77
  args[1]->as_tensor.mutable_data_ptr<float>()[0] = 77;
  return Status::Ok;
}
Backend npu = {"Npu", init, execute, nullptr, nullptr};
[[maybe_unused]] const Status registered = register_backend(npu);
}  // namespace
""")
    built = make(delegated(programs("add"), tmp_path), sources=[source])
    inputs = MODELS["add"][1]
    (got,) = run_program(built.files, inputs, tmp_path / "run")
    want = expected(programs("add"), inputs)[0].copy()
    want.reshape(-1)[0] = 77
    assert got.tobytes() == want.tobytes()


def test_command_line(programs: Programs, tmp_path: Path) -> None:
    command = [*PENLIGHT, "build", programs("add"), "-o", tmp_path / "out", "--size"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "wrote" in done.stdout and "kernels, by operator" in done.stdout and "aten::add.out" in done.stdout
    done = subprocess.run([*command, "--json"], capture_output=True, text=True)
    report = json.loads(done.stdout)
    assert report["operators"] == {"aten::add.out": ["float32"]} and report["compiled"] == 0
    assert report["bytes"]["file"] == Path(report["files"][0]).stat().st_size
    done = subprocess.run([*PENLIGHT, "build", programs("add"), "--list"], capture_output=True, text=True)
    assert done.stdout == '- {op: "aten::add.out", dtypes: float32}\n'
    done = subprocess.run([*command, "--target", "cortex-m5"], capture_output=True, text=True)
    assert done.returncode == 1 and "did you mean" in done.stderr and "cortex-m55" in done.stderr


class Spectrum(torch.nn.Module):
    """Complex numbers in and out, and one that takes 64 bits without a sign."""

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return x * x, y


def test_complex_numbers_and_large_ones(make: Make, tmp_path: Path) -> None:
    x = torch.tensor([1.5 - 2j, 3j], dtype=torch.complex64)
    y = torch.tensor([2**63], dtype=torch.uint64)
    path = tmp_path / "spectrum.pte"
    penlight.compile(Spectrum(), (x, y), target="portable").save(path)
    program = make(path).files[0]
    (square, kept) = run_program([program], (x, y), tmp_path / "run")
    assert square.dtype == "complex64" and kept.dtype == "uint64"
    assert square.tolist() == [-1.75 - 6j, -9] and kept.tolist() == [2**63]
    given = [word for index in (0, 1) for word in ("-i", tmp_path / "run" / f"input{index}.npy")]
    done = subprocess.run([program, *given], capture_output=True, text=True)
    assert "complex64 [2] -1.75-6j -9+0j" in done.stdout and f"[1] {2**63}" in done.stdout
    done = subprocess.run([program, "--fill", "ones"], capture_output=True, text=True)
    assert "complex64 [2] 1+0j 1+0j" in done.stdout and "[1] 1" in done.stdout
    (filled, _) = run_program([program], (), tmp_path / "filled", ["--seed", "7"])
    assert (abs(filled) <= 2).all() and (filled != 0).all()  # squares of two parts from [-1, 1)


def test_numbers_texts_and_nothing(make: Make, tmp_path: Path) -> None:
    class Model(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> tuple[object, ...]:
            return x + 1, None, 3, 2.5, "as it is"

    path = tmp_path / "several.pte"
    penlight.compile(Model(), (torch.zeros(1),), target="portable").save(path)
    done = subprocess.run([make(path).files[0], "--fill", "zeros"], capture_output=True, text=True)
    assert done.stdout.splitlines()[1:] == [
        f"output {i}: {text}" for i, text in enumerate(["None", "3", "2.5", "as it is"], 1)
    ]


def test_forward_is_what_runs(make: Make, tmp_path: Path) -> None:
    class Model(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x + 1

        def aux(self, x: torch.Tensor) -> torch.Tensor:
            return x + 2

    path = tmp_path / "two.pte"
    model, example = Model(), (torch.zeros(1),)
    methods = {"aux": (model.aux, example), "forward": (model, example)}
    penlight.compile(methods, target="portable").save(path)
    program = make(path).files[0]
    for words, value in (([], 1), (["-m", "aux"], 2)):
        done = subprocess.run([program, "--fill", "zeros", *words], capture_output=True, text=True)
        assert done.stdout == f"output 0: float32 [1] {value}\n", done.stderr


def test_a_name_that_is_a_word_of_c(make: Make, programs: Programs, tmp_path: Path) -> None:
    for name in ("class", "string", "index"):
        path = tmp_path / f"{name}.pte"
        shutil.copy(programs("add"), path)
        built = make(path, library=True)
        assert any(file.name == f"m_{name}.h" for file in (tmp_path / "out").rglob("*.h")), built.files


@pytest.mark.slow
@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("messages", [True, False])
def test_same_bits(make: Make, programs: Programs, tmp_path: Path, name: str, messages: bool) -> None:
    built = make(programs(name), messages=messages)
    inputs = MODELS[name][1]
    assert_same_bits(run_program(built.files, inputs, tmp_path), expected(programs(name), inputs))


@pytest.mark.slow
def test_dtype_selection_removes_code(make: Make, programs: Programs, tmp_path: Path) -> None:
    inputs = MODELS["pnet"][1]
    want = expected(programs("pnet"), inputs)
    chosen = make(programs("pnet"))
    assert_same_bits(run_program(chosen.files, inputs, tmp_path), want)
    every = make(programs("pnet"), select_dtypes=False, name="every")
    assert_same_bits(run_program(every.files, inputs, tmp_path), want)
    assert chosen.sizes.file_bytes < every.sizes.file_bytes / 1.5


@pytest.mark.slow
@pytest.mark.parametrize("optimize", ["-Os", "-O2"])
def test_packed_kernels(make: Make, tmp_path: Path, optimize: str) -> None:
    """What programs for the CPU call: of the routines and activations of the library those they use."""
    torch.manual_seed(0)
    layers = (torch.nn.Conv2d(3, 32, 3, 2, 1), torch.nn.ReLU6(), torch.nn.Conv2d(32, 20, 1), torch.nn.SiLU())
    inputs = (torch.rand(1, 3, 20, 24),)
    path = tmp_path / "packed.pte"
    penlight.compile(torch.nn.Sequential(*layers).eval(), inputs).save(path)
    built = make(path, optimize=optimize)
    uses = built.selection.operators
    assert uses["penlight::conv2d_packed.out"].activations == {2, 5}
    (got,) = run_program(built.files, inputs, tmp_path / "run")
    want = penlight.load(path)(*(tensor.numpy() for tensor in inputs))
    assert abs(got - want).max() < 1e-5
    routines = {source.partition("vector/")[2] for source in built.sources if "optimized/vector/" in source}
    assert routines >= {"product.cpp", "table.cpp"} and not routines & {"attention.cpp", "pool.cpp"}


@pytest.mark.skipif(HOST.format != "elf" or platform.machine() != "x86_64", reason="the bound is for x86-64")
def test_a_network_for_images_is_small(make: Make, tmp_path: Path) -> None:
    """Layers of MobileNetV2's kinds, compiled for the CPU: weights outside, errors in words."""

    class Block(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.expand = torch.nn.Conv2d(16, 96, 1)
            self.depthwise = torch.nn.Conv2d(96, 96, 3, padding=1, groups=96)
            self.project = torch.nn.Conv2d(96, 16, 1)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            relu6 = torch.nn.functional.relu6
            return x + self.project(relu6(self.depthwise(relu6(self.expand(x)))))

    layers = (torch.nn.Conv2d(3, 16, 3, 2, 1), torch.nn.ReLU6(), Block(), torch.nn.AdaptiveAvgPool2d(1))
    model = torch.nn.Sequential(*layers, torch.nn.Flatten(), torch.nn.Linear(16, 10)).eval()
    path = tmp_path / "images.pte"
    penlight.compile(model, (torch.rand(1, 3, 32, 32),)).save(path)
    size = make(path, embed=False).sizes.file_bytes
    print(f"{size:,} bytes")
    assert size <= 90_000


@pytest.mark.slow
def test_operator_of_ones_own(make: Make, tmp_path: Path) -> None:
    source = tmp_path / "scale.cpp"
    source.write_text(SCALE)
    operator = penlight.ops.load(source)

    class Scaled(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.ops.myop.scale(x, 1.5) + 1

    assert operator is not None
    inputs = (torch.tensor([1.0, -2.0, 0.3]),)
    path = tmp_path / "scaled.pte"
    penlight.compile(Scaled(), inputs, target="portable").save(path)
    built = make(path, sources=[source])
    got = run_program(built.files, inputs, tmp_path / "run")
    assert_same_bits(got, [torch.ops.myop.scale(*inputs, 1.5).numpy() + 1])


MAIN = """
#include <nets.h>
#include <stdio.h>

using namespace penlight;

alignas(16) static uint8_t memory_bytes[1 << 20];

int main() {
  KernelRegistry& kernels = nets::kernels();
  if (!kernels.find("myop::scale.out", nullptr)) return 10;
  if (kernels.find("aten::cumsum.out", nullptr)) return 11;
  Message message;
  BufferLoader loader(nets::add_data(), nets::add_size);
  Program program;
  MethodMeta meta;
  if (program.load(loader, &message) != Status::Ok) return 1;
  if (program.method_meta("forward", meta, &message) != Status::Ok) return 2;
  ArenaAllocator all(memory_bytes, sizeof memory_bytes);
  ArenaAllocator own(all.allocate(meta.method_bytes()), meta.method_bytes());
  Arena arenas[4] = {};
  for (size_t i = 0; i < meta.arena_count(); ++i) {
    arenas[i].size = meta.arena_size(i);
    arenas[i].data = all.allocate(arenas[i].size);
  }
  MemoryManager memory{};
  memory.method_allocator = &own;
  memory.arenas = arenas;
  memory.arena_count = meta.arena_count();
  memory.scratch = scratch_from(all);
  Method method;
  if (method.load(program, "forward", memory, &message, &kernels) != Status::Ok) return 3;
  const float x[] = {1.5f, 2.5f}, y[] = {0.25f, -4.0f};
  const dim_t sizes[] = {2};
  if (method.set_input(0, InputTensor{x, sizes, 1, ScalarType::Float}, &message) != Status::Ok) return 4;
  if (method.set_input(1, InputTensor{y, sizes, 1, ScalarType::Float}, &message) != Status::Ok) return 5;
  if (method.execute(&message) != Status::Ok) return 6;
  Value output;
  if (method.output(0, output, &message) != Status::Ok) return 7;
  const float* sum = output.as_tensor.const_data_ptr<float>();
  printf("%g %g\\n", sum[0], sum[1]);
  return 0;
}
"""

CMAKE = """
cmake_minimum_required(VERSION 3.18)
project(user CXX)
find_package(nets REQUIRED CONFIG)
add_executable(user main.cpp)
target_link_libraries(user PRIVATE nets::nets)
"""


@pytest.mark.slow
def test_library_in_a_cmake_project(make: Make, programs: Programs, tmp_path: Path) -> None:
    source = tmp_path / "scale.cpp"
    source.write_text(SCALE)
    built = make(programs("add"), programs("keywords"), library=True, name="nets", sources=[source])
    out = tmp_path / "out"
    assert [path.relative_to(out).as_posix() for path in built.files] == [
        "lib/libnets.a",
        "include/nets.h",
        "lib/cmake/nets/netsConfig.cmake",
    ]
    user = tmp_path / "user"
    user.mkdir()
    (user / "main.cpp").write_text(MAIN)
    (user / "CMakeLists.txt").write_text(CMAKE)
    configure = ["cmake", "-S", user, "-B", user / "build", f"-DCMAKE_PREFIX_PATH={out}"]
    for command in (configure, ["cmake", "--build", user / "build"]):
        done = subprocess.run(command, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr
    done = subprocess.run([user / "build" / "user"], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "1.75 -1.5\n")


@pytest.mark.slow
def test_operators_without_a_model(make: Make, programs: Programs, tmp_path: Path) -> None:
    operators = select_from_list(["aten::add.out=float32", "aten::mul.out=float32"])
    built = make(operators=operators, name="runner")
    inputs = MODELS["add"][1]
    got = run_program([built.files[0], programs("add")], inputs, tmp_path)
    assert_same_bits(got, expected(programs("add"), inputs))


def test_operators_that_two_libraries_have(make: Make) -> None:
    """Both kernels are built, the second for what the first declines; their bytes count once."""
    operators = select_from_list(["aten::add.out=float32"])
    built = make(operators=operators, kernel_libraries=["optimized", "portable"], name="runner")
    assert [part.name for part in built.sizes.operators].count("aten::add.out") == 1
    kernels = next(part.nbytes for part in built.sizes.parts if part.name == "kernels")
    assert sum(part.nbytes for part in built.sizes.operators) == kernels


def test_objects_are_kept_where_the_user_says(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PENLIGHT_CACHE", str(tmp_path / "kept"))
    assert cache_folder() == tmp_path / "kept"
