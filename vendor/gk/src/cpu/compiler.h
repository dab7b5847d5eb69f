/* Compiler-specific attributes for the kernels. */
#ifndef GK_COMPILER_H
#define GK_COMPILER_H

#if defined(__GNUC__) || defined(__clang__)
#define INLINE static inline __attribute__((always_inline))
#define OUTLINE static __attribute__((noinline)) /* for a loop that needs all registers */
#define LOAD_AGAIN() __asm__ volatile("" ::: "memory") /* the compiler forgets what it has loaded from memory */
#define PREFETCH(address) __builtin_prefetch(address)
#define PRAGMA(text) _Pragma(#text)
#define UNROLL(times) PRAGMA(GCC unroll times)
#else
#define INLINE static __forceinline
#define OUTLINE static __declspec(noinline)
#define LOAD_AGAIN() ((void)0)
#define PREFETCH(address) ((void)(address))
#define UNROLL(times)
#endif

#endif
