// Module: programs from files and memory, state, errors, loaders.
#include <penlight/module.h>
#include <stdio.h>
#include <stdlib.h>

#include <initializer_list>

#include "check.h"
#include "hosted/linked_libraries.h"
#include "kernels/optimized/parallel.h"
#include "seeds.h"

using namespace penlight;

namespace {

struct Kernels {
  hosted::LibrarySelection libraries;
  ModuleOptions options;
  Kernels() {
    libraries.select(nullptr, nullptr);
    options.registry = &libraries.registry();
  }
};

bool contains(const char* text, const char* part) { return strstr(text, part) != nullptr; }

}  // namespace

TEST(runs_and_keeps_state) {
  Kernels kernels;
  Module model(seed("state_with_initial_value"), kernels.options);
  CHECK(model.ok());
  CHECK_EQ(model.method_count(), size_t{1});
  const float x[] = {1, 2};
  for (int round = 0; round < 2; ++round) {
    Outputs out = model.forward(tensor(x, {2}));
    CHECK(out.ok());
    CHECK_EQ(out.size(), size_t{1});
    CHECK_EQ(out.tensor(0).const_data_ptr<float>()[0], 12.0f);
    CHECK_EQ(out.tensor(0).const_data_ptr<float>()[1], 14.0f);
    out = model.forward(tensor(x, {2}));
    CHECK_EQ(out.tensor(0).const_data_ptr<float>()[0], 14.0f);
    CHECK(model.reset_state() == Status::Ok);
  }
  CHECK(model.load_state() == Status::Ok);
  CHECK_EQ(model.state_count(), size_t{1});
  CHECK_EQ(model.state(0).tensor.const_data_ptr<float>()[0], 5.0f);
  CHECK(model.arena_bytes() > 0);
}

TEST(reads_in_parts_and_from_memory) {
  Kernels kernels;
  const float x[] = {1, 2};
  kernels.options.map = false;
  Module parts(seed("state_with_initial_value"), kernels.options);
  CHECK(parts.ok());
  CHECK_EQ(parts.forward(tensor(x, {2})).tensor(0).const_data_ptr<float>()[1], 14.0f);

  MappedFile file;
  CHECK(file.open(seed("state_with_initial_value"), nullptr) == Status::Ok);
  Module memory;
  CHECK(memory.open(file.data(), file.size, kernels.options) == Status::Ok);
  CHECK_EQ(memory.forward(tensor(x, {2})).tensor(0).const_data_ptr<float>()[1], 14.0f);
  CHECK(memory.open(file.data(), file.size) == Status::InvalidState);
}

namespace {

struct Announced : BufferLoader {
  Announced(const void* bytes, size_t count) : BufferLoader(bytes, count) {
    will_read = [](DataLoader* self, const void* address, size_t bytes) {
      Announced& loader = *static_cast<Announced*>(self);
      const uint8_t *first = static_cast<const uint8_t*>(loader.data),
                    *from = static_cast<const uint8_t*>(address);
      (from >= first && from + bytes <= first + loader.size ? loader.own : loader.foreign) += bytes;
    };
  }
  size_t own = 0, foreign = 0;
};

void load_forward(Announced& loader, const DataMap* external) {
  Kernels kernels;
  Message message;
  Program program;
  MethodMeta meta;
  CHECK(program.load(loader, &message) == Status::Ok);
  CHECK(program.method_meta("forward", meta, &message) == Status::Ok);
  alignas(16) static uint8_t method_memory[1 << 16], planned[1 << 10];
  ArenaAllocator allocator(method_memory, sizeof method_memory);
  Arena arena{planned, meta.arena_size(0), false};
  MemoryManager memory{};
  memory.method_allocator = &allocator;
  memory.arenas = &arena;
  memory.arena_count = 1;
  Method method;
  CHECK(method.load(program, "forward", memory, &message, kernels.options.registry, external) == Status::Ok);
}

}  // namespace

