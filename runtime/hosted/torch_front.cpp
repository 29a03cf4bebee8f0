// What stands before the trampolines of some operators, and sees their arguments as torch has them:
//
//   numbers of any type (Scalar)   for which torch's stable interface has no form: the operator behind
//                                  has ints there, and is given the numbers' bits
//   a fake function in Python      says what results are like; what it said once is remembered, with
//                                  all that it can have seen, as torch does when it traces
//
// A call that is neither goes to the operator's function in Python.
#include <dlfcn.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "c_handles.h"
#include "torch_call.h"
#include "torch_dispatch.h"

using penlight::Status;

namespace penlight::hosted {

Prepared& prepared_call() {
  static thread_local Prepared prepared = {};
  return prepared;
}

namespace {

uint16_t (*default_dtype)();  // caffe2::TypeMeta, which is a number

// All of a call that a fake function can see, one after the other.
class Key {
 public:
  static constexpr size_t kMaxSize = 1024;

  // False for what has no form here, or is too much.
  bool add(const Item& item);
  template <class T>
  bool add_bytes(const T* from, size_t count) {
    if (count > (kMaxSize - size_) / sizeof(T)) return false;
    if (count) memcpy(bytes_ + size_, from, count * sizeof(T));
    size_ += count * sizeof(T);
    return true;
  }
  void clear() { size_ = 0; }
  const uint8_t* bytes() const { return bytes_; }
  size_t size() const { return size_; }

 private:
  bool add_tensor(const Item& item);

