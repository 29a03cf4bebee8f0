#include <errno.h>
#include <fcntl.h>
#include <penlight/file_loader.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

namespace penlight {

namespace {

// Opens a regular file; -1, with the reason in `message`, when that fails.
int open_regular(const char* path, uint64_t* size, Message* message) {
  // Without waiting: a pipe would block until somebody writes to it.
  const int file = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (file < 0) {
    if (message) {
      message->set(errno == ENOENT ? "no such file: {}" : "cannot open {}: {}", path, strerror(errno));
    }
    return -1;
  }
  struct stat about;
  if (fstat(file, &about) != 0 || !S_ISREG(about.st_mode)) {
    if (message) message->set("not a regular file: {}", path);
    close(file);
    return -1;
  }
  *size = static_cast<uint64_t>(about.st_size);
  return file;
}

constexpr uint64_t kLargePage = 2u << 20;

bool in_file(const DataLoader* self, uint64_t offset, size_t size) {
  return offset <= self->size && size <= self->size - offset;
}

const void* map_part(DataLoader* self, uint64_t offset, size_t size) {
  if (!in_file(self, offset, size)) return nullptr;
  return static_cast<const uint8_t*>(static_cast<MappedFile*>(self)->data()) + offset;
}

}  // namespace

MappedFile::MappedFile()
    : DataLoader{0, map_part, nullptr, map_large}, data_(nullptr), large_first_(0), large_last_(0) {}

MappedFile::~MappedFile() {
  if (data_ && size) munmap(data_, size);
}

Status MappedFile::open(const char* path, Message* message) {
  uint64_t bytes = 0;
  const int file = open_regular(path, &bytes, message);
  if (file < 0) return Status::AccessFailed;
  if (bytes == 0 || bytes > SIZE_MAX) {
    // An empty file cannot be mapped: the program part says what is wrong with it.
    static uint8_t nothing[16];
    close(file);
    if (bytes) {
      if (message) message->set("{} has {} bytes, more than an address can hold", path, bytes);
      return Status::OutOfMemory;
    }
    load = [](DataLoader*, uint64_t offset, size_t count) -> const void* {
      return offset == 0 && count == 0 ? nothing : nullptr;
    };
    return Status::Ok;
  }
  void* mapped = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_NORESERVE, file, 0);
  const int reason = errno;
  close(file);
  if (mapped == MAP_FAILED) {
    if (message) message->set("cannot map {}: {}", path, strerror(reason));
    return Status::AccessFailed;
  }
  data_ = mapped;
  size = bytes;
  return Status::Ok;
}

// Advice only: what the system makes of it shows in its speed alone.
void MappedFile::map_large(DataLoader* self, const void* data, size_t bytes) {
#ifdef MADV_HUGEPAGE
  MappedFile* file = static_cast<MappedFile*>(self);
  const uint64_t offset = reinterpret_cast<uintptr_t>(data) - reinterpret_cast<uintptr_t>(file->data_);
  if (offset >= file->size || bytes == 0) return;  // of another loader
  const uint64_t first = offset / kLargePage * kLargePage;
  uint64_t last = (offset + bytes + kLargePage - 1) / kLargePage * kLargePage;
  if (last > file->size) last = file->size;
  if (last - first < kLargePage || (first >= file->large_first_ && last <= file->large_last_)) return;
  madvise(static_cast<uint8_t*>(file->data_) + first, last - first, MADV_HUGEPAGE);
  file->large_first_ = first, file->large_last_ = last;
#else
  (void)self, (void)data, (void)bytes;
#endif
}

// What was read lies behind this header, shifted so that addresses keep the
// file's alignment.
struct alignas(16) ReadFile::Part {
  Part* next;
};

ReadFile::ReadFile() : DataLoader{0, load_part, read_part}, file_(-1), parts_(nullptr) {}

ReadFile::~ReadFile() {
  while (parts_) {
    Part* next = parts_->next;
    free(parts_);
    parts_ = next;
  }
  if (file_ >= 0) close(file_);
}

Status ReadFile::open(const char* path, Message* message) {
  file_ = open_regular(path, &size, message);
  return file_ < 0 ? Status::AccessFailed : Status::Ok;
}

const void* ReadFile::load_part(DataLoader* self, uint64_t offset, size_t count) {
  if (!in_file(self, offset, count) || count > SIZE_MAX - 64) return nullptr;
  ReadFile* file = static_cast<ReadFile*>(self);
  void* memory = nullptr;
  if (posix_memalign(&memory, 64, sizeof(Part) + 16 + count) != 0) return nullptr;
  Part* part = static_cast<Part*>(memory);
  uint8_t* bytes = static_cast<uint8_t*>(memory) + sizeof(Part) + offset % 16;
  if (!read_part(self, offset, count, bytes)) {
    free(memory);
    return nullptr;
  }
  part->next = file->parts_;
  file->parts_ = part;
  return bytes;
}

bool ReadFile::read_part(DataLoader* self, uint64_t offset, size_t count, void* into) {
  if (!in_file(self, offset, count)) return false;
  uint8_t* to = static_cast<uint8_t*>(into);
  while (count) {
    const ssize_t got = pread(static_cast<ReadFile*>(self)->file_, to, count, static_cast<off_t>(offset));
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return false;
    to += got;
    offset += static_cast<uint64_t>(got);
    count -= static_cast<size_t>(got);
  }
  return true;
}

}  // namespace penlight
