// Start-up of a Cortex-M: vector table, FPU, initialised and zeroed data,
// constructors, then penlight_main().
//
// The linker script (src/penlight/build/bare.py) names the addresses. The stack lies
// at the bottom of RAM, so that one that grows too large faults instead of writing
// over the arena. Handlers are weak: a program with interrupts defines its own, or
// its own vector table in place of this file.
#include <stdint.h>

#include "platforms/bare/board.h"

extern "C" {

extern uint32_t penlight_stack_bottom[], penlight_stack_top[];
extern uint32_t penlight_data_load[], penlight_data_start[], penlight_data_end[];
extern uint32_t penlight_bss_start[], penlight_bss_end[];
using Constructor = void (*)();
extern const Constructor penlight_init_start[], penlight_init_end[];

int penlight_main();
[[noreturn]] void Reset_Handler();

// A HardFault handler is told which fault by the registers that were stacked.
[[noreturn]] __attribute__((weak)) void penlight_fault(const uint32_t* stacked) {
  (void)stacked;
  penlight_exit(139);
}

[[noreturn]] __attribute__((weak)) void Default_Handler() { penlight_exit(138); }

// Semihosting without a debugger ends here (HFSR.DEBUGEVT): the breakpoint is
// skipped and its caller given -1, so that the program goes on without output.
__attribute__((weak, naked)) void HardFault_Handler() {
  __asm__(
      "ldr r0, =0xE000ED2C\n"
      "ldr r1, [r0]\n"
      "cmp r1, #0\n"
      "bpl 1f\n"
      "str r1, [r0]\n"
      "ldr r1, [sp, #24]\n"
      "adds r1, r1, #2\n"
      "str r1, [sp, #24]\n"
      "mov r1, #-1\n"
      "str r1, [sp, #0]\n"
      "bx lr\n"
      "1: mov r0, sp\n"
      "b penlight_fault\n"
      ".ltorg\n");
}

#define PENLIGHT_HANDLER(name) __attribute__((weak, alias("Default_Handler"))) void name();
PENLIGHT_HANDLER(NMI_Handler)
PENLIGHT_HANDLER(MemManage_Handler)
PENLIGHT_HANDLER(BusFault_Handler)
PENLIGHT_HANDLER(UsageFault_Handler)
PENLIGHT_HANDLER(SecureFault_Handler)
PENLIGHT_HANDLER(SVC_Handler)
PENLIGHT_HANDLER(DebugMon_Handler)
PENLIGHT_HANDLER(PendSV_Handler)
PENLIGHT_HANDLER(SysTick_Handler)

using Handler = void (*)();
union Vector {
  uint32_t* stack;
  Handler handler;
};

__attribute__((used, section(".penlight_vectors"))) extern const Vector penlight_vectors[16] = {
    {.stack = penlight_stack_top},
    {.handler = Reset_Handler},
    {.handler = NMI_Handler},
    {.handler = HardFault_Handler},
    {.handler = MemManage_Handler},
    {.handler = BusFault_Handler},
    {.handler = UsageFault_Handler},
    {.handler = SecureFault_Handler},
    {nullptr},
    {nullptr},
    {nullptr},
    {.handler = SVC_Handler},
    {.handler = DebugMon_Handler},
    {nullptr},
    {.handler = PendSV_Handler},
    {.handler = SysTick_Handler},
};

// Apart from Reset_Handler, so that no FPU register is touched before the FPU is on.
[[noreturn]] __attribute__((noinline, used)) static void start() {
  // What is still painted at the end was never used (platforms/bare/main.cpp).
  uint32_t* here;
  __asm__ volatile("mov %0, sp" : "=r"(here));
  for (uint32_t* word = penlight_stack_bottom; word < here; ++word) *word = kStackPaint;
  const uint32_t* from = penlight_data_load;
  for (uint32_t* to = penlight_data_start; to != penlight_data_end; ++to) *to = *from++;
  for (uint32_t* to = penlight_bss_start; to != penlight_bss_end; ++to) *to = 0;
  for (const Constructor* init = penlight_init_start; init != penlight_init_end; ++init) (*init)();
  penlight_exit(penlight_main());
}

void Reset_Handler() {
#if defined(__ARM_FP)
  // Coprocessors 10 and 11 for all (CPACR).
  volatile uint32_t* const access = reinterpret_cast<volatile uint32_t*>(0xE000ED88);
  *access = *access | 0xFu << 20;
  __asm__ volatile("dsb\nisb" ::: "memory");
#endif
  // Faults of other kinds have handlers of their own: easier to tell apart.
  volatile uint32_t* const faults = reinterpret_cast<volatile uint32_t*>(0xE000ED24);
  *faults = *faults | 0x7u << 16;
  start();
}

}  // extern "C"
