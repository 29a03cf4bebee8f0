// Convolution of videos by windows of several pixels of several frames, as one of images: the frames that
// each result needs are laid side by side, a few results at a time, so that they are in the cache when the
// convolution reads them.
#include "image.h"
#include "kernels/common/move.h"
#include "packed.h"
#include "parallel.h"
#include "video.h"

namespace penlight::optimized {

namespace {

// Elements laid out at once, half of what the second cache holds; and more where weights are many, of which
// each convolution reads all.
constexpr dim_t kElements = kSecondCache / 2, kElementsOfWeight = 4;

// Frames as a window over time reads them.
class Frames {
 public:
  Frames(const float* input, const Times& times, dim_t height, dim_t width, dim_t channels, dim_t groups)
      : height(height),
        width(width),
        channels(channels),
        input_(reinterpret_cast<const char*>(input)),
        times_(times),
        each_(channels / groups * kItem),
        frames_(mover(width * groups, each_)),
        zeros_(mover(width * groups, 0)) {}

  dim_t side_by_side() const { return times_.window.taps * channels; }

  // Row `y` of what result `index` reads.
  void lay(dim_t index, dim_t y, float* to) const {
    constexpr float zero = 0;
    for (dim_t tap = 0; tap < times_.window.taps; ++tap) {
      const char* const from = row(index, tap, y);
      char* const place = reinterpret_cast<char*>(to) + tap * each_;
      from ? frames_.run(from, place) : zeros_.run(reinterpret_cast<const char*>(&zero), place);
    }
  }

  const dim_t height, width, channels;

 private:
  static constexpr dim_t kItem = sizeof(float);

  // One group's runs are those of another that has as many more pixels.
  Mover mover(dim_t runs, dim_t from) const {
    const dim_t sizes[] = {runs, each_ / kItem}, source[] = {from, from ? kItem : 0},
                places[] = {times_.window.taps * each_, kItem};
    return Mover(sizeof(float), 2, sizes, source, places);
  }

  // Where row `y` of the frame lies that result `index` reads at place `tap`; null outside of its video.
  const char* row(dim_t index, dim_t tap, dim_t y) const {
    const Numbers& n = times_.window;
    const dim_t video = index / times_.out,
                frame = index % times_.out * n.stride - n.before + tap * n.dilation;
    if (frame < 0 || frame >= times_.frames) return nullptr;
    return input_ + ((video * times_.frames + frame) * height + y) * width * channels * kItem;
  }

  const char* input_;
  Times times_;
  dim_t each_;  // bytes of a group's channels
  Mover frames_, zeros_;
};

// Convolves what results `range` read.
void convolve_range(KernelContext& ctx, const PackedConvolution& call, const Frames& frames, Range range,
                    Tensor& out) {
  constexpr uint8_t order[] = {0, 2, 3, 1};
  constexpr double operations = 4;  // as long as copying an element takes
  const dim_t count = range.last - range.first, height = frames.height, width = frames.width,
              channels = frames.side_by_side(), row = width * channels, elements = count * height * row;
  float* const side_by_side = ctx.allocate_scratch_array<float>(static_cast<size_t>(elements));
  if (!side_by_side) return;
  in_parts(ctx, count * height, operations * static_cast<double>(row), [&](Range rows) {
    for (dim_t i = rows.first; i < rows.last; ++i)
      frames.lay(range.first + i / height, i % height, side_by_side + i * row);
  });
  const dim_t read[] = {count, channels, height, width},
              made[] = {count, out.size(1), out.size(2), out.size(3)};
  const dim_t result = made[1] * made[2] * made[3], place = range.first * result;
  const bool adds = call.residual.has_value();
  const Tensor& added = adds ? call.residual.value() : out;
  ImageView from(call.images[0], read, order), to(out, made, order), more(added, made, order);
  from.use(side_by_side, elements);
  to.use(out.mutable_data_ptr<float>() + place, count * result);
  more.use(const_cast<float*>(added.const_data_ptr<float>()) + place, count * result);
  const Tensor image = from.tensor();
  const Optional<Tensor> residual = adds ? Optional<Tensor>(more.tensor()) : Optional<Tensor>();
  Tensor part = to.tensor();
  convolve(ctx,
           {{&image, 1},
            call.weight,
            residual,
            call.window,
            call.stride,
            call.padding,
            call.dilation,
            call.groups,
            call.activation,
            call.low,
            call.high},
           part);
}

}  // namespace

bool convolve_side_by_side(KernelContext& ctx, const PackedConvolution& call, const Times& times,
                           Tensor& out) {
  const Tensor& input = call.images[0];
  const Frames frames(input.const_data_ptr<float>(), times, input.size(2), input.size(3), input.size(1),
                      static_cast<dim_t>(call.groups));
  const dim_t results = times.videos * times.out;
  dim_t frame = 0, all = 0, wanted = 0;
  if (!multiply_sizes(times.window.taps, frames.channels, frame) ||
      !multiply_sizes(frames.height * frames.width, frame, frame) || !multiply_sizes(results, frame, all) ||
      !multiply_sizes(kElementsOfWeight, call.weight.numel(), wanted))
    return ctx.refuse("conv3d_packed: {} frames side by side are too large", times.window.taps);
  if (results == 0) return true;
  if (wanted < kElements) wanted = kElements;
  const dim_t turns = all > wanted ? (all - 1) / wanted + 1 : 1, parts = turns < results ? turns : results;
  for (dim_t part = 0; part < parts && ctx.ok(); ++part) {
    if (part > 0) ctx.release_scratch();
    convolve_range(ctx, call, frames, range_of(static_cast<size_t>(part), parts, results), out);
  }
  return ctx.ok();
}

}  // namespace penlight::optimized
