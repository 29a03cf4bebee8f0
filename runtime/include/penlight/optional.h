// A value or nothing. For the small trivially copyable types that kernels take.
#pragma once

namespace penlight {

struct nullopt_t {};
constexpr nullopt_t nullopt{};

template <class T>
class Optional {
 public:
  constexpr Optional() : value_(), present_(false) {}
  constexpr Optional(nullopt_t) : value_(), present_(false) {}
  constexpr Optional(const T& value) : value_(value), present_(true) {}

  constexpr bool has_value() const { return present_; }
  constexpr explicit operator bool() const { return present_; }
  constexpr const T& value() const { return value_; }
  constexpr T value_or(const T& other) const { return present_ ? value_ : other; }
  constexpr const T& operator*() const { return value_; }
  constexpr const T* operator->() const { return &value_; }

 private:
  T value_;
  bool present_;
};

}  // namespace penlight
