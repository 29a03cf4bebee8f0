#include "torch_call.h"

#include <string.h>

#include "linked_libraries.h"
#include "torch_tensors.h"

namespace penlight::hosted {

namespace {

class Call : public CallTensors {
 public:
  Call(const Slot& slot, ScratchSource scratch, Message* message)
      : CallTensors(scratch, message), slot_(slot) {}

  void run(StableValue* stack, uint64_t argument_count, uint64_t result_count);

 private:
  Value read(StableValue given, char letter, bool written = false);
  Value read_number(StableValue given, char letter, NumberKind kind);
  template <class T, class Read>
  ListStorage<T>* read_list(StableValue given, Read read);
  void read_arguments(const StableValue* stack, Value* values);
  void check_dtypes();
  bool expect(Value* const* args);
  bool make_results(const StableValue* given, Value* values);
  ScalarType dtype_of_result(size_t index, const Value* arguments) const;
  void call_kernel(Value** args);
  bool is_as_expected(const Value* results) const;
  void give(StableValue* stack, const Value* values, uint64_t count);

  const Slot& slot_;
  ExpectedResults expected_;
  bool expects_ = false;
};

template <class T, class Read>
ListStorage<T>* Call::read_list(StableValue given, Read read) {
  const TorchList list = reinterpret_cast<TorchList>(given);
  ListStorage<T>* made = memory_.take<ListStorage<T>>(1);
  *made = {0, nullptr, nullptr};
  size_t size = 0;
  if (succeeded(torch.list_size(list, &size), "a list cannot be read")) {
    made->items = memory_.take<T>(size + 1);
    for (size_t i = 0; i < size; ++i) {
      StableValue item = 0;
      if (!succeeded(torch.list_item(list, i, &item), "a list cannot be read")) break;
      made->items[made->size++] = read(item);
    }
  }
  torch.delete_list(list);
  return made;
}

double as_double(StableValue given) {
  double value;
  memcpy(&value, &given, sizeof value);
  return value;
}

// A Scalar, whose bits come as an int.
Value Call::read_number(StableValue given, char letter, NumberKind kind) {
  Value value = read(given, letter == 's' ? 'i' : 'I');
  if (value.is_none() || kind == NumberKind::Int) return value;
  const uint64_t bits = static_cast<uint64_t>(value.as_int);
  if (kind == NumberKind::Bool) {
    value.as_bool = (bits & 0xff) != 0;
    value.tag = Tag::Bool;
  } else {
    value.as_double = as_double(bits);
    value.tag = Tag::Double;
  }
  return value;
}

Value Call::read(StableValue given, char letter, bool written) {
  Value value;
  if (letter >= 'a' && letter <= 'z') {
    if (given == 0) return value;
    StableValue* inner = reinterpret_cast<StableValue*>(given);
    value = read(*inner, static_cast<char>(letter - 'a' + 'A'), written);
    torch.delete_value(inner);
    return value;
  }
  switch (letter) {
    case 'T':
    case 'O':
      value.as_tensor = read_tensor(reinterpret_cast<TorchTensor>(given), letter == 'O');
      value.tag = Tag::Tensor;
      break;
    case 'L':
      value.as_tensor_list = read_list<Tensor>(
          given, [&](StableValue item) { return read_tensor(reinterpret_cast<TorchTensor>(item), written); });
      value.tag = Tag::TensorList;
      break;
    case 'Q':
      value.as_optional_tensor_list = read_list<Optional<Tensor>>(given, [&](StableValue item) {
        const Value inner = read(item, 't');
        return inner.is_none() ? Optional<Tensor>() : Optional<Tensor>(inner.as_tensor);
      });
      value.tag = Tag::OptionalTensorList;
      break;
    case 'F':
      value.as_double = as_double(given);
      value.tag = Tag::Double;
      break;
    case 'B':
      value.as_bool = (given & 0xff) != 0;
      value.tag = Tag::Bool;
      break;
    case 'J':
      value.as_int_list =
          read_list<int64_t>(given, [](StableValue item) { return static_cast<int64_t>(item); });
      value.tag = Tag::IntList;
      break;
    case 'D':
      value.as_double_list = read_list<double>(given, as_double);
      value.tag = Tag::DoubleList;
      break;
    case 'C':
      value.as_bool_list = read_list<bool>(given, [](StableValue item) { return (item & 0xff) != 0; });
      value.tag = Tag::BoolList;
      break;
    case 'Z': {
      const TorchString string = reinterpret_cast<TorchString>(given);
      size_t size = 0;
      const char* data = nullptr;
      StringView* text = memory_.take<StringView>(1);
      *text = StringView();
      if (succeeded(torch.string_length(string, &size) | torch.string_data(string, &data),
                    "a string cannot be read")) {
        char* copy = memory_.take<char>(size + 1);
        memcpy(copy, data, size);
        copy[size] = '\0';
        *text = StringView(copy, size);
      }
      torch.delete_string(string);
      value.as_string = text;
      value.tag = Tag::String;
      break;
    }
    case 'E':
    case 'Y':
    case 'M':
      value.as_int = static_cast<int32_t>(given & 0xffffffffu);
      value.tag = Tag::Int;
      break;
    case 'G':
      break;
    default:
      value.as_int = static_cast<int64_t>(given);
      value.tag = Tag::Int;
  }
  return value;
}

void Call::read_arguments(const StableValue* stack, Value* values) {
  for (size_t i = 0; i < slot_.own(); ++i) {
    const char letter = slot_.letters[i];
    values[i] = letter == 'S' || letter == 's' ? read_number(stack[i], letter, prepared_call().numbers[i])
                                               : read(stack[i], letter, slot_.changed_lists >> i & 1);
  }
}

// Of the arguments, whose operands were made first.
void Call::check_dtypes() {
  for (const Operand* operand = operands_; ok() && operand; operand = operand->next) {
    if (operand->allocated || slot_.allowed >> static_cast<unsigned>(operand->impl.dtype) & 1) continue;
    fail(Status::NotSupported, "it does not take {}", dtype_name(operand->impl.dtype));
  }
}

// Of the first tensor, or what an argument says: the dtype of its (first) tensor, or one that it is.
ScalarType Call::dtype_of_result(size_t index, const Value* arguments) const {
  const int32_t code = slot_.dtypes[index];
  if (code >= 0) return static_cast<ScalarType>(code);
  if (code < -1) {
    const Value& value = arguments[-2 - code];
    if (value.tag == Tag::Int) return static_cast<ScalarType>(value.as_int);
    if (value.tag == Tag::Tensor) return value.as_tensor.scalar_type();
    if (value.tag == Tag::TensorList && value.as_tensor_list->size) {
      return value.as_tensor_list->items[0].scalar_type();
    }
    for (size_t i = 0; value.tag == Tag::OptionalTensorList && i < value.as_optional_tensor_list->size; ++i) {
      const Optional<Tensor>& item = value.as_optional_tensor_list->items[i];
      if (item) return item->scalar_type();
    }
  }
  return first_ ? first_->impl.dtype : ScalarType::Float;
}

// What results should be like, as far as that is known. False when the arguments cannot be.
bool Call::expect(Value* const* args) {
  if (slot_.faked) {
    const Prepared& call = prepared_call();
    expects_ = expected_.resize(call.result_count);
    if (expects_) memcpy(expected_.data(), call.results, expected_.size() * sizeof(int64_t));
    return expects_;
  }
  expects_ = static_cast<bool>(slot_.rule);
  return !expects_ || slot_.rule.apply(args, slot_.results, expected_);
}

// `given` are those of the out form, or null. False for a list of them that is too short or too long.
bool Call::make_results(const StableValue* given, Value* values) {
  // With a rule a single tensor is left to the kernel, which has to say its sizes in any case.
  const bool ahead = expects_ && (slot_.faked || slot_.gives_list());
  const int64_t* next = expected_.begin();
  const auto make_next = [&](size_t i, TorchTensor target) {
    if (!ok()) return make_result(ScalarType::Float, target, nullptr);  // which keeps what was given
    const int64_t dtype = expects_ ? next[0] : kDtypeOfSlot;
    const int64_t* const expected = ahead ? next + 1 : nullptr;
    if (expects_) next += 2 + (next[1] > 0 ? next[1] : 0);
    return make_result(dtype == kDtypeOfSlot ? dtype_of_result(i, values) : static_cast<ScalarType>(dtype),
                       target, expected);
  };
  bool right_count = true;
  for (size_t i = 0; i < slot_.results; ++i) {
    Value& value = values[slot_.own() + i];
    const int64_t listed = ok() && expects_ ? *next++ : kNoList;
    if (!slot_.gives_list()) {
      value.as_tensor = make_next(i, given ? reinterpret_cast<TorchTensor>(given[i]) : nullptr);
      value.tag = Tag::Tensor;
      continue;
    }
    size_t count = listed > 0 ? static_cast<size_t>(listed) : 0;
    const TorchList list = given ? reinterpret_cast<TorchList>(given[i]) : nullptr;
    size_t size = count;
    if (list && succeeded(torch.list_size(list, &size), "a list cannot be read") && ok() && size != count) {
      right_count = false;
      fail(Status::InvalidArgument, "its result should have {} tensors, and is given {}", count, size);
    }
    ListStorage<Tensor>* made = memory_.take<ListStorage<Tensor>>(1);
    *made = {0, memory_.take<Tensor>(size + 1), nullptr};
    for (size_t k = 0; k < size; ++k) {
      StableValue item = 0;
      if (list) succeeded(torch.list_item(list, k, &item), "a list cannot be read");
      made->items[made->size++] = make_next(i, reinterpret_cast<TorchTensor>(item));
    }
    if (list) torch.delete_list(list);
    value.as_tensor_list = made;
    value.tag = Tag::TensorList;
  }
  return right_count;
}

void Call::call_kernel(Value** args) {
  const Kernel& kernel = slot_.library->kernels[slot_.index];
  kernel.call(*this, args);
  for (size_t i = 0; status() == Status::Declined; ++i) {
    const KernelLibrary* library = library_at(i);
    if (!library) {
      reset();
      return fail(Status::NotSupported, "no kernel takes tensors of these dtypes");
    }
    for (size_t k = 0; k < library->count && status() == Status::Declined; ++k) {
      const Kernel& other = library->kernels[k];
      if (other.call == kernel.call || strcmp(other.name, slot_.kernel_name) != 0) continue;
      reset();
      other.call(*this, args);
    }
  }
}

// Did the kernel make what was expected?
bool Call::is_as_expected(const Value* results) const {
  const int64_t* next = expected_.begin();
  const auto same = [&](const Tensor& made) {
    ++next;
    const int64_t dim = *next++;
    if (dim == kKernelSays) return true;
    const int64_t* sizes = next;
    next += dim;
    if (made.dim() != dim) return false;
    for (dim_t d = 0; d < made.dim(); ++d) {
      if (made.size(d) != sizes[d]) return false;
    }
    return true;
  };
  for (size_t i = 0; i < slot_.results; ++i) {
    const Value& value = results[i];
    const bool listed = *next++ != kNoList;
    const size_t count = listed ? value.as_tensor_list->size : 1;
    for (size_t k = 0; k < count; ++k) {
      if (!same(listed ? value.as_tensor_list->items[k] : value.as_tensor)) return false;
    }
  }
  return true;
}

// Results are the last tensors that are written to, in their order.
void Call::give(StableValue* stack, const Value* values, uint64_t count) {
  if (count == 1 && slot_.gives_list()) {
    const ListStorage<Tensor>& made = *values[slot_.own()].as_tensor_list;
    TorchList list = nullptr;
    if (!succeeded(torch.new_list(made.size, &list), "a result cannot be returned")) return;
    for (size_t k = 0; ok() && k < made.size; ++k) {
      const TorchTensor tensor = result_of(made.items[k]);
      if (ok())
        succeeded(torch.list_push(list, reinterpret_cast<StableValue>(tensor)),
                  "a result cannot be returned");
    }
    stack[0] = reinterpret_cast<StableValue>(list);
    return;
  }
  const Tensor* written[kMaxResults] = {};
  size_t found = count;
  for (size_t i = slot_.count; found > 0 && i-- > 0;) {
    if (slot_.letters[i] == 'O') written[--found] = &values[i].as_tensor;
  }
  for (size_t i = 0; ok() && i < count; ++i) {
    if (!written[i]) return fail(Status::Internal, "the operator returns what its kernel does not write");
    stack[i] = reinterpret_cast<StableValue>(result_of(*written[i]));
  }
}

void Call::run(StableValue* stack, uint64_t argument_count, uint64_t result_count) {
  Value* values = memory_.take<Value>(slot_.count + 1);
  Value** args = memory_.take<Value*>(slot_.count + 1);
  for (size_t i = 0; i < slot_.count; ++i) {
    args[i] = &values[i];
    values[i] = Value();
  }
  const size_t own = slot_.own();
  read_arguments(stack, values);
  const StableValue* given = argument_count > own && slot_.results ? stack + own : nullptr;
  if (slot_.prepared) {
    if (ok() && !prepared_call().ready) {
      fail(Status::InvalidState, "this is what stands behind another operator, which calls it");
    }
    prepared_call().ready = false;
  }
  if (ok() && slot_.allowed) {
    check_dtypes();
    if (!ok()) describe(slot_, args);
  }
  if (ok() && !expect(args)) {
    fail(Status::InvalidArgument, "sizes do not fit the shape rule");
    describe(slot_, args);
  }
  if (!make_results(given, values)) describe(slot_, args, &expected_);
  if (ok()) call_kernel(args);
  finish_copies();
  if (ok() && expects_ && !is_as_expected(values + own)) {
    fail(Status::Internal, "the {} and the kernel disagree", slot_.faked ? "fake function" : "shape rule");
    describe(slot_, args, &expected_);
  }
  finish_targets();
  if (ok()) give(stack, values, result_count);
}

}  // namespace

__attribute__((noinline)) Status serve(const Slot& slot, StableValue* stack, uint64_t arguments,
                                       uint64_t results, Message& message) {
  HeapScratch scratch;
  Call call(slot, scratch.source(), &message);
  call.run(stack, arguments, results);
  return call.status();
}

}  // namespace penlight::hosted
