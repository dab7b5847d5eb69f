/* Compiler-specific attributes for the kernels. */
#ifndef GK_COMPILER_H
#define GK_COMPILER_H

#if defined(__GNUC__) || defined(__clang__)
#define INLINE static inline __attribute__((always_inline))
#define OUTLINE static __attribute__((noinline)) /* for a loop that needs all registers */
#define PREFETCH(address) __builtin_prefetch(address)
#define PRAGMA(text) _Pragma(#text)
#define UNROLL(times) PRAGMA(GCC unroll times)
#else
#define INLINE static __forceinline
#define OUTLINE static __declspec(noinline)
#define PREFETCH(address) ((void)(address))
#define UNROLL(times)
#endif

#endif
