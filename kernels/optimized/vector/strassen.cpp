// Products of many rows by seven multiplications of blocks, where eight are usual: Strassen,
// "Gaussian elimination is not optimal", 1969, one level of it, in Winograd's form. With halves of
// k and of a block's rows and columns,
//
//   S1 = A21 + A22   S2 = S1 - A11   S3 = A11 - A21   S4 = A12 - S2
//   T1 = B12 - B11   T2 = B22 - T1   T3 = B22 - B12   T4 = B21 - T2
//
//   U = A11 B11 + S2 T2   V = U + S3 T3   W = S1 T1
//   C11 = A11 B11 + A12 B21   C12 = U + W + S4 B22   C21 = V + A22 T4   C22 = V + W
//
// What is multiplied so is a unit: 16 rows by 64 columns, and a part of k. Its sums go on in registers
// from product to product, and its halves lie beside each other, so that no element depends on how work
// is split. Sums of rows are made once for all columns; those of weights once for a block of rows, beside
// the products of the columns before, which leave the ports for loads and stores half idle.
//
// What is rounded in one row reaches the one that it is paired with, and likewise columns. Where paired
// rows, and columns, are of about one size, errors are about twice those of a direct product. Units
// whose rows are not, or hold what is not finite, are multiplied directly, and so are those whose columns
// are not, which the compiler has found (src/penlight/passes/use_strassen.py).
//
// Vectors narrower than 16 floats gain too little.
#include "strip.h"

