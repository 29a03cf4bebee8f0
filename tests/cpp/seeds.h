// Programs of tests/hostile/seeds, found from this file.
#pragma once

#include <stdio.h>
#include <string.h>

inline const char* seed(const char* name) {
  static char path[4096];
  const char* slash = strrchr(__FILE__, '/');
  const int folder = slash ? static_cast<int>(slash - __FILE__) : 1;
  snprintf(path, sizeof path, "%.*s/../hostile/seeds/%s.pte", folder, slash ? __FILE__ : ".", name);
  return path;
}
