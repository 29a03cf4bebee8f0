#include "torch_tensors.h"

#include "heap.h"
#include "shape_rule.h"

namespace penlight::hosted {

namespace {

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

// Whether torch lets a tensor of the second dtype hold what was calculated in the first.
bool can_hold(ScalarType from, ScalarType to) {
  const auto kind = [](ScalarType dtype) {
    return is_complex(dtype) ? 3 : is_floating(dtype) ? 2 : dtype == ScalarType::Bool ? 0 : 1;
  };
  return kind(from) <= kind(to);
}

}  // namespace

void CallTensors::view(Operand& operand, TorchTensor tensor) {
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

Tensor CallTensors::read_tensor(TorchTensor given, bool written) {
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

// A result without memory yet, of sizes that equal no others; with memory when it is known what is
// expected.
Tensor CallTensors::make_result(ScalarType wanted, TorchTensor target, const int64_t* expected) {
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
  impl.data = unsized_memory();
  impl.dtype = wanted;
  impl.dynamism = Dynamism::Unbounded;
  const Tensor made(&impl);
  int32_t dtype = 0;
  const size_t index = made_++;
  if (ok() && target && succeeded(torch.dtype(target, &dtype), "a tensor cannot be read") &&
      !can_hold(impl.dtype, static_cast<ScalarType>(dtype))) {
    fail(Status::InvalidArgument, "result {} is {}, and the tensor given for it cannot hold that: it is {}",
         index, dtype_name(impl.dtype), dtype_name(static_cast<ScalarType>(dtype)));
  }
  if (!ok() || !expected || *expected == kKernelSays) return made;
  const size_t dim = static_cast<size_t>(*expected);
  dim_t sizes[kMaxDim];
  if (dim > kMaxDim) {
    fail(Status::InvalidArgument, "a tensor of {} dimensions is not possible", dim);
    return made;
  }
  for (size_t d = 0; d < dim; ++d) sizes[d] = static_cast<dim_t>(expected[1 + d]);
  target ? prepare_target(operand, {sizes, dim}) : allocate(operand, {sizes, dim});
  return made;
}

bool CallTensors::allocate(Operand& operand, SizesRef sizes) {
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
bool CallTensors::resize_given(Operand& operand, TorchTensor tensor, SizesRef sizes) {
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
bool CallTensors::prepare_target(Operand& operand, SizesRef sizes) {
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
void CallTensors::write_target(Operand& operand) {
  Operand seen = operand;
  view(seen, operand.target);
  const SizesRef sizes(operand.impl.sizes, operand.impl.dim);
  if (!SizesRef(seen.impl.sizes, seen.impl.dim).equals(sizes) && !resize_given(seen, operand.target, sizes)) {
    return;
  }
  succeeded(torch.copy(operand.target, operand.given, 0), "a result cannot be copied");
}

bool CallTensors::resize_operand(KernelContext& context, Tensor& out, SizesRef sizes) {
  CallTensors& self = static_cast<CallTensors&>(context);
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
  if (operand->allocated && operand->given &&
      SizesRef(operand->impl.sizes, operand->impl.dim).equals(sizes)) {
    return true;
  }
  // `sizes` may be those of a tensor that is about to change.
  dim_t kept[kMaxDim];
  for (size_t d = 0; d < sizes.size(); ++d) kept[d] = sizes[d];
  const SizesRef wanted(kept, sizes.size());
  if (operand->target) return self.prepare_target(*operand, wanted);
  return operand->allocated ? self.allocate(*operand, wanted)
                            : self.resize_given(*operand, operand->given, wanted);
}

CallTensors::~CallTensors() {
  for (Operand* operand = operands_; operand; operand = operand->next) {
    if (operand->dense) torch.delete_tensor(operand->dense);
    if (operand->given) torch.delete_tensor(operand->given);
    if (operand->target) torch.delete_tensor(operand->target);
  }
  reset();
}

void CallTensors::finish_copies() {
  for (Operand* operand = operands_; ok() && operand; operand = operand->next) {
    if (operand->allocated && !operand->given && !operand->direct) {
      fail(Status::KernelFailed, "the kernel gave a result no sizes: ctx.resize(out, sizes) comes first");
    } else if (operand->written && operand->dense) {
      succeeded(torch.copy(operand->given, operand->dense, 0), "a result cannot be copied back");
    }
  }
}

void CallTensors::finish_targets() {
  for (Operand* operand = operands_; ok() && operand; operand = operand->next) {
    if (operand->target && !operand->direct) write_target(*operand);
  }
}

TorchTensor CallTensors::result_of(const Tensor& tensor) {
  TorchTensor result = nullptr;
  Operand* operand = operands_;
  while (&operand->impl != tensor.unsafeGetTensorImpl()) operand = operand->next;
  if (operand->allocated && !operand->target) {
    result = operand->given;
    operand->given = nullptr;
    return result;
  }
  succeeded(torch.new_handle(operand->result(), &result), "a result cannot be returned");
  return result;
}

}  // namespace penlight::hosted
