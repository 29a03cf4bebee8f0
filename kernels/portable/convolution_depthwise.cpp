// Depthwise convolution: every output channel with a kernel and an input channel of
// its own, nothing to share.
//
// Computed a few vectors of channels at a time, with the taps that lie inside listed
// once for a row: no position of a small image or of a large stride is wasted.
// Channels that do not lie side by side are laid so in scratch, a tile of some of
// them at a time.
#include "convolution.h"
#include "kernels/common/convert.h"
#include "vector.h"

namespace penlight::portable {

namespace {

template <class S>
const S* input_of(const ConvShape& shape, dim_t image, dim_t channel) {
  return static_cast<const S*>(shape.input) + image * shape.input_batch +
         channel / shape.out_channels * shape.input_channel;
}

template <class S>
const S* weight_of(const ConvShape& shape, dim_t channel) {
  return static_cast<const S*>(shape.weight) + channel / shape.out_channels * shape.weight_group +
         channel % shape.out_channels * shape.weight_out;
}

template <class S>
S* output_of(const ConvShape& shape, const ConvPass& pass, dim_t image, dim_t channel) {
  return static_cast<S*>(shape.out) + image * shape.output_batch + channel * shape.output_channel +
         pass.output_first;
}

template <class S>
Compute<S> bias_of(const ConvShape& shape, dim_t channel) {
  const S* bias = static_cast<const S*>(shape.bias);
  return bias ? static_cast<Compute<S>>(bias[channel * shape.bias_stride]) : Compute<S>(0);
}

// The smallest way: integers, programs that are to be small, and taps so far apart
// that a tile would be mostly what no tap reads.
template <class S>
void convolve_plainly(const ConvShape& shape, const ConvPass& pass, dim_t image, dim_t channel) {
  using T = Compute<S>;
  const S* input = input_of<S>(shape, image, channel);
  const S* weight = weight_of<S>(shape, channel);
  S* out = output_of<S>(shape, pass, image, channel);
  dim_t at[3];
  for (dim_t d = 0; d < pass.q[0]; ++d) {
    for (dim_t h = 0; h < pass.q[1]; ++h) {
      for (dim_t w = 0; w < pass.q[2]; ++w) {
        const dim_t q[3] = {d, h, w};
        dim_t from = 0, to = 0;
        for (int i = 0; i < 3; ++i) {
          at[i] = q[i] * pass.in_step[i];
          from += q[i] * pass.input_step[i];
          to += q[i] * pass.output_step[i];
        }
        T sum = bias_of<S>(shape, channel);
        for (dim_t t = 0; t < pass.tap_count; ++t) {
          const ConvTap& tap = pass.taps[t];
          if (!tap_inside(shape, tap, at)) continue;
          sum += static_cast<T>(weight[tap.weight]) * static_cast<T>(input[from + tap.input]);
        }
        out[to] = static_cast<S>(sum);
      }
    }
  }
}

// What the taps reach along each dimension, from where an output begins to read.
struct Reach {
  dim_t lowest[3], length[3];

