#include <penlight/loader.h>

namespace penlight {

BufferLoader::BufferLoader(const void* bytes, size_t count) : data(bytes) {
  size = count;
  load = [](DataLoader* self, uint64_t offset, size_t wanted) -> const void* {
    const BufferLoader* loader = static_cast<BufferLoader*>(self);
    if (offset > loader->size || wanted > loader->size - offset) return nullptr;
    return static_cast<const uint8_t*>(loader->data) + offset;
  };
  read = nullptr;
}

}  // namespace penlight
