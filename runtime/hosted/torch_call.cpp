#include "torch_call.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "linked_libraries.h"

namespace penlight::hosted {

thread_local Failure failure = {};

namespace {

// Memory for one call: a piece of the stack, then the heap.
class CallMemory {
 public:
  CallMemory() {}
  ~CallMemory() {
    while (blocks_) {
      Block* next = blocks_->next;
      free(blocks_);
      blocks_ = next;
    }
  }
  template <class T>
  T* take(size_t count) {
    const size_t bytes = (count * sizeof(T) + 15) & ~size_t{15};
    if (bytes <= sizeof first_ - used_) {
      T* given = reinterpret_cast<T*>(first_ + used_);
      used_ += bytes;
      return given;
    }
    Block* block = static_cast<Block*>(malloc(sizeof(Block) + bytes));
    if (!block) abort();
    block->next = blocks_;
    blocks_ = block;
    return reinterpret_cast<T*>(block + 1);
  }

 private:
  struct alignas(16) Block {
    Block* next;
  };
  alignas(16) char first_[6144];
  size_t used_ = 0;
  Block* blocks_ = nullptr;
};

// A tensor of the call: what torch gave, and what the kernel sees.
struct Operand {
  TensorImpl impl;
  TorchTensor given;  // null for a result that is not allocated yet
  TorchTensor dense;  // a copy without gaps, when `given` has some
  bool written;
  bool allocated;      // here
  TorchTensor target;  // of the out form, for a result
  bool direct;         // the kernel writes to the target itself
  Operand* next;

  TorchTensor result() const { return target ? target : given; }
};

constexpr struct IdentityOrder {
  uint8_t dims[kMaxDim];
  constexpr IdentityOrder() : dims() {
    for (int d = 0; d < kMaxDim; ++d) dims[d] = static_cast<uint8_t>(d);
  }
} kRowMajor;

void row_major_strides(SizesRef sizes, int64_t* strides) {
  int64_t stride = 1;
  for (size_t d = sizes.size(); d-- > 0;) {
    strides[d] = stride;
    stride *= sizes[d] > 1 ? sizes[d] : 1;
  }
}

class Call : public KernelContext {
 public:
  Call(const Slot& slot, ScratchSource scratch, Message* message)
      : KernelContext(scratch, message, &Call::resize_operand), slot_(slot) {}
  ~Call() { release(); }

  void run(StableValue* stack, uint64_t argument_count, uint64_t result_count);

 private:
  static bool resize_operand(KernelContext& context, Tensor& out, SizesRef sizes);
  bool allocate(Operand& operand, SizesRef sizes);
  bool resize_given(Operand& operand, TorchTensor tensor, SizesRef sizes);
  bool prepare_target(Operand& operand, SizesRef sizes);
  void write_target(Operand& operand);

  Value read(StableValue given, char letter);
  Tensor read_tensor(TorchTensor given, bool written);
  template <class T, class Read>
  ListStorage<T>* read_list(StableValue given, Read read);
  void view(Operand& operand, TorchTensor tensor);
  void make_result(size_t index, const Value* arguments, TorchTensor target);
  ScalarType dtype_of_result(size_t index, const Value* arguments) const;
  void check_dtypes();
  void call_kernel(Value** args);
  void release();
  void describe(Value* const* args);
  bool succeeded(int32_t status, const char* doing) {
    if (status) fail(Status::Internal, "{}: {}", doing, torch.last_error ? torch.last_error() : "?");
    return status == 0;
  }

