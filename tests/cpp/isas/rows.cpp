// What goes row by row: attention, softmax, norms and activations.
#include "isas.h"

using namespace penlight;
using namespace penlight_test;

namespace {

void attention(Random r, long round) {
  const dim_t heads = r.in(1, 4), shared = r.one_in(2) ? 1 : heads;
  const dim_t queries = r.one_in(3) ? r.in(1, 4) : r.one_in(4) ? r.in(97, 130) : r.in(1, 40);
  const dim_t keys = r.one_in(4) ? r.in(41, 300) : r.in(1, 40), width = r.in(1, 40), values = r.in(1, 40);
  const dim_t batch = queries * keys > 4000 ? 1 : r.in(1, 2);
  const uint8_t* order = r.one_in(2) ? kHeadsInside : nullptr;
  const dim_t q[] = {batch, heads, queries, width}, k[] = {batch, shared, keys, width},
              v[] = {batch, shared, keys, values}, o[] = {batch, heads, queries, values};
  Array &query = x, &key = y, &value = weight, &mask = residual;
  query.shape(q, 4, order, ScalarType::Float, r.one_in(2));
  key.shape(k, 4, order, ScalarType::Float, r.one_in(2));
  value.shape(v, 4, order, ScalarType::Float, r.one_in(2));
  const bool front = r.one_in(2);
  out.shape(o, 4, order, ScalarType::Float, front);
  again.shape(o, 4, order, ScalarType::Float, !front);
  fill(query, r, false);
  fill(key, r, false);
  fill(value, r, false);
  if (r.one_in(5)) query.data()[r.in(0, query.numel() - 1)] = NAN;
  if (r.one_in(5)) key.data()[r.in(0, key.numel() - 1)] = NAN;
  const dim_t kind = r.in(0, 3);  // no mask, causal, of floats, of bools
  dim_t m[] = {r.one_in(2) ? batch : 1, r.one_in(2) ? heads : 1, r.one_in(2) ? queries : 1,
               r.one_in(4) ? 1 : keys};
  mask.shape(m, 4, nullptr, kind == 3 ? ScalarType::Bool : ScalarType::Float, r.one_in(2));
  for (dim_t i = 0; i < mask.numel(); ++i) {
    if (kind == 3) {
      mask.bytes()[i] = !r.one_in(3);
    } else {
      mask.data()[i] = r.one_in(6) ? -HUGE_VALF : 3 * r.real();
    }
  }
  const bool own_scale = r.one_in(2);
  const double scale = own_scale ? 0.3 : 1 / sqrt(static_cast<double>(width));
  Call call(optimized_library, "penlight::scaled_dot_product_attention.out");
  call.tensor(query)
      .tensor(key)
      .tensor(value)
      .optional(kind >= 2 ? &mask : nullptr)
      .number(0)
      .flag(kind == 1);
  if (own_scale) {
    call.number(scale);
  } else {
    call.none();
  }
  const bool safe = r.one_in(2), filled = !safe && kind == 3 && r.one_in(2);
  const double hidden = filled && !r.one_in(4) ? 4 * r.real() : -HUGE_VAL;
  call.flag(shared != heads).flag(safe);
  if (filled) {
    call.number(hidden);
  } else {
    call.none();
  }
  Judge judge{"attention", round};
  judge.ran(call.run(out), call, out);
  static Attended row;
  for (dim_t b = 0; b < batch; ++b) {
    for (dim_t h = 0; h < heads; ++h) {
      for (dim_t i = 0; i < queries; ++i) {
        const dim_t seen = kind == 1 && i + 1 < keys ? i + 1 : keys, from = shared == 1 ? 0 : h;
        double error = 0;
        for (dim_t j = 0; j < seen; ++j) {
          Sum sum;
          for (dim_t c = 0; c < width; ++c) {
            sum.add(static_cast<double>(query.data()[query.at(b, h, i, c)]),
                    scale * static_cast<double>(key.data()[key.at(b, from, j, c)]));
          }
          const dim_t at = mask.at(m[0] > 1 ? b : 0, m[1] > 1 ? h : 0, m[2] > 1 ? i : 0, m[3] > 1 ? j : 0);
          if (kind == 2) sum.add(static_cast<double>(mask.data()[at]));
          row.scores[j] =
              kind == 3 && !mask.bytes()[at] ? (filled ? hidden : sum.get().value + hidden) : sum.get().value;
          if (sum.get().bound < HUGE_VAL && sum.get().bound > error) error = sum.get().bound;
        }
        row.soften(seen, safe);
        for (dim_t c = 0; c < values; ++c) {
          double total = 0, most = 0;
          for (dim_t j = 0; j < seen; ++j) {
            const double one = static_cast<double>(value.data()[value.at(b, from, j, c)]);
            total += row.scores[j] * one;
            most = fabs(one) > most ? fabs(one) : most;
          }
          // Each exponential is off by its score's error and its own, and so is their sum.
          const double bound = most * (2 * (error + 4e-7) + static_cast<double>(2 * seen + 8) * 6e-8);
          const dim_t place = out.at(b, h, i, c);
          judge.see(out.data()[place], {total * row.factor, bound}, place);
        }
      }
    }
  }
  check_threads(call, out, again);
}

// What is done to rows: softmax and its logarithm, RMS and layer norms, activations.
void rows(Random r, long round) {
  const dim_t kind = r.in(0, 8), count = r.one_in(4) ? r.in(41, 1100) : r.in(1, 40);
  const dim_t sizes[] = {r.one_in(6) ? r.in(300, 400) : r.in(0, 7), count}, ones[] = {sizes[0], 1};
  x.shape(sizes, 2, nullptr, ScalarType::Float, r.one_in(2));
  weight.shape(&count, 1, nullptr, ScalarType::Float, r.one_in(2));
  bias.shape(&count, 1, nullptr, ScalarType::Float, r.one_in(2));
  const bool scaled = r.one_in(2), shifted = kind == 3 && r.one_in(2), front = r.one_in(2);
  out.shape(kind == 3 ? ones : sizes, 2, nullptr, ScalarType::Float, front);
  again.shape(kind == 3 ? ones : sizes, 2, nullptr, ScalarType::Float, !front);
  y.shape(sizes, 2, nullptr, ScalarType::Float, front);  // of a layer norm, before means and deviations
  plain.shape(ones, 2, nullptr, ScalarType::Float, front);
  fill(x, r, false);
  for (dim_t i = 0; i < x.numel(); ++i) x.data()[i] *= 20;
  if (x.numel() && r.one_in(4)) x.data()[r.in(0, x.numel() - 1)] = kind < 2 ? -HUGE_VALF : NAN;
  fill(weight, r, false);
  fill(bias, r, false);
  const char* names[] = {
      "aten::_softmax.out", "aten::_log_softmax.out", "penlight::rms_norm.out", "aten::native_layer_norm.out",
      "aten::sigmoid.out",  "aten::tanh.out",         "aten::silu.out",         "aten::gelu.out",
      "aten::gelu.out"};
  Call call(optimized_library, names[kind]);
  call.tensor(x);
  if (kind < 2) call.integer(-1).flag(false);
  if (kind == 2 || kind == 3) call.integers(count).optional(scaled ? &weight : nullptr);
  if (kind == 3) call.optional(shifted ? &bias : nullptr);
  if (kind == 2 || kind == 3) call.number(1e-5);
  if (kind == 3) call.tensor(y).tensor(plain);
  if (kind >= 7) call.string(kind == 7 ? "none" : "tanh");
  Judge judge{names[kind], round};
  judge.ran(call.run(out), call, out);
  const float* result = kind == 3 ? y.data() : out.data();
  const int activations[] = {3, 4, 5, 6, 7};
  double most = 0, sum = 0, mean = 0, square = 0;
  for (dim_t i = 0; i < x.numel(); ++i) {
    const double value = static_cast<double>(x.data()[i]);
    if (kind >= 4) {
      judge.see(result[i], activated(activations[kind - 4], 0, 0, {value, 0}), i);
      continue;
    }
    if (i % count == 0) {
      const float* row = x.data() + i;
      const double n = static_cast<double>(count);
      most = -HUGE_VAL;
      sum = mean = square = 0;
      for (dim_t k = 0; k < count; ++k) most = fmax(most, static_cast<double>(row[k]));
      for (dim_t k = 0; k < count; ++k) sum += exp(static_cast<double>(row[k]) - most);
      for (dim_t k = 0; kind == 3 && k < count; ++k) mean += static_cast<double>(row[k]) / n;
      for (dim_t k = 0; k < count; ++k) square += pow(static_cast<double>(row[k]) - mean, 2) / n;
    }
    const double rstd = 1 / sqrt(square + 1e-5);
    double want = kind == 0   ? exp(value - most) / sum
                  : kind == 1 ? value - most - log(sum)
                              : (value - mean) * rstd;
    double bound = kind < 2 ? 1e-5 * (1 + fabs(want)) : 1e-4 * (1 + fabs(want));
    if (kind >= 2 && scaled) want *= static_cast<double>(weight.data()[i % count]);
    if (shifted) want += static_cast<double>(bias.data()[i % count]);
    // A single element, or equal ones, less their mean is rounding times a large factor.
    if (kind == 3 && rstd > 1) bound *= rstd;
    judge.see(result[i], {want, bound}, i);
  }
  if (kind != 3) check_threads(call, out, again);
}

}  // namespace

TEST(attention_heads) { repeat_everywhere(4, attention, 3); }
TEST(rows_of_matrices) { repeat_everywhere(6, rows, 4); }
