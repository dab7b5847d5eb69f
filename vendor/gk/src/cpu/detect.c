/* Detects the instruction sets that the processor and the operating system support, and the name of the processor. */
#include "cpu.h"

#include <stdio.h>

#if defined(GK_CPU_X86)

#if defined(_MSC_VER)
#include <intrin.h>
static void cpuid(uint32_t leaf, uint32_t sub, uint32_t r[4]) { __cpuidex((int *)r, (int)leaf, (int)sub); }
static uint64_t enabled_state(void) { return _xgetbv(0); }
#else
#include <cpuid.h>
static void cpuid(uint32_t leaf, uint32_t sub, uint32_t r[4]) { __cpuid_count(leaf, sub, r[0], r[1], r[2], r[3]); }
static uint64_t enabled_state(void) {
    uint32_t low, high;
    __asm__ __volatile__("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    return (uint64_t)high << 32 | low;
}
#endif

static bool has(uint32_t word, int bit) { return (word >> bit & 1u) != 0; }

typedef struct x86_sets {
    bool avx2, avx_vnni, avx512, bf16;
} x86_sets;

/* The processor must have the instructions, and the system must save their registers (XCR0). */
static void x86_levels(x86_sets *out) {
    uint32_t r[4];
    *out = (x86_sets){false};
    cpuid(0, 0, r);
    if (r[0] < 7) return;
    cpuid(1, 0, r);
    bool fma = has(r[2], 12), xsave = has(r[2], 27), f16c = has(r[2], 29);
    if (!xsave || !has(r[2], 28)) return;
    uint64_t state = enabled_state();
    if ((state & 0x6) != 0x6) return;
    cpuid(7, 0, r);
    const uint32_t subleaves = r[0];
    out->avx2 = has(r[1], 5) && fma && f16c;
    bool avx512_all = has(r[1], 16) && has(r[1], 17) && has(r[1], 30) && has(r[1], 31) && has(r[2], 11);
    out->avx512 = out->avx2 && avx512_all && (state & 0xe6) == 0xe6;
    if (subleaves >= 1) {
        cpuid(7, 1, r);
        out->avx_vnni = out->avx2 && has(r[0], 4);
        out->bf16 = out->avx512 && has(r[0], 5);
    }
#if defined(GK_CPU_EMULATE)
    out->avx512 = out->bf16 = true;
    out->avx_vnni = out->avx2;
#endif
}

static bool name_of_processor(char name[64]) {
    uint32_t r[4];
    cpuid(0x80000000u, 0, r);
    if (r[0] < 0x80000004u) return false;
    for (uint32_t n = 0; n < 3; n++) {
        cpuid(0x80000002u + n, 0, r);
        memcpy(name + 16 * n, r, 16);
    }
    name[48] = '\0';
    return name[0] != '\0';
}

int gk_cpu_isas(const cpu_isa *out[CPU_MOST_ISAS]) {
    x86_sets sets;
    int count = 0;
    x86_levels(&sets);
#if defined(GK_CPU_AVX512_BF16)
    if (sets.bf16) out[count++] = &gk_cpu_avx512_bf16;
#endif
    if (sets.avx512) out[count++] = &gk_cpu_avx512;
#if defined(GK_CPU_AVX_VNNI)
    if (sets.avx_vnni) out[count++] = &gk_cpu_avx_vnni;
#endif
    if (sets.avx2) out[count++] = &gk_cpu_avx2;
    out[count++] = &gk_cpu_generic;
    return count;
}

#else

#if defined(__APPLE__)
#include <sys/sysctl.h>
static bool name_of_processor(char name[64]) {
    size_t size = 64;
    return sysctlbyname("machdep.cpu.brand_string", name, &size, NULL, 0) == 0;
}
#elif defined(__linux__)
static bool name_of_processor(char name[64]) {
    FILE *file = fopen("/sys/firmware/devicetree/base/model", "r");
    if (file == NULL) return false;
    size_t size = fread(name, 1, 63, file);
    fclose(file);
    name[size] = '\0';
    return size != 0;
}
#else
static bool name_of_processor(char name[64]) {
    (void)name;
    return false;
}
#endif

#if defined(GK_CPU_NEON) && defined(__APPLE__)
static bool has_dot_product(void) { return true; } /* every Apple silicon Mac */
#elif defined(GK_CPU_NEON) && defined(__linux__)
#include <sys/auxv.h>
static bool has_dot_product(void) { return (getauxval(AT_HWCAP) >> 20 & 1) != 0; } /* HWCAP_ASIMDDP */
#elif defined(GK_CPU_NEON)
static bool has_dot_product(void) { return false; }
#endif

int gk_cpu_isas(const cpu_isa *out[CPU_MOST_ISAS]) {
    int count = 0;
#if defined(GK_CPU_NEON)
    if (has_dot_product()) out[count++] = &gk_cpu_neon;
#endif
    out[count++] = &gk_cpu_generic;
    return count;
}

#endif

void gk_cpu_name(char *out, size_t capacity) {
    char name[64];
    if (!name_of_processor(name)) {
        gk_text(out, capacity, "CPU");
        return;
    }
    /* Some processors pad their name with spaces on either side. */
    char *start = name + strspn(name, " ");
    size_t length = strlen(start);
    while (length != 0 && start[length - 1] == ' ') length--;
    start[length] = '\0';
    gk_text(out, capacity, "%s", length ? start : "CPU");
}
