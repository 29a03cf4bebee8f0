"""Kernels registered by YAML, from the files to a program that runs: which kernel is called for what?"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

import penlight
from penlight.build.registration import LibraryFiles, render, user_tables, write
from penlight.errors import NoKernel
from penlight.kernels.library import read_library
from penlight.kernels.table import own_table, register_rows
from penlight.kernels.torch_schemas import TorchSchemas

ROOT = Path(__file__).resolve().parents[2]
NATIVE = ROOT / "build" / "native"

# The library asked first is for float32 of two dimensions, in rows; it says so by adding 100.
FAST_FUNCTIONS = """\
- op: add.out
  type_alias:
    T0: [Float]
  dim_order_alias:
    D0: [[0, 1]]
  kernels:
    - arg_meta:
        self: [T0, D0]
        other: [T0 , D0]
        out: [T0, D0]
      kernel_name: fast::add_out
"""
FAST_OPERATORS = """\
- func: yamlop::twice.out(Tensor x, Tensor? bias=None, *, Tensor(a!) out) -> Tensor(a!)
  type_alias: {T0: [Float, Double]}
  dim_order_alias: {D0: [[0, 1], [1, 0]]}
  kernels:
    - arg_meta: {x: [T0, D0], out: [T0, D0]}
      kernel_name: fast::twice_out
"""
FAST_KERNELS = """\
#include <penlight/kernel.h>

namespace fast::native {  // where kernel_name fast::add_out is looked for, too
using namespace penlight;

Tensor& add_out(KernelContext& ctx, const Tensor& self, const Tensor& other, const Scalar& alpha,
                Tensor& out) {
  (void)alpha;
  if (!ctx.resize(out, self.sizes())) return out;
  for (dim_t i = 0; i < out.numel(); ++i) {
    const float sum = self.const_data_ptr<float>()[i] + other.const_data_ptr<float>()[i];
    out.mutable_data_ptr<float>()[i] = sum + 100;
  }
  return out;
}

Tensor& twice_out(KernelContext& ctx, const Tensor& x, const Optional<Tensor>& bias, Tensor& out) {
  (void)bias;
  if (!ctx.resize(out, x.sizes())) return out;
  for (dim_t i = 0; i < out.numel(); ++i) {
    if (x.scalar_type() == ScalarType::Float) {
      out.mutable_data_ptr<float>()[i] = 2 * x.const_data_ptr<float>()[i] + 100;
    } else {
      out.mutable_data_ptr<double>()[i] = 2 * x.const_data_ptr<double>()[i] + 200;
    }
  }
  return out;
}

}  // namespace fast::native
"""
# The second fills its holes: fallbacks that add 1000, and an operator that the first does not have. In
# compact rows, except where a schema is needed.
BASE_ROWS = """\
- {op: "aten::add.out", kernel: base_add_out, dtypes: float+int64}
- {op: "aten::mul.out", kernel: base::mul_out, dtypes: real}
- func: yamlop::twice.out(Tensor x, Tensor? bias=None, *, Tensor(a!) out) -> Tensor(a!)
  kernels:
    - arg_meta: null
      kernel_name: base::twice_out
"""
BASE_KERNELS = """\
#include <penlight/kernel.h>

using penlight::dim_t;
using penlight::KernelContext;
using penlight::Optional;
using penlight::Scalar;
using penlight::ScalarType;
using penlight::Tensor;

namespace {

template <class T>
void fill(Tensor& out, const Tensor& a, const Tensor& b, T more) {
  for (dim_t i = 0; i < out.numel(); ++i) {
    out.mutable_data_ptr<T>()[i] = a.const_data_ptr<T>()[i] + b.const_data_ptr<T>()[i] + more;
  }
}

Tensor& sum(KernelContext& ctx, const Tensor& a, const Tensor& b, int more, Tensor& out) {
  if (!ctx.resize(out, a.sizes())) return out;
  if (a.scalar_type() == ScalarType::Float) fill<float>(out, a, b, more);
  if (a.scalar_type() == ScalarType::Double) fill<double>(out, a, b, more);
  if (a.scalar_type() == ScalarType::Long) fill<int64_t>(out, a, b, more);
  return out;
}

}  // namespace

