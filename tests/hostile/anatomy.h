// Where a program file keeps its numbers, and what each means: so that damage can be
// done to a tensor's sizes or a jump's target, which blind changes seldom hit.
//
// Walks undamaged files only, by the field numbers that the runtime reads them with.
#pragma once

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "mutate.h"
#include "program/schema.h"

namespace penlight_hostile {

enum class Meaning : uint8_t {
  Count,   // of a vector or string
  Offset,  // from here to a table, vector or string
  Slot,    // a value, by index
  Index,   // an operator, a delegate, a segment, stored bytes
  Target,  // an instruction
  Size,    // of a tensor
  Order,   // of a dimension
  Dtype,
  Kind,    // of a value or an instruction
  Region,  // a memory id
  Bytes,   // a size or a place in memory or in the file
  Number,  // that the program computes with
  Flag,
  Letter,  // of a name
};

struct Field {
  uint32_t at;
  uint8_t width;
  Meaning meaning;
};

class Anatomy {
 public:
  Anatomy(const uint8_t* bytes, size_t size, bool weights) : bytes_(bytes), size_(size) {
    if (weights) {
      walk_weights();
    } else {
      walk_program();
    }
  }
  ~Anatomy() { free(fields_); }
  Anatomy(const Anatomy&) = delete;
  Anatomy& operator=(const Anatomy&) = delete;

  size_t count() const { return count_; }
  const Field& operator[](size_t index) const { return fields_[index]; }

 private:
  template <class T>
  T read(size_t at) const {
    T value{};
    if (at + sizeof value <= size_) memcpy(&value, bytes_ + at, sizeof value);
    return value;
  }

  void add(size_t at, size_t width, Meaning meaning) {
    if (count_ == room_) {
      room_ = room_ ? 2 * room_ : 256;
      fields_ = static_cast<Field*>(realloc(fields_, room_ * sizeof(Field)));
    }
    fields_[count_++] = {static_cast<uint32_t>(at), static_cast<uint8_t>(width), meaning};
  }

  // Place of a field in a table, 0 when it has none.
  size_t place(size_t table, unsigned id) const {
    if (!table) return 0;
    const size_t vtable = table - static_cast<size_t>(static_cast<int64_t>(read<int32_t>(table)));
    const size_t slot = 4 + 2 * size_t{id};
    if (slot + 2 > read<uint16_t>(vtable)) return 0;
    const uint16_t offset = read<uint16_t>(vtable + slot);
    return offset ? table + offset : 0;
  }

  void number(size_t table, unsigned id, size_t width, Meaning meaning) {
    if (const size_t at = place(table, id)) add(at, width, meaning);
  }

  size_t follow(size_t at) {
    if (!at) return 0;
    add(at, 4, Meaning::Offset);
    return at + read<uint32_t>(at);
  }
  size_t child(size_t table, unsigned id) { return follow(place(table, id)); }

  // A vector of numbers.
  void numbers(size_t table, unsigned id, size_t width, Meaning meaning, size_t most = 64) {
    const size_t start = child(table, id);
    if (!start) return;
    add(start, 4, Meaning::Count);
    const size_t count = read<uint32_t>(start);
    for (size_t i = 0; i < count && i < most; ++i) add(start + 4 + i * width, width, meaning);
  }
  void text(size_t table, unsigned id) { numbers(table, id, 1, Meaning::Letter, 24); }

  // Calls visit(table) with each table of a vector.
  template <class Visit>
  void tables(size_t table, unsigned id, Visit visit) {
    const size_t start = child(table, id);
    if (!start) return;
    add(start, 4, Meaning::Count);
    const size_t count = read<uint32_t>(start);
    for (size_t i = 0; i < count; ++i) visit(follow(start + 4 + 4 * i));
  }

