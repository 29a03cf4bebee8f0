// KernelContext: what a kernel may ask of whoever calls it.
#pragma once

#include <penlight/array_ref.h>
#include <penlight/message.h>
#include <penlight/status.h>
#include <penlight/tensor.h>
#include <stddef.h>
#include <stdint.h>

namespace penlight {

// Hands out parts of one region, in order; nothing is ever given back singly.
class ArenaAllocator {
 public:
  ArenaAllocator() : base_(nullptr), size_(0), used_(0), peak_(0) {}
  ArenaAllocator(void* base, size_t size)
      : base_(static_cast<uint8_t*>(base)), size_(size), used_(0), peak_(0) {}

  // Null when the region has not `bytes` left. `alignment` is a power of two.
  void* allocate(size_t bytes, size_t alignment = 16);

  template <class T>
  T* allocate_array(size_t count) {
    if (count > SIZE_MAX / sizeof(T)) return nullptr;
    return static_cast<T*>(allocate(count * sizeof(T), alignof(T)));
  }

  void reset() { used_ = 0; }
  size_t used() const { return used_; }
  size_t peak() const { return peak_; }
  size_t size() const { return size_; }

 private:
  uint8_t* base_;
  size_t size_;
  size_t used_;
  size_t peak_;
};

// Where scratch memory comes from when an arena is not enough: hosted programs
// give a heap, bare-metal ones a fixed region.
struct ScratchSource {
  void* (*allocate)(void* owner, size_t bytes, size_t alignment);
  void (*release)(void* owner);  // all that was allocated since the last release
  void* owner;
};

// Where a program stands in its random numbers: `calls` random operators have run
// since it was seeded. What they give depends on nothing else, so a program that
// is seeded alike and called alike gives the same on every machine.
struct RandomState {
  uint64_t seed = 0;
  uint64_t calls = 0;
};

// Threads that work along with a kernel: `run` calls task(argument, i) once for each i
// below `count`, on any of them, and returns when all are done. Null: there are none.
struct Workers {
  void (*run)(void* owner, void (*task)(void* argument, size_t index), void* argument, size_t count);
  void* owner;
  size_t threads;
};

class KernelContext {
 public:
  using ResizeFn = bool (*)(KernelContext& ctx, Tensor& out, SizesRef sizes);

  KernelContext(ScratchSource scratch, Message* message, ResizeFn resize = nullptr)
      : status_(Status::Ok), resize_(resize), message_(message), scratch_(scratch), scratch_used_(false) {}

  bool ok() const { return status_ == Status::Ok; }
  Status status() const { return status_; }
  Message* message() const { return message_; }

  // Records a failure; the first one stays. The caller adds operator and place.
  template <class... Args>
  void fail(Status status, const char* format, Args... args) {
    const unsigned what = static_cast<unsigned>(status) | detail::message_kinds<Args...>() << 8;
    if constexpr (Message::kEnabled) {
      record(what, format, detail::MessageWord<Args>::get(args)...);
    } else {
      record(what, nullptr);
    }
  }
  // The same of what a caller may not pass, by far the most frequent failure.
  template <class... Args>
  void fail(const char* format, Args... args) {
    fail(Status::InvalidArgument, format, args...);
  }
  // The same, for a kernel to return its output ...
  template <class... Args>
  Tensor& fail(Tensor& out, Status status, const char* format, Args... args) {
    fail(status, format, args...);
    return out;
  }
  // ... and for a check to return false.
  template <class... Args>
  bool refuse(Status status, const char* format, Args... args) {
    fail(status, format, args...);
    return false;
  }
  template <class... Args>
  bool refuse(const char* format, Args... args) {
    return refuse(Status::InvalidArgument, format, args...);
  }

  // Says that this kernel does not take these arguments, before writing anything:
  // the next kernel registered for the operator is asked.
  void decline() { status_ = Status::Declined; }

  // Gives `out` these sizes. False, with the failure recorded, when its memory
  // or its fixed shape does not allow that.
  bool resize(Tensor& out, SizesRef sizes) {
    const TensorImpl& impl = *out.unsafeGetTensorImpl();
    if (impl.dim == sizes.size()) {
      bool same = true;
      for (size_t d = 0; d < sizes.size(); ++d) same &= impl.sizes[d] == sizes[d];
      if (same) return true;
    }
    return resize_slow(out, sizes);
  }

  // Memory that lives until the kernel returns. Null, with the failure recorded,
  // when there is not enough.
  void* allocate_scratch(size_t bytes, size_t alignment = 16);
  // The same, but null is no failure: for who can do with less.
  void* find_scratch(size_t bytes, size_t alignment = 16);

  template <class T>
  T* allocate_scratch_array(size_t count) {
    if (count > SIZE_MAX / sizeof(T)) {
      fail(Status::OutOfMemory, "scratch of {} elements does not fit an address", count);
      return nullptr;
    }
    return static_cast<T*>(allocate_scratch(count * sizeof(T), alignof(T) < 16 ? 16 : alignof(T)));
  }

  // Gives back all of it, for a kernel that computes in turns: what it asks for next may lie in the same
  // place.
  void release_scratch();

  // How many threads a kernel may split its work between, the caller's included.
  size_t threads() const { return workers_.run ? workers_.threads : 1; }
  // Calls body(i) for each i below `count`, on several threads where there are some. The
  // parts must not depend on one another; the context itself is for the caller only.
  template <class Body>
  void parallel(size_t count, const Body& body) {
    if (!workers_.run || count < 2) {
      for (size_t i = 0; i < count; ++i) body(i);
      return;
    }
    workers_.run(
        workers_.owner, [](void* argument, size_t index) { (*static_cast<const Body*>(argument))(index); },
        const_cast<void*>(static_cast<const void*>(&body)), count);
  }
  // For the caller of a kernel.
  void set_workers(const Workers& workers) { workers_ = workers; }

  // Shared by all methods of a program where their user gave one, else the caller's own.
  RandomState& random() { return random_ ? *random_ : own_random_; }
  // For the caller of a kernel; null for its own.
  void set_random(RandomState* random) { random_ = random; }

  // For the caller of a kernel: whether the last call left nothing to deal with.
  bool done() const { return status_ == Status::Ok && !scratch_used_; }
  void set_message(Message* message) { message_ = message; }
  // For the caller of a kernel: ready for the next call.
  void reset() {
    status_ = Status::Ok;
    if (scratch_used_) release_scratch();
  }

 private:
  // `what` is the status, and above it a bit for each word that is text (message.h).
  void record(unsigned what, const char* format, ...);
  bool resize_slow(Tensor& out, SizesRef sizes);

  Status status_;
  ResizeFn resize_;
  Message* message_;
  ScratchSource scratch_;
  bool scratch_used_;
  RandomState* random_ = nullptr;
  RandomState own_random_;
  Workers workers_ = {nullptr, nullptr, 1};
};

}  // namespace penlight
