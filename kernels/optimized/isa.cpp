#include "isa.h"

#include <penlight/libraries.h>
#include <string.h>

namespace penlight {

namespace optimized {

namespace base {
extern const Routines routines;
}
#if defined(PENLIGHT_WITH_AVX2)
namespace avx2 {
extern const Routines routines;
}
#endif
#if defined(PENLIGHT_WITH_AVX512)
namespace avx512 {
extern const Routines routines;
}
#endif

namespace {

// The widest first. Compilers' own check of processor and operating system.
const Routines* usable(size_t index) {
  switch (index) {
#if defined(PENLIGHT_WITH_AVX512)
    case 0:
      return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") &&
                     __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512bw")
                 ? &avx512::routines
                 : nullptr;
#endif
#if defined(PENLIGHT_WITH_AVX2)
    case 1:
      return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") ? &avx2::routines : nullptr;
#endif
    case 2:
      return &base::routines;
    default:
      return nullptr;
  }
}

// Several threads may find the same answer at once, and store it.
const Routines* chosen = nullptr;

}  // namespace

const Routines& routines() {
  const Routines* known = __atomic_load_n(&chosen, __ATOMIC_RELAXED);
  for (size_t i = 0; !known; ++i) known = usable(i);
  __atomic_store_n(&chosen, known, __ATOMIC_RELAXED);
  return *known;
}

}  // namespace optimized

const char* optimized_isa() { return optimized::routines().name; }

bool select_optimized_isa(const char* name) {
  for (size_t i = 0; i < 3; ++i) {
    const optimized::Routines* candidate = optimized::usable(i);
    if (candidate && strcmp(candidate->name, name) == 0) {
      __atomic_store_n(&optimized::chosen, candidate, __ATOMIC_RELAXED);
      return true;
    }
  }
  return false;
}

}  // namespace penlight
