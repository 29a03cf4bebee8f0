// An operator with every type of argument: it writes down what it was given.
#include <penlight/kernel.h>

using namespace penlight;

namespace {

constexpr dim_t kCount = 32;

struct Notes {
  float* at;
  void add(double value) { *at++ = static_cast<float>(value); }
  template <class T, class Get>
  void maybe(const Optional<T>& value, Get get) {
    add(value.has_value() ? get(*value) : -1.0);
  }
};

bool is_float(KernelContext& ctx, const Tensor& x) {
  if (x.scalar_type() != ScalarType::Float) ctx.decline();
  return x.scalar_type() == ScalarType::Float;
}

double sum(const Tensor& x) {
  double total = 0;
  for (dim_t i = 0; i < x.numel(); ++i) total += x.const_data_ptr<float>()[i];
  return total;
}

template <class T>
double digits(ArrayRef<T> items) {
  double total = 0;
  for (size_t i = 0; i < items.size(); ++i) total = total * 10 + static_cast<double>(items[i]);
  return total;
}

double length_and_first(StringView text) { return text.size() * 1000.0 + (text.size() ? text.data()[0] : 0); }

}  // namespace

Tensor& everything_out(KernelContext& ctx, const Tensor& x, const Optional<Tensor>& maybe, TensorList list,
                       ArrayRef<Optional<Tensor>> holes, const Scalar& s, const Optional<Scalar>& s2,
                       int64_t i, Optional<int64_t> i2, double f, Optional<double> f2, bool b,
                       Optional<bool> b2, ArrayRef<int64_t> il, Optional<ArrayRef<int64_t>> il2,
                       ArrayRef<double> fl, Optional<ArrayRef<double>> fl2, ArrayRef<bool> bl,
                       Optional<ArrayRef<bool>> bl2, StringView t, Optional<StringView> t2, ScalarType st,
                       Optional<ScalarType> st2, Optional<Layout> layout,
                       Optional<MemoryFormat> memory_format, Optional<Device> device, Tensor& out) {
  (void)device;
  const dim_t sizes[] = {kCount};
  if (!is_float(ctx, x) || !ctx.resize(out, {sizes, 1})) return out;
  for (dim_t k = 0; k < kCount; ++k) out.mutable_data_ptr<float>()[k] = 0;
  Notes notes = {out.mutable_data_ptr<float>()};
  notes.add(sum(x));
  notes.maybe(maybe, sum);
  double total = 0;
  for (const Tensor& tensor : list) total = total * 10 + sum(tensor);
  notes.add(total);
  for (const Optional<Tensor>& tensor : holes) notes.maybe(tensor, sum);
  notes.add(s.to<double>());
  notes.maybe(s2, [](const Scalar& value) { return value.to<double>(); });
  notes.add(static_cast<double>(i));
  notes.maybe(i2, [](int64_t value) { return static_cast<double>(value); });
  notes.add(f);
  notes.maybe(f2, [](double value) { return value; });
  notes.add(b);
  notes.maybe(b2, [](bool value) { return value ? 1.0 : 0.0; });
  notes.add(digits(il));
  notes.maybe(il2, digits<int64_t>);
  notes.add(digits(fl));
  notes.maybe(fl2, digits<double>);
  notes.add(digits(bl));
  notes.maybe(bl2, digits<bool>);
  notes.add(length_and_first(t));
  notes.maybe(t2, length_and_first);
  notes.add(static_cast<double>(st));
  notes.maybe(st2, [](ScalarType value) { return static_cast<double>(value); });
  notes.maybe(layout, [](Layout value) { return static_cast<double>(value); });
  notes.maybe(memory_format, [](MemoryFormat value) { return static_cast<double>(value); });
  return out;
}

// Parts of rows, as a list of tensors.
void parts_out(KernelContext& ctx, const Tensor& x, int64_t count, TensorList out) {
  if (!is_float(ctx, x)) return;
  const dim_t rows = x.size(0) / count;
  const dim_t width = x.size(1);
  const dim_t sizes[] = {rows, width};
  for (int64_t k = 0; k < count; ++k) {
    Tensor part = out[k];
    if (!ctx.resize(part, {sizes, 2})) return;
    for (dim_t i = 0; i < rows * width; ++i)
      part.mutable_data_ptr<float>()[i] = x.const_data_ptr<float>()[k * rows * width + i];
  }
}