namespace penlight::optimized {
namespace PENLIGHT_ISA {

void product(const Product& product);
size_t product_scratch(const Product& product);

#if defined(__AVX512F__)

namespace {

constexpr int kRows = 8, kVectors = kTileVectors;  // of a half of a unit
constexpr ptrdiff_t kUnitColumns = 2 * kStripColumns;
static_assert(kUnitRows == 2 * kRows && kUnitPanels * kPanel == kUnitColumns);
constexpr int kProducts = 7;
// k of a half at most, so that the weights of a unit stay in the second cache, and its rows, in all their
// forms, in the first; and elements from row to row, an odd number of lines, so that rows do not crowd one
// place of that.
constexpr ptrdiff_t kHalf = 128, kPitch = kHalf + 16;
constexpr ptrdiff_t kForm = kRows * kPitch;  // elements of a sum of rows
// Elements of the rows of a block, in all their forms, so that they stay in the second cache beside weights.
constexpr ptrdiff_t kResident = 131072;
constexpr ptrdiff_t kMostUnits = 16;
// What a unit has time for beside its products: two have for the differences of weights.
constexpr int kTasks = 4;
constexpr ptrdiff_t kFewest = 2;
// Elements of T1 to T4, of which there are those of now and the next, and of all.
constexpr ptrdiff_t kDifferences = kTasks * (kUnitPanels / 2) * kHalf * kPanel;
constexpr ptrdiff_t kScratch = 2 * kDifferences + kMostUnits * kProducts * kForm;
// Sums of squares of paired rows differ less, by a factor; and they are between these, so that neither they
// nor sums of products lose digits.
constexpr float kRatio = 16.0f, kSmallest = 1e-30f, kLargest = 1e36f;

using Sums = Floats[kRows][kVectors];

// What is done in each step of a product: `to` is made the difference of two vectors, or a line is fetched,
// the same one again until steps have left it.
struct Task {
  const float *from, *less;
  float* to;
  ptrdiff_t step = 0;  // elements that what is fetched moves on
};

enum class Beside : uint8_t { Nothing, Fetch, Subtract };

// Weights, or a sum of some: a panel, and how far away the next is.
struct Factor {
  const float* first;
  ptrdiff_t panel;
};

struct Unit {
  const float* rows;  // in the forms that the products take, kForm apart
  Factor factors[kProducts];
  ptrdiff_t k;            // of a half
  const float* start;     // biases, or null: the sums so far lie in the output
  ptrdiff_t start_panel;  // elements from panel to panel of the biases
  const Task* tasks;
  bool last;  // the sums are complete
  Finish finish;
  float* kept;  // two tiles of sums
};

template <int product, Beside beside>
PENLIGHT_INLINE void add_product(Sums& sums, const Unit& u) {
  const float* a = u.rows + product * kForm;
  const float* b = u.factors[product].first;
  const ptrdiff_t panel = u.factors[product].panel;
  [[maybe_unused]] Task task{};
  if constexpr (beside != Beside::Nothing) task = u.tasks[product];
  for (ptrdiff_t c = 0; c < u.k; ++c, ++a, b += kPanel) {
    if constexpr (beside == Beside::Fetch) {
      __builtin_prefetch(task.from, 0, 2);
      task.from += task.step;
    }
    if constexpr (beside == Beside::Subtract) {
      store(task.to + c * kPanel, load(task.from + c * kPanel) - load(task.less + c * kPanel));
    }
    const Floats columns[kVectors] = {load(b), load(b + panel)};
    repeat<kRows>([&](auto i) __attribute__((always_inline)) {
      const Floats value = splat(a[i * kPitch]);
      repeat<kVectors>([&](auto v) __attribute__((always_inline)) { sums[i][v] += value * columns[v]; });
    });
  }
}

// body(row, vector), as constants.
template <class Body>
PENLIGHT_INLINE void each(Body&& body) {
  repeat<kRows * kVectors>(
      [&](auto n) __attribute__((always_inline)) { body(Index<n / kVectors>(), Index<n % kVectors>()); });
}

PENLIGHT_INLINE float* place(float* tile, int row, int vector) {
  return tile + (row * kVectors + vector) * kLanes;
}

PENLIGHT_INLINE void keep(float* tile, const Sums& sums) {
  each([&](auto i, auto v) __attribute__((always_inline)) { store(place(tile, i, v), sums[i][v]); });
}

PENLIGHT_INLINE void add_kept(Sums& sums, float* tile) {
  each([&](auto i, auto v) __attribute__((always_inline)) { sums[i][v] += load(place(tile, i, v)); });
}

PENLIGHT_INLINE Finish quarter_of(Finish unit, int lower, int right) {
  const ptrdiff_t offset = lower * kRows * unit.pitch + right * kStripColumns;
  unit.output += offset;
  if (unit.epilogue.residual) unit.epilogue.residual += offset;
  return unit;
}

// The sums of a quarter of the unit are known for this part of k.
template <int lower, int right>
PENLIGHT_INLINE void complete(const Unit& u, Sums& sums) {
  const Finish f = quarter_of(u.finish, lower, right);
  if (u.start) {
    repeat<kVectors>([&](auto v) __attribute__((always_inline)) {
      const Floats bias = load(u.start + (right * kVectors + v) * u.start_panel);
      repeat<kRows>([&](auto i) __attribute__((always_inline)) { sums[i][v] += bias; });
    });
  } else {
    each([&](auto i, auto v)
             __attribute__((always_inline)) { sums[i][v] += load(f.output + i * f.pitch + v * kLanes); });
  }
  if (!u.last) return store_tile(f, 0, kRows, sums);
  finish_tile(f, 0, kRows, sums);
}

// C11, and V and U for end_unit().
template <Beside beside>
__attribute__((noinline)) void begin_unit(const Unit& u) {
  Sums sums = {};
  float *const first = u.kept, *const second = u.kept + kRows * kStripColumns;
  add_product<0, beside>(sums, u);
  keep(first, sums);
  add_product<1, beside>(sums, u);
  complete<0, 0>(u, sums);
  each([&](auto i, auto v) __attribute__((always_inline)) { sums[i][v] = load(place(first, i, v)); });
  add_product<2, beside>(sums, u);
  keep(first, sums);
  add_product<3, beside>(sums, u);
  keep(second, sums);
}

__attribute__((noinline)) void end_unit(const Unit& u) {
  Sums sums;
  float *const first = u.kept, *const second = u.kept + kRows * kStripColumns;
  each([&](auto i, auto v) __attribute__((always_inline)) { sums[i][v] = load(place(second, i, v)); });
  add_product<4, Beside::Nothing>(sums, u);
  complete<1, 0>(u, sums);
  each([&](auto i, auto v) __attribute__((always_inline)) { sums[i][v] = Floats{}; });
  add_product<5, Beside::Nothing>(sums, u);
  Sums both;
  each([&](auto i, auto v)
           __attribute__((always_inline)) { both[i][v] = sums[i][v] + load(place(second, i, v)); });
  complete<1, 1>(u, both);
  add_kept(sums, first);
  add_product<6, Beside::Nothing>(sums, u);
  complete<0, 1>(u, sums);
}

// Are two rows, of which these are the sums of squares, of about one size? Not if there is a NaN.
PENLIGHT_INLINE bool are_alike(float x, float y) {
  return x <= kRatio * y && y <= kRatio * x && x > kSmallest && x < kLargest && y > kSmallest && y < kLargest;
}

// The rows of a unit, `k` of each half, in the forms that the products take; false where they are not alike.
bool lay_out_unit(const float* input, ptrdiff_t pitch, ptrdiff_t k, float* to) {
  bool alike = true;
  for (int i = 0; i < kRows; ++i, input += pitch, to += kPitch) {
    const float* const below = input + kRows * pitch;
    Floats upper{}, lower{};
    for (ptrdiff_t c = 0; c < k; c += kLanes) {
      const Floats a11 = load_part(input + c, k - c), a12 = load_part(input + k + c, k - c);
      const Floats a21 = load_part(below + c, k - c), a22 = load_part(below + k + c, k - c);
      const Floats s1 = a21 + a22, s2 = s1 - a11;
      const Floats forms[kProducts] = {a11, a12, s2, a11 - a21, a22, s1, a12 - s2};
      repeat<kProducts>([&](auto f) __attribute__((always_inline)) { store(to + f * kForm + c, forms[f]); });
      upper += a11 * a11 + a12 * a12;
      lower += a21 * a21 + a22 * a22;
    }
    alike = alike && are_alike(sum_lanes(upper), sum_lanes(lower));
  }
  return alike;
}

// The weights of a unit: so much k of each half, from `k` on, and columns from a panel on.
struct Place {
  ptrdiff_t k, half, panel;
};

// The multiplication of one block of rows.
class RowBlock {
 public:
  RowBlock(const Product& p, ptrdiff_t first_row, ptrdiff_t rows, float* scratch)
      : p_(p),
        first_row_(first_row),
        units_(rows / kUnitRows),
        rest_(rows % kUnitRows),
        panel_size_((1 + p.channels) * kPanel) {
    differences_[0] = scratch;
    differences_[1] = scratch + kDifferences;
    rows_ = differences_[1] + kDifferences;
  }

