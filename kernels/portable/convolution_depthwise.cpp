// Depthwise convolution: an input channel of its own for each output channel or a
// few, so that a matrix product would have nothing to share.
//
// A panel of channels is computed together. A tile of their input is packed (gemm.h)
// into scratch, the channels of a place side by side and zeros around the image, so
// that every output of the tile is the same sum over the taps, without an edge.
#include "convolution.h"

namespace penlight::portable {

namespace {

// Sums that stay in registers: vectors of channels by neighbours in a row.
constexpr int kVectors = 2, kTogether = 4;
// Outputs of a tile side by side, the bytes of input up to which it has several rows, and those
// up to which it is made at all: taps may be any distance apart.
constexpr dim_t kTileWidth = 128, kTileBytes = 1 << 16, kMostTileBytes = 1 << 22;

template <class T>
constexpr dim_t kPanel = kVectors * VectorOf<T>::lanes;

// A row of outputs, whole blocks of kTogether: by tap, what is at `offsets` from the first and `apart`
// from one to the next, times the weights of the table. The bias is behind those.
template <class T>
void sum_row(const T* from, dim_t apart, const dim_t* offsets, const T* table, dim_t taps, dim_t width,
             T* to) {
  constexpr int lanes = VectorOf<T>::lanes;
  for (dim_t w = 0; w < width; w += kTogether, from += kTogether * apart, to += kTogether * kPanel<T>) {
    Vector<T> sums[kTogether][kVectors];
    repeat<kTogether>([&](auto p) {
      repeat<kVectors>([&](auto v) { sums[p][v] = load_vector(table + taps * kPanel<T> + v * lanes); });
    });
    for (dim_t t = 0; t < taps; ++t) {
      const T* at = from + offsets[t];
      repeat<kVectors>([&](auto v) {
        const Vector<T> weight = load_vector(table + t * kPanel<T> + v * lanes);
        repeat<kTogether>([&](auto p) { sums[p][v] += load_vector(at + p * apart + v * lanes) * weight; });
      });
    }
    repeat<kTogether>([&](auto p) {
      repeat<kVectors>([&](auto v) { store_vector(to + p * kPanel<T> + v * lanes, sums[p][v]); });
    });
  }
}

template <class S>
class Depthwise {
 public:
  Depthwise(const ConvShape& shape, const ConvPass& pass) : shape_(shape), pass_(pass) {
    outputs_[0] = 1;
    outputs_[1] = pass.q[1];
    outputs_[2] = pass.q[2] < kTileWidth ? pass.q[2] : kTileWidth;
    for (int d = 0; d < 3; ++d) {
      dim_t highest = lowest_[d] = pass.tap_count ? pass.taps[0].delta[d] : 0;
      for (dim_t t = 1; t < pass.tap_count; ++t) {
        const dim_t delta = pass.taps[t].delta[d];
        if (delta < lowest_[d]) lowest_[d] = delta;
        if (delta > highest) highest = delta;
      }
      reach_[d] = highest - lowest_[d] + 1;
    }
    while (outputs_[1] > 1 && tile_bytes() > kTileBytes) outputs_[1] = (outputs_[1] + 1) / 2;
  }

  bool fits() const { return tile_bytes() <= kMostTileBytes; }

  void run(KernelContext& ctx, ConvWorkspace& workspace) {
    if (!take_scratch(ctx, workspace)) return;
    pack_table();
    for (dim_t image = 0; image < shape_.batch; ++image) {
      for (dim_t group = 0; group < shape_.groups; group += kPanel) {
        dim_t at[3];
        for (at[0] = 0; at[0] < pass_.q[0]; ++at[0]) {
          for (at[1] = 0; at[1] < pass_.q[1]; at[1] += outputs_[1]) {
            for (at[2] = 0; at[2] < pass_.q[2]; at[2] += outputs_[2]) run_tile(image, group, at);
          }
        }
      }
    }
  }

 private:
  using T = Compute<S>;
  static constexpr dim_t kPanel = portable::kPanel<T>;

  // Places of the input that the outputs of a tile read.
  dim_t places(int d) const { return (outputs_[d] - 1) * pass_.in_step[d] + reach_[d]; }
  double tile_bytes() const {
    double bytes = sizeof(T) * kPanel;
    for (int d = 0; d < 3; ++d) bytes *= static_cast<double>(places(d));
    return bytes;
  }
  // Of one output channel of each group of a panel: weights by tap, then the bias.
  dim_t table_size() const { return (pass_.tap_count + 1) * kPanel; }
  dim_t panels() const { return (shape_.groups + kPanel - 1) / kPanel; }

  bool take_scratch(KernelContext& ctx, ConvWorkspace& workspace) {
    // A row of sums is whole blocks: what is behind the last output is read, but not used.
    const dim_t row = (outputs_[2] + kTogether) * kPanel, rest = kTogether * pass_.in_step[2] * kPanel;
    const size_t tile = static_cast<size_t>(tile_bytes()) / sizeof(T) + static_cast<size_t>(rest);
    if (tile + static_cast<size_t>(row) > workspace.tile_elements) {
      workspace.tile_elements = tile + static_cast<size_t>(row);
      workspace.tile = ctx.allocate_scratch_array<T>(workspace.tile_elements);
    }
    // Passes of one convolution come one after another, and share what the largest needs.
    if (!workspace.table) {
      const dim_t most = (shape_.most_taps + 1) * kPanel * panels() * shape_.out_channels;
      workspace.table = ctx.allocate_scratch_array<T>(static_cast<size_t>(most));
      workspace.offsets = ctx.allocate_scratch_array<dim_t>(static_cast<size_t>(shape_.most_taps));
    }
    if (!ctx.ok()) return false;
    table_ = static_cast<T*>(workspace.table);
    offsets_ = workspace.offsets;
    tile_ = static_cast<T*>(workspace.tile);
    row_ = tile_ + tile;
    for (size_t i = 1; i <= static_cast<size_t>(rest); ++i) row_[-static_cast<ptrdiff_t>(i)] = T(0);
    return true;
  }

