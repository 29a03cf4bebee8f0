// Every type an argument can have, several results, and arguments that are written to.
#include <penlight/kernel.h>

using namespace penlight;

namespace {

double count_of(TensorList tensors) {
  double count = 0;
  for (const Tensor& tensor : tensors) count += static_cast<double>(tensor.numel());
  return count;
}

}  // namespace

// One number for each argument, so that a test sees what arrived.
Tensor& report_out(KernelContext& ctx, const Tensor& x, const Optional<Tensor>& maybe, TensorList tensors,
                   ArrayRef<Optional<Tensor>> holes, int64_t i, double f, bool b, ArrayRef<int64_t> ints,
                   ArrayRef<double> floats, ArrayRef<bool> bools, StringView text, ScalarType dtype,
                   Optional<int64_t> oi, Optional<double> of, Optional<bool> ob,
                   Optional<ArrayRef<int64_t>> oints, Optional<StringView> otext, Optional<ScalarType> odtype,
                   Layout layout, MemoryFormat format, Optional<Device> device, Tensor& out) {
  const dim_t sizes[] = {20};
  if (!ctx.resize(out, sizes)) return out;
  double* to = out.mutable_data_ptr<double>();
  *to++ = static_cast<double>(x.numel());
  *to++ = maybe.has_value() ? static_cast<double>(maybe->numel()) : -1;
  *to++ = count_of(tensors);
  double present = 0;
  for (const Optional<Tensor>& hole : holes) present = present * 2 + hole.has_value();
  *to++ = present;
  *to++ = static_cast<double>(i);
  *to++ = f;
  *to++ = b;
  double total = 0;
  for (int64_t value : ints) total = total * 10 + static_cast<double>(value);
  *to++ = total;
  total = 0;
  for (double value : floats) total += value;
  *to++ = total;
  total = 0;
  for (bool value : bools) total = total * 2 + value;
  *to++ = total;
  *to++ = static_cast<double>(text.size()) * 1000 + (text.empty() ? 0 : text[0]);
  *to++ = static_cast<double>(dtype);
  *to++ = oi.has_value() ? static_cast<double>(*oi) : -1;
  *to++ = of.has_value() ? *of : -1;
  *to++ = ob.has_value() ? *ob : -1;
  *to++ = oints.has_value() ? static_cast<double>(oints->size()) : -1;
  *to++ = otext.has_value() ? static_cast<double>(otext->size()) : -1;
  *to++ = odtype.has_value() ? static_cast<double>(*odtype) : -1;
  *to++ = static_cast<double>(layout) * 10 + static_cast<double>(format);
  *to++ = device.has_value();
  return out;
}

PENLIGHT_LIBRARY(
    testing,
    "report(Tensor x, Tensor? maybe, Tensor[] tensors, Tensor?[] holes, int i, float f, bool b, "
    "int[] ints, float[] floats, bool[] bools, str text, ScalarType dtype, int? oi=None, "
    "float? of=None, bool? ob=None, int[]? oints=None, str? otext=None, ScalarType? odtype=None, "
    "Layout layout=0, MemoryFormat format=contiguous_format, Device? device=None) -> Tensor",
    report_out)

// A Scalar: only Python can bring it from PyTorch.
Tensor& scale_out(KernelContext& ctx, const Tensor& x, const Scalar& factor, Tensor& out) {
  if (!ctx.resize(out, x.sizes())) return out;
  dispatch<Floats>(ctx, x.scalar_type(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    const double by = factor.to<double>();
    for (dim_t n = 0; n < x.numel(); ++n) {
      out.mutable_data_ptr<T>()[n] = static_cast<T>(static_cast<double>(x.const_data_ptr<T>()[n]) * by);
    }
  });
  return out;
}
PENLIGHT_LIBRARY(testing, "scale(Tensor x, Scalar factor) -> Tensor", scale_out)

// Two results of different ranks and dtypes.
void split_out(KernelContext& ctx, const Tensor& x, Tensor& whole, Tensor& fraction) {
  const dim_t count = x.numel();
  if (!ctx.resize(whole, {&count, 1}) || !ctx.resize(fraction, x.sizes())) return;
  for (dim_t n = 0; n < count; ++n) {
    const float value = x.const_data_ptr<float>()[n];
    whole.mutable_data_ptr<int64_t>()[n] = static_cast<int64_t>(value);
    fraction.mutable_data_ptr<float>()[n] = value - static_cast<float>(static_cast<int64_t>(value));
  }
}
PENLIGHT_LIBRARY(testing, "split(Tensor x) -> (Tensor whole, Tensor fraction)", split_out)

// An argument that is written to, beside a result.
Tensor& step_out(KernelContext& ctx, Tensor& state, const Tensor& x, Tensor& out) {
  if (!state.sizes().equals(x.sizes())) {
    ctx.fail(Status::InvalidArgument, "state and x have other sizes");
    return out;
  }
  if (!ctx.resize(out, x.sizes())) return out;
  for (dim_t n = 0; n < x.numel(); ++n) {
    float& kept = state.mutable_data_ptr<float>()[n];
    out.mutable_data_ptr<float>()[n] = kept;
    kept += x.const_data_ptr<float>()[n];
  }
  return out;
}
PENLIGHT_LIBRARY(testing, "step(Tensor(a!) state, Tensor x) -> Tensor", step_out)

// Nothing but an argument that is written to: no out variant, no result.
void add_to(KernelContext&, Tensor& state, double value) {
  for (dim_t n = 0; n < state.numel(); ++n) state.mutable_data_ptr<float>()[n] += static_cast<float>(value);
}
PENLIGHT_LIBRARY(testing, "add_to_(Tensor(a!) state, float value) -> ()", add_to)

// Names of every kind.
PENLIGHT_LIBRARY(testing, "named.out", split_out)
PENLIGHT_LIBRARY(testing, "named.of_overload(Tensor x) -> (Tensor, Tensor)", split_out)
PENLIGHT_LIBRARY(testing,
                 "testing::named.as_out(Tensor x, *, Tensor(a!) a, Tensor(b!) b) -> (Tensor(a!), Tensor(b!))",
                 split_out)

// Declines what it does not take, and never gives its result sizes.
Tensor& forgets_out(KernelContext& ctx, const Tensor& x, Tensor& out) {
  if (x.scalar_type() != ScalarType::Float) ctx.decline();
  return out;
}
PENLIGHT_LIBRARY(testing, "forgets(Tensor x) -> Tensor", forgets_out)
