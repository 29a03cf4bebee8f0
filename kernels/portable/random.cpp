// Random operators. random.h says which bits an element gets.
#include "random.h"

#include "kernels/common/checks.h"
#include "kernels/common/elementwise.h"

namespace penlight::portable {

namespace {

// out[i] = functor(bits of i, a[i], b[i]); operands broadcast to out's sizes, which are set.
// Result is double, or int64_t where that is too narrow.
template <class Result, class F>
void draw(KernelContext& ctx, Tensor& out, F functor, const Operand& a = Scalar(0),
          const Operand& b = Scalar(0)) {
  constexpr dim_t kBlock = 64;
  const RandomBits random(ctx.random());
  const Operand operands[] = {a, b};
  double in[2][kBlock];
  StridedLoop loop(out.sizes());
  loop.add(out);
  for (int k = 0; k < 2; ++k) {
    loop.add(operands[k].tensor());
    for (double& number : in[k]) number = operands[k].scalar().to<double>();
  }
  const dim_t step = loop.inner_stride(0);
  uint64_t place = 0;
  loop.for_each_row([&](const dim_t* offset, dim_t count) {
    for (dim_t done = 0; done < count; done += kBlock) {
      const int some = static_cast<int>(count - done < kBlock ? count - done : kBlock);
      uint64_t bits[kBlock];
      Result result[kBlock];
      random.fill(bits, place, some);
      place += static_cast<uint64_t>(some);
      for (int k = 0; k < 2; ++k) {
        const TensorImpl* const tensor = operands[k].tensor();
        if (!tensor) continue;
        const dim_t stride = loop.inner_stride(k + 1), at = offset[k + 1] + done * stride;
        const char* const from = static_cast<const char*>(tensor->data);
        load_block(in[k], tensor->dtype, from + at * static_cast<dim_t>(element_size(tensor->dtype)), stride,
                   some);
      }
      for (int i = 0; i < some; ++i) result[i] = functor(bits[i], in[0][i], in[1][i]);
      store_block(out, offset[0] + done * step, step, result, some);
    }
  });
}

// As many digits as the dtype has, so that rounding never gives the upper end.
int digits_of(ScalarType type) {
  return type == ScalarType::Double ? 53 : type == ScalarType::Float ? 24 : type == ScalarType::Half ? 11 : 8;
}

void uniform(KernelContext& ctx, double from, double to, Tensor& out) {
  if (!(from <= to) || !(to - from < HUGE_VAL))
    return ctx.fail("uniform: no finite interval between the limits");
  draw<double>(
      ctx, out,
      [digits = digits_of(out.scalar_type())](uint64_t bits, double low, double high) {
        return low + random::uniform(bits, digits) * (high - low);
      },
      Scalar(from), Scalar(to));
}

void normal(KernelContext& ctx, const Operand& mean, const Operand& deviation, Tensor& out) {
  if (!deviation.tensor() && !(deviation.scalar().to<double>() >= 0))
    return ctx.fail("normal: the standard deviation is negative");
  const auto at = [](uint64_t bits, double m, double s) { return m + s * random::normal(bits); };
  draw<double>(ctx, out, at, mean, deviation);
}

// `range` integers from `low` on. 64 bits make the bias of the remainder too small to see.
void integers_of(KernelContext& ctx, int64_t low, uint64_t range, Tensor& out) {
  return draw<int64_t>(ctx, out, [=](uint64_t bits, double, double) {
    return static_cast<int64_t>(static_cast<uint64_t>(low) + bits % range);
  });
}

// Integers of [low, high).
void integers(KernelContext& ctx, int64_t low, int64_t high, Tensor& out) {
  if (low >= high) return ctx.fail("random integers from {} up to, but not including, {}", low, high);
  integers_of(ctx, low, static_cast<uint64_t>(high) - static_cast<uint64_t>(low), out);
}

// The largest integer up to which the dtype has all of them.
int64_t integer_limit(ScalarType type) {
  if (type == ScalarType::Bool) return 1;
  if (type == ScalarType::Byte) return UINT8_MAX;
  if (is_integral(type)) return static_cast<int64_t>(UINT64_MAX >> (65 - 8 * element_size(type)));
  return int64_t{1} << digits_of(type);
}

// Each element is 1 with the probability `p`.
void bernoulli(KernelContext& ctx, const Operand& p, Tensor& out) {
  const auto one = [&](uint64_t bits, double chance, double) {
    if (!(chance >= 0 && chance <= 1)) ctx.fail(Status::KernelFailed, "a probability is not in [0, 1]");
    return static_cast<int64_t>(random::uniform(bits) < chance);
  };
  draw<int64_t>(ctx, out, one, p);
}

// What is dropped is multiplied by 0, as in ATen: NaN stays.
struct ScaleWhere {
  double scale;
  template <class T>
  T operator()(T x, T kept) const {
    return x * kept * static_cast<T>(scale);
  }
};

}  // namespace

void rand_out(KernelContext& ctx, IntArrayRef size, Tensor& out) {
  if (resize_to(ctx, out, size)) uniform(ctx, 0, 1, out);
}

void rand_like_out(KernelContext& ctx, const Tensor& self, Optional<MemoryFormat>, Tensor& out) {
  if (ctx.resize(out, self.sizes())) uniform(ctx, 0, 1, out);
}

void uniform_out(KernelContext& ctx, const Tensor& self, double from, double to, Optional<Generator>,
                 Tensor& out) {
  if (ctx.resize(out, self.sizes())) uniform(ctx, from, to, out);
}

void prims_uniform_out(KernelContext& ctx, IntArrayRef shape, Scalar low, Scalar high, ScalarType, Device,
                       IntArrayRef, Optional<Generator>, Tensor& out) {
  if (resize_to(ctx, out, shape)) uniform(ctx, low.to<double>(), high.to<double>(), out);
}

void prims_normal_out(KernelContext& ctx, IntArrayRef shape, Scalar mean, Scalar std, ScalarType, Device,
                      bool, Optional<Generator>, Tensor& out) {
  if (resize_to(ctx, out, shape)) normal(ctx, mean, std, out);
}

void randn_out(KernelContext& ctx, IntArrayRef size, Tensor& out) {
  if (resize_to(ctx, out, size)) normal(ctx, Scalar(0), Scalar(1), out);
}

void randn_like_out(KernelContext& ctx, const Tensor& self, Optional<MemoryFormat>, Tensor& out) {
  if (ctx.resize(out, self.sizes())) normal(ctx, Scalar(0), Scalar(1), out);
}

void normal_functional_out(KernelContext& ctx, const Tensor& self, double mean, double std,
                           Optional<Generator>, Tensor& out) {
  if (ctx.resize(out, self.sizes())) normal(ctx, Scalar(mean), Scalar(std), out);
}

void normal_float_float_out(KernelContext& ctx, double mean, double std, IntArrayRef size,
                            Optional<Generator>, Tensor& out) {
  if (resize_to(ctx, out, size)) normal(ctx, Scalar(mean), Scalar(std), out);
}

void normal_tensor_float_out(KernelContext& ctx, const Tensor& mean, double std, Optional<Generator>,
                             Tensor& out) {
  if (ctx.resize(out, mean.sizes())) normal(ctx, mean, Scalar(std), out);
}

void normal_float_tensor_out(KernelContext& ctx, double mean, const Tensor& std, Optional<Generator>,
                             Tensor& out) {
  if (ctx.resize(out, std.sizes())) normal(ctx, Scalar(mean), std, out);
}

void normal_tensor_tensor_out(KernelContext& ctx, const Tensor& mean, const Tensor& std, Optional<Generator>,
                              Tensor& out) {
  if (resize_to_both(ctx, out, mean, std)) normal(ctx, mean, std, out);
}

void exponential_out(KernelContext& ctx, const Tensor& self, double lambd, Optional<Generator>, Tensor& out) {
  if (!(lambd > 0)) return ctx.fail("exponential: the rate is not above 0");
  if (!ctx.resize(out, self.sizes())) return;
  return draw<double>(ctx, out, [=](uint64_t bits, double, double) {
    return -random::log(random::uniform_inside(bits)) / lambd;
  });
}

void randint_out(KernelContext& ctx, int64_t high, IntArrayRef size, Tensor& out) {
  if (resize_to(ctx, out, size)) integers(ctx, 0, high, out);
}

void randint_low_out(KernelContext& ctx, int64_t low, int64_t high, IntArrayRef size, Tensor& out) {
  if (resize_to(ctx, out, size)) integers(ctx, low, high, out);
}

void randint_like_out(KernelContext& ctx, const Tensor& self, int64_t high, Optional<MemoryFormat>,
                      Tensor& out) {
  if (ctx.resize(out, self.sizes())) integers(ctx, 0, high, out);
}

void randint_like_low_dtype_out(KernelContext& ctx, const Tensor& self, int64_t low, int64_t high,
                                Optional<MemoryFormat>, Tensor& out) {
  if (ctx.resize(out, self.sizes())) integers(ctx, low, high, out);
}

void random_out(KernelContext& ctx, const Tensor& self, Optional<Generator>, Tensor& out) {
  if (ctx.resize(out, self.sizes()))
    integers_of(ctx, 0, static_cast<uint64_t>(integer_limit(out.scalar_type())) + 1, out);
}

void random_to_out(KernelContext& ctx, const Tensor& self, int64_t to, Optional<Generator>, Tensor& out) {
  if (ctx.resize(out, self.sizes())) integers(ctx, 0, to, out);
}

void random_from_out(KernelContext& ctx, const Tensor& self, int64_t from, Optional<int64_t> to,
                     Optional<Generator>, Tensor& out) {
  const int64_t limit = integer_limit(out.scalar_type());
  if (ctx.resize(out, self.sizes()))
    integers(ctx, from, to ? *to : limit < INT64_MAX ? limit + 1 : limit, out);
}

void bernoulli_out(KernelContext& ctx, const Tensor& self, Optional<Generator>, Tensor& out) {
  if (ctx.resize(out, self.sizes())) bernoulli(ctx, self, out);
}

void bernoulli_float_out(KernelContext& ctx, const Tensor& self, double p, Optional<Generator>, Tensor& out) {
  if (ctx.resize(out, self.sizes())) bernoulli(ctx, Scalar(p), out);
}

void bernoulli_tensor_out(KernelContext& ctx, const Tensor& self, const Tensor& p, Optional<Generator>,
                          Tensor& out) {
  if (resize_to_both(ctx, out, self, p)) bernoulli(ctx, p, out);
}

void poisson_out(KernelContext& ctx, const Tensor& self, Optional<Generator>, Tensor& out) {
  if (!ctx.resize(out, self.sizes())) return;
  const auto events = [&](uint64_t bits, double rate, double) {
    if (rate >= 0 && rate < HUGE_VAL) return random::poisson(bits, rate);
    ctx.fail(Status::KernelFailed, "poisson: a rate is negative or not finite");
    return 0.0;
  };
  draw<double>(ctx, out, events, self);
}

void binomial_out(KernelContext& ctx, const Tensor& count, const Tensor& prob, Optional<Generator>,
                  Tensor& out) {
  if (!resize_to_both(ctx, out, count, prob)) return;
  const auto successes = [&](uint64_t bits, double n, double p) {
    if (n >= 0 && n < HUGE_VAL && p >= 0 && p <= 1) return random::binomial(bits, ::floor(n), p);
    ctx.fail(Status::KernelFailed,
             "binomial: a count is negative or not finite, or a probability not in [0, 1]");
    return 0.0;
  };
  draw<double>(ctx, out, successes, count, prob);
}

void native_dropout_out(KernelContext& ctx, const Tensor& input, double p, Optional<bool> train, Tensor& out,
                        Tensor& mask) {
  if (!ctx.resize(out, input.sizes()) || !ctx.resize(mask, input.sizes())) return;
  const bool drops = train.value_or(true);
  bernoulli(ctx, Scalar(drops ? 1 - p : 1.0), mask);
  if (!ctx.ok()) return;
  const double scale = !drops ? 1 : p == 1 ? 0 : 1 / (1 - p);
  map<Domain::Floating>(ctx, ScaleWhere{scale}, out, input, mask);
}

// Each order with the same probability: Fisher and Yates, from the end.
void randperm_out(KernelContext& ctx, int64_t n, Tensor& out) {
  if (n > integer_limit(out.scalar_type()))
    return ctx.fail("{} numbers do not fit {}", n, dtype_name(out.scalar_type()));
  if (!resize_to(ctx, out, {&n, 1})) return;
  const RandomBits random(ctx.random());
  const dim_t item = static_cast<dim_t>(out.element_size()), step = out.stride(0) * item;
  char* const at = static_cast<char*>(out.data_ptr());
  for (int64_t i = 0; i < n; ++i) store_element(out.scalar_type(), at + i * step, i);
  for (int64_t i = n - 1; i > 0; --i) {
    uint64_t bits[2];
    random.at(static_cast<uint64_t>(i), bits);
    const int64_t other = static_cast<int64_t>(bits[0] % (static_cast<uint64_t>(i) + 1));
    char kept[8];
    memcpy(kept, at + i * step, out.element_size());
    memmove(at + i * step, at + other * step, out.element_size());
    memcpy(at + other * step, kept, out.element_size());
  }
}

// Places drawn by weight, for each row of weights.
void multinomial_out(KernelContext& ctx, const Tensor& self, int64_t num_samples, bool replacement,
                     Optional<Generator>, Tensor& out) {
  const int rank = static_cast<int>(self.dim());
  if (!check(ctx, rank == 1 || rank == 2, "multinomial: weights have one or two dimensions")) return;
  const dim_t rows = rank == 2 ? self.size(0) : 1, places = self.size(rank - 1);
  if (num_samples <= 0 || places == 0 || (!replacement && num_samples > places))
    return ctx.fail("{} samples of {} places", num_samples, places);
  const dim_t sizes[] = {rows, static_cast<dim_t>(num_samples)};
  if (!ctx.resize(out, SizesRef(sizes + 2 - rank, static_cast<size_t>(rank)))) return;
  double* const weights = ctx.allocate_scratch_array<double>(static_cast<size_t>(places));
  if (!weights) return;
  const RandomBits random(ctx.random());
  for (dim_t row = 0; row < rows; ++row) {
    load_block(weights, self, rank == 2 ? row * self.stride(0) : 0, self.stride(rank - 1), places);
    double total = 0;
    for (dim_t i = 0; i < places; ++i) {
      if (!(weights[i] >= 0 && weights[i] < HUGE_VAL))
        return ctx.fail(Status::KernelFailed, "multinomial: a weight is negative or not finite");
      total += weights[i];
    }
    for (int64_t sample = 0; sample < num_samples; ++sample) {
      if (!(total > 0))
        return ctx.fail(Status::KernelFailed, "multinomial: fewer weights above 0 than samples");
      uint64_t bits[2];
      random.at(static_cast<uint64_t>(row * num_samples + sample), bits);
      double left = random::uniform(bits[0]) * total;
      dim_t chosen = 0, last = 0;
      for (; chosen < places; ++chosen) {
        if (weights[chosen] > 0) last = chosen;
        left -= weights[chosen];
        if (left < 0) break;
      }
      if (chosen == places) chosen = last;  // the rest was a rounding error
      const dim_t to = (rank == 2 ? row * out.stride(0) : 0) + sample * out.stride(rank - 1);
      out.data_ptr<int64_t>()[to] = chosen;
      if (replacement) continue;
      weights[chosen] = 0;
      total = 0;
      for (dim_t i = 0; i < places; ++i) total += weights[i];
    }
  }
}

}  // namespace penlight::portable
