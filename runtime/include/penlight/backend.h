// Backends: whoever takes whole sub-graphs, prepared ahead of time as bytes.
#pragma once

#include <penlight/array_ref.h>
#include <penlight/context.h>
#include <penlight/message.h>
#include <penlight/status.h>
#include <penlight/value.h>
#include <stddef.h>

// 0 where no program will have delegates, as in a binary built for given ones.
#ifndef PENLIGHT_BACKENDS
#define PENLIGHT_BACKENDS 1
#endif

namespace penlight {

constexpr bool kBackends = PENLIGHT_BACKENDS != 0;

struct CompileSpec {
  const char* key;
  ArrayRef<uint8_t> value;
};

struct BackendInit {
  ArrayRef<uint8_t> processed;  // valid for the program's life
  ArrayRef<CompileSpec> specs;  // valid during init only
  ArenaAllocator* allocator;    // the method's; the backend may keep what it takes
  const char* method;
  Message* message;
};

// The three calls of a backend. No heap is needed: state goes to the allocator.
struct Backend {
  const char* name;
  // Prepares one delegate; `*handle` is given back to the other two.
  Status (*init)(const BackendInit& init, void** handle);
  // Runs it. `args` are the delegate's inputs, then its outputs.
  Status (*execute)(KernelContext& ctx, void* handle, Value** args, size_t count);
  // Frees what init took from elsewhere; may be null.
  void (*destroy)(void* handle);
  Backend* next;
};

// Adds a backend, which must live as long as the process. Adding the same one
// again changes nothing; InvalidState when another has the name.
Status register_backend(Backend& backend, Message* message = nullptr);

// Null when there is none of that name.
const Backend* find_backend(const char* name);
const Backend* first_backend();

}  // namespace penlight
