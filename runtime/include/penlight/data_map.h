// Weights that lie outside the program, by name: a .ptd file or a user's own.
#pragma once

#include <penlight/array_ref.h>
#include <penlight/loader.h>
#include <penlight/message.h>
#include <penlight/scalar_type.h>
#include <penlight/status.h>
#include <stddef.h>
#include <stdint.h>

namespace penlight {

// What a data map knows of one entry.
struct DataEntry {
  const void* data;
  size_t size;  // bytes
  bool has_layout;
  ScalarType dtype;
  ArrayRef<uint8_t> dim_order;
  const uint8_t* sizes;  // little-endian int32, `dim` of them
  size_t dim;
};

// A user's own map embeds this struct as its first member.
struct DataMap {
  // NotFound when there is no such key.
  Status (*find)(const DataMap* self, const char* key, DataEntry& entry);

  // As a loader's: told of bytes that each run reads from end to end, which need not be of this map.
  // May be null.
  void (*will_read)(const DataMap* self, const void* data, size_t size) = nullptr;
};

// A .ptd file (FlatTensor, identifier FT01).
class TensorFile : public DataMap {
 public:
  TensorFile();
  // `loader` must outlive this object.
  Status load(DataLoader& loader, Message* message);

  size_t size() const;
  // Key of entry `index`; null past the end.
  const char* key(size_t index) const;

 private:
  static Status find_key(const DataMap* self, const char* key, DataEntry& entry);
  static void announce(const DataMap* self, const void* data, size_t size);

  DataLoader* loader_;
  const uint8_t* data_;
  size_t size_;
  uint64_t segment_base_;
  uint64_t segment_size_;
};

}  // namespace penlight