  const Slot& slot_;
  CallMemory memory_;
  Operand* operands_ = nullptr;  // the newest first
  Operand* first_ = nullptr;     // the first tensor among the arguments
};

void Call::view(Operand& operand, TorchTensor tensor) {
  TensorImpl& impl = operand.impl;
  int64_t dim = 0, numel = 0;
  int64_t *sizes = nullptr, *strides = nullptr;
  int32_t dtype = 0;
  const int32_t failed = torch.dim(tensor, &dim) | torch.numel(tensor, &numel) | torch.sizes(tensor, &sizes) |
                         torch.strides(tensor, &strides) | torch.dtype(tensor, &dtype) |
                         torch.data_ptr(tensor, &impl.data);
  if (!succeeded(failed, "a tensor cannot be read")) return;
  if (dim > kMaxDim) return fail(Status::InvalidArgument, "a tensor of {} dimensions is not possible", dim);
  static_assert(sizeof(dim_t) == sizeof(int64_t), "torch's sizes are viewed as ours");
  impl.sizes = reinterpret_cast<dim_t*>(sizes);
  impl.strides = reinterpret_cast<dim_t*>(strides);
  impl.dim_order = const_cast<uint8_t*>(kRowMajor.dims);
  impl.numel = static_cast<dim_t>(numel);
  impl.dtype = static_cast<ScalarType>(dtype);
  impl.dim = static_cast<uint8_t>(dim);
  impl.capacity = static_cast<size_t>(numel) * element_size(impl.dtype);
  impl.dynamism = Dynamism::Unbounded;
}

Tensor Call::read_tensor(TorchTensor given, bool written) {
  Operand& operand = *memory_.take<Operand>(1);
  operand = {{}, given, nullptr, written, false, nullptr, false, operands_};
  operands_ = &operand;
  if (!first_) first_ = &operand;
  view(operand, given);
  bool dense = true;
  if (!ok() || !succeeded(torch.is_contiguous(given, &dense), "a tensor cannot be read"))
    return Tensor(&operand.impl);
  if (!dense) {
    int64_t strides[kMaxDim];
    int32_t type = 0, index = 0;
    const SizesRef sizes(operand.impl.sizes, operand.impl.dim);
    row_major_strides(sizes, strides);
    succeeded(
        torch.device_type(given, &type) | torch.device_index(given, &index) |
            torch.empty_strided(operand.impl.dim, reinterpret_cast<const int64_t*>(sizes.data()), strides,
                                static_cast<int32_t>(operand.impl.dtype), type, index, &operand.dense),
        "no memory for a dense copy");
    if (ok() && succeeded(torch.copy(operand.dense, given, 0), "a tensor cannot be copied")) {
      view(operand, operand.dense);
    }
  }
  return Tensor(&operand.impl);
}

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

Value Call::read(StableValue given, char letter) {
  Value value;
  if (letter >= 'a' && letter <= 'z') {
    if (given == 0) return value;
    StableValue* inner = reinterpret_cast<StableValue*>(given);
    value = read(*inner, static_cast<char>(letter - 'a' + 'A'));
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
          given, [&](StableValue item) { return read_tensor(reinterpret_cast<TorchTensor>(item), false); });
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

// Whether torch lets a tensor of the second dtype hold what was calculated in the first.
bool can_hold(ScalarType from, ScalarType to) {
  const auto kind = [](ScalarType dtype) {
    return is_complex(dtype) ? 3 : is_floating(dtype) ? 2 : dtype == ScalarType::Bool ? 0 : 1;
  };
  return kind(from) <= kind(to);
}

// A result without memory yet, of sizes that equal no others.
void Call::make_result(size_t index, const Value* arguments, TorchTensor target) {
  Operand& operand = *memory_.take<Operand>(1);
  operand = {{}, nullptr, nullptr, true, true, target, false, operands_};
  operands_ = &operand;
  TensorImpl& impl = operand.impl;
  impl.sizes = memory_.take<dim_t>(kMaxDim);
  impl.strides = memory_.take<dim_t>(kMaxDim);
  impl.dim_order = const_cast<uint8_t*>(kRowMajor.dims);
  impl.sizes[0] = -1;
  impl.strides[0] = 1;
  impl.dim = 1;
  impl.dtype = dtype_of_result(index, arguments);
  impl.dynamism = Dynamism::Unbounded;
  int32_t dtype = 0;
  if (!target || !succeeded(torch.dtype(target, &dtype), "a tensor cannot be read")) return;
  if (!can_hold(impl.dtype, static_cast<ScalarType>(dtype))) {
    fail(Status::InvalidArgument, "result {} is {}, and the tensor given for it cannot hold that: it is {}",
         index, dtype_name(impl.dtype), dtype_name(static_cast<ScalarType>(dtype)));
  }
}

bool Call::allocate(Operand& operand, SizesRef sizes) {
  int64_t strides[kMaxDim];
  int32_t type = torch.device_type_cpu(), index = 0;
  row_major_strides(sizes, strides);
  if (first_ &&
      !succeeded(torch.device_type(first_->given, &type) | torch.device_index(first_->given, &index),
                 "a tensor cannot be read")) {
    return false;
  }
  if (operand.given) torch.delete_tensor(operand.given);
  operand.given = nullptr;
  const int32_t status =
      torch.empty_strided(static_cast<int64_t>(sizes.size()), reinterpret_cast<const int64_t*>(sizes.data()),
                          strides, static_cast<int32_t>(operand.impl.dtype), type, index, &operand.given);
  if (!succeeded(status, "no memory for a result")) return false;
  view(operand, operand.given);
  return ok();
}

// resize_() of a tensor that torch gave for a result.
bool Call::resize_given(Operand& operand, TorchTensor tensor, SizesRef sizes) {
  TorchList list = nullptr;
  StableValue stack[3] = {0, 0, 0};
  TorchTensor reference = nullptr;
  int32_t status = torch.new_list(sizes.size(), &list);
  for (size_t d = 0; status == 0 && d < sizes.size(); ++d) {
    status = torch.list_push(list, static_cast<StableValue>(static_cast<int64_t>(sizes[d])));
  }
  if (status == 0) status = torch.new_handle(tensor, &reference);
  if (!succeeded(status, "a result cannot be resized")) return false;
  stack[0] = reinterpret_cast<StableValue>(reference);
  stack[1] = reinterpret_cast<StableValue>(list);
  if (!succeeded(torch.call("aten::resize_", "", stack, kTorchAbi), "a result cannot be resized"))
    return false;
  torch.delete_tensor(reinterpret_cast<TorchTensor>(stack[0]));
  if (operand.dense) torch.delete_tensor(operand.dense);
  operand.dense = nullptr;
  view(operand, tensor);
  return ok();
}

// The kernel writes to the tensor that was given for a result where that is as it should be,
// or empty; else to one of ours, as another argument may have the same memory.
bool Call::prepare_target(Operand& operand, SizesRef sizes) {
  const ScalarType wanted = operand.impl.dtype;
  bool dense = false;
  view(operand, operand.target);
  if (!ok() || !succeeded(torch.is_contiguous(operand.target, &dense), "a tensor cannot be read"))
    return false;
  const bool same_dtype = operand.impl.dtype == wanted;
  operand.direct = same_dtype && dense && SizesRef(operand.impl.sizes, operand.impl.dim).equals(sizes);
  if (operand.direct) return true;
  if (same_dtype && operand.impl.numel == 0) {
    operand.direct = true;
    return resize_given(operand, operand.target, sizes);
  }
  operand.impl.dtype = wanted;
  return allocate(operand, sizes);
}

// What the kernel wrote elsewhere, in the tensor that was given.
void Call::write_target(Operand& operand) {
  Operand seen = operand;
  view(seen, operand.target);
  const SizesRef sizes(operand.impl.sizes, operand.impl.dim);
  if (!SizesRef(seen.impl.sizes, seen.impl.dim).equals(sizes) && !resize_given(seen, operand.target, sizes)) {
    return;
  }
  succeeded(torch.copy(operand.target, operand.given, 0), "a result cannot be copied");
}

bool Call::resize_operand(KernelContext& context, Tensor& out, SizesRef sizes) {
  Call& self = static_cast<Call&>(context);
  if (!self.ok()) return false;
  for (size_t d = 0; d < sizes.size(); ++d) {
    if (sizes[d] >= 0) continue;
    self.fail(Status::InvalidArgument, "a result cannot have size {} in dimension {}", sizes[d], d);
    return false;
  }
  Operand* operand = self.operands_;
  while (operand && &operand->impl != out.unsafeGetTensorImpl()) operand = operand->next;
  if (!operand || !operand->written || sizes.size() > kMaxDim) {
    self.fail(Status::InvalidArgument, "a tensor that is no result cannot have other sizes");
    return false;
  }
  // `sizes` may be those of a tensor that is about to change.
  dim_t kept[kMaxDim];
  for (size_t d = 0; d < sizes.size(); ++d) kept[d] = sizes[d];
  const SizesRef wanted(kept, sizes.size());
  if (operand->target) return self.prepare_target(*operand, wanted);
  return operand->allocated ? self.allocate(*operand, wanted)
                            : self.resize_given(*operand, operand->given, wanted);
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

void Call::release() {
  for (Operand* operand = operands_; operand; operand = operand->next) {
    if (operand->dense) torch.delete_tensor(operand->dense);
    if (operand->given) torch.delete_tensor(operand->given);
    if (operand->target) torch.delete_tensor(operand->target);
  }
  reset();
}

// Of the arguments, whose operands were made first.
void Call::check_dtypes() {
  for (const Operand* operand = operands_; ok() && operand; operand = operand->next) {
    if (operand->allocated || slot_.allowed >> static_cast<unsigned>(operand->impl.dtype) & 1) continue;
    fail(Status::NotSupported, "it does not take {}", dtype_name(operand->impl.dtype));
  }
}

void Call::run(StableValue* stack, uint64_t argument_count, uint64_t result_count) {
  Value* values = memory_.take<Value>(slot_.count + 1);
  Value** args = memory_.take<Value*>(slot_.count + 1);
  const Operand* written[kMaxResults] = {};
  const size_t own = slot_.count - slot_.results;
  for (size_t i = 0; i < slot_.count; ++i) {
    args[i] = &values[i];
    if (i < own) {
      values[i] = read(stack[i], slot_.letters[i]);
    } else {
      make_result(i - own, values, i < argument_count ? reinterpret_cast<TorchTensor>(stack[i]) : nullptr);
      values[i] = Value();
      values[i].as_tensor = Tensor(&operands_->impl);
      values[i].tag = Tag::Tensor;
    }
  }
  if (ok() && slot_.allowed) {
    check_dtypes();
    if (!ok()) describe(args);
  }
  if (ok() && slot_.rule && !slot_.rule.fits(args, own, 0)) {
    fail(Status::InvalidArgument, "sizes do not fit the shape rule");
    describe(args);
  }
  if (ok()) call_kernel(args);
  for (Operand* operand = operands_; ok() && operand; operand = operand->next) {
    if (operand->allocated && !operand->given && !operand->direct) {
      fail(Status::KernelFailed, "the kernel gave a result no sizes: ctx.resize(out, sizes) comes first");
    } else if (operand->written && operand->dense) {
      succeeded(torch.copy(operand->given, operand->dense, 0), "a result cannot be copied back");
    }
  }
  if (ok() && slot_.rule && !slot_.rule.fits(args, own, slot_.results)) {
    fail(Status::Internal, "the shape rule and the kernel disagree");
    describe(args);
  }
  for (Operand* operand = operands_; ok() && operand; operand = operand->next) {
    if (operand->target && !operand->direct) write_target(*operand);
  }
  // Results are the last tensors that are written to, in their order.
  size_t found = result_count;
  for (size_t i = slot_.count; ok() && found > 0 && i-- > 0;) {
    if (slot_.letters[i] != 'O') continue;
    for (Operand* operand = operands_; operand; operand = operand->next) {
      if (&operand->impl == values[i].as_tensor.unsafeGetTensorImpl()) written[--found] = operand;
    }
  }
  for (size_t i = 0; ok() && i < result_count; ++i) {
    if (!written[i]) {
      fail(Status::Internal, "the operator returns what its kernel does not write");
      break;
    }
    TorchTensor result = nullptr;
    if (succeeded(torch.new_handle(written[i]->result(), &result), "a result cannot be returned")) {
      stack[i] = reinterpret_cast<StableValue>(result);
    }
  }
}

// The arguments for whoever raises the error, who writes its text from them.
void Call::describe(Value* const* args) {
  char* text = failure.arguments;
  char* const end = text + sizeof failure.arguments;
  const auto add = [&](const char* format, auto... values) {
    if (text >= end) return;
    text += snprintf(text, static_cast<size_t>(end - text), format, values...);
  };
  const auto add_tensor = [&](const Tensor& tensor) {
    add("t%d:", static_cast<int>(tensor.scalar_type()));
    for (dim_t d = 0; d < tensor.dim(); ++d)
      add(d ? ",%lld" : "%lld", static_cast<long long>(tensor.size(d)));
  };
  for (size_t i = 0; i < slot_.count; ++i) {
    const Value& value = *args[i];
    if (value.tag == Tag::Tensor) {
      add_tensor(value.as_tensor);
    } else if (value.tag == Tag::TensorList) {
      add("l");
      for (size_t k = 0; k < value.as_tensor_list->size; ++k) {
        if (k) add(";");
        add_tensor(value.as_tensor_list->items[k]);
      }
    } else if (value.tag == Tag::OptionalTensorList) {
      add("l");
      for (size_t k = 0; k < value.as_optional_tensor_list->size; ++k) {
        const Optional<Tensor>& item = value.as_optional_tensor_list->items[k];
        if (k) add(";");
        item ? add_tensor(*item) : add("n");
      }
    } else if (value.tag == Tag::Int || value.tag == Tag::Bool) {
      add(value.tag == Tag::Int ? "i%lld" : "b%lld", static_cast<long long>(value.to_int()));
    } else if (value.tag == Tag::IntList) {
      add("j");
      for (size_t k = 0; k < value.as_int_list->size; ++k) {
        add(k ? ",%lld" : "%lld", static_cast<long long>(value.as_int_list->items[k]));
      }
    } else {
      add("n");
    }
    add(" ");
  }
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
