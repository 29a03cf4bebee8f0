// Where a program's bytes come from: memory, a file, flash, or a user's own.
#pragma once

#include <penlight/status.h>
#include <stddef.h>
#include <stdint.h>

namespace penlight {

// A source of bytes. A user's own loader embeds this struct as its first member
// and sets the functions; they are given the loader back.
struct DataLoader {
  // Bytes in all.
  uint64_t size;

  // Makes [offset, offset + size) readable and returns its address, which stays
  // valid for the loader's life; null when that fails. Addresses keep the file's
  // alignment up to 16 bytes: (address - offset) % 16 == 0.
  const void* (*load)(DataLoader* self, uint64_t offset, size_t size);

  // Copies [offset, offset + size) to `into`. May be null: then load() is used.
  bool (*read)(DataLoader* self, uint64_t offset, size_t size, void* into);

  // Told, when a method is loaded, of bytes that each of its runs reads from end to
  // end: to fetch or to map them in larger parts. They may be another loader's; those
  // that indices may choose from are not among them. May be null.
  void (*will_read)(DataLoader* self, const void* data, size_t size) = nullptr;
};

// A program that lies in memory or flash, 16-byte aligned.
struct BufferLoader : DataLoader {
  BufferLoader(const void* bytes, size_t count);
  const void* data;
};

}  // namespace penlight
