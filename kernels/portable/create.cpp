// Tensors made from numbers: filled with one, or with a sequence.
#include "fill.h"
#include "kernels/common/math.h"
#include "kernels/common/strided.h"

namespace penlight::portable {

static void fill(KernelContext& ctx, Tensor& out, Scalar value) {
  char item[16] = {};
  if (scalar_item(ctx, value, out.scalar_type(), item)) fill_view(out.element_size(), item, view_of(out));
}

// out[i] = value(i), for a tensor of one dimension, in blocks of the type C.
template <class C, class F>
static void fill_sequence(Tensor& out, F value) {
  constexpr dim_t kBlock = 64;
  C block[kBlock];
  const dim_t count = out.numel(), stride = out.dim() == 0 ? 1 : out.stride(0);
  for (dim_t done = 0; done < count; done += kBlock) {
    const dim_t some = count - done < kBlock ? count - done : kBlock;
    for (dim_t i = 0; i < some; ++i) block[i] = value(done + i);
    store_block(out, done * stride, stride, block, some);
  }
}

static int64_t whole(Scalar value) {
  return value.isIntegral(true) ? value.to<int64_t>() : convert<int64_t>(value.to<double>());
}

// The nearer end counts, so that both are met exactly. C is the type of the step.
template <class C>
static void fill_linspace(Tensor& out, Scalar start, Scalar end, int64_t steps) {
  const C first = start.to<C>(), last = end.to<C>();
  if (steps == 1) return fill_sequence<C>(out, [=](dim_t) { return first; });
  const C step = (last - first) / static_cast<C>(steps - 1);
  const dim_t half = static_cast<dim_t>(steps / 2), top = static_cast<dim_t>(steps - 1);
  fill_sequence<C>(out, [=](dim_t i) {
    return i < half ? first + step * static_cast<C>(i) : last - step * static_cast<C>(top - i);
  });
}

void fill_scalar_out(KernelContext& ctx, const Tensor& self, Scalar value, Tensor& out) {
  if (ctx.resize(out, self.sizes())) fill(ctx, out, value);
}

void fill_tensor_out(KernelContext& ctx, const Tensor& self, const Tensor& value, Tensor& out) {
  if (!check(ctx, value.numel() == 1, "a tensor with one element is wanted for a number")) return;
  fill_scalar_out(ctx, self, item_of(value), out);
}

void full_out(KernelContext& ctx, IntArrayRef size, Scalar fill_value, Tensor& out) {
  if (resize_to(ctx, out, size)) fill(ctx, out, fill_value);
}

void full_like_out(KernelContext& ctx, const Tensor& self, Scalar fill_value, Optional<MemoryFormat>,
                   Tensor& out) {
  fill_scalar_out(ctx, self, fill_value, out);
}

void new_full_out(KernelContext& ctx, const Tensor&, IntArrayRef size, Scalar fill_value, Tensor& out) {
  full_out(ctx, size, fill_value, out);
}

void number_out(KernelContext& ctx, int64_t number, IntArrayRef size, Tensor& out) {
  full_out(ctx, size, number, out);
}

void number_like_out(KernelContext& ctx, int64_t number, const Tensor& self, Optional<MemoryFormat>,
                     Tensor& out) {
  fill_scalar_out(ctx, self, number, out);
}

void new_number_out(KernelContext& ctx, int64_t number, const Tensor&, IntArrayRef size, Tensor& out) {
  full_out(ctx, size, number, out);
}

// An "empty" tensor is filled as well: what it holds must not depend on what the
// memory was used for before.
void empty_out(KernelContext& ctx, IntArrayRef size, Optional<MemoryFormat>, Tensor& out) {
  full_out(ctx, size, 0, out);
}

// Where elements lie is said by the program: neither a dim order nor strides are looked at.
void empty_dim_order_out(KernelContext& ctx, IntArrayRef size, Optional<IntArrayRef>, Tensor& out) {
  full_out(ctx, size, 0, out);
}

void scalar_tensor_out(KernelContext& ctx, Scalar s, Tensor& out) {
  if (ctx.resize(out, SizesRef())) fill(ctx, out, s);
}

void arange_start_out(KernelContext& ctx, Scalar start, Scalar end, Scalar step, Tensor& out) {
  const double first = start.to<double>(), last = end.to<double>(), by = step.to<double>();
  if (by == 0 || (last - first) / by < 0 || !(last - first < 9e15 && first - last < 9e15))
    return ctx.fail("arange: the step must lead from start to end");
  // ATen counts in whole numbers for int64 alone: arange(0, 3.1) has 3 elements there and 4 of int32.
  const bool integral = out.scalar_type() == ScalarType::Long ||
                        (start.isIntegral(true) && end.isIntegral(true) && step.isIntegral(true));
  dim_t count = static_cast<dim_t>(math::ceil((last - first) / by));
  if (integral) {
    const int64_t a = whole(start), b = whole(end), s = whole(step);
    if (!check(ctx, s != 0, "arange: the step of whole numbers is 0")) return;
    count = static_cast<dim_t>((b - a + s - (s > 0 ? 1 : -1)) / s);
  }
  if (!ctx.resize(out, SizesRef(&count, 1))) return;
  if (is_floating(out.scalar_type())) {
    fill_sequence<double>(out, [=](dim_t i) { return first + by * static_cast<double>(i); });
  } else {
    const int64_t from = whole(start), s = whole(step);
    fill_sequence<int64_t>(out, [=](int64_t i) { return math::plus(from, math::times(s, i)); });
  }
}

void arange_out(KernelContext& ctx, Scalar end, Tensor& out) {
  arange_start_out(ctx, Scalar(0), end, Scalar(1), out);
}

void linspace_out(KernelContext& ctx, Scalar start, Scalar end, int64_t steps, Tensor& out) {
  if (steps < 0) return ctx.fail("linspace: {} steps", steps);
  if (!resize_to(ctx, out, {&steps, 1})) return;
  const ScalarType type = out.scalar_type();
  if (type == ScalarType::Double) {
    fill_linspace<double>(out, start, end, steps);
  } else if (is_floating(type)) {
    fill_linspace<float>(out, start, end, steps);
  } else {
    // The ends are whole numbers. Products are rounded with their sums, as ATen's are: 28 / 7 is to be 4.
    const int64_t first = whole(start), last = whole(end);
    const double low = static_cast<double>(first), high = static_cast<double>(last);
    const double step = steps > 1 ? (high - low) / static_cast<double>(steps - 1) : 0;
    const dim_t half = static_cast<dim_t>(steps / 2), top = static_cast<dim_t>(steps - 1);
    fill_sequence<int64_t>(out, [=](dim_t i) {
      if (top == 0) return first;
      return convert<int64_t>(i < half ? ::fma(step, static_cast<double>(i), low)
                                       : ::fma(-step, static_cast<double>(top - i), high));
    });
  }
}

void eye_m_out(KernelContext& ctx, int64_t n, int64_t m, Tensor& out) {
  const int64_t size[] = {n, m};
  char item[16] = {};
  full_out(ctx, size, 0, out);
  if (!ctx.ok() || !scalar_item(ctx, 1, out.scalar_type(), item)) return;
  View diagonal = view_of(out);
  if (diagonal_view(ctx, diagonal, 0, 0, 1)) fill_view(out.element_size(), item, diagonal);
}

void eye_out(KernelContext& ctx, int64_t n, Tensor& out) { return eye_m_out(ctx, n, n, out); }

}  // namespace penlight::portable
