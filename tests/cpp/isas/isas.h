// What the tests of the optimized kernels share: numbers at random, a judge of results, and
// every instruction set of this processor in turn.
#pragma once

#include <penlight/libraries.h>

#include "check.h"
#include "reference.h"

namespace penlight_test {

using namespace penlight;

// As the command line has them (main.cpp).
struct Options {
  long rounds = 60;
  const char* only = nullptr;
  bool gathers = true;  // may windows over a row begin apart?
  uint64_t first_seed = 1;
};

inline Options& options() {
  static Options values;
  return values;
}

// xorshift64*: the same numbers everywhere.
struct Random {
  uint64_t state;
  uint32_t next() {
    state ^= state >> 12;
    state ^= state << 25;
    state ^= state >> 27;
    return static_cast<uint32_t>((state * 2685821657736338717u) >> 32);
  }
  dim_t in(dim_t low, dim_t high) {
    return low + static_cast<dim_t>(next() % static_cast<uint32_t>(high - low + 1));
  }
  bool one_in(uint32_t n) { return next() % n == 0; }
  float real() { return static_cast<float>(static_cast<int32_t>(next())) * (1.0f / 2147483648.0f); }
};

inline Random random_of(int test, long round) {
  Random r{options().first_seed * 1000003u + static_cast<uint64_t>(test) * 7919u +
           static_cast<uint64_t>(round) + 88172645463325252u};
  for (int i = 0; i < 8; ++i) r.next();
  return r;
}

constexpr uint8_t kChannelsLast[] = {0, 2, 3, 1};
constexpr uint8_t kHeadsInside[] = {0, 2, 1, 3};

// Vectors of 32-bit Arm take what is less than the least normal number for zero, whatever is set.
#if defined(__ARM_NEON) && !defined(__aarch64__)
constexpr float kTiny = 1e-30f;
constexpr double kFlushed = 1.18e-38;
#else
constexpr float kTiny = 1e-40f;
constexpr double kFlushed = 0;
#endif

inline void fill(Array& array, Random& r, bool wild) {
  float* data = array.data();
  for (dim_t i = 0; i < array.numel(); ++i) data[i] = r.real();
  if (array.numel() == 0) return;
  const float special[] = {0.0f, -0.0f, kTiny, NAN, HUGE_VALF, -HUGE_VALF};
  for (dim_t n = r.in(0, 3); n > 0; --n) data[r.in(0, array.numel() - 1)] = special[r.in(0, wild ? 5 : 2)];
}

// The first few results that are wrong are described; all are counted.
struct Judge {
  const char* what;
  long round;
  long wrong = 0;

  void see(float got, Exact want, dim_t place) {
    double bound = want.bound + kFlushed;
    if (!(bound < HUGE_VAL)) bound = 1e-6 * (fabs(want.value) < 1 ? 1 : fabs(want.value));
    const double x = static_cast<double>(got);
    const bool same = want.value != want.value       ? x != x
                      : fabs(want.value) == HUGE_VAL ? x == want.value
                                                     : fabs(x - want.value) <= bound;
    if (same || ++wrong > 3) return;
    printf("%s, %s, round %ld, element %ld: %.9g, should be %.9g within %.2g\n", optimized_isa(), what, round,
           static_cast<long>(place), x, want.value, bound);
  }
  void ran(Status status, Call& call, const Array& out) {
    if (status != Status::Ok) printf("%s, %s, round %ld: %s\n", optimized_isa(), what, round, call.message());
    CHECK(status == Status::Ok);
    CHECK(out.intact());
    CHECK(scratch().intact());
  }
  ~Judge() { CHECK_EQ(wrong, 0); }
};

// What threads would do gives the same bits.
inline void check_threads(Call& call, Array& out, Array& again) {
  if (out.numel() == 0) return;
  CHECK(call.run(again, 3) == Status::Ok);
  for (dim_t i = 0; i < out.numel(); ++i) {
    if (memcmp(out.data() + i, again.data() + i, sizeof(float)) == 0) continue;
    printf("%s, element %ld: %.9g, with threads %.9g\n", optimized_isa(), static_cast<long>(i),
           static_cast<double>(out.data()[i]), static_cast<double>(again.data()[i]));
    break;
  }
  CHECK(memcmp(out.data(), again.data(), static_cast<size_t>(out.numel()) * sizeof(float)) == 0);
  CHECK(again.intact() && scratch().intact());
}

template <class Body>
void for_each_isa(Body body) {
  const char* names[] = {"base", "avx2", "avx512", "avx512-zen5", "avx512-intel", "amx"};
  const char* before = optimized_isa();
  for (const char* name : names) {
    if ((!options().only || same(name, options().only)) && select_optimized_isa(name)) body();
  }
  CHECK(select_optimized_isa(before));
}

inline Array x, y, weight, plain, bias, residual, out, again;

// `share` times the rounds asked for.
inline void repeat_everywhere(int test, void (*run)(Random, long), long share) {
  for_each_isa([&] {
    for (long round = 0; round < share * options().rounds; ++round) run(random_of(test, round), round);
  });
}

// A window, as arguments: outputs and taps, strides, padding of both sides alike or of four, dilations.
inline Call& window(Call& call, const Geometry& g, dim_t outputs) {
  call.integers(outputs, g.taps[0], g.taps[1]).integers(g.stride[0], g.stride[1]);
  if (g.more[0] == 0 && g.more[1] == 0) {
    call.integers(g.pad[0], g.pad[1]);
  } else {
    call.integers(g.pad[0], g.pad[1], g.pad[0] + g.more[0], g.pad[1] + g.more[1]);
  }
  return call.integers(g.dilation[0], g.dilation[1]);
}

// How far a window can move over a padded size; negative where it is too large.
inline dim_t room_of(const Geometry& g, int d, dim_t size) {
  return size + 2 * g.pad[d] + g.more[d] - g.dilation[d] * (g.taps[d] - 1) - 1;
}

// The sizes of an image, made those of what a window gives, rounded up or down; false where it does not fit.
inline bool slide(const Geometry& g, dim_t sizes[4], bool ceil_mode = false) {
  bool fits = true;
  for (int d = 0; d < 2; ++d) {
    const dim_t size = sizes[2 + d], room = room_of(g, d, size);
    fits &= room >= 0;
    sizes[2 + d] = room < 0 ? 1 : (room + (ceil_mode ? g.stride[d] - 1 : 0)) / g.stride[d] + 1;
    // No window begins in the padding behind the image.
    if (ceil_mode && (sizes[2 + d] - 1) * g.stride[d] >= size + g.pad[d]) --sizes[2 + d];
  }
  return fits;
}

}  // namespace penlight_test
