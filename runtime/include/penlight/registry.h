// Kernel registry: from the name of an operator to the function that computes it.
//
// A library is a constant table of kernels, sorted by name when it was generated.
// A registry is an ordered chain of libraries: for one operator, kernels whose
// key fits the dtypes and dim orders come before those without a key, and within
// each of the two the library registered first is asked first.
#pragma once

#include <penlight/message.h>
#include <penlight/status.h>
#include <penlight/value.h>
#include <stddef.h>
#include <stdint.h>

namespace penlight {

class KernelContext;

// Every kernel is called this way; boxing.h makes one from a typed function.
using BoxedKernel = void (*)(KernelContext& ctx, Value** args);

struct Kernel {
  const char* name;  // "aten::add.out"
  BoxedKernel call;
  const char* signature;  // one letter an argument (boxing.h), for verification
  const char* key;        // "v1/6;0,1|6;0,1" or null: any dtype and dim order
  const char* source;     // file that defines it, for messages; may be null
  // Bit (1 << ScalarType number) for each element type of a tensor that it was compiled
  // for, where a build left others out; 0: the kernel itself says what it takes.
  uint32_t dtypes = 0;
};

struct KernelLibrary {
  const char* name;
  const Kernel* kernels;
  size_t count;
  bool sorted;  // by name: searched by halving
  KernelLibrary* next;
};

class KernelRegistry {
 public:
  constexpr KernelRegistry() : first_(nullptr) {}

  // Appends a library, which must outlive the registry. Adding the same library
  // again changes nothing. InvalidState when another library of the same name
  // holds a kernel for the same operator and key: the message names both.
  Status add(KernelLibrary& library, Message* message = nullptr);

  // The same without asking whether it fits with the others.
  void append(KernelLibrary& library);
  // Takes it out again, while nothing that was found in it is in use.
  void remove(KernelLibrary& library);

  // The kernel number `skip` (from 0, in order of preference) that fits `name`
  // and `key`; null when there is none. `key` is null when nothing is known of
  // the arguments.
  const Kernel* find(const char* name, const char* key, size_t skip = 0) const;

  const KernelLibrary* first() const { return first_; }

 private:
  KernelLibrary* first_;
};

// The registry that PENLIGHT_LIBRARY plug-ins add themselves to and that methods
// use when they are given no other.
KernelRegistry& default_registry();

}  // namespace penlight