  void walk_program() {
    using namespace penlight::schema;
    for (size_t at = 8; at < 48; at += at < 16 ? 4 : 8) add(at, at < 16 ? 4 : 8, Meaning::Bytes);
    const size_t root = follow(0);
    number(root, program::kVersion, 4, Meaning::Number);
    tables(root, program::kPlans, [&](size_t plan) { walk_plan(plan); });
    tables(root, program::kDelegateData,
           [&](size_t data) { numbers(data, inline_data::kData, 1, Meaning::Letter, 16); });
    walk_segments(root, program::kSegments);
    walk_subsegments(child(root, program::kConstantSegment));
    tables(root, program::kMutableSegments, [&](size_t where) { walk_subsegments(where); });
    tables(root, program::kNamedData, [&](size_t entry) { walk_named(entry); });
  }

  void walk_weights() {
    using namespace penlight::schema;
    for (size_t at = 8; at < 48; at += at < 16 ? 4 : 8) add(at, at < 16 ? 4 : 8, Meaning::Bytes);
    const size_t root = follow(0);
    number(root, flat_tensor::kVersion, 4, Meaning::Number);
    walk_segments(root, flat_tensor::kSegments);
    tables(root, flat_tensor::kNamedData, [&](size_t entry) { walk_named(entry); });
  }

  void walk_segments(size_t table, unsigned id) {
    using namespace penlight::schema;
    tables(table, id, [&](size_t where) {
      number(where, segment::kOffset, 8, Meaning::Bytes);
      number(where, segment::kSize, 8, Meaning::Bytes);
    });
  }

  void walk_subsegments(size_t where) {
    using namespace penlight::schema;
    number(where, subsegments::kSegment, 4, Meaning::Index);
    numbers(where, subsegments::kOffsets, 8, Meaning::Bytes);
  }

  void walk_named(size_t entry) {
    using namespace penlight::schema;
    text(entry, named::kKey);
    number(entry, named::kSegment, 4, Meaning::Index);
    const size_t layout = child(entry, named::kLayout);
    number(layout, tensor_layout::kScalarType, 1, Meaning::Dtype);
    numbers(layout, tensor_layout::kSizes, 4, Meaning::Size);
    numbers(layout, tensor_layout::kDimOrder, 1, Meaning::Order);
  }

  void walk_plan(size_t plan) {
    using namespace penlight::schema;
    text(plan, plan::kName);
    const size_t structure = child(plan, plan::kContainer);
    text(structure, container::kInputs);
    text(structure, container::kOutputs);
    tables(plan, plan::kValues, [&](size_t entry) { walk_value(entry); });
    numbers(plan, plan::kInputs, 4, Meaning::Slot);
    numbers(plan, plan::kOutputs, 4, Meaning::Slot);
    tables(plan, plan::kChains, [&](size_t chain) {
      tables(chain, chain::kInstructions, [&](size_t entry) { walk_instruction(entry); });
    });
    tables(plan, plan::kOperators, [&](size_t entry) {
      text(entry, op::kName);
      text(entry, op::kOverload);
    });
    tables(plan, plan::kDelegates, [&](size_t entry) {
      text(entry, delegate::kId);
      const size_t where = child(entry, delegate::kProcessed);
      number(where, reference::kLocation, 1, Meaning::Flag);
      number(where, reference::kIndex, 4, Meaning::Index);
      tables(entry, delegate::kSpecs, [&](size_t one) {
        text(one, spec::kKey);
        numbers(one, spec::kValue, 1, Meaning::Letter, 8);
      });
    });
    numbers(plan, plan::kArenaSizes, 8, Meaning::Bytes);
  }

  void walk_value(size_t entry) {
    using namespace penlight::schema;
    number(entry, value::kType, 1, Meaning::Kind);
    const uint8_t type = place(entry, value::kType) ? read<uint8_t>(place(entry, value::kType)) : 0;
    const size_t content = child(entry, value::kContent);
    if (type == value::Tensor) return walk_tensor(content);
    if (type == value::Int || type == value::Double) number(content, 0, 8, Meaning::Number);
    if (type == value::Bool) number(content, 0, 1, Meaning::Flag);
    if (type == value::String) text(content, 0);
    if (type == value::IntList) numbers(content, 0, 8, Meaning::Slot);
    if (type == value::DoubleList) numbers(content, 0, 8, Meaning::Number);
    if (type == value::BoolList) numbers(content, 0, 1, Meaning::Flag);
    if (type == value::TensorList || type == value::OptionalTensorList) numbers(content, 0, 4, Meaning::Slot);
  }

