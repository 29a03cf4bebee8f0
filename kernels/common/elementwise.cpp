// The driver of all elementwise operators; elementwise.h says what it does.
#include "kernels/common/elementwise.h"

#include <string.h>

namespace penlight {

namespace {

// Elements converted at a time: large enough to hide the calls. Where code is to be small,
// so is the stack that up to six such buffers lie on. Of complex numbers half as many.
constexpr dim_t kBlock = kSmallCode ? 16 : 128;

// Compute types, as indices of ElementwiseOp::loops.
enum ComputeType { kFloat, kDouble, kInt, kComplex };
constexpr ScalarType kDtypeOf[] = {ScalarType::Float, ScalarType::Double, ScalarType::Long,
                                   ScalarType::ComplexDouble};

int kind_of(ScalarType type) { return type == ScalarType::Bool ? 0 : is_floating(type) ? 2 : 1; }

ScalarType scalar_dtype(const Scalar& scalar) {
  return scalar.isFloatingPoint() ? ScalarType::Float
         : scalar.isBoolean()     ? ScalarType::Bool
                                  : ScalarType::Long;
}

// Calls body(C{}), C being the compute type.
template <class Body>
void with_compute(int compute, Body&& body) {
  if (compute == kFloat) body(float{});
  if (kDoubleSelected && compute == kDouble) body(double{});
  if (kIntegerSelected && compute == kInt) body(int64_t{});
  if (kComplexSelected && compute == kComplex) body(Complex{});
}

// `from` in steps of `stride` elements, as `count` elements of a compute type.
void load(int compute, void* to, ScalarType type, const void* from, dim_t stride, dim_t count) {
  with_compute(compute,
               [&](auto c) { load_block(static_cast<decltype(c)*>(to), type, from, stride, count); });
}

void store(int compute, ScalarType type, void* to, dim_t stride, const void* from, dim_t count) {
  with_compute(compute,
               [&](auto c) { store_block(type, to, stride, static_cast<const decltype(c)*>(from), count); });
}

struct Buffer {
  alignas(16) char bytes[kBlock * 8];
};

struct Source {
  const char* data;
  dim_t item;  // bytes
  ScalarType dtype;
  bool narrows;  // ATen would convert it to the promoted dtype first, which loses bits
};

// One call, prepared: what is constant over its rows.
struct Run {
  const ElementwiseOp& op;
  const void* functor;
  BlockLoop loop;
  int compute;
  ScalarType promoted;
  ScalarType out_dtype;
  dim_t out_item;
  char* out;
  Source source[kMaxOperands];

  // The block at `from`, converted; in `buffer` unless memory can be read as it is.
  const void* read(const Source& from, const char* data, dim_t stride, dim_t count, Buffer& buffer) const {
    if (from.dtype == kDtypeOf[compute] && stride == 1 && !from.narrows) return data;
    load(compute, buffer.bytes, from.dtype, data, stride, count);
    if (from.narrows) {
      Buffer narrow;
      store(compute, promoted, narrow.bytes, 1, buffer.bytes, count);
      load(compute, buffer.bytes, promoted, narrow.bytes, 1, count);
    }
    return buffer.bytes;
  }

