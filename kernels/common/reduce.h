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

namespace penlight {

constexpr int kReduceColumns = 64;
constexpr dim_t kReduceRow = 256;
constexpr dim_t kFewElements = 32;

// Bit d for each reduced dimension. No list, and with `empty_is_all` an empty
// one, stand for all of them.
inline bool reduced_dims(KernelContext& ctx, const Tensor& self, Optional<ArrayRef<int64_t>> dims,
                         uint32_t& mask, bool empty_is_all = true) {
  if (!dims || (dims->empty() && empty_is_all)) {
    mask = (1u << self.dim()) - 1;
    return true;
  }
  mask = 0;
  for (int64_t dim : *dims) {
    if (!normalize_dim(ctx, dim, self.dim())) return false;
    if (mask & (1u << dim)) return ctx.refuse(Status::InvalidArgument, "dimension {} is given twice", dim);
    mask |= 1u << dim;
  }
  if (self.dim() == 0) mask = 0;
  return true;
}

class ReduceLoop {
 public:
  static constexpr int kMaxOuts = 2;

  // Gives each output its sizes. `ordered`: elements of a result are met in
  // row-major order, for operations that count them.
  bool prepare(KernelContext& ctx, const Tensor& self, uint32_t mask, bool keepdim, Tensor* const* outs,
               int out_count, bool ordered = false) {
    self_ = &self;
    out_count_ = out_count;
    dim_t sizes[kMaxDim];
    size_t rank = 0;
    for (int d = 0; d < self.dim(); ++d) {
      const bool reduced = mask & (1u << d);
      if (!reduced || keepdim) sizes[rank++] = reduced ? 1 : self.size(d);
    }
    for (int k = 0; k < out_count; ++k) {
      if (!ctx.resize(*outs[k], {sizes, rank})) return false;
    }
    results_ = 1;
    elements_ = 1;
    for (int d = 0, out_dim = 0; d < self.dim(); ++d) {
      const bool reduced = mask & (1u << d);
      const dim_t size = self.size(d), stride = self.stride(d);
      (reduced ? elements_ : results_) *= size;
      Dim dim = {size, stride, {}};
      for (int k = 0; k < out_count && !reduced; ++k) dim.out[k] = outs[k]->stride(out_dim);
      if (size != 1) (reduced ? inner_ : outer_).insert(dim, reduced && ordered);
      out_dim += !reduced || keepdim;
    }
    inner_.join(out_count);
    outer_.join(out_count);
    const Dim* result = outer_.innermost();
    const Dim* element = inner_.innermost();
    // Few elements too: each result by itself would cost more than they do.
    const bool beside = !element || elements_ <= kFewElements;
    columns_ = result && result->size >= 4 && (beside || magnitude(result->in) < magnitude(element->in));
    return true;
  }

  dim_t results() const { return results_; }
  dim_t elements() const { return elements_; }  // for each result

  template <class C, class Operation>
  void run(Operation& operation) const {
    if (results_ == 0) return;
    DimList outer = outer_;
    const Dim step = columns_ ? outer.dims[--outer.count] : Dim{1, 0, {}};
    Position at = {};
    do {
      for (dim_t first = 0; first < step.size; first += kReduceColumns) {
        const dim_t left = step.size - first;
        const int columns = static_cast<int>(left < kReduceColumns ? left : kReduceColumns);
        operation.start(columns);
        if (elements_ > 0) {
          const dim_t offset = at.in + first * step.in;
          if (columns_) {
            fold_columns<C>(operation, offset, step.in, columns);
          } else {
            fold_rows<C>(operation, offset);
          }
        }
        dim_t offsets[kMaxOuts], strides[kMaxOuts];
        for (int k = 0; k < out_count_; ++k) {
          offsets[k] = at.out[k] + first * step.out[k];
          strides[k] = step.out[k];
        }
        operation.store(offsets, strides, columns);
      }
    } while (outer.next(at, out_count_, outer.count));
  }

 private:
  struct Dim {
    dim_t size, in;  // stride of the input
    dim_t out[kMaxOuts];
  };

  struct Position {
    dim_t in, out[kMaxOuts], index[kMaxDim];
  };

  struct DimList {
    int count = 0;
    Dim dims[kMaxDim];

    // In descending order of the input's stride unless `last`.
    void insert(const Dim& dim, bool last) {
      int d = count++;
      for (; !last && d > 0 && magnitude(dims[d - 1].in) < magnitude(dim.in); --d) dims[d] = dims[d - 1];
      dims[d] = dim;
    }

    void join(int out_count) {
      int kept = 0;
      for (int d = 1; d < count; ++d) {
        bool joins = dims[kept].in == dims[d].in * dims[d].size;
        for (int k = 0; k < out_count; ++k)
          joins = joins && dims[kept].out[k] == dims[d].out[k] * dims[d].size;
        if (joins) {
          const dim_t size = dims[kept].size * dims[d].size;
          dims[kept] = dims[d];
          dims[kept].size = size;
        } else {
          dims[++kept] = dims[d];
        }
      }
      if (count > 0) count = kept + 1;
    }

