// Transposed 2-D convolution over channels-last images and weights packed when the program was
// made.
//
// Outputs whose windows reach the same taps, every stride-th in each direction, are those of a
// convolution with stride 1 over these taps alone, turned around: a phase. Each phase has panels
// of its own, and nothing is multiplied with the zeros between pixels that the operator's
// definition speaks of (Shi et al., "Is the deconvolution layer the same as a convolutional
// layer?", 2016, arXiv:1609.07009).
#include <string.h>

#include "image.h"
#include "isa.h"
#include "packed.h"
#include "parallel.h"

namespace penlight::optimized {

namespace {

// Outputs of a phase that are computed together at least, where its lines are shorter; and where vectors are
// of channels, for which weights are laid out first.
constexpr dim_t kTogether = 48, kByChannels = 192;

// One direction of the outputs whose windows begin with tap `first`.
struct Phase {
  dim_t taps, pad, begin, count;  // taps; of the convolution with stride 1; first output, outputs
};

// An image's sizes and a window's in one direction.
struct Direction {
  dim_t size, out, taps, stride, padding;

  Phase phase(dim_t first) const {
    Phase p;
    p.taps = first < taps ? (taps - first + stride - 1) / stride : 0;
    p.begin = (first - padding % stride + stride) % stride;
    p.count = p.begin < out ? (out - p.begin + stride - 1) / stride : 0;
    // Its last tap is the first that a window over ascending pixels meets.
    p.pad = p.taps - 1 - (p.begin + padding - first) / stride;
    return p;
  }
};

struct Transposed {
  Direction rows, columns;
  dim_t batch, channels, outputs;
  const float* input;
  const float* packed;
  const float* zeros;
  float* output;
  Epilogue epilogue;
  dim_t pieces = 1;  // of each line

  // The most outputs that a line of a phase has, and lines that a phase has.
  dim_t width() const { return (columns.out + columns.stride - 1) / columns.stride; }
  dim_t height() const { return (rows.out + rows.stride - 1) / rows.stride; }
  // Lines of a phase in an item of work.
  dim_t lines() const {
    const dim_t together = outputs <= routines().few_outputs ? kByChannels : kTogether;
    if (epilogue.residual || width() >= together) return 1;
    const dim_t enough = (together + width() - 1) / width();
    return enough < height() ? enough : height();
  }
  dim_t blocks() const { return (height() + lines() - 1) / lines(); }
  dim_t items() const { return batch * rows.stride * blocks() * pieces; }
  // Elements of the panels of some phases that have so many taps in all.
  dim_t panels(dim_t phases, dim_t taps) const {
    return round_to_panel(outputs) * (phases + taps * channels);
  }

  // The convolution with stride 1 of the two phases. No taps are one over no channels.
  Product product(const Phase& row, const Phase& column) const {
    Product p{};
    const bool empty = row.taps == 0 || column.taps == 0;
    p.input = input;
    p.outputs = outputs;
    p.channels = empty ? 0 : channels;
    p.by_channels = is_by_channels(lines() * column.count, p.channels, outputs);
    p.last_panel = round_to_panel(outputs) / kPanel;
    p.epilogue = epilogue;
    p.pixel = channels;
    p.zeros = zeros;
    p.geometry = {rows.size,
                  columns.size,
                  row.count,
                  column.count,
                  empty ? 1 : row.taps,
                  empty ? 1 : column.taps,
                  1,
                  1,
                  row.pad,
                  column.pad,
                  1,
                  1};
    return p;
  }

