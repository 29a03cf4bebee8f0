// Random damage to program files: 10,000 mutations of each file, every one loaded
// and, where it still loads, run. A crash, a sanitizer's report or ten seconds
// without an answer fails.
//
//   cpp_fuzz_mutations [--count N] [--first N] [--here] [FILE...]
//
// Work is done in child processes, so that a crash names the mutation; --here
// stays in one process, for a debugger: --here --first 4711 --count 1 FILE.
#include <signal.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../hostile/hostile.h"
#include "../hostile/mutate.h"

namespace {

using penlight::hosted::LibrarySelection;

struct Bytes {
  uint8_t* data = nullptr;
  size_t size = 0;
  size_t program_size = 0;
};

bool read_file(const char* path, Bytes& bytes) {
  FILE* file = fopen(path, "rb");
  if (!file) return false;
  fseek(file, 0, SEEK_END);
  bytes.size = static_cast<size_t>(ftell(file));
  rewind(file);
  bytes.data = static_cast<uint8_t*>(malloc(bytes.size));
  const bool read = fread(bytes.data, 1, bytes.size, file) == bytes.size;
  fclose(file);
  bytes.program_size = bytes.size;
  if (bytes.size >= 24 && memcmp(bytes.data + 8, "eh00", 4) == 0)
    memcpy(&bytes.program_size, bytes.data + 16, 8);
  return read && bytes.program_size <= bytes.size;
}

// Where a child is, seen by its parent.
struct Progress {
  uint64_t number;
  uint64_t ran;
};

void run_batch(const Bytes& bytes, uint64_t first, uint64_t last, const LibrarySelection& libraries,
               Progress& progress) {
  for (uint64_t number = first; number < last; ++number) {
    progress.number = number;
    alarm(10);
    // Exactly as long as the damaged file, so that one byte too far is seen.
    void* memory = nullptr;
    if (posix_memalign(&memory, 16, bytes.size) != 0) return;
    uint8_t* copy = static_cast<uint8_t*>(memory);
    memcpy(copy, bytes.data, bytes.size);
    const size_t size = penlight_hostile::mutate(copy, bytes.size, bytes.program_size, number);
    void* exact = nullptr;
    if (posix_memalign(&exact, 16, size) != 0) return;
    memcpy(exact, copy, size);
    free(memory);
    progress.ran += penlight_hostile::run_program(exact, size, libraries.registry()) > 0;
    free(exact);
  }
  progress.number = last;
  alarm(0);
}

// How many mutations crashed.
int fuzz(const char* path, uint64_t first, uint64_t count, bool here, const LibrarySelection& libraries) {
  Bytes bytes;
  if (!read_file(path, bytes)) {
    printf("%s cannot be read\n", path);
    return 1;
  }
  if (penlight_hostile::run_program(bytes.data, bytes.size, libraries.registry()) == 0) {
    printf("%s: the undamaged file does not run\n", path);
  }
  void* shared = mmap(nullptr, sizeof(Progress), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  Progress& progress = *static_cast<Progress*>(shared);
  progress = {};
  int crashes = 0;
  const uint64_t last = first + count;
  for (uint64_t next = first; next < last && crashes < 5;) {
    if (here) {
      run_batch(bytes, next, last, libraries, progress);
      break;
    }
    const pid_t child = fork();
    if (child == 0) {
      run_batch(bytes, next, last, libraries, progress);
      _exit(0);
    }
    int how = 0;
    waitpid(child, &how, 0);
    if (WIFEXITED(how) && WEXITSTATUS(how) == 0) break;
    ++crashes;
    printf("%s: mutation %llu: %s %d; again with --here --first %llu --count 1 %s\n", path,
           static_cast<unsigned long long>(progress.number), WIFSIGNALED(how) ? "signal" : "exit code",
           WIFSIGNALED(how) ? WTERMSIG(how) : WEXITSTATUS(how),
           static_cast<unsigned long long>(progress.number), path);
    next = progress.number + 1;
  }
  printf("%s: %llu mutations, %llu still ran, %d crashed\n", path, static_cast<unsigned long long>(count),
         static_cast<unsigned long long>(progress.ran), crashes);
  munmap(shared, sizeof(Progress));
  free(bytes.data);
  return crashes;
}

}  // namespace

int main(int argc, char** argv) {
  uint64_t count = 10000, first = 0;
  bool here = false;
  int files = 0, crashes = 0;
  LibrarySelection libraries;
  if (libraries.select(nullptr, nullptr) != penlight::Status::Ok) return 1;
  setvbuf(stdout, nullptr, _IOLBF, 0);
  for (int i = 1; i < argc; ++i) {
    if (strcmp(argv[i], "--count") == 0 && i + 1 < argc) {
      count = strtoull(argv[++i], nullptr, 10);
    } else if (strcmp(argv[i], "--first") == 0 && i + 1 < argc) {
      first = strtoull(argv[++i], nullptr, 10);
    } else if (strcmp(argv[i], "--here") == 0) {
      here = true;
    } else {
      ++files;
      crashes += fuzz(argv[i], first, count, here, libraries);
    }
  }
  if (files == 0) {
    // The three files beside this one: loops, state, dynamic shapes.
    char path[4096];
    const char* slash = strrchr(__FILE__, '/');
    static const char* const kSeeds[] = {"control_scan", "state_with_initial_value",
                                         "dynamic_length_attention"};
    for (const char* name : kSeeds) {
      const int folder = slash ? static_cast<int>(slash - __FILE__) : 0;
      snprintf(path, sizeof path, "%.*s/../hostile/seeds/%s.pte", folder, slash ? __FILE__ : ".", name);
      crashes += fuzz(path, first, count, here, libraries);
    }
  }
  return crashes ? 1 : 0;
}
