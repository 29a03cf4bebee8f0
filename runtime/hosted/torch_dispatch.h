// Kernels of ours within torch's dispatcher, which see arguments as torch keeps them.
//
// torch's stable interface has no form for this: its trampolines cannot go on to another
// kernel of the operator, nor tell a number's type. So torch's own boxed kernel that goes
// on below autograd (and would warn of a missing formula) is registered with a function of
// ours in its place, which calls it, `below`, with the keys where to go on. Arguments are
// untouched: symbolic sizes, fake tensors and Python's exceptions pass through.
//
// None of this is promised by torch. Whoever connects has to see, by probes, that stacks
// look as is assumed here.
#pragma once

#include <penlight/context.h>
#include <stddef.h>
#include <stdint.h>

namespace penlight::hosted {

// One argument on a stack of torch's. Its payload is a number, or a pointer.
struct Item {
  uint64_t payload;
  uint32_t tag;
  uint32_t padding;
};
struct Stack {
  Item *begin, *end, *capacity;
};
// What kernels are told of their operator.
struct TorchOp {
  const void* words[2];
  bool operator==(const TorchOp& other) const { return words[0] == other.words[0]; }
};
using BoxedKernel = void (*)(void* functor, const void* op, uint64_t keys, Stack* stack);

// As the probes found them.
struct ItemForms {
  uint32_t tensor, none, integer, real, boolean, list, text;  // tags
  size_t list_at, text_at;  // words from the start of what payloads point to: the items', the letters' begin
};
extern ItemForms forms;

struct Items {
  const Item *begin_, *end_;
  const Item* begin() const { return begin_; }
  const Item* end() const { return end_; }
};
inline Items items_of(const Item& list) {
  const Item* const* words = reinterpret_cast<const Item* const*>(list.payload) + forms.list_at;
  return {words[0], words[1]};
}

extern BoxedKernel below;
extern uint64_t gradient_keys;  // of the key where an operator has its Python function for gradients
extern uint64_t python_keys;    // and of that of its Python function that computes it

// Makes `kernel` what operator `name` has for `key`, for good.
Status stand_at(const char* name, const char* key, BoxedKernel kernel, Message& message);
// The functions of torch's that autograd asks; false when one is missing. `plain` is a tensor without
// gradients.
bool connect_autograd(void* torch, const void* plain);
// And those that fronts ask.
void connect_fronts(void* torch);

}  // namespace penlight::hosted
