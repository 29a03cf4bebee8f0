// Eigenvalues of any square matrix: its Schur form by shifted QR steps.
//
// In complex numbers whatever the dtype, so that conjugate pairs need no cases of
// their own, and with one tool, the rotation of two rows and two columns. Values
// come in any order; vectors have length 1 and a largest component that is real.
#include "kernels/common/matrices.h"

namespace penlight::portable {

namespace {

constexpr double kEpsilon = 2.2e-16;
constexpr int kMaxSteps = 60;  // for one eigenvalue; two or three are usual

inline Complex conj(Complex x) { return {x.re, -x.im}; }

// A unitary matrix [[conj(c), conj(s)], [-s, c]] that turns (a, b) into (r, 0).
struct Rotation {
  Complex c = 1, s = 0;

  void find(Complex a, Complex b) {
    const double length = math::hypot(math::abs(a), math::abs(b));
    c = length > 0 ? a / length : Complex(1);
    s = length > 0 ? b / length : Complex(0);
  }
  // Columns [first, last) of rows p and q.
  void turn_rows(Complex* a, dim_t n, dim_t p, dim_t q, dim_t first, dim_t last) const {
    for (dim_t i = first; i < last; ++i) {
      const Complex x = a[p * n + i], y = a[q * n + i];
      a[p * n + i] = conj(c) * x + conj(s) * y;
      a[q * n + i] = c * y - s * x;
    }
  }
  // Rows [0, last) of columns p and q, by the inverse.
  void turn_columns(Complex* a, dim_t n, dim_t p, dim_t q, dim_t last) const {
    for (dim_t i = 0; i < last; ++i) {
      const Complex x = a[i * n + p], y = a[i * n + q];
      a[i * n + p] = c * x + s * y;
      a[i * n + q] = conj(c) * y - conj(s) * x;
    }
  }
};

// `a` becomes zero below its first subdiagonal; `q` collects the columns' rotations.
void reduce_to_hessenberg(Complex* a, dim_t n, Complex* q) {
  for (dim_t i = 0; i < n * n; ++i) q[i] = i % (n + 1) == 0 ? 1 : 0;
  Rotation rotation;
  for (dim_t column = 0; column + 2 < n; ++column) {
    for (dim_t row = n - 1; row > column + 1; --row) {
      if (math::abs(a[row * n + column]) == 0) continue;
      rotation.find(a[(row - 1) * n + column], a[row * n + column]);
      rotation.turn_rows(a, n, row - 1, row, column, n);
      rotation.turn_columns(a, n, row - 1, row, n);
      rotation.turn_columns(q, n, row - 1, row, n);
      a[row * n + column] = 0;
    }
  }
}

// The eigenvalue of the 2 by 2 block that ends at `last` that is nearer to its last element.
Complex shift_of(const Complex* a, dim_t n, dim_t last) {
  const Complex p = a[(last - 1) * n + last - 1], d = a[last * n + last];
  const Complex half = (p - d) / Complex(2);
  const Complex root = math::sqrt(half * half + a[(last - 1) * n + last] * a[last * n + last - 1]);
  const Complex one = half + root, other = half - root;
  return d + (math::abs(one) < math::abs(other) ? one : other);
}

// Upper triangular, from the bottom up. False when a value does not converge.
bool reduce_to_triangle(Complex* a, dim_t n, Complex* q, Rotation* rotations) {
  int steps = 0;
  for (dim_t last = n - 1; last > 0;) {
    dim_t first = last;
    while (first > 0 &&
           math::abs(a[first * n + first - 1]) >
               kEpsilon * (math::abs(a[first * n + first]) + math::abs(a[(first - 1) * n + first - 1]))) {
      --first;
    }
    if (first > 0) a[first * n + first - 1] = 0;
    if (first == last) {
      --last;
      steps = 0;
      continue;
    }
    if (++steps > kMaxSteps) return false;
    // A shift that runs in circles is left now and then.
    const Complex shift = steps % 10 == 0 ? Complex(math::abs(a[last * n + last - 1])) + a[last * n + last]
                                          : shift_of(a, n, last);
    for (dim_t i = first; i <= last; ++i) a[i * n + i] = a[i * n + i] - shift;
    for (dim_t k = first; k < last; ++k) {
      rotations[k].find(a[k * n + k], a[(k + 1) * n + k]);
      rotations[k].turn_rows(a, n, k, k + 1, k, n);
      a[(k + 1) * n + k] = 0;
    }
    for (dim_t k = first; k < last; ++k) {
      rotations[k].turn_columns(a, n, k, k + 1, k + 2);
      rotations[k].turn_columns(q, n, k, k + 1, n);
    }
    for (dim_t i = first; i <= last; ++i) a[i * n + i] = a[i * n + i] + shift;
  }
  return true;
}

// Eigenvector k of the triangle `t`, into `x`; then as one of the whole matrix, into column k of `v`.
void eigenvector(const Complex* t, const Complex* q, dim_t n, dim_t k, double smallest, Complex* x,
                 Complex* v) {
  x[k] = 1;
  for (dim_t i = k; i-- > 0;) {
    Complex sum = t[i * n + k];
    for (dim_t j = i + 1; j < k; ++j) sum = sum + t[i * n + j] * x[j];
    Complex gap = t[k * n + k] - t[i * n + i];
    if (math::abs(gap) < smallest) gap = smallest;
    x[i] = sum / gap;
    // Of nearly equal values, vectors grow without bound.
    if (math::abs(x[i]) > 1e100) {
      for (dim_t j = i; j <= k; ++j) x[j] = x[j] / Complex(1e100);
    }
  }
  double length = 0;
  Complex largest = 0;
  for (dim_t i = 0; i < n; ++i) {
    Complex sum = 0;
    for (dim_t j = 0; j <= k; ++j) sum = sum + q[i * n + j] * x[j];
    v[i * n + k] = sum;
    length = math::hypot(length, math::abs(sum));
    if (math::abs(sum) > math::abs(largest)) largest = sum;
  }
  const Complex scale = conj(largest) / Complex(math::abs(largest) * length);
  for (dim_t i = 0; i < n; ++i) v[i * n + k] = v[i * n + k] * scale;
}

}  // namespace

void linalg_eig_out(KernelContext& ctx, const Tensor& self, Tensor& eigenvalues, Tensor& eigenvectors) {
  if (!check_square(ctx, self)) return;
  const dim_t n = self.size(-1);
  Batch batch(ctx, self);
  Complex *a = batch.read<Complex>(self), *q = scratch<Complex>(ctx, n, n);
  Complex *x = batch.write<Complex>(eigenvalues, {n}), *v = batch.write<Complex>(eigenvectors, {n, n});
  Rotation* rotations = scratch<Rotation>(ctx, n);
  const double rounding = kEpsilon * static_cast<double>(n);
  batch.for_each([&] {
    double scale;
    if (!normalise(ctx, a, n * n, scale)) return;
    reduce_to_hessenberg(a, n, q);
    if (!reduce_to_triangle(a, n, q, rotations))
      return ctx.fail(Status::KernelFailed, "eigenvalues do not converge");
    for (dim_t k = 0; k < n; ++k) eigenvector(a, q, n, k, rounding, x, v);
    for (dim_t k = 0; k < n; ++k) {
      x[k] = a[k * n + k] * Complex(scale);
      // What a real matrix has of imaginary parts below rounding errors is none.
      if (!is_complex(self.dtype()) && math::fabs(x[k].im) < rounding * scale) x[k].im = 0;
    }
  });
}

}  // namespace penlight::portable
