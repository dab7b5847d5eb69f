// Fibers that switch without the C library, whose swapcontext() makes a system call and whose setjmp() saves every
// register, encrypts addresses and checks the stack.
//
//   place                                a point at which a fiber waits
//   start_at(place, stack, bytes, body)  a place at the start of `body`, on its own stack; `body` never returns
//   SWITCH(from, to)                     saves this point in `from` and continues at `to`
#ifndef GK_FIBERS_H
#define GK_FIBERS_H

#include <stddef.h>
#include <stdint.h>

namespace emulator {

#if defined(__x86_64__)

struct place {
    void *frame, *address, *stack;
};

// No calls and no returns: the processor expects a function to return to its newest call, which is right if the other
// fiber waits in the same function and was called from the same instruction, as all threads of a warp are.
#define SWITCH(from, to) \
    do { \
        emulator::place *from_ = &(from); \
        const emulator::place *to_ = &(to); \
        asm volatile("movq %%rbp, (%0)\n\tleaq 1f(%%rip), %%rax\n\tmovq %%rax, 8(%0)\n\tmovq %%rsp, 16(%0)\n\t" \
                     "movq (%1), %%rbp\n\tmovq 16(%1), %%rsp\n\tjmpq *8(%1)\n1:" \
                     : "+D"(from_), "+S"(to_) \
                     : \
                     : "rax", "rbx", "rcx", "rdx", "r8", "r9", "r10", "r11", "r12", "r13", "r14", "r15", "xmm0", "xmm1", \
                       "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm9", "xmm10", "xmm11", "xmm12", "xmm13", \
                       "xmm14", "xmm15", "cc", "memory"); \
    } while (false)

inline void start_at(place &at, void *stack, size_t bytes, void (*body)()) {
    // As after a call: a multiple of 16, minus the address to which the function would return.
    void **top = reinterpret_cast<void **>((reinterpret_cast<uintptr_t>(stack) + bytes) / 16 * 16) - 1;
    *top = nullptr;
    at = {nullptr, reinterpret_cast<void *>(body), top};
}

#else

} // namespace emulator

#include <setjmp.h>
#include <stdlib.h>
#include <ucontext.h>

namespace emulator {

// The compiler saves the stack pointer, the frame pointer and the address.
#if defined(__aarch64__) && !defined(__clang__)
#define SAVE_PLACE(at) __builtin_setjmp(at)
#define JUMP_TO(at) __builtin_longjmp(at, 1)
typedef void *saved_place[5];
#else
#define SAVE_PLACE(at) _setjmp(at)
#define JUMP_TO(at) _longjmp(at, 1)
typedef jmp_buf saved_place;
#endif

struct place {
    saved_place jump;
    ucontext_t *first; // until it has started
};

// A separate function: the jump must not be in the function that saved its place.
[[noreturn]] __attribute__((noinline)) inline void go_to(place &to) {
    ucontext_t *first = to.first;
    if (!first) JUMP_TO(to.jump);
    to.first = nullptr;
    setcontext(first); // not freed: it is still in use there
    abort();
}

#define SWITCH(from, to) do { if (SAVE_PLACE((from).jump) == 0) emulator::go_to(to); } while (false)

inline void start_at(place &at, void *stack, size_t bytes, void (*body)()) {
    at.first = static_cast<ucontext_t *>(malloc(sizeof *at.first));
    if (!at.first || getcontext(at.first) != 0) abort();
    at.first->uc_stack.ss_sp = stack;
    at.first->uc_stack.ss_size = bytes;
    at.first->uc_link = nullptr;
    makecontext(at.first, body, 0);
}

#endif

} // namespace emulator

#endif
