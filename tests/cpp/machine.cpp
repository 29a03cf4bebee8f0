// What a machine can refuse a module, and several threads with a module each.
#include <fcntl.h>
#include <penlight/module.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "check.h"
#include "seeds.h"

using namespace penlight;

namespace {

bool contains(const char* text, const char* part) { return strstr(text, part) != nullptr; }

// A folder of this test's own, gone with it.
struct Folder {
  char path[64] = "/tmp/pl-machine-XXXXXX";
  char inside[128] = "";
  Folder() { CHECK(mkdtemp(path) != nullptr); }
  ~Folder() {
    if (inside[0]) unlink(inside);
    rmdir(path);
  }
  const char* file(const char* name) {
    snprintf(inside, sizeof inside, "%s/%s", path, name);
    return inside;
  }
};

void check_refused(const char* path, const char* message) {
  for (int map = 0; map < 2; ++map) {
    ModuleOptions options;
    options.map = map != 0;
    Module module(path, options);
    CHECK(module.status() == Status::AccessFailed);
    CHECK(contains(module.error(), message));
    CHECK(contains(module.error(), path));
    CHECK(!module.call("forward").ok());
  }
}

}  // namespace

TEST(refuses_paths_that_are_no_files) {
  Folder folder;
  check_refused("/no/such/file.pte", "no such file");
  check_refused("/dev/null", "not a regular file");
  check_refused(folder.path, "not a regular file");
  CHECK_EQ(mkfifo(folder.file("pipe"), 0600), 0);
  check_refused(folder.inside, "not a regular file");
}

TEST(says_what_an_empty_file_is) {
  Folder folder;
  close(open(folder.file("empty.pte"), O_CREAT | O_WRONLY, 0600));
  Module module(folder.inside);
  CHECK(module.status() == Status::InvalidProgram);
  CHECK(contains(module.error(), "the file has 0 bytes"));
}

TEST(answers_a_file_that_shrinks_when_it_reads_in_parts) {
  Folder folder;
  FILE* from = fopen(seed("constants_of_every_dtype"), "rb");
  FILE* to = fopen(folder.file("copy.pte"), "wb");
  char bytes[8192];
  const size_t size = fread(bytes, 1, sizeof bytes, from);
  CHECK_EQ(fwrite(bytes, 1, size, to), size);
  fclose(from);
  fclose(to);
  ModuleOptions options;
  options.map = false;
  Module module(folder.inside, options);
  CHECK(module.ok());
  CHECK_EQ(truncate(folder.inside, 2048), 0);
  CHECK(module.load("forward") == nullptr);
  CHECK(module.status() == Status::AccessFailed);
  CHECK(contains(module.error(), "cannot be read"));
}

TEST(arena_that_is_too_small) {
  MappedFile file;
  Program program;
  Message message;
  MethodMeta meta;
  CHECK(file.open(seed("state_with_initial_value"), &message) == Status::Ok);
  CHECK(program.load(file, &message) == Status::Ok);
  CHECK(program.method_meta("forward", meta, &message) == Status::Ok);
  alignas(16) static uint8_t method_memory[1 << 16], planned[1 << 16];
  Arena arenas[4];
  for (size_t i = 0; i < meta.arena_count(); ++i) arenas[i] = {planned, meta.arena_size(i), false};
  const auto load = [&](size_t method_bytes, size_t arena_count) {
    ArenaAllocator allocator(method_memory, method_bytes);
    MemoryManager memory{};
    memory.method_allocator = &allocator;
    memory.arenas = arenas;
    memory.arena_count = arena_count;
    Method method;
    return method.load(program, "forward", memory, &message);
  };
  CHECK(load(meta.method_bytes() / 2, meta.arena_count()) == Status::OutOfMemory);
  CHECK(contains(message.c_str(), "the method allocator has"));
  CHECK(load(sizeof method_memory, 0) == Status::OutOfMemory);
  CHECK(contains(message.c_str(), "memory regions, 0 were given"));
  arenas[0].size -= 1;
  CHECK(load(sizeof method_memory, meta.arena_count()) == Status::OutOfMemory);
  CHECK(contains(message.c_str(), "memory region 1 has"));
  uint8_t* const wrong_places[] = {planned + 4, nullptr};
  for (uint8_t* wrong : wrong_places) {
    arenas[0] = {wrong, meta.arena_size(0), false};
    CHECK(load(sizeof method_memory, meta.arena_count()) == Status::InvalidArgument);
    CHECK(contains(message.c_str(), "memory region 1 is null, or not aligned to 16 bytes"));
  }
}

namespace {

struct Runs {
  pthread_t thread;
  const char* path = nullptr;
  int number = 0;
  int wrong = 0;
};

// Opens the program over and over; its state counts what this thread gave it alone.
void* run_many(void* argument) {
  Runs& runs = *static_cast<Runs*>(argument);
  for (int round = 0; round < 20; ++round) {
    Module module(runs.path);
    const float x[2] = {static_cast<float>(runs.number), 1};
    float first = 0;
    for (int call = 0; call < 10; ++call) {
      const Outputs out = module.forward(tensor(x, {2}));
      if (!out.ok()) {
        ++runs.wrong;
        continue;
      }
      const float got = out.tensor(0).const_data_ptr<float>()[0];
      if (call == 0) first = got;
      runs.wrong += got != first + static_cast<float>(2 * call * runs.number);
    }
    runs.wrong += module.reset_state() != Status::Ok;
    const Outputs again = module.forward(tensor(x, {2}));
    runs.wrong += !again.ok() || again.tensor(0).const_data_ptr<float>()[0] != first;
    runs.wrong += Module("/no/such/file").ok();
  }
  return nullptr;
}

}  // namespace

TEST(threads_with_a_module_each) {
  Runs runs[8];
  const char* path = seed("state_with_initial_value");  // once: the next call writes the same memory
  for (int i = 0; i < 8; ++i) {
    runs[i].number = i;
    runs[i].path = path;
    CHECK_EQ(pthread_create(&runs[i].thread, nullptr, run_many, &runs[i]), 0);
  }
  for (Runs& one : runs) {
    pthread_join(one.thread, nullptr);
    CHECK_EQ(one.wrong, 0);
  }
}

int main() { return penlight_test::finish(); }
