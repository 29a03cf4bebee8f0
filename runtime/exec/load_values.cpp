// Values of a method: numbers, strings, tensors and where their bytes are, lists, initial state.
#include <string.h>

#include "exec/method_loader.h"
#include "program/plan.h"
#include "program/schema.h"

namespace penlight {

using flatbuffer::Table;
using flatbuffer::Vector;

Status MethodLoader::load_values() {
  const Vector list = plan_.vector(schema::plan::kValues, 4);
  if (!list.present) return fail(Status::InvalidProgram, "the method has no values");
  value_count_ = list.count;
  values_ = carve<Value>(list.count);
  if (!measuring_) {
    method_->values_ = values_;
    method_->value_count_ = list.count;
  }
  for (size_t i = 0; i < list.count; ++i) {
    const Table entry = plan_.element(list, i);
    const uint8_t type = entry.u8(schema::value::kType);
    const Table content = entry.table(schema::value::kContent);
    if (type > schema::value::OptionalTensorList || (type > schema::value::Null && !content.present())) {
      return damaged("value", i);
    }
    Value scalar;
    scalar.tag = plan_tag(type);
    switch (type) {
      case schema::value::Int:
        scalar.as_int = content.i64(0);
        break;
      case schema::value::Bool:
        scalar.as_int = content.u8(0) != 0;
        break;
      case schema::value::Double:
        scalar.as_double = content.f64(0);
        break;
      case schema::value::String: {
        StringView* text = carve<StringView>(1);
        size_t length = 0;
        const char* characters = content.string(0, &length);
        if (!characters) return damaged("string", i);
        if (text) *text = StringView(characters, length);
        scalar.as_string = text;
        break;
      }
      default:
        break;
    }
    if (!measuring_) values_[i] = scalar;
    if (type == schema::value::Tensor) {
      if (const Status status = load_tensor(i, content); status != Status::Ok) return status;
    }
  }
  return Status::Ok;
}

Status MethodLoader::load_tensor(size_t index, const Table& table) {
  TensorInfo info;
  TensorPlace place;
  if (const char* problem = read_tensor(table, info, place)) {
    return fail(Status::InvalidProgram, "tensor {} {}", index, problem);
  }
  TensorImpl* impl = carve<TensorImpl>(1);
  dim_t* sizes = carve<dim_t>(2 * info.dim);
  uint8_t* order = carve<uint8_t>(info.dim);
  const bool placed = place.memory_id != 0 || place.data_index != 0 || place.external;
  // A scalar without a place has one element all the same: keep room for it here.
  void* scalar = !placed && info.dim == 0 ? carve<uint64_t>(2) : nullptr;
  if (measuring_) return Status::Ok;

  *impl = TensorImpl{scalar,
                     sizes,
                     sizes + info.dim,
                     order,
                     0,
                     scalar ? 16u : 0u,
                     info.dtype,
                     static_cast<uint8_t>(info.dim),
                     info.dynamism,
                     0};
  for (uint32_t d = 0; d < info.dim; ++d) {
    sizes[d] = placed ? info.sizes[d] : 0;
    order[d] = info.dim_order[d];
  }
  if (!placed) impl->flags = kUnplacedTensor;
  refresh_layout(*impl);
  values_[index].as_tensor = Tensor(impl);
  return placed ? place_tensor(index, *impl, info, place) : Status::Ok;
}

// Finds the bytes of constant or initial value number `data_index`.
bool MethodLoader::constant_place(uint32_t table_field, uint32_t data_index, size_t bytes, uint64_t* offset) {
  using namespace schema;
  Table where;
  if (table_field == program::kConstantSegment) {
    where = root_.table(table_field);
  } else {
    where = root_.element(root_.vector(table_field, 4), 0);
  }
  const Vector offsets = where.vector(subsegments::kOffsets, 8);
  uint64_t start, size;
  if (data_index >= offsets.count || !program_.segment(where.u32(subsegments::kSegment), &start, &size))
    return false;
  const uint64_t inner = offsets.get<uint64_t>(data_index);
  if (inner > size || bytes > size - inner) return false;
  *offset = start + inner;
  return true;
}

Status MethodLoader::place_tensor(size_t index, TensorImpl& impl, const TensorInfo& info,
                                  const TensorPlace& place) {
  impl.capacity = info.nbytes;
  if (place.memory_id != 0) {
    const Vector sizes = plan_.vector(schema::plan::kArenaSizes, 8);
    const size_t arena = place.memory_id - 1;
    const uint64_t size =
        place.memory_id < sizes.count ? static_cast<uint64_t>(sizes.get<int64_t>(place.memory_id)) : 0;
    if (place.memory_id >= sizes.count || place.offset > size || info.nbytes > size - place.offset) {
      return fail(Status::InvalidProgram, "tensor {} ends at byte {}, memory region {} has {}", index,
                  place.offset + info.nbytes, place.memory_id, size);
    }
    if (place.offset % element_size(info.dtype) != 0) {
      return fail(Status::InvalidProgram, "tensor {} is planned at byte {}, which is not aligned", index,
                  place.offset);
    }
    impl.data = static_cast<uint8_t*>(memory_->arenas[arena].data) + place.offset;
  }
  if (place.external) return load_external(index, impl, info, place);
  if (place.memory_id != 0) return Status::Ok;  // load_state() copies an initial value

  uint64_t offset;
  if (!constant_place(schema::program::kConstantSegment, place.data_index, info.nbytes, &offset)) {
    return fail(Status::InvalidProgram, "constant tensor {} lies outside the file's data", index);
  }
  const void* data = program_.loader_->load(program_.loader_, offset, info.nbytes);
  if (!data)
    return fail(Status::AccessFailed, "constant tensor {} of {} bytes cannot be read", index, info.nbytes);
  if (reinterpret_cast<uintptr_t>(data) % element_size(info.dtype) != 0) {
    return fail(Status::InvalidProgram, "constant tensor {} is not aligned", index);
  }
  impl.data = const_cast<void*>(data);
  impl.flags = kConstantTensor;
  return Status::Ok;
}

Status MethodLoader::load_external(size_t index, TensorImpl& impl, const TensorInfo& info,
                                   const TensorPlace& place) {
  DataEntry entry;
  const char* name = info.name;
  if (!external_) return fail(Status::InvalidArgument, "tensor {} is external data; none was given", name);
  if (const Status status = external_->find(external_, name, entry); status != Status::Ok) {
    return fail(status, "tensor {} is not in the external data", name);
  }
  bool same = entry.size >= info.nbytes;
  if (entry.has_layout) {
    same = same && entry.dtype == info.dtype && entry.dim == info.dim &&
           memcmp(entry.sizes, info.sizes, info.dim * sizeof(int32_t)) == 0 &&
           entry.dim_order.equals({info.dim_order, info.dim});
  }
  if (!same || reinterpret_cast<uintptr_t>(entry.data) % element_size(info.dtype) != 0) {
    return fail(Status::InvalidArgument, "tensor {} has another dtype, shape or layout in the external data",
                name);
  }
  (void)index;
  if (place.memory_id != 0) {
    memcpy(impl.data, entry.data, info.nbytes);
  } else {
    impl.data = const_cast<void*>(entry.data);
    impl.flags = kConstantTensor;
  }
  return Status::Ok;
}

// Lists come second: they name slots whose tags must be known.
Status MethodLoader::load_lists() {
  const Vector list = plan_.vector(schema::plan::kValues, 4);
  for (size_t i = 0; i < list.count; ++i) {
    const Table entry = plan_.element(list, i);
    const uint8_t type = entry.u8(schema::value::kType);
    if (type < schema::value::IntList || type > schema::value::OptionalTensorList) continue;
    const size_t width = type == schema::value::BoolList                                       ? 1
                         : type == schema::value::IntList || type == schema::value::DoubleList ? 8
                                                                                               : 4;
    const Vector items = entry.table(schema::value::kContent).vector(0, width);
    const size_t count = items.count;
    if (type == schema::value::DoubleList) {
      ListStorage<double>* storage = carve<ListStorage<double>>(1);
      double* data = carve<double>(count);
      if (measuring_) continue;
      *storage = {count, data, nullptr};
      for (size_t k = 0; k < count; ++k) data[k] = items.get<double>(k);
      values_[i].as_double_list = storage;
      continue;
    }
    if (type == schema::value::BoolList) {
      ListStorage<bool>* storage = carve<ListStorage<bool>>(1);
      bool* data = carve<bool>(count);
      if (measuring_) continue;
      *storage = {count, data, nullptr};
      for (size_t k = 0; k < count; ++k) data[k] = items.get<uint8_t>(k) != 0;
      values_[i].as_bool_list = storage;
      continue;
    }

    Value** slots = carve<Value*>(count);
    void* storage = carve<ListStorage<int64_t>>(1);
    void* data = nullptr;
    if (type == schema::value::IntList) data = carve<int64_t>(count);
    if (type == schema::value::TensorList) data = carve<Tensor>(count);
    if (type == schema::value::OptionalTensorList) data = carve<Optional<Tensor>>(count);
    if (measuring_) continue;
    for (size_t k = 0; k < count; ++k) {
      const int64_t slot = type == schema::value::IntList ? items.get<int64_t>(k) : items.get<int32_t>(k);
      if (type == schema::value::OptionalTensorList && slot == -1) {
        slots[k] = nullptr;
        continue;
      }
      if (slot < 0 || static_cast<uint64_t>(slot) >= value_count_) return damaged("list", i);
      slots[k] = &values_[slot];
      const Tag tag = slots[k]->tag;
      const bool fits = type == schema::value::IntList      ? tag == Tag::Int || tag == Tag::Bool
                        : type == schema::value::TensorList ? tag == Tag::Tensor
                                                            : tag == Tag::Tensor || tag == Tag::None;
      if (!fits) {
        return fail(Status::InvalidProgram, "list {} has a {} where it cannot have one", i, tag_name(tag));
      }
    }
    if (type == schema::value::IntList) {
      values_[i].as_int_list = static_cast<ListStorage<int64_t>*>(storage);
      *values_[i].as_int_list = {count, static_cast<int64_t*>(data), slots};
    } else if (type == schema::value::TensorList) {
      values_[i].as_tensor_list = static_cast<ListStorage<Tensor>*>(storage);
      *values_[i].as_tensor_list = {count, static_cast<Tensor*>(data), slots};
    } else {
      values_[i].as_optional_tensor_list = static_cast<ListStorage<Optional<Tensor>>*>(storage);
      *values_[i].as_optional_tensor_list = {count, static_cast<Optional<Tensor>*>(data), slots};
    }
  }
  return Status::Ok;
}

Status MethodLoader::load_state() {
  using namespace schema;
  const Vector list = plan_.vector(plan::kValues, 4);
  size_t count = 0;
  // Two rounds: how many, then which.
  StateTensor* state = nullptr;
  for (int fill = 0; fill < 2; ++fill) {
    size_t next = 0;
    for (size_t i = 0; i < list.count; ++i) {
      const Table entry = plan_.element(list, i);
      if (entry.u8(value::kType) != value::Tensor) continue;
      TensorInfo info;
      TensorPlace place;
      if (read_tensor(entry.table(value::kContent), info, place) || !is_state(info, place)) continue;
      if (fill && !measuring_) {
        StateTensor& one = state[next];
        one = {info.name, values_[i].as_tensor, 0, place.data_index != 0};
        if (one.has_initial &&
            !constant_place(program::kMutableSegments, place.data_index, info.nbytes, &one.initial_offset)) {
          return fail(Status::InvalidProgram, "the initial value of tensor {} lies outside the file's data",
                      i);
        }
        if (!memory_->arenas[place.memory_id - 1].holds_state) {
          if (const Status status = method_->reset_state(next, message_); status != Status::Ok) return status;
        }
      }
      ++next;
    }
    if (!fill) {
      count = next;
      state = carve<StateTensor>(count);
      if (!measuring_) {
        method_->state_ = state;
        method_->state_count_ = count;
      }
    }
  }
  return Status::Ok;
}

}  // namespace penlight
