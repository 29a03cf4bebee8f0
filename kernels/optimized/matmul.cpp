// Matrix products of float32 whose second factor is known only when the program runs, or
// is used elsewhere too and so lies in the file as it is.
#include "isa.h"
#include "parallel.h"
#include "product.h"

namespace penlight::optimized {

namespace {

constexpr dim_t kFewRows = 4;
constexpr dim_t kTiny = 8;
constexpr dim_t kPanelsAtOnce = 8;

// C[m, n] = sum over k of A[m, k] * B[k, n] + bias[n]; A and C are dense.
struct Matrices {
  const float* a;
  const float* b;
  const float* bias;
  float* c;
  dim_t m, n, k;
  dim_t row_pitch, column_pitch;  // of B: elements from k to k + 1, from n to n + 1
};

void multiply_few(KernelContext& ctx, const Matrices& x) {
  FewRows rows{x.a, x.b, x.bias, x.c, x.m, x.k, x.column_pitch, x.n, 0, 0};
  // It is reading B that takes the time.
  const double operations = 8.0 * static_cast<double>(x.n) * static_cast<double>(x.k);
  const dim_t parts = parts_of(ctx, operations, (x.n + 15) / 16);
  const auto part = [&](size_t index) {
    FewRows mine = rows;
    const Range columns = range_of(index, parts, x.n, 16);
    mine.first = columns.first;
    mine.last = columns.last;
    routines().few_rows(mine);
  };
  ctx.parallel(static_cast<size_t>(parts), part);
}

// Some panels of B at a time, each part with memory of its own for them.
void multiply_panels(KernelContext& ctx, const Matrices& x) {
  const dim_t panels = (x.n + kPanel - 1) / kPanel, groups = (panels + kPanelsAtOnce - 1) / kPanelsAtOnce;
  const double operations =
      2.0 * static_cast<double>(x.m) * static_cast<double>(x.n) * static_cast<double>(x.k);
  const dim_t parts = parts_of(ctx, operations, groups);
  const size_t packed = static_cast<size_t>(kPanelsAtOnce * (1 + x.k) * kPanel) * sizeof(float);
  const size_t scratch = routines().product_scratch(over_matrix(x.m, x.k, x.k, x.n, x.n));
  PartMemory memory;
  if (!allocate_parts(ctx, parts, packed + scratch, memory)) return;
  const auto part = [&](size_t index) {
    float* panel = static_cast<float*>(memory.of(index));
    const Range range = range_of(index, parts, groups);
    for (dim_t g = range.first; g < range.last; ++g) {
      const dim_t first = g * kPanelsAtOnce * kPanel;
      const dim_t last = first + kPanelsAtOnce * kPanel < x.n ? first + kPanelsAtOnce * kPanel : x.n;
      routines().pack_matrix({x.b, x.bias, panel, x.row_pitch, x.column_pitch, x.k, first, last});
      Product product = over_matrix(x.m, x.k, x.k, last - first, x.n);
      product.input = x.a;
      product.packed = panel;
      product.output = x.c + first;
      product.scratch = reinterpret_cast<char*>(panel) + packed;
      routines().product(product);
    }
  };
  ctx.parallel(static_cast<size_t>(parts), part);
}

// So few products that arranging them would take longer.
void multiply_tiny(const Matrices& x) {
  constexpr dim_t kAtOnce = 4;
  for (dim_t i = 0; i < x.m; ++i) {
    const float* a = x.a + i * x.k;
    float* c = x.c + i * x.n;
    dim_t j = 0;
    for (; x.column_pitch == 1 && j + kAtOnce <= x.n; j += kAtOnce) {
      float sums[kAtOnce] = {};
      if (x.bias) memcpy(sums, x.bias + j, sizeof sums);
      for (dim_t k = 0; k < x.k; ++k) {
        const float* b = x.b + k * x.row_pitch + j;
        for (int l = 0; l < kAtOnce; ++l) sums[l] += a[k] * b[l];
      }
      memcpy(c + j, sums, sizeof sums);
    }
    for (; j < x.n; ++j) {
      const float* b = x.b + j * x.column_pitch;
      float sum = x.bias ? x.bias[j] : 0.0f;
      for (dim_t k = 0; k < x.k; ++k) sum += a[k] * b[k * x.row_pitch];
      c[j] = sum;
    }
  }
}

void multiply(KernelContext& ctx, const Matrices& x) {
  if (x.m <= kTiny && x.n <= kTiny && x.k <= kTiny) return multiply_tiny(x);
  if (x.m < kFewRows && x.row_pitch == 1) return multiply_few(ctx, x);
  multiply_panels(ctx, x);
}

bool is_dense_float(const Tensor& tensor) {
  return tensor.scalar_type() == ScalarType::Float && tensor.is_contiguous();
}

}  // namespace

Tensor& linear_out(KernelContext& ctx, const Tensor& input, const Tensor& weight,
                   const Optional<Tensor>& bias, Tensor& out) {
  const bool mine =
      is_dense_float(input) && is_dense_float(weight) && input.dim() >= 1 && weight.dim() == 2 &&
      out.scalar_type() == ScalarType::Float && input.size(-1) == weight.size(1) && weight.size(1) > 0 &&
      (!bias.has_value() ||
       (is_dense_float(bias.value()) && bias.value().dim() == 1 && bias.value().size(0) == weight.size(0)));
  if (!mine) {
    ctx.decline();
    return out;
  }
  dim_t sizes[kMaxDim];
  const dim_t dim = input.dim();
  for (dim_t d = 0; d < dim; ++d) sizes[d] = input.size(d);
  sizes[dim - 1] = weight.size(0);
  if (!ctx.resize(out, SizesRef(sizes, static_cast<size_t>(dim))) || out.numel() == 0) return out;
  if (!out.is_contiguous()) {
    ctx.decline();
    return out;
  }
  const dim_t n = weight.size(0), k = weight.size(1);
  multiply(ctx, {input.const_data_ptr<float>(), weight.const_data_ptr<float>(),
                 bias.has_value() ? bias.value().const_data_ptr<float>() : nullptr,
                 out.mutable_data_ptr<float>(), out.numel() / n, n, k, 1, k});
  return out;
}

Tensor& mm_out(KernelContext& ctx, const Tensor& self, const Tensor& mat2, Tensor& out) {
  const bool mine = is_dense_float(self) && is_dense_float(mat2) && self.dim() == 2 && mat2.dim() == 2 &&
                    out.scalar_type() == ScalarType::Float && self.size(1) == mat2.size(0) &&
                    self.size(1) > 0;
  if (!mine) {
    ctx.decline();
    return out;
  }
  const dim_t sizes[] = {self.size(0), mat2.size(1)};
  if (!ctx.resize(out, SizesRef(sizes, 2)) || out.numel() == 0) return out;
  multiply(ctx, {self.const_data_ptr<float>(), mat2.const_data_ptr<float>(), nullptr,
                 out.mutable_data_ptr<float>(), sizes[0], sizes[1], self.size(1), sizes[1], 1});
  return out;
}

Tensor& bmm_out(KernelContext& ctx, const Tensor& self, const Tensor& mat2, Tensor& out) {
  const bool mine = is_dense_float(self) && is_dense_float(mat2) && self.dim() == 3 && mat2.dim() == 3 &&
                    out.scalar_type() == ScalarType::Float && self.size(0) == mat2.size(0) &&
                    self.size(2) == mat2.size(1) && self.size(2) > 0;
  if (!mine) {
    ctx.decline();
    return out;
  }
  const dim_t m = self.size(1), n = mat2.size(2), k = self.size(2);
  const dim_t sizes[] = {self.size(0), m, n};
  if (!ctx.resize(out, SizesRef(sizes, 3)) || out.numel() == 0) return out;
  for (dim_t i = 0; i < sizes[0] && ctx.ok(); ++i) {
    multiply(ctx, {self.const_data_ptr<float>() + i * m * k, mat2.const_data_ptr<float>() + i * k * n,
                   nullptr, out.mutable_data_ptr<float>() + i * m * n, m, n, k, n, 1});
  }
  return out;
}

}  // namespace penlight::optimized
