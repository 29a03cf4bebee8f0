// Matrix products: mm, bmm, addmm, baddbmm, addmv, mv, dot, linear, grouped_linear.
//
// All of them are product.h on views of their arguments, so any strides do.
#include "kernels/common/complex.h"
#include "kernels/common/groups.h"
#include "kernels/common/strided.h"
#include "product.h"

namespace penlight::portable {

// A dimension of size 1 has whatever stride: say 1, which helps to take fast paths.
static MatrixView matrix_of(const Tensor& tensor, dim_t row, dim_t column) {
  return {tensor.const_data_ptr(), tensor.stride(row), tensor.stride(column)};
}

// `tensor` read as if it had been broadcast to [m, n]; sets `view`.
static bool broadcast_matrix(KernelContext& ctx, const Tensor& tensor, dim_t m, dim_t n, MatrixView& view) {
  const dim_t dim = tensor.dim();
  const dim_t rows = dim >= 2 ? tensor.size(-2) : 1, columns = dim >= 1 ? tensor.size(-1) : 1;
  if (dim > 3 || (rows != m && rows != 1) || (columns != n && columns != 1))
    return ctx.refuse("self [{}, {}] cannot be broadcast to [{}, {}]", rows, columns, m, n);
  view = {tensor.const_data_ptr(), rows == 1 ? 0 : tensor.stride(-2), columns == 1 ? 0 : tensor.stride(-1)};
  return true;
}

// Complex numbers are seldom multiplied by the matrix: sum by sum.
static void multiply_complex(dim_t m, dim_t n, dim_t k, const MatrixView& a, const MatrixView& b,
                             const Epilogue& epilogue, ScalarType dtype, char* out, dim_t row, dim_t column) {
  constexpr dim_t kBlock = 32;
  const dim_t item = static_cast<dim_t>(element_size(dtype));
  const auto at = [item](const void* data, dim_t offset) {
    return static_cast<const char*>(data) + offset * item;
  };
  const Complex alpha(epilogue.alpha.to<double>()), beta(epilogue.beta.to<double>());
  for (dim_t i = 0; i < m; ++i) {
    for (dim_t j = 0; j < n; ++j) {
      Complex sum(0), x[kBlock], y[kBlock];
      for (dim_t first = 0; first < k; first += kBlock) {
        const dim_t count = k - first < kBlock ? k - first : kBlock;
        load_block(x, dtype, at(a.data, i * a.row + first * a.column), a.column, count);
        load_block(y, dtype, at(b.data, j * b.column + first * b.row), b.row, count);
        for (dim_t l = 0; l < count; ++l) sum = sum + x[l] * y[l];
      }
      sum = alpha * sum;
      const MatrixView& addend = epilogue.addend;
      if (addend.data && beta != Complex(0))
        sum = sum + beta * load_element<Complex>(dtype, at(addend.data, i * addend.row + j * addend.column));
      store_element(dtype, out + (i * row + j * column) * item, sum);
    }
  }
}

// out = alpha * (a @ b) + beta * addend for each row of `batch`, a loop over out, a, b and the addend.
static void multiply(KernelContext& ctx, dim_t m, dim_t n, dim_t k, const MatrixView& a, const MatrixView& b,
                     const Epilogue& epilogue, Tensor& out, dim_t out_row, dim_t out_column,
                     const StridedLoop& batch = StridedLoop()) {
  const dim_t item = static_cast<dim_t>(out.element_size());
  const auto for_each = [&](auto&& work) {
    const auto moved = [item](const MatrixView& view, dim_t offset) {
      const char* data = static_cast<const char*>(view.data);
      return MatrixView{data ? data + offset * item : nullptr, view.row, view.column};
    };
    batch.for_each_row([&](const dim_t* at, dim_t) {
      const Epilogue here = {epilogue.alpha, epilogue.beta, moved(epilogue.addend, at[3])};
      work(moved(a, at[1]), moved(b, at[2]), here, out.mutable_data_ptr<char>() + at[0] * item);
    });
  };
  if (kComplexSelected && is_complex(out.dtype())) {
    for_each([&](const MatrixView& x, const MatrixView& y, const Epilogue& here, char* to) {
      multiply_complex(m, n, k, x, y, here, out.dtype(), to, out_row, out_column);
    });
    return;
  }
  dispatch<Real>(ctx, out.dtype(), [&](auto tag) {
    using S = typename decltype(tag)::type;
    Product<S> product;
    if (!product.prepare(ctx, m, n, k, a, b)) return;
    for_each([&](const MatrixView& x, const MatrixView& y, const Epilogue& here, char* to) {
      product.run(x, y, here, reinterpret_cast<S*>(to), out_row, out_column);
    });
  });
}

// mm and addmm of rank 2, bmm and baddbmm of rank 3.
static void multiply_matrices(KernelContext& ctx, dim_t rank, const Tensor* self, const Tensor& a,
                              const Tensor& b, Scalar beta, Scalar alpha, Tensor& out) {
  const bool batched = rank == 3;
  if (!check_rank(ctx, a, rank, batched ? "the first batch" : "the first matrix") ||
      !check_rank(ctx, b, rank, batched ? "the second batch" : "the second matrix") ||
      !check_same_dtype(ctx, a, b) || !check_same_dtype(ctx, a, out))
    return;
  const dim_t count = batched ? a.size(0) : 1, m = a.size(-2), k = a.size(-1), n = b.size(-1);
  if (b.size(-2) != k) return ctx.fail("[{}, {}] times [{}, {}]: inner sizes differ", m, k, b.size(-2), n);
  if (batched && b.size(0) != count)
    return ctx.fail("a batch of {} matrices times one of {}", count, b.size(0));
  Epilogue epilogue;
  dim_t addend_step = 0;
  if (self) {
    if (!check_same_dtype(ctx, a, *self)) return;
    if (self->dim() > rank && !check_rank(ctx, *self, rank, "self")) return;
    if (!broadcast_matrix(ctx, *self, m, n, epilogue.addend)) return;
    if (self->dim() == 3 && self->size(0) != 1) {
      if (self->size(0) != count)
        return ctx.fail("self has a batch of {}, the matrices of {}", self->size(0), count);
      addend_step = self->stride(0);
    }
    epilogue.alpha = alpha;
    epilogue.beta = beta;
  }
  const dim_t sizes[] = {count, m, n};
  if (!ctx.resize(out, batched ? SizesRef(sizes, 3) : SizesRef(sizes + 1, 2))) return;
  // A row for each of the batch.
  const dim_t shape[] = {count, 1};
  const dim_t steps[] = {out.stride(0), a.stride(0), b.stride(0), addend_step};
  StridedLoop batch(shape);
  for (const dim_t step : steps) {
    const dim_t strides[] = {step, 0};
    batch.add(shape, strides);
  }
  multiply(ctx, m, n, k, matrix_of(a, -2, -1), matrix_of(b, -2, -1), epilogue, out, out.stride(-2),
           out.stride(-1), batch);
}

// mv and addmv.
static void multiply_vector(KernelContext& ctx, const Tensor* self, const Tensor& matrix, const Tensor& vec,
                            Scalar beta, Scalar alpha, Tensor& out) {
  if (!check_rank(ctx, matrix, 2, "the matrix") || !check_rank(ctx, vec, 1, "the vector")) return;
  if (!check_same_dtype(ctx, matrix, vec) || !check_same_dtype(ctx, matrix, out)) return;
  const dim_t m = matrix.size(0), k = matrix.size(1);
  if (vec.size(0) != k) return ctx.fail("[{}, {}] times [{}]: inner sizes differ", m, k, vec.size(0));
  Epilogue epilogue;
  if (self) {
    if (!check_same_dtype(ctx, matrix, *self)) return;
    const dim_t length = self->dim() == 0 ? 1 : self->size(0);
    if (self->dim() > 1 || (length != m && length != 1))
      return ctx.fail("self of {} elements cannot be broadcast to [{}]", self->numel(), m);
    epilogue = {alpha, beta, {self->const_data_ptr(), length == 1 ? 0 : self->stride(0), 0}};
  }
  const dim_t sizes[] = {m};
  if (!ctx.resize(out, sizes)) return;
  multiply(ctx, m, 1, k, matrix_of(matrix, 0, 1), {vec.const_data_ptr(), vec.stride(0), 1}, epilogue, out,
           out.stride(0), 1);
}

void multiply_out(KernelContext& ctx, int rank, const Tensor& self, const Tensor& mat2, Tensor& out) {
  multiply_matrices(ctx, rank, nullptr, self, mat2, 1, 1, out);
}

void add_product_out(KernelContext& ctx, int rank, const Tensor& self, const Tensor& mat1, const Tensor& mat2,
                     Scalar beta, Scalar alpha, Tensor& out) {
  multiply_matrices(ctx, rank, &self, mat1, mat2, beta, alpha, out);
}

void mv_out(KernelContext& ctx, const Tensor& self, const Tensor& vec, Tensor& out) {
  multiply_vector(ctx, nullptr, self, vec, 1, 1, out);
}

void addmv_out(KernelContext& ctx, const Tensor& self, const Tensor& mat, const Tensor& vec, Scalar beta,
               Scalar alpha, Tensor& out) {
  multiply_vector(ctx, &self, mat, vec, beta, alpha, out);
}

void dot_out(KernelContext& ctx, const Tensor& self, const Tensor& tensor, Tensor& out) {
  if (!check_rank(ctx, self, 1, "self") || !check_rank(ctx, tensor, 1, "tensor")) return;
  if (!check_same_dtype(ctx, self, tensor) || !check_same_dtype(ctx, self, out)) return;
  const dim_t k = self.size(0);
  if (tensor.size(0) != k) return ctx.fail("[{}] times [{}]", k, tensor.size(0));
  if (!ctx.resize(out, {})) return;
  multiply(ctx, 1, 1, k, {self.const_data_ptr(), 1, self.stride(0)},
           {tensor.const_data_ptr(), tensor.stride(0), 1}, Epilogue(), out, 1, 1);
}

// input [..., in], weight [out, in] or [in], bias [out].
void linear_out(KernelContext& ctx, const Tensor& input, const Tensor& weight, Optional<Tensor> bias,
                Tensor& out) {
  const dim_t dim = input.dim();
  if (dim < 1 || weight.dim() < 1 || weight.dim() > 2 || input.size(-1) != weight.size(-1))
    return ctx.fail("input with last size {} ({} dimensions), weight with last size {} ({})",
                    dim ? input.size(-1) : 1, dim, weight.dim() ? weight.size(-1) : 1, weight.dim());
  if (!check_same_dtype(ctx, input, weight) || !check_same_dtype(ctx, input, out)) return;
  const bool vector = weight.dim() == 1;  // then the result has no last dimension
  const dim_t k = input.size(-1), n = vector ? 1 : weight.size(0);
  Epilogue epilogue;
  if (bias) {
    const Tensor& addend = bias.value();
    if (!check_same_dtype(ctx, input, addend)) return;
    if (addend.dim() > 1 || (addend.numel() != n && addend.numel() != 1))
      return ctx.fail("bias of {} elements for {} outputs", addend.numel(), n);
    epilogue.addend = {addend.const_data_ptr(), 0, addend.numel() == 1 ? 0 : addend.stride(0)};
  }
  dim_t sizes[kMaxDim];
  for (dim_t d = 0; d < dim - 1; ++d) sizes[d] = input.size(d);
  if (!vector) sizes[dim - 1] = n;
  if (!ctx.resize(out, SizesRef(sizes, static_cast<size_t>(vector ? dim - 1 : dim)))) return;

  // Leading dimensions that lie evenly in both tensors are one dimension of rows;
  // what is left outside of it is walked as batches.
  const size_t outer = static_cast<size_t>(dim - 1);
  const SizesRef leading = input.sizes().slice(0, outer);
  StridedLoop batch(leading);
  batch.add(leading, out.strides().slice(0, outer));
  batch.add(leading, input.strides().slice(0, outer));
  batch.add(SizesRef(), SizesRef());
  batch.add(SizesRef(), SizesRef());
  batch.simplify();
  multiply(ctx, batch.inner_size(), n, k, {input.const_data_ptr(), batch.inner_stride(1), input.stride(-1)},
           {weight.const_data_ptr(), weight.stride(-1), vector ? k : weight.stride(0)}, epilogue, out,
           batch.inner_stride(0), vector ? 1 : out.stride(dim - 1), batch);
}

// input [rows, in], weight [groups, out, in]; rows that are of no group give zeros.
void grouped_linear_out(KernelContext& ctx, const Tensor& input, const Tensor& weight, const Tensor& ends,
                        Tensor& out) {
  if (!check_rank(ctx, input, 2, "input") || !check_rank(ctx, weight, 3, "weight")) return;
  if (!check_same_dtype(ctx, input, weight) || !check_same_dtype(ctx, input, out)) return;
  const dim_t rows = input.size(0), k = input.size(1), n = weight.size(1);
  const Groups groups(ends);
  if (!groups.check(ctx, rows)) return;
  if (weight.size(2) != k || weight.size(0) != groups.count())
    return ctx.fail("input [{}, {}] in {} groups, weight [{}, {}, {}]", rows, k, groups.count(),
                    weight.size(0), n, weight.size(2));
  const dim_t sizes[] = {rows, n};
  if (!ctx.resize(out, sizes) || out.numel() == 0) return;
  dim_t most = 0;
  for (dim_t g = 0; g < groups.count(); ++g) {
    const dim_t count = groups.last(g) - groups.first(g);
    if (count > most) most = count;
  }
  const MatrixView x = matrix_of(input, 0, 1), first_matrix = matrix_of(weight, 2, 1);
  dispatch<Floats>(ctx, out.dtype(), [&](auto tag) {
    using S = typename decltype(tag)::type;
    Product<S> product;
    if (!product.prepare(ctx, most, n, k, x, first_matrix)) return;
    S* const to = out.mutable_data_ptr<S>();
    for (dim_t g = 0; g < groups.count(); ++g) {
      const dim_t first = groups.first(g);
      product.shrink(groups.last(g) - first, n, k);
      product.run({input.const_data_ptr<S>() + first * x.row, x.row, x.column},
                  {weight.const_data_ptr<S>() + g * weight.stride(0), first_matrix.row, first_matrix.column},
                  Epilogue(), to + first * out.stride(0), out.stride(0), out.stride(1));
    }
    for (dim_t row = groups.rows(); row < rows; ++row) {
      for (dim_t j = 0; j < n; ++j) to[row * out.stride(0) + j * out.stride(1)] = S(0);
    }
  });
}

}  // namespace penlight::portable
