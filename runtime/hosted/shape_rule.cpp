#include "shape_rule.h"

#include <penlight/tensor.h>

#include "core/integer_codes.h"

namespace penlight::hosted {

namespace {

// The codes of an expression, in postfix order. rule_program.py has the same list.
enum Code : int64_t {
  kConstant,  // and the number
  kName,      // and its index
  kArgument,  // and its position: a number
  kItem,      // and the position of a tensor or int[]; takes an index
  kLength,    // and that position, or a list of tensors'
  // Here those of IntegerCode.
  kAbs = kMax + 1,
  kNegate,
  kNot,
  kSame,        // of two, which must be equal
  kJump,        // and over how many codes
  kJumpUnless,  // the same, when a number is zero
  kIsNone,      // and a position
  kTextIs,      // and the position of a string, a count, and so many letters
  kTotal,       // and the position of a list of tensors; takes a dimension
};
// What a result is.
enum Kind : int64_t { kTensor, kLike, kList, kLikeList };
// Parts of its sizes.
enum Part : int64_t { kSpread, kSpreadList, kExpression };

struct Sizes {
  dim_t items[kMaxDim];
  size_t count = 0;

  bool add(dim_t size) {
    if (count == kMaxDim) return false;
    items[count++] = size;
    return true;
  }
};

// One run of a program over the arguments of a call.
class Run {
 public:
  Run(const int64_t* codes, size_t count, Value* const* args)
      : at_(codes), end_(codes + count), args_(args) {}

  bool patterns() {
    const int64_t count = next();
    for (int64_t i = 0; i < count; ++i) {
      if (!pattern()) return false;
    }
    return at_ <= end_;
  }

  bool result(ExpectedResults& expected) {
    const int64_t kind = next();
    if (kind == kLike || kind == kLikeList) {
      const Value& value = *args_[next()];
      if (kind == kLike) {
        return value.tag == Tag::Tensor && expected.push(kNoList) &&
               add(expected, value.as_tensor, kDtypeOfSlot);
      }
      if (!expected.push(item_count(value))) return false;
      return each_tensor(value, false, [&](const Tensor& tensor) {
        return add(expected, tensor, static_cast<int64_t>(tensor.scalar_type()));
      });
    }
    int64_t count = kNoList;
    if (kind == kList) {
      if (!expression(next(), count)) return false;
      if (count < 0) count = 0;
    }
    Sizes sizes;
    const int64_t parts = next();
    for (int64_t i = 0; i < parts; ++i) {
      if (!part(sizes)) return false;
    }
    if (!expected.push(count)) return false;
    for (int64_t i = 0; i < (kind == kList ? count : 1); ++i) {
      if (!expected.push(kDtypeOfSlot) || !expected.push(static_cast<int64_t>(sizes.count))) return false;
      for (size_t d = 0; d < sizes.count; ++d) {
        if (!expected.push(sizes.items[d])) return false;
      }
    }
    return true;
  }

  int64_t next() { return at_ < end_ ? *at_++ : 0; }

 private:
  static bool add(ExpectedResults& expected, const Tensor& like, int64_t dtype) {
    bool added = expected.push(dtype) && expected.push(like.dim());
    for (dim_t d = 0; added && d < like.dim(); ++d) added = expected.push(like.size(d));
    return added;
  }

  static int64_t item_count(const Value& value) {
    if (value.tag == Tag::TensorList) return static_cast<int64_t>(value.as_tensor_list->size);
    if (value.tag == Tag::OptionalTensorList)
      return static_cast<int64_t>(value.as_optional_tensor_list->size);
    return -1;
  }

  // Is it so for each tensor of a list? None may be among them, or not.
  template <class Test>
  static bool each_tensor(const Value& value, bool holes, Test test) {
    const int64_t count = item_count(value);
    for (int64_t i = 0; i < count; ++i) {
      if (value.tag == Tag::TensorList) {
        if (!test(value.as_tensor_list->items[i])) return false;
      } else if (const Optional<Tensor>& item = value.as_optional_tensor_list->items[i]) {
        if (!test(*item)) return false;
      } else if (!holes) {
        return false;
      }
    }
    return count >= 0;
  }

