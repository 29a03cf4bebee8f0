// Moving elements from one strided layout to another, by element size only.
//
// Every operator that changes no value (permute, slice, cat, pad, gather of
// rows, ...) describes where elements are and where they go; Mover finds a fast
// order once and can run it for many pairs of addresses. It
//   - walks the destination in address order, so writes are sequential;
//   - joins dimensions that are contiguous in both layouts, so that the inner
//     loop is a memcpy wherever memory order allows it;
//   - takes a run of 2 to 16 bytes as one wider element;
//   - walks in square tiles when the fast dimensions of the two differ
//     (a transposition), so that each cache line is fetched once.
// Strides are in bytes, may be zero (broadcast) or negative (flip) in the source.
#pragma once

#include <penlight/tensor.h>
#include <string.h>

namespace penlight {

// Two tensors' worth: repeat() and reshape() look at a tensor through that many.
constexpr int kMaxViewDim = 2 * kMaxDim;

namespace detail {

struct Bytes16 {
  uint64_t low, high;
};

// Accessed through memcpy: a run that was widened is only aligned as its parts.
template <class Item>
inline Item load_item(const char* from) {
  Item item;
  memcpy(&item, from, sizeof(Item));
  return item;
}

template <class Item>
inline void store_item(char* to, Item item) {
  memcpy(to, &item, sizeof(Item));
}

template <class Item>
void move_row(dim_t count, const char* __restrict src, dim_t src_stride, char* __restrict dst,
              dim_t dst_stride) {
  constexpr dim_t kSize = sizeof(Item);
  if (dst_stride == kSize && src_stride == kSize) {
    for (dim_t i = 0; i < count; ++i) store_item(dst + i * kSize, load_item<Item>(src + i * kSize));
  } else if (dst_stride == kSize && src_stride == 0) {
    // What was written is copied behind itself, twice as much each time, up to what the nearest cache holds.
    constexpr dim_t kFirst = 128 / kSize, kMost = 4096 / kSize;
    const Item item = load_item<Item>(src);
    for (dim_t i = 0; i < count && i < kFirst; ++i) store_item(dst + i * kSize, item);
    for (dim_t done = kFirst, some; done < count; done += some) {
      some = done < kMost ? done : kMost;
      if (some > count - done) some = count - done;
      memcpy(dst + done * kSize, dst, static_cast<size_t>(some * kSize));
    }
  } else if (dst_stride == kSize) {
    for (dim_t i = 0; i < count; ++i) store_item(dst + i * kSize, load_item<Item>(src + i * src_stride));
  } else {
    for (dim_t i = 0; i < count; ++i) store_item(dst + i * dst_stride, load_item<Item>(src + i * src_stride));
  }
}

// Of a few rows: the groups of channels that are shuffled, the colours of an image.
template <class Item, int rows>
void interleave(dim_t columns, const char* __restrict src, dim_t src_row, char* __restrict dst,
                dim_t dst_column) {
  constexpr dim_t kSize = sizeof(Item);
  for (dim_t c = 0; c < columns; ++c) {
    for (int i = 0; i < rows; ++i) {
      store_item(dst + c * dst_column + i * kSize, load_item<Item>(src + i * src_row + c * kSize));
    }
  }
}

// Transposes rows x columns: rows are contiguous in the source, columns in the
// destination.
template <class Item>
void move_tiled(dim_t rows, dim_t columns, const char* __restrict src, dim_t src_row, char* __restrict dst,
                dim_t dst_column) {
  constexpr dim_t kSize = sizeof(Item);
  if (rows == 2) return interleave<Item, 2>(columns, src, src_row, dst, dst_column);
  if (rows == 3) return interleave<Item, 3>(columns, src, src_row, dst, dst_column);
  if (rows == 4) return interleave<Item, 4>(columns, src, src_row, dst, dst_column);
  constexpr dim_t kTile = 8;
  constexpr dim_t kBand = 64;  // columns that are finished for all rows before the next ones begin
  for (dim_t band = 0; band < columns; band += kBand) {
    const dim_t band_end = band + kBand < columns ? band + kBand : columns;
    for (dim_t r = 0; r < rows; r += kTile) {
      const dim_t row_count = rows - r < kTile ? rows - r : kTile;
      for (dim_t c = band; c < band_end; c += kTile) {
        const dim_t column_count = band_end - c < kTile ? band_end - c : kTile;
        const char* from = src + r * src_row + c * kSize;
        char* to = dst + c * dst_column + r * kSize;
        if (row_count == kTile && column_count == kTile) {
          Item tile[kTile][kTile];
          for (dim_t i = 0; i < kTile; ++i) memcpy(tile[i], from + i * src_row, sizeof tile[i]);
          for (dim_t j = 0; j < kTile; ++j) {
            Item line[kTile];
            for (dim_t i = 0; i < kTile; ++i) line[i] = tile[i][j];
            memcpy(to + j * dst_column, line, sizeof line);
          }
        } else {
          for (dim_t j = 0; j < column_count; ++j) {
            for (dim_t i = 0; i < row_count; ++i) {
              store_item(to + j * dst_column + i * kSize, load_item<Item>(from + i * src_row + j * kSize));
            }
          }
        }
      }
    }
  }
}

}  // namespace detail

class Mover {
 public:
  // Both sides have the same `sizes`; element_size is 1, 2, 4, 8 or 16.
  Mover(size_t element_size, int dim, const dim_t* sizes, const dim_t* src_strides, const dim_t* dst_strides)
      : dim_(0), item_(static_cast<dim_t>(element_size)), tiled_(-1), empty_(false) {
    for (int d = 0; d < dim; ++d) {
      if (sizes[d] == 0) empty_ = true;
      if (sizes[d] != 1) insert(sizes[d], src_strides[d], dst_strides[d]);
    }
    join();
    choose_loop();
  }

