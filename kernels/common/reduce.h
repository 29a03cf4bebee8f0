// Reductions: which elements make up each result, in which order, by blocks.
//
// An operation is an object that folds blocks of a compute type (float, double
// or int64_t) and knows nothing of dtypes, strides or dimensions:
//
//   void start(int columns);                    // forget; that many results follow
//   void row(const C* x, dim_t count);          // more elements of result 0
//   void column(const C* x, int columns);       // one more element of each result
//   void store(const dim_t* offset, const dim_t* stride, int columns);
//
// Rows are used where the reduced elements lie next to one another, columns
// where the results' do (a mean over the pixels of a channels-last image), so
// both read memory in order. store() writes `columns` results to each output k
// at offset[k] with stride[k], in elements.
#pragma once

#include "kernels/common/checks.h"
#include "kernels/common/complex.h"
#include "kernels/common/convert.h"
#include "kernels/common/math.h"
#include "kernels/common/strided.h"

namespace penlight {

constexpr int kReduceColumns = 64;
constexpr dim_t kReduceRow = 256;
constexpr dim_t kFewElements = 32;

// Bit d for each reduced dimension. No list, and with `empty_is_all` an empty
// one, stand for all of them.
inline bool reduced_dims(KernelContext& ctx, const Tensor& self, Optional<IntArrayRef> dims, uint32_t& mask,
                         bool empty_is_all = true) {
  if (!dims || (dims->empty() && empty_is_all)) {
    mask = (1u << self.dim()) - 1;
    return true;
  }
  mask = 0;
  int taken;
  for (int64_t dim : *dims) {
    if (!take_dim(ctx, dim, self.dim(), mask, taken)) return false;
  }
  if (self.dim() == 0) mask = 0;
  return true;
}

// One dimension as a list, or none.
inline Optional<IntArrayRef> dims_of(const Optional<int64_t>& dim) {
  if (!dim) return nullopt;
  return IntArrayRef(&dim.value(), 1);
}

class ReduceLoop {
 public:
  static constexpr int kMaxOuts = 2;

  // Gives `out`, and `second` where there is one, its sizes. `ordered`: elements of a
  // result are met in row-major order, for operations that count them.
  bool prepare(KernelContext& ctx, const Tensor& self, Optional<IntArrayRef> dims, bool keepdim, Tensor& out,
               Tensor* second = nullptr, bool ordered = false, bool empty_is_all = true) {
    uint32_t mask;
    if (!reduced_dims(ctx, self, dims, mask, empty_is_all)) return false;
    Tensor* const outs[] = {&out, second};
    self_ = &self;
    out_count_ = second ? 2 : 1;
    Shape sizes, kept, reduced, kept_strides, reduced_strides;
    for (int d = 0; d < self.dim(); ++d) {
      const bool is_reduced = mask & (1u << d);
      if (!is_reduced || keepdim) sizes.append(is_reduced ? 1 : self.size(d));
      (is_reduced ? reduced : kept).append(self.size(d));
      (is_reduced ? reduced_strides : kept_strides).append(self.stride(d));
    }
    outer_ = StridedLoop(kept);
    outer_.add(kept, kept_strides);
    for (int k = 0; k < out_count_; ++k) {
      if (!ctx.resize(*outs[k], sizes)) return false;
      Shape strides;
      for (int d = 0, out_dim = 0; d < self.dim(); ++d) {
        const bool is_reduced = mask & (1u << d);
        if (!is_reduced) strides.append(outs[k]->stride(out_dim));
        out_dim += !is_reduced || keepdim;
      }
      outer_.add(kept, strides);
    }
    outer_.simplify();
    inner_ = StridedLoop(reduced);
    inner_.add(reduced, reduced_strides);
    inner_.simplify(!ordered);
    results_ = kept.numel();
    elements_ = reduced.numel();
    // Few elements too: each result by itself would cost more than they do.
    const bool beside = inner_.dim() == 0 || elements_ <= kFewElements;
    columns_ = outer_.dim() > 0 && outer_.inner_size() >= 4 &&
               (beside || outer_.inner_stride(0) < inner_.inner_stride(0));
    return true;
  }