  // `count` elements along one dimension; strides in elements, operand 0 is `out`.
  void row(const dim_t* offset, const dim_t* stride, dim_t count) const {
    Buffer buffers[kMaxOperands + 1];
    const dim_t block = compute == kComplex ? kBlock / 2 : kBlock;
    const void* in[kMaxOperands];
    const char* from[kMaxOperands];
    char* to = out + offset[0] * out_item;
    const ScalarType result = op.predicate ? ScalarType::Bool : kDtypeOf[compute];
    const bool direct = out_dtype == result && stride[0] == 1;
    bool whole = direct;  // nothing to convert: one call for the row
    for (int k = 0; k < op.operands; ++k) {
      const Source& s = source[k];
      from[k] = s.data + offset[k + 1] * s.item;
      if (stride[k + 1] == 0) {
        // Constant along the row: one block of copies serves all.
        const dim_t filled = count < block ? count : block;
        in[k] = read(s, from[k], 0, filled, buffers[k]);
        whole &= count <= block;
      } else {
        in[k] = from[k];
        whole &= stride[k + 1] == 1 && s.dtype == kDtypeOf[compute] && !s.narrows;
      }
    }
    if (whole) return loop(functor, in, to, count);

    for (dim_t done = 0; done < count; done += block) {
      const dim_t some = count - done < block ? count - done : block;
      for (int k = 0; k < op.operands; ++k) {
        const dim_t step = stride[k + 1];
        if (step != 0)
          in[k] = read(source[k], from[k] + done * step * source[k].item, step, some, buffers[k]);
      }
      if (direct) {
        loop(functor, in, to + done * out_item, some);
        continue;
      }
      Buffer& made = buffers[kMaxOperands];
      loop(functor, in, made.bytes, some);
      char* here = to + done * stride[0] * out_item;
      if (kIntegerSelected && op.predicate) {
        int64_t wide[kBlock];
        for (dim_t i = 0; i < some; ++i) wide[i] = made.bytes[i];
        store(kInt, out_dtype, here, stride[0], wide, some);
      } else {
        store(compute, out_dtype, here, stride[0], made.bytes, some);
      }
    }
  }
};

// Equal sizes and strides. Small tensors spend most of their time here.
inline bool same_layout(const TensorImpl& a, const TensorImpl& b) {
  if (a.dim != b.dim) return false;
  dim_t different = 0;
  for (int d = 0; d < a.dim; ++d) different |= (a.sizes[d] ^ b.sizes[d]) | (a.strides[d] ^ b.strides[d]);
  return different == 0;
}

inline bool dense(const TensorImpl& tensor) {
  dim_t span = 1;
  for (int d = 0; d < tensor.dim; ++d) span += (tensor.sizes[d] - 1) * tensor.strides[d];
  return span == tensor.numel;
}

// A scalar as one element of a compute type.
inline void put_scalar(const Scalar& scalar, int compute, void* to) {
  with_compute(compute, [&](auto element) {
    element = Parameter(scalar).as<decltype(element)>();
    memcpy(to, &element, sizeof element);
  });
}

// Whether the call computes with complex numbers.
bool is_complex_call(const Operand* operands, int count, const TensorImpl& out) {
  bool found = is_complex(out.dtype);
  for (int k = 0; k < count; ++k) found |= operands[k].tensor() && is_complex(operands[k].tensor()->dtype);
  return found;
}

// True when `out` and every operand with more than one element have one dense
// layout, so that memory can be walked in order. Then `out` has its sizes already.
bool is_flat(const ElementwiseOp& op, const Operand* operands, const TensorImpl& out) {
  bool shaped = false;
  for (int k = 0; k < op.operands; ++k) {
    const TensorImpl* tensor = operands[k].tensor();
    if (tensor == nullptr) continue;
    if (same_layout(*tensor, out)) {
      shaped = true;
    } else if (tensor->numel != 1 || tensor->dim > out.dim) {
      return false;
    }
  }
  return shaped && dense(out);
}

}  // namespace

ScalarType promote(ScalarType a, ScalarType b) {
  if (a == b) return a;
  const int kind = kind_of(a) > kind_of(b) ? kind_of(a) : kind_of(b);
  if (kind_of(a) != kind) return b;
  if (kind_of(b) != kind) return a;
  const size_t size_a = element_size(a), size_b = element_size(b);
  if (kind == 2 && size_a == size_b) return ScalarType::Float;  // float16 and bfloat16
  if (kind == 1 && a == ScalarType::Byte && size_b == 1) return ScalarType::Short;
  if (kind == 1 && b == ScalarType::Byte && size_a == 1) return ScalarType::Short;
  return size_a > size_b ? a : b;
}

ScalarType promote(const Operand* operands, int count) {
  ScalarType ranks[3];  // tensors with dimensions, without, scalars
  bool seen[3] = {};
  for (int k = 0; k < count; ++k) {
    const TensorImpl* tensor = operands[k].tensor();
    const int rank = tensor == nullptr ? 2 : tensor->dim == 0 ? 1 : 0;
    const ScalarType type = tensor ? tensor->dtype : scalar_dtype(operands[k].scalar());
    ranks[rank] = seen[rank] ? promote(ranks[rank], type) : type;
    seen[rank] = true;
  }
  ScalarType result = ScalarType::Bool;
  bool any = false;
  for (int rank = 0; rank < 3; ++rank) {
    if (!seen[rank]) continue;
    if (!any || kind_of(ranks[rank]) > kind_of(result)) result = ranks[rank];
    any = true;
  }
  return result;
}

static void run_general(KernelContext& ctx, const ElementwiseOp& op, const void* functor,
                        const Operand* operands, Tensor& out) {
  const TensorImpl& to = *out.unsafeGetTensorImpl();
  const bool complex = is_complex_call(operands, op.operands, to);
  const ScalarType promoted =
      complex ? ScalarType::ComplexDouble : promote(operands + op.promote_first, op.promote_count);
  const int compute = complex                                                  ? kComplex
                      : promoted == ScalarType::Double                         ? kDouble
                      : is_floating(promoted) || op.domain == Domain::Floating ? kFloat
                                                                               : kInt;
  const BlockLoop loop = op.loops[compute];
  const bool known = (complex || dtype_selected(promoted)) && dtype_selected(to.dtype);
  if (loop == nullptr || !known)
    return ctx.fail(Status::NotSupported, "not computed for element type {}, stored as {}",
                    dtype_name(promoted), dtype_name(to.dtype));

  const bool flat = is_flat(op, operands, to);
  if (!flat) {
    Shape shape;
    for (int k = 0; k < op.operands; ++k) {
      const TensorImpl* tensor = operands[k].tensor();
      if (tensor && !broadcast_into(ctx, shape, {tensor->sizes, tensor->dim})) return;
    }
    if (!ctx.resize(out, shape)) return;
  }
  if (to.numel == 0) return;

  Run run{op,
          functor,
          loop,
          compute,
          promoted,
          to.dtype,
          static_cast<dim_t>(out.element_size()),
          static_cast<char*>(to.data),
          {}};
  // Integers computed as float are exact enough already: only what ATen narrows.
  const bool narrow = promoted != ScalarType::Float && promoted != ScalarType::Double &&
                      promoted != ScalarType::Long && !complex &&
                      !(compute == kFloat && !is_floating(promoted));
  Buffer scalars;
  for (int k = 0; k < op.operands; ++k) {
    Source& source = run.source[k];
    if (const TensorImpl* tensor = operands[k].tensor()) {
      source.data = static_cast<const char*>(tensor->data);
      source.dtype = tensor->dtype;
      source.item = static_cast<dim_t>(element_size(tensor->dtype));
      source.narrows = narrow && tensor->dtype != promoted;
    } else {
      // Arithmetic keeps a scalar's own precision, as ATen's does; comparisons round
      // it, and integers wrap.
      char* at = scalars.bytes + k * 16;
      put_scalar(operands[k].scalar(), compute, at);
      source.data = at;
      source.dtype = kDtypeOf[compute];
      source.item = 0;
      source.narrows = narrow && (op.predicate || compute == kInt);
    }
  }

  if (flat) {
    const dim_t offset[kMaxOperands + 1] = {};
    dim_t stride[kMaxOperands + 1] = {1};
    for (int k = 0; k < op.operands; ++k) {
      const TensorImpl* tensor = operands[k].tensor();
      stride[k + 1] = tensor && tensor->numel == to.numel;
    }
    run.row(offset, stride, to.numel);
    return;
  }
  StridedLoop walk(out.sizes());
  walk.add(out);
  for (int k = 0; k < op.operands; ++k) walk.add(operands[k].tensor());
  walk.simplify();
  dim_t stride[kMaxOperands + 1];
  for (int k = 0; k <= op.operands; ++k) stride[k] = walk.inner_stride(k);
  if (walk.inner_size() == 1) stride[0] = 1;
  walk.for_each_row([&](const dim_t* offset, dim_t count) { run.row(offset, stride, count); });
}

template <class Bits>
static const void* copies_of(const void* element, dim_t count, Buffer& buffer) {
  Bits bits;
  memcpy(&bits, element, sizeof bits);
  for (dim_t i = 0; i < count; ++i)
    memcpy(buffer.bytes + i * static_cast<dim_t>(sizeof bits), &bits, sizeof bits);
  return buffer.bytes;
}

// Operands whose bit is set in `constants` are single elements, or scalars (null).
static bool run_with_constants(const ElementwiseOp& op, BlockLoop loop, const void* functor,
                               const Operand* operands, const void** in, unsigned constants,
                               const TensorImpl& to, int compute) {
  if (constants + 1 == 1u << op.operands || to.numel > kBlock) return false;
  Buffer buffers[kMaxOperands];
  for (int k = 0; k < op.operands; ++k) {
    if (((constants >> k) & 1) == 0) continue;
    Buffer& buffer = buffers[k];
    if (in[k] == nullptr) {
      put_scalar(operands[k].scalar(), compute, buffer.bytes);
      in[k] = buffer.bytes;
    }
    in[k] = compute == kFloat ? copies_of<uint32_t>(in[k], to.numel, buffer)
                              : copies_of<uint64_t>(in[k], to.numel, buffer);
  }
  loop(functor, in, to.data, to.numel);
  return true;
}

// The same for operands that all have `out`'s compute type: each of its dense layout
// or a single element (or a scalar, which takes the type). A few comparisons and the
// loop: small models live here. False, with nothing done, for any other call.
static bool run_plain(const ElementwiseOp& op, const void* functor, const Operand* operands,
                      const TensorImpl& to) {
  const int compute = to.dtype == ScalarType::Float ? kFloat : to.dtype == ScalarType::Long ? kInt : kDouble;
  const BlockLoop loop = op.loops[compute];
  if (to.dtype != kDtypeOf[compute] || op.predicate || loop == nullptr) return false;
  const void* in[kMaxOperands];
  unsigned constants = 0;
  for (int k = 0; k < op.operands; ++k) {
    const TensorImpl* tensor = operands[k].tensor();
    if (tensor == nullptr) {
      if (compute == kInt && !operands[k].scalar().isIntegral(true)) return false;
      in[k] = nullptr;
    } else {
      if (tensor->dtype != to.dtype) return false;
      in[k] = tensor->data;
      if (same_layout(*tensor, to)) continue;
      if (tensor->numel != 1 || tensor->dim > to.dim) return false;
    }
    constants |= 1u << k;
  }
  if (!dense(to)) return false;
  if (constants == 0) {
    loop(functor, in, to.data, to.numel);
    return true;
  }
  return run_with_constants(op, loop, functor, operands, in, constants, to, compute);
}

void run_elementwise(KernelContext& ctx, const ElementwiseOp& op, const void* functor,
                     const Operand* operands, Tensor& out) {
  if (!kSmallCode && run_plain(op, functor, operands, *out.unsafeGetTensorImpl())) return;
  run_general(ctx, op, functor, operands, out);
}

}  // namespace penlight
