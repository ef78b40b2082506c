/* The kernels in plain C: what every machine can run. */
#include "profile/roofs_cpu_kernels.h"

#include <string.h>

static uint64_t read_c(void *a, const void *b, const void *c, int64_t n)
{
    const uint64_t *p = a;
    uint64_t sum[16] = {0};
    (void)b, (void)c, (void)n;
    for (size_t i = 0; i < RDG_ROOF_PIECE_BYTES / sizeof *p; i += 16)
        for (int j = 0; j < 16; j++) sum[j] += p[i + j];
    for (int j = 1; j < 16; j++) sum[0] += sum[j];
    return sum[0];
}

static uint64_t write_c(void *a, const void *b, const void *c, int64_t n)
{
    (void)b, (void)c, (void)n;
    memset(a, 1, RDG_ROOF_PIECE_BYTES);
    return 0;
}

static uint64_t copy_c(void *a, const void *b, const void *c, int64_t n)
{
    (void)c, (void)n;
    memcpy(a, b, RDG_ROOF_PIECE_BYTES);
    return 0;
}

static uint64_t triad_c(void *a, const void *b, const void *c, int64_t n)
{
    float *RDG_RESTRICT o = a;
    const float *RDG_RESTRICT x = b, *RDG_RESTRICT y = c;
    (void)n;
    for (size_t i = 0; i < RDG_ROOF_PIECE_BYTES / sizeof *o; i++) o[i] = x[i] + 3.0f * y[i];
    return 0;
}

enum { CHAINS = 32, STEPS = 64 };

static uint64_t multiply_add_f32(void *a, const void *b, const void *c, int64_t n)
{
    float x[CHAINS], sum = 0.0f;
    (void)a, (void)b, (void)c;
    for (int i = 0; i < CHAINS; i++) x[i] = (float)i;
    for (int64_t r = 0; r < n; r++)
        for (int step = 0; step < STEPS; step++)
            for (int i = 0; i < CHAINS; i++) x[i] = x[i] * 0.999f + 0.001f;
    for (int i = 0; i < CHAINS; i++) sum += x[i];
    return (uint64_t)(int64_t)sum;
}

const rdg_roof_kernel rdg_roof_kernels_c[] = {
    {"c", RDG_ROOF_READ, 0, read_c, 0},
    {"c memset", RDG_ROOF_WRITE, 0, write_c, 0},
    {"c memcpy", RDG_ROOF_COPY, 0, copy_c, 0},
    {"c", RDG_ROOF_TRIAD, 0, triad_c, 0},
    {"c multiply, add", RDG_ROOF_FP32, 0, multiply_add_f32, 2.0 * CHAINS *STEPS},
    {0},
};
