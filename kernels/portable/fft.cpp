// Discrete Fourier transforms, of any length and along any dimensions, in double.
//
// A length is split into its prime factors (Cooley and Tukey): transforms of every
// p-th element are joined by transforms of length p. A length with a prime factor
// above 50 is done as a convolution with a chirp (Bluestein), which is a transform
// of a power of two. Real input has its imaginary parts filled in, and of its
// result, which is symmetric, half is stored.
#include "kernels/common/broadcast.h"
#include "kernels/common/checks.h"
#include "kernels/common/complex.h"
#include "kernels/common/span.h"

namespace penlight::portable {

namespace {

constexpr dim_t kLargestFactor = 50;
constexpr double kTau = 6.283185307179586476925;

dim_t smallest_factor(dim_t n) {
  if (n % 4 == 0) return 4;
  for (dim_t p = 2; p * p <= n; ++p) {
    if (n % p == 0) return p;
  }
  return n;
}

bool has_large_factor(dim_t n) {
  while (n > 1) {
    const dim_t p = smallest_factor(n);
    if (p > kLargestFactor) return true;
    n /= p;
  }
  return false;
}

Complex times_i(Complex x, double sign) { return {-sign * x.im, sign * x.re}; }

// Transforms of one length. `sign` is -1 forward and 1 backward; nothing is scaled.
class Transform {
 public:
  bool prepare(KernelContext& ctx, dim_t n, double sign) {
    n_ = n;
    sign_ = sign;
    chirped_ = has_large_factor(n);
    length_ = n;
    if (chirped_) {
      for (length_ = 1; length_ < 2 * n - 1;) length_ *= 2;
    }
    roots_ = scratch<Complex>(ctx, length_);
    if (!roots_) return false;
    for (dim_t i = 0; i < length_; ++i) roots_[i] = root(i, length_, chirped_ ? -1 : sign);
    if (!chirped_) return true;
    chirp_ = scratch<Complex>(ctx, n);
    filter_ = scratch<Complex>(ctx, length_);
    padded_ = scratch<Complex>(ctx, length_);
    Complex* spare = scratch<Complex>(ctx, length_);
    if (!ctx.ok()) return false;
    spare_ = spare;
    for (dim_t i = 0; i < length_; ++i) spare[i] = 0;
    for (dim_t i = 0; i < n; ++i) {
      // i squared modulo 2 n, so that the angle keeps its digits.
      const uint64_t square =
          static_cast<uint64_t>(i) * static_cast<uint64_t>(i) % static_cast<uint64_t>(2 * n);
      chirp_[i] = root(static_cast<dim_t>(square), 2 * n, sign);
      spare[i] = conj(chirp_[i]);
      if (i > 0) spare[length_ - i] = spare[i];
    }
    split(length_, spare, 1, filter_);
    return true;
  }

  // `to` may not be `from`.
  void run(const Complex* from, Complex* to) const {
    if (!chirped_) return split(n_, from, 1, to);
    for (dim_t i = 0; i < length_; ++i) padded_[i] = i < n_ ? from[i] * chirp_[i] : Complex(0);
    split(length_, padded_, 1, spare_);
    // The inverse as a forward transform of the conjugate.
    for (dim_t i = 0; i < length_; ++i) padded_[i] = conj(spare_[i] * filter_[i]);
    split(length_, padded_, 1, spare_);
    const double scale = 1 / static_cast<double>(length_);
    for (dim_t i = 0; i < n_; ++i) to[i] = conj(spare_[i]) * Complex(scale) * chirp_[i];
  }

 private:
  static Complex conj(Complex x) { return {x.re, -x.im}; }
  static Complex root(dim_t i, dim_t n, double sign) {
    const double angle = kTau * static_cast<double>(i) / static_cast<double>(n);
    return {math::cos(angle), sign * math::sin(angle)};
  }

  // to = the transform of from[0], from[stride], ...; `n` divides the length.
  void split(dim_t n, const Complex* from, dim_t stride, Complex* to) const {
    if (n == 1) {
      to[0] = from[0];
      return;
    }
    const dim_t p = smallest_factor(n), m = n / p, step = length_ / n;
    for (dim_t k = 0; k < p; ++k) split(m, from + k * stride, stride * p, to + k * m);
    for (dim_t q = 0; q < m; ++q) {
      for (dim_t k = 0; k < p; ++k) part_[k] = to[k * m + q] * roots_[k * q * step];
      if (p == 4) {
        const Complex even = part_[0] + part_[2], odd = part_[1] + part_[3];
        const Complex difference = part_[0] - part_[2];
        const Complex turned = times_i(part_[1] - part_[3], chirped_ ? -1 : sign_);
        to[q] = even + odd;
        to[q + m] = difference + turned;
        to[q + 2 * m] = even - odd;
        to[q + 3 * m] = difference - turned;
      } else {
        for (dim_t r = 0; r < p; ++r) {
          Complex sum = part_[0];
          for (dim_t k = 1; k < p; ++k) sum = sum + part_[k] * roots_[k * r % p * (length_ / p)];
          to[q + r * m] = sum;
        }
      }
    }
  }

  dim_t n_, length_;
  double sign_;
  bool chirped_;
  Complex *roots_, *chirp_, *filter_, *padded_;
  mutable Complex* spare_;
  mutable Complex part_[kLargestFactor];  // of one split at a time
};

// A tensor in row-major order, seen as [outer, size, inner] along one dimension.
struct Volume {
  Complex* data;
  Shape sizes;

