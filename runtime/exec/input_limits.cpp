// Sizes of inputs that are wrong although each is within its tensor's bound.
//
// A tensor in the file says the largest size of each dimension and no more. What else a model
// was traced for lies in the named data "penlight.limits:METHOD": records of seven words of 64
// bits, one for each dimension that there is something to say of. A file without it, as other
// compilers write, has no such limits.
//
// This stands apart from set_input() so that a firmware whose sizes are its own does not
// link it.
#include <penlight/method.h>
#include <string.h>

namespace penlight {

namespace {

struct Limit {
  int64_t input;
  int64_t dim;  // -1: the input is a number
  int64_t least, most;
  int64_t factor, offset;  // of a size that is factor * symbol + offset; 1 and 0 where it is not
  int64_t like;            // an earlier record with the same symbol, or -1
};
static_assert(sizeof(Limit) == 56, "as the compiler writes it");

constexpr int64_t kMost = int64_t{1} << 32;  // of a factor or offset

Limit limit_at(const ArrayRef<uint8_t>& records, size_t index) {
  Limit limit;
  memcpy(&limit, records.data() + index * sizeof limit, sizeof limit);
  return limit;
}

// The size or number that a record speaks of; false when there is no such input.
bool size_of(const Method& method, const Limit& limit, int64_t& size) {
  if (limit.input < 0 || static_cast<uint64_t>(limit.input) >= method.input_count()) return false;
  if (limit.factor < 1 || limit.factor > kMost || limit.offset < -kMost || limit.offset > kMost) return false;
  const Value& value = method.input(static_cast<size_t>(limit.input));
  if (limit.dim < 0) {
    if (value.tag != Tag::Int) return false;
    size = value.as_int;
    return true;
  }
  if (value.tag != Tag::Tensor || limit.dim >= static_cast<int64_t>(value.as_tensor.dim())) return false;
  size = value.as_tensor.sizes()[static_cast<size_t>(limit.dim)];
  return true;
}

Status check_alone(const Limit& limit, int64_t size, Message* message) {
  if (limit.dim < 0) {
    if (size >= limit.least && size <= limit.most) return Status::Ok;
    return fail(message, Status::InvalidArgument, "input {} is {}, from {} to {} is possible", limit.input,
                size, limit.least, limit.most);
  }
  if (size != limit.least && limit.least == limit.most) {
    return fail(message, Status::InvalidArgument, "input {} has size {} in dimension {}, {} is needed",
                limit.input, size, limit.dim, limit.least);
  }
  if (size < limit.least) {
    return fail(message, Status::InvalidArgument,
                "input {} is too small in dimension {}: {}, at least {} is needed", limit.input, limit.dim,
                size, limit.least);
  }
  int64_t rest;
  if (!__builtin_sub_overflow(size, limit.offset, &rest) && rest % limit.factor == 0) return Status::Ok;
  const int64_t plus = (limit.offset % limit.factor + limit.factor) % limit.factor;
  return fail(message, Status::InvalidArgument,
              plus ? "input {} has size {} in dimension {}, a multiple of {} plus {} is needed"
                   : "input {} has size {} in dimension {}, a multiple of {} is needed",
              limit.input, size, limit.dim, limit.factor, plus);
}

Status check_beside(const Limit& limit, int64_t size, const Limit& other, int64_t other_size,
                    Message* message) {
  int64_t wanted;
  const bool known = !__builtin_sub_overflow(other_size, other.offset, &wanted) &&
                     !__builtin_mul_overflow(wanted / other.factor, limit.factor, &wanted) &&
                     !__builtin_add_overflow(wanted, limit.offset, &wanted);
  if (known && size == wanted) return Status::Ok;
  if (!known) wanted = other_size;  // a number far out of what any size can be
  if (message) {
    message->set(limit.dim < 0 ? "input {} is {}" : "input {} has size {} in dimension {}", limit.input, size,
                 limit.dim);
    message->append(", {} is needed: ", wanted);
    message->append(other.dim < 0 ? "input {} is {}" : "input {} has {} in dimension {}", other.input,
                    other_size, other.dim);
  }
  return Status::InvalidArgument;
}

}  // namespace

Status Method::check_inputs(Message* message) {
  if (!program_) return fail(message, Status::InvalidState, "no method is loaded");
  if (!limits_known_) {
    const Status status = program_->named_data("penlight.limits:", name_, limits_);
    if (status != Status::Ok && status != Status::NotFound) {
      return fail(message, status, "the limits of inputs of method {} cannot be read", name_);
    }
    limits_known_ = true;
  }
  const size_t count = limits_.size() / sizeof(Limit);
  bool damaged = count * sizeof(Limit) != limits_.size();
  for (size_t i = 0; i < count && !damaged; ++i) {
    const Limit limit = limit_at(limits_, i);
    int64_t size, other_size;
    if ((damaged = !size_of(*this, limit, size))) break;
    Status status = check_alone(limit, size, message);
    if (status == Status::Ok && limit.like >= 0) {
      if ((damaged = static_cast<uint64_t>(limit.like) >= i)) break;
      const Limit other = limit_at(limits_, static_cast<size_t>(limit.like));
      if ((damaged = !size_of(*this, other, other_size))) break;
      status = check_beside(limit, size, other, other_size, message);
    }
    if (status != Status::Ok) return status;
  }
  if (!damaged) return check_guards(message);
  return fail(message, Status::InvalidProgram, "the limits of inputs of method {} are damaged", name_);
}

}  // namespace penlight
