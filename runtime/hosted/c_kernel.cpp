// Lists kernels, and calls one of them outside any program.
#include <string.h>

#include "c_handles.h"
#include "kernel/key.h"
#include "kernel/signature.h"

using penlight::ArenaAllocator;
using penlight::ArrayRef;
using penlight::dim_t;
using penlight::Kernel;
using penlight::KernelContext;
using penlight::KernelLibrary;
using penlight::ListStorage;
using penlight::Message;
using penlight::Optional;
using penlight::Status;
using penlight::StringView;
using penlight::Tag;
using penlight::Tensor;
using penlight::TensorImpl;
using penlight::Value;
using penlight::hosted::library_at;
using penlight::hosted::LibrarySelection;
using penlight::hosted::report;

namespace {

// Makes Values of what crossed the interface, in one region of memory.
class Importer {
 public:
  explicit Importer(Message& message) : message_(message) {}

  bool start(const pl_value* values, size_t count) {
    size_t bytes = 0;
    for (size_t i = 0; i < count; ++i) bytes += bytes_for(values[i]);
    if (!region_.allocate(bytes + (count + 1) * (sizeof(Value) + sizeof(Value*)) + 256)) return false;
    memory_ = ArenaAllocator(region_.data(), region_.size());
    return true;
  }

  template <class T>
  T* take(size_t count) {
    return memory_.allocate_array<T>(count);
  }

  // False when the tensor's strides are not a permutation of a dense layout.
  bool tensor(const pl_value& from, Tensor& to) {
    if (from.dim == PL_UNKNOWN_DIM) return to = unsized(from), true;
    if (from.dim > PL_MAX_DIM) {
      message_.set("a tensor of {} dimensions is not possible", from.dim);
      return false;
    }
    const size_t dim = from.dim;
    TensorImpl& impl = *take<TensorImpl>(1);
    impl = TensorImpl();
    impl.sizes = take<dim_t>(dim + 1);
    impl.strides = take<dim_t>(dim + 1);
    impl.data = from.data;
    impl.capacity = from.size;
    impl.dtype = static_cast<penlight::ScalarType>(from.dtype);
    impl.dim = static_cast<uint8_t>(dim);
    impl.dynamism = penlight::Dynamism::Bounded;
    uint8_t* order = take<uint8_t>(dim + 1);
    for (size_t d = 0; d < dim; ++d) {
      impl.sizes[d] = static_cast<dim_t>(from.sizes[d]);
      // Sorted in by stride, the largest outermost; equal ones keep their order.
      size_t at = d;
      for (; at > 0 && from.strides[order[at - 1]] < from.strides[d]; --at) order[at] = order[at - 1];
      order[at] = static_cast<uint8_t>(d);
    }
    impl.dim_order = order;
    penlight::refresh_layout(impl);
    to = Tensor(&impl);
    for (size_t d = 0; d < dim; ++d) {
      if (impl.sizes[d] > 1 && impl.numel > 0 && impl.strides[d] != from.strides[d]) {
        message_.set("a tensor has stride {} in dimension {}; kernels take dense tensors only",
                     from.strides[d], d);
        return false;
      }
    }
    return true;
  }

  bool value(const pl_value& from, Value& to) {
    to.tag = static_cast<Tag>(from.tag);
    const size_t count = from.size;
    switch (to.tag) {
      case Tag::None:
        return true;
      case Tag::Int:
        to.as_int = from.integer;
        return true;
      case Tag::Bool:
        to.as_bool = from.integer != 0;
        return true;
      case Tag::Double:
        to.as_double = from.real;
        return true;
      case Tag::Tensor:
        return tensor(from, to.as_tensor);
      case Tag::String: {
        StringView* text = take<StringView>(1);
        *text = StringView(static_cast<const char*>(from.data), count);
        to.as_string = text;
        return true;
      }
      case Tag::IntList:
        to.as_int_list = list<int64_t>(from);
        return true;
      case Tag::DoubleList:
        to.as_double_list = list<double>(from);
        return true;
      case Tag::BoolList:
        to.as_bool_list = list<bool>(from);
        return true;
      case Tag::TensorList: {
        Tensor* items = take<Tensor>(count + 1);
        for (size_t i = 0; i < count; ++i) {
          if (!tensor(static_cast<const pl_value*>(from.data)[i], items[i])) return false;
        }
        to.as_tensor_list = take<ListStorage<Tensor>>(1);
        *to.as_tensor_list = {count, items, nullptr};
        return true;
      }
      case Tag::OptionalTensorList: {
        auto* items = take<Optional<Tensor>>(count + 1);
        for (size_t i = 0; i < count; ++i) {
          const pl_value& item = static_cast<const pl_value*>(from.data)[i];
          Tensor made;
          if (item.tag != 0 && !tensor(item, made)) return false;
          items[i] = item.tag != 0 ? Optional<Tensor>(made) : Optional<Tensor>();
        }
        to.as_optional_tensor_list = take<ListStorage<Optional<Tensor>>>(1);
        *to.as_optional_tensor_list = {count, items, nullptr};
        return true;
      }
    }
    message_.set("an argument has the unknown tag {}", from.tag);
    return false;
  }

