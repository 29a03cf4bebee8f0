// Checks for the C++ tests: a failed one prints its line and the program goes on.
//
//   TEST(reads_a_file) { CHECK(1 + 1 == 2); CHECK_EQ(length, 3); }
//   int main() { return penlight_test::finish(); }
#pragma once

#include <stdio.h>
#include <string.h>

namespace penlight_test {

struct Test {
  const char* name;
  void (*run)();
  Test* next;
};

inline Test*& tests() {
  static Test* first = nullptr;
  return first;
}

inline int& failures() {
  static int count = 0;
  return count;
}

struct Registration {
  Registration(Test& test) {
    Test** last = &tests();
    while (*last) last = &(*last)->next;
    *last = &test;
  }
};

inline bool same(const char* a, const char* b) { return strcmp(a, b) == 0; }
template <class A, class B>
bool same(const A& a, const B& b) {
  return a == b;
}

inline void report(const char* file, int line, const char* text) {
  ++failures();
  printf("%s:%d: failed: %s\n", file, line, text);
}

// Runs every test of the program; main returns what this returns.
inline int finish() {
  int count = 0, failed = 0;
  for (Test* test = tests(); test; test = test->next, ++count) {
    const int before = failures();
    test->run();
    if (failures() != before) {
      printf("FAILED %s\n", test->name);
      ++failed;
    }
  }
  printf("%d passed, %d failed\n", count - failed, failed);
  return failed != 0 || count == 0;
}

}  // namespace penlight_test

#define TEST(name)                                                          \
  static void test_##name();                                                \
  static penlight_test::Test entry_##name = {#name, &test_##name, nullptr}; \
  static penlight_test::Registration registration_##name(entry_##name);     \
  static void test_##name()

#define CHECK(condition)                                                     \
  do {                                                                       \
    if (!(condition)) penlight_test::report(__FILE__, __LINE__, #condition); \
  } while (0)

#define CHECK_EQ(a, b)                                                                           \
  do {                                                                                           \
    if (!penlight_test::same((a), (b))) penlight_test::report(__FILE__, __LINE__, #a " == " #b); \
  } while (0)
