#include <penlight/tensor.h>

namespace penlight {

void refresh_layout(TensorImpl& tensor) {
  dim_t numel = 1;
  dim_t stride = 1;
  for (int i = tensor.dim; i-- > 0;) {
    const int d = tensor.dim_order ? tensor.dim_order[i] : i;
    const dim_t size = tensor.sizes[d];
    tensor.strides[d] = stride;
    stride *= size == 0 ? 1 : size;
    numel *= size;
  }
  tensor.numel = numel;
}

}  // namespace penlight