 private:
  static size_t bytes_for(const pl_value& value) {
    constexpr size_t kOne = sizeof(TensorImpl) + (2 * sizeof(dim_t) + 1) * (PL_MAX_DIM + 1) + 256;
    const Tag tag = static_cast<Tag>(value.tag);
    const bool tensors = tag == Tag::TensorList || tag == Tag::OptionalTensorList;
    return kOne + (tensors ? value.size * (kOne + sizeof(Optional<Tensor>)) : 0);
  }

  // A result before its kernel has run: of sizes that equal no others.
  Tensor unsized(const pl_value& from) {
    TensorImpl& impl = *take<TensorImpl>(1);
    impl = TensorImpl();
    impl.sizes = take<dim_t>(PL_MAX_DIM);
    impl.strides = take<dim_t>(PL_MAX_DIM);
    impl.dim_order = take<uint8_t>(PL_MAX_DIM);
    for (int d = 0; d < PL_MAX_DIM; ++d) impl.dim_order[d] = static_cast<uint8_t>(d);
    impl.sizes[0] = -1;
    impl.strides[0] = 1;
    impl.dim = 1;
    impl.dtype = static_cast<penlight::ScalarType>(from.dtype);
    impl.dynamism = penlight::Dynamism::Unbounded;
    return Tensor(&impl);
  }

  template <class T>
  ListStorage<T>* list(const pl_value& from) {
    ListStorage<T>* made = take<ListStorage<T>>(1);
    *made = {from.size, static_cast<T*>(from.data), nullptr};
    return made;
  }

  Message& message_;
  penlight::hosted::Region region_;
  ArenaAllocator memory_;
};

// Takes down the sizes that a kernel gives its results, and stops it when it has given
// all. Results have memory nevertheless: a kernel may write one before the next, or not
// ask whether it could be resized.
class SizingContext : public KernelContext {
 public:
  SizingContext(penlight::ScratchSource scratch, Message* message, size_t results)
      : KernelContext(scratch, message, &SizingContext::take_sizes), missing_(results) {}

  size_t missing() const { return missing_; }

 private:
  static bool take_sizes(KernelContext& context, Tensor& out, penlight::SizesRef sizes) {
    SizingContext& self = static_cast<SizingContext&>(context);
    TensorImpl& impl = *out.unsafeGetTensorImpl();
    if (impl.dynamism != penlight::Dynamism::Unbounded || sizes.size() > PL_MAX_DIM) {
      self.fail(Status::InvalidArgument, "a tensor that is no result is given other sizes");
      return false;
    }
    const bool first = impl.data == penlight::hosted::unsized_memory();
    impl.dim = static_cast<uint8_t>(sizes.size());
    for (size_t d = 0; d < sizes.size(); ++d) impl.sizes[d] = sizes[d];
    penlight::refresh_layout(impl);
    impl.data = self.allocate_scratch(Tensor(&impl).nbytes() + 1, 64);
    if (first) --self.missing_;
    return impl.data != nullptr && self.missing_ > 0;
  }