    const Dim* innermost() const { return count > 0 ? &dims[count - 1] : nullptr; }

    // The next position of the first `used` dimensions; false after the last.
    bool next(Position& at, int out_count, int used) const {
      for (int d = used; d-- > 0;) {
        const bool inside = ++at.index[d] < dims[d].size;
        const dim_t steps = inside ? 1 : 1 - dims[d].size;
        at.in += dims[d].in * steps;
        for (int k = 0; k < out_count; ++k) at.out[k] += dims[d].out[k] * steps;
        if (inside) return true;
        at.index[d] = 0;
      }
      return false;
    }
  };

  static dim_t magnitude(dim_t stride) { return stride < 0 ? -stride : stride; }

  // `count` elements at `offset` as compute type C: in place where they already are.
  template <class C>
  const C* load(C* buffer, dim_t offset, dim_t stride, dim_t count) const {
    const ScalarType type = self_->scalar_type();
    if (stride == 1 && type == ScalarTypeOf<C>::value) return self_->const_data_ptr<C>() + offset;
    const char* from = static_cast<const char*>(self_->const_data_ptr());
    load_block(buffer, type, from + offset * static_cast<dim_t>(self_->element_size()), stride, count);
    return buffer;
  }

  template <class C, class Operation>
  void fold_rows(Operation& operation, dim_t offset) const {
    C buffer[kReduceRow];
    // Without a copy into the buffer, calls need not be as many.
    const bool direct = self_->scalar_type() == ScalarTypeOf<C>::value;
    const Dim row = inner_.count > 0 ? inner_.dims[inner_.count - 1] : Dim{1, 1, {}};
    const dim_t longest = direct && row.in == 1 ? 4 * kReduceRow : kReduceRow;
    Position at = {};
    do {
      for (dim_t first = 0; first < row.size; first += longest) {
        const dim_t left = row.size - first;
        const dim_t count = left < longest ? left : longest;
        operation.row(load(buffer, offset + at.in + first * row.in, row.in, count), count);
      }
    } while (inner_.next(at, 0, inner_.count - 1));
  }

  template <class C, class Operation>
  void fold_columns(Operation& operation, dim_t offset, dim_t stride, int columns) const {
    C buffer[kReduceColumns];
    Position at = {};
    do {
      operation.column(load(buffer, offset + at.in, stride, columns), columns);
    } while (inner_.next(at, 0, inner_.count));
  }

  const Tensor* self_;
  int out_count_;
  bool columns_;
  dim_t results_, elements_;
  DimList outer_, inner_;  // of the results, of the elements that make up each
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
template <class C>
struct TotalOf {
  using type = double;
};
template <>
struct TotalOf<int64_t> {
  using type = int64_t;
};
template <>
struct TotalOf<Complex> {
  using type = Complex;
};

}  // namespace detail

// Sums of map(x). Rounding errors grow with neither the length of a row nor the
// number of rows: short runs are added in C, the runs in Total.
template <class C, class Map, class Result>
struct SumOf {
  using Total = typename detail::TotalOf<C>::type;
  static constexpr int kLanes = 16;
  static constexpr int kRun = 32;

  explicit SumOf(Tensor& to, Map how = Map{}) : out(to), map(how) {}

  Tensor& out;
  Map map;
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
    for (int k = 0; k < columns; ++k) result[k] = map.finish(static_cast<C>(total[k]));
    char* to = static_cast<char*>(out.data_ptr()) + offset[0] * static_cast<dim_t>(out.element_size());
    store_block(out.scalar_type(), to, stride[0], result, columns);
  }
};

// Folds with an associative and commutative function.
template <class C, class Function>
struct FoldOf {
  // So many that compilers keep the loop over them, and vectorize it.
  static constexpr int kLanes = 32;

  explicit FoldOf(Tensor& to) : out(to) {}

  Tensor& out;
  C value[kReduceColumns];

  void start(int columns) {
    for (int k = 0; k < columns; ++k) value[k] = Function::template identity<C>();
  }

  void row(const C* x, dim_t count) {
    C lanes[kLanes];
    for (int k = 0; k < kLanes; ++k) lanes[k] = Function::template identity<C>();
    dim_t i = 0;
    for (; i + kLanes <= count; i += kLanes) {
      for (int k = 0; k < kLanes; ++k) lanes[k] = Function::apply(lanes[k], x[i + k]);
    }
    for (int k = 0; i < count; ++i, ++k) lanes[k] = Function::apply(lanes[k], x[i]);
    for (int width = kLanes / 2; width > 0; width /= 2) {
      for (int k = 0; k < width; ++k) lanes[k] = Function::apply(lanes[k], lanes[k + width]);
    }
    value[0] = Function::apply(value[0], lanes[0]);
  }

  void column(const C* x, int columns) {
    for (int k = 0; k < columns; ++k) value[k] = Function::apply(value[k], x[k]);
  }

  void store(const dim_t* offset, const dim_t* stride, int columns) {
    char* to = static_cast<char*>(out.data_ptr()) + offset[0] * static_cast<dim_t>(out.element_size());
    store_block(out.scalar_type(), to, stride[0], value, columns);
  }
};

}  // namespace penlight
