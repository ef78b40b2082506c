/* The unquantised types, seen as formats of one element a block. */
#include "quant/quant.h"
#include "base/half.h"

#include <string.h>

void rdg_f32_dequantise(const void *src, float *dst, int64_t n_columns)
{
    memcpy(dst, src, (size_t)n_columns * sizeof *dst);
}

void rdg_f16_dequantise(const void *src, float *dst, int64_t n_columns)
{
    const unsigned char *p = src;
    for (int64_t i = 0; i < n_columns; i++) {
        rdg_half h;
        memcpy(&h, p + 2 * i, 2);
        dst[i] = rdg_half_to_f32(h);
    }
}

void rdg_bf16_dequantise(const void *src, float *dst, int64_t n_columns)
{
    const unsigned char *p = src;
    for (int64_t i = 0; i < n_columns; i++) {
        rdg_bfloat16 h;
        memcpy(&h, p + 2 * i, 2);
        dst[i] = rdg_bfloat16_to_f32(h);
    }
}