  bool pattern() {
    const int64_t position = next(), before = next(), after = next(), spread = next();
    const int64_t* words = at_;
    at_ += before + after;
    const Value& value = *args_[position];
    if (value.is_none()) return true;  // the schema says where that may be
    const auto fits = [&](const Tensor& tensor) { return matches(tensor, words, before, after, spread); };
    return value.tag == Tag::Tensor ? fits(value.as_tensor) : each_tensor(value, true, fits);
  }

  bool matches(const Tensor& tensor, const int64_t* words, int64_t before, int64_t after, int64_t spread) {
    const dim_t dim = tensor.dim();
    if (spread < 0 ? dim != before : dim < before + after) return false;
    for (int64_t i = 0; i < before; ++i) {
      if (!word(words[i], tensor.size(i))) return false;
    }
    for (int64_t i = 0; i < after; ++i) {
      if (!word(words[before + i], tensor.size(dim - after + i))) return false;
    }
    if (spread < 0) return true;
    spread_known_ |= 1u << spread;
    return broadcast(spreads_[spread], tensor.sizes().slice(static_cast<size_t>(before),
                                                            static_cast<size_t>(dim - before - after)));
  }

  // A number is 2n + 1, a name 2i, anything -1.
  bool word(int64_t word, dim_t size) {
    if (word < 0) return true;
    if (word & 1) return size == word / 2;
    const int64_t name = word / 2;
    if (known_ >> name & 1) return names_[name] == size;
    known_ |= uint32_t{1} << name;
    names_[name] = size;
    return true;
  }

  static bool broadcast(Sizes& into, SizesRef sizes) {
    Sizes joined;
    joined.count = sizes.size() > into.count ? sizes.size() : into.count;
    for (size_t d = 0; d < joined.count; ++d) {
      const size_t from_end = joined.count - d;
      const dim_t a = from_end <= into.count ? into.items[into.count - from_end] : 1;
      const dim_t b = from_end <= sizes.size() ? sizes[sizes.size() - from_end] : 1;
      if (a != b && a != 1 && b != 1) return false;
      joined.items[d] = a == 1 ? b : a;
    }
    into = joined;
    return true;
  }

  bool part(Sizes& sizes) {
    const int64_t kind = next(), which = next();
    switch (kind) {
      case kSpread:
        if (!(spread_known_ >> which & 1)) return false;
        for (size_t i = 0; i < spreads_[which].count; ++i) {
          if (!sizes.add(spreads_[which].items[i])) return false;
        }
        return true;
      case kSpreadList: {
        const Value& list = *args_[which];
        if (list.tag != Tag::IntList) return false;
        for (size_t i = 0; i < list.as_int_list->size; ++i) {
          if (!sizes.add(static_cast<dim_t>(list.as_int_list->items[i]))) return false;
        }
        return true;
      }
      default: {
        int64_t number = 0;
        return expression(which, number) && number >= 0 && sizes.add(static_cast<dim_t>(number));
      }
    }
  }

