// Chains of elementwise operations, a step after another on exact values.
#include "isas.h"

using namespace penlight;
using namespace penlight_test;

namespace {

// Operations of chains, by their numbers in the file format (kernels/optimized/vector/elements.h).
enum Element {
  kAdd = 1,
  kSub,
  kMul,
  kMinimum = 5,
  kMaximum,
  kClamp,
  kLeakyRelu,
  kWhere,
  kLess,
  kNeg = 17,
  kAbs,
  kRelu,
  kSquare,
  kSigmoid = 29,
  kTanh,
  kSilu,
  kGelu,
  kGeluTanh
};

// One step on exact values; conditions are 1 and 0.
Exact stepped(int op, const Exact* s) {
  const double a = s[0].value, b = s[1].value, c = s[2].value, bounds = s[0].bound + s[1].bound;
  const auto rounded = [](double value, double bound) {
    return Exact{value, bound + 6e-8 * fabs(value) + 1e-37};
  };
  const bool unordered = a != a || b != b;
  switch (op) {
    case kAdd:
      return rounded(a + b, bounds);
    case kSub:
      return rounded(a - b, bounds);
    case kMul:
      return rounded(a * b, fabs(a) * s[1].bound + fabs(b) * s[0].bound + s[0].bound * s[1].bound);
    case kMinimum:
      return {unordered ? NAN : fmin(a, b), bounds};
    case kMaximum:
      return {unordered ? NAN : fmax(a, b), bounds};
    case kClamp:
      return {a < b ? b : a > c ? c : a, s[0].bound};
    case kLeakyRelu:
      return rounded(a > 0 ? a : a * b, s[0].bound * (fabs(b) > 1 ? fabs(b) : 1));
    case kWhere:
      return a != 0 ? s[1] : s[2];
    case kLess:
      return {a < b ? 1.0 : 0.0, 0};
    case kNeg:
      return {-a, s[0].bound};
    case kAbs:
      return {fabs(a), s[0].bound};
    case kSquare:
      return rounded(a * a, (2 * fabs(a) + s[0].bound) * s[0].bound);
    default: {
      const int known[] = {1, 3, 4, 5, 6, 7};  // of relu, sigmoid, tanh, silu, gelu, gelu of tanh
      return activated(known[op == kRelu ? 0 : op - kSigmoid + 1], 0, 0, s[0]);
    }
  }
}

// A part of an array: where it begins in one dimension, and how many elements lie between two of it.
struct Window {
  int dim;
  dim_t first, step;
};

// A chain of operations, its inputs broadcast as they come, some of them parts of arrays.
void chain(Random r, long round) {
  constexpr int kRegisters = 8, kCondition = 7, kMostSteps = 14;
  const dim_t sizes[] = {r.in(0, 3), r.in(1, 9), r.one_in(6) ? r.in(500, 900) : r.in(1, 40)};
  Array* arrays[] = {&x, &y, &weight};
  const int inputs = static_cast<int>(r.in(1, 3));
  const int whole = static_cast<int>(r.in(0, inputs));  // the first input that is a part
  dim_t own[3][3], there[3][3];
  Window parts[3] = {};
  int64_t windows[3 * 5];
  for (int i = 0; i < inputs; ++i) {
    for (int d = 0; d < 3; ++d) there[i][d] = own[i][d] = i > 0 && r.one_in(3) ? 1 : sizes[d];
    parts[i].step = 1;
    if (i >= whole) {
      const int d = static_cast<int>(r.in(0, 2));
      const Window part = parts[i] = {d, r.in(0, 2), r.one_in(3) ? dim_t{2} : dim_t{1}};
      const dim_t span = own[i][d] ? (own[i][d] - 1) * part.step + 1 : 0;
      there[i][d] = part.first + span + r.in(0, 2);
      const int64_t words[] = {i - whole, d, part.first, part.first + span, part.step};
      for (int w = 0; w < 5; ++w) windows[(i - whole) * 5 + w] = words[w];
    }
    arrays[i]->shape(there[i], 3, nullptr, ScalarType::Float, r.one_in(2));
    fill(*arrays[i], r, false);
    if (arrays[i]->numel() && r.one_in(3)) arrays[i]->data()[r.in(0, arrays[i]->numel() - 1)] = NAN;
  }
  double constants[] = {0.5, -1.25, static_cast<double>(r.real())};
  const int operands = inputs + 3;
  // Registers 0 to 5 have numbers of at most `most`; the last step writes one of them.
  double most[kRegisters] = {};
  bool written[kRegisters] = {};
  int64_t program[kMostSteps * 5];
  int steps = 0;
  const auto source = [&] {
    const int any = static_cast<int>(r.in(0, 5));
    return written[any] && !r.one_in(3) ? any : kRegisters + static_cast<int>(r.in(0, operands - 1));
  };
  const auto size_of = [&](int from) { return from < kRegisters ? most[from] : 1.25; };
  const auto add = [&](int op, int to, int a, int b, int c) {
    const int64_t words[] = {op, to, a, b, c};
    for (int i = 0; i < 5; ++i) program[steps * 5 + i] = words[i];
    ++steps;
  };
  const int wanted = static_cast<int>(r.in(1, kMostSteps - 2));
  while (steps < wanted) {
    static const int kOps[] = {kAdd, kSub,  kMul,    kMinimum, kMaximum, kClamp, kLeakyRelu, kWhere,   kNeg,
                               kAbs, kRelu, kSquare, kSigmoid, kTanh,    kSilu,  kGelu,      kGeluTanh};
    int op = kOps[r.in(0, 16)];
    const int to = steps % 6, a = steps == 0 ? kRegisters : source(), b = source(), c = source();
    const double grown = op == kMul      ? size_of(a) * size_of(b)
                         : op == kSquare ? size_of(a) * size_of(a)
                                         : size_of(a) + size_of(b);
    if (grown > 1e4) op = kTanh;
    if (op == kWhere) {  // conditions compare what is exact
      add(kLess, kCondition, kRegisters, kRegisters + static_cast<int>(r.in(0, operands - 1)), 0);
      add(op, to, kCondition, b, c);
    } else if (op == kClamp) {
      add(op, to, a, kRegisters + inputs + 1, kRegisters + inputs);
    } else if (op == kLeakyRelu) {
      add(op, to, a, kRegisters + inputs, 0);
    } else {
      add(op, to, a, op <= kMaximum ? b : 0, 0);
    }
    most[to] = op == kTanh ? 1 : op == kWhere ? size_of(b) + size_of(c) : grown;
    written[to] = true;
  }
  const bool front = r.one_in(2);
  out.shape(sizes, 3, nullptr, ScalarType::Float, front);
  again.shape(sizes, 3, nullptr, ScalarType::Float, !front);
  Tensor tensors[] = {x.tensor(), y.tensor(), weight.tensor()};
  Call call(optimized_library, "penlight::elementwise.out");
  call.list(tensors, whole).list(tensors + whole, inputs - whole).list(windows, (inputs - whole) * 5);
  call.list(program, steps * 5).list(constants, 3);
  Judge judge{"elementwise", round};
  judge.ran(call.run(out), call, out);
  for (dim_t i = 0; i < out.numel(); ++i) {
    const dim_t at[] = {i / (sizes[1] * sizes[2]), i / sizes[2] % sizes[1], i % sizes[2]};
    Exact values[kRegisters + 6], result;
    for (int n = 0; n < inputs; ++n) {
      dim_t place = 0;
      for (int d = 0; d < 3; ++d) {
        const dim_t inside = own[n][d] == 1 ? 0 : at[d];
        place = place * there[n][d] + (d == parts[n].dim ? parts[n].first + inside * parts[n].step : inside);
      }
      values[kRegisters + n].value = static_cast<double>(arrays[n]->data()[place]);
    }
    for (int n = 0; n < 3; ++n) {
      values[kRegisters + inputs + n].value = static_cast<double>(static_cast<float>(constants[n]));
    }
    for (int s = 0; s < steps; ++s) {
      const int64_t* step = program + s * 5;
      const Exact sources[] = {values[step[2]], values[step[3]], values[step[4]]};
      result = values[step[1]] = stepped(static_cast<int>(step[0]), sources);
    }
    judge.see(out.data()[i], result, i);
  }
  check_threads(call, out, again);
}

}  // namespace

TEST(chains_of_elementwise_operations) { repeat_everywhere(8, chain, 6); }
