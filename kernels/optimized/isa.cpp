#include "isa.h"

#include <penlight/libraries.h>
#include <string.h>

#if defined(PENLIGHT_WITH_AVX2) || defined(PENLIGHT_WITH_AVX512)
#include <cpuid.h>
#endif
#if defined(PENLIGHT_WITH_AMX)
#include <sys/syscall.h>
#include <unistd.h>
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
  unsigned units = 0;                // CPUID 7, EDX
  unsigned saved = 0;                // registers that the system saves: XCR0
  bool is_intel = false, is_amd = false;
  unsigned family = 0, model = 0;

  Processor() {
    unsigned a, b, c, d;
    if (__get_cpuid(0, &a, &b, &c, &d)) {
      is_intel = b == signature_INTEL_ebx && c == signature_INTEL_ecx;
      is_amd = b == signature_AMD_ebx && c == signature_AMD_ecx;
    }
    if (!__get_cpuid(1, &a, &b, &c, &d)) return;
    basic = c;
    family = (a >> 8 & 0xf) + (a >> 20 & 0xff);
    model = (a >> 4 & 0xf) + (a >> 12 & 0xf0);
    if (__get_cpuid_count(7, 0, &a, &b, &c, &d)) {
      extended = b;
      units = d;
    }
    if (basic & 1u << 27) __asm__ volatile("xgetbv" : "=a"(saved), "=d"(d) : "c"(0));
  }
  // FMA, AVX, F16C; AVX2; XMM and YMM.
  bool has_avx2() const { return has(basic, 0x30001000u) && has(extended, 1u << 5) && has(saved, 0x6u); }
  // Of AMD's, those from Zen 5 on but Strix Point and Krackan Point, which execute vectors of 512 bits in
  // halves.
  Cores kind() const {
    if (is_intel) return Cores::Intel;
    const bool is_halved = family == 0x1a && ((model & 0xf0) == 0x20 || (model & 0xf0) == 0x60);
    return is_amd && family >= 0x1a && !is_halved ? Cores::Zen5 : Cores::Other;
  }
  // F, DQ, BW, VL; masks and ZMM.
  bool has_avx512() const { return has_avx2() && has(extended, 0xc0030000u) && has(saved, 0xe6u); }
#if defined(PENLIGHT_WITH_AMX)
  // AMX-BF16, AMX-TILE; TILECFG and TILEDATA, which Linux saves for those that ask for it.
  bool has_amx() const {
    constexpr long ask = 0x1023, tile_data = 18;  // ARCH_REQ_XCOMP_PERM; XFEATURE_XTILEDATA
    return has_avx512() && has(units, 0x1400000u) && has(saved, 0x60000u) &&
           syscall(SYS_arch_prctl, ask, tile_data) == 0;
  }
#endif

 private:
  static bool has(unsigned all, unsigned bits) { return (all & bits) == bits; }
};
#endif

// What can be computed with.
struct Choice {
  const char* name;
  const Routines* routines;
  Cores cores;
  bool has_matrix_unit;
};

// The widest first.
constexpr Choice kChoices[] = {
#if defined(PENLIGHT_WITH_AVX512)
#if defined(PENLIGHT_WITH_AMX)
    {"amx", &avx512::routines, Cores::Intel, true},
#endif
    {"avx512-intel", &avx512::routines, Cores::Intel, false},
    {"avx512-zen5", &avx512::routines, Cores::Zen5, false},
    {"avx512", &avx512::routines, Cores::Other, false},
#endif
#if defined(PENLIGHT_WITH_AVX2)
    {"avx2", &avx2::routines, Cores::Other, false},
#endif
    {"base", &base::routines, Cores::Other, false},
};

#if defined(PENLIGHT_WITH_AVX2) || defined(PENLIGHT_WITH_AVX512)
bool can_be(const Choice& choice, const Processor& processor) {
#if defined(PENLIGHT_WITH_AMX)
  if (choice.has_matrix_unit) return processor.has_amx();
#endif
#if defined(PENLIGHT_WITH_AVX512)
  if (choice.routines == &avx512::routines) return processor.has_avx512();
#endif
#if defined(PENLIGHT_WITH_AVX2)
  if (choice.routines == &avx2::routines) return processor.has_avx2();
#endif
  return true;
}
bool is_right(const Choice& choice, const Processor& processor) {
  return (choice.cores == Cores::Other || choice.cores == processor.kind()) && can_be(choice, processor);
}
#else
struct Processor {};
bool can_be(const Choice&, Processor) { return true; }
bool is_right(const Choice&, Processor) { return true; }
#endif

// Several threads may find the same answer at once, and store it.
const Choice* chosen = nullptr;

const Choice& choice() {
  const Choice* known = __atomic_load_n(&chosen, __ATOMIC_RELAXED);
  if (known) return *known;
  const Processor processor;
  known = kChoices;
  while (!is_right(*known, processor)) ++known;
  __atomic_store_n(&chosen, known, __ATOMIC_RELAXED);
  return *known;
}

}  // namespace

const Routines& routines() { return *choice().routines; }

Cores cores() { return choice().cores; }

#if defined(PENLIGHT_WITH_AMX)
bool has_matrix_unit() { return choice().has_matrix_unit; }
#endif

const char* name_of_choice() { return choice().name; }

bool choose(const char* name) {
  const Processor processor;
  for (const Choice& candidate : kChoices) {
    if (strcmp(candidate.name, name) != 0 || !can_be(candidate, processor)) continue;
    __atomic_store_n(&chosen, &candidate, __ATOMIC_RELAXED);
    return true;
  }
  return false;
}

}  // namespace optimized

const char* optimized_isa() { return optimized::name_of_choice(); }

bool select_optimized_isa(const char* name) { return optimized::choose(name); }

}  // namespace penlight