  bool expression(int64_t count, int64_t& result) {
    const int64_t* end = at_ + count;
    int64_t stack[ShapeRule::kMaxDepth];
    size_t depth = 0;
    while (at_ < end) {
      const int64_t code = next();
      if (code <= kArgument || code == kLength || code == kIsNone) {
        if (depth == ShapeRule::kMaxDepth || !leaf(code, next(), stack[depth])) return false;
        ++depth;
      } else if (code == kTextIs) {
        if (depth == ShapeRule::kMaxDepth) return false;
        stack[depth++] = text_is();
      } else if (code == kJump) {
        at_ += next();
      } else if (code == kJumpUnless) {
        if (depth < 1) return false;
        const int64_t over = next();
        if (!stack[--depth]) at_ += over;
      } else if (code == kItem || code == kTotal) {
        const int64_t which = next();
        if (depth < 1) return false;
        if (!(code == kItem ? item(which, stack[depth - 1]) : total(which, stack[depth - 1]))) return false;
      } else if (code == kAbs || code == kNegate || code == kNot) {
        if (depth < 1) return false;
        int64_t& top = stack[depth - 1];
        top = code == kNot ? top == 0 : code == kNegate || top < 0 ? -top : top;
      } else {
        if (depth < 2 || !binary(code, stack[depth - 2], stack[depth - 1])) return false;
        --depth;
      }
    }
    result = stack[0];
    return depth == 1;
  }

  bool leaf(int64_t code, int64_t which, int64_t& number) const {
    if (code == kConstant) {
      number = which;
    } else if (code == kName) {
      if (!(known_ >> which & 1)) return false;
      number = names_[which];
    } else if (code == kLength) {
      const Value& value = *args_[which];
      if (value.tag == Tag::Tensor) {
        number = value.as_tensor.dim();
      } else if (value.tag == Tag::IntList) {
        number = static_cast<int64_t>(value.as_int_list->size);
      } else {
        number = item_count(value);
        return number >= 0;
      }
    } else if (code == kIsNone) {
      number = args_[which]->is_none();
    } else {
      const Value& value = *args_[which];
      if (value.tag == Tag::Int) {
        number = value.as_int;
      } else if (value.tag == Tag::Bool) {
        number = value.as_bool;
      } else if (value.tag == Tag::Double && value.as_double > -9e18 && value.as_double < 9e18) {
        number = static_cast<int64_t>(value.as_double);
      } else {
        return false;
      }
    }
    return true;
  }

  bool item(int64_t which, int64_t& index) const {
    const Value& value = *args_[which];
    int64_t count = 0;
    if (!leaf(kLength, which, count)) return false;
    if (index < 0) index += count;
    if (index < 0 || index >= count) return false;
    index = value.tag == Tag::Tensor ? value.as_tensor.size(static_cast<dim_t>(index))
                                     : value.as_int_list->items[index];
    return true;
  }

  bool text_is() {
    const Value& value = *args_[next()];
    const int64_t count = next();
    const int64_t* letters = at_;
    at_ += count;
    if (value.tag != Tag::String || static_cast<int64_t>(value.as_string->size()) != count) return false;
    for (int64_t i = 0; i < count; ++i) {
      if (static_cast<uint8_t>(value.as_string->data()[i]) != letters[i]) return false;
    }
    return true;
  }

  // Of the sizes in a dimension, which becomes that.
  bool total(int64_t which, int64_t& number) const {
    int64_t sum = 0;
    const auto add = [&](const Tensor& tensor) {
      const int64_t at = number < 0 ? number + tensor.dim() : number;
      if (at < 0 || at >= tensor.dim()) return false;
      sum += tensor.size(static_cast<dim_t>(at));
      return true;
    };
    if (!each_tensor(*args_[which], true, add)) return false;
    number = sum;
    return true;
  }

  static bool binary(int64_t code, int64_t& a, int64_t b) {
    return code == kSame ? a == b : apply_integers(code, a, b);
  }

  const int64_t *at_, *end_;
  Value* const* args_;
  uint32_t known_ = 0, spread_known_ = 0;
  int64_t names_[ShapeRule::kMaxNames];
  Sizes spreads_[ShapeRule::kMaxSpreads];
};

}  // namespace

bool ShapeRule::apply(Value* const* args, size_t results, ExpectedResults& expected) const {
  Run run(codes_, count_, args);
  if (!run.patterns()) return false;
  for (size_t i = 0; i < results; ++i) {
    if (!run.result(expected)) return false;
  }
  return true;
}

}  // namespace penlight::hosted
