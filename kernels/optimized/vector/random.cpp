// Random numbers of float32, several at once: the same ones, to the bit, as kernels/portable/random.h
// describes and makes one by one.
//
// Compiled without fused multiplication. Words of the generator are the lower halves of 64 bits each,
// whatever is above them.
#include "double_functions.h"
#include "routines.h"

namespace penlight::optimized {
namespace PENLIGHT_ISA {

namespace {

constexpr int kPairs = kLanes / 2;
typedef uint32_t HalfWords __attribute__((vector_size(kLanes * 2)));
typedef uint64_t Words __attribute__((vector_size(kLanes * 4)));

PENLIGHT_INLINE Words all(uint64_t word) { return word - Words{}; }
PENLIGHT_INLINE HalfDoubles number(double value) { return value - HalfDoubles{}; }

// Products of the lower halves.
PENLIGHT_INLINE Words product_of(Words a, uint32_t b) {
#if defined(__AVX512F__)
  return (Words)_mm512_maskz_mul_epu32(static_cast<__mmask8>(-1), (__m512i)a, (__m512i)all(b));
#elif defined(__AVX2__)
  return (Words)_mm256_mul_epu32((__m256i)a, (__m256i)all(b));
#else
  return (a & all(UINT32_MAX)) * all(b);
#endif
}

PENLIGHT_INLINE void bits_of(const Draw& draw, Words pair, Words bits[2]) {
  Words c[] = {pair, pair >> 32, all(draw.call), all(draw.call >> 32)};
  uint32_t low = static_cast<uint32_t>(draw.seed), high = static_cast<uint32_t>(draw.seed >> 32);
  for (int round = 0; round < 10; ++round) {
    const Words a = product_of(c[0], 0xD2511F53u), b = product_of(c[2], 0xCD9E8D57u);
    c[0] = (b >> 32) ^ c[1] ^ all(low);
    c[1] = b;
    c[2] = (a >> 32) ^ c[3] ^ all(high);
    c[3] = a;
    low += 0x9E3779B9u;
    high += 0xBB67AE85u;
  }
  bits[0] = (c[0] & all(UINT32_MAX)) | c[1] << 32;
  bits[1] = (c[2] & all(UINT32_MAX)) | c[3] << 32;
}

// Of what is below 2^52, and of signed numbers of 32 bits.
PENLIGHT_INLINE HalfDoubles exactly(Words x) {
  return (HalfDoubles)(x | all(0x4330000000000000)) - 4503599627370496.0;
}
PENLIGHT_INLINE HalfDoubles exactly_signed(Words x) {
  return (HalfDoubles)(x + all(0x4338000000000000)) - 6755399441055744.0;
}

// Two vectors, each step of one beside that of the other: a step waits for the one before.
struct Two {
  HalfDoubles at[2];
};

// function(0), function(1)
template <class Function>
PENLIGHT_INLINE Two both(Function&& function) {
  return {{function(0), function(1)}};
}

PENLIGHT_INLINE Two log_of(const Two& x) {
  Words exponent[2];
  Two s, square, sum{};
  repeat<2>([&](auto i) __attribute__((always_inline)) {
    const Words bits = (Words)x.at[i];
    const HalfDoubles m = (HalfDoubles)((bits & all(0xfffffffffffff)) | all(0x3ff0000000000000));
    const HalfLongs large = m > 1.4142135623730951;
    const HalfDoubles near = large ? m * 0.5 : m;
    exponent[i] = (bits >> 52) - 1023 - (Words)large;  // a mask is -1
    s.at[i] = (near - 1) / (near + 1);
    square.at[i] = s.at[i] * s.at[i];
  });
  repeat<10>([&](auto k) __attribute__((always_inline)) {
    sum = both([&](int i) __attribute__((always_inline)) {
      return (sum.at[i] + 1.0 / (21 - 2 * k)) * square.at[i];
    });
  });
  return both([&](int i) __attribute__((always_inline)) {
    return exactly_signed(exponent[i]) * 0.6931471805599453 + 2 * (s.at[i] + s.at[i] * sum.at[i]);
  });
}

struct Masks {
  HalfLongs at[2];
};

// Lanes of a mask by one row of coefficients, others by the other: the same steps for both.
PENLIGHT_INLINE Two quotient(const Masks& first, const double (&c)[2][8], const double (&d)[2][7],
                             const Two& x) {
  const auto step = [&](const Two& sum, double one, double other) __attribute__((always_inline)) {
    return both([&](int i) __attribute__((always_inline)) {
      return sum.at[i] * x.at[i] + (first.at[i] ? number(one) : number(other));
    });
  };
  Two above = step({}, c[0][7], c[1][7]), below = step({}, d[0][6], d[1][6]);
  repeat<6>([&](auto k) __attribute__((always_inline)) {
    above = step(above, c[0][6 - k], c[1][6 - k]);
    below = step(below, d[0][5 - k], d[1][5 - k]);
  });
  above = step(above, c[0][0], c[1][0]);
  return both([&](int i)
                  __attribute__((always_inline)) { return above.at[i] / (below.at[i] * x.at[i] + 1); });
}

// Of the middle, and of the tails.
constexpr double kAbove[2][8] = {
    {3.3871328727963666080, 133.14166789178437745, 1971.5909503065514427, 13731.693765509461125,
     45921.953931549871457, 67265.770927008700853, 33430.575583588128105, 2509.0809287301226727},
    {1.42343711074968357734, 4.63033784615654529590, 5.76949722146069140550, 3.64784832476320460504,
     1.27045825245236838258, 0.241780725177450611770, 0.0227238449892691845833, 7.74545014278341407640e-4}};
constexpr double kBelow[2][7] = {
    {42.313330701600911252, 687.18700749205790830, 5394.1960214247511077, 21213.794301586595867,
     39307.895800092710610, 28729.085735721942674, 5226.4952788528545610},
    {2.05319162663775882187, 1.67638483018380384940, 0.689767334985100004550, 0.148103976427480074590,
     0.0151986665636164571966, 5.47593808499534494600e-4, 1.05075007164441684324e-9}};
// Far out, where hardly any number is.
constexpr double kAboveFar[2][8] = {
    {},
    {6.65790464350110377720, 5.46378491116411436990, 1.78482653991729133580, 0.296560571828504891230,
     0.0265321895265761230930, 1.24266094738807843860e-3, 2.71155556874348757815e-5,
     2.01033439929228813265e-7}};
constexpr double kBelowFar[2][7] = {
    {},
    {0.599832206555887937690, 0.136929880922735805310, 0.0148753612908506148525, 7.86869131145613259100e-4,
     1.84631831751005468180e-5, 1.42151175831644588870e-7, 2.04426310338993978564e-15}};

PENLIGHT_INLINE Two normal_quantile(const Two& q) {
  const Two size =
      both([&](int i) __attribute__((always_inline)) { return q.at[i] < 0.0 ? -q.at[i] : q.at[i]; });
  const Two log = log_of(both([&](int i) __attribute__((always_inline)) { return 0.5 - size.at[i]; }));
  const Two tail = both([&](int i) __attribute__((always_inline)) { return sqrt_of(-log.at[i]); });
  const Masks middle = {{size.at[0] <= 0.425, size.at[1] <= 0.425}};
  const Two x = both([&](int i) __attribute__((always_inline)) {
    return middle.at[i] ? 0.180625 - q.at[i] * q.at[i] : tail.at[i] - 1.6;
  });
  Two value = quotient(middle, kAbove, kBelow, x);
  const Masks far = {{tail.at[0] > 5.0, tail.at[1] > 5.0}};
  if (any_of((Ints)(far.at[0] | far.at[1]))) {
    const Two beyond = quotient({}, kAboveFar, kBelowFar,
                                both([&](int i) __attribute__((always_inline)) { return tail.at[i] - 5; }));
    value =
        both([&](int i) __attribute__((always_inline)) { return far.at[i] ? beyond.at[i] : value.at[i]; });
  }
  return both([&](int i) __attribute__((always_inline)) {
    return middle.at[i] ? q.at[i] * value.at[i] : q.at[i] < 0.0 ? -value.at[i] : value.at[i];
  });
}

}  // namespace

void random(const Draw& draw) {
  Words step;
  for (int i = 0; i < kPairs; ++i) step[i] = static_cast<uint64_t>(i);
  for (ptrdiff_t pair = draw.first; pair < draw.last; pair += kPairs) {
    Words bits[2];
    bits_of(draw, all(static_cast<uint64_t>(pair)) + step, bits);
    Two x = both([&](int i) __attribute__((always_inline)) {
      return draw.normal ? (exactly(bits[i] >> 12) + 0.5) * (1.0 / 4503599627370496.0) - 0.5
                         : exactly(bits[i] >> 40) * (1.0 / 16777216.0);
    });
    if (draw.normal) x = normal_quantile(x);
    Words words[2];
    repeat<2>([&](auto i) __attribute__((always_inline)) {
      const HalfFloats numbers = __builtin_convertvector(draw.start + x.at[i] * draw.scale, HalfFloats);
      words[i] = __builtin_convertvector((HalfWords)numbers, Words);
    });
    const Words pairs = words[0] | words[1] << 32;
    const ptrdiff_t left = min_of(draw.count - 2 * pair, 2 * (draw.last - pair));
    memcpy(draw.output + 2 * pair, &pairs, static_cast<size_t>(min_of(left, kLanes)) * sizeof(float));
  }
}

}  // namespace PENLIGHT_ISA
}  // namespace penlight::optimized
