// Moving elements from one strided layout to another, by element size only.
//
// Every operator that changes no value (permute, slice, cat, pad, gather of
// rows, ...) describes where elements are and where they go; Mover finds a fast
// order once and can run it for many pairs of addresses. It
//   - walks the destination in address order, so writes are sequential;
//   - joins dimensions that are contiguous in both layouts, so that the inner
//     loop is a memcpy wherever memory order allows it;
//   - takes a run of 2 to 16 bytes as one wider element, and one of 32 or 64 where code may be larger;
//   - walks in square tiles when the fast dimensions of the two differ
//     (a transposition), so that each cache line is fetched once.
// Strides are in bytes, may be zero (broadcast) or negative (flip) in the source.
#pragma once

#include <penlight/dispatch.h>
#include <penlight/tensor.h>
#include <string.h>

#if defined(__SSE2__) || defined(__ARM_NEON) || defined(__wasm_simd128__)
#ifdef __has_builtin
#if __has_builtin(__builtin_shufflevector)
#define PENLIGHT_MOVES_VECTORS 1
#endif
#endif
#endif

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

// body(TypeTag<Item>{}) for an item of so many bytes: 1, 2, 4, 8 or 16.
template <class Body>
inline auto with_item(size_t bytes, Body&& body) {
  if (bytes == 1) return body(TypeTag<uint8_t>{});
  if (bytes == 2) return body(TypeTag<uint16_t>{});
  if (bytes == 4) return body(TypeTag<uint32_t>{});
  if (bytes == 8) return body(TypeTag<uint64_t>{});
  return body(TypeTag<Bytes16>{});
}

// memmove. Of more bytes than this, C libraries make one instruction that copies strings, which on AMD's
// Zen 4 takes 12 times as long where the destination lies a few bytes behind the source in its page.
inline void move_bytes(char* dst, const char* src, size_t count) {
  constexpr size_t kMost = 2048;
  const uintptr_t to = reinterpret_cast<uintptr_t>(dst), from = reinterpret_cast<uintptr_t>(src);
  const uintptr_t behind = (to - from) % 4096;
  // Forwards in pieces: not where they would overwrite what is still to be read.
  const bool pieces = behind > 0 && behind < 32 && (to < from || to - from >= count);
  for (; pieces && count > kMost; dst += kMost, src += kMost, count -= kMost) memmove(dst, src, kMost);
  memmove(dst, src, count);
}

// Backwards through the source.
template <class Item>
void move_reversed(dim_t count, const char* __restrict src, char* __restrict dst) {
  constexpr dim_t kSize = sizeof(Item), kAtOnce = 16 / kSize;
  dim_t i = 0;
  for (; i + kAtOnce <= count; i += kAtOnce) {
    Item some[kAtOnce], turned[kAtOnce];
    memcpy(some, src - (i + kAtOnce - 1) * kSize, sizeof some);
    for (dim_t k = 0; k < kAtOnce; ++k) turned[k] = some[kAtOnce - 1 - k];
    memcpy(dst + i * kSize, turned, sizeof turned);
  }
  for (; i < count; ++i) store_item(dst + i * kSize, load_item<Item>(src - i * kSize));
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
  } else if (dst_stride == kSize && src_stride == -kSize) {
    move_reversed<Item>(count, src, dst);
  } else if (dst_stride == kSize) {
    for (dim_t i = 0; i < count; ++i) store_item(dst + i * kSize, load_item<Item>(src + i * src_stride));
  } else {
    for (dim_t i = 0; i < count; ++i) store_item(dst + i * dst_stride, load_item<Item>(src + i * src_stride));
  }
}

// Runs of so many bytes, more than an item has.
template <size_t bytes>
void move_runs(dim_t count, const char* src, dim_t src_stride, char* dst, dim_t dst_stride) {
  struct Run {
    Bytes16 parts[bytes / sizeof(Bytes16)];
  };
  for (dim_t i = 0; i < count; ++i) store_item(dst + i * dst_stride, load_item<Run>(src + i * src_stride));
}

// Columns of three rows of 4 bytes, one after the other, by four of them; how many that were.
#if defined(PENLIGHT_MOVES_VECTORS) && !defined(__OPTIMIZE_SIZE__)
inline dim_t interleave_fours(dim_t columns, const char* __restrict src, dim_t src_row,
                              char* __restrict dst) {
  typedef uint32_t Vector __attribute__((vector_size(16)));
  dim_t done = 0;
  for (; done + 4 <= columns; done += 4, src += 16, dst += 48) {
    const Vector a = load_item<Vector>(src), b = load_item<Vector>(src + src_row),
                 c = load_item<Vector>(src + 2 * src_row);
    const Vector ab0 = __builtin_shufflevector(a, b, 0, 4, 1, 5);
    const Vector ab2 = __builtin_shufflevector(a, b, 2, 6, 3, 7);
    const Vector bc1 = __builtin_shufflevector(b, c, 1, 5, 1, 5);
    store_item(dst, __builtin_shufflevector(ab0, c, 0, 1, 4, 2));
    store_item(dst + 16, __builtin_shufflevector(bc1, ab2, 0, 1, 4, 5));
    store_item(dst + 32, __builtin_shufflevector(ab2, c, 6, 2, 3, 7));
  }
  return done;
}
#else
inline dim_t interleave_fours(dim_t, const char*, dim_t, char*) { return 0; }
#endif

