// Every routine of the optimized kernels, with every instruction set of this processor,
// against sums in double (reference.h), over random sizes.
//
//   cpp_isas [--isa NAME] [--rounds N] [--seed N] [--guards 0] [--gathers 0]
//
// Shapes are as odd as they come, memory is guarded (call.h), and what two or more threads
// would do must give the same bits. Needs no other file, so that it can be carried to a
// machine, or an emulator, of which nothing else is known.
#include "isas.h"

using namespace penlight;
using namespace penlight_test;

namespace {

const char* widest = nullptr;  // chosen without a word of ours

}  // namespace

TEST(the_widest_instruction_set_is_chosen_and_others_can_be) {
  bool below = false;
  const char *const widest_first[] = {"avx512", "avx2", "base"}, *const unknown[] = {"", "avx", "AVX2",
                                                                                     "sse9"};
  const bool by_other_choices =
      same(widest, "avx512-zen5") || same(widest, "avx512-intel") || same(widest, "amx");
  const char* const code = by_other_choices ? "avx512" : widest;
  for (const char* name : widest_first) {
    const bool there = select_optimized_isa(name);
    if (there) CHECK_EQ(optimized_isa(), name);
    below |= same(name, code);
    CHECK(!there || below);
    printf("%s: %s\n", name, there ? "here" : "not here");
  }
  CHECK(select_optimized_isa("avx512-zen5") == select_optimized_isa("avx512"));
  CHECK(select_optimized_isa("avx512-intel") == select_optimized_isa("avx512"));
  CHECK(select_optimized_isa("base"));
  for (const char* name : unknown) CHECK(!select_optimized_isa(name));
  CHECK_EQ(optimized_isa(), "base");
  CHECK(select_optimized_isa(widest));
}

int main(int argc, char** argv) {
  int i = 1;
  for (; i + 1 < argc; i += 2) {
    const char *option = argv[i], *value = argv[i + 1];
    if (strcmp(option, "--isa") == 0) {
      options().only = value;
    } else if (strcmp(option, "--rounds") == 0) {
      options().rounds = atol(value);
    } else if (strcmp(option, "--seed") == 0) {
      options().first_seed = strtoull(value, nullptr, 10);
    } else if (strcmp(option, "--guards") == 0) {
      has_guard_pages() = atol(value) != 0;
    } else if (strcmp(option, "--gathers") == 0) {
      options().gathers = atol(value) != 0;
    } else {
      break;
    }
  }
  if (i != argc || options().rounds < 1) {
    printf("usage: %s [--isa NAME] [--rounds N] [--seed N] [--guards 0] [--gathers 0]\n", argv[0]);
    return 2;
  }
  widest = optimized_isa();
  const char* only = options().only;
  if (only && !select_optimized_isa(only)) {
    printf("this machine cannot compute with %s\n", only);
    return 2;
  }
  return finish();
}
