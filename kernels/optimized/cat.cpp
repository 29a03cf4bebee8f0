// Tensors joined, and split again, in one pass over the whole, which threads share: some bytes of it each.
#include <string.h>

#include "image.h"
#include "kernels/common/checks.h"
#include "kernels/common/move.h"
#include "parallel.h"

namespace penlight::optimized {

namespace {

enum class Order { RowMajor, ChannelsLast };

bool has_order(const Tensor& tensor, Order order) {
  return order == Order::RowMajor ? tensor.is_contiguous() : tensor.dim() == 4 && is_channels_last(tensor);
}

bool all_have_order(TensorList tensors, Order order) {
  for (const Tensor& tensor : tensors) {
    if (!is_skipped(tensor) && !has_order(tensor, order)) return false;
  }
  return true;
}

// Elements from one place of dimension `d` to the next.
dim_t inner_of(const Tensor& tensor, int d, Order order) {
  constexpr int kPlaces[] = {0, 3, 1, 2};  // of channels-last dimensions in memory
  const auto place = [&](int k) { return order == Order::RowMajor ? k : kPlaces[k]; };
  dim_t inner = 1;
  for (int k = 0; k < tensor.dim(); ++k) {
    if (place(k) > place(d)) inner *= tensor.size(k);
  }
  return inner;
}

// Some bytes of a whole and of a part: runs of which all of the part's are.
struct Piece {
  size_t place, at;   // where they are, in the whole and in the part
  size_t run, pitch;  // bytes of a run, and from run to run of the whole; those of a part follow each other
  dim_t count;        // runs
};

// Runs of so many bytes, of items of `item` bytes.
__attribute__((noinline)) void move_runs(size_t item, dim_t count, size_t run, const char* src,
                                         size_t src_pitch, char* dst, size_t dst_pitch) {
  const dim_t size = static_cast<dim_t>(item), sizes[] = {count, static_cast<dim_t>(run / item)};
  const dim_t from[] = {static_cast<dim_t>(src_pitch), size}, to[] = {static_cast<dim_t>(dst_pitch), size};
  Mover(item, 2, sizes, from, to).run(src, dst);
}

// From `src` to `dst`, from one run of which to the next there are so many bytes. Not memcpy: a damaged file
// may have a part where the whole is.
inline void move_piece(size_t item, const Piece& piece, const char* src, size_t src_pitch, char* dst,
                       size_t dst_pitch) {
  if (piece.count == 1) {
    memmove(dst, src, piece.run);
  } else {
    move_runs(item, piece.count, piece.run, src, src_pitch, dst, dst_pitch);
  }
}

// A whole and its parts: runs of bytes, one of each part in turn.
struct Runs {
  TensorList parts;
  size_t step;   // bytes of a run for each place of the dimension
  size_t whole;  // bytes of all runs of a turn
  int d;

  size_t run_of(const Tensor& part) const {
    return is_skipped(part) ? 0 : static_cast<size_t>(part.size(d)) * step;
  }

  // Does it take longer to call memmove for each run than to move all runs of a part, then those of the next?
  bool are_short() const {
    constexpr size_t kShort = 64;
    return whole <= kShort * parts.size();
  }

  // Calls move(part, piece) for bytes [first, last) of the whole.
  template <class Move>
  void each(size_t first, size_t last, Move&& move) const {
    size_t turn = first / whole, at = first % whole;
    for (; first < last; ++turn, at = 0) {
      for (const Tensor& part : parts) {
        const size_t run = run_of(part);
        if (at >= run) {
          at -= run;
          continue;
        }
        const size_t count = run - at < last - first ? run - at : last - first;
        if (count == 0) return;
        move(part, Piece{first, turn * run + at, count, whole, 1});
        first += count;
        at = 0;
      }
    }
  }