TEST(tells_its_loader_what_runs_read) {
  MappedFile file;
  CHECK(file.open(seed("constants_of_every_dtype"), nullptr) == Status::Ok);
  Announced loader(file.data(), file.size);
  load_forward(loader, nullptr);
  // Three elements of each: not of int32 and int64, by which rows may be looked up.
  const ScalarType dtypes[] = {ScalarType::Byte,     ScalarType::Char,  ScalarType::Short,  ScalarType::Half,
                               ScalarType::BFloat16, ScalarType::Float, ScalarType::Double, ScalarType::Bool};
  size_t expected = 0;
  for (const ScalarType dtype : dtypes) expected += 3 * element_size(dtype);
  CHECK_EQ(loader.own, expected);
  CHECK_EQ(loader.foreign, size_t{0});
}

TEST(tells_loaders_of_weights_beside_the_program) {
  MappedFile file, beside;
  char path[4096];
  snprintf(path, sizeof path, "%s", seed("weights_beside"));
  CHECK(file.open(path, nullptr) == Status::Ok);
  strcpy(strrchr(path, '.'), ".ptd");
  CHECK(beside.open(path, nullptr) == Status::Ok);
  Announced loader(file.data(), file.size), weights(beside.data(), beside.size);
  TensorFile tensors;
  CHECK(tensors.load(weights, nullptr) == Status::Ok);
  load_forward(loader, &tensors);
  CHECK_EQ(weights.own, 2 * 4 * sizeof(float));
  CHECK_EQ(loader.own + weights.foreign, size_t{0});
}

TEST(loops_and_resizes) {
  Kernels kernels;
  Module model(seed("control_scan"), kernels.options);
  const float first[3] = {0, 0, 0}, rows[15] = {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1};
  const Outputs out = model.forward(tensor(first, {3}), tensor(rows, {5, 3}));
  CHECK(out.ok());
  CHECK_EQ(out.tensor(1).size(0), dim_t{5});

  Module dynamic(seed("dynamic_length_attention"), kernels.options);
  static float words[16 * 8];
  const dim_t lengths[] = {1, 16, 7};
  for (const dim_t length : lengths) {
    const Outputs result = dynamic.forward(TensorArgument{words, ScalarType::Float, 3, {1, length, 8}});
    CHECK(result.ok());
    CHECK_EQ(result.tensor(0).size(1), length);
  }
}

TEST(says_what_is_wrong) {
  Kernels kernels;
  Module missing("no/such/file.pte");
  CHECK(missing.status() == Status::AccessFailed);
  CHECK(contains(missing.error(), "no such file: no/such/file.pte"));
  CHECK_EQ(missing.method_count(), size_t{0});
  for (int again = 0; again < 2; ++again) {
    CHECK(missing.forward().status() == Status::AccessFailed);
    CHECK(contains(missing.forward().error(), "no such file: no/such/file.pte"));
    CHECK(missing.load("forward") == nullptr);
    CHECK(missing.load_state() == Status::AccessFailed);
    CHECK(missing.reset_state() == Status::Ok);
    MethodMeta meta;
    CHECK(missing.method_meta("forward", meta) == Status::AccessFailed);
  }
  Module closed;
  CHECK(closed.forward().status() == Status::InvalidState);
  CHECK(contains(closed.error(), "no program is open"));

  Module text(__FILE__);
  CHECK(text.status() == Status::InvalidProgram);
  CHECK(contains(text.error(), "not a program file"));

  Module model(seed("state_with_initial_value"), kernels.options);
  const float x[] = {1, 2, 3};
  const double wide[] = {1, 2};
  CHECK(contains(model.forward().error(), "takes 1 inputs, 0 were given"));
  CHECK(contains(model.forward(tensor(x, {3})).error(), "input 0 has size 2 in dimension 0, 3 was given"));
  CHECK(contains(model.forward(tensor(wide, {2})).error(), "input 0 is float32, float64 was given"));
  CHECK(contains(model.forward(tensor(x, {1, 2})).error(), "input 0 has 1 dimensions, 2 were given"));
  CHECK(contains(model.forward(1.5).error(), "input 0 is a Tensor"));
  CHECK(contains(model.call("forwrd").error(), "no method forwrd; did you mean forward? there are forward"));
  CHECK(contains(model.call("x").error(), "no method x; there are forward"));
  CHECK(model.status() == Status::NotFound);
  CHECK(model.set_state("nothing", x, 4) == Status::NotFound);
  // A call that worked leaves nothing of all that.
  CHECK(model.forward(tensor(x, {2})).ok());
  CHECK(model.ok());
  CHECK_EQ(model.error()[0], '\0');

  const KernelRegistry none;
  ModuleOptions without;
  without.registry = &none;
  Module bare(seed("state_with_initial_value"), without);
  CHECK(bare.load("forward") == nullptr);
  CHECK(bare.status() == Status::MissingKernel);
}