  dim_t inner(int d) const {
    dim_t result = 1;
    while (++d < sizes.dim) result *= sizes[d];
    return result;
  }
  dim_t outer(int d) const {
    dim_t result = 1;
    while (d-- > 0) result *= sizes[d];
    return result;
  }
};

bool transform(KernelContext& ctx, Volume& volume, int d, double sign) {
  const dim_t n = volume.sizes[d], inner = volume.inner(d), outer = volume.outer(d);
  if (!check(ctx, n > 0, "a transform needs at least one element")) return false;
  Transform line;
  Complex* from = scratch<Complex>(ctx, 2 * n);
  if (!from || !line.prepare(ctx, n, sign)) return false;
  Complex* const to = from + n;
  for (dim_t i = 0; i < outer; ++i) {
    for (dim_t j = 0; j < inner; ++j) {
      Complex* at = volume.data + i * n * inner + j;
      for (dim_t k = 0; k < n; ++k) from[k] = at[k * inner];
      line.run(from, to);
      for (dim_t k = 0; k < n; ++k) at[k * inner] = to[k];
    }
  }
  return true;
}

// The same along `count` dimensions; `elements` is multiplied by their sizes.
bool transform_all(KernelContext& ctx, Volume& volume, const int* dims, size_t count, double sign,
                   double& elements) {
  for (size_t i = 0; i < count; ++i) {
    elements *= static_cast<double>(volume.sizes[dims[i]]);
    if (!transform(ctx, volume, dims[i], sign)) return false;
  }
  return true;
}

// Gives dimension `d` another size. With `symmetric` the first half decides: element n - k is the conjugate
// of element k, and what is symmetric to itself is real.
bool change_size(KernelContext& ctx, Volume& volume, int d, dim_t size, bool symmetric) {
  const dim_t old = volume.sizes[d], inner = volume.inner(d), outer = volume.outer(d);
  Complex* made = scratch<Complex>(ctx, outer * size * inner);
  if (!made) return false;
  for (dim_t i = 0; i < outer; ++i) {
    for (dim_t k = 0; k < size; ++k) {
      const bool mirrored = symmetric && 2 * k > size, real = symmetric && (k == 0 || 2 * k == size);
      for (dim_t j = 0; j < inner; ++j) {
        Complex value = volume.data[(i * old + (mirrored ? size - k : k)) * inner + j];
        if (mirrored) value.im = -value.im;
        if (real) value.im = 0;
        made[(i * size + k) * inner + j] = value;
      }
    }
  }
  volume.data = made;
  volume.sizes[d] = size;
  return true;
}

// A copy of `self`, and the transformed dimensions, counted from the start.
bool read(KernelContext& ctx, const Tensor& self, IntArrayRef list, Volume& volume, int (&dims)[kMaxDim]) {
  if (!check(ctx, list.size() <= static_cast<size_t>(self.dim()), "more dimensions than the tensor has"))
    return false;
  for (size_t i = 0; i < list.size(); ++i) {
    if (!wrap_dim(ctx, list[i], self.dim(), dims[i])) return false;
  }
  volume = {dense_copy<Complex>(ctx, self), Shape(self.sizes())};
  return volume.data != nullptr;
}

// ATen's numbers: 0 leaves the sums, 1 divides by the root of their length, 2 by the length.
void store_scaled(Volume& volume, int64_t normalization, double count, Tensor& out) {
  const double scale = normalization == 0 ? 1 : normalization == 1 ? 1 / math::sqrt(count) : 1 / count;
  const dim_t numel = volume.sizes.numel();
  for (dim_t i = 0; i < numel; ++i) volume.data[i] = volume.data[i] * Complex(scale);
  dense_store(volume.data, out);
}

}  // namespace

void fft_c2c_out(KernelContext& ctx, const Tensor& self, IntArrayRef dim, int64_t normalization, bool forward,
                 Tensor& out) {
  int dims[kMaxDim];
  Volume volume;
  if (!read(ctx, self, dim, volume, dims) || !ctx.resize(out, self.sizes())) return;
  double count = 1;
  if (!transform_all(ctx, volume, dims, dim.size(), forward ? -1 : 1, count)) return;
  store_scaled(volume, normalization, count, out);
}

void fft_r2c_out(KernelContext& ctx, const Tensor& self, IntArrayRef dim, int64_t normalization,
                 bool onesided, Tensor& out) {
  int dims[kMaxDim];
  Volume volume;
  if (!check(ctx, !dim.empty(), "a transform needs a dimension") || !read(ctx, self, dim, volume, dims))
    return;
  const int last = dims[dim.size() - 1];
  double count = static_cast<double>(self.size(last));
  if (!transform(ctx, volume, last, -1)) return;
  if (onesided && !change_size(ctx, volume, last, self.size(last) / 2 + 1, false)) return;
  if (!transform_all(ctx, volume, dims, dim.size() - 1, -1, count)) return;
  if (!ctx.resize(out, volume.sizes)) return;
  store_scaled(volume, normalization, count, out);
}

void fft_c2r_out(KernelContext& ctx, const Tensor& self, IntArrayRef dim, int64_t normalization,
                 int64_t last_dim_size, Tensor& out) {
  int dims[kMaxDim];
  Volume volume;
  if (!check(ctx, !dim.empty() && last_dim_size > 0, "a transform needs a dimension with elements") ||
      !read(ctx, self, dim, volume, dims))
    return;
  const int last = dims[dim.size() - 1];
  const dim_t size = static_cast<dim_t>(last_dim_size);
  if (!check(ctx, self.size(last) >= size / 2 + 1, "the input has fewer elements than half the result"))
    return;
  double count = static_cast<double>(size);
  if (!transform_all(ctx, volume, dims, dim.size() - 1, 1, count)) return;
  if (!change_size(ctx, volume, last, size, true) || !transform(ctx, volume, last, 1)) return;
  if (!ctx.resize(out, volume.sizes)) return;
  store_scaled(volume, normalization, count, out);
}

}  // namespace penlight::portable
