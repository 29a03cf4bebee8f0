#include <penlight/value.h>

namespace penlight {

const char* tag_name(Tag tag) {
  constexpr const char* kNames[] = {"None",  "int",     "bool",   "float",    "Tensor",   "str",
                                    "int[]", "float[]", "bool[]", "Tensor[]", "Tensor?[]"};
  const uint32_t number = static_cast<uint32_t>(tag);
  return number < sizeof kNames / sizeof kNames[0] ? kNames[number] : "?";
}

ArrayRef<int64_t> Value::to_int_list() const {
  ListStorage<int64_t>& list = *as_int_list;
  if (list.slots) {
    for (size_t i = 0; i < list.size; ++i) list.items[i] = list.slots[i]->to_int();
  }
  return {list.items, list.size};
}

TensorList Value::to_tensor_list() const {
  ListStorage<Tensor>& list = *as_tensor_list;
  if (list.slots) {
    for (size_t i = 0; i < list.size; ++i) list.items[i] = list.slots[i]->as_tensor;
  }
  return {list.items, list.size};
}

ArrayRef<Optional<Tensor>> Value::to_optional_tensor_list() const {
  ListStorage<Optional<Tensor>>& list = *as_optional_tensor_list;
  if (list.slots) {
    for (size_t i = 0; i < list.size; ++i) {
      const Value* slot = list.slots[i];
      list.items[i] = slot && !slot->is_none() ? Optional<Tensor>(slot->as_tensor) : nullopt;
    }
  }
  return {list.items, list.size};
}

}  // namespace penlight
