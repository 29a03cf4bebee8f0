// Running sums, products, logsumexps, maxima and minima along one dimension.
#include <math.h>

#include "kernels/common/checks.h"
#include "kernels/common/complex.h"
#include "kernels/common/convert.h"

namespace penlight::portable {

constexpr int kLanes = 64;
constexpr dim_t kBlock = 256;

// Walks the lanes of `self` along a dimension. A step is called as
//   scan(C* x, int lanes, dim_t count, int64_t* place)
// where x[i * lanes + k] is element i of lane k, to be replaced with the running
// result; state is kept by the caller and begins anew when start() is called.
// Lanes go side by side where they are closer in memory than their elements. Short ones that follow each
// other in memory are read and written together.
template <class C, class Scan>
static void scan_lanes(const Tensor& self, int dim, Scan& scan, Tensor& out, Tensor* places) {
  if (self.numel() == 0) return;
  const int rank = static_cast<int>(self.dim());
  const dim_t length = rank == 0 ? 1 : self.size(dim), step = rank == 0 ? 1 : self.stride(dim);
  const auto follows = [&](const Tensor& t, int d) { return t.stride(d) == length * t.stride(dim); };
  int beside = -1, behind = -1;
  for (int d = 0; d < rank; ++d) {
    if (d == dim || self.size(d) < 4) continue;
    if (self.stride(d) < step && (beside < 0 || self.stride(d) < self.stride(beside))) beside = d;
    if (2 * length <= kBlock && follows(self, d) && follows(out, d) && (!places || follows(*places, d)))
      behind = d;
  }
  const int across = beside < 0 ? behind : beside;
  const dim_t width = across < 0 ? 1 : self.size(across);
  const dim_t most = beside < 0 && behind >= 0 ? kBlock / length : kLanes;
  const auto stride_of = [&](const Tensor& t, int d) { return d < 0 || rank == 0 ? dim_t{0} : t.stride(d); };
  const auto address = [](const Tensor& t, dim_t offset) {
    return static_cast<char*>(t.data_ptr()) + offset * static_cast<dim_t>(t.element_size());
  };
  dim_t at[kMaxDim] = {};
  for (;;) {
    dim_t from = 0, to = 0, place_to = 0;
    for (int d = 0; d < rank; ++d) {
      if (d == dim || d == across) continue;
      from += at[d] * self.stride(d);
      to += at[d] * out.stride(d);
      if (places) place_to += at[d] * places->stride(d);
    }
    for (dim_t first = 0; first < width; first += most) {
      const int lanes = static_cast<int>(width - first < most ? width - first : most);
      // Side by side: one step of all lanes at a time. Else many steps of one, or all of several.
      const dim_t per_block = beside < 0 ? kBlock : 1;
      scan.start();
      for (dim_t i = 0; i < length; i += per_block) {
        const dim_t count = length - i < per_block ? length - i : per_block;
        const dim_t elements = count * lanes;
        const auto locate = [&](const Tensor& t, dim_t base) {
          return address(t, base + first * stride_of(t, across) + i * (rank == 0 ? 1 : t.stride(dim)));
        };
        const auto stride = [&](const Tensor& t) {
          return beside >= 0 ? t.stride(beside) : rank == 0 ? dim_t{1} : t.stride(dim);
        };
        // What is int64 already is computed where it goes.
        const auto direct = [&](const Tensor& t) {
          return t.scalar_type() == ScalarType::Long && stride(t) == 1;
        };
        C block[kBlock];
        int64_t place_block[kBlock], *place = place_block;
        C* x = same_type<C, int64_t> && direct(out) ? reinterpret_cast<C*>(locate(out, to)) : block;
        if (places && direct(*places)) place = reinterpret_cast<int64_t*>(locate(*places, place_to));
        load_block(x, self.scalar_type(), locate(self, from), stride(self), elements);
        if (beside >= 0) scan.run(x, lanes, count, place);
        for (int k = 0; beside < 0 && k < lanes; ++k) {
          if (k > 0) scan.start();
          scan.run(x + k * count, 1, count, place + k * count);
        }
        if (x == block) store_block(out.scalar_type(), locate(out, to), stride(out), x, elements);
        if (places && place == place_block)
          store_block(places->scalar_type(), locate(*places, place_to), stride(*places), place, elements);
      }
    }
    int d = rank - 1;
    for (; d >= 0; --d) {
      if (d == dim || d == across) continue;
      if (++at[d] < self.size(d)) break;
      at[d] = 0;
    }
    if (d < 0) return;
  }
}

// result = function(result, x), from the first element on.
template <class C, class Function>
struct Running {
  bool begun;
  C result[kLanes];

  void start() { begun = false; }

