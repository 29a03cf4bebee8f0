// The board by semihosting: BKPT 0xAB with an operation and a block of arguments, which
// a debugger, qemu or our own emulator serves (Arm, "Semihosting for AArch32 and AArch64").
#include <stdint.h>
#include <string.h>

#include "platforms/bare/board.h"

namespace {

enum Operation : uint32_t {
  kOpen = 0x01,
  kClose = 0x02,
  kWrite0 = 0x04,
  kRead = 0x06,
  kExitExtended = 0x20,
};

int32_t semihosting(Operation operation, const void* block) {
  register uint32_t r0 __asm__("r0") = operation;
  register const void* r1 __asm__("r1") = block;
  __asm__ volatile("bkpt 0xAB" : "+r"(r0) : "r"(r1) : "memory");
  return static_cast<int32_t>(r0);
}

}  // namespace

extern "C" {

__attribute__((weak)) void penlight_write(const char* text, size_t size) {
  // SYS_WRITE0 wants a zero behind the text.
  char part[65];
  while (size) {
    const size_t count = size < 64 ? size : 64;
    memcpy(part, text, count);
    part[count] = '\0';
    semihosting(kWrite0, part);
    text += count;
    size -= count;
  }
}

__attribute__((weak)) bool penlight_read_input(size_t index, void* into, size_t size) {
  char name[] = "penlight-input-00.bin";
  name[15] = static_cast<char>('0' + index / 10 % 10);
  name[16] = static_cast<char>('0' + index % 10);
  const uint32_t open[] = {static_cast<uint32_t>(reinterpret_cast<uintptr_t>(name)), 1 /* "rb" */,
                           sizeof name - 1};
  const int32_t file = semihosting(kOpen, open);
  if (file == -1) return false;
  const uint32_t read[] = {static_cast<uint32_t>(file),
                           static_cast<uint32_t>(reinterpret_cast<uintptr_t>(into)),
                           static_cast<uint32_t>(size)};
  const int32_t left = semihosting(kRead, read);  // bytes that were not read
  const uint32_t close[] = {static_cast<uint32_t>(file)};
  semihosting(kClose, close);
  return left == 0;
}

__attribute__((weak)) void penlight_exit(int code) {
  const uint32_t exit[] = {0x20026 /* ADP_Stopped_ApplicationExit */, static_cast<uint32_t>(code)};
  for (;;) semihosting(kExitExtended, exit);
}

}  // extern "C"
