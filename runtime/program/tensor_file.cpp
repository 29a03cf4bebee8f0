// A .ptd file: identifier, header, a FlatBuffer with names and layouts, segments.
#include <penlight/data_map.h>
#include <penlight/tensor.h>
#include <string.h>

#include "program/flatbuffer.h"
#include "program/schema.h"

namespace penlight {

using flatbuffer::Reader;
using flatbuffer::Table;
using flatbuffer::Vector;

namespace {

constexpr size_t kHeadBytes = 48;
constexpr uint64_t kMaxTables = INT32_MAX;

template <class T>
T at(const uint8_t* bytes, size_t offset) {
  T value;
  memcpy(&value, bytes + offset, sizeof value);
  return value;
}

// What is wrong with an entry; null when nothing is. `room` is the bytes that
// segments may use.
const char* read_entry(const Table& root, const Table& entry, uint64_t room, DataEntry& found,
                       uint64_t* offset, uint64_t* size) {
  const Vector segments = root.vector(schema::flat_tensor::kSegments, 4);
  const uint32_t index = entry.u32(schema::named::kSegment);
  if (index >= segments.count) return "is in a segment that is not there";
  const Table segment = root.element(segments, index);
  *offset = segment.u64(schema::segment::kOffset);
  *size = segment.u64(schema::segment::kSize);
  if (*offset > room || *size > room - *offset || *size > SIZE_MAX) return "ends behind the end of the file";

  const Table layout = entry.table(schema::named::kLayout);
  found = DataEntry();
  found.has_layout = layout.present();
  if (!found.has_layout) return nullptr;
  const Vector sizes = layout.vector(schema::tensor_layout::kSizes, 4);
  const Vector order = layout.vector(schema::tensor_layout::kDimOrder, 1);
  if (sizes.count > kMaxDim || order.count != sizes.count) return "has a layout that cannot be";
  found.dtype = static_cast<ScalarType>(layout.i8(schema::tensor_layout::kScalarType));
  found.dim_order = {order.data, order.count};
  found.sizes = sizes.data;
  found.dim = sizes.count;
  return nullptr;
}

}  // namespace

TensorFile::TensorFile() : loader_(nullptr), data_(nullptr), size_(0), segment_base_(0), segment_size_(0) {
  find = find_key;
  will_read = announce;
}

Status TensorFile::load(DataLoader& loader, Message* message) {
  if (loader.size < kHeadBytes) {
    return fail(message, Status::InvalidProgram, "the data file has {} bytes, the smallest one {}",
                loader.size, kHeadBytes);
  }
  const uint8_t* head = static_cast<const uint8_t*>(loader.load(&loader, 0, kHeadBytes));
  if (!head) return fail(message, Status::AccessFailed, "the data file's header cannot be read");
  if (memcmp(head + 4, "FT01", 4) != 0 || memcmp(head + 8, "FH01", 4) != 0) {
    return fail(message, Status::InvalidProgram, "this is not a data file: its identifier is not FT01");
  }
  const uint32_t header_length = at<uint32_t>(head, 12);
  const uint64_t tables_offset = at<uint64_t>(head, 16), tables_size = at<uint64_t>(head, 24);
  const uint64_t base = at<uint64_t>(head, 32), bytes = at<uint64_t>(head, 40);
  if (header_length < 40) {
    return fail(message, Status::InvalidProgram, "the data file's header has {} bytes, 40 are needed",
                header_length);
  }
  if (tables_offset > loader.size || tables_size > loader.size - tables_offset || base > loader.size ||
      bytes > loader.size - base || tables_offset + tables_size > kMaxTables) {
    return fail(message, Status::InvalidProgram,
                "the data file has {} bytes, its parts need more: it is truncated", loader.size);
  }
  const size_t size = static_cast<size_t>(tables_offset + tables_size);
  const void* data = loader.load(&loader, 0, size);
  if (!data) return fail(message, Status::AccessFailed, "the data file's tables cannot be read");

  Reader reader(data, size);
  const Table root = reader.root();
  const uint32_t version = root.u32(schema::flat_tensor::kVersion);
  const Vector entries = root.vector(schema::flat_tensor::kNamedData, 4);
  for (size_t i = 0; i < entries.count; ++i) {
    const Table entry = root.element(entries, i);
    DataEntry ignored;
    uint64_t offset, count;
    const char* name = entry.string(schema::named::kKey);
    const char* problem = read_entry(root, entry, bytes, ignored, &offset, &count);
    if (reader.damaged() || !name) break;
    if (problem) return fail(message, Status::InvalidProgram, "entry {} of the data file {}", name, problem);
  }
  if (reader.damaged())
    return fail(message, Status::InvalidProgram, "the data file's list of entries is damaged");
  if (version != 0) {
    return fail(message, Status::NotSupported, "the data file has version {}; this runtime reads 0", version);
  }
  loader_ = &loader;
  data_ = static_cast<const uint8_t*>(data);
  size_ = size;
  segment_base_ = base;
  segment_size_ = bytes;
  return Status::Ok;
}

size_t TensorFile::size() const {
  if (!data_) return 0;
  Reader reader(data_, size_);
  return reader.root().vector(schema::flat_tensor::kNamedData, 4).count;
}

const char* TensorFile::key(size_t index) const {
  if (!data_) return nullptr;
  Reader reader(data_, size_);
  const Table root = reader.root();
  return root.element(root.vector(schema::flat_tensor::kNamedData, 4), index).string(schema::named::kKey);
}

void TensorFile::announce(const DataMap* map, const void* data, size_t size) {
  DataLoader* loader = static_cast<const TensorFile*>(map)->loader_;
  if (loader && loader->will_read) loader->will_read(loader, data, size);
}

Status TensorFile::find_key(const DataMap* map, const char* key, DataEntry& entry) {
  const TensorFile& self = *static_cast<const TensorFile*>(map);
  if (!self.data_) return Status::InvalidState;
  Reader reader(self.data_, self.size_);
  const Table root = reader.root();
  const Vector entries = root.vector(schema::flat_tensor::kNamedData, 4);
  for (size_t i = 0; i < entries.count; ++i) {
    const Table found = root.element(entries, i);
    const char* name = found.string(schema::named::kKey);
    if (!name || strcmp(name, key) != 0) continue;
    uint64_t offset, size;
    if (read_entry(root, found, self.segment_size_, entry, &offset, &size)) return Status::InvalidProgram;
    entry.data = self.loader_->load(self.loader_, self.segment_base_ + offset, static_cast<size_t>(size));
    entry.size = static_cast<size_t>(size);
    return entry.data ? Status::Ok : Status::AccessFailed;
  }
  return Status::NotFound;
}

}  // namespace penlight