  void run(C* x, int lanes, dim_t count, int64_t*) {
    for (int k = 0; !begun && k < lanes; ++k, ++x) result[k] = *x;
    if (!begun) --count;
    begun = true;
    C last = result[0];  // a lane alone stays in a register
    for (dim_t i = 0; lanes == 1 && i < count; ++i) x[i] = last = Function::apply(last, x[i]);
    if (lanes == 1) result[0] = last;
    for (dim_t i = 0; lanes > 1 && i < count; ++i) {
      for (int k = 0; k < lanes; ++k, ++x) *x = result[k] = Function::apply(result[k], *x);
    }
  }
};

struct Add {
  template <class C>
  static C apply(C a, C b) {
    return a + b;
  }
  static int64_t apply(int64_t a, int64_t b) {
    return static_cast<int64_t>(static_cast<uint64_t>(a) + static_cast<uint64_t>(b));
  }
};

struct Multiply {
  template <class C>
  static C apply(C a, C b) {
    return a * b;
  }
  static int64_t apply(int64_t a, int64_t b) {
    return static_cast<int64_t>(static_cast<uint64_t>(a) * static_cast<uint64_t>(b));
  }
};

struct LogAddExp {
  static double apply(double a, double b) {
    const double low = a < b ? a : b, high = a < b ? b : a;
    if (a != a || b != b) return a + b;
    if (low == high && low - low != 0) return low;  // the same infinity
    return high + log1p(exp(low - high));
  }
};

// Elements become out's dtype first. As in ATen, floats are summed in double,
// 16-bit floats in float.
template <class Function>
static Tensor& running(KernelContext& ctx, const Tensor& self, int64_t dim, Tensor& out) {
  if (!normalize_dim(ctx, dim, self.dim()) || !ctx.resize(out, self.sizes())) return out;
  if (out.scalar_type() == ScalarType::Half || out.scalar_type() == ScalarType::BFloat16) {
    Running<float, Function> scan;
    scan_lanes<float>(self, static_cast<int>(dim), scan, out, nullptr);
  } else if (is_floating(out.scalar_type())) {
    Running<double, Function> scan;
    scan_lanes<double>(self, static_cast<int>(dim), scan, out, nullptr);
  } else if (out.scalar_type() == ScalarType::Bool || is_integral(out.scalar_type())) {
    Running<int64_t, Function> scan;
    scan_lanes<int64_t>(self, static_cast<int>(dim), scan, out, nullptr);
  } else if (kComplexSelected && is_complex(out.scalar_type())) {
    Running<Complex, Function> scan;
    scan_lanes<Complex>(self, static_cast<int>(dim), scan, out, nullptr);
  } else {
    ctx.fail(Status::NotSupported, "element type {} is not supported here", dtype_name(out.scalar_type()));
  }
  return out;
}

Tensor& cumsum_out(KernelContext& ctx, const Tensor& self, int64_t dim, Optional<ScalarType>, Tensor& out) {
  return running<Add>(ctx, self, dim, out);
}

Tensor& cumprod_out(KernelContext& ctx, const Tensor& self, int64_t dim, Optional<ScalarType>, Tensor& out) {
  return running<Multiply>(ctx, self, dim, out);
}

Tensor& logcumsumexp_out(KernelContext& ctx, const Tensor& self, int64_t dim, Tensor& out) {
  if (!normalize_dim(ctx, dim, self.dim()) || !ctx.resize(out, self.sizes())) return out;
  if (!is_floating(out.scalar_type()))
    return ctx.fail(out, Status::InvalidArgument, "logcumsumexp is floating point, out has dtype {}",
                    dtype_name(out.scalar_type()));
  Running<double, LogAddExp> scan;
  scan_lanes<double>(self, static_cast<int>(dim), scan, out, nullptr);
  return out;
}

// The best element so far and its place: the last among equals; NaN stays.
template <class C, bool greatest>
struct RunningBest {
  int64_t seen;
  C best[kLanes];
  int64_t place[kLanes];

  void start() { seen = 0; }

  // A step has one lane, or one element of each.
  void run(C* x, int lanes, dim_t count, int64_t* places) {
    for (int k = 0; k < lanes; ++k, x += count, places += count) {
      C top = seen == 0 ? *x : best[k];
      int64_t at = seen == 0 ? 0 : place[k];
      for (dim_t i = 0; i < count; ++i) {
        if (x[i] != x[i] || (greatest ? x[i] >= top : x[i] <= top)) {
          top = x[i];
          at = seen + i;
        }
        x[i] = top;
        places[i] = at;
      }
      best[k] = top;
      place[k] = at;
    }
    seen += count;
  }
};

template <bool greatest>
static void running_best(KernelContext& ctx, const Tensor& self, int64_t dim, Tensor& values,
                         Tensor& indices) {
  if (!check_same_dtype(ctx, self, values) || !normalize_dim(ctx, dim, self.dim())) return;
  if (!ctx.resize(values, self.sizes()) || !ctx.resize(indices, self.sizes())) return;
  if (is_floating(self.scalar_type()) && self.scalar_type() != ScalarType::Double) {
    RunningBest<float, greatest> scan;
    scan_lanes<float>(self, static_cast<int>(dim), scan, values, &indices);
  } else if (self.scalar_type() == ScalarType::Double) {
    RunningBest<double, greatest> scan;
    scan_lanes<double>(self, static_cast<int>(dim), scan, values, &indices);
  } else {
    RunningBest<int64_t, greatest> scan;
    scan_lanes<int64_t>(self, static_cast<int>(dim), scan, values, &indices);
  }
}

void cummax_out(KernelContext& ctx, const Tensor& self, int64_t dim, Tensor& values, Tensor& indices) {
  running_best<true>(ctx, self, dim, values, indices);
}

void cummin_out(KernelContext& ctx, const Tensor& self, int64_t dim, Tensor& values, Tensor& indices) {
  running_best<false>(ctx, self, dim, values, indices);
}

}  // namespace penlight::portable
