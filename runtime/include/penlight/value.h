// Value: one slot of a method, a number, a string, a tensor or a list of them.
//
// Lists of ints and tensors name other slots, since their items can be computed
// at run time (a symbolic size, a tensor moved by control flow); they are read
// into `items` each time a kernel asks, unless every item is constant.
#pragma once

#include <penlight/array_ref.h>
#include <penlight/optional.h>
#include <penlight/scalar.h>
#include <penlight/tensor.h>
#include <stddef.h>
#include <stdint.h>

namespace penlight {

struct Value;

enum class Tag : uint32_t {
  None = 0,
  Int = 1,
  Bool = 2,
  Double = 3,
  Tensor = 4,
  String = 5,
  IntList = 6,
  DoubleList = 7,
  BoolList = 8,
  TensorList = 9,
  OptionalTensorList = 10,
};

const char* tag_name(Tag tag);

// A list of T. `slots` is null when `items` never changes.
template <class T>
struct ListStorage {
  size_t size;
  T* items;
  Value** slots;
};

struct Value {
  union {
    int64_t as_int;
    double as_double;
    bool as_bool;
    Tensor as_tensor;
    const StringView* as_string;
    ListStorage<int64_t>* as_int_list;
    ListStorage<double>* as_double_list;
    ListStorage<bool>* as_bool_list;
    ListStorage<Tensor>* as_tensor_list;
    ListStorage<Optional<Tensor>>* as_optional_tensor_list;
  };
  Tag tag;

  Value() : as_int(0), tag(Tag::None) {}

  bool is_none() const { return tag == Tag::None; }
  bool is_number() const { return tag == Tag::Int || tag == Tag::Double || tag == Tag::Bool; }

  int64_t to_int() const { return tag == Tag::Bool ? as_bool : as_int; }
  double to_double() const { return tag == Tag::Double ? as_double : static_cast<double>(to_int()); }
  bool to_bool() const { return tag == Tag::Bool ? as_bool : as_int != 0; }
  Scalar to_scalar() const {
    return tag == Tag::Double ? Scalar(as_double) : tag == Tag::Bool ? Scalar(as_bool) : Scalar(as_int);
  }

  ArrayRef<int64_t> to_int_list() const;
  ArrayRef<double> to_double_list() const { return {as_double_list->items, as_double_list->size}; }
  ArrayRef<bool> to_bool_list() const { return {as_bool_list->items, as_bool_list->size}; }
  TensorList to_tensor_list() const;
  ArrayRef<Optional<Tensor>> to_optional_tensor_list() const;
};

}  // namespace penlight