Tensor& base_add_out(KernelContext& ctx, const Tensor& self, const Tensor& other, const Scalar&,
                     Tensor& out) {
  return sum(ctx, self, other, 1000, out);
}

namespace base {

Tensor& mul_out(KernelContext& ctx, const Tensor& self, const Tensor& other, Tensor& out) {
  return sum(ctx, self, other, 2000, out);
}

Tensor& twice_out(KernelContext& ctx, const Tensor& x, const Optional<Tensor>& bias, Tensor& out) {
  return sum(ctx, x, bias.has_value() ? bias.value() : x, 3000, out);
}

}  // namespace base
"""
PROGRAM = """\
#include <penlight/libraries.h>
#include <penlight/method.h>
#include <stdio.h>

namespace penlight {
extern KernelLibrary fast_library;
extern KernelLibrary base_library;
}  // namespace penlight

using namespace penlight;

alignas(16) static uint8_t file_bytes[1 << 20], method_memory[1 << 16], arena_memory[1 << 16];
static double inputs[4][256];

static bool run(Program& program, const char* name, KernelRegistry& registry, double* value,
                Message* message) {
  MethodMeta meta;
  if (program.method_meta(name, meta, message) != Status::Ok) return false;
  ArenaAllocator method_allocator(method_memory, sizeof method_memory);
  ArenaAllocator planned(arena_memory, sizeof arena_memory);
  Arena arenas[4] = {};
  for (size_t i = 0; i < meta.arena_count(); ++i) {
    arenas[i].size = meta.arena_size(i);
    arenas[i].data = planned.allocate(arenas[i].size);
  }
  MemoryManager memory{};
  memory.method_allocator = &method_allocator;
  memory.arenas = arenas;
  memory.arena_count = meta.arena_count();
  Method method;
  if (method.load(program, name, memory, message, &registry) != Status::Ok) return false;
  for (size_t i = 0; i < method.input_count(); ++i) {
    TensorInfo info;
    if (meta.input_tensor(i, info) != Status::Ok) return false;
    for (size_t k = 0; k < 256; ++k) {
      if (info.dtype == ScalarType::Float) reinterpret_cast<float*>(inputs[i])[k] = 1;
      if (info.dtype == ScalarType::Double) inputs[i][k] = 1;
      if (info.dtype == ScalarType::Long) reinterpret_cast<int64_t*>(inputs[i])[k] = 1;
    }
    dim_t sizes[kMaxDim];
    for (uint32_t d = 0; d < info.dim; ++d) sizes[d] = info.sizes[d];
    const InputTensor input{inputs[i], sizes, info.dim, info.dtype};
    if (method.set_input(i, input, message) != Status::Ok) return false;
  }
  Value out;
  if (method.execute(message) != Status::Ok || method.output(0, out, message) != Status::Ok) return false;
  const Tensor& result = out.as_tensor;
  *value = result.scalar_type() == ScalarType::Float    ? double(result.const_data_ptr<float>()[0])
           : result.scalar_type() == ScalarType::Double ? result.const_data_ptr<double>()[0]
                                                        : double(result.const_data_ptr<int64_t>()[0]);
  return true;
}

