#define _GNU_SOURCE /* sched_getaffinity */
#include "base/cpu.h"

#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#if defined(__x86_64__)
#include <cpuid.h>

/* clang 14 does not know the name "f16c" in __builtin_cpu_supports. */
static int has_f16c(void)
{
    unsigned eax, ebx, ecx, edx;
    return __get_cpuid(1, &eax, &ebx, &ecx, &edx) && (ecx & bit_F16C);
}

uint32_t rdg_cpu_features(void)
{
    uint32_t f = 0;
    __builtin_cpu_init();
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("bmi2") &&
        has_f16c())
        f |= RDG_CPU_AVX2;
    if ((f & RDG_CPU_AVX2) && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
        __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq") &&
        __builtin_cpu_supports("avx512cd") && __builtin_cpu_supports("avx512vnni") &&
        __builtin_cpu_supports("avx512vbmi"))
        f |= RDG_CPU_AVX512;
    if ((f & RDG_CPU_AVX512) && __builtin_cpu_supports("avx512bf16")) f |= RDG_CPU_AVX512_BF16;
    return f;
}
#elif defined(__aarch64__)
#include <sys/auxv.h>
uint32_t rdg_cpu_features(void)
{
    return (getauxval(AT_HWCAP) & (1ul << 20)) ? RDG_CPU_NEON : 0; /* bit 20: ASIMDDP */
}
#else
uint32_t rdg_cpu_features(void)
{
    return 0;
}
#endif

/* Reads the decimal number in a one-line file of /sys; -1 if there is none. */
static int read_number(const char *path)
{
    int v = -1;
    FILE *f = fopen(path, "re");
    if (!f) return -1;
    if (fscanf(f, "%d", &v) != 1) v = -1;
    fclose(f);
    return v;
}

int rdg_cpu_physical_cores(void)
{
    cpu_set_t set;
    enum { MAX_SEEN = 1024 };
    int seen_package[MAX_SEEN], seen_core[MAX_SEEN], n = 0, allowed = 0;
    if (sched_getaffinity(0, sizeof set, &set) != 0) return 1;
    for (int cpu = 0; cpu < CPU_SETSIZE && n < MAX_SEEN; cpu++) {
        char path[128];
        if (!CPU_ISSET(cpu, &set)) continue;
        allowed++;
        snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu%d/topology/core_id", cpu);
        int core = read_number(path);
        snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu%d/topology/physical_package_id", cpu);
        int package = read_number(path), i;
        if (core < 0) continue;
        for (i = 0; i < n && (seen_core[i] != core || seen_package[i] != package); i++) {
        }
        if (i == n) {
            seen_core[n] = core;
            seen_package[n++] = package;
        }
    }
    if (n == 0) n = allowed;
    return n > 0 ? n : 1;
}

void rdg_cpu_name(char *out, size_t n)
{
    char line[512];
    FILE *f = fopen("/proc/cpuinfo", "re");
    snprintf(out, n, "unknown");
    if (!f) return;
    while (fgets(line, sizeof line, f)) {
        char *colon = strchr(line, ':');
        if (strncmp(line, "model name", 10) || !colon) continue;
        colon[strcspn(colon, "\n")] = 0;
        snprintf(out, n, "%s", colon + 2);
        break;
    }
    fclose(f);
}

int64_t rdg_cpu_memory_bytes(void)
{
    long pages = sysconf(_SC_PHYS_PAGES), size = sysconf(_SC_PAGESIZE);
    return pages > 0 && size > 0 ? (int64_t)pages * size : 0;
}
