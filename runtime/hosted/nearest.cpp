#include "nearest.h"

#include <stdint.h>
#include <string.h>

namespace penlight::hosted {

namespace {

// How many single letters must change to make `a` of `b`.
size_t distance(const char* a, const char* b) {
  size_t row[128];
  const size_t width = strlen(b);
  if (width >= 127) return SIZE_MAX;
  for (size_t j = 0; j <= width; ++j) row[j] = j;
  for (size_t i = 0; a[i]; ++i) {
    size_t diagonal = row[0];
    row[0] = i + 1;
    for (size_t j = 0; j < width; ++j) {
      const size_t replaced = diagonal + (a[i] != b[j]);
      diagonal = row[j + 1];
      size_t best = row[j] < row[j + 1] ? row[j] + 1 : row[j + 1] + 1;
      row[j + 1] = replaced < best ? replaced : best;
    }
  }
  return row[width];
}

}  // namespace

void say_no_method(const Program& program, const char* name, Message& message) {
  const char* nearest = nullptr;
  size_t least = strlen(name) / 2 + 1;
  for (size_t i = 0; i < program.method_count(); ++i) {
    const size_t changes = distance(name, program.method_name(i));
    if (changes >= least) continue;
    least = changes;
    nearest = program.method_name(i);
  }
  message.set("the program has no method {};", name);
  if (nearest) message.append(" did you mean {}?", nearest);
  message.append(" there are");
  for (size_t i = 0; i < program.method_count(); ++i)
    message.append(i ? ", {}" : " {}", program.method_name(i));
}

}  // namespace penlight::hosted