// Runs every method on ones, and prints the first element of what it gives.
int main(int, char** argv) {
  KernelRegistry registry;
  registry.add(fast_library);
  registry.add(base_library);
  registry.add(portable_library);
  FILE* file = fopen(argv[1], "rb");
  const size_t size = fread(file_bytes, 1, sizeof file_bytes, file);
  BufferLoader loader(file_bytes, size);
  Program program;
  Message message;
  if (program.load(loader, &message) != Status::Ok) return puts(message.c_str()), 1;
  for (size_t m = 0; m < program.method_count(); ++m) {
    double value = 0;
    const char* name = program.method_name(m);
    if (run(program, name, registry, &value, &message)) {
      printf("%s %g\\n", name, value);
    } else {
      printf("%s %s\\n", name, message.c_str());
    }
  }
  return 0;
}
"""


class Add(torch.nn.Module):
    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return x + y


class Mul(torch.nn.Module):
    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return x * y


class Sub(torch.nn.Module):
    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return x - y


class Doubled(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.ops.yamlop.twice(x)


def ones(*sizes: int, dtype: torch.dtype = torch.float32) -> tuple[torch.Tensor, torch.Tensor]:
    return torch.ones(*sizes, dtype=dtype), torch.ones(*sizes, dtype=dtype)


def last(tensors: tuple[torch.Tensor, ...]) -> tuple[torch.Tensor, ...]:
    return tuple(tensor.to(memory_format=torch.channels_last) for tensor in tensors)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("libraries")
    for name, text in {
        "fast/functions.yaml": FAST_FUNCTIONS,
        "fast/custom_ops.yaml": FAST_OPERATORS,
        "fast/kernels.cpp": FAST_KERNELS,
        "base/ops.yaml": BASE_ROWS,
        "base/kernels.cpp": BASE_KERNELS,
        "main.cpp": PROGRAM,
    }.items():
        (made / name).parent.mkdir(exist_ok=True)
        (made / name).write_text(text)
    return made


def libraries(folder: Path) -> list[LibraryFiles]:
    fast = (folder / "fast/functions.yaml", folder / "fast/custom_ops.yaml")
    return [LibraryFiles("fast", fast), LibraryFiles("base", (folder / "base/ops.yaml",))]


@pytest.fixture(scope="module")
def operator() -> Iterator[None]:
    library = torch.library.Library("yamlop", "FRAGMENT")
    library.define("twice(Tensor x, Tensor? bias=None) -> Tensor")
    library.impl("twice", lambda x, bias=None: 2 * x, "CompositeExplicitAutograd")
    torch.library.register_fake("yamlop::twice", lambda x, bias=None: torch.empty_like(x), lib=library)
    yield
    library._destroy()


@pytest.fixture(scope="module")
def printed(folder: Path, operator: None) -> dict[str, str]:
    """What the program prints for each method."""
    compiler = os.environ.get("CXX") or shutil.which("c++") or shutil.which("g++")
    archives = [NATIVE / f"libpenlight_{part}.a" for part in ("portable", "kernel_common", "core")]
    if compiler is None or not all(path.exists() for path in archives):
        pytest.skip("no C++ compiler, or the native library is not built (make build)")
    sources = [folder / "fast/kernels.cpp", folder / "base/kernels.cpp"]
    tables, _, warnings = user_tables(libraries(folder), sources, schemas=TorchSchemas())
    assert warnings == []
    write(render(tables, "fast, base"), folder / "table.cpp")
    command = [compiler, "-std=c++17", "-Wall", "-Wextra", "-Werror", "-fno-exceptions", "-fno-rtti", "-O1",
               "-DPENLIGHT_MESSAGES=1", "-DPENLIGHT_TRACE=1", "-I", ROOT / "runtime/include",
               *sources, folder / "table.cpp", folder / "main.cpp", *archives, "-lm",
               "-o", folder / "main"]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr

    read = [read_library(each.files, each.name, schemas=TorchSchemas()) for each in libraries(folder)]
    for library in read:
        register_rows(library.rows, library=library.name)
    try:
        program = penlight.compile(
            {
                name: torch.export.export(model, inputs)
                for name, (model, inputs) in {
                    "add_rows": (Add(), ones(2, 3)),
                    "add_cube": (Add(), ones(2, 3, 2)),
                    "add_double": (Add(), ones(2, 3, dtype=torch.float64)),
                    "add_int": (Add(), ones(2, 3, dtype=torch.int64)),
                    "add_last": (Add(), last(ones(1, 3, 2, 2))),
                    "mul": (Mul(), ones(2, 3)),
                    "sub": (Sub(), ones(2, 3)),
                    "twice": (Doubled(), ones(2, 3)[:1]),
                    "twice_double": (Doubled(), ones(2, 3, dtype=torch.float64)[:1]),
                    "twice_int": (Doubled(), ones(2, 3, dtype=torch.int64)[:1]),
                    "twice_line": (Doubled(), ones(6)[:1]),
                }.items()
            }
        )
    finally:
        for library in read:
            register_rows([], library=library.name)
    program.save(folder / "model.pte")
    done = subprocess.run([folder / "main", folder / "model.pte"], capture_output=True, text=True)
    return dict(line.split(" ", 1) for line in done.stdout.splitlines())


@pytest.mark.parametrize(
    "method, value, why",
    [
        ("add_rows", "102", "float32 in rows: the first library's specialised kernel"),
        ("add_cube", "1002", "three dimensions: no key, so the second library's fallback"),
        ("add_double", "1002", "another dtype"),
        ("add_int", "1002", "another dtype"),
        ("add_last", "1002", "another dim order"),
        ("mul", "2002", "an operator that only the second library has"),
        ("sub", "0", "an operator that only Penlight's library has"),
        ("twice", "102", "an operator of one's own, specialised"),
        ("twice_double", "202", "the second dtype of its alias"),
        ("twice_int", "3002", "its fallback, in the second library"),
        ("twice_line", "3002", "its fallback, in the second library"),
    ],
)
def test_kernel_that_is_called(printed: dict[str, str], method: str, value: str, why: str) -> None:
    assert printed[method] == value, why


def test_a_call_that_no_key_names_is_found_when_compiled(folder: Path, operator: None) -> None:
    library = read_library(libraries(folder)[0].files, "fast", schemas=TorchSchemas())
    register_rows(library.rows, library="fast")
    try:
        penlight.compile(Doubled(), ones(2, 3)[:1])
        with pytest.raises(NoKernel) as caught:
            penlight.compile(Doubled(), ones(6)[:1])
    finally:
        register_rows([], library="fast")
    assert caught.value.what == (
        "yamlop::twice.out has no kernel for float32 in these dim orders; its kernels are for "
        "float32 [0,1] | float32 [0,1], float32 [1,0] | float32 [1,0], float64 [0,1] | float64 [0,1] "
        "and 1 more"
    )


def test_who_serves_what(folder: Path) -> None:
    sources = [folder / "fast/kernels.cpp", folder / "base/kernels.cpp"]
    own = {row.op: row for row in own_table()}
    tables, merged, _ = user_tables(libraries(folder), sources, schemas=TorchSchemas(), own=own)
    served = [(item.op, item.key, item.library) for item in merged.served]
    rows = "6;0,1|6;0,1|6;0,1"
    assert served == [
        ("aten::add.out", f"v1/{rows}", "fast"),
        ("yamlop::twice.out", "v1/6;0,1|6;0,1", "fast"),
        ("yamlop::twice.out", "v1/6;1,0|6;1,0", "fast"),
        ("yamlop::twice.out", "v1/7;0,1|7;0,1", "fast"),
        ("yamlop::twice.out", "v1/7;1,0|7;1,0", "fast"),
        ("aten::add.out", None, "base"),
        ("aten::mul.out", None, "base"),
        ("yamlop::twice.out", None, "base"),
    ]
    assert merged.find("aten::add.out", f"v1/{rows}").library == "fast"
    assert merged.find("aten::add.out", "v1/7;0|7;0|7;0").library == "base"
    assert merged.find("aten::sub.out") is None
    assert [len(table.entries) for table in tables] == [5, 3]
    assert merged.without_fallback() == []


def test_the_preferred_library_wins_what_both_have(folder: Path) -> None:
    sources = [folder / "fast/kernels.cpp", folder / "base/kernels.cpp"]
    first, second = libraries(folder)
    more = folder / "more.yaml"
    more.write_text(FAST_FUNCTIONS.replace("fast::add_out", "base_add_out"))
    second = LibraryFiles("base", (*second.files, more))
    tables, merged, warnings = user_tables([first, second], sources, schemas=TorchSchemas())
    assert [(item.op, item.library) for item in merged.shadowed] == [("aten::add.out", "base")]
    assert [entry.key for entry in tables[1].entries if entry.op == "aten::add.out"] == [None]
    tables, merged, _ = user_tables([second, first], sources, schemas=TorchSchemas())
    assert [(item.op, item.library) for item in merged.shadowed] == [("aten::add.out", "fast")]

    only = {"aten::mul.out"}
    tables, merged, warnings = user_tables([first, second], sources, schemas=TorchSchemas(), only=only)
    assert [entry.op for table in tables for entry in table.entries] == ["aten::mul.out"]
    assert tables[1].sources() == [str(folder / "base/kernels.cpp")] and warnings == []
