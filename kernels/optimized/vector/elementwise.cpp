// Programs of elementwise operations, a tile at a time.
#include "double_functions.h"
#include "elements.h"
#include "epilogue.h"

namespace penlight::optimized {
namespace PENLIGHT_ISA {

namespace {

// --- one operation on a run of elements --------------------------------------------------------

struct Source {
  const float* data;
  ptrdiff_t step;  // elements from vector to vector: kLanes, or 0 where all elements are one number
  bool is_padded;  // to whole vectors: a part of one would wait for what was stored just before
};

struct Target {
  float* data;
  bool is_padded;
};

// Vectors at once of an operation of few instructions, so that counting is not most of them.
constexpr int kAtOnce = kFewTiles ? 1 : 4;

// to[i] = f(a[i], ...). `to` may be one of the sources.
template <int arity, int at_once, class F>
PENLIGHT_INLINE void each(const Source* from, const Target& to, ptrdiff_t count, F&& f) {
  const float* at[3] = {from[0].data, arity > 1 ? from[1].data : nullptr, arity > 2 ? from[2].data : nullptr};
  const ptrdiff_t steps[3] = {from[0].step, arity > 1 ? from[1].step : 0, arity > 2 ? from[2].step : 0};
  float* out = to.data;
  const auto apply = [&](Floats a, Floats b, Floats c) __attribute__((always_inline)) {
    if constexpr (arity == 1) return f(a);
    if constexpr (arity == 2) return f(a, b);
    if constexpr (arity == 3) return f(a, b, c);
  };
  const auto get = [&](int i) __attribute__((always_inline)) { return i < arity ? load(at[i]) : Floats{}; };
  const auto get_last = [&](int i) __attribute__((always_inline)) {
    if (i >= arity) return Floats{};
    return from[i].is_padded ? load(at[i]) : load_some(at[i], count);
  };
  if constexpr (at_once > 1) {
    for (; count >= at_once * kLanes; count -= at_once * kLanes, out += at_once * kLanes) {
      repeat<at_once>([&](auto k) __attribute__((always_inline)) {
        const auto of = [&](int i) __attribute__((always_inline)) {
          return i < arity ? load(at[i] + k * steps[i]) : Floats{};
        };
        store(out + k * kLanes, apply(of(0), of(1), of(2)));
      });
      for (int i = 0; i < arity; ++i) at[i] += at_once * steps[i];
    }
  }
  for (; count >= kLanes; count -= kLanes, out += kLanes) {
    store(out, apply(get(0), get(1), get(2)));
    for (int i = 0; i < arity; ++i) at[i] += steps[i];
  }
  if (count == 0) return;
  const Floats last = apply(get_last(0), get_last(1), get_last(2));
  if (to.is_padded) {
    store(out, last);
  } else {
    store_some(out, last, count);
  }
}

// The same for a function of one operand that takes several vectors together.
template <class F>
PENLIGHT_INLINE void each_together(Source from, Target to, ptrdiff_t count, F&& f) {
  const ptrdiff_t done = apply_together(from.data, from.step, to.data, count, f);
  from.data += done / kLanes * from.step;
  to.data += done;
  each<1, 1>(&from, to, count - done, f);
}

PENLIGHT_INLINE Floats masked(Ints mask) { return (Floats)mask; }

// Real parts in the lanes of even numbers, imaginary ones in the others.
PENLIGHT_INLINE Floats product_of_pairs(Floats x, Floats y) {
  Ints odd;
  for (int lane = 0; lane < kLanes; ++lane) odd[lane] = lane % 2 ? -1 : 0;
  const Floats swapped = swap_lanes<1>(y), crossed = swap_lanes<1>(x) * select(odd, y, swapped);
  return x * select(odd, swapped, y) + select(odd, crossed, splat(0.0f) - crossed);
}

void run_step(ElementOp op, const Source* from, const Target& to, ptrdiff_t count) {
  const Bounds none = {};
  switch (op) {
#define PENLIGHT_ELEMENT(name, arity, at_once, parameters, ...)                                    \
  case ElementOp::name:                                                                            \
    if constexpr (is_compiled(ElementOp::name)) {                                                  \
      each<arity, at_once>(from, to, count,                                                        \
                           [&] parameters __attribute__((always_inline)) { return __VA_ARGS__; }); \
    }                                                                                              \
    return;
#define PENLIGHT_LONG_ONE(name, ...)                                                                       \
  case ElementOp::name:                                                                                    \
    if constexpr (is_compiled(ElementOp::name)) {                                                          \
      each_together(*from, to, count, [&](auto x) __attribute__((always_inline)) { return __VA_ARGS__; }); \
    }                                                                                                      \
    return;
#define PENLIGHT_ONE(name, ...) PENLIGHT_ELEMENT(name, 1, 1, (Floats x), __VA_ARGS__)
#define PENLIGHT_TWO(name, ...) PENLIGHT_ELEMENT(name, 2, 1, (Floats x, Floats y), __VA_ARGS__)
#define PENLIGHT_QUICK_ONE(name, ...) PENLIGHT_ELEMENT(name, 1, kAtOnce, (Floats x), __VA_ARGS__)
#define PENLIGHT_QUICK_TWO(name, ...) PENLIGHT_ELEMENT(name, 2, kAtOnce, (Floats x, Floats y), __VA_ARGS__)
#define PENLIGHT_QUICK_THREE(name, ...) \
  PENLIGHT_ELEMENT(name, 3, kAtOnce, (Floats x, Floats y, Floats z), __VA_ARGS__)
    PENLIGHT_QUICK_TWO(Add, x + y)
    PENLIGHT_QUICK_TWO(Sub, x - y)
    PENLIGHT_QUICK_TWO(Mul, x * y)
    PENLIGHT_QUICK_TWO(Div, x / y)
    // A comparison with NaN is false, and what is not equal to itself is one.
    PENLIGHT_QUICK_TWO(Minimum, select((x < y) | (x != x), x, y))
    PENLIGHT_QUICK_TWO(Maximum, select((x > y) | (x != x), x, y))
    PENLIGHT_QUICK_THREE(Clamp, at_most(at_least(x, y), z))
    PENLIGHT_QUICK_TWO(LeakyRelu, select(x > splat(0.0f), x, x * y))
    PENLIGHT_QUICK_THREE(Where, select((Ints)x, y, z))
    PENLIGHT_QUICK_TWO(Less, masked(x < y))
    PENLIGHT_QUICK_TWO(LessEqual, masked(x <= y))
    PENLIGHT_QUICK_TWO(Equal, masked(x == y))
    PENLIGHT_QUICK_TWO(NotEqual, masked(x != y))
    PENLIGHT_QUICK_TWO(And, masked((Ints)x & (Ints)y))
    PENLIGHT_QUICK_TWO(Or, masked((Ints)x | (Ints)y))
    PENLIGHT_QUICK_ONE(Not, masked(~(Ints)x))
    PENLIGHT_QUICK_ONE(Neg, masked((Ints)x ^ splat_int(INT32_MIN)))
    PENLIGHT_QUICK_ONE(Abs, masked((Ints)x & splat_int(INT32_MAX)))
    PENLIGHT_QUICK_ONE(Relu, at_least(x, splat(0.0f)))
    PENLIGHT_QUICK_ONE(Square, x * x)
    PENLIGHT_QUICK_ONE(Sqrt, sqrt_of(x))
    PENLIGHT_QUICK_ONE(Rsqrt, splat(1.0f) / sqrt_of(x))
    PENLIGHT_QUICK_ONE(Reciprocal, splat(1.0f) / x)
    PENLIGHT_LONG_ONE(Exp, exp_of(x))
    PENLIGHT_ONE(Log, log_of(x))
    PENLIGHT_ONE(Sin, sin_or_cos<true>(x))
    PENLIGHT_ONE(Cos, sin_or_cos<false>(x))
    PENLIGHT_LONG_ONE(Erf, erf_of(x))
    PENLIGHT_LONG_ONE(Sigmoid, sigmoid_of(x))
    PENLIGHT_LONG_ONE(Tanh, tanh_of(x))
    PENLIGHT_LONG_ONE(Silu, activated<Activation::Silu>(x, none))
    PENLIGHT_LONG_ONE(Gelu, activated<Activation::Gelu>(x, none))
    PENLIGHT_LONG_ONE(GeluTanh, activated<Activation::GeluTanh>(x, none))
    PENLIGHT_ONE(HardSigmoid, activated<Activation::HardSigmoid>(x, none))
    PENLIGHT_ONE(HardSwish, activated<Activation::HardSwish>(x, none))
    PENLIGHT_ONE(Expm1, expm1_of(x))
    PENLIGHT_ONE(Log1p, log1p_of(x))
    PENLIGHT_TWO(Atan2, atan2_of(x, y))
    PENLIGHT_ONE(Atan, atan2_of(x, splat(1.0f)))
    PENLIGHT_ONE(Asin, asin_or_acos<true>(x))
    PENLIGHT_ONE(Acos, asin_or_acos<false>(x))
    PENLIGHT_TWO(Pow, pow_of(x, y))
    PENLIGHT_ONE(Floor, whole_of<Whole::Below>(x))
    PENLIGHT_ONE(Ceil, whole_of<Whole::Above>(x))
    PENLIGHT_ONE(Trunc, whole_of<Whole::TowardsZero>(x))
    PENLIGHT_ONE(Round, whole_of<Whole::Nearest>(x))
    PENLIGHT_ONE(Exp2, exp2_of(x))
    PENLIGHT_ONE(Log2, logarithm_of(x, 1.0))
    PENLIGHT_ONE(Log10, logarithm_of(x, 0.30102999566398120))
    PENLIGHT_ONE(Sinh, sinh_of(x))
    PENLIGHT_ONE(Cosh, cosh_of(x))
    PENLIGHT_ONE(Tan, tan_of(x))
    PENLIGHT_ONE(Asinh, asinh_of(x))
    PENLIGHT_ONE(Acosh, acosh_of(x))
    PENLIGHT_ONE(Atanh, atanh_of(x))
    PENLIGHT_TWO(Hypot, hypot_of(x, y))
    PENLIGHT_TWO(Fmod, fmod_of(x, y))
    PENLIGHT_ONE(Erfc, erfc_of(x))
    PENLIGHT_ONE(Lgamma, lgamma_of(x))
    PENLIGHT_TWO(MulComplex, product_of_pairs(x, y))
#undef PENLIGHT_QUICK_TWO
#undef PENLIGHT_QUICK_ONE
#undef PENLIGHT_QUICK_THREE
#undef PENLIGHT_TWO
#undef PENLIGHT_ONE
#undef PENLIGHT_LONG_ONE
#undef PENLIGHT_ELEMENT
  }
}

// --- operands that do not lie as the output does -------------------------------------------------

// Elements of the operand from its start to that of a run.
ptrdiff_t offset_of(const Elementwise& p, const ElementOperand& operand, ptrdiff_t run) {
  ptrdiff_t offset = 0;
  for (int loop = operand.outer - 1; loop >= 0 && run > 0; --loop) {
    offset += run % p.sizes[loop] * operand.strides[loop];
    run /= p.sizes[loop];
  }
  return offset;
}

float number_at(const ElementOperand& operand, ptrdiff_t place) {
  float value = 0;
  if (operand.is_mask) {
    const int32_t bits = static_cast<const uint8_t*>(operand.data)[place] ? -1 : 0;
    memcpy(&value, &bits, sizeof value);
  } else {
    value = static_cast<const float*>(operand.data)[place];
  }
  return value;
}

void copy_others(const ElementOperand& operand, ptrdiff_t place, ptrdiff_t stride, ptrdiff_t count,
                 float* to) {
  if (stride == 1) {  // a mask
    const uint8_t* from = static_cast<const uint8_t*>(operand.data) + place;
    for (; count >= kLanes; count -= kLanes, from += kLanes, to += kLanes, place += kLanes) {
      store(to, masked(load_bytes(from) != splat_int(0)));
    }
  }
  for (ptrdiff_t i = 0; i < count; ++i) to[i] = number_at(operand, place + i * stride);
}

// Both numbers, again and again.
PENLIGHT_INLINE Floats pair_at(const float* from) {
  Floats lanes;
  for (int lane = 0; lane < kLanes; ++lane) lanes[lane] = from[lane % 2];
  return lanes;
}

// Runs of `length` elements one after the other, of fewer than two vectors.
struct ShortRuns {
  ptrdiff_t length, count, step;  // elements from the start of one to that of the next
};
constexpr ptrdiff_t kShortRun = 2 * kLanes - 1;

// Has each run copied in pieces of the largest power of two that it has, one or two, which overlap where it
// is shorter: copy(to, from, at, Index<elements>()) copies some `at` so many into it. What is stored ends
// where the run does.
template <int most = kLanes, class Copy>
PENLIGHT_INLINE void copy_short(const ShortRuns& runs, const float* from, float* to, Copy&& copy) {
  if constexpr (most > 1) {
    if (runs.length < most) return copy_short<most / 2>(runs, from, to, copy);
  }
  const ptrdiff_t second = runs.length - most;
  if (second == 0) {
    for (ptrdiff_t i = 0; i < runs.count; ++i, from += runs.step, to += most)
      copy(to, from, 0, Index<most>());
    return;
  }
  for (ptrdiff_t i = 0; i < runs.count; ++i, from += runs.step, to += runs.length) {
    copy(to, from, 0, Index<most>());
    copy(to, from, second, Index<most>());
  }
}

// `count` elements from `place` of the output on.
void copy_runs(const Elementwise& p, const ElementOperand& operand, ptrdiff_t place, ptrdiff_t count,
               float* to) {
  const ptrdiff_t stride = operand.strides[p.loops - 1];
  const ptrdiff_t around = operand.outer ? p.sizes[operand.outer - 1] : 1;
  const ptrdiff_t step = operand.outer ? operand.strides[operand.outer - 1] : 0;
  ptrdiff_t run = place / operand.run, column = place % operand.run;
  const ptrdiff_t length = operand.run;
  const bool are_short = length <= kShortRun && !operand.is_mask && (stride == 0 || stride == 1);
  const float* const floats = static_cast<const float*>(operand.data);
  const auto copied = [](float* into, const float* from, ptrdiff_t at, auto size)
                          __attribute__((always_inline)) {
                            float some[size];
                            memcpy(some, from + at, sizeof some);
                            memcpy(into + at, some, sizeof some);
                          };
  const auto filled = [](float* into, const float* from, ptrdiff_t at, auto size)
                          __attribute__((always_inline)) {
                            const Floats number = splat(*from);
                            memcpy(into + at, &number, size * sizeof(float));
                          };
  const auto runs = [&](auto copy) __attribute__((always_inline)) {
    while (count > 0) {
      ptrdiff_t from = offset_of(p, operand, run);
      for (ptrdiff_t left = around - run % around; left > 0 && count > 0; --left, ++run, from += step) {
        if (stride == 1 && step == 0 && length == 2 && column == 0 && !operand.is_mask) {
          // One complex number for all the runs around.
          const ptrdiff_t pairs = min_of(left, count / 2);
          const Floats pair = pair_at(floats + from);
          for (ptrdiff_t i = 0; i < 2 * pairs; i += kLanes) store_part(to + i, pair, 2 * pairs - i);
          to += 2 * pairs;
          left -= pairs;
          run += pairs;
          count -= 2 * pairs;
          if (left == 0 || count == 0) break;
        }
        if (column == 0 && are_short && count >= length) {
          const ShortRuns whole = {length, min_of(left, count / length), step};
          if (stride == 0) {
            copy_short(whole, floats + from, to, filled);
          } else {
            copy_short(whole, floats + from, to, copied);
          }
          to += whole.count * length;
          from += whole.count * step;
          left -= whole.count;
          run += whole.count;
          count -= whole.count * length;
          if (left == 0 || count == 0) break;
        }
        const ptrdiff_t some = min_of(count, length - column);
        copy(from + column * stride, some);
        to += some;
        count -= some;
        column = 0;
      }
    }
  };
  if (stride == 0) {
    runs([&](ptrdiff_t from, ptrdiff_t some) __attribute__((always_inline)) {
      const Floats all = splat(number_at(operand, from));
      for (ptrdiff_t i = 0; i < some; i += kLanes) store_part(to + i, all, count - i);
    });
  } else if (stride == 1 && !operand.is_mask) {
    runs([&](ptrdiff_t from, ptrdiff_t some) __attribute__((always_inline)) {
      for (ptrdiff_t i = 0; i < some; i += kLanes) {
        store_part(to + i, load_part(floats + from + i, some - i), count - i);
      }
    });
  } else {
    runs([&](ptrdiff_t from, ptrdiff_t some) { copy_others(operand, from, stride, some, to); });
  }
}

// From a tile, which is padded to whole vectors.
void store_conditions(const float* from, ptrdiff_t count, uint8_t* to) {
  for (; count >= kLanes; count -= kLanes, from += kLanes, to += kLanes) store_bytes(to, (Ints)load(from));
  if (count == 0) return;
  uint8_t last[kLanes];
  store_bytes(last, (Ints)load(from));
  for (ptrdiff_t i = 0; i < count; ++i) to[i] = last[i];
}

// Where `operand` is for an item, copied to `buffer` or spread over `number` if need be.
Source source_of(const Elementwise& p, const ElementOperand& operand, ptrdiff_t place, ptrdiff_t count,
                 float* buffer, float* number) {
  if (operand.read == ElementRead::Dense) {
    return {static_cast<const float*>(operand.data) + place, kLanes, false};
  }
  const ptrdiff_t stride = operand.strides[p.loops - 1], column = place % operand.run;
  if (column + count <= operand.run && (stride == 0 || (stride == 1 && !operand.is_mask))) {
    const ptrdiff_t from = offset_of(p, operand, place / operand.run) + column * stride;
    if (stride == 1) return {static_cast<const float*>(operand.data) + from, kLanes, false};
    store(number, splat(number_at(operand, from)));
    return {number, 0, true};
  }
  copy_runs(p, operand, place, count, buffer);
  return {buffer, kLanes, true};
}

}  // namespace

void elementwise(const Elementwise& p) {
  Source sources[kElementRegisters + kElementOperands];
  float* const numbers = p.scratch + p.tiles * p.tile;
  for (int r = 0; r < min_of(p.tiles, kElementRegisters); ++r)
    sources[r] = {p.scratch + r * p.tile, kLanes, true};
  const ptrdiff_t width = p.sizes[p.loops - 1], item_rows = p.row_items ? 0 : p.item / width;
  for (ptrdiff_t i = p.first; i < p.last; ++i) {
    const ptrdiff_t row = p.row_items ? i / p.row_items : i * item_rows;
    const ptrdiff_t column = p.row_items ? i % p.row_items * p.item : 0, place = row * width + column;
    const ptrdiff_t count = min_of(p.item, p.row_items ? width - column : p.count - place);
    for (int k = 0; k < p.operand_count; ++k) {
      const ElementOperand& operand = p.operands[k];
      float *const buffer = p.scratch + operand.tile * p.tile, *const number = numbers + k * kPanel;
      Source& source = sources[kElementRegisters + k];
      if (operand.read == ElementRead::Number) {
        if (i == p.first) store(number, splat(number_at(operand, 0)));
        source = {number, 0, true};
      } else if (i == p.first || operand.read != ElementRead::Row || p.row_items) {
        source = source_of(p, operand, place, count, buffer, number);
      }
    }
    for (ptrdiff_t s = 0; s < p.step_count; ++s) {
      const ElementStep& step = p.steps[s];
      Source from[3];
      const int arity = arity_of(step.op);
      for (int a = 0; a < arity; ++a) from[a] = sources[step.from[a]];
      float* const tile = p.scratch + step.to * p.tile;
      const bool is_last = s + 1 == p.step_count, is_result = is_last && !p.conditions;
      run_step(step.op, from, {is_result ? p.output + place : tile, !is_result}, count);
      if (is_last && p.conditions) store_conditions(tile, count, p.conditions + place);
    }
  }
}

}  // namespace PENLIGHT_ISA
}  // namespace penlight::optimized
