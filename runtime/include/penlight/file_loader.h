// Loaders for programs in files of an operating system. Hosted only: they allocate.
#pragma once

#include <penlight/loader.h>
#include <penlight/message.h>
#include <penlight/status.h>
#include <stddef.h>
#include <stdint.h>

namespace penlight {

// A file mapped to memory: opening costs nothing per byte, and processes share
// the pages. The mapping is private and writable, so that not even a program that
// names a constant as an output can fault or change the file. A file that somebody
// truncates meanwhile gives SIGBUS when it is read: rename a new one over it instead.
// Where the system can, what runs read whole is mapped in pages of 2 MB: the first run
// faults fewer in, and each run looks up fewer.
class MappedFile : public DataLoader {
 public:
  MappedFile();
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  // AccessFailed when the file is missing or cannot be mapped.
  Status open(const char* path, Message* message);
  const void* data() const { return data_; }

 private:
  static void map_large(DataLoader* self, const void* data, size_t bytes);

  void* data_;
  uint64_t large_first_, large_last_;  // the part that map_large() saw last
};

// A file read in parts, as the program asks for them: for file systems that
// cannot be mapped, or files that are replaced while the program runs.
class ReadFile : public DataLoader {
 public:
  ReadFile();
  ~ReadFile();
  ReadFile(const ReadFile&) = delete;
  ReadFile& operator=(const ReadFile&) = delete;

  Status open(const char* path, Message* message);

 private:
  static const void* load_part(DataLoader* self, uint64_t offset, size_t size);
  static bool read_part(DataLoader* self, uint64_t offset, size_t size, void* into);

  struct Part;
  int file_;
  Part* parts_;
};

}  // namespace penlight
