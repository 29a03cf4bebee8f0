// Every routine of the optimized kernels, with every instruction set of this processor,
// against sums in double (reference.h), over random sizes.
//
//   cpp_isas [--isa NAME] [--rounds N] [--seed N] [--guards 0]
//
// Shapes are as odd as they come, memory is guarded (call.h), and what two or more threads
// would do must give the same bits. Needs no other file, so that it can be carried to a
// machine, or an emulator, of which nothing else is known.
#include <penlight/libraries.h>

#include "check.h"
#include "reference.h"

using namespace penlight;
using namespace penlight_test;

namespace {

long rounds = 60;
const char* only = nullptr;
const char* widest = nullptr;  // chosen without a word of ours
uint64_t first_seed = 1;

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

Random random_of(int test, long round) {
  Random r{first_seed * 1000003u + static_cast<uint64_t>(test) * 7919u + static_cast<uint64_t>(round) +
           88172645463325252u};
  for (int i = 0; i < 8; ++i) r.next();
  return r;
}

const uint8_t kChannelsLast[] = {0, 2, 3, 1};
const uint8_t kHeadsInside[] = {0, 2, 1, 3};

void fill(Array& array, Random& r, bool wild) {
  float* data = array.data();
  for (dim_t i = 0; i < array.numel(); ++i) data[i] = r.real();
  if (array.numel() == 0) return;
  const float special[] = {0.0f, -0.0f, 1e-40f, NAN, HUGE_VALF, -HUGE_VALF};
  for (dim_t n = r.in(0, 3); n > 0; --n) data[r.in(0, array.numel() - 1)] = special[r.in(0, wild ? 5 : 2)];
}

// The first few results that are wrong are described; all are counted.
struct Judge {
  const char* what;
  long round;
  long wrong = 0;