  size_t size_ = 0;
  uint8_t bytes_[kMaxSize];
};

bool Key::add_tensor(const Item& item) {
  // What torch's interface calls a tensor's handle is the address of such a word.
  const TorchTensor tensor = reinterpret_cast<TorchTensor>(const_cast<uint64_t*>(&item.payload));
  int64_t dim = 0;
  int64_t *sizes = nullptr, *strides = nullptr;
  int32_t dtype = 0;
  if (torch.dim(tensor, &dim) | torch.sizes(tensor, &sizes) | torch.strides(tensor, &strides) |
      torch.dtype(tensor, &dtype)) {
    return false;
  }
  const size_t count = static_cast<size_t>(dim);
  return add_bytes(&dim, 1) && add_bytes(&dtype, 1) && add_bytes(sizes, count) && add_bytes(strides, count);
}

bool Key::add(const Item& item) {
  if (!add_bytes(&item.tag, 1)) return false;
  if (item.tag == forms.tensor) return add_tensor(item);
  if (item.tag == forms.none) return true;
  if (item.tag == forms.integer || item.tag == forms.real) return add_bytes(&item.payload, 1);
  if (item.tag == forms.boolean) {
    const uint8_t value = (item.payload & 0xff) != 0;
    return add_bytes(&value, 1);
  }
  if (item.tag == forms.list) {
    const Items items = items_of(item);
    const size_t count = static_cast<size_t>(items.end() - items.begin());
    if (!add_bytes(&count, 1)) return false;
    for (const Item& each : items) {
      if (!add(each)) return false;
    }
    return true;
  }
  if (item.tag == forms.text && forms.text_at) {
    const uint64_t* words = reinterpret_cast<const uint64_t*>(item.payload) + forms.text_at;
    return add_bytes(&words[1], 1) && add_bytes(reinterpret_cast<const char*>(words[0]), words[1]);
  }
  return false;
}

// What a fake function said for one key.
struct Answer {
  size_t key_size, count;
  const uint8_t* key() const { return reinterpret_cast<const uint8_t*>(codes() + count); }
  const int64_t* codes() const { return reinterpret_cast<const int64_t*>(this + 1); }
};

struct Front {
  char* name;
  TorchOp op;
  TorchOp behind;
  uint64_t keys;            // to call that with
  uint64_t count, numbers;  // arguments; a bit for each that is a number of any type
  bool faked;
  pthread_mutex_t lock;  // of the answers
  Answer* answers[256];  // each where its key's hash says; a newer one takes the place of an older
  Front* next;           // of the same bucket
};
Front* fronts[256] = {};  // by their operator
thread_local Key asked;   // of the call that goes to Python

Front*& bucket_of(const TorchOp& op) {
  const uint64_t bits = reinterpret_cast<uint64_t>(op.words[0]) >> 4;
  return fronts[(bits ^ bits >> 8 ^ bits >> 16) % 256];
}

size_t place_of(const Key& key) {
  uint64_t hash = 14695981039346656037u;
  for (size_t i = 0; i < key.size(); ++i) hash = (hash ^ key.bytes()[i]) * 1099511628211u;
  return static_cast<size_t>(hash >> 32) % 256;
}

bool recall(Front& front, const Key& key) {
  pthread_mutex_lock(&front.lock);
  const Answer* answer = front.answers[place_of(key)];
  const bool known =
      answer && answer->key_size == key.size() && memcmp(answer->key(), key.bytes(), key.size()) == 0;
  if (known) {
    Prepared& prepared = prepared_call();
    memcpy(prepared.results, answer->codes(), answer->count * sizeof(int64_t));
    prepared.result_count = answer->count;
  }
  pthread_mutex_unlock(&front.lock);
  return known;
}

bool is_number(const Item& item) {
  return item.tag == forms.integer || item.tag == forms.real || item.tag == forms.boolean;
}

void enter(void* functor, const void* op, uint64_t, Stack* stack) {
  Front* found = bucket_of(*static_cast<const TorchOp*>(op));
  while (!(found->op == *static_cast<const TorchOp*>(op))) found = found->next;
  Front& front = *found;
  Item* const given = stack->end - front.count;
  asked.clear();
  bool possible = true;
  for (uint64_t i = 0; i < front.count; ++i) {
    // Complex numbers and symbols are others.
    if (front.numbers >> i & 1) possible = possible && (is_number(given[i]) || given[i].tag == forms.none);
  }
  if (possible && front.faked) {
    const uint16_t dtype = default_dtype();
    possible = asked.add_bytes(&dtype, 1);
    for (uint64_t i = 0; possible && i < front.count; ++i) possible = asked.add(given[i]);
    if (!possible) asked.clear();
    possible = possible && recall(front, asked);
  }
  if (!possible) return below(functor, op, python_keys, stack);
  Prepared& prepared = prepared_call();
  for (uint64_t i = 0; i < front.count; ++i) {
    if (!(front.numbers >> i & 1)) continue;
    const uint32_t tag = given[i].tag;
    prepared.numbers[i] = tag == forms.real      ? NumberKind::Double
                          : tag == forms.boolean ? NumberKind::Bool
                                                 : NumberKind::Int;
    if (tag != forms.none) given[i].tag = forms.integer;
  }
  prepared.ready = true;
  below(functor, &front.behind, front.keys, stack);
}

Front* find_front(const char* name) {
  for (Front* first : fronts) {
    for (Front* front = first; front; front = front->next) {
      if (strcmp(front->name, name) == 0) return front;
    }
  }
  return nullptr;
}

void forget(Front& front) {
  pthread_mutex_lock(&front.lock);
  for (Answer*& answer : front.answers) {
    free(answer);
    answer = nullptr;
  }
  pthread_mutex_unlock(&front.lock);
}

Status add_front(const pl_torch_front& given, Message& message) {
  if (given.count > Prepared::kMaxNumbers) {
    message.set("{} has {} arguments", given.name, given.count);
    return Status::NotSupported;
  }
  if (given.faked && !default_dtype) {
    message.set("this version of torch keeps its default dtype in another way");
    return Status::NotSupported;
  }
  Front* front = find_front(given.name);
  const bool known = front != nullptr;
  if (!known) {
    front = static_cast<Front*>(calloc(1, sizeof(Front)));
    if (!front) return Status::OutOfMemory;
    front->name = strdup(given.name);
    if (!front->name) {
      free(front);
      return Status::OutOfMemory;
    }
    pthread_mutex_init(&front->lock, nullptr);
  }
  memcpy(&front->op, given.op, sizeof front->op);
  memcpy(&front->behind, given.behind, sizeof front->behind);
  front->keys = given.keys;
  front->count = given.count;
  front->numbers = given.numbers;
  front->faked = given.faked != 0;
  forget(*front);
  if (known) return Status::Ok;
  Front*& bucket = bucket_of(front->op);
  front->next = bucket;
  bucket = front;
  return stand_at(given.name, "CPU", enter, message);
}

}  // namespace

void connect_fronts(void* torch) {
  default_dtype = reinterpret_cast<uint16_t (*)()>(dlsym(torch, "_ZN3c1017get_default_dtypeEv"));
}

}  // namespace penlight::hosted

pl_status pl_torch_front_register(const pl_torch_front* described, char* error, size_t error_size) {
  penlight::Message message;
  const Status status = penlight::hosted::add_front(*described, message);
  return penlight::hosted::report(status, message.c_str(), error, error_size);
}

uint64_t pl_torch_front_asked(uint8_t* key, uint64_t size) {
  const penlight::hosted::Key& asked = penlight::hosted::asked;
  if (asked.size() > size) return 0;
  memcpy(key, asked.bytes(), asked.size());
  return asked.size();
}

void pl_torch_front_remember(const char* name, const uint8_t* key, uint64_t key_size, const int64_t* results,
                             uint64_t count) {
  using namespace penlight::hosted;
  Front* front = find_front(name);
  Key whole;
  if (!front || count > Prepared::kMaxResults || !whole.add_bytes(key, key_size)) return;
  Answer* answer = static_cast<Answer*>(malloc(sizeof(Answer) + count * sizeof(int64_t) + key_size));
  if (!answer) return;
  *answer = {key_size, count};
  memcpy(const_cast<int64_t*>(answer->codes()), results, count * sizeof(int64_t));
  memcpy(const_cast<uint8_t*>(answer->key()), key, key_size);
  pthread_mutex_lock(&front->lock);
  Answer*& place = front->answers[place_of(whole)];
  free(place);
  place = answer;
  pthread_mutex_unlock(&front->lock);
}