  size_t missing_;
};

Status check(const Kernel& kernel, const pl_value* arguments, size_t count, Message& message) {
  const size_t wanted = strlen(kernel.signature);
  if (count != wanted) {
    message.set("{} takes {} arguments, {} were given", kernel.name, wanted, count);
    return Status::InvalidArgument;
  }
  for (size_t i = 0; i < count; ++i) {
    const Tag tag = static_cast<Tag>(arguments[i].tag);
    if (penlight::signature_takes(kernel.signature[i], tag)) continue;
    const char letter[] = {kernel.signature[i], '\0'};
    message.set("{}: argument {} is a {}, its type in the signature is {}", kernel.name, i,
                penlight::tag_name(tag), letter);
    return Status::InvalidArgument;
  }
  return Status::Ok;
}

void export_tensors(const Value* values, pl_value* arguments, size_t count) {
  for (size_t i = 0; i < count; ++i) {
    if (values[i].tag != Tag::Tensor) continue;
    const uint64_t capacity = arguments[i].size;
    penlight::hosted::export_value(values[i], arguments[i]);
    arguments[i].size = capacity;
  }
}

Status call(const Kernel& kernel, Value** args, penlight::ScratchSource scratch, Message& message) {
  KernelContext context(scratch, &message);
  static thread_local penlight::RandomState random;
  context.set_random(&random);
  kernel.call(context, args);
  return context.status();
}

// Calls it for the sizes of its results alone.
Status size(const Kernel& kernel, Value** args, size_t count, penlight::ScratchSource scratch,
            Message& message) {
  size_t results = 0;
  for (size_t i = 0; i < count; ++i) {
    if (args[i]->tag != Tag::Tensor) continue;
    TensorImpl& impl = *args[i]->as_tensor.unsafeGetTensorImpl();
    const bool result = impl.dynamism == penlight::Dynamism::Unbounded;
    results += result;
    if (result) impl.data = penlight::hosted::unsized_memory();
    if (result || impl.data) continue;
    const size_t bytes = args[i]->as_tensor.nbytes();
    impl.data = scratch.allocate(scratch.owner, bytes + 1, 64);
    if (!impl.data) return Status::OutOfMemory;
    memset(impl.data, 0, bytes);
  }
  SizingContext context(scratch, &message, results);
  kernel.call(context, args);
  if (context.missing() == 0) return Status::Ok;
  if (context.status() == Status::Ok) {
    message.set("{} returned without giving each result its sizes: ctx.resize(out, sizes) comes first",
                kernel.name);
    return Status::KernelFailed;
  }
  return context.status();
}

Status call_kernel(const char* name, const penlight::KernelRegistry& registry, bool sizes_only,
                   pl_value* arguments, size_t count, Message& message) {
  const Kernel* kernel = registry.find(name, nullptr);
  if (kernel) {
    if (const Status status = check(*kernel, arguments, count, message); status != Status::Ok) return status;
  }
  Importer importer(message);
  if (!importer.start(arguments, count)) return Status::OutOfMemory;
  Value* values = importer.take<Value>(count + 1);
  Value** args = importer.take<Value*>(count + 1);
  for (size_t i = 0; i < count; ++i) {
    values[i] = Value();
    if (!importer.value(arguments[i], values[i])) return Status::InvalidArgument;
    args[i] = &values[i];
  }
  char key[1024];
  const char* wanted = penlight::specialisation_key(args, count, key, sizeof key);
  penlight::hosted::HeapScratch scratch;
  for (size_t skip = 0;; ++skip) {
    kernel = registry.find(name, wanted, skip);
    if (!kernel) {
      message.set(skip ? "every kernel of {} declined these arguments" : "there is no kernel for {}", name);
      return Status::MissingKernel;
    }
    if (const Status status = check(*kernel, arguments, count, message); status != Status::Ok) return status;
    const Status status = sizes_only ? size(*kernel, args, count, scratch.source(), message)
                                     : call(*kernel, args, scratch.source(), message);
    if (status == Status::Declined) continue;
    export_tensors(values, arguments, count);
    return status;
  }
}

Status select_and_call(const char* name, const char* libraries, bool sizes_only, pl_value* arguments,
                       size_t count, Message& message) {
  LibrarySelection selection;
  const Status status = selection.select(libraries, &message);
  if (status != Status::Ok) return status;
  return call_kernel(name, selection.registry(), sizes_only, arguments, count, message);
}

}  // namespace

uint64_t pl_operator_count(void) {
  uint64_t count = 0;
  for (size_t i = 0; library_at(i); ++i) count += library_at(i)->count;
  return count;
}

pl_status pl_describe_operator(uint64_t index, pl_operator* described) {
  for (size_t i = 0; library_at(i); ++i) {
    const KernelLibrary* library = library_at(i);
    if (index < library->count) {
      const Kernel& kernel = library->kernels[index];
      *described = {kernel.name, library->name, kernel.signature, kernel.key, kernel.source};
      return 0;
    }
    index -= library->count;
  }
  return static_cast<pl_status>(Status::InvalidArgument);
}

pl_status pl_kernel_call(const char* name, const char* libraries, pl_value* arguments, uint64_t count,
                         char* error, size_t error_size) {
  Message message;
  const Status status = select_and_call(name, libraries, false, arguments, count, message);
  return report(status, message.c_str(), error, error_size);
}

pl_status pl_kernel_shapes(const char* name, const char* libraries, pl_value* arguments, uint64_t count,
                           char* error, size_t error_size) {
  Message message;
  const Status status = select_and_call(name, libraries, true, arguments, count, message);
  return report(status, message.c_str(), error, error_size);
}