  dim_t results() const { return results_; }
  dim_t elements() const { return elements_; }  // for each result

  template <class C, class Operation>
  void run(Operation&& operation) const {
    outer_.for_each_row([&](const dim_t* at, dim_t count) {
      const dim_t step = outer_.inner_stride(0), most = columns_ ? kReduceColumns : 1;
      for (dim_t first = 0; first < count; first += most) {
        const int columns = static_cast<int>(count - first < most ? count - first : most);
        operation.start(columns);
        if (columns_) {
          fold_columns<C>(operation, at[0] + first * step, step, columns);
        } else {
          fold_rows<C>(operation, at[0] + first * step);
        }
        dim_t offsets[kMaxOuts], strides[kMaxOuts];
        for (int k = 0; k < out_count_; ++k) {
          strides[k] = outer_.inner_stride(k + 1);
          offsets[k] = at[k + 1] + first * strides[k];
        }
        operation.store(offsets, strides, columns);
      }
    });
  }

 private:
  // `count` elements at `offset` as compute type C: in place where they already are.
  template <class C>
  const C* load(C* buffer, dim_t offset, dim_t stride, dim_t count) const {
    if (stride == 1 && self_->scalar_type() == ScalarTypeOf<C>::value)
      return self_->const_data_ptr<C>() + offset;
    load_block(buffer, *self_, offset, stride, count);
    return buffer;
  }

  template <class C, class Operation>
  void fold_rows(Operation& operation, dim_t offset) const {
    C buffer[kReduceRow];
    // Without a copy into the buffer, calls need not be as many.
    const dim_t stride = inner_.dim() == 0 ? 1 : inner_.inner_stride(0);
    const bool direct = stride == 1 && self_->scalar_type() == ScalarTypeOf<C>::value;
    const dim_t longest = direct ? 4 * kReduceRow : kReduceRow;
    inner_.for_each_row([&](const dim_t* at, dim_t size) {
      for (dim_t first = 0; first < size; first += longest) {
        const dim_t count = size - first < longest ? size - first : longest;
        operation.row(load(buffer, offset + at[0] + first * stride, stride, count), count);
      }
    });
  }

  template <class C, class Operation>
  void fold_columns(Operation& operation, dim_t offset, dim_t stride, int columns) const {
    C buffer[kReduceColumns];
    inner_.for_each_row([&](const dim_t* at, dim_t size) {
      for (dim_t i = 0; i < size; ++i)
        operation.column(load(buffer, offset + at[0] + i * inner_.inner_stride(0), stride, columns), columns);
    });
  }

  const Tensor* self_;
  int out_count_;
  bool columns_;
  dim_t results_, elements_;
  StridedLoop outer_, inner_;  // over the results, over the elements that make up each
};

PENLIGHT_BY_DTYPES_BEGIN

// Calls body(TypeTag<C>{}) with the type that `type` is computed in.
template <class Body>
inline bool dispatch_compute(KernelContext& ctx, ScalarType type, Body&& body) {
  const bool integer = type == ScalarType::Bool || (type >= ScalarType::Byte && type <= ScalarType::Long);
  if constexpr (kDoubleSelected) {
    if (type == ScalarType::Double) return body(TypeTag<double>{}), true;
  }
  if constexpr (kFloatSelected) {
    if (is_floating(type) && type != ScalarType::Double) return body(TypeTag<float>{}), true;
  }
  if constexpr (kIntegerSelected) {
    if (integer) return body(TypeTag<int64_t>{}), true;
  }
  (void)body;
  (void)integer;
  return ctx.refuse(Status::NotSupported, "element type {} is not supported here", dtype_name(type));
}

PENLIGHT_BY_DTYPES_END

namespace detail {

// Long sums of floats are held in double: one such addition for a run of floats.
double total_type(double);
int64_t total_type(int64_t);
Complex total_type(Complex);

}  // namespace detail

// finish(sum of map(x)). Rounding errors grow with neither the length of a row nor the
// number of rows: short runs are added in C, the runs in Total.
template <class C, class Map, class Finish>
struct SumOf {
  using Total = decltype(detail::total_type(C()));
  using Result = decltype(static_cast<Finish*>(nullptr)->operator()(Total()));
  static constexpr int kLanes = 16;
  static constexpr int kRun = 32;

