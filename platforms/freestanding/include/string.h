// The memory and string functions that runtime and kernels use, for machines whose
// toolchain has no C library. Defined in platforms/freestanding/memory.cpp.
#pragma once

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

void* memcpy(void* __restrict to, const void* __restrict from, size_t count);
void* memmove(void* to, const void* from, size_t count);
void* memset(void* to, int value, size_t count);
int memcmp(const void* a, const void* b, size_t count);
size_t strlen(const char* text);
int strcmp(const char* a, const char* b);
int strncmp(const char* a, const char* b, size_t count);

#ifdef __cplusplus
}
#endif
