// The public headers compile on their own, one after the other, and together.
#include <penlight/kernel.h>
#include <penlight/libraries.h>

#include "check.h"

TEST(table_is_sorted) {
  const penlight::KernelLibrary& library = penlight::portable_library;
  CHECK(library.sorted);
  for (size_t i = 1; i < library.count; ++i) {
    CHECK(strcmp(library.kernels[i - 1].name, library.kernels[i].name) < 0);
  }
}

int main() { return penlight_test::finish(); }
