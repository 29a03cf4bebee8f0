// The file's frame: identifier, extended header, segments, list of methods.
#include <penlight/program.h>
#include <string.h>

#include "program/flatbuffer.h"
#include "program/plan.h"
#include "program/schema.h"
#include "program/tensor_info.h"

namespace penlight {

using flatbuffer::Reader;
using flatbuffer::Table;
using flatbuffer::Vector;

namespace {

constexpr size_t kHeadBytes = 64;  // enough for root, identifier and header
constexpr uint64_t kMaxProgram = INT32_MAX;

template <class T>
T at(const uint8_t* bytes, size_t offset) {
  T value;
  memcpy(&value, bytes + offset, sizeof value);
  return value;
}

}  // namespace

Status Program::load(DataLoader& loader, Message* message) {
  const size_t head_size = loader.size < kHeadBytes ? static_cast<size_t>(loader.size) : kHeadBytes;
  if (head_size < 8) {
    return fail(message, Status::InvalidProgram, "the file has {} bytes; the smallest program has more",
                loader.size);
  }
  const uint8_t* head = static_cast<const uint8_t*>(loader.load(&loader, 0, head_size));
  if (!head) return fail(message, Status::AccessFailed, "the first {} bytes cannot be read", head_size);
  if (head[4] != 'E' || head[5] != 'T') {
    return fail(message, Status::InvalidProgram, "this is not a program file: its identifier is not ET12");
  }
  if (head[6] != '1' || head[7] != '2') {
    return fail(message, Status::NotSupported, "the program has format version {}{}; this runtime reads 12",
                head[6] - '0', head[7] - '0');
  }

  uint64_t program_size = loader.size;
  segment_base_ = segment_limit_ = 0;
  if (head_size >= 32 && memcmp(head + 8, "eh00", 4) == 0) {
    const uint32_t header_length = at<uint32_t>(head, 12);
    if (header_length < 24) {
      return fail(message, Status::InvalidProgram, "the header has {} bytes, at least 24 are needed",
                  header_length);
    }
    program_size = at<uint64_t>(head, 16);
    segment_base_ = at<uint64_t>(head, 24);
    const uint64_t segment_bytes = header_length >= 32 && head_size >= 40 ? at<uint64_t>(head, 32) : 0;
    if (program_size > loader.size) {
      return fail(message, Status::InvalidProgram,
                  "the program part has {} bytes, the file only {}: it is truncated", program_size,
                  loader.size);
    }
    if (segment_base_ > loader.size || segment_bytes > loader.size - segment_base_) {
      return fail(message, Status::InvalidProgram,
                  "the file has {} bytes, its data needs {} from byte {}: it is truncated", loader.size,
                  segment_bytes, segment_base_);
    }
    segment_limit_ = segment_bytes ? segment_base_ + segment_bytes : loader.size;
    if (segment_base_ == 0) segment_limit_ = 0;
  }
  if (program_size < 8 || program_size > kMaxProgram) {
    return fail(message, Status::InvalidProgram, "a program part of {} bytes is not possible", program_size);
  }
  const void* data = loader.load(&loader, 0, static_cast<size_t>(program_size));
  if (!data)
    return fail(message, Status::AccessFailed, "the program part of {} bytes cannot be read", program_size);
  loader_ = &loader;
  data_ = static_cast<const uint8_t*>(data);
  size_ = static_cast<size_t>(program_size);

  Reader reader(data_, size_);
  const Table root = reader.root();
  const uint32_t version = root.u32(schema::program::kVersion);
  const Vector plans = root.vector(schema::program::kPlans, 4);
  for (size_t i = 0; i < plans.count; ++i) root.element(plans, i).string(schema::plan::kName);
  const bool damaged = reader.damaged() || !plans.present;
  if (damaged || version != 0) {
    data_ = nullptr;
    size_ = 0;
    if (!damaged) {
      return fail(message, Status::NotSupported, "the program has schema version {}; this runtime reads 0",
                  version);
    }
    return fail(message, Status::InvalidProgram, "the list of methods is damaged");
  }
  return Status::Ok;
}

size_t Program::method_count() const {
  if (!data_) return 0;
  Reader reader(data_, size_);
  return reader.root().vector(schema::program::kPlans, 4).count;
}

const char* Program::method_name(size_t index) const {
  if (!data_) return nullptr;
  Reader reader(data_, size_);
  const Table root = reader.root();
  return root.element(root.vector(schema::program::kPlans, 4), index).string(schema::plan::kName);
}

bool Program::segment(uint32_t index, uint64_t* offset, uint64_t* size) const {
  Reader reader(data_, size_);
  const Table root = reader.root();
  const Vector segments = root.vector(schema::program::kSegments, 4);
  const Table segment = root.element(segments, index);
  *offset = segment.u64(schema::segment::kOffset);
  *size = segment.u64(schema::segment::kSize);
  const uint64_t room = segment_limit_ - segment_base_;
  if (reader.damaged() || !segment.present() || *offset > room || *size > room - *offset) return false;
  *offset += segment_base_;
  return true;
}

Status Program::named_data(const char* key, const char* rest, ArrayRef<uint8_t>& bytes) const {
  if (!data_) return Status::InvalidState;
  const size_t length = strlen(key);
  Reader reader(data_, size_);
  const Table root = reader.root();
  const Vector entries = root.vector(schema::program::kNamedData, 4);
  for (size_t i = 0; i < entries.count; ++i) {
    const Table entry = root.element(entries, i);
    const char* name = entry.string(schema::named::kKey);
    if (!name || strlen(name) < length || memcmp(name, key, length) != 0) continue;
    if (strcmp(name + length, rest) != 0) continue;
    uint64_t offset, size;
    if (!segment(entry.u32(schema::named::kSegment), &offset, &size) || size > SIZE_MAX)
      return Status::InvalidProgram;
    const void* data = loader_->load(loader_, offset, static_cast<size_t>(size));
    if (!data) return Status::AccessFailed;
    bytes = {static_cast<const uint8_t*>(data), static_cast<size_t>(size)};
    return Status::Ok;
  }
  return Status::NotFound;
}

namespace {

// Sum of what the file says about one arena list; damage reads as zero.
constexpr Tag kTags[] = {Tag::None,       Tag::None,     Tag::Int,        Tag::Bool,
                         Tag::Double,     Tag::Tensor,   Tag::String,     Tag::IntList,
                         Tag::DoubleList, Tag::BoolList, Tag::TensorList, Tag::OptionalTensorList};

}  // namespace

Tag plan_tag(uint8_t type) { return type < sizeof kTags / sizeof kTags[0] ? kTags[type] : Tag::None; }

Status Program::method_meta(const char* name, MethodMeta& meta, Message* message) const {
  if (!data_) return fail(message, Status::InvalidState, "no program is loaded");
  Reader reader(data_, size_);
  const Table root = reader.root();
  const Vector plans = root.vector(schema::program::kPlans, 4);
  for (size_t i = 0; i < plans.count; ++i) {
    const Table plan = root.element(plans, i);
    const char* candidate = plan.string(schema::plan::kName);
    if (!candidate || strcmp(candidate, name) != 0) continue;
    meta = MethodMeta();
    meta.program_ = this;
    meta.plan_ = static_cast<uint32_t>(i);
    meta.name_ = candidate;
    const Table container = plan.table(schema::plan::kContainer);
    meta.input_structure_ = container.string(schema::container::kInputs);
    meta.output_structure_ = container.string(schema::container::kOutputs);
    meta.input_count_ = plan.vector(schema::plan::kInputs, 4).count;
    meta.output_count_ = plan.vector(schema::plan::kOutputs, 4).count;
    meta.value_count_ = plan.vector(schema::plan::kValues, 4).count;
    meta.delegate_count_ = plan.vector(schema::plan::kDelegates, 4).count;
    const Vector chains = plan.vector(schema::plan::kChains, 4);
    const Table chain = plan.element(chains, 0);
    meta.instruction_count_ = chain.vector(schema::chain::kInstructions, 4).count;
    const size_t arenas = plan.vector(schema::plan::kArenaSizes, 8).count;
    meta.arena_count_ = arenas > 0 ? arenas - 1 : 0;
    if (reader.damaged()) return fail(message, Status::InvalidProgram, "method {} is damaged", name);
    return measure_method(*this, static_cast<uint32_t>(i), &meta.method_bytes_, message);
  }
  return fail(message, Status::NotFound, "the program has no method {}", name);
}

namespace {

// A walk to one plan; lives only while its reader does.
struct Plan {
  Reader reader;
  Table root, plan;
  Plan(const uint8_t* data, size_t size, uint32_t index) : reader(data, size) {
    root = reader.root();
    plan = root.element(root.vector(schema::program::kPlans, 4), index);
  }
};

}  // namespace

Tag MethodMeta::tag(bool input, size_t index, size_t* value) const {
  if (!program_) return Tag::None;
  Plan walk(program_->data_, program_->size_, plan_);
  const Vector list = walk.plan.vector(input ? schema::plan::kInputs : schema::plan::kOutputs, 4);
  if (index >= list.count) return Tag::None;
  *value = list.get<uint32_t>(index);
  return plan_tag(
      walk.plan.element(walk.plan.vector(schema::plan::kValues, 4), *value).u8(schema::value::kType));
}

Tag MethodMeta::input_tag(size_t index) const {
  size_t value = 0;
  return tag(true, index, &value);
}

Tag MethodMeta::output_tag(size_t index) const {
  size_t value = 0;
  return tag(false, index, &value);
}

Status MethodMeta::tensor(bool input, size_t index, TensorInfo& info) const {
  size_t value = 0;
  if (tag(input, index, &value) != Tag::Tensor) return Status::InvalidArgument;
  Plan walk(program_->data_, program_->size_, plan_);
  const Table entry = walk.plan.element(walk.plan.vector(schema::plan::kValues, 4), value);
  TensorPlace place;
  const char* problem = read_tensor(entry.table(schema::value::kContent), info, place);
  return problem || walk.reader.damaged() ? Status::InvalidProgram : Status::Ok;
}

Status MethodMeta::input_tensor(size_t index, TensorInfo& info) const { return tensor(true, index, info); }
Status MethodMeta::output_tensor(size_t index, TensorInfo& info) const { return tensor(false, index, info); }

Status MethodMeta::input_number(size_t index, Value& value) const {
  size_t slot = 0;
  const Tag kind = tag(true, index, &slot);
  if (kind != Tag::Int && kind != Tag::Bool && kind != Tag::Double) return Status::InvalidArgument;
  Plan walk(program_->data_, program_->size_, plan_);
  const Table content =
      walk.plan.element(walk.plan.vector(schema::plan::kValues, 4), slot).table(schema::value::kContent);
  value.tag = kind;
  value.as_int = 0;
  if (kind == Tag::Int) value.as_int = content.i64(0);
  if (kind == Tag::Bool) value.as_bool = content.u8(0) != 0;
  if (kind == Tag::Double) value.as_double = content.f64(0);
  return Status::Ok;
}

size_t MethodMeta::arena_size(size_t index) const {
  if (index >= arena_count_) return 0;
  Plan walk(program_->data_, program_->size_, plan_);
  const int64_t size = walk.plan.vector(schema::plan::kArenaSizes, 8).get<int64_t>(index + 1);
  return size < 0 ? SIZE_MAX : static_cast<size_t>(size);
}

bool MethodMeta::arena_is_state(size_t index) const {
  if (index >= arena_count_) return false;
  Plan walk(program_->data_, program_->size_, plan_);
  const Vector values = walk.plan.vector(schema::plan::kValues, 4);
  bool any = false;
  for (size_t i = 0; i < values.count; ++i) {
    const Table entry = walk.plan.element(values, i);
    if (entry.u8(schema::value::kType) != schema::value::Tensor) continue;
    TensorInfo info;
    TensorPlace place;
    if (read_tensor(entry.table(schema::value::kContent), info, place)) return false;
    if (place.memory_id != index + 1) continue;
    if (!is_state(info, place) && !place.in_state) return false;
    any = any || is_state(info, place);
  }
  return any;
}

}  // namespace penlight
