// Gates of channels, computed from the image that they multiply ("Squeeze-and-Excitation Networks", Hu et
// al., 2018), and convolutions over images so multiplied.
#include "image.h"
#include "isa.h"
#include "linear.h"
#include "packed.h"
#include "parallel.h"
#include "product.h"
#include "reduce.h"
#include "split.h"

namespace penlight::optimized {

namespace {

bool is_image(const Tensor& x) {
  return x.scalar_type() == ScalarType::Float && x.dim() == 4 && is_channels_last(x);
}

// One layer after the means.
struct Layer {
  const Tensor& weight;
  int64_t outputs, activation;
  double low, high;
};

// False, with the failure recorded, where the weights or the activation do not fit.
bool check(KernelContext& ctx, const Layer& layer, dim_t depth) {
  dim_t size = 0;
  if (layer.outputs < 1 || layer.outputs > kMostOfWindow ||
      !packed_size(static_cast<dim_t>(layer.outputs), depth, size))
    return ctx.refuse("gates of {} channels cannot have {} outputs", depth, layer.outputs);
  return check_packed(ctx, layer.weight, size, format_of(layer.weight)) &&
         check_activation(ctx, layer.activation);
}

bool multiply(KernelContext& ctx, const Layer& layer, const float* input, dim_t rows, dim_t depth,
              float* output) {
  const Epilogue epilogue = epilogue_of({}, layer.activation, layer.low, layer.high);
  return multiply_rows(ctx, input, rows, depth, layer.weight, static_cast<dim_t>(layer.outputs), epilogue,
                       nullptr, output);
}

// Columns of images with a factor for every channel, as a matrix product with the weights so multiplied:
// there are fewer of these.
struct GatedProduct {
  Product product;  // of one image
  const Tensor& weight;
  const float* gate;
  dim_t images, size;  // of the packed weights, in elements

  // Tiles of all images, the weights of each in `scratch`, before that of the product. A tile is of one
  // image.
  void multiply(const PanelProduct& by, Range tiles, dim_t tile_rows, float* scratch) const {
    const dim_t pixels = product.rows, depth = product.channels, each = tiles_of(tile_rows);
    Product mine = product;
    mine.packed = scratch;
    mine.scratch = scratch + size;
    for (dim_t image = tiles.first / each, first = image * each; first < tiles.last; ++image, first += each) {
      routines().scale_panels({weight.const_data_ptr(), format_of(weight), gate + image * depth, scratch,
                               depth, product.last_panel});
      const dim_t apart = image * pixels * product.outputs;
      mine.input = product.input + image * pixels * depth;
      mine.output = product.output + apart;
      if (mine.epilogue.residual) mine.epilogue.residual = product.epilogue.residual + apart;
      mine.first_row = tiles.first > first ? (tiles.first - first) * tile_rows : 0;
      mine.last_row = tiles.last < first + each ? (tiles.last - first) * tile_rows : pixels;
      by.multiply(mine);
    }
  }

  // In an image.
  dim_t tiles_of(dim_t rows) const { return (product.rows + rows - 1) / rows; }

