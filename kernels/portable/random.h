// Random numbers: a counter-based generator.
//
// Philox4x32-10 (Salmon, Moraes, Dror, Shaw: "Parallel random numbers: as easy as
// 1, 2, 3", SC 2011) is a keyed bijection of 128 bits. The key is the program's
// seed; the upper half of the counter is the number of the call since seeding, the
// lower half i / 2 for the element at place i in row-major order, which gets words
// 0, 1 (i even) or 2, 3 (i odd) of the result, the first one in the low bits. So an
// element depends on seed, call and place alone: not on layout, order or machine.
// What is made from these bits uses arithmetic that IEEE 754 defines to the bit
// (no functions of libm), and is compiled without fused multiplication.
#pragma once

#include <math.h>
#include <penlight/context.h>

namespace penlight {

// The random bits of one call of an operator.
class RandomBits {
 public:
  explicit RandomBits(RandomState& state) : seed_(state.seed), call_(state.calls++) {}

  // Of the elements 2 * pair and 2 * pair + 1.
  void at(uint64_t pair, uint64_t bits[2]) const {
    uint32_t c[] = {low(pair), high(pair), low(call_), high(call_)};
    uint32_t k0 = low(seed_), k1 = high(seed_);
    for (int round = 0; round < 10; ++round) {
      const uint64_t a = uint64_t{0xD2511F53u} * c[0], b = uint64_t{0xCD9E8D57u} * c[2];
      c[0] = high(b) ^ c[1] ^ k0;
      c[1] = low(b);
      c[2] = high(a) ^ c[3] ^ k1;
      c[3] = low(a);
      k0 += 0x9E3779B9u;
      k1 += 0xBB67AE85u;
    }
    bits[0] = c[0] | static_cast<uint64_t>(c[1]) << 32;
    bits[1] = c[2] | static_cast<uint64_t>(c[3]) << 32;
  }

  // Of `count` elements from `first` on.
  void fill(uint64_t* to, uint64_t first, int count) const {
    for (int i = 0; i < count;) {
      uint64_t pair[2];
      at((first + static_cast<uint64_t>(i)) / 2, pair);
      int odd = static_cast<int>((first + static_cast<uint64_t>(i)) % 2);
      for (; odd < 2 && i < count; ++odd) to[i++] = pair[odd];
    }
  }

 private:
  static uint32_t low(uint64_t x) { return static_cast<uint32_t>(x); }
  static uint32_t high(uint64_t x) { return static_cast<uint32_t>(x >> 32); }

  uint64_t seed_, call_;
};

namespace random {

// In [0, 1), a multiple of 2^-digits.
inline double uniform(uint64_t bits, int digits = 53) {
  return static_cast<double>(bits >> (64 - digits)) / static_cast<double>(uint64_t{1} << digits);
}

// In (0, 1), symmetric about one half.
inline double uniform_inside(uint64_t bits) {
  return (static_cast<double>(bits >> 12) + 0.5) / static_cast<double>(uint64_t{1} << 52);
}

// More numbers for an element whose first bits do not decide: the SplitMix64 sequence
// (Steele, Lea, Flood, OOPSLA 2014) that begins with them.
class Sequence {
 public:
  explicit Sequence(uint64_t bits) : state_(bits) {}
  // In (0, 1).
  double next() {
    uint64_t z = state_ += 0x9E3779B97F4A7C15u;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return uniform_inside(z ^ (z >> 31));
  }

