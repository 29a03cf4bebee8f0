// Searching sorted sequences, and histograms.
#include "indexing.h"
#include "kernels/common/elementwise.h"
#include "kernels/common/span.h"
#include "likeness.h"

namespace penlight::portable {

constexpr dim_t kBlock = 128;

// The first place in the sequence that is not less than x, or with `right` the
// first that is greater. Comparisons with NaN are false, so NaN goes to the end.
// Halves what is left without a branch, which nobody could predict.
template <class C, class T>
static int64_t search_one(const char* sequence, dim_t stride, dim_t length, const char* sorter,
                          dim_t sorter_stride, C x, bool right) {
  dim_t low = 0;
  for (dim_t left = length; left > 0;) {
    const dim_t half = left / 2;
    dim_t at = low + half;
    if (sorter) at = static_cast<dim_t>(detail::load_item<int64_t>(sorter + at * sorter_stride));
    const C value = detail::load_as<C, T>(sequence + at * stride);
    const dim_t before = right ? !(value > x) : !(value >= x);
    low += -before & (half + 1);
    left = half - (before & ~left & 1);
  }
  return low;
}

static bool check_sorter(KernelContext& ctx, const Tensor& sequence, const Tensor& sorter) {
  if (sorter.scalar_type() != ScalarType::Long || !sorter.sizes().equals(sequence.sizes()))
    return ctx.refuse("the sorter has dtype {} and {} elements, the sequence {}",
                      dtype_name(sorter.scalar_type()), sorter.numel(), sequence.numel());
  const dim_t last = sorter.dim() - 1;
  const IndexedDim in_row = {static_cast<int>(last), last < 0 ? 1 : sorter.size(last), 0, false};
  Elements places(view_of(sorter));
  for (dim_t left = sorter.numel(); left > 0; --left) {
    dim_t offset = 0;
    if (!add_offsets(ctx, in_row, ScalarType::Long, places.next(), 0, 1, &offset)) return false;
  }
  return true;
}

template <class C>
static void search_as(KernelContext& ctx, const Tensor& sequence, const Tensor& self, const Tensor* sorter,
                      bool right, const Tensor& out) {
  int64_t (*search)(const char*, dim_t, dim_t, const char*, dim_t, C, bool) = nullptr;
  dispatch<RealBool>(ctx, sequence.scalar_type(),
                     [&](auto tag) { search = search_one<C, typename decltype(tag)::type>; });
  if (!search || self.numel() == 0) return;
  View rows = at_least_1d(sequence), sorter_rows = at_least_1d(sorter ? *sorter : sequence);
  const View values = at_least_1d(self);
  const View to = at_least_1d(out);
  const int last = rows.dim - 1, inner = values.dim - 1;
  const dim_t length = rows.sizes[last], stride = rows.strides[last], count = values.sizes[inner];
  const dim_t sorter_stride = sorter_rows.strides[last];
  const dim_t value_step = values.strides[inner], to_step = to.strides[inner];
  const dim_t item = static_cast<dim_t>(self.element_size()), place = static_cast<dim_t>(out.element_size());
  for (int d = last; d < inner; ++d) rows.strides[d] = sorter_rows.strides[d] = 0;
  for_each_place({&values, &to, &rows, &sorter_rows}, inner, [=, &self, &out](char* const* at) {
    const char *const row = at[2], *const sorter_row = sorter ? at[3] : nullptr;
    for (dim_t first = 0; first < count; first += kBlock) {
      const dim_t some = count - first < kBlock ? count - first : kBlock;
      C x[kBlock];
      int64_t places[kBlock];
      load_block(x, self.scalar_type(), at[0] + first * value_step, value_step / item, some);
      for (dim_t i = 0; i < some; ++i)
        places[i] = search(row, stride, length, sorter_row, sorter_stride, x[i], right);
      store_block(out.scalar_type(), at[1] + first * to_step, to_step / place, places, some);
    }
  });
}

// A sequence of one dimension serves all values; one of more has a row for each row of values.
static void search_all(KernelContext& ctx, const Tensor& sequence, const Tensor& self, const Tensor* sorter,
                       bool right, Tensor& out) {
  if (out.scalar_type() != ScalarType::Int && out.scalar_type() != ScalarType::Long)
    return ctx.fail("places are int32 or int64, not {}", dtype_name(out.scalar_type()));
  if ((sorter && !check_sorter(ctx, sequence, *sorter)) || !ctx.resize(out, self.sizes())) return;
  if (is_floating(self.scalar_type()) || is_floating(sequence.scalar_type()))
    return search_as<double>(ctx, sequence, self, sorter, right, out);
  search_as<int64_t>(ctx, sequence, self, sorter, right, out);
}

// `number` as a tensor without dimensions, of the dtype that it and the sequence promote to.
static void set_number(Likeness& like, Scalar number, int64_t* element) {
  const Operand operands[] = {like.tensor, number};
  like.impl.dtype = promote(operands, 2);
  like.impl.data = element;
  like.impl.dim = 0;
  like.impl.numel = 1;
  store_scalar(like.impl.dtype, element, number);
}

void bucketize_tensor_out(KernelContext& ctx, const Tensor& self, const Tensor& boundaries, bool, bool right,
                          Tensor& out) {
  if (check(ctx, boundaries.dim() == 1, "boundaries have one dimension"))
    search_all(ctx, boundaries, self, nullptr, right, out);
}

void bucketize_scalar_out(KernelContext& ctx, Scalar self, const Tensor& boundaries, bool, bool right,
                          Tensor& out) {
  Likeness number(boundaries);
  int64_t element;
  set_number(number, self, &element);
  bucketize_tensor_out(ctx, number.tensor, boundaries, false, right, out);
}

// `side`, where given, says the same as `right` in words.
void searchsorted_tensor_out(KernelContext& ctx, const Tensor& sorted_sequence, const Tensor& self, bool,
                             bool right, Optional<StringView> side, Optional<Tensor> sorter, Tensor& out) {
  bool fits = sorted_sequence.dim() == 1 || (self.dim() == sorted_sequence.dim() && self.dim() > 0);
  for (int d = 0; fits && sorted_sequence.dim() > 1 && d + 1 < self.dim(); ++d)
    fits = self.size(d) == sorted_sequence.size(d);
  const bool to_right = side ? *side == "right" : right;
  if (!check(ctx, fits, "the sequence has one dimension, or those of the values but for the last") ||
      !check(ctx, !side || to_right || (*side == "left" && !right),
             "side is \"left\" or \"right\" and agrees with right"))
    return;
  search_all(ctx, sorted_sequence, self, sorter ? &sorter.value() : nullptr, to_right, out);
}

void searchsorted_scalar_out(KernelContext& ctx, const Tensor& sorted_sequence, Scalar self, bool, bool right,
                             Optional<StringView> side, Optional<Tensor> sorter, Tensor& out) {
  Likeness number(sorted_sequence);
  int64_t element;
  set_number(number, self, &element);
  searchsorted_tensor_out(ctx, sorted_sequence, number.tensor, false, right, side, sorter, out);
}

// Calls body(element) for each element as C.
template <class C, class Body>
static void for_each_element(const Tensor& self, Body&& body) {
  Elements elements(view_of(self));
  for (dim_t left = self.numel(); left > 0; --left)
    body(load_element<C>(self.scalar_type(), elements.next()));
}

// In C, every step rounded to T, as ATen computes it in the element type.
template <class C, class T>
static void histogram(KernelContext& ctx, const Tensor& self, dim_t bins, C low, C high, int64_t* counts) {
  const auto rounded = [](C x) { return convert<C>(convert<T>(x)); };
  if (low == high && self.numel() > 0) {
    bool first = true;
    for_each_element<C>(self, [&](C x) {
      if (first || x < low || x != x) low = x;
      if (first || x > high || x != x) high = x;
      first = false;
    });
  }
  if (low == high) {
    low = rounded(low - C(1));
    high = rounded(high + C(1));
  }
  if (!(low < high) || low - low != 0 || high - high != 0)
    return ctx.fail("a histogram needs a finite range, with its least number first");
  for_each_element<C>(self, [&](C x) {
    if (!(x >= low && x <= high)) return;
    const C scaled = rounded(rounded(x - low) * rounded(static_cast<C>(bins)));
    const int64_t bin = static_cast<int64_t>(rounded(scaled / rounded(high - low)));
    ++counts[bin < bins ? bin : bins - 1];
  });
}

void histc_out(KernelContext& ctx, const Tensor& self, int64_t bins, Scalar min, Scalar max, Tensor& out) {
  const dim_t size = static_cast<dim_t>(bins);
  if (!check(ctx, bins > 0, "a histogram has at least one bin") || !check_same_dtype(ctx, self, out)) return;
  if (!ctx.resize(out, SizesRef(&size, 1))) return;
  int64_t* counts = ctx.allocate_scratch_array<int64_t>(static_cast<size_t>(size));
  if (!counts) return;
  for (dim_t i = 0; i < size; ++i) counts[i] = 0;
  dispatch<Floats>(ctx, out.scalar_type(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    using C = Compute<T>;
    const T low = convert<T>(min.to<double>()), high = convert<T>(max.to<double>());
    histogram<C, T>(ctx, self, size, convert<C>(low), convert<C>(high), counts);
  });
  if (ctx.ok()) store_block(out.scalar_type(), out.data_ptr(), out.stride(0), counts, size);
}

// How often each whole number occurs, or the sum of the weights that come with it.
void bincount_out(KernelContext& ctx, const Tensor& self, Optional<Tensor> weights, int64_t minlength,
                  Tensor& out) {
  const dim_t count = self.numel();
  if (!check(ctx, self.dim() == 1 || count == 0, "bincount takes a tensor of one dimension") ||
      !check(ctx, minlength >= 0, "bincount: the least length is below 0") ||
      !check(ctx, !weights || (weights->dim() == 1 && weights->numel() == count),
             "bincount takes as many weights as numbers"))
    return;
  const int64_t* numbers = dense_copy<int64_t>(ctx, self);
  const double* shares = weights ? dense_copy(ctx, weights.value()) : nullptr;
  if (!ctx.ok()) return;
  constexpr int64_t kMost = INTPTR_MAX / 8;  // so that sizes in bytes do not overflow
  if (!check(ctx, minlength < kMost, "bincount: the least length is too large")) return;
  int64_t length = minlength;
  for (dim_t i = 0; i < count; ++i) {
    if (numbers[i] < 0 || numbers[i] >= kMost)
      return ctx.fail(Status::KernelFailed, "bincount: {} cannot be counted", numbers[i]);
    if (numbers[i] >= length) length = numbers[i] + 1;
  }
  const dim_t size = static_cast<dim_t>(length);
  if (!ctx.resize(out, SizesRef(&size, 1))) return;
  const auto add_up = [&](auto zero) {
    using C = decltype(zero);
    C* sums = scratch<C>(ctx, size);
    if (!sums) return;
    for (dim_t i = 0; i < size; ++i) sums[i] = zero;
    for (dim_t i = 0; i < count; ++i)
      sums[numbers[i]] += same_type<C, double> && shares ? static_cast<C>(shares[i]) : C(1);
    dense_store(sums, out);
  };
  is_floating(out.scalar_type()) ? add_up(0.0) : add_up(int64_t{0});
}

}  // namespace penlight::portable
