#include "isa.h"

#include <penlight/libraries.h>
#include <string.h>

#if defined(PENLIGHT_WITH_AVX2) || defined(PENLIGHT_WITH_AVX512)
#include <cpuid.h>
#endif

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

#if defined(PENLIGHT_WITH_AVX2) || defined(PENLIGHT_WITH_AVX512)
// What processor and system have, by number. Not __builtin_cpu_supports(): that calls into
// the compiler's own library, and zig's has no such part.
struct Processor {
  unsigned basic = 0, extended = 0;  // CPUID 1, ECX; CPUID 7, EBX
  unsigned saved = 0;                // registers that the system saves: XCR0

  Processor() {
    unsigned a, b, c, d;
    if (!__get_cpuid(1, &a, &b, &c, &d)) return;
    basic = c;
    if (__get_cpuid_count(7, 0, &a, &b, &c, &d)) extended = b;
    if (basic & 1u << 27) __asm__ volatile("xgetbv" : "=a"(saved), "=d"(d) : "c"(0));
  }
  // FMA, AVX, F16C; AVX2; XMM and YMM.
  bool has_avx2() const { return has(basic, 0x30001000u) && has(extended, 1u << 5) && has(saved, 0x6u); }
  // F, DQ, BW, VL; masks and ZMM.
  bool has_avx512() const { return has_avx2() && has(extended, 0xc0030000u) && has(saved, 0xe6u); }

 private:
  static bool has(unsigned all, unsigned bits) { return (all & bits) == bits; }
};
#endif

// The widest first.
const Routines* usable(size_t index) {
  switch (index) {
#if defined(PENLIGHT_WITH_AVX512)
    case 0:
      return Processor().has_avx512() ? &avx512::routines : nullptr;
#endif
#if defined(PENLIGHT_WITH_AVX2)
    case 1:
      return Processor().has_avx2() ? &avx2::routines : nullptr;
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
