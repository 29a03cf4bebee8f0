// Sampling float32 images at the positions of a grid. The portable kernel takes, and reports, what this
// declines.
#include "vector/grid_sample.h"

#include "image.h"
#include "isa.h"
#include "kernels/common/view.h"
#include "parallel.h"
#include "parameters.h"

namespace penlight::optimized {

namespace {

// By ATen's numbers: linear, of the nearest pixel, cubic; and zeros, the border, reflections around images.
constexpr int kTaps[] = {2, 1, 4};
constexpr GridPadding kPaddings[] = {GridPadding::Zeros, GridPadding::Border, GridPadding::Reflection};
constexpr dim_t kLargestAxis = 1 << 22;   // its places are exact in float32, halves too
constexpr dim_t kLargestPlane = 1 << 30;  // and those of a plane are numbers of 32 bits
constexpr dim_t kFewChannels = 8;         // of so few, planes are read
constexpr dim_t kFewPositions = 4;        // and where there are that much fewer positions than pixels
constexpr double kOperations = 6, kOperationsOfTaps = 10;  // of a pixel's channel; and of a pixel

// Planes of images as pixels whose channels lie beside each other.
void turn(const float* planes, dim_t images, dim_t channels, dim_t pixels, float* to) {
  constexpr dim_t item = sizeof(float);
  const dim_t sizes[] = {images, pixels, channels};
  const dim_t from_strides[] = {channels * pixels * item, item, pixels * item};
  const dim_t to_strides[] = {channels * pixels * item, channels * item, item};
  Mover(sizeof(float), 3, sizes, from_strides, to_strides)
      .run(reinterpret_cast<const char*>(planes), reinterpret_cast<char*>(to));
}

// False, with nothing written, if it is for the portable kernel.
bool sample(KernelContext& ctx, const Tensor& input, const Tensor& grid, int64_t mode, int64_t padding,
            bool align_corners, Tensor& out) {
  if (!is_float(input) || !is_float(grid) || !is_float(out) || input.dim() != 4 || grid.dim() != 4 ||
      mode < 0 || mode > 2 || padding < 0 || padding > 2) {
    return false;
  }
  const dim_t images = input.size(0), channels = input.size(1), height = input.size(2), width = input.size(3);
  if (grid.size(0) != images || grid.size(3) != 2 || input.numel() == 0 || grid.numel() == 0 ||
      height > kLargestAxis || width > kLargestAxis || height > kLargestPlane / width) {
    return false;
  }
  const dim_t sizes[] = {images, channels, grid.size(1), grid.size(2)};
  if (!ctx.resize(out, SizesRef(sizes, 4))) return true;
  const bool planar = input.is_contiguous() && out.is_contiguous();
  if (!planar && !(is_channels_last(input) && is_channels_last(out))) return false;
  GridSample job{};
  job.input = input.const_data_ptr<float>();
  job.channels = channels;
  job.height = height;
  job.width = width;
  job.grid = grid.const_data_ptr<float>();
  job.grid_image = grid.stride(0);
  job.grid_line = grid.stride(1);
  job.grid_column = grid.stride(2);
  job.grid_axis = grid.stride(3);
  job.output = out.mutable_data_ptr<float>();
  job.positions = grid.size(1) * grid.size(2);
  job.out_width = grid.size(2);
  job.taps = kTaps[mode];
  job.padding = kPaddings[padding];
  job.align_corners = align_corners;
  const dim_t pixels = height * width;
  const bool turned = planar && channels >= kFewChannels && job.positions >= pixels / kFewPositions;
  job.pixels = !planar || turned;
  if (turned) {
    float* copy = ctx.allocate_scratch_array<float>(static_cast<size_t>(input.numel()));
    if (!copy) return true;
    const dim_t image = channels * pixels;
    in_parts(ctx, images, 2.0 * static_cast<double>(image), [&](Range range) {
      turn(job.input + range.first * image, range.last - range.first, channels, pixels,
           copy + range.first * image);
    });
    job.input = copy;
  }
  const dim_t blocks = images * ((job.positions + kGridBlock - 1) / kGridBlock);
  const double work = static_cast<double>(images * job.positions) * static_cast<double>(job.taps * job.taps) *
                      (kOperationsOfTaps + kOperations * static_cast<double>(channels));
  const dim_t parts = parts_of(ctx, work, blocks);
  PartMemory memory = {};
  if (turned &&
      !allocate_parts(ctx, parts, static_cast<size_t>(kGridBlock * channels) * sizeof(float), memory)) {
    return true;
  }
  const auto part = [&](size_t index) {
    GridSample mine = job;
    const Range range = range_of(index, parts, blocks);
    mine.first_block = range.first;
    mine.last_block = range.last;
    mine.samples = turned ? static_cast<float*>(memory.of(index)) : nullptr;
    routines().grid_sample(mine);
  };
  ctx.parallel(static_cast<size_t>(parts), part);
  return true;
}

}  // namespace

Tensor& grid_sampler_2d_out(KernelContext& ctx, const Tensor& input, const Tensor& grid,
                            int64_t interpolation_mode, int64_t padding_mode, bool align_corners,
                            Tensor& out) {
  if (!sample(ctx, input, grid, interpolation_mode, padding_mode, align_corners, out)) ctx.decline();
  return out;
}

}  // namespace penlight::optimized
