#include "program/flatbuffer.h"

namespace penlight::flatbuffer {

uint32_t Reader::follow(size_t at) {
  const uint32_t offset = read<uint32_t>(at);
  const uint64_t target = static_cast<uint64_t>(at) + offset;
  if (offset == 0 || target + 4 > size_ || target > INT32_MAX) {
    damaged_ = true;
    return 0;
  }
  return static_cast<uint32_t>(target);
}

// Position of a field's value; 0 when the table does not have it.
uint32_t Table::field(unsigned id) const {
  if (at_ == 0) return 0;
  const int64_t vtable = static_cast<int64_t>(at_) - reader_->read<int32_t>(at_);
  if (vtable < 0 || !reader_->inside(static_cast<size_t>(vtable), 4)) {
    reader_->damaged_ = true;
    return 0;
  }
  const size_t slot = 4 + 2 * static_cast<size_t>(id);
  if (slot + 2 > reader_->read<uint16_t>(static_cast<size_t>(vtable))) return 0;
  const uint16_t offset = reader_->read<uint16_t>(static_cast<size_t>(vtable) + slot);
  return offset == 0 ? 0 : at_ + offset;
}

uint8_t Table::u8(unsigned id) const {
  const uint32_t at = field(id);
  return at ? reader_->read<uint8_t>(at) : 0;
}

uint32_t Table::u32(unsigned id) const {
  const uint32_t at = field(id);
  return at ? reader_->read<uint32_t>(at) : 0;
}

uint64_t Table::u64(unsigned id) const {
  const uint32_t at = field(id);
  return at ? reader_->read<uint64_t>(at) : 0;
}

double Table::f64(unsigned id) const {
  const uint64_t bits = u64(id);
  double value;
  memcpy(&value, &bits, sizeof value);
  return value;
}

Table Table::table(unsigned id) const {
  const uint32_t at = field(id);
  return Table(reader_, at ? reader_->follow(at) : 0);
}

Vector Table::vector(unsigned id, size_t element_size) const {
  Vector result;
  const uint32_t at = field(id);
  const uint32_t start = at ? reader_->follow(at) : 0;
  if (start == 0) return result;
  const size_t count = reader_->read<uint32_t>(start);
  if (count > reader_->size_ / element_size || !reader_->inside(start + 4, count * element_size)) {
    reader_->damaged_ = true;
    return result;
  }
  result.data = reader_->data_ + start + 4;
  result.count = count;
  result.present = true;
  return result;
}

namespace {
// The bytes of a string vector, when a zero byte follows them.
bool ends_with_zero(const Vector& bytes, const uint8_t* end) {
  return bytes.data + bytes.count < end && bytes.data[bytes.count] == 0;
}
}  // namespace

const char* Table::string(unsigned id, size_t* length) const {
  const Vector bytes = vector(id, 1);
  if (length) *length = bytes.count;
  if (!bytes.present) return nullptr;
  if (!ends_with_zero(bytes, reader_->data_ + reader_->size_)) {
    reader_->damaged_ = true;
    return nullptr;
  }
  return reinterpret_cast<const char*>(bytes.data);
}

Table Table::element(const Vector& tables, size_t index) const {
  if (index >= tables.count) return Table();
  const size_t at = static_cast<size_t>(tables.data - reader_->data_) + 4 * index;
  return Table(reader_, reader_->follow(at));
}

}  // namespace penlight::flatbuffer
