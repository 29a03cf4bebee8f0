// Damage to program files, every one loaded and, where it still loads, run. A crash,
// a sanitizer's report or ten seconds without an answer fails. Every second mutation
// changes bytes, the others change fields by what they mean (../hostile/anatomy.h).
//
//   cpp_fuzz_mutations [--count N] [--first N] [--here] [FILE.pte...]
//
// without files: those of ../hostile/seeds. Where FILE.ptd lies beside FILE.pte,
// half of the damage goes to the one, half to the other.
//
// Work is done in child processes, so that a crash names the mutation; --here
// stays in one process, for a debugger: --here --first 4711 --count 1 FILE.
#include <dirent.h>
#include <signal.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../hostile/anatomy.h"
#include "../hostile/hostile.h"
#include "../hostile/mutate.h"

namespace {

using namespace penlight_hostile;
using penlight::hosted::LibrarySelection;

struct Bytes {
  uint8_t* data = nullptr;
  size_t size = 0;
  size_t program_size = 0;
  ~Bytes() { free(data); }
};

bool read_file(const char* path, Bytes& bytes) {
  FILE* file = fopen(path, "rb");
  if (!file) return false;
  fseek(file, 0, SEEK_END);
  bytes.size = static_cast<size_t>(ftell(file));
  rewind(file);
  void* memory = nullptr;
  if (posix_memalign(&memory, 16, bytes.size + 1) != 0) return false;
  bytes.data = static_cast<uint8_t*>(memory);
  const bool read = fread(bytes.data, 1, bytes.size, file) == bytes.size;
  fclose(file);
  bytes.program_size = bytes.size;
  if (bytes.size >= 24 && memcmp(bytes.data + 8, "eh00", 4) == 0)
    memcpy(&bytes.program_size, bytes.data + 16, 8);
  return read && bytes.program_size <= bytes.size;
}

// A program and, for some, weights beside it.
struct Seed {
  Bytes program, weights;

  bool read(const char* path) {
    if (!read_file(path, program)) return false;
    char beside[4096];
    snprintf(beside, sizeof beside, "%.*s.ptd", static_cast<int>(strlen(path) - 4), path);
    if (!read_file(beside, weights)) weights.size = 0;
    return true;
  }
};

// Where a child is, seen by its parent.
struct Progress {
  uint64_t number;
  uint64_t ran;
};

// A damaged copy, exactly as long as the damaged file, so that one byte too far is seen.
uint8_t* damaged(const Bytes& bytes, const Anatomy& anatomy, uint64_t number, size_t& size) {
  void* memory = nullptr;
  if (posix_memalign(&memory, 16, bytes.size) != 0) return nullptr;
  uint8_t* copy = static_cast<uint8_t*>(memory);
  memcpy(copy, bytes.data, bytes.size);
  size = bytes.size;
  if (number % 2) {
    mutate_fields(copy, bytes.size, anatomy, number);
    return copy;
  }
  size = mutate(copy, bytes.size, bytes.program_size, number);
  void* exact = nullptr;
  if (posix_memalign(&exact, 16, size) != 0) exact = nullptr;
  if (exact) memcpy(exact, copy, size);
  free(memory);
  return static_cast<uint8_t*>(exact);
}

// Of the processor, not of the clock: a machine may have other things to do. 0 takes the limit away.
void limit_seconds(long seconds) {
  const itimerval limit = {{0, 0}, {seconds, 0}};
  setitimer(ITIMER_PROF, &limit, nullptr);
}

void run_batch(const Seed& seed, uint64_t first, uint64_t last, const LibrarySelection& libraries,
               Progress& progress) {
  const Anatomy program(seed.program.data, seed.program.size, false);
  const Anatomy weights(seed.weights.data, seed.weights.size, true);
  for (uint64_t number = first; number < last; ++number) {
    progress.number = number;
    limit_seconds(10);
    const bool in_weights = seed.weights.size && number / 2 % 2;
    const Bytes& chosen = in_weights ? seed.weights : seed.program;
    size_t size = 0;
    uint8_t* bytes = damaged(chosen, in_weights ? weights : program, number, size);
    if (!bytes) return;
    const int ran =
        in_weights ? run_program(seed.program.data, seed.program.size, libraries.registry(), bytes, size)
                   : run_program(bytes, size, libraries.registry(), seed.weights.data, seed.weights.size);
    progress.ran += ran > 0;
    free(bytes);
  }
  progress.number = last;
  limit_seconds(0);
}

// How many mutations crashed.
int fuzz(const char* path, uint64_t first, uint64_t count, bool here, const LibrarySelection& libraries) {
  Seed seed;
  if (!seed.read(path)) {
    printf("%s cannot be read\n", path);
    return 1;
  }
  if (run_program(seed.program.data, seed.program.size, libraries.registry(), seed.weights.data,
                  seed.weights.size) == 0) {
    printf("%s: the undamaged file does not run\n", path);
    return 1;
  }
  void* shared = mmap(nullptr, sizeof(Progress), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  Progress& progress = *static_cast<Progress*>(shared);
  progress = {};
  int crashes = 0;
  const uint64_t last = first + count;
  for (uint64_t next = first; next < last && crashes < 5;) {
    if (here) {
      run_batch(seed, next, last, libraries, progress);
      break;
    }
    const pid_t child = fork();
    if (child == 0) {
      run_batch(seed, next, last, libraries, progress);
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
  return crashes;
}

// Every program of the folder of seeds.
int fuzz_folder(uint64_t first, uint64_t count, bool here, const LibrarySelection& libraries) {
  char folder[2048], path[4096];
  const char* slash = strrchr(__FILE__, '/');
  snprintf(folder, sizeof folder, "%.*s/../hostile/seeds", slash ? static_cast<int>(slash - __FILE__) : 1,
           slash ? __FILE__ : ".");
  DIR* entries = opendir(folder);
  if (!entries) return printf("no folder %s\n", folder), 1;
  int crashes = 0;
  while (const dirent* entry = readdir(entries)) {
    const size_t length = strlen(entry->d_name);
    if (length < 4 || strcmp(entry->d_name + length - 4, ".pte") != 0) continue;
    snprintf(path, sizeof path, "%s/%s", folder, entry->d_name);
    crashes += fuzz(path, first, count, here, libraries);
  }
  closedir(entries);
  return crashes;
}

}  // namespace

int main(int argc, char** argv) {
  uint64_t count = 1000, first = 0;
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
  if (files == 0) crashes += fuzz_folder(first, count, here, libraries);
  return crashes ? 1 : 0;
}