  void run(const char* src, char* dst) const {
    if (empty_) return;
    if (dim_ == 0) {
      memmove(dst, src, static_cast<size_t>(item_));
      return;
    }
    const int outer = tiled_ < 0 ? dim_ - 1 : dim_ - 2;
    if (outer == 0) return run_inner(src, dst);
    dim_t at[kMaxViewDim] = {};
    for (;;) {
      run_inner(src, dst);
      int d = outer - 1;
      for (;; --d) {
        if (d < 0) return;
        src += src_[d];
        dst += dst_[d];
        if (++at[d] < sizes_[d]) break;
        src -= src_[d] * sizes_[d];
        dst -= dst_[d] * sizes_[d];
        at[d] = 0;
      }
    }
  }

 private:
  using Row = void (*)(dim_t, const char*, dim_t, char*, dim_t);
  using Tiles = void (*)(dim_t, dim_t, const char*, dim_t, char*, dim_t);

  // Keeps dimensions in descending order of the destination's stride.
  void insert(dim_t size, dim_t src, dim_t dst) {
    int d = dim_++;
    for (; d > 0 && (dst_[d - 1] < dst || (dst_[d - 1] == dst && src_[d - 1] < src)); --d) copy_dim(d, d - 1);
    sizes_[d] = size;
    src_[d] = src;
    dst_[d] = dst;
  }

  void copy_dim(int to, int from) {
    sizes_[to] = sizes_[from];
    src_[to] = src_[from];
    dst_[to] = dst_[from];
  }

  void join() {
    int kept = 0;
    for (int d = 1; d < dim_; ++d) {
      if (src_[kept] == src_[d] * sizes_[d] && dst_[kept] == dst_[d] * sizes_[d]) {
        sizes_[kept] *= sizes_[d];
        src_[kept] = src_[d];
        dst_[kept] = dst_[d];
      } else {
        copy_dim(++kept, d);
      }
    }
    if (dim_ > 0) dim_ = kept + 1;
    if (dim_ > 0 && contiguous()) {
      const dim_t run = item_ * sizes_[dim_ - 1];
      if (run == 2 || run == 4 || run == 8 || run == 16) {
        item_ = run;
        --dim_;
      }
    }
  }

  bool contiguous() const { return src_[dim_ - 1] == item_ && dst_[dim_ - 1] == item_; }

  void choose_loop() {
    row_ = nullptr;
    tiles_ = nullptr;
    if (dim_ == 0) return;
    const int last = dim_ - 1;
    // A few short items are quicker in a loop than in a call of memcpy.
    const bool copies = contiguous() && item_ * sizes_[last] > 32;
    if (!contiguous() && dst_[last] == item_) {
      for (int d = 0; d < last; ++d) {
        if (src_[d] == item_ && sizes_[d] >= 4) tiled_ = d;
      }
    }
    if (tiled_ >= 0) {  // to the place before the last
      const dim_t size = sizes_[tiled_], src = src_[tiled_], dst = dst_[tiled_];
      for (int d = tiled_; d < last - 1; ++d) copy_dim(d, d + 1);
      sizes_[last - 1] = size;
      src_[last - 1] = src;
      dst_[last - 1] = dst;
    }
    switch (item_) {
      case 1:
        choose<uint8_t>(copies);
        break;
      case 2:
        choose<uint16_t>(copies);
        break;
      case 4:
        choose<uint32_t>(copies);
        break;
      case 8:
        choose<uint64_t>(copies);
        break;
      default:
        choose<detail::Bytes16>(copies);
        break;
    }
  }

  template <class Item>
  void choose(bool copies) {
    if (copies) return;
    row_ = detail::move_row<Item>;
    tiles_ = detail::move_tiled<Item>;
  }

  void run_inner(const char* src, char* dst) const {
    const int last = dim_ - 1;
    if (tiled_ >= 0) {
      tiles_(sizes_[last], sizes_[last - 1], src, src_[last], dst, dst_[last - 1]);
    } else if (row_) {
      row_(sizes_[last], src, src_[last], dst, dst_[last]);
    } else {
      // Not memcpy: a damaged plan may have both share bytes.
      memmove(dst, src, static_cast<size_t>(sizes_[last] * item_));
    }
  }

  int dim_;
  dim_t item_;  // bytes that move together
  int tiled_;   // below zero: no transposition
  bool empty_;
  Row row_;  // null: the innermost dimension is one memmove
  Tiles tiles_;
  dim_t sizes_[kMaxViewDim], src_[kMaxViewDim], dst_[kMaxViewDim];
};

}  // namespace penlight
