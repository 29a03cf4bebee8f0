// softmax and log_softmax along one dimension.
//
// A row is read into scratch in its compute type, worked on there and written
// back, so any stride and dtype takes the same path.
#include "exponential.h"
#include "kernels/common/checks.h"
#include "kernels/common/span.h"

namespace penlight::portable {

// `log_result` is known when compiling: a program without log_softmax has no logarithm.
template <bool log_result, class T>
static void softmax_row(T* row, dim_t count) {
  const T largest = max_row(row, count);
  if constexpr (log_result) {
    T sum = 0;
    for (dim_t i = 0; i < count; ++i) sum += exp(row[i] - largest);
    const T shift = static_cast<T>(log(sum));
    for (dim_t i = 0; i < count; ++i) row[i] = row[i] - largest - shift;
  } else {
    const T factor = T(1) / exp_row(row, count, largest);
    for (dim_t i = 0; i < count; ++i) row[i] *= factor;
  }
}

template <bool log_result, class T>
static void softmax_as(KernelContext& ctx, const Tensor& self, dim_t dim, Tensor& out) {
  Span from(self.dtype()), from_row(self.dtype()), to(out.dtype()), to_row(out.dtype());
  for (dim_t d = 0; d < self.dim(); ++d) {
    (d == dim ? from_row : from).push(self.size(d), self.stride(d));
    (d == dim ? to_row : to).push(out.size(d), out.stride(d));
  }
  T* row = scratch<T>(ctx, from_row.count());
  if (!row) return;
  for (dim_t i = 0; i < from.count(); ++i) {
    from_row.load(row, self.const_data_ptr(), from.offset(i));
    softmax_row<log_result>(row, from_row.count());
    to_row.store(row, out.mutable_data_ptr(), to.offset(i));
  }
}

// `out` has the input's dtype, or float for 16-bit input (half_to_float).
template <bool log_result>
static void softmax(KernelContext& ctx, const Tensor& self, int64_t dim, Tensor& out) {
  if (!normalize_dim(ctx, dim, self.dim()) || !ctx.resize(out, self.sizes())) return;
  if (!is_floating(self.dtype()) || !is_floating(out.dtype()))
    return ctx.fail("softmax takes floating types, got {} and {}", dtype_name(self.dtype()),
                    dtype_name(out.dtype()));
  if (self.numel() == 0) return;
  const bool wide = self.dtype() == ScalarType::Double || out.dtype() == ScalarType::Double;
  dispatch_real(ctx, wide ? ScalarType::Double : ScalarType::Float, [&](auto zero) {
    softmax_as<log_result, decltype(zero)>(ctx, self, static_cast<dim_t>(dim), out);
  });
}

void softmax_out(KernelContext& ctx, const Tensor& self, int64_t dim, bool, Tensor& out) {
  softmax<false>(ctx, self, dim, out);
}

void log_softmax_out(KernelContext& ctx, const Tensor& self, int64_t dim, bool, Tensor& out) {
  softmax<true>(ctx, self, dim, out);
}

}  // namespace penlight::portable
