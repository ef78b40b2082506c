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

void rdg_f32_quantise(const rdg_search *search, const float *src, void *dst, int64_t n_columns,
                      const float *importance)
{
    (void)search;
    (void)importance;
    memcpy(dst, src, (size_t)n_columns * sizeof *src);
}

void rdg_f16_quantise(const rdg_search *search, const float *src, void *dst, int64_t n_columns,
                      const float *importance)
{
    unsigned char *p = dst;
    (void)search;
    (void)importance;
    for (int64_t i = 0; i < n_columns; i++) {
        rdg_half h = rdg_half_from_f32(src[i]);
        memcpy(p + 2 * i, &h, 2);
    }
}

void rdg_bf16_quantise(const rdg_search *search, const float *src, void *dst, int64_t n_columns,
                       const float *importance)
{
    unsigned char *p = dst;
    (void)search;
    (void)importance;
    for (int64_t i = 0; i < n_columns; i++) {
        rdg_bfloat16 h = rdg_bfloat16_from_f32(src[i]);
        memcpy(p + 2 * i, &h, 2);
    }
}
