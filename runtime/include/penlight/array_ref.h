// A view of a run of elements that somebody else owns.
#pragma once

#include <stddef.h>

namespace penlight {

template <class T>
class ArrayRef {
 public:
  constexpr ArrayRef() : data_(nullptr), size_(0) {}
  constexpr ArrayRef(const T* data, size_t size) : data_(data), size_(size) {}
  template <size_t N>
  constexpr ArrayRef(const T (&array)[N]) : data_(array), size_(N) {}

  constexpr const T* data() const { return data_; }
  constexpr size_t size() const { return size_; }
  constexpr bool empty() const { return size_ == 0; }
  constexpr const T& operator[](size_t i) const { return data_[i]; }
  constexpr const T& front() const { return data_[0]; }
  constexpr const T& back() const { return data_[size_ - 1]; }
  constexpr const T* begin() const { return data_; }
  constexpr const T* end() const { return data_ + size_; }
  constexpr ArrayRef slice(size_t start, size_t count) const { return {data_ + start, count}; }

  bool equals(ArrayRef other) const {
    if (size_ != other.size_) return false;
    for (size_t i = 0; i < size_; ++i) {
      if (!(data_[i] == other.data_[i])) return false;
    }
    return true;
  }

 private:
  const T* data_;
  size_t size_;
};

template <class T>
bool operator==(ArrayRef<T> one, ArrayRef<T> other) {
  return one.equals(other);
}
template <class T>
bool operator!=(ArrayRef<T> one, ArrayRef<T> other) {
  return !one.equals(other);
}

// A string that is not necessarily followed by a zero byte.
using StringView = ArrayRef<char>;

// Against a text in quotes, which ends with a zero byte.
inline bool operator==(StringView view, const char* text) {
  for (size_t i = 0; i < view.size(); ++i) {
    if (text[i] == '\0' || view[i] != text[i]) return false;
  }
  return text[view.size()] == '\0';
}
inline bool operator!=(StringView view, const char* text) { return !(view == text); }

}  // namespace penlight
