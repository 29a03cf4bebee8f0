#include "program/tensor_info.h"

#include "program/schema.h"

namespace penlight {

bool tensor_bytes(const int32_t* sizes, size_t dim, size_t item, size_t* bytes) {
  size_t total = item;
  bool empty = false;
  for (size_t d = 0; d < dim; ++d) {
    const size_t size = static_cast<size_t>(sizes[d]);
    empty |= size == 0;
    if (size != 0 && total > (SIZE_MAX / 4) / size) return false;
    total *= size == 0 ? 1 : size;
  }
  *bytes = empty ? 0 : total;
  return true;
}

const char* read_tensor(const flatbuffer::Table& table, TensorInfo& info, TensorPlace& place) {
  using namespace schema;
  info.dtype = static_cast<ScalarType>(table.i8(tensor::kScalarType));
  const size_t item = element_size(info.dtype);
  if (item == 0) return "has an unknown element type";
  if (table.i32(tensor::kStorageOffset) != 0) return "has a storage offset";
  if (table.u8(tensor::kLayout) != 0) return "is not strided";

  const uint8_t dynamism = table.u8(tensor::kDynamism);
  if (dynamism > 1) return "has no upper bound";
  info.dynamism = static_cast<Dynamism>(dynamism);

  const flatbuffer::Vector sizes = table.vector(tensor::kSizes, 4);
  const flatbuffer::Vector order = table.vector(tensor::kDimOrder, 1);
  if (sizes.count > kMaxDim) return "has more than 16 dimensions";
  if (order.count != sizes.count) return "has a dim order of another rank";
  info.dim = static_cast<uint32_t>(sizes.count);
  uint32_t seen = 0;
  for (size_t d = 0; d < sizes.count; ++d) {
    info.sizes[d] = sizes.get<int32_t>(d);
    info.dim_order[d] = order.get<uint8_t>(d);
    if (info.sizes[d] < 0) return "has a negative size";
    if (info.dim_order[d] >= sizes.count || (seen >> info.dim_order[d] & 1u))
      return "has a dim order that is no permutation";
    seen |= 1u << info.dim_order[d];
  }
  if (!tensor_bytes(info.sizes, info.dim, item, &info.nbytes)) return "is larger than memory can be";

  const flatbuffer::Table where = table.table(tensor::kAllocation);
  place.data_index = table.u32(tensor::kDataIndex);
  place.memory_id = where.u32(allocation::kMemoryId);
  place.offset = where.u32(allocation::kOffsetLow) | static_cast<uint64_t>(where.u32(allocation::kOffsetHigh))
                                                         << 32;
  if (where.present() && place.memory_id == 0) return "is planned in memory 0, which is reserved";
  info.planned = place.memory_id != 0;

  const flatbuffer::Table more = table.table(tensor::kExtra);
  info.name = more.string(extra::kName);
  place.external = more.u8(extra::kLocation) == 1;
  place.in_state = more.present() && place.memory_id != 0 && !place.external;
  if (place.external && !info.name) return "is external and has no name";
  return nullptr;
}

}  // namespace penlight
