#include <penlight/context.h>
#include <penlight/memory.h>

namespace penlight {

void* ArenaAllocator::allocate(size_t bytes, size_t alignment) {
  const uintptr_t base = reinterpret_cast<uintptr_t>(base_);
  const uintptr_t start = (base + used_ + alignment - 1) & ~(static_cast<uintptr_t>(alignment) - 1);
  const size_t offset = start - base;
  if (offset > size_ || bytes > size_ - offset) return nullptr;
  used_ = offset + bytes;
  if (used_ > peak_) peak_ = used_;
  return base_ + offset;
}

ScratchSource scratch_from(ArenaAllocator& arena) {
  return {[](void* owner, size_t bytes, size_t alignment) {
            return static_cast<ArenaAllocator*>(owner)->allocate(bytes, alignment);
          },
          [](void* owner) { static_cast<ArenaAllocator*>(owner)->reset(); }, &arena};
}

void KernelContext::record(unsigned what, const char* format, ...) {
  if (status_ != Status::Ok) return;
  status_ = static_cast<Status>(what & 255);
  if (!Message::kEnabled || !message_) return;
  va_list words;
  va_start(words, format);
  message_->set_words(what >> 8, format, words);
  va_end(words);
}

void* KernelContext::find_scratch(size_t bytes, size_t alignment) {
  if (!scratch_.allocate) return nullptr;
  scratch_used_ = true;
  return scratch_.allocate(scratch_.owner, bytes, alignment);
}

void* KernelContext::allocate_scratch(size_t bytes, size_t alignment) {
  void* memory = find_scratch(bytes, alignment);
  if (!memory) fail(Status::OutOfMemory, "{} bytes of scratch memory were asked for and not given", bytes);
  return memory;
}

void KernelContext::release_scratch() {
  scratch_used_ = false;
  if (scratch_.release) scratch_.release(scratch_.owner);
}

namespace {

// The first thing that keeps `impl` from taking `sizes`; null when nothing does.
const char* obstacle(const TensorImpl& impl, SizesRef sizes) {
  if (impl.dim != sizes.size()) return "has another rank";
  if (impl.dynamism == Dynamism::Static) return "has a fixed shape";
  const size_t item = element_size(impl.dtype);
  size_t capacity = item == 0 ? 0 : impl.capacity / item;
  size_t numel = 1;
  bool empty = false;
  for (size_t d = 0; d < sizes.size(); ++d) {
    if (sizes[d] < 0) return "cannot have a negative size";
    empty |= sizes[d] == 0;
  }
  for (size_t d = 0; d < sizes.size() && !empty; ++d) {
    if (static_cast<size_t>(sizes[d]) > capacity / numel) return "has too little memory";
    numel *= static_cast<size_t>(sizes[d]);
  }
  return nullptr;
}

void describe(Message& message, SizesRef sizes) {
  message.append("[");
  for (size_t d = 0; d < sizes.size(); ++d) message.append(d ? ", {}" : "{}", sizes[d]);
  message.append("]");
}

}  // namespace

bool KernelContext::resize_slow(Tensor& out, SizesRef sizes) {
  if (resize_) return resize_(*this, out, sizes);
  TensorImpl& impl = *out.unsafeGetTensorImpl();
  if (const char* reason = obstacle(impl, sizes)) {
    fail(Status::InvalidArgument, "the result is ");
    if (message_) {
      describe(*message_, sizes);
      message_->append(" but the output {}: it is {} ", reason, dtype_name(impl.dtype));
      describe(*message_, out.sizes());
      message_->append(" with {} bytes", impl.capacity);
    }
    return false;
  }
  for (size_t d = 0; d < sizes.size(); ++d) impl.sizes[d] = sizes[d];
  refresh_layout(impl);
  return true;
}

}  // namespace penlight
