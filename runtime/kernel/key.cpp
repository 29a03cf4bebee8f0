#include "kernel/key.h"

namespace penlight {

const char* specialisation_key(Value** args, size_t count, char* buffer, size_t size) {
  size_t used = 0;
  auto put = [&](char c) {
    if (used + 1 < size) buffer[used] = c;
    ++used;
  };
  auto put_number = [&](unsigned number) {
    if (number >= 10) put(static_cast<char>('0' + number / 10));
    put(static_cast<char>('0' + number % 10));
  };
  // A result follows the arguments once more; the key has each tensor once.
  if (count > 1 && args[count - 1] == args[count - 2]) --count;
  put('v');
  put('1');
  char separator = '/';
  for (size_t k = 0; k < count; ++k) {
    if (args[k]->tag != Tag::Tensor) continue;
    const TensorImpl& impl = *args[k]->as_tensor.unsafeGetTensorImpl();
    put(separator);
    separator = '|';
    put_number(static_cast<unsigned>(impl.dtype));
    for (uint32_t d = 0; d < impl.dim; ++d) {
      put(d ? ',' : ';');
      put_number(impl.dim_order[d]);
    }
    if (impl.dim == 0) put(';');
  }
  if (used + 1 > size) return nullptr;
  buffer[used] = '\0';
  return buffer;
}

}  // namespace penlight
