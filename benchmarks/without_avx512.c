// Hides AVX-512, AVX10 and AMX from a program and its libraries, for benchmarks/race.py: what is
// compared runs as on a processor that ends at AVX2. An auditor of the dynamic linker (rtld-audit(7)):
// before anything of a file runs, its CPUID instructions, which the file that CPUID_PLACES names
// lists, become invalid ones, and the handler of those answers in their place.
//
// A place is a line: the address within the file, hexadecimal, a blank and the file's path.
#define _GNU_SOURCE
#include <cpuid.h>
#include <limits.h>
#include <link.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>

#define BIT(n) (1u << (n))
#define TEXT_OF(n) #n
#define WIDTH(n) TEXT_OF(n)

static const unsigned char kCpuid[] = {0x0f, 0xa2};
static const unsigned char kInvalid[] = {0x27, 0xa2};  // 27 is none in 64-bit mode

static void answer(greg_t* registers) {
  const unsigned leaf = (unsigned)registers[REG_RAX], part = (unsigned)registers[REG_RCX];
  unsigned a, b, c, d;
  __cpuid_count(leaf, part, a, b, c, d);
  if (leaf == 7 && part == 0) {
    // F, DQ, IFMA, PF, ER, CD, BW, VL
    b &= ~(BIT(16) | BIT(17) | BIT(21) | BIT(26) | BIT(27) | BIT(28) | BIT(30) | BIT(31));
    // VBMI, VBMI2, VNNI, BITALG, VPOPCNTDQ
    c &= ~(BIT(1) | BIT(6) | BIT(11) | BIT(12) | BIT(14));
    // 4VNNIW, 4FMAPS, VP2INTERSECT, AMX-BF16, FP16, AMX-TILE, AMX-INT8
    d &= ~(BIT(2) | BIT(3) | BIT(8) | BIT(22) | BIT(23) | BIT(24) | BIT(25));
  } else if (leaf == 7 && part == 1) {
    a &= ~(BIT(4) | BIT(5) | BIT(21));  // AVX-VNNI, which came after; BF16, AMX-FP16
    d &= ~(BIT(8) | BIT(19));           // AMX-COMPLEX, AVX10
  }
  registers[REG_RAX] = a;
  registers[REG_RBX] = b;
  registers[REG_RCX] = c;
  registers[REG_RDX] = d;
}

static void on_invalid(int number, siginfo_t* info, void* context) {
  (void)info;
  greg_t* registers = ((ucontext_t*)context)->uc_mcontext.gregs;
  if (memcmp((const void*)registers[REG_RIP], kInvalid, sizeof kInvalid) == 0) {
    answer(registers);
    registers[REG_RIP] += sizeof kInvalid;
  } else {
    signal(number, SIG_DFL);  // not for us: it happens again, and ends the process
  }
}

static void replace(unsigned char* code) {
  const uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), from = (uintptr_t)code & ~(page - 1);
  const size_t size = (uintptr_t)code + sizeof kCpuid - from;
  if (memcmp(code, kCpuid, sizeof kCpuid) != 0 ||
      mprotect((void*)from, size, PROT_READ | PROT_WRITE | PROT_EXEC) != 0) {
    fprintf(stderr, "without_avx512: no CPUID that could be replaced at %p\n", (void*)code);
    _exit(1);
  }
  memcpy(code, kInvalid, sizeof kInvalid);
  mprotect((void*)from, size, PROT_READ | PROT_EXEC);
}

unsigned la_version(unsigned version) {
  struct sigaction action = {0};
  action.sa_sigaction = on_invalid;
  action.sa_flags = SA_SIGINFO | SA_NODEFER;
  sigaction(SIGILL, &action, NULL);
  return version;
}

unsigned la_objopen(struct link_map* object, Lmid_t space, uintptr_t* cookie) {
  (void)space, (void)cookie;
  char path[PATH_MAX + 1], named[PATH_MAX + 1];
  const char* list = getenv("CPUID_PLACES");
  const char* name = object->l_name[0] ? object->l_name : "/proc/self/exe";
  FILE* places = list && realpath(name, path) ? fopen(list, "r") : NULL;
  if (!places) return 0;
  unsigned long address;
  while (fscanf(places, "%lx %" WIDTH(PATH_MAX) "[^\n]", &address, named) == 2) {
    if (strcmp(named, path) == 0) replace((unsigned char*)(object->l_addr + address));
  }
  fclose(places);
  return 0;
}