  void multiply() {
    for (Place at = begin_of(0); at.k < p_.channels;) {
      if (at.panel == p_.first_panel) lay_out(at);
      Place next = {at.k, at.half, at.panel + kUnitPanels};
      if (next.panel == p_.last_panel) next = begin_of(at.k + 2 * at.half);
      multiply_columns(at, next);
      at = next;
    }
  }

  static ptrdiff_t units_of(ptrdiff_t channels) {
    return min_of(kResident / (kProducts * kRows * step_of(channels) / 2), kMostUnits);
  }

 private:
  // k of both halves that are multiplied at once.
  static ptrdiff_t step_of(ptrdiff_t channels) {
    const ptrdiff_t steps = (channels + 2 * kHalf - 1) / (2 * kHalf);
    return round_up((channels + steps - 1) / steps, 2 * kLanes);
  }
  Place begin_of(ptrdiff_t k) const {
    return {k, min_of(step_of(p_.channels), p_.channels - k) / 2, p_.first_panel};
  }

  // One of B11 to B22, and of T1 to T4: the panel of one half of the columns' vectors.
  const float* weights(const Place& at, int lower, int right, int vector) const {
    return static_cast<const float*>(p_.packed) +
           (at.panel + right * (kUnitPanels / 2) + vector) * panel_size_ +
           (1 + at.k + lower * at.half) * kPanel;
  }
  float* difference(const Place& at, int buffer, int which, int vector) const {
    return differences_[buffer] + ((which - 1) * (kUnitPanels / 2) + vector) * at.half * kPanel;
  }

  void lay_out(const Place& at) {
    alike_ = 0;
    for (ptrdiff_t u = 0; u < units_; ++u) {
      const float* const input = p_.input + (first_row_ + u * kUnitRows) * p_.pixel + at.k;
      is_alike_[u] = lay_out_unit(input, p_.pixel, at.half, rows_ + u * kProducts * kForm);
      alike_ += is_alike_[u];
    }
  }