 private:
  uint64_t state_;
};

// The natural logarithm of a positive, normal number, to about 1e-16 of its value:
// x = m * 2^e with m near 1, and log m = 2 atanh((m - 1) / (m + 1)).
inline double log(double x) {
  uint64_t bits;
  memcpy(&bits, &x, sizeof bits);
  int exponent = static_cast<int>(bits >> 52) - 1023;
  bits = (bits & 0xfffffffffffffu) | 0x3ff0000000000000u;
  double m;
  memcpy(&m, &bits, sizeof m);
  if (m > 1.4142135623730951) {
    m *= 0.5;
    ++exponent;
  }
  const double s = (m - 1) / (m + 1), square = s * s;
  double sum = 0;
  for (int k = 21; k >= 3; k -= 2) sum = (sum + 1.0 / k) * square;
  return exponent * 0.6931471805599453 + 2 * (s + s * sum);
}

// log(n!) of a whole number: Stirling's series from n + 1 = 10 on.
inline double log_factorial(double n) {
  double x = n + 1, product = 1;
  for (; x < 10; ++x) product *= x;
  const double inverse = 1 / (x * x);
  const double series = (1.0 / 12 - (1.0 / 360 - (1.0 / 1260 - inverse / 1680) * inverse) * inverse) / x;
  return (x - 0.5) * log(x) - x + 0.91893853320467274178 + series - log(product);
}

// Events at a rate of `rate` in a unit of time: their waits one by one, or for many
// Hörmann's PTRS (Insurance: Mathematics and Economics 12, 1993).
inline double poisson(uint64_t bits, double rate) {
  Sequence sequence(bits);
  if (rate < 10) {
    double count = -1, waited = 0;
    for (; waited <= rate; ++count) waited -= log(sequence.next());
    return count;
  }
  const double b = 0.931 + 2.53 * ::sqrt(rate), a = -0.059 + 0.02483 * b;
  const double scale = 1.1239 + 1.1328 / (b - 3.4), sure = 0.9277 - 3.6224 / (b - 2);
  for (;;) {
    const double u = sequence.next() - 0.5, v = sequence.next(), room = 0.5 - ::fabs(u);
    const double k = ::floor((2 * a / room + b) * u + rate + 0.43);
    if (room >= 0.07 && v <= sure) return k;
    if (k < 0 || (room < 0.013 && v > room)) continue;
    if (log(v * scale / (a / (room * room) + b)) <= k * log(rate) - rate - log_factorial(k)) return k;
  }
}

// Successes of n trials with the probability p, at most one half: the gaps between
// them, or for many BTRS (Hörmann, Journal of Statistical Computation and Simulation
// 46, 1993).
inline double few_successes(Sequence& sequence, double n, double p) {
  if (n * p < 10) {
    // log(1 - p), of which p below 1e-4 would lose digits.
    const double miss = p < 1e-4 ? -p * (1 + p * (0.5 + p / 3)) : log(1 - p);
    double count = -1, trials = 0;
    for (; trials <= n; ++count) trials += ::floor(log(sequence.next()) / miss) + 1;
    return count;
  }
  const double spread = ::sqrt(n * p * (1 - p)), b = 1.15 + 2.53 * spread;
  const double a = -0.0873 + 0.0248 * b + 0.01 * p, sure = 0.92 - 4.2 / b;
  const double alpha = (2.83 + 5.1 / b) * spread, mode = ::floor((n + 1) * p), odds = log(p / (1 - p));
  const double at_mode = log_factorial(mode) + log_factorial(n - mode);
  for (;;) {
    const double u = sequence.next() - 0.5, v = sequence.next(), room = 0.5 - ::fabs(u);
    const double k = ::floor((2 * a / room + b) * u + n * p + 0.5);
    if (k < 0 || k > n) continue;
    if (room >= 0.07 && v <= sure) return k;
    const double likely = at_mode - log_factorial(k) - log_factorial(n - k) + (k - mode) * odds;
    if (log(v * alpha / (a / (room * room) + b)) <= likely) return k;
  }
}

inline double binomial(uint64_t bits, double n, double p) {
  Sequence sequence(bits);
  if (n <= 0 || p <= 0) return 0;
  if (p >= 1) return n;
  return p <= 0.5 ? few_successes(sequence, n, p) : n - few_successes(sequence, n, 1 - p);
}

// (c[0] + c[1] x + ... + c[7] x^7) / (1 + d[0] x + ... + d[6] x^7)
inline double quotient(const double (&c)[8], const double (&d)[7], double x) {
  double above = c[7], below = d[6];
  for (int k = 6; k >= 0; --k) above = above * x + c[k];
  for (int k = 5; k >= 0; --k) below = below * x + d[k];
  return above / (below * x + 1);
}

// The value that a number of the standard normal distribution is below with the
// probability 0.5 + q, to about 1e-16 (algorithm AS 241, Wichura, Applied Statistics
// 37, 1988). |q| is below one half.
inline double normal_quantile(double q) {
  if (q >= -0.425 && q <= 0.425) {
    constexpr double a[] = {3.3871328727963666080, 133.14166789178437745, 1971.5909503065514427,
                            13731.693765509461125, 45921.953931549871457, 67265.770927008700853,
                            33430.575583588128105, 2509.0809287301226727};
    constexpr double b[] = {42.313330701600911252, 687.18700749205790830, 5394.1960214247511077,
                            21213.794301586595867, 39307.895800092710610, 28729.085735721942674,
                            5226.4952788528545610};
    const double r = 0.180625 - q * q;
    return q * quotient(a, b, r);
  }
  const double tail = ::sqrt(-log(0.5 - ::fabs(q)));
  double value;
  if (tail <= 5) {
    constexpr double c[] = {1.42343711074968357734,   4.63033784615654529590,   5.76949722146069140550,
                            3.64784832476320460504,   1.27045825245236838258,   0.241780725177450611770,
                            0.0227238449892691845833, 7.74545014278341407640e-4};
    constexpr double d[] = {2.05319162663775882187,   1.67638483018380384940,   0.689767334985100004550,
                            0.148103976427480074590,  0.0151986665636164571966, 5.47593808499534494600e-4,
                            1.05075007164441684324e-9};
    value = quotient(c, d, tail - 1.6);
  } else {
    constexpr double e[] = {6.65790464350110377720,    5.46378491116411436990,   1.78482653991729133580,
                            0.296560571828504891230,   0.0265321895265761230930, 1.24266094738807843860e-3,
                            2.71155556874348757815e-5, 2.01033439929228813265e-7};
    constexpr double f[] = {0.599832206555887937690,   0.136929880922735805310,   0.0148753612908506148525,
                            7.86869131145613259100e-4, 1.84631831751005468180e-5, 1.42151175831644588870e-7,
                            2.04426310338993978564e-15};
    value = quotient(e, f, tail - 5);
  }
  return q < 0 ? -value : value;
}

inline double normal(uint64_t bits) { return normal_quantile(uniform_inside(bits) - 0.5); }

}  // namespace random

}  // namespace penlight