// x repeated; the size of the result is an argument. The dtype is x's: any.
Tensor& tile_out(KernelContext& ctx, const Tensor& x, int64_t times, Tensor& out) {
  if (times < 0) {
    ctx.fail(Status::InvalidArgument, "times is {}, expected 0 or more", times);
    return out;
  }
  const dim_t sizes[] = {static_cast<dim_t>(times) * x.size(0)};
  if (!ctx.resize(out, {sizes, 1})) return out;
  for (int64_t k = 0; k < times; ++k) {
    memcpy(static_cast<char*>(out.mutable_data_ptr()) + k * x.nbytes(), x.const_data_ptr(), x.nbytes());
  }
  return out;
}

// Index of the largest, and the largest itself.
void best_out(KernelContext& ctx, const Tensor& x, Tensor& value, Tensor& index) {
  if (!is_float(ctx, x) || !ctx.resize(value, {}) || !ctx.resize(index, {})) return;
  int64_t at = 0;
  for (dim_t i = 1; i < x.numel(); ++i) {
    if (x.const_data_ptr<float>()[i] > x.const_data_ptr<float>()[at]) at = i;
  }
  *value.mutable_data_ptr<float>() = x.numel() ? x.const_data_ptr<float>()[at] : 0.0f;
  *index.mutable_data_ptr<int64_t>() = at;
}

PENLIGHT_LIBRARY(
    testargs,
    "everything(Tensor x, Tensor? maybe, Tensor[] list, Tensor?[] holes, Scalar s, Scalar? s2, int i, "
    "int? i2, float f, float? f2, bool b, bool? b2, int[] il, int[]? il2, float[] fl, float[]? fl2, "
    "bool[] bl, bool[]? bl2, str t, str? t2, ScalarType st, ScalarType? st2, *, Layout? layout=None, "
    "MemoryFormat? memory_format=None, Device? device=None) -> Tensor",
    everything_out, shapes("_, _, _, _ -> f32[32]"))
PENLIGHT_LIBRARY(testargs, "parts.out(Tensor x, int count, *, Tensor(a!)[] out) -> ()", parts_out,
                 shapes("[n,w] -> [n // count, w][count]"))
// Zeros, or the ends, on both sides.
Tensor& padded_out(KernelContext& ctx, const Tensor& x, int64_t left, Optional<int64_t> right,
                   StringView mode, Tensor& out) {
  const dim_t n = x.size(0), after = static_cast<dim_t>(right ? *right : left);
  const dim_t sizes[] = {n + static_cast<dim_t>(left) + after};
  if (!is_float(ctx, x) || !ctx.resize(out, {sizes, 1})) return out;
  if (mode != "zero" && !(mode == "ends" && n)) {
    ctx.fail(Status::InvalidArgument, "a mode is zero or, with elements, ends");
    return out;
  }
  for (dim_t i = 0; i < sizes[0]; ++i) {
    const dim_t from = i - static_cast<dim_t>(left);
    const bool within = from >= 0 && from < n;
    const dim_t nearest = from < 0 ? 0 : from < n ? from : n - 1;
    out.mutable_data_ptr<float>()[i] = within || mode == "ends" ? x.const_data_ptr<float>()[nearest] : 0.0f;
  }
  return out;
}

PENLIGHT_LIBRARY(testargs, "slices(Tensor x, int count) -> Tensor[]", parts_out,
                 shapes("[n,w] -> [n // count, w][count]"))
PENLIGHT_LIBRARY(testargs, "padded(Tensor x, int left, int? right=None, str mode=\"zero\") -> Tensor",
                 padded_out, shapes("[n] -> [n + left + (left if right is None else right)]"))
PENLIGHT_LIBRARY(testargs, "tile(Tensor x, int times=2) -> Tensor", tile_out, shapes("[n] -> [n * times]"))
PENLIGHT_LIBRARY(testargs, "best(Tensor x) -> (Tensor value, Tensor index)", best_out,
                 shapes("_ -> [], i64[]"))
