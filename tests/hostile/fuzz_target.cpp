// Entry for libFuzzer, where clang has it:
//
//   clang++ -std=c++17 -g -O1 -fsanitize=fuzzer,address,undefined -fno-exceptions -fno-rtti \
//     -I. -Iruntime -Iruntime/include tests/hostile/fuzz_target.cpp LIBRARIES -o fuzz_target
//   ./fuzz_target -max_total_time=600 CORPUS tests/hostile/seeds
//
// LIBRARIES are the static libraries of a build with -DPENLIGHT_SANITIZE=ON.
#include "tests/hostile/hostile.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static penlight::hosted::LibrarySelection* libraries = nullptr;
  if (!libraries) {
    libraries = penlight::hosted::make<penlight::hosted::LibrarySelection>();
    libraries->select(nullptr, nullptr);
  }
  void* bytes = nullptr;
  if (posix_memalign(&bytes, 16, size ? size : 1) != 0) return 0;
  memcpy(bytes, data, size);
  penlight_hostile::run_program(bytes, size, libraries->registry());
  free(bytes);
  return 0;
}