  // The weights of `next`, panel by panel, each of so many units a part; after the last ones of this layer
  // lie, in most files, those of the next layer.
  void list_fetched(const Place& at, const Place& next, ptrdiff_t units, Task (&tasks)[kTasks]) const {
    const bool is_last = next.k >= p_.channels;
    const ptrdiff_t step = (2 * kPanel + units - 1) / max_of(units, 1);
    for (int i = 0; i < kTasks; ++i) {
      const float* const following = weights({0, 0, p_.last_panel}, 0, 0, 0) + 2 * i * at.half * kPanel;
      tasks[i] = {is_last ? following : weights(next, 0, i / 2, i % 2), nullptr, nullptr, step};
    }
  }

  // The differences of weights, each after those that it needs.
  void list_tasks(const Place& at, int buffer, Task (&tasks)[2 * kTasks]) const {
    for (int v = 0; v < kVectors; ++v) {
      const auto b = [&](int lower, int right) { return weights(at, lower, right, v); };
      const auto t = [&](int which) { return difference(at, buffer, which, v); };
      tasks[v] = {b(0, 1), b(0, 0), t(1)};
      tasks[2 + v] = {b(1, 1), b(0, 1), t(3)};
      tasks[4 + v] = {b(1, 1), t(1), t(2)};
      tasks[6 + v] = {b(1, 0), t(2), t(4)};
    }
  }

  void subtract(const Place& at) {
    Task tasks[2 * kTasks];
    list_tasks(at, buffer_, tasks);
    for (const Task& task : tasks) {
      for (ptrdiff_t i = 0; i < at.half * kPanel; i += kLanes) {
        store(task.to + i, load(task.from + i) - load(task.less + i));
      }
    }
  }

  Unit unit_of(const Place& at, float* kept) const {
    const auto b = [&](int lower, int right) { return weights(at, lower, right, 0); };
    const auto t = [&](int which) -> const float* { return difference(at, buffer_, which, 0); };
    const ptrdiff_t own = panel_size_, made = at.half * kPanel;
    Unit u{};
    u.k = at.half;
    u.factors[0] = {b(0, 0), own};
    u.factors[1] = {b(1, 0), own};
    u.factors[2] = {t(2), made};
    u.factors[3] = {t(3), made};
    u.factors[4] = {t(4), made};
    u.factors[5] = {t(1), made};
    u.factors[6] = {b(1, 1), own};
    u.start = at.k == 0 ? b(0, 0) - kPanel : nullptr;
    u.start_panel = own;
    u.last = at.k + 2 * at.half == p_.channels;
    u.kept = kept;
    return u;
  }

  // All rows by the columns of a unit; the weights of `next` are prepared, if there are some.
  void multiply_columns(const Place& at, const Place& next) {
    alignas(64) float kept[2 * kRows * kStripColumns];
    Unit u = unit_of(at, kept);
    if (is_direct(at)) {
      is_prepared_ = false;
      multiply_directly(u, at, 0, units_ * kUnitRows);
      return multiply_directly(u, at, units_ * kUnitRows, rest_);
    }
    if (!is_prepared_ && alike_ > 0) subtract(at);
    is_prepared_ = next.k < p_.channels && next.half == at.half && alike_ >= kFewest && !is_direct(next);
    Task fetched[kTasks], subtracted[2 * kTasks];
    if (is_prepared_) list_tasks(next, 1 - buffer_, subtracted);
    const ptrdiff_t subtracting = is_prepared_ ? kFewest : 0;
    list_fetched(at, next, alike_ - subtracting, fetched);
    ptrdiff_t left = alike_;
    for (ptrdiff_t i = 0; i < units_; ++i) {
      if (!is_alike_[i]) {
        multiply_directly(u, at, i * kUnitRows, kUnitRows);
        continue;
      }
      u.finish = finish_of(at, i * kUnitRows);
      const ptrdiff_t asked = u.last && p_.asked && i + 1 < units_ ? i + 1 : 0;
      if (asked) fetch_asked(at, asked, 0);
      u.rows = rows_ + i * kProducts * kForm;
      if (--left < subtracting) {
        u.tasks = subtracted + (kFewest - 1 - left) * kTasks;
        begin_unit<Beside::Subtract>(u);
      } else {
        u.tasks = fetched;
        begin_unit<Beside::Fetch>(u);
        for (Task& task : fetched) task.from += at.half * task.step;
      }
      if (asked) fetch_asked(at, asked, 1);
      end_unit(u);
    }
    multiply_directly(u, at, units_ * kUnitRows, rest_);
    buffer_ = 1 - buffer_;
  }