  SumOf(Tensor& to, Map how, Finish end) : out(to), map(how), finish(end) {}

  Tensor& out;
  Map map;
  Finish finish;
  int pending;
  C run[kReduceColumns];
  Total total[kReduceColumns];

  void start(int columns) {
    pending = 0;
    for (int k = 0; k < columns; ++k) {
      run[k] = C(0);
      total[k] = Total(0);
    }
  }

  void row(const C* x, dim_t count) {
    C lanes[kLanes] = {};
    dim_t i = 0;
    for (; i + kLanes <= count; i += kLanes) {
      for (int k = 0; k < kLanes; ++k) lanes[k] = math::plus(lanes[k], map(x[i + k]));
    }
    for (int k = 0; i < count; ++i, ++k) lanes[k] = math::plus(lanes[k], map(x[i]));
    for (int width = kLanes / 2; width > 0; width /= 2) {
      for (int k = 0; k < width; ++k) lanes[k] = math::plus(lanes[k], lanes[k + width]);
    }
    total[0] = math::plus(total[0], static_cast<Total>(lanes[0]));
  }

  void column(const C* x, int columns) {
    for (int k = 0; k < columns; ++k) run[k] = math::plus(run[k], map(x[k]));
    if (++pending == kRun) flush(columns);
  }

  void flush(int columns) {
    for (int k = 0; k < columns; ++k) {
      total[k] = math::plus(total[k], static_cast<Total>(run[k]));
      run[k] = C(0);
    }
    pending = 0;
  }

  void store(const dim_t* offset, const dim_t* stride, int columns) {
    Result result[kReduceColumns];
    flush(columns);
    for (int k = 0; k < columns; ++k) result[k] = finish(total[k]);
    store_block(out, offset[0], stride[0], result, columns);
  }
};

template <class C, class Map, class Finish>
SumOf<C, Map, Finish> sum_of(Tensor& out, Map map, Finish finish) {
  return {out, map, finish};
}

// Folds with an associative and commutative function, of which `nothing` is the identity.
template <class C, class Function>
struct FoldOf {
  // So many that compilers keep the loop over them, and vectorize it.
  static constexpr int kLanes = 32;

  FoldOf(Tensor& to, C identity, Function how) : out(to), nothing(identity), function(how) {}

  Tensor& out;
  C nothing;
  Function function;
  C value[kReduceColumns];

  void start(int columns) {
    for (int k = 0; k < columns; ++k) value[k] = nothing;
  }

  void row(const C* x, dim_t count) {
    C lanes[kLanes];
    for (int k = 0; k < kLanes; ++k) lanes[k] = nothing;
    dim_t i = 0;
    for (; i + kLanes <= count; i += kLanes) {
      for (int k = 0; k < kLanes; ++k) lanes[k] = function(lanes[k], x[i + k]);
    }
    for (int k = 0; i < count; ++i, ++k) lanes[k] = function(lanes[k], x[i]);
    for (int width = kLanes / 2; width > 0; width /= 2) {
      for (int k = 0; k < width; ++k) lanes[k] = function(lanes[k], lanes[k + width]);
    }
    value[0] = function(value[0], lanes[0]);
  }

  void column(const C* x, int columns) {
    for (int k = 0; k < columns; ++k) value[k] = function(value[k], x[k]);
  }

  void store(const dim_t* offset, const dim_t* stride, int columns) {
    store_block(out, offset[0], stride[0], value, columns);
  }
};

template <class C, class Function>
FoldOf<C, Function> fold_of(Tensor& out, C nothing, Function function) {
  return {out, nothing, function};
}

}  // namespace penlight
