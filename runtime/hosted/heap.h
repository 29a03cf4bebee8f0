// Memory from the heap for the hosted runtime, without exceptions: a request that
// cannot be served gives null or false, and no C++ library is needed to link.
#pragma once

#include <penlight/context.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <new>

namespace penlight::hosted {

// Zeroed memory at a multiple of 64 bytes, so that no vector load of a kernel
// straddles a cache line at its start. Large regions come from the operating
// system page by page as they are touched.
class Region {
 public:
  Region() : data_(nullptr), size_(0), mapped_(0) {}
  ~Region() { release(); }
  Region(const Region&) = delete;
  Region& operator=(const Region&) = delete;

  bool allocate(size_t size);
  void release();
  void swap(Region& other);

  uint8_t* data() const { return data_; }
  size_t size() const { return size_; }

 private:
  uint8_t* data_;
  size_t size_;
  size_t mapped_;  // bytes given by the operating system; 0 when the heap's
};

// Where a kernel writes that did not ask for its result's sizes first: all of them to the same
// place, as that is an error, which is found when it returns. Null where the system gives none.
void* unsized_memory();

// An array that grows. For trivially copyable elements only.
template <class T>
class Array {
 public:
  Array() : items_(nullptr), size_(0), capacity_(0) {}
  ~Array() { free(items_); }
  Array(const Array&) = delete;
  Array& operator=(const Array&) = delete;

  // New elements are zero bytes.
  bool resize(size_t size) {
    if (!reserve(size)) return false;
    for (size_t i = size_; i < size; ++i) items_[i] = T{};
    size_ = size;
    return true;
  }
  bool push(const T& item) {
    if (!reserve(size_ + 1)) return false;
    items_[size_++] = item;
    return true;
  }
  T* data() const { return items_; }
  size_t size() const { return size_; }
  T& operator[](size_t i) const { return items_[i]; }
  T* begin() const { return items_; }
  T* end() const { return items_ + size_; }

 private:
  bool reserve(size_t size) {
    if (size <= capacity_) return true;
    const size_t wanted = size > 2 * capacity_ ? size : 2 * capacity_;
    if (wanted > SIZE_MAX / sizeof(T)) return false;
    void* grown = realloc(static_cast<void*>(items_), wanted * sizeof(T));
    if (!grown) return false;
    items_ = static_cast<T*>(grown);
    capacity_ = wanted;
    return true;
  }
  T* items_;
  size_t size_, capacity_;
};

// `new` that gives null instead of throwing.
template <class T, class... Args>
T* make(Args&&... args) {
  void* memory = malloc(sizeof(T));
  return memory ? new (memory) T(static_cast<Args&&>(args)...) : nullptr;
}

template <class T>
void destroy(T* object) {
  if (!object) return;
  object->~T();
  free(static_cast<void*>(object));
}

// Scratch for kernels. Blocks are kept from call to call and joined into one when
// a kernel needed several, so that a method that runs again allocates nothing.
class HeapScratch {
 public:
  HeapScratch() : blocks_(nullptr), used_(0) {}
  ~HeapScratch() { free_blocks(); }
  HeapScratch(const HeapScratch&) = delete;
  HeapScratch& operator=(const HeapScratch&) = delete;

  ScratchSource source() { return {allocate, release, this}; }

 private:
  struct Block;
  static void* allocate(void* owner, size_t bytes, size_t alignment);
  static void release(void* owner);
  bool add_block(size_t bytes);
  void free_blocks();

  Block* blocks_;  // newest first; only the newest is filled
  size_t used_;    // of the newest
};

}  // namespace penlight::hosted
