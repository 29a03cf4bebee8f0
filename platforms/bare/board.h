// What a program on a bare board asks of the board. Each function is a weak symbol:
// define your own, over a UART for example, and it is taken instead.
#pragma once

#include <stddef.h>
#include <stdint.h>

// What start-up code fills the stack with, so that one can see how much of it was used.
constexpr uint32_t kStackPaint = 0xC5C5C5C5;

extern "C" {

// Text for a person or a log. The default is semihosting, which a debugger or an
// emulator shows; without one it is dropped.
void penlight_write(const char* text, size_t size);

// The bytes of input `index`, in the dtype and dim order that the program expects.
// False when there are none: the input is then all zeros. The default reads the file
// penlight-input-INDEX.bin by semihosting.
bool penlight_read_input(size_t index, void* into, size_t size);

// Ends the program: 0 when all went well. The default tells the debugger and stops.
[[noreturn]] void penlight_exit(int code);
}
