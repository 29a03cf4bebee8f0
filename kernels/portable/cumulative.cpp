// Running sums, products, logsumexps, maxima and minima along one dimension.
#include <math.h>

#include "kernels/common/reduce.h"
#include "kernels/common/view.h"

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
static void scan_lanes(const Tensor& self, int dim, Scan& scan, const Tensor& out, const Tensor* places) {
  if (self.numel() == 0) return;
  struct Side {
    ScalarType type;
    View view;
    dim_t along, across, stride;  // along and across in bytes, the stride of a block in elements
    explicit Side(const Tensor& tensor) : type(tensor.scalar_type()), view(at_least_1d(tensor)) {}
  };
  Side from(self), to(out), place_to(places ? *places : out);
  Side* const sides[] = {&from, &to, &place_to};
  const dim_t length = from.view.sizes[dim], step = from.view.strides[dim];
  int beside = -1, behind = -1;
  for (int d = 0; d < from.view.dim; ++d) {
    const dim_t own = from.view.strides[d];
    if (d == dim || from.view.sizes[d] < 4) continue;
    if (own < step && (beside < 0 || own < from.view.strides[beside])) beside = d;
    bool follows = 2 * length <= kBlock;
    for (const Side* side : sides) follows &= side->view.strides[d] == length * side->view.strides[dim];
    if (follows) behind = d;
  }
  const int across = beside < 0 ? behind : beside;
  const dim_t width = across < 0 ? 1 : from.view.sizes[across];
  const dim_t most = beside < 0 && behind >= 0 ? kBlock / length : kLanes;
  for (Side* side : sides) {
    side->along = side->view.strides[dim];
    side->across = across < 0 ? 0 : side->view.strides[across];
    side->stride = (beside < 0 ? side->along : side->across) / static_cast<dim_t>(element_size(side->type));
    side->view.sizes[dim] = 1;
    if (across >= 0) side->view.sizes[across] = 1;
  }
  for_each_place({&from.view, &to.view, &place_to.view}, from.view.dim, [&](char* const* at) {
    for (dim_t first = 0; first < width; first += most) {
      const int lanes = static_cast<int>(width - first < most ? width - first : most);
      // Side by side: one step of all lanes at a time. Else many steps of one, or all of several.
      const dim_t per_block = beside < 0 ? kBlock : 1;
      scan.start();
      for (dim_t i = 0; i < length; i += per_block) {
        const dim_t count = length - i < per_block ? length - i : per_block, elements = count * lanes;
        char* address[3];
        for (int k = 0; k < 3; ++k) address[k] = at[k] + first * sides[k]->across + i * sides[k]->along;
        // What is int64 already is computed where it goes.
        const auto direct = [](const Side& s) { return s.type == ScalarType::Long && s.stride == 1; };
        C block[kBlock];
        int64_t place_block[kBlock];
        C* const x = same_type<C, int64_t> && direct(to) ? reinterpret_cast<C*>(address[1]) : block;
        int64_t* const place =
            places && direct(place_to) ? reinterpret_cast<int64_t*>(address[2]) : place_block;
        load_block(x, from.type, address[0], from.stride, elements);
        if (beside >= 0) scan.run(x, lanes, count, place);
        for (int k = 0; beside < 0 && k < lanes; ++k) {
          if (k > 0) scan.start();
          scan.run(x + k * count, 1, count, place + k * count);
        }
        if (x == block) store_block(to.type, address[1], to.stride, x, elements);
        if (places && place == place_block)
          store_block(place_to.type, address[2], place_to.stride, place, elements);
      }
    }
  });
}

// result = function(result, x), from the first element on.
template <class C, class Function>
struct Running {
  Function function;
  bool begun = false;
  C result[kLanes] = {};

  void start() { begun = false; }

  void run(C* x, int lanes, dim_t count, int64_t*) {
    dim_t i = begun ? 0 : 1;
    C last = begun ? result[0] : x[0];  // a lane alone stays in a register
    for (int k = 0; !begun && k < lanes; ++k) result[k] = x[k];
    begun = true;
    for (; lanes == 1 && i < count; ++i) x[i] = last = function(last, x[i]);
    if (lanes == 1) result[0] = last;
    for (x += i * lanes; i < count; ++i) {
      for (int k = 0; k < lanes; ++k, ++x) *x = result[k] = function(result[k], *x);
    }
  }
};

constexpr auto kLogAddExp = [](double a, double b) {
  const double low = a < b ? a : b, high = a < b ? b : a;
  if (a != a || b != b) return a + b;
  if (low == high && low - low != 0) return low;  // the same infinity
  return high + log1p(exp(low - high));
};

// Elements become C first.
template <class C, class Function>
static void run_as(const Tensor& self, int64_t dim, Function function, Tensor& out) {
  Running<C, Function> scan{function};
  scan_lanes<C>(self, static_cast<int>(dim), scan, out, nullptr);
}

// As in ATen, floats are summed in double, 16-bit floats in float.
template <class Function>
static void running(KernelContext& ctx, const Tensor& self, int64_t dim, Function function, Tensor& out) {
  if (!normalize_dim(ctx, dim, self.dim()) || !ctx.resize(out, self.sizes())) return;
  const ScalarType type = out.scalar_type();
  if (type == ScalarType::Half || type == ScalarType::BFloat16)
    return run_as<float>(self, dim, function, out);
  if (is_floating(type)) return run_as<double>(self, dim, function, out);
  if (type == ScalarType::Bool || is_integral(type)) return run_as<int64_t>(self, dim, function, out);
  if (kComplexSelected && is_complex(type)) return run_as<Complex>(self, dim, function, out);
  ctx.fail(Status::NotSupported, "element type {} is not supported here", dtype_name(type));
}

void cumsum_out(KernelContext& ctx, const Tensor& self, int64_t dim, Optional<ScalarType>, Tensor& out) {
  running(ctx, self, dim, [](auto a, auto b) { return math::plus(a, b); }, out);
}

void cumprod_out(KernelContext& ctx, const Tensor& self, int64_t dim, Optional<ScalarType>, Tensor& out) {
  running(ctx, self, dim, [](auto a, auto b) { return math::times(a, b); }, out);
}

void logcumsumexp_out(KernelContext& ctx, const Tensor& self, int64_t dim, Tensor& out) {
  if (!normalize_dim(ctx, dim, self.dim()) || !ctx.resize(out, self.sizes())) return;
  if (!is_floating(out.scalar_type()))
    return ctx.fail("logcumsumexp is floating point, out has dtype {}", dtype_name(out.scalar_type()));
  run_as<double>(self, dim, kLogAddExp, out);
}

// The best element so far and its place: the last among equals; NaN stays.
template <class C>
struct RunningBest {
  bool greatest;
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

void running_best_out(KernelContext& ctx, bool greatest, const Tensor& self, int64_t dim, Tensor& values,
                      Tensor& indices) {
  if (!check_same_dtype(ctx, self, values) || !normalize_dim(ctx, dim, self.dim())) return;
  if (!ctx.resize(values, self.sizes()) || !ctx.resize(indices, self.sizes())) return;
  dispatch_compute(ctx, self.scalar_type(), [&](auto tag) {
    using C = typename decltype(tag)::type;
    RunningBest<C> scan;
    scan.greatest = greatest;
    scan_lanes<C>(self, static_cast<int>(dim), scan, values, &indices);
  });
}

}  // namespace penlight::portable
