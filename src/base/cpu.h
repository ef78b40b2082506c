/* What this CPU offers. One mask; the caller may narrow it (tests iterate over it), nothing is kept in a
 * global. */
#ifndef RDG_BASE_CPU_H
#define RDG_BASE_CPU_H

#include <stddef.h>
#include <stdint.h>

/* A kernel file's suffix names the level it is compiled for; each level includes the ones before it:
 *   _avx2       AVX2, FMA, F16C, BMI2                       (Haswell, Zen and later)
 *   _avx512     AVX-512 F BW VL DQ CD VNNI VBMI             (Ice Lake, Zen 4 and later)
 *   _neon       Armv8 with dot product */
enum {
    RDG_CPU_AVX2 = 1 << 0,
    RDG_CPU_AVX512 = 1 << 1,
    RDG_CPU_NEON = 1 << 2,
    RDG_CPU_AVX512_BF16 = 1 << 3, /* a trait: no file suffix of its own */
};

uint32_t rdg_cpu_features(void);        /* CPUID and OS support, read anew at each call */
int rdg_cpu_physical_cores(void);       /* that this process may run on; at least 1 */
void rdg_cpu_name(char *out, size_t n); /* the CPU's marketing name or "unknown" */
int64_t rdg_cpu_memory_bytes(void);     /* physical memory, 0 if unknown */

#endif