  void walk_tensor(size_t content) {
    using namespace penlight::schema;
    number(content, tensor::kScalarType, 1, Meaning::Dtype);
    number(content, tensor::kStorageOffset, 4, Meaning::Size);
    numbers(content, tensor::kSizes, 4, Meaning::Size);
    numbers(content, tensor::kDimOrder, 1, Meaning::Order);
    number(content, tensor::kDataIndex, 4, Meaning::Index);
    number(content, tensor::kLayout, 1, Meaning::Flag);
    number(content, tensor::kDynamism, 1, Meaning::Flag);
    const size_t where = child(content, tensor::kAllocation);
    number(where, allocation::kMemoryId, 4, Meaning::Region);
    number(where, allocation::kOffsetLow, 4, Meaning::Bytes);
    number(where, allocation::kOffsetHigh, 4, Meaning::Bytes);
    const size_t more = child(content, tensor::kExtra);
    text(more, extra::kName);
    number(more, extra::kLocation, 1, Meaning::Flag);
  }

  void walk_instruction(size_t entry) {
    using namespace penlight::schema;
    number(entry, instruction::kType, 1, Meaning::Kind);
    const size_t kind = place(entry, instruction::kType);
    const uint8_t type = kind ? read<uint8_t>(kind) : 0;
    const size_t content = child(entry, instruction::kContent);
    const bool calls = type == instruction::Kernel || type == instruction::Delegate;
    number(content, call::kIndex, 4, calls ? Meaning::Index : Meaning::Slot);
    if (calls) {
      numbers(content, call::kArgs, 4, Meaning::Slot);
    } else {
      number(content, call::kTo, 4, type == instruction::JumpFalse ? Meaning::Target : Meaning::Slot);
    }
  }

  const uint8_t* bytes_;
  size_t size_;
  Field* fields_ = nullptr;
  size_t count_ = 0, room_ = 0;
};

// Changes one field, or up to four, to what its meaning makes dangerous.
inline void mutate_fields(uint8_t* bytes, size_t size, const Anatomy& anatomy, uint64_t number) {
  Random random(~number);
  if (anatomy.count() == 0) return;
  const size_t hits = random.below(3) ? 1 : 1 + random.below(4);
  for (size_t hit = 0; hit < hits; ++hit) {
    const Field& field = anatomy[random.below(anatomy.count())];
    if (field.at + size_t{field.width} > size) continue;
    uint64_t old = 0;  // unsigned: what is changed may overflow
    memcpy(&old, bytes + field.at, field.width);
    uint64_t value = old;
    switch (random.below(6)) {
      case 0:  // a neighbour
        value = random.below(2) ? old + 1 + random.below(4) : old - 1 - random.below(4);
        break;
      case 1: {  // an end of the range
        static const int64_t kEnds[] = {0,         1,         -1,      INT32_MAX, INT32_MIN,
                                        INT64_MAX, INT64_MIN, 1 << 16, 1 << 30};
        value = static_cast<uint64_t>(kEnds[random.below(sizeof kEnds / sizeof kEnds[0])]);
        break;
      }
      case 2:  // a multiple or a part, so that sizes and places still look possible
        value = random.below(2) ? old * (2 + random.below(8)) : old / 2;
        break;
      case 3:  // any small number: other kinds, dtypes, slots, targets
        value = random.below(field.meaning == Meaning::Slot ? 64 : 32);
        break;
      default:  // what another field of the same meaning says
        for (int attempt = 0; attempt < 32; ++attempt) {
          const Field& other = anatomy[random.below(anatomy.count())];
          if (other.meaning != field.meaning || other.at + size_t{other.width} > size) continue;
          value = 0;
          memcpy(&value, bytes + other.at, other.width < field.width ? other.width : field.width);
          // Offsets count from where they are: the same table, seen from here.
          if (field.meaning == Meaning::Offset) value += uint64_t{other.at} - uint64_t{field.at};
          break;
        }
        break;
    }
    memcpy(bytes + field.at, &value, field.width);
  }
}

}  // namespace penlight_hostile
