// PENLIGHT_LIBRARY in a program: its operators are in default_registry() before main.
#include <penlight/kernel.h>

#include "check.h"

using namespace penlight;

static Tensor& twice_out(KernelContext& ctx, const Tensor& x, Tensor& out) {
  if (!ctx.resize(out, x.sizes())) return out;
  dispatch<Real>(ctx, x.scalar_type(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    for (dim_t i = 0; i < x.numel(); ++i) {
      out.mutable_data_ptr<T>()[i] = static_cast<T>(x.const_data_ptr<T>()[i] + x.const_data_ptr<T>()[i]);
    }
  });
  return out;
}
static void step(KernelContext&, Tensor& state, int64_t by) {
  *state.mutable_data_ptr<float>() += static_cast<float>(by);
}

PENLIGHT_LIBRARY(program, "twice(Tensor x) -> Tensor", twice_out, shapes("[n] -> [n]"))
PENLIGHT_LIBRARY(program, "twice.of(Tensor x) -> Tensor", twice_out);
PENLIGHT_LIBRARY(program, "thrice.out", twice_out)
PENLIGHT_LIBRARY(program, "step_(Tensor(a!) state, int by) -> ()", step)

namespace {

const Kernel* find(const char* name) { return default_registry().find(name, nullptr); }

}  // namespace

TEST(operators_are_there_by_their_kernels_names) {
  CHECK(find("program::twice.out") != nullptr);
  CHECK(find("program::twice.of_out") != nullptr);
  CHECK(find("program::thrice.out") != nullptr);
  CHECK(find("program::step_") != nullptr);
  CHECK(find("program::twice") == nullptr);
  CHECK_EQ(find("program::twice.out")->signature, "TO");
  CHECK_EQ(find("program::step_")->signature, "OI");
  CHECK(strstr(find("program::twice.out")->source, "library.cpp:") != nullptr);
}

TEST(a_kernel_of_the_program_is_called) {
  float data[2] = {1.5f, -2.0f}, result[2] = {};
  dim_t sizes[] = {2}, strides[] = {1};
  uint8_t order[] = {0};
  TensorImpl x = {data, sizes, strides, order, 2, sizeof data, ScalarType::Float, 1, Dynamism::Static, 0};
  TensorImpl out = x;
  out.data = result;
  Value values[2];
  values[0].as_tensor = Tensor(&x);
  values[1].as_tensor = Tensor(&out);
  values[0].tag = values[1].tag = Tag::Tensor;
  Value* args[] = {&values[0], &values[1]};
  Message message;
  KernelContext context({}, &message);
  find("program::twice.out")->call(context, args);
  CHECK(context.ok());
  CHECK_EQ(result[0], 3.0f);
  CHECK_EQ(result[1], -4.0f);
}

TEST(schemas) {
  const Schema schema = read_schema(
      "ns::f.over(Tensor x, Tensor(a!)? y, Tensor(?) z, int[2] n=[1, 2], str s=\"a,)\", *, Scalar? v=None) "
      "-> (Tensor, "
      "Tensor named)");
  CHECK(schema.fault == SchemaFault::None);
  CHECK_EQ(schema.letters, "TttJZsOO");
  CHECK_EQ(schema.results, size_t{2});
  CHECK_EQ(schema.keyword_from, size_t{5});
  CHECK(compare_schema("f(Tensor x) -> Tensor", "TO").fault == SchemaFault::None);
  CHECK(compare_schema("f(Tensor x) -> Tensor", "TIO").fault == SchemaFault::Count);
  CHECK(compare_schema("f(Tensor x, int n) -> Tensor", "TFO").fault == SchemaFault::Mismatch);
  CHECK(compare_schema("f(Tensor x, int n) -> int", "TIO").fault == SchemaFault::Result);
  CHECK(compare_schema("f(Tensor x", "TO").fault == SchemaFault::Syntax);
  CHECK(compare_schema("f(Tensor x, Dict d) -> Tensor", "TIO").fault == SchemaFault::Type);
  CHECK(compare_schema("f(Tensor x) -> ()", "T").fault == SchemaFault::NoOut);
  CHECK(compare_schema("", "TO").fault == SchemaFault::Syntax);
  CHECK(compare_schema("f(", "TO").fault == SchemaFault::Syntax);
  CHECK(compare_schema("f(Tensor x=\"", "TO").fault == SchemaFault::Syntax);
  CHECK(compare_schema("f(Tensor[ x) -> Tensor", "LO").fault == SchemaFault::Syntax);
}

int main() { return penlight_test::finish(); }