  // Of what is asked for, that beside the upper or the lower half of a unit.
  __attribute__((always_inline)) void fetch_asked(const Place& at, ptrdiff_t unit, int lower) const {
    const ptrdiff_t row = first_row_ + unit * kUnitRows + lower * kRows;
    fetch_rows<kRows, kUnitColumns>(p_.asked + row * p_.asked_pitch + at.panel * kPanel, p_.asked_pitch);
  }

  bool is_direct(const Place& at) const {
    const ptrdiff_t number =
        at.k / step_of(p_.channels) * (p_.outputs / kUnitColumns) + at.panel / kUnitPanels;
    for (ptrdiff_t i = 0; i < p_.blocks->count; ++i) {
      if (p_.blocks->direct[i] == number) return true;
    }
    return false;
  }

  // Rows [first, first + count) of those that are multiplied.
  void multiply_directly(const Unit& u, const Place& at, ptrdiff_t first, ptrdiff_t count) const {
    if (count == 0) return;
    const float* rows[(kMostUnits + 1) * kUnitRows + kTileRows];
    for (ptrdiff_t i = 0; i < round_up(count, kTileRows); ++i) {
      rows[i] = p_.input + (first_row_ + first + min_of(i, count - 1)) * p_.pixel;
    }
    Strip strip{};
    strip.rows = rows;
    strip.tile_step = kTileRows;
    strip.count = count;
    strip.taps = 1;
    strip.first_channel = at.k;
    strip.channels = 2 * at.half;
    strip.weights_panel = panel_size_;
    strip.last = u.last;
    for (int right = 0; right < 2; ++right) {
      strip.weights = weights(at, 0, right, 0);
      strip.ahead.first = reinterpret_cast<const char*>(strip.weights);
      strip.start = u.start ? u.start + right * (kUnitPanels / 2) * panel_size_ : nullptr;
      strip.finish = quarter_of(finish_of(at, first), 0, right);
      multiply_strip(strip);
    }
  }

  Finish finish_of(const Place& at, ptrdiff_t row) const {
    const ptrdiff_t offset = (first_row_ + row) * p_.output_pitch + at.panel * kPanel;
    Finish f = {p_.output + offset, p_.output_pitch, kStripColumns, p_.epilogue};
    if (p_.epilogue.residual) f.epilogue.residual += offset;
    return f;
  }

  const Product& p_;
  const ptrdiff_t first_row_, units_, rest_, panel_size_;
  float *rows_, *differences_[2];
  int buffer_ = 0;  // which has the differences of now
  bool is_prepared_ = false;
  ptrdiff_t alike_ = 0;  // units
  bool is_alike_[kMostUnits];
};

}  // namespace

size_t strassen_scratch(const Product& p) {
  const size_t own = kScratch * sizeof(float), other = product_scratch(p);
  return own > other ? own : other;
}

void strassen(const Product& p) {
  Product whole = p, rest = p;  // columns that fill units, and those that do not
  whole.last_panel = min_of(p.last_panel, p.outputs / kUnitColumns * kUnitPanels);
  rest.first_panel = max_of(whole.last_panel, p.first_panel);
  if (whole.first_panel < whole.last_panel) {
    const ptrdiff_t units = (p.last_row - p.first_row) / kUnitRows, most = RowBlock::units_of(p.channels);
    const ptrdiff_t blocks = max_of((units + most - 1) / most, 1);
    for (ptrdiff_t b = 0; b < blocks; ++b) {
      const ptrdiff_t first = p.first_row + units * b / blocks * kUnitRows;
      const ptrdiff_t after =
          b + 1 < blocks ? p.first_row + units * (b + 1) / blocks * kUnitRows : p.last_row;
      RowBlock(whole, first, after - first, static_cast<float*>(p.scratch)).multiply();
    }
  }
  if (rest.first_panel < rest.last_panel) product(rest);
}

#endif

}  // namespace PENLIGHT_ISA
}  // namespace penlight::optimized