  void see(float got, Exact want, dim_t place) {
    double bound = want.bound;
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
void check_threads(Call& call, Array& out, Array& again) {
  if (out.numel() == 0) return;
  CHECK(call.run(again, 3) == Status::Ok);
  CHECK(memcmp(out.data(), again.data(), static_cast<size_t>(out.numel()) * sizeof(float)) == 0);
  CHECK(again.intact() && scratch().intact());
}

template <class Body>
void for_each_isa(Body body) {
  const char* names[] = {"base", "avx2", "avx512"};
  const char* before = optimized_isa();
  for (const char* name : names) {
    if ((!only || same(name, only)) && select_optimized_isa(name)) body();
  }
  CHECK(select_optimized_isa(before));
}

Array x, y, weight, plain, bias, residual, out, again;

void linear(Random r, long round) {
  const bool deep = r.one_in(6);
  const dim_t depth = deep ? r.in(380, 900) : r.in(0, 40);
  dim_t outputs = r.one_in(4) ? r.in(41, 80) : r.in(0, 40);
  dim_t rows = !deep && r.one_in(5) ? r.in(90, 210) : r.in(0, 40);
  if (r.one_in(6)) {  // one row of a wide layer is computed in another way
    rows = 1;
    outputs = r.in(81, 500);
  }
  const int dim = static_cast<int>(r.in(1, 3)), activation = static_cast<int>(r.in(0, kActivationCount - 1));
  dim_t sizes[3] = {r.in(1, 2), rows, depth};
  const dim_t* from = sizes + (3 - dim);
  x.shape(from, dim, nullptr, ScalarType::Float, r.one_in(2));
  fill(x, r, r.one_in(3));
  sizes[2] = outputs;
  const bool added = r.one_in(2), front = r.one_in(2);
  residual.shape(from, dim, nullptr, ScalarType::Float, r.one_in(2));
  out.shape(from, dim, nullptr, ScalarType::Float, front);
  again.shape(from, dim, nullptr, ScalarType::Float, !front);
  fill(residual, r, r.one_in(8));
  const dim_t matrix[] = {outputs, depth}, packed[] = {(outputs + 15) / 16 * 16 * (1 + depth)};
  plain.shape(matrix, 2, nullptr, ScalarType::Float, false);
  bias.shape(matrix, 1, nullptr, ScalarType::Float, false);
  weight.shape(packed, 1, nullptr, ScalarType::Float, false);
  fill(plain, r, false);
  fill(bias, r, r.one_in(8));
  pack_panels(plain.data(), bias.data(), outputs, depth, [](dim_t k) { return k; }, weight.data());
  const double low = -0.5, high = 0.75;
  Call call(optimized_library, "penlight::linear_packed.out");
  call.tensor(x).tensor(weight).optional(added ? &residual : nullptr).integer(outputs).integer(activation);
  call.number(low).number(high);
  Judge judge{"linear_packed", round};
  judge.ran(call.run(out), call, out);
  for (dim_t i = 0; i < out.numel(); ++i) {
    Sum sum;
    const float* row = x.data() + i / outputs * depth;
    sum.add(static_cast<double>(bias.data()[i % outputs]));
    for (dim_t k = 0; k < depth; ++k) {
      sum.add(static_cast<double>(row[k]), static_cast<double>(plain.data()[i % outputs * depth + k]));
    }
    if (added) sum.add(static_cast<double>(residual.data()[i]));
    judge.see(out.data()[i], activated(activation, low, high, sum.get()), i);
  }
  check_threads(call, out, again);
}

struct Shape {
  dim_t batch, channels, height, width, outputs;
  Geometry g;
};

// One of the ways that convolutions are computed, on sizes that just reach it.
Shape any_convolution(Random& r) {
  Shape s{r.in(1, 2),  r.in(1, 40), r.in(1, 14),
          r.in(1, 14), r.in(1, 40), {{1, 1}, {1, 1}, {0, 0}, {1, 1}, 1}};
  Geometry& g = s.g;
  const dim_t kind = r.in(0, 6);
  for (int d = 0; d < 2; ++d) {
    g.taps[d] = kind == 0 ? 1 : r.in(1, 5);
    g.stride[d] = r.in(1, 3);
    g.dilation[d] = r.one_in(3) ? r.in(2, 3) : 1;
    g.pad[d] = r.in(0, g.taps[d]);
  }
  if (kind <= 1 && r.one_in(3)) s.channels = r.in(41, 60);
  if (kind == 0 && r.one_in(2)) s.channels = r.in(380, 420);
  if (kind == 2) {  // several groups
    g.groups = r.in(2, 5);
    s.channels = g.groups * r.in(1, 9);
    s.outputs = g.groups * r.in(1, 20);
  }
  if (kind == 3 || kind == 4) {  // a group for each channel
    s.outputs = s.channels = g.groups = r.in(2, 40);
    s.width = r.in(1, 30);
    for (int d = 0; d < 2 && kind == 4; ++d) {
      g.taps[d] = r.one_in(2) ? 3 : 5;
      g.stride[d] = r.in(1, 2);
      g.dilation[d] = 1;
    }
  }
  if (kind == 5) {  // tiles of transformed products
    s.channels = r.in(24, 37);
    s.outputs = r.in(24, 37);
    s.height = r.in(17, 23);
    s.width = r.in(17, 27);
    g = {{3, 3}, {1, 1}, {r.in(0, 2), r.in(0, 2)}, {1, 1}, 1};
  }
  if (kind == 6) {  // runs that span the window's width
    s.channels = r.in(0, 9);
    s.width = r.in(8, 40);
    g.taps[1] = r.in(2, 9);
    g.dilation[1] = 1;
  }
  if (r.one_in(20)) s.batch = 0;
  return s;
}

dim_t room_of(const Geometry& g, int d, dim_t size) {
  return size + 2 * g.pad[d] - g.dilation[d] * (g.taps[d] - 1) - 1;
}

void pack_convolution(const Shape& s) {
  const dim_t per_group = s.channels / s.g.groups, taps = s.g.taps[0] * s.g.taps[1];
  const dim_t depth = per_group * taps, outputs = s.outputs / s.g.groups;
  const bool depthwise = s.g.groups > 1 && per_group == 1 && outputs == 1;
  const dim_t padded = (s.channels + 15) / 16 * 16, panels = (outputs + 15) / 16 * 16;
  const dim_t size[] = {depthwise ? (1 + taps) * padded : s.g.groups * panels * (1 + depth)};
  weight.shape(size, 1, nullptr, ScalarType::Float, false);
  if (depthwise) {
    for (dim_t i = 0; i < size[0]; ++i) {
      const dim_t c = i % padded, t = i / padded - 1;
      weight.data()[i] = c >= s.channels ? 0 : t < 0 ? bias.data()[c] : plain.data()[c * taps + t];
    }
    return;
  }
  // Steps of the sum go through the taps, and in each through the channels.
  const auto order = [&](dim_t k) { return k % per_group * taps + k / per_group; };
  for (dim_t group = 0; group < s.g.groups; ++group) {
    pack_panels(plain.data() + group * outputs * depth, bias.data() + group * outputs, outputs, depth, order,
                weight.data() + group * panels * (1 + depth));
  }
}

void convolution(Random r, long round) {
  const Shape s = any_convolution(r);
  const Geometry& g = s.g;
  dim_t sizes[] = {s.batch, s.channels, s.height, s.width};
  // Images of a few channels are read as they come, row by row of each channel.
  const bool planes = g.groups == 1 && s.channels < 32 && g.taps[0] * g.taps[1] > 1 && r.one_in(2);
  x.shape(sizes, 4, planes ? nullptr : kChannelsLast, ScalarType::Float, r.one_in(2));
  fill(x, r, r.one_in(3));
  const dim_t matrix[] = {s.outputs, s.channels / g.groups * g.taps[0] * g.taps[1]};
  plain.shape(matrix, 2, nullptr, ScalarType::Float, false);
  bias.shape(matrix, 1, nullptr, ScalarType::Float, false);
  fill(plain, r, false);
  fill(bias, r, false);
  pack_convolution(s);
  bool fits = true;
  sizes[1] = s.outputs;
  for (int d = 0; d < 2; ++d) {
    const dim_t room = room_of(g, d, sizes[2 + d]);
    fits &= room >= 0;
    sizes[2 + d] = room < 0 ? 1 : room / g.stride[d] + 1;
  }
  const bool added = r.one_in(2), front = r.one_in(2);
  residual.shape(sizes, 4, kChannelsLast, ScalarType::Float, r.one_in(2));
  out.shape(sizes, 4, kChannelsLast, ScalarType::Float, front);
  again.shape(sizes, 4, kChannelsLast, ScalarType::Float, !front);
  fill(residual, r, false);
  const int activation = static_cast<int>(r.in(0, kActivationCount - 1));
  const double low = -0.5, high = 0.75;
  Call call(optimized_library, "penlight::conv2d_packed.out");
  call.tensor(x).tensor(weight).optional(added ? &residual : nullptr);
  call.integers(s.outputs, g.taps[0], g.taps[1]).integers(g.stride[0], g.stride[1]);
  call.integers(g.pad[0], g.pad[1]).integers(g.dilation[0], g.dilation[1]).integer(g.groups);
  call.integer(activation).number(low).number(high);
  Judge judge{"conv2d_packed", round};
  if (!fits) {
    CHECK(call.run(out) == Status::InvalidArgument);
    return;
  }
  judge.ran(call.run(out), call, out);
  // Transformed tiles are off by a share of the range; the widest sum stands for that.
  const bool tiles = g.taps[0] == 3 && g.taps[1] == 3 && g.groups == 1 && s.channels >= 16;
  for (dim_t n = 0; n < sizes[0]; ++n) {
    for (dim_t o = 0; o < sizes[1]; ++o) {
      for (dim_t h = 0; h < sizes[2]; ++h) {
        for (dim_t w = 0; w < sizes[3]; ++w) {
          Exact sum = convolve(x, x.data(), plain.data(), s.outputs, g, n, o, h, w);
          const dim_t place = out.at(n, o, h, w);
          Sum rest;
          rest.add(sum.value);
          rest.add(static_cast<double>(bias.data()[o]));
          if (added) rest.add(static_cast<double>(residual.data()[place]));
          const Exact all{rest.get().value, sum.bound + rest.get().bound + (tiles ? 4e-4 : 0)};
          judge.see(out.data()[place], activated(activation, low, high, all), place);
        }
      }
    }
  }
  check_threads(call, out, again);
}

void pooling(Random r, long round) {
  dim_t sizes[] = {r.in(0, 2), r.in(1, 40), r.in(1, 14), r.in(1, 14)};
  x.shape(sizes, 4, kChannelsLast, ScalarType::Float, r.one_in(2));
  fill(x, r, true);
  Geometry g{};
  const bool ceil_mode = r.one_in(2);
  bool fits = true;
  for (int d = 0; d < 2; ++d) {
    g.taps[d] = r.in(1, 4);
    g.stride[d] = r.in(1, 3);
    g.dilation[d] = r.in(1, 2);
    g.pad[d] = r.in(0, g.taps[d] / 2);
    const dim_t size = sizes[2 + d], room = room_of(g, d, size);
    fits &= room >= 0;
    sizes[2 + d] = (room + (ceil_mode ? g.stride[d] - 1 : 0)) / g.stride[d] + 1;
    // No window begins in the padding behind the image.
    if (ceil_mode && (sizes[2 + d] - 1) * g.stride[d] >= size + g.pad[d]) --sizes[2 + d];
  }
  if (!fits) return;
  const bool front = r.one_in(2);
  out.shape(sizes, 4, kChannelsLast, ScalarType::Float, front);
  again.shape(sizes, 4, kChannelsLast, ScalarType::Float, !front);
  Call call(optimized_library, "penlight::max_pool2d.out");
  call.tensor(x).integers(g.taps[0], g.taps[1]).integers(g.stride[0], g.stride[1]);
  call.integers(g.pad[0], g.pad[1]).integers(g.dilation[0], g.dilation[1]).flag(ceil_mode);
  Judge judge{"max_pool2d", round};
  judge.ran(call.run(out), call, out);
  for (dim_t n = 0; n < sizes[0]; ++n) {
    for (dim_t c = 0; c < sizes[1]; ++c) {
      for (dim_t h = 0; h < sizes[2]; ++h) {
        for (dim_t w = 0; w < sizes[3]; ++w) {
          const dim_t place = out.at(n, c, h, w);
          judge.see(out.data()[place], {largest(x, x.data(), g, n, c, h, w), 0}, place);
        }
      }
    }
  }
  check_threads(call, out, again);
}

void attention(Random r, long round) {
  const dim_t heads = r.in(1, 4), shared = r.one_in(2) ? 1 : heads;
  const dim_t queries = r.one_in(3) ? r.in(1, 4) : r.one_in(4) ? r.in(97, 130) : r.in(1, 40);
  const dim_t keys = r.one_in(4) ? r.in(41, 300) : r.in(1, 40), width = r.in(1, 40), values = r.in(1, 40);
  const dim_t batch = queries * keys > 4000 ? 1 : r.in(1, 2);
  const uint8_t* order = r.one_in(2) ? kHeadsInside : nullptr;
  const dim_t q[] = {batch, heads, queries, width}, k[] = {batch, shared, keys, width},
              v[] = {batch, shared, keys, values}, o[] = {batch, heads, queries, values};
  Array &query = x, &key = y, &value = weight, &mask = residual;
  query.shape(q, 4, order, ScalarType::Float, r.one_in(2));
  key.shape(k, 4, order, ScalarType::Float, r.one_in(2));
  value.shape(v, 4, order, ScalarType::Float, r.one_in(2));
  const bool front = r.one_in(2);
  out.shape(o, 4, order, ScalarType::Float, front);
  again.shape(o, 4, order, ScalarType::Float, !front);
  fill(query, r, false);
  fill(key, r, false);
  fill(value, r, false);
  if (r.one_in(5)) query.data()[r.in(0, query.numel() - 1)] = NAN;
  if (r.one_in(5)) key.data()[r.in(0, key.numel() - 1)] = NAN;
  const dim_t kind = r.in(0, 3);  // no mask, causal, of floats, of bools
  dim_t m[] = {r.one_in(2) ? batch : 1, r.one_in(2) ? heads : 1, r.one_in(2) ? queries : 1,
               r.one_in(4) ? 1 : keys};
  mask.shape(m, 4, nullptr, kind == 3 ? ScalarType::Bool : ScalarType::Float, r.one_in(2));
  for (dim_t i = 0; i < mask.numel(); ++i) {
    if (kind == 3) {
      mask.bytes()[i] = !r.one_in(3);
    } else {
      mask.data()[i] = r.one_in(6) ? -HUGE_VALF : 3 * r.real();
    }
  }
  const bool own_scale = r.one_in(2);
  const double scale = own_scale ? 0.3 : 1 / sqrt(static_cast<double>(width));
  Call call(optimized_library, "penlight::scaled_dot_product_attention.out");
  call.tensor(query)
      .tensor(key)
      .tensor(value)
      .optional(kind >= 2 ? &mask : nullptr)
      .number(0)
      .flag(kind == 1);
  if (own_scale) {
    call.number(scale);
  } else {
    call.none();
  }
  call.flag(shared != heads);
  Judge judge{"attention", round};
  judge.ran(call.run(out), call, out);
  static Attended row;
  for (dim_t b = 0; b < batch; ++b) {
    for (dim_t h = 0; h < heads; ++h) {
      for (dim_t i = 0; i < queries; ++i) {
        const dim_t seen = kind == 1 && i + 1 < keys ? i + 1 : keys, from = shared == 1 ? 0 : h;
        double error = 0;
        for (dim_t j = 0; j < seen; ++j) {
          Sum sum;
          for (dim_t c = 0; c < width; ++c) {
            sum.add(static_cast<double>(query.data()[query.at(b, h, i, c)]),
                    scale * static_cast<double>(key.data()[key.at(b, from, j, c)]));
          }
          const dim_t at = mask.at(m[0] > 1 ? b : 0, m[1] > 1 ? h : 0, m[2] > 1 ? i : 0, m[3] > 1 ? j : 0);
          if (kind == 2) sum.add(static_cast<double>(mask.data()[at]));
          row.scores[j] = kind == 3 && !mask.bytes()[at] ? -HUGE_VAL : sum.get().value;
          if (sum.get().bound < HUGE_VAL && sum.get().bound > error) error = sum.get().bound;
        }
        row.soften(seen);
        for (dim_t c = 0; c < values; ++c) {
          double total = 0, most = 0;
          for (dim_t j = 0; j < seen; ++j) {
            const double one = static_cast<double>(value.data()[value.at(b, from, j, c)]);
            total += row.scores[j] * one;
            most = fabs(one) > most ? fabs(one) : most;
          }
          // Each exponential is off by its score's error and its own, and so is their sum.
          const double bound = most * (2 * (error + 4e-7) + static_cast<double>(2 * seen + 8) * 6e-8);
          const dim_t place = out.at(b, h, i, c);
          judge.see(out.data()[place], {total * row.factor, bound}, place);
        }
      }
    }
  }
  check_threads(call, out, again);
}

// A matrix that is not packed: linear layers (its columns dense), mm and bmm (its rows).
void product(Random r, long round) {
  const bool deep = r.one_in(6), large = r.one_in(12);
  const dim_t kind = r.in(0, 2), batch = kind == 2 ? r.in(0, 3) : 1;
  const dim_t rows = r.one_in(3) ? r.in(1, 3) : large ? r.in(90, 130) : r.in(0, 40);
  const dim_t depth = deep ? r.in(380, 800) : r.in(1, 40), outputs = large ? r.in(129, 300) : r.in(0, 40);
  const dim_t a[] = {batch, rows, depth}, c[] = {batch, rows, outputs};
  const dim_t b[] = {batch, kind == 0 ? outputs : depth, kind == 0 ? depth : outputs};
  const int skip = kind == 2 ? 0 : 1;
  x.shape(a + skip, 3 - skip, nullptr, ScalarType::Float, r.one_in(2));
  y.shape(b + skip, 3 - skip, nullptr, ScalarType::Float, r.one_in(2));
  bias.shape(&outputs, 1, nullptr, ScalarType::Float, r.one_in(2));
  const bool front = r.one_in(2), added = kind == 0 && r.one_in(2);
  out.shape(c + skip, 3 - skip, nullptr, ScalarType::Float, front);
  again.shape(c + skip, 3 - skip, nullptr, ScalarType::Float, !front);
  fill(x, r, r.one_in(3));
  fill(y, r, false);
  fill(bias, r, r.one_in(8));
  const char* names[] = {"aten::linear.out", "aten::mm.out", "aten::bmm.out"};
  Call call(optimized_library, names[kind]);
  call.tensor(x).tensor(y);
  if (kind == 0) call.optional(added ? &bias : nullptr);
  Judge judge{names[kind], round};
  judge.ran(call.run(out), call, out);
  for (dim_t i = 0; i < out.numel(); ++i) {
    const dim_t n = i % outputs, m = i / outputs;
    const float* second = y.data() + (kind == 2 ? m / rows * depth * outputs : 0);
    Sum sum;
    for (dim_t k = 0; k < depth; ++k) {
      sum.add(static_cast<double>(x.data()[m * depth + k]),
              static_cast<double>(second[kind == 0 ? n * depth + k : k * outputs + n]));
    }
    if (added) sum.add(static_cast<double>(bias.data()[n]));
    judge.see(out.data()[i], sum.get(), i);
  }
  check_threads(call, out, again);
}

// What is done to rows: softmax and its logarithm, RMS and layer norms, activations.
void rows(Random r, long round) {
  const dim_t kind = r.in(0, 8), count = r.one_in(4) ? r.in(41, 1100) : r.in(1, 40);
  const dim_t sizes[] = {r.one_in(6) ? r.in(300, 400) : r.in(0, 7), count}, ones[] = {sizes[0], 1};
  x.shape(sizes, 2, nullptr, ScalarType::Float, r.one_in(2));
  weight.shape(&count, 1, nullptr, ScalarType::Float, r.one_in(2));
  bias.shape(&count, 1, nullptr, ScalarType::Float, r.one_in(2));
  const bool scaled = r.one_in(2), shifted = kind == 3 && r.one_in(2), front = r.one_in(2);
  out.shape(kind == 3 ? ones : sizes, 2, nullptr, ScalarType::Float, front);
  again.shape(kind == 3 ? ones : sizes, 2, nullptr, ScalarType::Float, !front);
  y.shape(sizes, 2, nullptr, ScalarType::Float, front);  // of a layer norm, before means and deviations
  plain.shape(ones, 2, nullptr, ScalarType::Float, front);
  fill(x, r, false);
  for (dim_t i = 0; i < x.numel(); ++i) x.data()[i] *= 20;
  if (x.numel() && r.one_in(4)) x.data()[r.in(0, x.numel() - 1)] = kind < 2 ? -HUGE_VALF : NAN;
  fill(weight, r, false);
  fill(bias, r, false);
  const char* names[] = {
      "aten::_softmax.out", "aten::_log_softmax.out", "penlight::rms_norm.out", "aten::native_layer_norm.out",
      "aten::sigmoid.out",  "aten::tanh.out",         "aten::silu.out",         "aten::gelu.out",
      "aten::gelu.out"};
  Call call(optimized_library, names[kind]);
  call.tensor(x);
  if (kind < 2) call.integer(-1).flag(false);
  if (kind == 2 || kind == 3) call.integers(count).optional(scaled ? &weight : nullptr);
  if (kind == 3) call.optional(shifted ? &bias : nullptr);
  if (kind == 2 || kind == 3) call.number(1e-5);
  if (kind == 3) call.tensor(y).tensor(plain);
  if (kind >= 7) call.string(kind == 7 ? "none" : "tanh");
  Judge judge{names[kind], round};
  judge.ran(call.run(out), call, out);
  const float* result = kind == 3 ? y.data() : out.data();
  const int activations[] = {3, 4, 5, 6, 7};
  double most = 0, sum = 0, mean = 0, square = 0;
  for (dim_t i = 0; i < x.numel(); ++i) {
    const double value = static_cast<double>(x.data()[i]);
    if (kind >= 4) {
      judge.see(result[i], activated(activations[kind - 4], 0, 0, {value, 0}), i);
      continue;
    }
    if (i % count == 0) {
      const float* row = x.data() + i;
      const double n = static_cast<double>(count);
      most = -HUGE_VAL;
      sum = mean = square = 0;
      for (dim_t k = 0; k < count; ++k) most = fmax(most, static_cast<double>(row[k]));
      for (dim_t k = 0; k < count; ++k) sum += exp(static_cast<double>(row[k]) - most);
      for (dim_t k = 0; kind == 3 && k < count; ++k) mean += static_cast<double>(row[k]) / n;
      for (dim_t k = 0; k < count; ++k) square += pow(static_cast<double>(row[k]) - mean, 2) / n;
    }
    const double rstd = 1 / sqrt(square + 1e-5);
    double want = kind == 0   ? exp(value - most) / sum
                  : kind == 1 ? value - most - log(sum)
                              : (value - mean) * rstd;
    double bound = kind < 2 ? 1e-5 * (1 + fabs(want)) : 1e-4 * (1 + fabs(want));
    if (kind >= 2 && scaled) want *= static_cast<double>(weight.data()[i % count]);
    if (shifted) want += static_cast<double>(bias.data()[i % count]);
    // A single element, or equal ones, less their mean is rounding times a large factor.
    if (kind == 3 && rstd > 1) bound *= rstd;
    judge.see(result[i], {want, bound}, i);
  }
  if (kind != 3) check_threads(call, out, again);
}

// An inverted bottleneck: a 1x1 convolution, and one window for each of its channels.
void expansion(Random r, long round) {
  const dim_t channels = r.in(1, 20), inner = r.in(2, 40);
  dim_t sizes[] = {r.in(0, 2), channels, r.in(1, 14), r.in(1, 14)};
  if (r.one_in(8)) sizes[3] = r.in(200, 400);  // bands of one row
  Geometry g{};
  g.groups = inner;
  bool fits = true;
  x.shape(sizes, 4, kChannelsLast, ScalarType::Float, r.one_in(2));
  fill(x, r, r.one_in(4));
  const dim_t height = sizes[2], width = sizes[3];
  for (int d = 0; d < 2; ++d) {
    g.taps[d] = r.one_in(2) ? 3 : r.in(1, 5);
    g.stride[d] = r.in(1, 2);
    g.dilation[d] = r.one_in(3) ? 2 : 1;
    g.pad[d] = r.in(0, g.taps[d] / 2);
    const dim_t room = room_of(g, d, sizes[2 + d]);
    fits &= room >= 0;
    sizes[2 + d] = room < 0 ? 1 : room / g.stride[d] + 1;
  }
  if (!fits) return;
  const dim_t taps = g.taps[0] * g.taps[1], padded = (inner + 15) / 16 * 16;
  const dim_t first[] = {inner, channels}, last[] = {inner, taps}, panels[] = {padded * (1 + channels)},
              packed[] = {(1 + taps) * padded};
  plain.shape(first, 2, nullptr, ScalarType::Float, false);
  bias.shape(first, 1, nullptr, ScalarType::Float, false);
  weight.shape(panels, 1, nullptr, ScalarType::Float, r.one_in(2));
  y.shape(last, 2, nullptr, ScalarType::Float, false);
  residual.shape(packed, 1, nullptr, ScalarType::Float, r.one_in(2));
  fill(plain, r, false);
  fill(bias, r, false);
  fill(y, r, false);
  pack_panels(plain.data(), bias.data(), inner, channels, [](dim_t k) { return k; }, weight.data());
  for (dim_t i = 0; i < packed[0]; ++i) {  // the windows have the biases of the expansion, negated
    const dim_t c = i % padded, t = i / padded - 1;
    residual.data()[i] = c >= inner ? 0 : t < 0 ? -bias.data()[c] : y.data()[c * taps + t];
  }
  sizes[1] = inner;
  const bool front = r.one_in(2);
  out.shape(sizes, 4, kChannelsLast, ScalarType::Float, front);
  again.shape(sizes, 4, kChannelsLast, ScalarType::Float, !front);
  const int before = static_cast<int>(r.in(0, kActivationCount - 1)),
            after = static_cast<int>(r.in(0, kActivationCount - 1));
  const double low = -0.5, high = 0.75;
  Call call(optimized_library, "penlight::expand_depthwise_packed.out");
  call.tensor(x).tensor(weight).tensor(residual).integers(inner, g.taps[0], g.taps[1]);
  call.integers(g.stride[0], g.stride[1]).integers(g.pad[0], g.pad[1]);
  call.integers(g.dilation[0], g.dilation[1]).integer(before).number(low).number(high);
  call.integer(after).number(low).number(high);
  Judge judge{"expand_depthwise_packed", round};
  judge.ran(call.run(out), call, out);
  const auto expanded = [&](dim_t n, dim_t c, dim_t h, dim_t w) {
    Sum sum;
    sum.add(static_cast<double>(bias.data()[c]));
    for (dim_t k = 0; k < channels; ++k) {
      sum.add(static_cast<double>(x.data()[x.at(n, k, h, w)]),
              static_cast<double>(plain.data()[c * channels + k]));
    }
    return activated(before, low, high, sum.get());
  };
  for (dim_t n = 0; n < sizes[0]; ++n) {
    for (dim_t c = 0; c < inner; ++c) {
      for (dim_t h = 0; h < sizes[2]; ++h) {
        for (dim_t w = 0; w < sizes[3]; ++w) {
          Sum sum;
          double carried = 0;
          sum.add(-static_cast<double>(bias.data()[c]));
          for (dim_t t = 0; t < taps; ++t) {
            const dim_t row = h * g.stride[0] - g.pad[0] + t / g.taps[1] * g.dilation[0];
            const dim_t column = w * g.stride[1] - g.pad[1] + t % g.taps[1] * g.dilation[1];
            if (row < 0 || row >= height || column < 0 || column >= width) continue;
            const double tap = static_cast<double>(y.data()[c * taps + t]);
            const Exact one = expanded(n, c, row, column);
            sum.add(one.value, tap);
            carried += fabs(tap) * one.bound;
          }
          const Exact all{sum.get().value, sum.get().bound + carried};
          const dim_t place = out.at(n, c, h, w);
          judge.see(out.data()[place], activated(after, low, high, all), place);
        }
      }
    }
  }
  check_threads(call, out, again);
}

// Operations of chains, by their numbers in the file format (kernels/optimized/vector/elements.h).
enum Element {
  kAdd = 1,
  kSub,
  kMul,
  kMinimum = 5,
  kMaximum,
  kClamp,
  kLeakyRelu,
  kWhere,
  kLess,
  kNeg = 17,
  kAbs,
  kRelu,
  kSquare,
  kSigmoid = 29,
  kTanh,
  kSilu,
  kGelu,
  kGeluTanh
};

// One step on exact values; conditions are 1 and 0.
Exact stepped(int op, const Exact* s) {
  const double a = s[0].value, b = s[1].value, c = s[2].value, bounds = s[0].bound + s[1].bound;
  const auto rounded = [](double value, double bound) {
    return Exact{value, bound + 6e-8 * fabs(value) + 1e-37};
  };
  const bool unordered = a != a || b != b;
  switch (op) {
    case kAdd:
      return rounded(a + b, bounds);
    case kSub:
      return rounded(a - b, bounds);
    case kMul:
      return rounded(a * b, fabs(a) * s[1].bound + fabs(b) * s[0].bound + s[0].bound * s[1].bound);
    case kMinimum:
      return {unordered ? NAN : fmin(a, b), bounds};
    case kMaximum:
      return {unordered ? NAN : fmax(a, b), bounds};
    case kClamp:
      return {a < b ? b : a > c ? c : a, s[0].bound};
    case kLeakyRelu:
      return rounded(a > 0 ? a : a * b, s[0].bound * (fabs(b) > 1 ? fabs(b) : 1));
    case kWhere:
      return a != 0 ? s[1] : s[2];
    case kLess:
      return {a < b ? 1.0 : 0.0, 0};
    case kNeg:
      return {-a, s[0].bound};
    case kAbs:
      return {fabs(a), s[0].bound};
    case kSquare:
      return rounded(a * a, (2 * fabs(a) + s[0].bound) * s[0].bound);
    default: {
      const int known[] = {1, 3, 4, 5, 6, 7};  // of relu, sigmoid, tanh, silu, gelu, gelu of tanh
      return activated(known[op == kRelu ? 0 : op - kSigmoid + 1], 0, 0, s[0]);
    }
  }
}

// A chain of operations, its inputs broadcast as they come.
void chain(Random r, long round) {
  constexpr int kRegisters = 8, kCondition = 7, kMostSteps = 14;
  const dim_t sizes[] = {r.in(0, 3), r.in(1, 9), r.one_in(6) ? r.in(500, 900) : r.in(1, 40)};
  Array* arrays[] = {&x, &y, &weight};
  const int inputs = static_cast<int>(r.in(1, 3));
  dim_t own[3][3];
  for (int i = 0; i < inputs; ++i) {
    for (int d = 0; d < 3; ++d) own[i][d] = i > 0 && r.one_in(3) ? 1 : sizes[d];
    arrays[i]->shape(own[i], 3, nullptr, ScalarType::Float, r.one_in(2));
    fill(*arrays[i], r, false);
    if (arrays[i]->numel() && r.one_in(3)) arrays[i]->data()[r.in(0, arrays[i]->numel() - 1)] = NAN;
  }
  double constants[] = {0.5, -1.25, static_cast<double>(r.real())};
  const int operands = inputs + 3;
  // Registers 0 to 5 have numbers of at most `most`; the last step writes one of them.
  double most[kRegisters] = {};
  bool written[kRegisters] = {};
  int64_t program[kMostSteps * 5];
  int steps = 0;
  const auto source = [&] {
    const int any = static_cast<int>(r.in(0, 5));
    return written[any] && !r.one_in(3) ? any : kRegisters + static_cast<int>(r.in(0, operands - 1));
  };
  const auto size_of = [&](int from) { return from < kRegisters ? most[from] : 1.25; };
  const auto add = [&](int op, int to, int a, int b, int c) {
    const int64_t words[] = {op, to, a, b, c};
    for (int i = 0; i < 5; ++i) program[steps * 5 + i] = words[i];
    ++steps;
  };
  const int wanted = static_cast<int>(r.in(1, kMostSteps - 2));
  while (steps < wanted) {
    static const int kOps[] = {kAdd, kSub,  kMul,    kMinimum, kMaximum, kClamp, kLeakyRelu, kWhere,   kNeg,
                               kAbs, kRelu, kSquare, kSigmoid, kTanh,    kSilu,  kGelu,      kGeluTanh};
    int op = kOps[r.in(0, 16)];
    const int to = steps % 6, a = steps == 0 ? kRegisters : source(), b = source(), c = source();
    const double grown = op == kMul      ? size_of(a) * size_of(b)
                         : op == kSquare ? size_of(a) * size_of(a)
                                         : size_of(a) + size_of(b);
    if (grown > 1e4) op = kTanh;
    if (op == kWhere) {  // conditions compare what is exact
      add(kLess, kCondition, kRegisters, kRegisters + static_cast<int>(r.in(0, operands - 1)), 0);
      add(op, to, kCondition, b, c);
    } else if (op == kClamp) {
      add(op, to, a, kRegisters + inputs + 1, kRegisters + inputs);
    } else if (op == kLeakyRelu) {
      add(op, to, a, kRegisters + inputs, 0);
    } else {
      add(op, to, a, op <= kMaximum ? b : 0, 0);
    }
    most[to] = op == kTanh ? 1 : op == kWhere ? size_of(b) + size_of(c) : grown;
    written[to] = true;
  }
  const bool front = r.one_in(2);
  out.shape(sizes, 3, nullptr, ScalarType::Float, front);
  again.shape(sizes, 3, nullptr, ScalarType::Float, !front);
  Tensor tensors[] = {x.tensor(), y.tensor(), weight.tensor()};
  Call call(optimized_library, "penlight::elementwise.out");
  call.list(tensors, inputs).list(program, steps * 5).list(constants, 3);
  Judge judge{"elementwise", round};
  judge.ran(call.run(out), call, out);
  for (dim_t i = 0; i < out.numel(); ++i) {
    const dim_t at[] = {i / (sizes[1] * sizes[2]), i / sizes[2] % sizes[1], i % sizes[2]};
    Exact values[kRegisters + 6], result;
    for (int n = 0; n < inputs; ++n) {
      dim_t place = 0;
      for (int d = 0; d < 3; ++d) place = place * own[n][d] + (own[n][d] == 1 ? 0 : at[d]);
      values[kRegisters + n].value = static_cast<double>(arrays[n]->data()[place]);
    }
    for (int n = 0; n < 3; ++n) {
      values[kRegisters + inputs + n].value = static_cast<double>(static_cast<float>(constants[n]));
    }
    for (int s = 0; s < steps; ++s) {
      const int64_t* step = program + s * 5;
      const Exact sources[] = {values[step[2]], values[step[3]], values[step[4]]};
      result = values[step[1]] = stepped(static_cast<int>(step[0]), sources);
    }
    judge.see(out.data()[i], result, i);
  }
  check_threads(call, out, again);
}

void repeat_everywhere(int test, void (*run)(Random, long), long count) {
  for_each_isa([&] {
    for (long round = 0; round < count; ++round) run(random_of(test, round), round);
  });
}

}  // namespace

TEST(the_widest_instruction_set_is_chosen_and_others_can_be) {
  bool below = false;
  const char *const widest_first[] = {"avx512", "avx2", "base"}, *const unknown[] = {"", "avx", "AVX2",
                                                                                     "sse9"};
  for (const char* name : widest_first) {
    const bool there = select_optimized_isa(name);
    if (there) CHECK_EQ(optimized_isa(), name);
    below |= same(name, widest);
    CHECK(!there || below);
    printf("%s: %s\n", name, there ? "here" : "not here");
  }
  CHECK(select_optimized_isa("base"));
  for (const char* name : unknown) CHECK(!select_optimized_isa(name));
  CHECK_EQ(optimized_isa(), "base");
  CHECK(select_optimized_isa(widest));
}

TEST(linear_layers) { repeat_everywhere(1, linear, 4 * rounds); }
TEST(convolutions) { repeat_everywhere(2, convolution, 4 * rounds); }
TEST(max_pooling) { repeat_everywhere(3, pooling, 2 * rounds); }
TEST(attention_heads) { repeat_everywhere(4, attention, 3 * rounds); }
TEST(products_of_matrices_that_are_not_packed) { repeat_everywhere(5, product, 4 * rounds); }

TEST(expansions) { repeat_everywhere(7, expansion, 3 * rounds); }
TEST(chains_of_elementwise_operations) { repeat_everywhere(8, chain, 6 * rounds); }

TEST(rows_of_matrices) { repeat_everywhere(6, rows, 4 * rounds); }

int main(int argc, char** argv) {
  int i = 1;
  for (; i + 1 < argc; i += 2) {
    const char *option = argv[i], *value = argv[i + 1];
    if (strcmp(option, "--isa") == 0) {
      only = value;
    } else if (strcmp(option, "--rounds") == 0) {
      rounds = atol(value);
    } else if (strcmp(option, "--seed") == 0) {
      first_seed = strtoull(value, nullptr, 10);
    } else if (strcmp(option, "--guards") == 0) {
      has_guard_pages() = atol(value) != 0;
    } else {
      break;
    }
  }
  if (i != argc || rounds < 1) {
    printf("usage: %s [--isa NAME] [--rounds N] [--seed N] [--guards 0]\n", argv[0]);
    return 2;
  }
  widest = optimized_isa();
  if (only && !select_optimized_isa(only)) {
    printf("this machine cannot compute with %s\n", only);
    return 2;
  }
  return finish();
}
