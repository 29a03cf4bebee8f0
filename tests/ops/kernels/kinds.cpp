// Operators of every kind of signature that torch's interface for C knows nothing of, or a rule has to
// follow.
#include <penlight/kernel.h>

using namespace penlight;

namespace {

// Copies `count` elements of any dtype.
void copy(const Tensor& from, dim_t start, Tensor& to) {
  const size_t bytes = element_size(from.scalar_type());
  memcpy(to.mutable_data_ptr(),
         static_cast<const char*>(from.const_data_ptr()) + static_cast<size_t>(start) * bytes,
         static_cast<size_t>(to.numel()) * bytes);
}

double type_of(const Scalar& value) { return value.isBoolean() ? 1 : value.isFloatingPoint() ? 2 : 3; }

}  // namespace

// Types and values of numbers.
Tensor& numbers_out(KernelContext& ctx, const Tensor& x, const Scalar& a, const Optional<Scalar>& b,
                    const Scalar& c, Tensor& out) {
  const dim_t sizes[] = {x.numel() + 6};
  if (!ctx.resize(out, {sizes, 1})) return out;
  double* at = out.mutable_data_ptr<double>();
  for (dim_t i = 0; i < x.numel(); ++i)
    *at++ = static_cast<double>(x.const_data_ptr<float>()[i]) * a.to<double>();
  *at++ = type_of(a);
  *at++ = a.to<double>();
  *at++ = b ? type_of(*b) : 0;
  *at++ = b ? b->to<double>() : 0;
  *at++ = type_of(c);
  *at++ = c.to<double>();
  return out;
}

Tensor& joined_out(KernelContext& ctx, TensorList xs, Tensor& out) {
  dim_t sizes[] = {0, xs.size() ? xs[0].size(1) : 0};
  for (const Tensor& x : xs) sizes[0] += x.size(0);
  if (!ctx.resize(out, {sizes, 2})) return out;
  char* at = static_cast<char*>(out.mutable_data_ptr());
  for (const Tensor& x : xs) {
    memcpy(at, x.const_data_ptr(), x.nbytes());
    at += x.nbytes();
  }
  return out;
}

void copies_out(KernelContext& ctx, TensorList xs, TensorList out) {
  for (size_t i = 0; i < xs.size(); ++i) {
    Tensor made = out[i];
    if (!ctx.resize(made, xs[i].sizes())) return;
    copy(xs[i], 0, made);
  }
}

// The first of them that is there, and how many there are.
void first_out(KernelContext& ctx, ArrayRef<Optional<Tensor>> xs, Tensor& out, Tensor& count) {
  const Optional<Tensor>* found = nullptr;
  for (const Optional<Tensor>& x : xs) {
    if (x && !found) found = &x;
  }
  if (!found) return ctx.fail(Status::InvalidArgument, "none of {} is there", xs.size());
  if (!ctx.resize(out, (*found)->sizes()) || !ctx.resize(count, {})) return;
  copy(**found, 0, out);
  *count.mutable_data_ptr<int64_t>() = static_cast<int64_t>(xs.size());
}

Tensor& padded_out(KernelContext& ctx, const Tensor& x, int64_t left, Optional<int64_t> right,
                   StringView mode, double scale, Tensor& out) {
  const bool both = mode == "both" && left > 0;
  const dim_t after = both ? static_cast<dim_t>(right ? *right : left) : 0;
  const dim_t sizes[] = {(x.size(0) + static_cast<dim_t>(left) + after) * static_cast<dim_t>(scale)};
  if (!ctx.resize(out, {sizes, 1})) return out;
  for (dim_t i = 0; i < sizes[0]; ++i) out.mutable_data_ptr<float>()[i] = static_cast<float>(i);
  return out;
}

// Sizes and dtype are a fake function's to say; of n = 13 the kernel thinks otherwise.
Tensor& cut_out(KernelContext& ctx, const Tensor& x, int64_t n, ScalarType dtype, Tensor& out) {
  (void)dtype;
  const dim_t sizes[] = {static_cast<dim_t>(n == 13 ? 14 : n)};
  if (n > x.numel()) {
    ctx.fail(Status::InvalidArgument, "x has {} elements, not {}", x.numel(), n);
    return out;
  }
  if (!ctx.resize(out, {sizes, 1})) return out;
  dispatch<RealBool>(ctx, out.scalar_type(), [&](auto type) {
    using T = typename decltype(type)::type;
    for (dim_t i = 0; i < sizes[0]; ++i) {
      out.mutable_data_ptr<T>()[i] = static_cast<T>(x.const_data_ptr<float>()[i]);
    }
  });
  return out;
}

// The same of a list.
void pieces_out(KernelContext& ctx, const Tensor& x, ArrayRef<int64_t> lengths, StringView mode,
                TensorList out) {
  (void)mode;
  dim_t start = 0;
  for (size_t i = 0; i < out.size(); ++i) {
    Tensor piece = out[i];
    const dim_t sizes[] = {static_cast<dim_t>(lengths[i])};
    if (!ctx.resize(piece, {sizes, 1})) return;
    copy(x, start, piece);
    start += sizes[0];
  }
}

void add_all_(KernelContext& ctx, TensorList xs, const Scalar& value) {
  (void)ctx;
  for (Tensor x : xs) {
    for (dim_t i = 0; i < x.numel(); ++i) x.mutable_data_ptr<float>()[i] += value.to<float>();
  }
}

PENLIGHT_LIBRARY(kinds, "numbers(Tensor x, Scalar a, Scalar? b=None, *, Scalar c=2) -> Tensor", numbers_out,
                 shapes("[n] -> f64[n + 6]"))
PENLIGHT_LIBRARY(kinds, "joined(Tensor[] xs) -> Tensor", joined_out, shapes("[n,c][] -> [total(xs, 0), c]"))
PENLIGHT_LIBRARY(kinds, "copies(Tensor[] xs) -> Tensor[]", copies_out, shapes("_ -> same as xs"))
PENLIGHT_LIBRARY(kinds, "first(Tensor?[] xs) -> (Tensor out, Tensor count)", first_out,
                 shapes("[n,c][] -> [n,c], i64[]"))
PENLIGHT_LIBRARY(
    kinds, "padded(Tensor x, int left, int? right=None, str mode=\"both\", float scale=1.0) -> Tensor",
    padded_out,
    shapes("[n] -> [(n + left + ((left if right is None else right) if mode == \"both\" and left > 0 "
           "else 0)) * scale]"))
PENLIGHT_LIBRARY(kinds, "cut(Tensor x, int n, ScalarType dtype) -> Tensor", cut_out)
PENLIGHT_LIBRARY(kinds, "pieces(Tensor x, int[] lengths, str mode=\"\") -> Tensor[]", pieces_out)
PENLIGHT_LIBRARY(kinds, "add_all_(Tensor(a!)[] xs, Scalar value) -> ()", add_all_)