TEST(finds_linked_kernels_without_being_told) {
  Module model(seed("state_with_initial_value"));
  const float x[2] = {1, 2};
  CHECK(model.forward(tensor(x, {2})).ok());
  CHECK_EQ(model.error()[0], '\0');
}

TEST(names_libraries_that_there_are) {
  hosted::LibrarySelection none;
  Message message;
  CHECK(none.select("portable", &message) == Status::Ok);
  CHECK(none.registry().find("aten::add.out", nullptr) != nullptr);
  hosted::LibrarySelection wrong;
  CHECK(wrong.select("portable,fast", &message) == Status::NotFound);
  CHECK(contains(message.c_str(), "no kernel library of the name fast; there are "));
}

TEST(scratch_joins_its_blocks) {
  hosted::HeapScratch heap;
  const ScratchSource source = heap.source();
  for (int round = 0; round < 3; ++round) {
    uint8_t* last = nullptr;
    for (size_t size = 1; size < 200000; size *= 3) {
      uint8_t* block = static_cast<uint8_t*>(source.allocate(source.owner, size, 16));
      CHECK(block != nullptr);
      CHECK_EQ(reinterpret_cast<uintptr_t>(block) % 64, uintptr_t{0});
      CHECK(block != last);
      memset(block, round, size);
      last = block;
    }
    source.release(source.owner);
  }
  CHECK(source.allocate(source.owner, SIZE_MAX / 4, 64) == nullptr);
}

TEST(parts_lie_apart_where_there_is_room) {
  using optimized::allocate_parts;
  static uint8_t region[2 * optimized::kApart + 64];
  const auto in_turn = [](void*, void (*task)(void* argument, size_t index), void* argument, size_t count) {
    for (size_t i = 0; i < count; ++i) task(argument, i);
  };
  const Workers two = {in_turn, nullptr, 2};
  for (const size_t room : {sizeof region, size_t{8192}}) {
    ArenaAllocator arena(region, room);
    KernelContext ctx(scratch_from(arena), nullptr);
    ctx.set_workers(two);
    optimized::PartMemory memory{};
    for (const size_t each : {size_t{1000}, size_t{100}}) {  // they begin where the others did
      CHECK(allocate_parts(ctx, 2, each, memory));
      CHECK_EQ(static_cast<char*>(memory.of(1)) - static_cast<char*>(memory.of(0)),
               room < sizeof region ? static_cast<ptrdiff_t>((each + 63) / 64 * 64)
                                    : ptrdiff_t{optimized::kApart});
      CHECK(ctx.ok());
      ctx.reset();
    }
    CHECK(allocate_parts(ctx, 3, 100, memory));  // of more parts than threads none is known to be a thread's
    CHECK_EQ(memory.each, size_t{128});
    CHECK(!allocate_parts(ctx, 2, sizeof region, memory));
    CHECK(ctx.status() == Status::OutOfMemory);
  }
}

int main() { return penlight_test::finish(); }