  // The same of turns [first, last), of as many at once as the nearest cache holds.
  template <class Move>
  void each_turn(dim_t first, dim_t last, Move&& move) const {
    constexpr size_t kNearest = 1 << 13;
    const dim_t most = static_cast<dim_t>(kNearest / whole) + 1;
    for (dim_t turn = first; turn < last; turn += most) {
      size_t place = static_cast<size_t>(turn) * whole;
      for (const Tensor& part : parts) {
        const size_t run = run_of(part), at = static_cast<size_t>(turn) * run;
        if (run > 0) move(part, Piece{place, at, run, whole, last - turn < most ? last - turn : most});
        place += run;
      }
    }
  }
};

// The same for all of a whole with these sizes, by all threads.
template <class Move>
void each_run(KernelContext& ctx, const Tensor& whole, TensorList parts, int d, Order order, Move&& move) {
  const size_t total = whole.nbytes();
  if (total == 0) return;
  Runs runs{parts, static_cast<size_t>(inner_of(whole, d, order)) * whole.element_size(), 0, d};
  runs.whole = static_cast<size_t>(whole.size(d)) * runs.step;
  constexpr size_t line = 64;
  constexpr double operations = 4;  // as long as copying a byte takes
  if (runs.are_short()) {
    return in_parts(ctx, static_cast<dim_t>(total / runs.whole), operations * static_cast<double>(runs.whole),
                    [&](Range range) { runs.each_turn(range.first, range.last, move); });
  }
  in_parts(ctx, static_cast<dim_t>((total + line - 1) / line), operations * line, [&](Range range) {
    const size_t last = static_cast<size_t>(range.last) * line;
    runs.each(static_cast<size_t>(range.first) * line, last < total ? last : total, move);
  });
}

// Splits `self` into out[i] with length_of(i) places of dimension `d` each, as many as it has.
template <class LengthOf>
void split(KernelContext& ctx, const Tensor& self, int d, LengthOf&& length_of, TensorList out) {
  const int rank = self.dim();
  const Order order = self.is_contiguous() ? Order::RowMajor : Order::ChannelsLast;
  if (!has_order(self, order)) return ctx.decline();
  const dim_t all = self.size(d);
  dim_t sizes[kMaxDim];
  for (int k = 0; k < rank; ++k) sizes[k] = self.size(k);
  for (size_t i = 0; i < out.size(); ++i) {
    Tensor part = out[i];
    if (part.scalar_type() != self.scalar_type()) return ctx.decline();
    sizes[d] = length_of(i);
    if (!ctx.resize(part, SizesRef(sizes, static_cast<size_t>(rank)))) return;
    if (!has_order(part, order)) return ctx.decline();
  }
  // A damaged file may have one tensor in several places, which has the size of the last.
  bool kept = self.size(d) == all;
  for (size_t i = 0; i < out.size(); ++i) kept = kept && out[i].size(d) == length_of(i);
  if (!kept) return ctx.decline();
  const char* const whole = self.const_data_ptr<char>();
  const size_t item = self.element_size();
  each_run(ctx, self, out, d, order, [&](const Tensor& part, const Piece& piece) {
    move_piece(item, piece, whole + piece.place, piece.pitch, part.mutable_data_ptr<char>() + piece.at,
               piece.run);
  });
}

}  // namespace

void cat_out(KernelContext& ctx, TensorList tensors, int64_t dim, Tensor& out) {
  size_t some = 0;
  while (some < tensors.size() && is_skipped(tensors[some])) ++some;
  if (some == tensors.size()) return ctx.decline();
  const Tensor& like = tensors[some];
  const int rank = like.dim();
  const Order order = all_have_order(tensors, Order::RowMajor) ? Order::RowMajor : Order::ChannelsLast;
  if (rank == 0 || !all_have_order(tensors, order)) return ctx.decline();
  int d;
  if (!wrap_dim(ctx, dim, rank, d)) return;
  dim_t sizes[kMaxDim];
  for (int k = 0; k < rank; ++k) sizes[k] = k == d ? 0 : like.size(k);
  for (const Tensor& tensor : tensors) {
    if (is_skipped(tensor)) continue;
    bool fits = tensor.dim() == rank && tensor.scalar_type() == out.scalar_type();
    for (int k = 0; fits && k < rank; ++k) fits = k == d || tensor.size(k) == sizes[k];
    if (!fits) return ctx.decline();
    sizes[d] += tensor.size(d);
  }
  if (!ctx.resize(out, SizesRef(sizes, static_cast<size_t>(rank)))) return;
  if (!has_order(out, order)) return ctx.decline();
  char* const result = out.mutable_data_ptr<char>();
  const size_t item = out.element_size();
  each_run(ctx, out, tensors, d, order, [&](const Tensor& part, const Piece& piece) {
    move_piece(item, piece, part.const_data_ptr<char>() + piece.at, piece.run, result + piece.place,
               piece.pitch);
  });
}

void split_copy_tensor_out(KernelContext& ctx, const Tensor& self, int64_t length, int64_t dim,
                           TensorList out) {
  if (self.dim() == 0 || out.size() == 0) return ctx.decline();
  int d;
  if (!wrap_dim(ctx, dim, self.dim(), d)) return;
  const int64_t size = self.size(d), last = static_cast<int64_t>(out.size()) - 1;
  if (length <= 0 || size == 0 || (size - 1) / length != last) return ctx.decline();
  const auto length_of = [&](size_t i) {
    return static_cast<dim_t>(static_cast<int64_t>(i) < last ? length : size - last * length);
  };
  split(ctx, self, d, length_of, out);
}

void split_with_sizes_copy_out(KernelContext& ctx, const Tensor& self, IntArrayRef lengths, int64_t dim,
                               TensorList out) {
  if (self.dim() == 0 || lengths.size() != out.size()) return ctx.decline();
  int d;
  if (!wrap_dim(ctx, dim, self.dim(), d)) return;
  int64_t rest = self.size(d);
  for (const int64_t length : lengths) rest = length < 0 || length > rest ? -1 : rest - length;
  if (rest != 0) return ctx.decline();
  const auto length_of = [&](size_t i) { return static_cast<dim_t>(lengths[i]); };
  split(ctx, self, d, length_of, out);
}

}  // namespace penlight::optimized
