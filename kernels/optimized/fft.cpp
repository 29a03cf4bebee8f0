// Fourier transforms of dense float32 and complex64 tensors, along any dimensions; the portable
// kernels take what these decline.
#include "fourier.h"
#include "parameters.h"
#include "run.h"

namespace penlight::optimized {

namespace {

// Elements before a dimension, in it, and after it.
struct Around {
  dim_t outer, inner;
};

Around around(const dim_t* sizes, dim_t rank, dim_t d) {
  Around result = {1, 1};
  for (dim_t k = 0; k < rank; ++k) {
    if (k != d) (k < d ? result.outer : result.inner) *= sizes[k];
  }
  return result;
}

// What lines along a dimension are, in blocks of as many as there are side by side, or, where those
// are few, of as many as come after each other.
bool crosses(Around around) { return around.inner < 8 && around.outer >= 8; }

dim_t blocks_of(Around around) {
  if (around.inner == 1 || around.outer == 1) return 1;
  return crosses(around) ? around.inner : around.outer;
}

dim_t lines_of(Around around) { return around.inner * around.outer / blocks_of(around); }

Lines places_of(Around around, dim_t count, dim_t width) {
  const dim_t step = around.inner * width;
  if (around.inner == 1) return {0, count * width, width};
  if (around.outer == 1) return {0, width, step};
  if (crosses(around)) return {width, count * step, step};
  return {count * step, width, step};
}

// A tensor in the order in which it lies in memory, with the transformed dimensions.
struct Task {
  dim_t sizes[kMaxDim];  // of what the last job gave
  dim_t rank, dims[kMaxDim];
  dim_t order[kMaxDim];  // the tensor's dimension in each place
  double elements;       // of the transformed dimensions
};

bool read_task(const Tensor& self, ArrayRef<int64_t> dims, Task& task) {
  Run run;
  task.rank = self.dim();
  if (self.numel() == 0 || dims.empty() || dims.size() > as_size(task.rank) || !read_run(self, 0, run))
    return false;
  for (dim_t k = 0; k < task.rank; ++k) {
    task.order[k] = dim_at(self, k);
    task.sizes[k] = self.size(task.order[k]);
  }
  task.elements = 1;
  for (size_t i = 0; i < dims.size(); ++i) {
    const dim_t d = static_cast<dim_t>(dims[i] < 0 ? dims[i] + task.rank : dims[i]);
    if (d < 0 || d >= task.rank) return false;
    for (dim_t k = 0; k < task.rank; ++k) {
      if (task.order[k] == d) task.dims[i] = k;
    }
    task.elements *= static_cast<double>(self.size(d));
  }
  return true;
}

// Does `out`, which has its sizes, lie in the same order?
bool lies_in_order(const Task& task, const Tensor& out) {
  Run run;
  if (!read_run(out, 0, run)) return false;
  for (dim_t k = 0; k < task.rank; ++k) {
    if (dim_at(out, k) != task.order[k]) return false;
  }
  return true;
}

// ATen's numbers: 0 leaves the sums, 1 divides by the root of their length, 2 by the length.
float scale_of(int64_t normalization, double elements) {
  if (normalization == 0) return 1;
  return static_cast<float>(1 / (normalization == 1 ? __builtin_sqrt(elements) : elements));
}

enum class Kind { Complex, FromReal, ToReal };

// One dimension of a task, with `size` elements before or after a transform from or to real ones.
Fourier job_of(const Task& task, dim_t d, Kind kind, dim_t size, dim_t out_count, bool backward) {
  const Around a = around(task.sizes, task.rank, d);
  Fourier job{};
  job.real_in = kind == Kind::FromReal;
  job.real_out = kind == Kind::ToReal;
  job.packed = kind != Kind::Complex && size % 2 == 0;
  job.length = job.packed ? size / 2 : size;
  job.in_count = job.real_out ? size / 2 + 1 : size;
  job.out_count = out_count;
  job.from = places_of(a, task.sizes[d], job.real_in ? 1 : 2);
  job.to = places_of(a, out_count, job.real_out ? 1 : 2);
  job.lines = lines_of(a);
  job.backward = backward;
  job.scale = 1;
  return job;
}

// Does the job, and gives the dimension its size.
bool run(KernelContext& ctx, Task& task, dim_t d, Fourier job, const float* input, float* output,
         float scale) {
  const dim_t blocks = blocks_of(around(task.sizes, task.rank, d));
  task.sizes[d] = job.out_count;
  job.input = input;
  job.output = output;
  job.scale = job.packed && job.real_in ? scale / 2 : scale;  // what is folded is twice the spectrum
  return transform(ctx, job, blocks);
}

Fourier complex_job(const Task& task, dim_t d, bool backward) {
  return job_of(task, d, Kind::Complex, task.sizes[d], task.sizes[d], backward);
}

// The first `count` dimensions, complex to complex, within `data` but for the first's input.
bool run_complex(KernelContext& ctx, Task& task, size_t count, bool backward, const float* input, float* data,
                 float scale) {
  for (size_t i = 0; i < count; ++i) {
    const dim_t d = task.dims[i];
    const float last = i + 1 == count ? scale : 1;
    if (!run(ctx, task, d, complex_job(task, d, backward), i == 0 ? input : data, data, last)) return false;
  }
  return true;
}

bool complex_fits(const Task& task, size_t count) {
  for (size_t i = 0; i < count; ++i) {
    const Around a = around(task.sizes, task.rank, task.dims[i]);
    if (!fits(complex_job(task, task.dims[i], false), blocks_of(a))) return false;
  }
  return true;
}

bool is_complex(const Tensor& tensor) { return tensor.scalar_type() == ScalarType::ComplexFloat; }

const float* floats_of(const Tensor& tensor) { return static_cast<const float*>(tensor.const_data_ptr()); }

float* floats_of(Tensor& tensor) { return static_cast<float*>(tensor.mutable_data_ptr()); }

// Gives `out` the task's sizes, but `size` for dimension `d`.
bool resize_as(KernelContext& ctx, const Task& task, dim_t d, dim_t size, Tensor& out) {
  dim_t sizes[kMaxDim];
  for (dim_t k = 0; k < task.rank; ++k) sizes[task.order[k]] = k == d ? size : task.sizes[k];
  return ctx.resize(out, SizesRef(sizes, as_size(task.rank)));
}

}  // namespace

Tensor& fft_c2c_out(KernelContext& ctx, const Tensor& self, ArrayRef<int64_t> dim, int64_t normalization,
                    bool forward, Tensor& out) {
  Task task;
  if (!is_complex(self) || !is_complex(out) || !read_task(self, dim, task) || !complex_fits(task, dim.size()))
    return decline(ctx, out);
  if (!ctx.resize(out, self.sizes())) return out;
  if (!lies_in_order(task, out)) return decline(ctx, out);
  const float scale = scale_of(normalization, task.elements);
  run_complex(ctx, task, dim.size(), !forward, floats_of(self), floats_of(out), scale);
  return out;
}

Tensor& fft_r2c_out(KernelContext& ctx, const Tensor& self, ArrayRef<int64_t> dim, int64_t normalization,
                    bool onesided, Tensor& out) {
  Task task;
  if (!is_float(self) || !is_complex(out) || !read_task(self, dim, task)) return decline(ctx, out);
  const size_t others = dim.size() - 1;
  const dim_t last = task.dims[others], size = task.sizes[last], given = onesided ? size / 2 + 1 : size;
  const Fourier job = job_of(task, last, Kind::FromReal, size, given, false);
  if (!fits(job, blocks_of(around(task.sizes, task.rank, last))) || !complex_fits(task, others))
    return decline(ctx, out);
  if (!resize_as(ctx, task, last, given, out)) return out;
  if (!lies_in_order(task, out)) return decline(ctx, out);
  const float scale = scale_of(normalization, task.elements);
  if (!run(ctx, task, last, job, floats_of(self), floats_of(out), others == 0 ? scale : 1)) return out;
  run_complex(ctx, task, others, false, floats_of(out), floats_of(out), scale);
  return out;
}

Tensor& fft_c2r_out(KernelContext& ctx, const Tensor& self, ArrayRef<int64_t> dim, int64_t normalization,
                    int64_t last_dim_size, Tensor& out) {
  Task task;
  const dim_t size = static_cast<dim_t>(last_dim_size);
  if (!is_complex(self) || !is_float(out) || size < 1 || !read_task(self, dim, task))
    return decline(ctx, out);
  const size_t others = dim.size() - 1;
  const dim_t last = task.dims[others];
  const Fourier job = job_of(task, last, Kind::ToReal, size, size, true);
  if (task.sizes[last] < job.in_count || !fits(job, blocks_of(around(task.sizes, task.rank, last))) ||
      !complex_fits(task, others))
    return decline(ctx, out);
  task.elements = task.elements / static_cast<double>(task.sizes[last]) * static_cast<double>(size);
  if (!resize_as(ctx, task, last, size, out)) return out;
  if (!lies_in_order(task, out)) return decline(ctx, out);
  const float* spectra = floats_of(self);
  if (others > 0) {
    float* between = ctx.allocate_scratch_array<float>(as_size(2 * self.numel()));
    if (!between || !run_complex(ctx, task, others, true, spectra, between, 1)) return out;
    spectra = between;
  }
  run(ctx, task, last, job, spectra, floats_of(out), scale_of(normalization, task.elements));
  return out;
}

}  // namespace penlight::optimized
