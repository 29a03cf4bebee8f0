// Hides AVX-512, AVX10 and AMX from a process, for benchmarks/race.py: what is compared runs as on a
// processor that ends at AVX2, whatever it asks CPUID by itself or through a library. Preloaded:
// Linux lets CPUID fault (arch_prctl(2), ARCH_SET_CPUID), and the handler answers in its place.
//
// Threads and forks inherit it; a program that is started clears it and is preloaded again. Where
// the processor can't let CPUID fault, a process ends at once, with code 77.
#define _GNU_SOURCE
#include <cpuid.h>
#include <dlfcn.h>
#include <signal.h>
#include <stddef.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

#define SET_CPUID 0x1012
#define BIT(n) (1u << (n))

static void let_fault(int faults) {
  if (syscall(SYS_arch_prctl, SET_CPUID, !faults) != 0) _exit(77);
}

static void answer(greg_t* registers) {
  const unsigned leaf = (unsigned)registers[REG_RAX], part = (unsigned)registers[REG_RCX];
  unsigned a, b, c, d;
  let_fault(0);
  __cpuid_count(leaf, part, a, b, c, d);
  let_fault(1);
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

typedef int SetAction(int, const struct sigaction*, struct sigaction*);

static struct sigaction own;  // what the program itself wants done about its faults

static SetAction* system_action(void) {
  static SetAction* found;
  if (!found) found = (SetAction*)dlsym(RTLD_NEXT, "sigaction");
  return found;
}

static void on_fault(int number, siginfo_t* info, void* context) {
  (void)info;
  greg_t* registers = ((ucontext_t*)context)->uc_mcontext.gregs;
  const unsigned char* code = (const unsigned char*)registers[REG_RIP];
  if (code[0] == 0x0f && code[1] == 0xa2) {
    answer(registers);
    registers[REG_RIP] += 2;
    return;
  }
  system_action()(number, &own, NULL);  // not for us: it happens again
}

// Compilers handle faults; the handler here is to stay.
int sigaction(int number, const struct sigaction* action, struct sigaction* old) {
  if (number != SIGSEGV) return system_action()(number, action, old);
  if (old) *old = own;
  if (action) own = *action;
  return 0;
}

sighandler_t signal(int number, sighandler_t handler) {
  struct sigaction action = {0}, old;
  action.sa_handler = handler;
  action.sa_flags = SA_RESTART;
  return sigaction(number, &action, &old) == 0 ? old.sa_handler : SIG_ERR;
}

__attribute__((constructor)) static void hide(void) {
  struct sigaction action = {0};
  action.sa_sigaction = on_fault;
  action.sa_flags = SA_SIGINFO | SA_NODEFER;
  system_action()(SIGSEGV, &action, NULL);
  let_fault(1);
}
