// The part of PyTorch's stable C interface that calls of kernels need.
//
// PyTorch promises these functions from version to version, so none of its headers is
// compiled and nothing is linked: they are looked up in the libtorch_cpu that the
// process has loaded.
#pragma once

#include <stddef.h>
#include <stdint.h>

namespace penlight::hosted {

// One argument or result on an operator's stack: a number, or a pointer to something
// that whoever takes it off the stack owns.
using StableValue = uint64_t;
using TorchTensor = struct TorchTensorObject*;
using TorchLibrary = struct TorchLibraryObject*;
using TorchList = struct TorchListObject*;
using TorchString = struct TorchStringObject*;
using TorchFunction = void (*)(StableValue* stack, uint64_t arguments, uint64_t results);

// Conversions as of this version are what we speak; later ones keep to it.
constexpr uint64_t kTorchAbi = (uint64_t{2} << 56) | (uint64_t{13} << 48);

// Name in TorchShim, name in the library, result and arguments. Statuses: 0 is ok.
#define PENLIGHT_TORCH_FUNCTIONS(X)                                                                     \
  X(check, aoti_torch_check, void, bool, const char*, const char*, uint32_t, const char*)               \
  X(library_init_impl, aoti_torch_library_init_impl, int32_t, const char*, const char*, const char*,    \
    uint32_t, TorchLibrary*)                                                                            \
  X(library_impl, torch_library_impl, int32_t, TorchLibrary, const char*, TorchFunction, uint64_t)      \
  X(delete_tensor, aoti_torch_delete_tensor_object, int32_t, TorchTensor)                               \
  X(data_ptr, aoti_torch_get_data_ptr, int32_t, TorchTensor, void**)                                    \
  X(dim, aoti_torch_get_dim, int32_t, TorchTensor, int64_t*)                                            \
  X(numel, aoti_torch_get_numel, int32_t, TorchTensor, int64_t*)                                        \
  X(sizes, aoti_torch_get_sizes, int32_t, TorchTensor, int64_t**)                                       \
  X(strides, aoti_torch_get_strides, int32_t, TorchTensor, int64_t**)                                   \
  X(dtype, aoti_torch_get_dtype, int32_t, TorchTensor, int32_t*)                                        \
  X(device_type, aoti_torch_get_device_type, int32_t, TorchTensor, int32_t*)                            \
  X(device_index, aoti_torch_get_device_index, int32_t, TorchTensor, int32_t*)                          \
  X(is_contiguous, aoti_torch_is_contiguous, int32_t, TorchTensor, bool*)                               \
  X(new_handle, aoti_torch_new_tensor_handle, int32_t, TorchTensor, TorchTensor*)                       \
  X(empty_strided, aoti_torch_empty_strided, int32_t, int64_t, const int64_t*, const int64_t*, int32_t, \
    int32_t, int32_t, TorchTensor*)                                                                     \
  X(copy, aoti_torch_copy_, int32_t, TorchTensor, TorchTensor, int32_t)                                 \
  X(call, torch_call_dispatcher, int32_t, const char*, const char*, StableValue*, uint64_t)             \
  X(device_type_cpu, aoti_torch_device_type_cpu, int32_t)                                               \
  X(new_list, torch_new_list_reserve_size, int32_t, size_t, TorchList*)                                 \
  X(list_push, torch_list_push_back, int32_t, TorchList, StableValue)                                   \
  X(list_size, torch_list_size, int32_t, TorchList, size_t*)                                            \
  X(list_item, torch_list_get_item, int32_t, TorchList, size_t, StableValue*)                           \
  X(delete_list, torch_delete_list, int32_t, TorchList)                                                 \
  X(string_length, torch_string_length, int32_t, TorchString, size_t*)                                  \
  X(string_data, torch_string_c_str, int32_t, TorchString, const char**)                                \
  X(delete_string, torch_delete_string, int32_t, TorchString)                                           \
  X(delete_value, torch_delete_stable_ivalue, int32_t, StableValue*)                                    \
  X(last_error, torch_exception_get_what_without_backtrace, const char*)

struct TorchShim {
#define PENLIGHT_TORCH_MEMBER(member, name, result, ...) result (*member)(__VA_ARGS__);
  PENLIGHT_TORCH_FUNCTIONS(PENLIGHT_TORCH_MEMBER)
#undef PENLIGHT_TORCH_MEMBER
  void (*bump_version)(const void* tensor);  // no part of that interface; null where it is missing

  // The functions of the library at `path`, which the process has loaded. Gives the
  // name of the first one that is missing, or null when all are there.
  const char* connect(const char* path);
};
extern TorchShim torch;

// (torch_dispatch.cpp) Lets Python raise what pl_torch_failed() tells; returns where that is not possible.
void raise_in_python();

}  // namespace penlight::hosted