  void pack_table() {
    for (dim_t c = 0; c < shape_.out_channels; ++c) {
      T* to = table_ + c * panels() * table_size();
      const S* weight = static_cast<const S*>(shape_.weight) + c * shape_.weight_out;
      for (dim_t t = 0; t < pass_.tap_count; ++t, to += kPanel) {
        pack_rows<S, T>(weight + pass_.taps[t].weight, shape_.weight_group, 0, shape_.groups, 1, to, kPanel,
                        table_size());
      }
      if (shape_.bias) {
        pack_rows<S, T>(static_cast<const S*>(shape_.bias) + c * shape_.bias_stride,
                        shape_.out_channels * shape_.bias_stride, 0, shape_.groups, 1, to, kPanel,
                        table_size());
      } else {
        for (dim_t i = 0; i < panels() * kPanel; ++i) to[i / kPanel * table_size() + i % kPanel] = T(0);
      }
    }
    for (dim_t t = 0; t < pass_.tap_count; ++t) {
      dim_t place = 0;
      for (int d = 0; d < 3; ++d) place = place * places(d) + pass_.taps[t].delta[d] - lowest_[d];
      offsets_[t] = place * kPanel;
    }
  }

  // The outputs from `at` on of all channels of the groups of a panel.
  void run_tile(dim_t image, dim_t group, const dim_t at[3]) {
    const dim_t left = shape_.groups - group, used = left < kPanel ? left : kPanel;
    const dim_t rows = smaller(outputs_[1], pass_.q[1] - at[1]);
    const dim_t width = smaller(outputs_[2], pass_.q[2] - at[2]);
    pack_tile(static_cast<const S*>(shape_.input) + image * shape_.from.batch + group * shape_.from.channel,
              used, at);
    for (dim_t c = 0; c < shape_.out_channels; ++c) {
      S* out = static_cast<S*>(shape_.out) + image * shape_.to.batch +
               (group * shape_.out_channels + c) * shape_.to.channel + pass_.output_first;
      for (int d = 0; d < 3; ++d) out += at[d] * pass_.output_step[d];
      const T* table = table_ + (c * panels() + group / kPanel) * table_size();
      for (dim_t i = 0; i < rows; ++i, out += pass_.output_step[1]) {
        sum_row(tile_ + i * pass_.in_step[1] * places(2) * kPanel, pass_.in_step[2] * kPanel, offsets_, table,
                pass_.tap_count, width, row_);
        store_row(out, used, width);
      }
    }
  }

  void pack_tile(const S* input, dim_t used, const dim_t at[3]) {
    dim_t begin[3];
    for (int d = 0; d < 3; ++d) begin[d] = at[d] * pass_.in_step[d] + lowest_[d];
    const dim_t *size = shape_.from.sizes, *step = shape_.from.steps, width = places(2);
    // Places [first, last) of a row are in the input.
    const dim_t first = smaller(width, begin[2] < 0 ? -begin[2] : 0);
    const dim_t end = smaller(width, size[2] - begin[2]), last = end < first ? first : end;
    T* to = tile_;
    for (dim_t z = begin[0]; z < begin[0] + places(0); ++z) {
      for (dim_t y = begin[1]; y < begin[1] + places(1); ++y, to += width * kPanel) {
        const bool inside = z >= 0 && z < size[0] && y >= 0 && y < size[1];
        const dim_t some = inside ? first : width;
        for (dim_t i = 0; i < some * kPanel; ++i) to[i] = T(0);
        if (!inside) continue;
        pack_rows<S, T>(input + z * step[0] + y * step[1] + (begin[2] + first) * step[2], shape_.from.channel,
                        step[2], used, last - first, to + first * kPanel, kPanel, 0);
        for (dim_t i = last * kPanel; i < width * kPanel; ++i) to[i] = T(0);
      }
    }
  }

  void store_row(S* out, dim_t used, dim_t width) {
    const dim_t step = pass_.output_step[2];
    for (dim_t c = 0; c < used; ++c, out += shape_.out_channels * shape_.to.channel) {
      for (dim_t i = 0; i < width; ++i) out[i * step] = static_cast<S>(row_[i * kPanel + c]);
    }
  }

  const ConvShape& shape_;
  const ConvPass& pass_;
  dim_t outputs_[3];            // of a tile
  dim_t lowest_[3], reach_[3];  // what taps read along each dimension, from where an output begins to
  T *tile_, *row_, *table_;
  dim_t* offsets_;
};

}  // namespace

bool convolve_depthwise(KernelContext& ctx, const ConvShape& shape, const ConvPass& pass,
                        ConvWorkspace& workspace) {
  bool fits = true;
  dispatch<Real>(ctx, shape.dtype, [&](auto tag) {
    using S = typename decltype(tag)::type;
    Depthwise<S> depthwise(shape, pass);
    fits = depthwise.fits();
    if (fits) depthwise.run(ctx, workspace);
  });
  return fits;
}

}  // namespace penlight::portable