  void run(KernelContext& ctx) {
    const PanelProduct by = by_panels(product);
    const dim_t rows = is_split(product) ? kSplitRows : routines().tile_rows, tiles = images * tiles_of(rows);
    const double operations = 2.0 * static_cast<double>(images * product.rows) *
                              static_cast<double>(product.outputs) * static_cast<double>(product.channels);
    const dim_t parts = one_a_thread(ctx, parts_of(ctx, operations, tiles));
    PartMemory memory;
    if (!allocate_parts(ctx, parts, static_cast<size_t>(size) * sizeof(float) + by.scratch, memory)) return;
    const auto part = [&](size_t index) {
      multiply(by, range_of(index, parts, tiles), rows, static_cast<float*>(memory.of(index)));
    };
    ctx.parallel(static_cast<size_t>(parts), part);
  }
};

}  // namespace

Tensor& squeeze_excite_packed_out(KernelContext& ctx, const Tensor& input, const Tensor& squeeze,
                                  const Tensor& excite, int64_t between, int64_t outputs,
                                  int64_t squeeze_activation, double squeeze_low, double squeeze_high,
                                  int64_t activation, double low, double high, Tensor& out) {
  if (!is_image(input) || out.scalar_type() != ScalarType::Float) {
    return ctx.fail(out, Status::InvalidArgument,
                    "squeeze_excite_packed takes channels-last images of float32");
  }
  const Layer first{squeeze, between, squeeze_activation, squeeze_low, squeeze_high},
      last{excite, outputs, activation, low, high};
  const dim_t images = input.size(0), channels = input.size(1), pixels = input.size(2) * input.size(3);
  if (!check(ctx, first, channels) || !check(ctx, last, static_cast<dim_t>(between))) return out;
  const dim_t sizes[] = {images, static_cast<dim_t>(outputs), 1, 1};
  if (!ctx.resize(out, SizesRef(sizes, 4)) || out.numel() == 0) return out;
  if (!is_channels_last(out))
    return ctx.fail(out, Status::InvalidArgument, "the result of squeeze_excite_packed is channels-last");
  dim_t elements = 0;
  if (!multiply_sizes(images, channels + static_cast<dim_t>(between), elements) ||
      elements > INTPTR_MAX / static_cast<dim_t>(sizeof(float)))
    return ctx.fail(out, Status::OutOfMemory, "gates of {} images do not fit an address", images);
  float* const means = ctx.allocate_scratch_array<float>(static_cast<size_t>(elements));
  if (!means) return out;
  if (pixels == 0) {
    for (dim_t i = 0; i < images * channels; ++i) means[i] = __builtin_nanf("");
  } else if (channels > 0 &&
             !mean_of_run(ctx, {images, pixels, channels}, input.const_data_ptr<float>(), means)) {
    return out;
  }
  float* const hidden = means + images * channels;
  if (multiply(ctx, first, means, images, channels, hidden))
    multiply(ctx, last, hidden, images, static_cast<dim_t>(between), out.mutable_data_ptr<float>());
  return out;
}

Tensor& conv2d_gated_packed_out(KernelContext& ctx, const Tensor& input, const Tensor& gate,
                                const Tensor& weight, const Optional<Tensor>& residual, int64_t outputs,
                                int64_t activation, double low, double high, Tensor& out) {
  if (!is_image(input) || !is_image(gate) || out.scalar_type() != ScalarType::Float) {
    return ctx.fail(out, Status::InvalidArgument,
                    "conv2d_gated_packed takes channels-last images of float32");
  }
  const dim_t images = input.size(0), depth = input.size(1), columns = static_cast<dim_t>(outputs);
  if (gate.size(0) != images || gate.size(1) != depth || gate.size(2) != 1 || gate.size(3) != 1) {
    return ctx.fail(out, Status::InvalidArgument,
                    "conv2d_gated_packed takes one gate for each of {} channels of {} images", depth, images);
  }
  dim_t size = 0;
  if (outputs < 1 || outputs > kMostOfWindow || !packed_size(columns, depth, size) || size > INTPTR_MAX / 8) {
    return ctx.fail(out, Status::InvalidArgument, "a convolution of {} channels cannot have {} outputs",
                    depth, outputs);
  }
  if (!check_packed(ctx, weight, size, format_of(weight)) || !check_activation(ctx, activation)) return out;
  const dim_t sizes[] = {images, columns, input.size(2), input.size(3)};
  if (!ctx.resize(out, SizesRef(sizes, 4))) return out;
  if (!is_channels_last(out))
    return ctx.fail(out, Status::InvalidArgument, "the result of conv2d_gated_packed is channels-last");
  if (!check_residual(ctx, residual, out) || out.numel() == 0) return out;
  Product product = over_matrix(input.size(2) * input.size(3), depth, depth, columns, columns);
  product.input = input.const_data_ptr<float>();
  product.output = out.mutable_data_ptr<float>();
  product.epilogue = epilogue_of(residual, activation, low, high);
  product.by_channels = is_by_channels(product.rows, depth, columns);
  GatedProduct{product, weight, gate.const_data_ptr<float>(), images, size}.run(ctx);
  return out;
}

}  // namespace penlight::optimized