  size_t scratch() const {
    size_t most = 0;
    for (dim_t i = 0; i < rows.stride; ++i) {
      for (dim_t j = 0; j < columns.stride; ++j) {
        const size_t size = routines().product_scratch(product(rows.phase(i), columns.phase(j)));
        if (size > most) most = size;
      }
    }
    return most;
  }
};

// Some lines of one phase of the rows, or a piece of one, all phases of the columns. Several lines are put
// together in `buffer` first.
void run_item(const Transposed& t, dim_t item, float* buffer, void* scratch) {
  const size_t piece = static_cast<size_t>(item % t.pieces);
  item /= t.pieces;
  const dim_t block = item % t.blocks(), first = item / t.blocks() % t.rows.stride,
              image = item / t.blocks() / t.rows.stride;
  const Phase row = t.rows.phase(first);
  const dim_t begin = block * t.lines(), left = row.count - begin,
              lines = left < t.lines() ? left : t.lines();
  if (lines <= 0) return;
  dim_t before = 0;  // taps of the rows of earlier phases
  for (dim_t i = 0; i < first; ++i) before += t.rows.phase(i).taps;
  const float* packed = t.packed + t.panels(first * t.columns.stride, before * t.columns.taps);
  const bool direct = t.lines() == 1;
  for (dim_t j = 0; j < t.columns.stride; ++j) {
    const Phase column = t.columns.phase(j);
    if (column.count > 0) {
      Product p = t.product(row, column);
      const dim_t step = t.columns.stride * t.outputs;
      const dim_t line = t.columns.out * t.outputs;  // of the output
      const dim_t place =
          (image * t.rows.out + row.begin + begin * t.rows.stride) * line + column.begin * t.outputs;
      p.packed = packed;
      p.scratch = scratch;
      p.first_row = (image * row.count + begin) * column.count;
      p.rows = lines * column.count;
      p.output_pitch = direct ? step : t.outputs;
      p.output = (direct ? t.output + place : buffer) - p.first_row * p.output_pitch;
      if (t.epilogue.residual)
        p.epilogue.residual = t.epilogue.residual + place - p.first_row * p.output_pitch;
      const Range range = range_of(piece, t.pieces, p.rows, routines().tile_rows);
      p.last_row = p.first_row + range.last;
      p.first_row += range.first;
      routines().product(p);
      for (dim_t i = 0; !direct && i < lines; ++i) {
        const float* from = buffer + i * column.count * t.outputs;
        float* to = t.output + place + i * t.rows.stride * line;
        for (dim_t k = 0; k < column.count; ++k) {
          memcpy(to + k * step, from + k * t.outputs, static_cast<size_t>(t.outputs) * sizeof(float));
        }
      }
    }
    packed += t.panels(1, row.taps * column.taps);
  }
}

// What the arguments say, bounded; false where they do not fit.
bool read_direction(int64_t size, int64_t taps, int64_t stride, int64_t padding, int64_t more,
                    Direction& to) {
  int64_t out = 0;
  if (size < 1 || more >= stride || __builtin_mul_overflow(size - 1, stride, &out) ||
      __builtin_add_overflow(out, taps + more - 2 * padding, &out) || out < 1) {
    return false;
  }
  to = {static_cast<dim_t>(size), static_cast<dim_t>(out), static_cast<dim_t>(taps),
        static_cast<dim_t>(stride), static_cast<dim_t>(padding)};
  return to.out == out;
}

}  // namespace

Tensor& conv_transpose2d_packed_out(KernelContext& ctx, const Tensor& input, const Tensor& weight,
                                    const Optional<Tensor>& residual, ArrayRef<int64_t> window,
                                    ArrayRef<int64_t> stride, ArrayRef<int64_t> padding,
                                    ArrayRef<int64_t> output_padding, int64_t activation, double low,
                                    double high, Tensor& out) {
  if (input.scalar_type() != ScalarType::Float || out.scalar_type() != ScalarType::Float ||
      input.dim() != 4 || !is_channels_last(input))
    return ctx.fail(out, Status::InvalidArgument,
                    "conv_transpose2d_packed takes channels-last float32 images");
  Transposed t{};
  dim_t taps[2], step[2], pad[2], more[2], outputs[2] = {0, 0}, all = 0, phases = 0, size = 0;
  const bool numbers = window.size() == 3 && read_pair({window.data(), 1}, 1, outputs) &&
                       read_pair({window.data() + 1, 2}, 1, taps) && read_pair(stride, 1, step) &&
                       read_pair(padding, 0, pad) && read_pair(output_padding, 0, more);
  if (!numbers || !read_direction(input.size(2), taps[0], step[0], pad[0], more[0], t.rows) ||
      !read_direction(input.size(3), taps[1], step[1], pad[1], more[1], t.columns))
    return ctx.fail(out, Status::InvalidArgument,
                    "a transposed convolution's window, stride or paddings do not fit images of {} by {}",
                    input.size(2), input.size(3));
  t.batch = input.size(0);
  t.channels = input.size(1);
  t.outputs = outputs[0];
  const bool fits = multiply_sizes(taps[0], taps[1], all) && multiply_sizes(all, t.channels, all) &&
                    multiply_sizes(step[0], step[1], phases) && !__builtin_add_overflow(all, phases, &all) &&
                    multiply_sizes(round_to_panel(t.outputs), all, size);
  if (!fits)
    return ctx.fail(out, Status::InvalidArgument,
                    "conv_transpose2d_packed: a window of {} by {} is too large", taps[0], taps[1]);
  if (!check_packed(ctx, weight, size) || !check_activation(ctx, activation)) return out;
  const dim_t sizes[] = {t.batch, t.outputs, t.rows.out, t.columns.out};
  if (!ctx.resize(out, SizesRef(sizes, 4))) return out;
  if (!is_channels_last(out))
    return ctx.fail(out, Status::InvalidArgument, "the result of conv_transpose2d_packed is channels-last");
  if (!check_residual(ctx, residual, out) || out.numel() == 0) return out;

  float* zeros = ctx.allocate_scratch_array<float>(static_cast<size_t>(t.channels) + 1);
  if (!zeros) return out;
  for (dim_t i = 0; i < t.channels; ++i) zeros[i] = 0.0f;
  t.zeros = zeros;
  t.input = input.const_data_ptr<float>();
  t.packed = weight.const_data_ptr<float>();
  t.output = out.mutable_data_ptr<float>();
  t.epilogue = epilogue_of(residual, activation, low, high);
  const double operations = 2.0 * static_cast<double>(input.numel()) *
                            static_cast<double>(taps[0] * taps[1]) * static_cast<double>(t.outputs);
  const dim_t whole = t.items();
  if (t.lines() == 1 && whole < static_cast<dim_t>(ctx.threads())) {  // as of a signal
    const dim_t pieces = parts_of(ctx, operations, whole * (t.width() / routines().tile_rows)) / whole;
    t.pieces = pieces > 1 ? pieces : 1;
  }
  const dim_t parts = parts_of(ctx, operations, t.items());
  // Lines that are put together have fewer pixels than are computed together, and one line more.
  dim_t buffer = t.lines() == 1 ? 0 : t.lines() * t.width();
  if (!multiply_sizes(buffer, round_to_panel(t.outputs), buffer) ||
      buffer > INTPTR_MAX / static_cast<dim_t>(2 * sizeof(float)))
    return ctx.fail(out, Status::InvalidArgument, "conv_transpose2d_packed: {} outputs are too many",
                    t.outputs);
  const size_t between = static_cast<size_t>(buffer) * sizeof(float);  // pointers lie behind it
  PartMemory memory;
  if (!allocate_parts(ctx, parts, between + t.scratch(), memory)) return out;
  const auto part = [&](size_t index) {
    const Range range = range_of(index, parts, t.items());
    float* own = static_cast<float*>(memory.of(index));
    for (dim_t item = range.first; item < range.last; ++item) run_item(t, item, own, own + buffer);
  };
  ctx.parallel(static_cast<size_t>(parts), part);
  return out;
}

}  // namespace penlight::optimized