  explicit Reach(const ConvPass& pass) {
    for (int d = 0; d < 3; ++d) {
      dim_t highest = lowest[d] = pass.tap_count ? pass.taps[0].delta[d] : 0;
      for (dim_t t = 1; t < pass.tap_count; ++t) {
        const dim_t delta = pass.taps[t].delta[d];
        if (delta < lowest[d]) lowest[d] = delta;
        if (delta > highest) highest = delta;
      }
      length[d] = highest - lowest[d] + 1;
    }
  }
};

// --- channels side by side -----------------------------------------------------------------------

// Sums that stay in registers: of some vectors of channels for two positions, or of one for more.
constexpr int kBlockVectors = 4, kPositions = 2, kNarrowPositions = 6;

// One tap of a row of positions: where it reads from a position, its number and its
// place along the row.
struct TapRow {
  dim_t offset, tap, delta;
};

// Weights as [tap][channel], then the bias; room for the taps of a row, and of a position.
template <class T>
struct Table {
  T* weights;
  T* bias;
  dim_t channels;
  TapRow* rows;
};

// Input of which channels lie side by side, and outputs that are to lie so.
template <class T>
struct Block {
  const T* input;
  dim_t first[3], step[3];  // place of input[0]; elements from one place to the next
  T* out;
  dim_t out_step[3];  // elements from one output to the next
  dim_t begin, channels;
};

// Channels c, c + 1, ... of `positions` neighbours with the same taps.
template <int positions, int vectors, class T>
inline void sum_channels(const Table<T>& table, const Block<T>& block, const TapRow* rows, dim_t count,
                         dim_t c, dim_t offset, dim_t in_step, T* out) {
  constexpr int lanes = VectorOf<T>::lanes;
  Vector<T> sums[positions][vectors];
  const T *bias = table.bias + block.begin + c, *weights = table.weights + block.begin + c;
  repeat<positions>(
      [&](auto p) { repeat<vectors>([&](auto v) { sums[p][v] = load_vector(bias + v * lanes); }); });
  for (dim_t t = 0; t < count; ++t) {
    const T* from = block.input + rows[t].offset + offset + c;
    const T* by = weights + rows[t].tap * table.channels;
    repeat<vectors>([&](auto v) {
      const Vector<T> weight = load_vector(by + v * lanes);
      repeat<positions>([&](auto p) { sums[p][v] += load_vector(from + p * in_step + v * lanes) * weight; });
    });
  }
  repeat<positions>([&](auto p) {
    repeat<vectors>(
        [&](auto v) { store_vector<T>(out + p * block.out_step[2] + c + v * lanes, sums[p][v]); });
  });
}

template <int positions, class T>
void sum_positions(const Table<T>& table, const Block<T>& block, const TapRow* rows, dim_t count,
                   dim_t offset, dim_t in_step, T* out) {
  constexpr int lanes = VectorOf<T>::lanes;
  dim_t c = 0;
  if constexpr (positions <= kPositions) {
    for (; c + kBlockVectors * lanes <= block.channels; c += kBlockVectors * lanes)
      sum_channels<positions, kBlockVectors>(table, block, rows, count, c, offset, in_step, out);
  }
  for (; c + lanes <= block.channels; c += lanes)
    sum_channels<positions, 1>(table, block, rows, count, c, offset, in_step, out);
  for (; c < block.channels; ++c) {
    for (int p = 0; p < positions; ++p) {
      T sum = table.bias[block.begin + c];
      for (dim_t t = 0; t < count; ++t) {
        sum += block.input[rows[t].offset + offset + p * in_step + c] *
               table.weights[rows[t].tap * table.channels + block.begin + c];
      }
      out[p * block.out_step[2] + c] = sum;
    }
  }
}

// Outputs [w, end) of a row that begins to read at `origin`. Rows of the table are the
// taps whose other coordinates are inside.
template <class T>
void convolve_row(const ConvShape& shape, const ConvPass& pass, const Reach& reach, const Table<T>& table,
                  const Block<T>& block, dim_t count, dim_t origin, dim_t w, dim_t end, T* out) {
  const TapRow* rows = table.rows;
  TapRow* some = table.rows + pass.tap_count;
  const dim_t width = shape.input_size[2], step = pass.in_step[2], in_step = step * block.step[2];
  const bool narrow = block.channels < kBlockVectors * VectorOf<T>::lanes;
  const dim_t together = narrow ? kNarrowPositions : kPositions;
  while (w < end) {
    const dim_t x = w * step, offset = origin + (x - block.first[2]) * block.step[2];
    const dim_t first = x + reach.lowest[2], last = first + (together - 1) * step + reach.length[2];
    if (first >= 0 && last <= width && w + together <= end) {
      if (narrow) {
        sum_positions<kNarrowPositions>(table, block, rows, count, offset, in_step, out);
      } else {
        sum_positions<kPositions>(table, block, rows, count, offset, in_step, out);
      }
      w += together;
      out += together * block.out_step[2];
      continue;
    }
    dim_t inside = 0;
    for (dim_t t = 0; t < count; ++t) {
      if (x + rows[t].delta >= 0 && x + rows[t].delta < width) some[inside++] = rows[t];
    }
    sum_positions<1>(table, block, some, inside, offset, in_step, out);
    ++w;
    out += block.out_step[2];
  }
}

// Outputs of slice d, rows [h, h + rows), columns [w, w + width).
struct Tile {
  dim_t d, h, w, rows, width;
};

template <class T>
void convolve_block(const ConvShape& shape, const ConvPass& pass, const Reach& reach, const Table<T>& table,
                    const Block<T>& block, const Tile& tile) {
  dim_t count = 0;  // of the taps listed: those of a row that has all inside stay
  bool all = false;
  for (dim_t h = tile.h; h < tile.h + tile.rows; ++h) {
    const dim_t z = tile.d * pass.in_step[0], y = h * pass.in_step[1];
    const bool inside =
        z + reach.lowest[0] >= 0 && z + reach.lowest[0] + reach.length[0] <= shape.input_size[0] &&
        y + reach.lowest[1] >= 0 && y + reach.lowest[1] + reach.length[1] <= shape.input_size[1];
    if (!inside || !all) {
      count = 0;
      for (dim_t t = 0; t < pass.tap_count; ++t) {
        const dim_t* delta = pass.taps[t].delta;
        const dim_t at[2] = {z + delta[0], y + delta[1]};
        if (at[0] < 0 || at[0] >= shape.input_size[0] || at[1] < 0 || at[1] >= shape.input_size[1]) continue;
        const dim_t offset = delta[0] * block.step[0] + delta[1] * block.step[1] + delta[2] * block.step[2];
        table.rows[count++] = {offset, t, delta[2]};
      }
    }
    all = inside;
    const dim_t origin = (z - block.first[0]) * block.step[0] + (y - block.first[1]) * block.step[1];
    T* out = block.out + tile.d * block.out_step[0] + (h - tile.h) * block.out_step[1];
    convolve_row(shape, pass, reach, table, block, count, origin, tile.w, tile.w + tile.width, out);
  }
}

template <class S>
bool make_table(KernelContext& ctx, const ConvShape& shape, const ConvPass& pass, ConvWorkspace& workspace,
                Table<Compute<S>>& table) {
  using T = Compute<S>;
  constexpr dim_t lanes = VectorOf<T>::lanes;
  const dim_t channels = shape.groups * shape.out_channels;
  table.channels = (channels + lanes - 1) / lanes * lanes;
  // Passes of one convolution come one after another, and share what the largest needs.
  if (!workspace.a) {
    const size_t taps = static_cast<size_t>(shape.most_taps);
    workspace.a = ctx.allocate_scratch_array<T>((taps + 1) * static_cast<size_t>(table.channels));
    workspace.tile = ctx.allocate_scratch_array<TapRow>(2 * taps + 1);
    if (!workspace.a || !workspace.tile) return false;
  }
  table.weights = static_cast<T*>(workspace.a);
  table.bias = table.weights + pass.tap_count * table.channels;
  table.rows = static_cast<TapRow*>(workspace.tile);
  for (dim_t c = 0; c < table.channels; ++c) {
    const S* from = weight_of<S>(shape, c < channels ? c : 0);
    for (dim_t t = 0; t < pass.tap_count; ++t)
      table.weights[t * table.channels + c] = static_cast<T>(from[pass.taps[t].weight]);
    table.bias[c] = bias_of<S>(shape, c < channels ? c : 0);
  }
  return true;
}

// --- tiles ---------------------------------------------------------------------------------------

// What is laid out at a time stays in a second-level cache; more than the most is not laid out.
constexpr dim_t kTileWidth = 256, kTileBytes = 128 * 1024, kMostTileBytes = 1 << 24, kRun = 64;

// Vectors of lanes[0][i], lanes[1][i], ... from vectors of lanes[i][0], lanes[i][1], ...
template <class T>
inline void transpose(Vector<T>* lanes) {
  constexpr int count = VectorOf<T>::lanes;
  static_assert(count == 2 || count == 4);
  if constexpr (count == 2) {
    const Vector<T> low = interleave_low<T>(lanes[0], lanes[1]);
    lanes[1] = interleave_high<T>(lanes[0], lanes[1]);
    lanes[0] = low;
  } else {
    const Vector<T> a = interleave_low<T>(lanes[0], lanes[2]), b = interleave_high<T>(lanes[0], lanes[2]);
    const Vector<T> c = interleave_low<T>(lanes[1], lanes[3]), d = interleave_high<T>(lanes[1], lanes[3]);
    lanes[0] = interleave_low<T>(a, c);
    lanes[1] = interleave_high<T>(a, c);
    lanes[2] = interleave_low<T>(b, d);
    lanes[3] = interleave_high<T>(b, d);
  }
}

// `count` places of a vector of channels, `stride` elements apart in each, to one vector a place.
template <class S, class T>
void lay_together(const S* const* channels, dim_t offset, dim_t stride, dim_t count, T* to, dim_t spacing) {
  constexpr int lanes = VectorOf<T>::lanes;
  dim_t i = 0;
  for (; stride == 1 && i + lanes <= count; i += lanes) {
    Vector<T> all[lanes];
    repeat<lanes>([&](auto l) { all[l] = load_vector_as<S, T>(channels[l] + offset + i); });
    transpose<T>(all);
    repeat<lanes>([&](auto l) { store_vector<T>(to + (i + l) * spacing, all[l]); });
  }
  for (; i < count; ++i) {
    for (int l = 0; l < lanes; ++l) to[i * spacing + l] = static_cast<T>(channels[l][offset + i * stride]);
  }
}

// And back, for as many channels as there are.
template <class S, class T>
void lay_apart(const T* from, dim_t spacing, S* const* channels, dim_t used, dim_t offset, dim_t stride,
               dim_t count) {
  constexpr int lanes = VectorOf<T>::lanes;
  dim_t i = 0;
  for (; same_type<S, T> && stride == 1 && i + lanes <= count; i += lanes) {
    Vector<T> all[lanes];
    repeat<lanes>([&](auto l) { all[l] = load_vector(from + (i + l) * spacing); });
    transpose<T>(all);
    repeat<lanes>([&](auto l) {
      if constexpr (same_type<S, T>) {
        if (l < used) store_vector<T>(channels[l] + offset + i, all[l]);
      }
    });
  }
  for (; i < count; ++i) {
    for (dim_t l = 0; l < used; ++l) channels[l][offset + i * stride] = static_cast<S>(from[i * spacing + l]);
  }
}

// Tiles of a vector of channels, or some: `elements` of input lie in scratch at a time.
struct TilePlan {
  dim_t rows, width, elements;
};

// As many rows as there is room for; false where one is too many.
bool plan_tiles(const ConvShape& shape, const ConvPass& pass, const Reach& reach, dim_t element_bytes,
                TilePlan& plan) {
  plan.width = pass.q[2] < kTileWidth ? pass.q[2] : kTileWidth;
  for (plan.rows = pass.q[1]; plan.rows > 0; plan.rows /= 2) {
    const dim_t outputs[3] = {1, plan.rows, plan.width};
    int64_t elements = 1;
    for (int d = 0; d < 3 && elements <= kMostTileBytes; ++d) {
      const int64_t read = static_cast<int64_t>(outputs[d] - 1) * pass.in_step[d] + reach.length[d];
      elements *= read < shape.input_size[d] ? read : shape.input_size[d];
    }
    const int64_t bytes = elements * element_bytes;
    plan.elements = static_cast<dim_t>(elements);
    if (bytes <= kTileBytes || (plan.rows == 1 && bytes <= kMostTileBytes)) return true;
  }
  return false;
}

// Channels [block.begin, + used) of one tile, through scratch.
template <class S>
void convolve_tile(const ConvShape& shape, const ConvPass& pass, const Reach& reach,
                   const Table<Compute<S>>& table, dim_t image, const Tile& tile, dim_t used,
                   Compute<S>* input, Block<Compute<S>>& block) {
  using T = Compute<S>;
  constexpr dim_t lanes = VectorOf<T>::lanes;
  const dim_t from[3] = {tile.d, tile.h, tile.w}, outputs[3] = {1, tile.rows, tile.width};
  dim_t count[3], stride[3], first = 0;
  for (int d = 0; d < 3; ++d) {
    dim_t begin = from[d] * pass.in_step[d] + reach.lowest[d];
    dim_t end = begin + (outputs[d] - 1) * pass.in_step[d] + reach.length[d];
    if (begin < 0) begin = 0;
    if (end > shape.input_size[d]) end = shape.input_size[d];
    count[d] = end > begin ? end - begin : 0;
    stride[d] = pass.input_step[d] / pass.in_step[d];
    block.first[d] = begin;
    first += begin * stride[d];
  }
  block.step[2] = block.channels;
  block.step[1] = block.step[2] * count[2];
  block.step[0] = block.step[1] * count[1];
  block.out_step[2] = block.channels;
  block.out_step[1] = block.out_step[2] * tile.width;
  block.out_step[0] = 0;
  // Rows without a gap are one run.
  const bool whole = stride[1] == stride[2] * count[2];
  const dim_t runs = whole ? 1 : count[1], length = whole ? count[1] * count[2] : count[2];
  const S* channels[kBlockVectors * lanes];
  for (dim_t c = 0; c < block.channels; ++c)
    channels[c] = input_of<S>(shape, image, block.begin + (c < used ? c : used - 1));
  for (dim_t z = 0; z < count[0]; ++z) {
    for (dim_t run = 0; run < runs; ++run) {
      // Lines of the cache are filled by all channels before others are begun.
      for (dim_t i = 0; i < length; i += kRun) {
        T* to = input + z * block.step[0] + run * block.step[1] + i * block.channels;
        const dim_t at = first + z * stride[0] + run * stride[1] + i * stride[2];
        for (dim_t c = 0; c < block.channels; c += lanes) {
          lay_together<S, T>(channels + c, at, stride[2], length - i < kRun ? length - i : kRun, to + c,
                             block.channels);
        }
      }
    }
  }
  convolve_block(shape, pass, reach, table, block, tile);
  const bool joined = pass.output_step[1] == pass.output_step[2] * tile.width;
  const dim_t out_runs = joined ? 1 : tile.rows, out_length = joined ? tile.rows * tile.width : tile.width;
  const dim_t to = tile.d * pass.output_step[0] + tile.h * pass.output_step[1] + tile.w * pass.output_step[2];
  for (dim_t c = 0; c < used; c += lanes) {
    S* results[lanes];
    const dim_t some = used - c < lanes ? used - c : lanes;
    for (dim_t l = 0; l < some; ++l) results[l] = output_of<S>(shape, pass, image, block.begin + c + l);
    for (dim_t run = 0; run < out_runs; ++run) {
      lay_apart<S, T>(block.out + run * block.out_step[1] + c, block.channels, results, some,
                      to + run * pass.output_step[1], pass.output_step[2], out_length);
    }
  }
}

template <class S>
void convolve_tiles(KernelContext& ctx, const ConvShape& shape, const ConvPass& pass, const Reach& reach,
                    const TilePlan& plan, const Table<Compute<S>>& table, ConvWorkspace& workspace) {
  using T = Compute<S>;
  constexpr dim_t lanes = VectorOf<T>::lanes, most = kBlockVectors * lanes;
  const dim_t channels = shape.groups * shape.out_channels,
              each = most * (plan.elements + plan.rows * plan.width);
  if (static_cast<size_t>(each) > workspace.b_elements) {
    workspace.b = ctx.allocate_scratch_array<T>(static_cast<size_t>(each));
    workspace.b_elements = static_cast<size_t>(each);
    if (!workspace.b) return;
  }
  T* input = static_cast<T*>(workspace.b);
  for (dim_t image = 0; image < shape.batch; ++image) {
    for (dim_t begin = 0; begin < channels; begin += most) {
      const dim_t used = channels - begin < most ? channels - begin : most;
      Block<T> block = {};
      block.input = input;
      block.out = input + most * plan.elements;
      block.begin = begin;
      block.channels = (used + lanes - 1) / lanes * lanes;
      for (dim_t d = 0; d < pass.q[0]; ++d) {
        for (dim_t h = 0; h < pass.q[1]; h += plan.rows) {
          for (dim_t w = 0; w < pass.q[2]; w += plan.width) {
            const Tile tile = {d, h, w, pass.q[1] - h < plan.rows ? pass.q[1] - h : plan.rows,
                               pass.q[2] - w < plan.width ? pass.q[2] - w : plan.width};
            convolve_tile<S>(shape, pass, reach, table, image, tile, used, input, block);
          }
        }
      }
    }
  }
}

// Channels that lie side by side already.
template <class T>
void convolve_in_place(const ConvShape& shape, const ConvPass& pass, const Reach& reach,
                       const Table<T>& table) {
  for (dim_t image = 0; image < shape.batch; ++image) {
    Block<T> block = {};
    block.input = input_of<T>(shape, image, 0);
    block.out = output_of<T>(shape, pass, image, 0);
    block.channels = shape.groups;
    for (int d = 0; d < 3; ++d) {
      block.step[d] = pass.input_step[d] / pass.in_step[d];
      block.out_step[d] = pass.output_step[d];
    }
    for (dim_t d = 0; d < pass.q[0]; ++d)
      convolve_block(shape, pass, reach, table, block, Tile{d, 0, 0, pass.q[1], pass.q[2]});
  }
}

template <class S>
void convolve_as(KernelContext& ctx, const ConvShape& shape, const ConvPass& pass, ConvWorkspace& workspace) {
  using T = Compute<S>;
  if constexpr (!kSmallCode && !same_type<T, int64_t>) {
    const Reach reach(pass);
    const bool beside = same_type<S, T> && shape.out_channels == 1 && shape.input_channel == 1 &&
                        shape.output_channel == 1 && shape.groups >= VectorOf<T>::lanes;
    TilePlan plan;
    const dim_t element_bytes = kBlockVectors * static_cast<dim_t>(sizeof(Vector<T>));
    if (beside || plan_tiles(shape, pass, reach, element_bytes, plan)) {
      Table<T> table;
      if (!make_table<S>(ctx, shape, pass, workspace, table)) return;
      if constexpr (same_type<S, T>) {
        if (beside) {
          convolve_in_place(shape, pass, reach, table);
          return;
        }
      }
      convolve_tiles<S>(ctx, shape, pass, reach, plan, table, workspace);
      return;
    }
  }
  for (dim_t image = 0; image < shape.batch; ++image) {
    for (dim_t c = 0; c < shape.groups * shape.out_channels; ++c) convolve_plainly<S>(shape, pass, image, c);
  }
}

}  // namespace

bool convolve_depthwise(KernelContext& ctx, const ConvShape& shape, const ConvPass& pass,
                        ConvWorkspace& workspace) {
  dispatch<Real>(ctx, shape.dtype,
                 [&](auto tag) { convolve_as<typename decltype(tag)::type>(ctx, shape, pass, workspace); });
  return ctx.ok();
}

}  // namespace penlight::portable