// Of a few rows: the groups of channels that are shuffled, the colours of an image.
template <class Item, int rows>
void interleave(dim_t columns, const char* __restrict src, dim_t src_row, char* __restrict dst,
                dim_t dst_column) {
  constexpr dim_t kSize = sizeof(Item);
  dim_t c = 0;
  if (rows == 3 && kSize == 4 && dst_column == rows * kSize) c = interleave_fours(columns, src, src_row, dst);
  for (; c < columns; ++c) {
    for (int i = 0; i < rows; ++i)
      store_item(dst + c * dst_column + i * kSize, load_item<Item>(src + i * src_row + c * kSize));
  }
}

// Transposes a square, whose lines fill vectors of 16 bytes where there are such.
template <class Item>
struct Square {
  static constexpr dim_t kSize = 1;
  static void move(const char* src, dim_t, char* dst, dim_t) { store_item(dst, load_item<Item>(src)); }
};

#ifdef PENLIGHT_MOVES_VECTORS
template <>
struct Square<uint32_t> {
  static constexpr dim_t kSize = 4;
  typedef uint32_t Vector __attribute__((vector_size(16)));

  static void move(const char* src, dim_t src_row, char* dst, dim_t dst_column) {
    const Vector a = load_item<Vector>(src), b = load_item<Vector>(src + src_row);
    const Vector c = load_item<Vector>(src + 2 * src_row), d = load_item<Vector>(src + 3 * src_row);
    const Vector ab0 = __builtin_shufflevector(a, b, 0, 4, 1, 5);
    const Vector ab2 = __builtin_shufflevector(a, b, 2, 6, 3, 7);
    const Vector cd0 = __builtin_shufflevector(c, d, 0, 4, 1, 5);
    const Vector cd2 = __builtin_shufflevector(c, d, 2, 6, 3, 7);
    store_item(dst, __builtin_shufflevector(ab0, cd0, 0, 1, 4, 5));
    store_item(dst + dst_column, __builtin_shufflevector(ab0, cd0, 2, 3, 6, 7));
    store_item(dst + 2 * dst_column, __builtin_shufflevector(ab2, cd2, 0, 1, 4, 5));
    store_item(dst + 3 * dst_column, __builtin_shufflevector(ab2, cd2, 2, 3, 6, 7));
  }
};
#endif

// Transposes rows x columns: rows are contiguous in the source, columns in the
// destination. In tiles, whose lines of most items are lines of the cache.
template <class Item>
void move_tiled(dim_t rows, dim_t columns, const char* __restrict src, dim_t src_row, char* __restrict dst,
                dim_t dst_column) {
  constexpr dim_t kSize = sizeof(Item), kTile = 16, kSquare = Square<Item>::kSize;
  if (rows == 2) return interleave<Item, 2>(columns, src, src_row, dst, dst_column);
  if (rows == 3) return interleave<Item, 3>(columns, src, src_row, dst, dst_column);
  for (dim_t left = 0; left < columns; left += kTile) {
    const dim_t right = left + kTile < columns ? left + kTile : columns;
    for (dim_t top = 0; top < rows; top += kTile) {
      const dim_t bottom = top + kTile < rows ? top + kTile : rows;
      dim_t c = left;
      for (; c + kSquare <= right; c += kSquare) {
        dim_t r = top;
        for (; r + kSquare <= bottom; r += kSquare) {
          Square<Item>::move(src + r * src_row + c * kSize, src_row, dst + c * dst_column + r * kSize,
                             dst_column);
        }
        for (dim_t rest = c; r < bottom && rest < c + kSquare; ++rest) {
          move_row<Item>(bottom - r, src + r * src_row + rest * kSize, src_row,
                         dst + rest * dst_column + r * kSize, kSize);
        }
      }
      for (; c < right; ++c) {
        move_row<Item>(bottom - top, src + top * src_row + c * kSize, src_row,
                       dst + c * dst_column + top * kSize, kSize);
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
    if (dim_ == 0 || takes_runs()) return;
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
    if (copies) return;
    detail::with_item(static_cast<size_t>(item_), [this](auto tag) {
      row_ = detail::move_row<typename decltype(tag)::type>;
      tiles_ = detail::move_tiled<typename decltype(tag)::type>;
    });
  }

  // Are there several runs of a few items, each to be moved as one?
  bool takes_runs() {
#ifndef __OPTIMIZE_SIZE__
    const dim_t run = dim_ > 1 && contiguous() ? item_ * sizes_[dim_ - 1] : 0;
    if (run == 32) row_ = detail::move_runs<32>;
    if (run == 64) row_ = detail::move_runs<64>;
    if (row_) {
      item_ = run;
      --dim_;
    }
#endif
    return row_ != nullptr;
  }

  void run_inner(const char* src, char* dst) const {
    const int last = dim_ - 1;
    if (tiled_ >= 0) {
      tiles_(sizes_[last], sizes_[last - 1], src, src_[last], dst, dst_[last - 1]);
    } else if (row_) {
      row_(sizes_[last], src, src_[last], dst, dst_[last]);
    } else {
      // Not memcpy: a damaged plan may have both share bytes.
      detail::move_bytes(dst, src, static_cast<size_t>(sizes_[last] * item_));
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
