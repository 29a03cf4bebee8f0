#include "heap.h"

#include <string.h>
#include <sys/mman.h>

namespace penlight::hosted {

namespace {

constexpr size_t kAlignment = 64;
constexpr size_t kMapFrom = 256 * 1024;  // below this the heap is cheaper than a mapping
constexpr size_t kSmallestBlock = 16 * 1024;

}  // namespace

bool Region::allocate(size_t size) {
  release();
  if (size > SIZE_MAX - 4096) return false;
  if (size >= kMapFrom) {
    void* memory = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) return false;
    data_ = static_cast<uint8_t*>(memory);
    mapped_ = size;
  } else {
    void* memory = nullptr;
    const size_t bytes = size ? size : kAlignment;
    if (posix_memalign(&memory, kAlignment, bytes) != 0) return false;
    memset(memory, 0, bytes);
    data_ = static_cast<uint8_t*>(memory);
  }
  size_ = size;
  return true;
}

void Region::release() {
  if (mapped_) {
    munmap(data_, mapped_);
  } else {
    free(data_);
  }
  data_ = nullptr;
  size_ = mapped_ = 0;
}

void Region::swap(Region& other) {
  uint8_t* data = data_;
  const size_t size = size_, mapped = mapped_;
  data_ = other.data_, size_ = other.size_, mapped_ = other.mapped_;
  other.data_ = data, other.size_ = size, other.mapped_ = mapped;
}

void* unsized_memory() {
  // Takes pages only where something is written.
  static void* const memory = mmap(nullptr, size_t{1} << 30, PROT_READ | PROT_WRITE,
                                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  return memory == MAP_FAILED ? nullptr : memory;
}

struct alignas(64) HeapScratch::Block {
  Block* next;
  size_t size;  // of the bytes behind this header
  uint8_t* bytes() { return reinterpret_cast<uint8_t*>(this + 1); }
};

bool HeapScratch::add_block(size_t bytes) {
  if (bytes > SIZE_MAX - sizeof(Block)) return false;
  void* memory = nullptr;
  if (posix_memalign(&memory, kAlignment, sizeof(Block) + bytes) != 0) return false;
  Block* block = static_cast<Block*>(memory);
  block->next = blocks_;
  block->size = bytes;
  blocks_ = block;
  used_ = 0;
  return true;
}

void HeapScratch::free_blocks() {
  while (blocks_) {
    Block* next = blocks_->next;
    free(blocks_);
    blocks_ = next;
  }
  used_ = 0;
}

void* HeapScratch::allocate(void* owner, size_t bytes, size_t alignment) {
  HeapScratch& self = *static_cast<HeapScratch*>(owner);
  if (alignment < kAlignment) alignment = kAlignment;
  if (bytes > SIZE_MAX / 2 || alignment > SIZE_MAX / 4) return nullptr;
  for (int attempt = 0; attempt < 2; ++attempt) {
    if (self.blocks_) {
      const uintptr_t base = reinterpret_cast<uintptr_t>(self.blocks_->bytes());
      const size_t start = ((base + self.used_ + alignment - 1) & ~uintptr_t{alignment - 1}) - base;
      if (start <= self.blocks_->size && bytes <= self.blocks_->size - start) {
        self.used_ = start + bytes;
        return self.blocks_->bytes() + start;
      }
    }
    const size_t wanted = bytes + alignment;
    if (!self.add_block(wanted < kSmallestBlock ? kSmallestBlock : wanted)) return nullptr;
  }
  return nullptr;
}

void HeapScratch::release(void* owner) {
  HeapScratch& self = *static_cast<HeapScratch*>(owner);
  if (self.blocks_ && self.blocks_->next) {
    size_t total = 0;
    for (Block* block = self.blocks_; block; block = block->next) total += block->size;
    self.free_blocks();
    self.add_block(total);  // when this fails the next request tries again
  }
  self.used_ = 0;
}

}  // namespace penlight::hosted
